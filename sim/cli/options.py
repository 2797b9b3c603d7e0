"""Options that several sub-commands share, and the types that read their values.

A value that cannot be read is an error of usage (exit code 2), told before anything is loaded.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ..errors import InputError
from ..texts import split_list

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])

# Options of what is run: of replays alone, of all that a machine does, and of all.
OF_A_REPLAY = ("deallocation", "slowdown_limit", "mutation", "count_accesses", "seed")
OF_THE_MACHINE = ("memory", "device", "d2h", "h2d", "latency", "host_memory", "duplex")
OF_A_NEW_RUN = ("budget", *OF_A_REPLAY, *OF_THE_MACHINE)

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

DEALLOCATIONS = click.Choice(["eager", "ignore", "banish"])
MUTATIONS = click.Choice(["copy", "inplace"])
TEXT = click.STRING


debug_option = click.option(
    "--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."
)


class Command(click.Command):
    """A command that refuses a list given twice, of which one would be lost."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        given = [] if ctx.resilient_parsing else self.make_parser(ctx).parse_args(list(args))[2]
        seen: set[click.Parameter] = set()
        for param in given:
            if param in seen and _is_list(param) and not param.multiple:
                name = max(param.opts, key=len)
                raise click.UsageError(f"{name} is given twice: put commas between its values", ctx)
            seen.add(param)
        return super().parse_args(ctx, args)


def _is_list(param: click.Parameter) -> bool:
    return isinstance(param.type, ListOf) or param.type in (BUDGETS, SEEDS)


def command(name: str, *examples: str) -> Callable[[F], click.Command]:
    """Make a sub-command whose help ends with examples, and which knows ``--debug``."""
    title = "Example:" if len(examples) == 1 else "Examples:"
    epilog = "\n".join(["\b", title, *(f"  {example}" for example in examples)])

    def decorate(function: F) -> click.Command:
        made = click.command(name, cls=Command, epilog=epilog, context_settings=SETTINGS)(function)
        return debug_option(made)

    return decorate


class Parsed(ParamType):
    """A value that a function of the package reads, and refuses if it must.

    Parameters
    ----------
    name : str
        What the help calls it.
    module, function : str
        Where the function is; it is imported when there is something to read.
    """

    def __init__(self, name: str, module: str, function: str) -> None:
        self.name, self.module, self.function = name, module, function

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Read it."""
        parse = getattr(importlib.import_module(f"rematsim.{self.module}"), self.function)
        try:
            return parse(value)
        except InputError as error:
            self.fail(str(error), param, ctx)


BUDGET = Parsed("budget", "budgets", "parse_budget")
BUDGETS = Parsed("budgets", "budgets", "expand_budgets")
SEEDS = Parsed("seeds", "grid", "expand_seeds")
CLUSTER = Parsed("address|local:n", "cluster", "parse_cluster")
MEMORY = Parsed("model", "memory_models", "parse_memory")
LINK = Parsed("link", "links", "parse_link")


class SlowdownLimitType(ParamType):
    """A number from 1 up, or ``none``."""

    name = "number|none"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | None:
        """Read it; infinity stands for no limit until `slowdown_limit` is called."""
        if str(value).lower() == "none":
            return math.inf
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number >= 1):
            self.fail(f"{value!r}: a number from 1 up (2 is the paper's), or none", param, ctx)
        return number


def finite(limit: float) -> float | None:
    """Return a limit as simulator and planners take it: None for none."""
    return None if math.isinf(limit) else limit


class FileType(ParamType):
    """A file to write, whose suffix says what it is to those who read it.

    Parameters
    ----------
    suffix : str
        What its name must end in.
    others : str
        What it may end in as well.
    """

    def __init__(self, suffix: str, *others: str) -> None:
        self.suffix = suffix
        self.suffixes = (suffix, *others)
        self.name = f"file{suffix}"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Show the suffix."""
        return f"FILE{self.suffix}"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Check it."""
        if not str(value).lower().endswith(self.suffixes):
            endings = " or ".join(self.suffixes)
            self.fail(f"{value!r}: its name must end in {endings}", param, ctx)
        return str(value)


PLAN_FILE = FileType(".plan", ".plan.gz")


class ListOf(ParamType):
    """Several values of a type, with commas between them; commas in brackets are theirs."""

    def __init__(self, item: ParamType) -> None:
        self.item = item
        self.name = f"{item.name},..."

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Show the item's choices."""
        metavar = self.item.get_metavar(param, ctx)
        return f"{metavar},..." if metavar else None

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[Any, ...]:
        """Split it and read each part."""
        if not isinstance(value, str):
            return tuple(value)
        return tuple(self.item.convert(part, param, ctx) for part in split_list(value))


