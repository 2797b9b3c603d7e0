"""From a file to figures in files: what can be drawn from it, drawn and saved.

The work behind `rematsim plot`. Draws with `figures.py`, saves with `output.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.figure import Figure

from ..errors import InputError, OutputError, UnknownNameError
from ..result import OPTIONS
from . import figures
from .gaps import share_bounds
from .output import METADATA, check_suffix, save_figure
from .solving import solved_rows
from .summaries import trace_order
from .tables import differs, link_of, read_run, read_table, select

if TYPE_CHECKING:
    from ..result import RunResult

TABLE_KINDS: dict[str, Callable[..., Figure]] = {
    "overhead": figures.overhead_figure,
    "lowest": figures.lowest_budget_figure,
    "ablation": figures.ablation_figure,
    "deallocation": figures.deallocation_figure,
    "accesses": figures.accesses_figure,
    "solving": figures.solving_figure,
    "links": figures.links_figure,
    "winners": figures.winners_figure,
}
RUN_KINDS: dict[str, Callable[..., Figure]] = {
    "memory": figures.memory_figure,
    "plan": figures.plan_figure,
    "addresses": figures.address_figure,
    "lanes": figures.lanes_figure,
}
KINDS = (*TABLE_KINDS, *RUN_KINDS)
PLAN_SUFFIXES = (".plan", ".plan.gz")

# So many traces have room on one figure of a kind; more make several figures.
TRACES_PER_FIGURE = {"overhead": 12, "deallocation": 12, "accesses": 12, "ablation": 4}
TRACES_PER_FIGURE |= {"links": 1, "winners": 4}

# Kinds whose axis of slowdowns can be cut.
CUT_KINDS = ("overhead", "links")


def plot(
    source: str | Path,
    kind: str | None = None,
    out: str | Path | None = None,
    run: RunResult | None = None,
    highest: float | None = None,
    plan_bytes: int | None = None,
    **filters: Any,
) -> list[Path]:
    """Draw the figures that a file of runs has in it, and save them.

    Parameters
    ----------
    source : str or Path
        A table of runs (.sqlite or .csv), a single run (.run), or a plan (.plan, .plan.gz).
    kind : str, optional
        One of `KINDS`; by default all that the file has the data for (with the ablations in their
        own figure only), or, if `out` is a file, the first of them.
    out : str or Path, optional
        A file that ends in .png, .svg or .pdf, or a folder; by default the folder of the source.
        Files in a folder are named like the source: ``runs-overhead.png`` of ``runs.sqlite``,
        ``x-memory.png`` of ``x.run``, ``x.plan-memory.png`` of ``x.plan``.
    run : RunResult, optional
        What executing the plan gave, with its event log; needed where `source` is a plan.
    highest : float, optional
        The highest slowdown of the kinds of `CUT_KINDS`, as of `overhead_figure`.
    plan_bytes : int, optional
        The height of a static address plan, for the kind addresses.
    **filters
        Column = value, or a list of values: only these runs of a table.

    Returns
    -------
    list of Path
        The files written. Many traces are spread over several, numbered ``-1``, ``-2``, ...

    Raises
    ------
    InputError
        If the file cannot be read, or has no data for the kind asked for.
    UnknownNameError
        If there is no such kind, or the suffix of `out` is another one.
    OutputError
        If a figure cannot be written.
    """
    source = Path(source)
    if kind is not None and kind not in KINDS:
        raise UnknownNameError(f"unknown kind of plot {kind!r}; known: {', '.join(KINDS)}")
    out = Path(out) if out is not None else source.parent
    is_file = bool(out.suffix) and not out.is_dir()
    if is_file:
        check_suffix(out)
    folder = out.parent if is_file else out
    if not folder.is_dir():
        hint = "" if is_file else f" (a figure's name ends in {', '.join(METADATA)})"
        raise OutputError(f"{out}: there is no folder {folder}{hint}")
    chosen = [kind] if kind else None
    most = 1 if is_file else None
    if is_plan_file(source) and run is None:
        raise InputError(f"{source}: a plan has to be executed to be drawn, and was not")
    if source.suffix.lower() == ".run" and kind not in TABLE_KINDS or run is not None:
        run = read_run(source) if run is None else run
        drawn = _draw_run((chosen or run_kinds(source, run))[:most], run, plan_bytes)
    elif kind in RUN_KINDS:
        raise InputError(f"{source}: a table of runs; a plot of one run needs a .run file")
    else:
        table = select(share_bounds(read_table(source)), filters, str(source))
        drawn = _draw(table, (chosen or drawable_kinds(table))[:most], highest)
    paths = []
    for name, page, figure in drawn:
        stem = out.stem if is_file else f"{_stem(source, name)}-{name}"
        path = out.with_name(stem + page + out.suffix) if is_file else out / f"{stem}{page}.png"
        paths.append(save_figure(figure, path))
    return paths


def drawable_kinds(table: pd.DataFrame) -> list[str]:
    """List the kinds of figures that a table of runs has the data for, the main one first."""
    kinds = ["overhead", "lowest"]
    others = [name for name in OPTIONS if differs(table, name)]  # lines of these kinds mix them
    if _is_ablation(table).any() and not others:
        kinds.append("ablation")
    has_policies = "deallocation" in table and not set(others) - {"deallocation"}
    if has_policies and table.groupby("method")["deallocation"].nunique().gt(1).any():
        kinds.append("deallocation")
    if "metadata_accesses" in table and table["metadata_accesses"].notna().any():
        kinds.append("accesses")
    has_times = {"solve_seconds", "calls", "planner_status"} <= set(table)
    if has_times and solved_rows(table)["calls"].nunique() > 1:  # of one size there is no curve
        kinds.append("solving")
    if link_of(table).nunique() > 1 and not others:
        kinds += ["links", "winners"]
    return kinds


def run_kinds(source: Path, run: RunResult) -> list[str]:
    """List the kinds of figures of a single run, or of a plan, the main one first."""
    kinds = ["plan", "memory"] if is_plan_file(source) else ["memory", "plan"]
    kinds += ["addresses"] * has_addresses(run)
    return [*kinds, "lanes"] if figures.moves_data(run) else kinds


def has_addresses(run: RunResult) -> bool:
    """Say whether the event log of a run knows where things lay."""
    return run.events is not None and bool((run.events["address"] >= 0).any())


def is_plan_file(source: Path) -> bool:
    """Say whether a file is a plan, by its name."""
    return source.name.lower().endswith(PLAN_SUFFIXES)


def _stem(source: Path, kind: str) -> str:
    """Name the figures of a file: files of one folder share none, whatever is drawn of them."""
    is_short = source.suffix == (".run" if kind in RUN_KINDS else ".sqlite")
    return source.stem if is_short else source.name


def _draw_run(
    kinds: list[str], run: RunResult, plan_bytes: int | None
) -> Iterator[tuple[str, str, Figure]]:
    """Draw figures of one run, as `_draw` does those of a table."""
    for kind in kinds:
        more = {"plan_bytes": plan_bytes} if kind == "addresses" else {}
        yield kind, "", RUN_KINDS[kind](run, **more)


def _draw(
    table: pd.DataFrame, kinds: list[str], highest: float | None
) -> Iterator[tuple[str, str, Figure]]:
    """Draw figures of these kinds: kind, number of the page (empty if there is one), figure."""
    named = table[~_is_ablation(table)]
    for kind in kinds:
        is_crowded = "ablation" in kinds and kind in ("overhead", "lowest") and not named.empty
        shown = named if is_crowded else table
        traces = trace_order(shown["trace"])
        size = TRACES_PER_FIGURE.get(kind, len(traces))
        for start in range(0, len(traces), size):
            page = f"-{start // size + 1}" if len(traces) > size else ""
            rows = shown[shown["trace"].isin(traces[start : start + size])]
            options = {"highest": highest} if kind in CUT_KINDS else {}
            yield kind, page, TABLE_KINDS[kind](rows, **options)


def _is_ablation(table: pd.DataFrame) -> pd.Series[bool]:
    """Mark the runs of ablations, which have a figure of their own."""
    return table["method"].str.startswith("h_abl_")
