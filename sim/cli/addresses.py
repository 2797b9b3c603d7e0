"""``rematsim addresses``: a static address plan for a run, or for a set of buffers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .output import check_writable, format_bytes, format_count, print_fields, print_json, tell
from .progress import Waiting
from .replay import NOT_OK

if TYPE_CHECKING:
    from ..addressing import Addressed
    from ..buffers import Buffers

CSV_FILE = options.FileType(".csv")


@options.command(
    "addresses",
    "rematsim addresses model.run",
    "rematsim addresses model.run --capacity 6GiB -o addresses.csv",
    "rematsim addresses buffers.csv --method stacking --time-limit 10 --json",
)
@click.argument("source", metavar="RUN_OR_CSV")
@click.option(
    "--method",
    default="auto",
    show_default=True,
    help="auto, first-fit, best-fit, reordering, stacking (a tree search) or cp-sat.",
)
@click.option(
    "--capacity",
    type=options.Parsed("bytes", "budgets", "parse_bytes"),
    help="Stop at the first plan that fits in so many bytes (6GiB).",
)
@click.option(
    "--round",
    "rounding",
    type=click.IntRange(1, 2**30),
    help="Round sizes and addresses up to multiples of it. Default: 512 for a run, 1 for a CSV.",
)
@options.time_limit_option("")
@options.seed_option("methods")
@click.option("-o", "--out", type=CSV_FILE, help="Save the plan.")
@options.json_option
def command(source: str, out: str | None, as_json: bool, **given: Any) -> int:
    """Plan addresses afterwards, when all lifetimes are known.

    RUN_OR_CSV is a file from rematsim replay --save-run, whose own allocations get addresses, or a
    CSV of buffers (id,lower,upper,size). The height of the plan is what an allocator that knows all
    in advance needs; the maximum load, the most bytes that live at once, is what none goes below.
    The exit code is 3 if the plan does not fit in the capacity.
    """
    from ..addressing import plan_addresses
    from ..buffer_files import save_address_plan

    check_writable(out)
    buffers = _buffers(source, given["rounding"])
    limit = options.finite(given["time_limit"])
    with Waiting(f"planning addresses of {format_count(len(buffers))} buffers", limit):
        found = plan_addresses(
            buffers,
            given["method"],
            capacity=given["capacity"],
            time_limit=limit,
            seed=given["seed"],
        )
    if as_json:
        print_json(_facts(found))
    else:
        _print(found)
    if out is not None:
        save_address_plan(found.plan, out)
        tell(f"saved the plan in {out}")
    return 0 if found.fits else NOT_OK


def _buffers(source: str, rounding: int | None) -> Buffers:
    """Read what gets addresses."""
    from ..buffer_files import load_buffers
    from ..lifetimes import ROUNDING, buffers_of_run
    from ..result import load_run

    if Path(source).suffix.lower() == ".run":
        return buffers_of_run(load_run(source), rounding or ROUNDING)
    read = load_buffers(source)
    return read.rounded(rounding) if rounding else read


def _facts(found: Addressed) -> dict[str, object]:
    return {
        "buffers": len(found.plan.buffers),
        "max_load_bytes": found.max_load,
        "height_bytes": found.height,
        "ratio": found.ratio,
        "bound_bytes": found.bound,
        "gap": found.gap,
        "capacity_bytes": found.capacity,
        "fits": found.fits,
        "method": found.method,
        "status": found.status,
        "message": found.message,
        "solve_seconds": found.solve_seconds,
    }


def _print(found: Addressed) -> None:
    """Tell a person."""
    status = f"{found.method}: {found.status}"
    lines = {
        "buffers": format_count(len(found.plan.buffers)),
        "maximum load": _size(found.max_load),
        "height": f"{_size(found.height)}, {found.ratio:.4f} of the maximum load",
        "method": f"{status}: {found.message}" if found.message else status,
    }
    if found.bound > found.max_load:
        lines["bound"] = _size(found.bound)
    if found.gap:
        lines["gap"] = f"{found.gap:.2%}"
    if found.capacity is not None:
        lines["capacity"] = f"{_size(found.capacity)}, {'fits' if found.fits else 'does not fit'}"
    lines["solving"] = f"{found.solve_seconds:.2f} s"
    print_fields(lines)


def _size(count: int) -> str:
    return f"{format_bytes(count)} ({format_count(count)})"