def _flat(_: object, __: object, lists: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Put what several lists name into one."""
    return tuple(name for part in lists for name in part)


# Of names, in lists or one by one.
REPEATED: dict[str, Any] = {"multiple": True, "type": ListOf(TEXT), "callback": _flat}


def trace_given(trace: str) -> str:
    """Refuse to wait for a trace that somebody would have to type."""
    if trace == "-" and sys.stdin.isatty():
        raise click.UsageError("no TRACE given (a file, or a log on standard input)")
    return trace


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
cache_option = click.option(
    "--no-cache", is_flag=True, help="Neither read nor write the cache of traces."
)
save_run_option = click.option(
    "--save-run", type=FileType(".run"), help="Save row, event log and storages."
)


timeline_option = click.option(
    "--timeline",
    type=FileType(".json"),
    help="Save lanes of calls and transfers, with memory, for Perfetto or chrome://tracing.",
)


def filter_options(function: F) -> F:
    """Add the options that choose rows of a table."""
    for option in reversed(
        [
            click.option("--trace", multiple=True, help="Only this trace; may be repeated."),
            click.option(
                *("--method", "-H", "--heuristic", "method"),
                **REPEATED,
                help="Only these methods; may be repeated.",
            ),
            click.option(
                "--deallocation", **REPEATED, help="Only these policies; may be repeated."
            ),
        ]
    ):
        function = option(function)
    return function


bound_option = click.option(
    "--bound", is_flag=True, help="Say how far above a lower bound it is; takes a second more."
)


def budget_option(default: str) -> Callable[[F], F]:
    """Add the budget of one run."""
    return click.option(
        "--budget",
        default=default,
        show_default=True,
        type=BUDGET,
        help="Bytes (6GiB), a fraction of the unlimited peak (0.5x), or unlimited.",
    )


def seed_option(who: str) -> Callable[[F], F]:
    """Add the seed of what draws lots."""
    return click.option(
        "--seed",
        default=0,
        show_default=True,
        type=click.IntRange(0, 2**32 - 1),
        help=f"For {who} that draw lots.",
    )


def time_limit_option(per: str) -> Callable[[F], F]:
    """Add the time limit of planners."""
    return click.option(
        "--time-limit",
        default=60.0,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        help=f"Seconds that a planner may take{per}; inf for no limit.",
    )


def single(item: ParamType) -> ParamType:
    """Take one value: the counterpart of `ListOf` for `run_options`."""
    return item


def memory_option(listing: Callable[[ParamType], ParamType] = single) -> Callable[[F], F]:
    """Add the memory model."""
    return click.option(
        "--memory",
        default="counter",
        show_default=True,
        type=listing(MEMORY),
        help="Memory model: counter, arena, caching; settings: see rematsim list memory.",
    )


def link_options(listing: Callable[[ParamType], ParamType] = single) -> Callable[[F], F]:
    """Add what connects device and host; `link_given` makes one text, or several, of it."""

    def decorate(function: F) -> F:
        for option in reversed(
            [
                click.option(
                    "--device",
                    default="none",
                    show_default=True,
                    type=listing(LINK),
                    help="What data moves over to the host: h100-pcie5, a100-pcie4, "
                    "link(d2h=24GB/s,h2d=24GB/s), none; see docs/transfers.md.",
                ),
                click.option("--d2h", metavar="RATE", help="Rate to the host: 24GB/s, or inf."),
                click.option("--h2d", metavar="RATE", help="Rate from the host."),
                click.option("--latency", metavar="TIME", help="Of each transfer: 10us."),
                click.option("--host-memory", metavar="BYTES", help="64GiB, or unlimited."),
                click.option("--duplex", type=click.Choice(["full", "half"]), help="Both ways at "
                             "once, or one after the other."),
            ]
        ):  # fmt: skip
            function = option(function)
        return function

    return decorate


def link_given(given: dict[str, Any]) -> Any:
    """Take the options of `link_options` out of what was given; give the link, or links."""
    from ..links import link_with

    names = {"d2h": "d2h", "h2d": "h2d", "latency": "latency", "host": "host_memory"}
    settings = {key: given.pop(name) for key, name in names.items()}
    settings["duplex"] = given.pop("duplex")
    device = given.pop("device")
    try:
        if isinstance(device, str):
            return link_with(device, **settings)
        return tuple(dict.fromkeys(link_with(text, **settings) for text in device))
    except InputError as error:
        raise click.UsageError(str(error)) from None


def run_options(listing: Callable[[ParamType], ParamType]) -> Callable[[F], F]:
    """Add the options of a run; ``listing`` makes a type of one value one of several."""

    def decorate(function: F) -> F:
        for option in reversed(
            [
                click.option(
                    "--deallocation",
                    default="eager",
                    show_default=True,
                    type=listing(DEALLOCATIONS),
                    help="What to do when the program drops its last reference.",
                ),
                click.option(
                    "--slowdown-limit",
                    default="2",
                    show_default=True,
                    type=listing(SlowdownLimitType()),
                    help="Slowdown at which a run counts as thrashing, or none.",
                ),
                click.option(
                    "--mutation",
                    default="copy",
                    show_default=True,
                    type=listing(MUTATIONS),
                    help="How an operator that mutates is replayed.",
                ),
                memory_option(listing),
                click.option(
                    "--count-accesses",
                    is_flag=True,
                    help="Count scores and metadata accesses of the plain algorithm (slower).",
                ),
                cache_option,
            ]
        ):
            function = option(function)
        return function

    return decorate


def refuse_given(context: click.Context, names: Sequence[str], why: str) -> None:
    """Refuse options that are given and would count for nothing."""
    for name in names:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')}: {why}")


def of_simulate(given: dict[str, Any]) -> dict[str, Any]:
    """Give what `run_options`, of one value each, and `seed_option` say as `simulate` takes it."""
    same = ("deallocation", "seed", "mutation", "memory", "count_accesses")
    return {name: given[name] for name in same} | {
        "slowdown_limit": finite(given["slowdown_limit"]),
        "cached": not given["no_cache"],
    }
