"""``rematsim compare-memory``: a replay against the memory that a profile recorded.

The check of a trace, before anything is concluded from it; and of the model of the allocator, by
the allocator's own events.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..traces.wording import printable
from . import options
from .output import IN_LINE, check_writable, format_bytes, name_cell, print_json, print_table, tell

if TYPE_CHECKING:
    import pandas as pd

    from ..allocation_comparison import AllocationComparison, Difference
    from ..allocator_settings import AllocatorSettings
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
    "rematsim compare-memory snapshot.pickle --allocator-settings max_split_size_mb:128",
)
@click.argument("files", metavar="[RUN_OR_TRACE] PROFILE", nargs=-1, required=True)
@click.option("--device", metavar="NAME", help="Whose memory: cuda:0, cpu (default: the fullest).")
@click.option("--out", metavar="FILE", help="Draw both curves: a .png, .svg or .pdf.")
@click.option(
    "--allocator-settings",
    "settings",
    metavar="KEY:VALUE,...",
    type=options.Parsed("settings", "allocator_settings", "parse_settings"),
    help="Of the model, as in PYTORCH_CUDA_ALLOC_CONF (default: what the profile says).",
)
@options.json_option
@options.cache_option
def command(files: tuple[str, ...], out: str | None, as_json: bool, **given: Any) -> None:
    """Hold a replay against the memory that a profile recorded.

    RUN_OR_TRACE is a saved .run, or a trace, which is replayed without a budget. PROFILE is a CUDA
    memory snapshot, a Kineto trace made with profile_memory, or a memory timeline. What PyTorch
    held before the profile began is in its curve where it says so.

    Without RUN_OR_TRACE the events of the profile's allocator, of a snapshot or a Kineto trace, are
    replayed by the model of PyTorch's caching allocator (--memory caching).
    """
    if len(files) > 2:
        raise click.UsageError(f"{len(files)} files given: it takes RUN_OR_TRACE and PROFILE")
    if len(files) == 2 and given["settings"] is not None:
        raise click.UsageError("--allocator-settings is for a PROFILE alone: a replay has none")
    if out is not None:
        from ..analysis.output import check_suffix

        check_suffix(out)
        check_writable(out)
    if len(files) == 1:
        table = _compare_allocations(files[0], given["device"], given["settings"], as_json)
    else:
        table = _compare_replay(files, given["device"], not given["no_cache"], as_json)
    if out is not None:
        from ..analysis.comparing import compared_memory_figure
        from ..analysis.output import save_figure

        save_figure(compared_memory_figure(table), out)
        tell(f"drawn in {out}")


def _compare_replay(
    files: tuple[str, ...], device: str | None, cached: bool, as_json: bool
) -> pd.DataFrame:
    """Hold a run or a trace against a curve."""
    from ..comparison import compare_memory
    from ..result import load_run
    from ..traces.curves import load_curve
    from ..traces.loading import load_trace

    replayed, profile = files
    curve = load_curve(profile, device=device)
    is_run = Path(replayed).suffix.lower() == ".run"
    found = compare_memory(
        load_run(replayed) if is_run else load_trace(replayed, cache=cached), curve
    )
    if as_json:
        print_json(_facts(found))
    else:
        _print(found)
    return found.table()


def _compare_allocations(
    profile: str, device: str | None, settings: AllocatorSettings | None, as_json: bool
) -> pd.DataFrame:
    """Hold the model of the allocator against the real one."""
    from ..allocation_comparison import compare_allocations
    from ..traces.memory_events import load_events

    found = compare_allocations(load_events(profile, device=device), settings)
    if as_json:
        print_json(_allocation_facts(found))
    else:
        _print_allocations(found)
    return found.table()


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
    where = f"{found.profile} ({found.profile_format}, {found.device})"
    click.echo(f"{name_cell(found.trace, IN_LINE)} against {printable(where)}")
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


def _allocation_facts(found: AllocationComparison) -> dict[str, object]:
    """Give everything but the curves."""
    start = found.start
    return {
        "profile": found.profile,
        "profile_format": found.profile_format,
        "device": found.device,
        "settings": str(found.settings),
        "ignored_settings": list(found.settings.ignored),
        "counts_blocks": found.counts_blocks,
        "streams": found.n_streams,
        "start": {
            "known_from": start.source,
            "segments": len(start.segments),
            "reserved_bytes": start.reserved_bytes,
            "held_bytes": start.held_bytes,
        },
        "frees": found.frees,
        "unseen_frees": found.unseen_frees,
        "unknown_frees": found.unknown_frees,
        "retries": found.retries,
        "allocated": asdict(found.allocated),
        "reserved": None if found.reserved is None else asdict(found.reserved),
        "reuse": asdict(found.reuse),
    }


STARTS = {
    "segments": "what the snapshot's segments say, its events undone",
    "addresses": "the addresses that events name, as far as those show what was held",
    "nothing": "nothing is known: empty",
}


def _print_allocations(found: AllocationComparison) -> None:
    """Tell a person."""
    reuse, start = found.reuse, found.start
    settings = str(found.settings) or "the default settings"
    where = f"{found.profile} ({found.profile_format}, {found.device})"
    click.echo(f"{printable(where)}, replayed by caching")
    click.echo(f"settings: {printable(settings)}")
    if found.settings.ignored:
        click.echo(f"without effect here: {printable(', '.join(found.settings.ignored))}")
    if found.n_streams > 1:
        click.echo(f"allocations on {found.n_streams} streams: the model has one")
    reserved, held = format_bytes(start.reserved_bytes), format_bytes(start.held_bytes)
    click.echo(f"start: {STARTS[start.source]} ({reserved} reserved, {held} of it held)")
    click.echo(
        f"{reuse.allocations:,} allocations, {found.frees:,} frees; {found.unseen_frees:,} of what "
        f"was allocated before, {found.unknown_frees:,} of these unknown to the model"
    )
    rows = [_difference("allocated", found.allocated)]
    if found.reserved is not None:
        name = "reserved" if found.reserved.moves else "reserved (never moves)"
        rows.append(_difference(name, found.reserved))
    header = ["", "model, peak", "recorded, peak", "largest difference", "mean"]
    print_table(header, rows)
    if not found.counts_blocks:
        click.echo("recorded bytes are those asked for; the model's are those of blocks")
    if reuse.reuses:
        click.echo(
            f"{reuse.reuses:,} allocations re-use the place of a block that was freed: the model "
            f"does so for {reuse.predicted:,} ({reuse.predicted / reuse.reuses:.1%}), and for "
            f"{reuse.told:,} ({reuse.told / reuse.reuses:.1%}) when told where all before lay"
        )


def _difference(name: str, found: Difference) -> list[str]:
    """Write a line of the table."""
    share = found.largest_bytes / (found.recorded_peak_bytes or 1)
    return [
        name,
        format_bytes(found.model_peak_bytes),
        format_bytes(found.recorded_peak_bytes),
        f"{format_bytes(found.largest_bytes)} ({share:.4%})",
        format_bytes(round(found.mean_bytes)),
    ]
