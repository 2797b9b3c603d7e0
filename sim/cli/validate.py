"""``rematsim validate``: whether files are traces that can be replayed, or plans that can be run.

Each file gets one line: that it is good, or the first thing in it that is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import RematsimError
from ..traces.wording import printable
from . import options
from .loading import load_given, why_impossible
from .output import print_json

if TYPE_CHECKING:
    from ..traces.trace import Trace

    Verdict = dict[str, Any]


@options.command(
    "validate",
    "rematsim validate logs/*.log.gz",
    "rematsim validate rotor.plan --trace bundled:unet",
)
@click.argument("files", nargs=-1)
@click.option("--trace", help="Run the plans among FILES on this trace, for which they must be.")
@options.json_option
def command(files: tuple[str, ...], trace: str | None, as_json: bool) -> int:
    """Check that files are good traces or plans.

    FILES are trace files, logs or what else rematsim import reads, plain or compressed, .zip files
    of several, or bundled:NAME (see rematsim list traces); - or none reads standard input. Or they
    are plans: their format is checked, and with --trace each action. The exit code is 1 if a file
    cannot be read, or a plan cannot be run.
    """
    loaded = None if trace is None else load_given(trace, cache=True)
    verdicts = []
    for file in files or ("-",):
        found = _verdicts(options.trace_given(file), loaded)
        verdicts.extend(found)
        for verdict in [] if as_json else found:
            state = verdict["error"] or f"{verdict['file']}: ok ({_told(verdict)})"
            click.echo(printable(" ".join(str(state).splitlines())))
    if as_json:
        print_json(verdicts)
    return int(any(verdict["error"] for verdict in verdicts))


def _told(verdict: Verdict) -> str:
    """Say of a good file what it is."""
    if "method" not in verdict:
        return str(verdict["trace"])
    whose = f"{verdict['actions']:,} actions of {verdict['method'] or 'a plan'}"
    return whose if verdict["is_run"] else f"{whose}; not held against its trace: --trace"


def _verdicts(file: str, trace: Trace | None) -> list[Verdict]:
    """Read a file, past the cache: one verdict for each trace in it."""
    from ..plan_files import looks_like_plan

    try:
        return [_of_plan(file, trace)] if looks_like_plan(file) else _of_traces(file)
    except RematsimError as error:
        return [{"file": file, "trace": None, "error": str(error)}]
    except OSError as error:
        return [{"file": file, "trace": None, "error": f"{file}: {error.strerror or error}"}]


def _of_traces(file: str) -> list[Verdict]:
    from ..traces.loading import load_traces

    return [
        {"file": file, "trace": trace.name, "error": None, "calls": trace.n_calls}
        for trace in load_traces([file], cache=False)
    ]


def _of_plan(file: str, trace: Trace | None) -> Verdict:
    from ..plan_files import load_plan

    plan = load_plan(file)
    fault = "" if trace is None else why_impossible(trace, plan, file)
    return {
        "file": file,
        "trace": plan.trace,
        "error": fault or None,
        "method": plan.method,
        "actions": len(plan),
        "is_run": trace is not None,
    }
