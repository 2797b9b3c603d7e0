"""``rematsim compare-memory``: a replay against the memory that a profile recorded.

The check of a trace, before anything is concluded from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options
from .output import check_writable, format_bytes, print_json, print_table

if TYPE_CHECKING:
    from ..comparison import Comparison

LABELS = {
    "peak_bytes": "peak",
    "peak_above_start_bytes": "peak above the start",
    "start_bytes": "at the start",
    "end_bytes": "at the end",
    "mean_bytes": "mean",
    "peak_at": "place of the peak",
}


@options.command(
    "compare-memory",
    "rematsim compare-memory step.trace kineto_trace.json",
    "rematsim compare-memory model.run snapshot.pickle --out memory.png",
)
@click.argument("replayed", metavar="RUN_OR_TRACE")
@click.argument("profile", metavar="PROFILE")
@click.option("--device", metavar="NAME", help="Whose memory: cuda:0, cpu (default: the fullest).")
@click.option("--out", metavar="FILE", help="Draw both curves: a .png, .svg or .pdf.")
@options.json_option
@options.cache_option
def command(
    replayed: str, profile: str, device: str | None, out: str | None, as_json: bool, no_cache: bool
) -> None:
    """Hold a replay against the memory that a profile recorded.

    RUN_OR_TRACE is a saved .run, or a trace, which is replayed without a budget. PROFILE is a CUDA
    memory snapshot, a Kineto trace made with profile_memory, or a memory timeline. What PyTorch
    held before the profile began is in its curve where it says so.
    """
    from ..comparison import compare_memory
    from ..result import load_run
    from ..traces.curves import load_curve
    from ..traces.loading import load_trace

    if out is not None:
        from ..analysis.output import check_suffix

        check_suffix(out)
        check_writable(out)
    curve = load_curve(profile, device=device)
    is_run = Path(replayed).suffix.lower() == ".run"
    found = compare_memory(
        load_run(replayed) if is_run else load_trace(replayed, cache=not no_cache), curve
    )
    if as_json:
        print_json(_facts(found))
    else:
        _print(found)
    if out is not None:
        from ..analysis.comparing import compared_memory_figure
        from ..analysis.output import save_figure

        save_figure(compared_memory_figure(found.table()), out)
        click.echo(f"rematsim: drawn in {out}", err=True)


def _facts(found: Comparison) -> dict[str, object]:
    """Give everything but the curves."""
    return {
        "trace": found.trace,
        "profile": found.profile,
        "profile_format": found.profile_format,
        "device": found.device,
        "is_relative": found.is_relative,
        "reserved_peak_bytes": found.reserved_peak_bytes,
        "quantities": found.rows(),
    }


def _print(found: Comparison) -> None:
    """Tell a person."""
    click.echo(f"{found.trace} against {found.profile} ({found.profile_format}, {found.device})")
    rows = []
    for row in found.rows():
        name = str(row["quantity"])
        write = _size if name.endswith("_bytes") else _share
        relative = row["relative"]
        cells = [write(float(row[key])) for key in ("replay", "recorded", "difference")]  # type: ignore[arg-type]
        rows.append([LABELS[name], *cells, "" if relative is None else f"{relative:+.3%}"])
    print_table(["", "replay", "recorded", "difference", ""], rows)
    if found.reserved_peak_bytes is not None:
        click.echo(f"reserved by the allocator at most: {format_bytes(found.reserved_peak_bytes)}")
    if found.is_relative:
        click.echo("the profile counts from what was held when it began, and does not say it")
    elif found.recorded["start_bytes"] == 0 < found.replay["start_bytes"]:
        click.echo(
            "the profile has nothing of what was there before it began (weights): "
            "see the peak above the start"
        )


def _size(count: float) -> str:
    sign = "-" if count < 0 else ""
    return sign + format_bytes(abs(round(count)))


def _share(value: float) -> str:
    return f"{value:.1%}"
