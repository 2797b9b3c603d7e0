"""From a file to figures in files: what can be drawn from it, drawn and saved.

The work behind `rematsim plot`. Draws with `figures.py`, saves with `output.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from ..errors import InputError, UnknownNameError
from . import figures
from .output import check_suffix, save_figure
from .summaries import trace_order
from .tables import read_run, read_table, select

TABLE_KINDS: dict[str, Callable[[pd.DataFrame], Figure]] = {
    "overhead": figures.overhead_figure,
    "lowest": figures.lowest_budget_figure,
    "ablation": figures.ablation_figure,
    "deallocation": figures.deallocation_figure,
    "accesses": figures.accesses_figure,
}
KINDS = (*TABLE_KINDS, "memory")

# So many traces have room on one figure of a kind; more make several figures.
TRACES_PER_FIGURE = {"overhead": 12, "deallocation": 12, "accesses": 12, "ablation": 4}


def plot(
    source: str | Path,
    kind: str | None = None,
    out: str | Path | None = None,
    **filters: Any,
) -> list[Path]:
    """Draw the figures that a file of runs has in it, and save them.

    Parameters
    ----------
    source : str or Path
        A table of runs (.sqlite or .csv), or a single run (.run).
    kind : str, optional
        One of `KINDS`; by default all that the file has the data for, or, if `out` is a file, the
        first of them.
    out : str or Path, optional
        A file that ends in .png, .svg or .pdf, or a folder; by default the folder of the source,
        for files named like it (``runs-overhead.png``).
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
    if source.suffix.lower() == ".run" and kind in (None, "memory"):
        drawn = [("memory", figures.memory_figure(read_run(source)))]
    elif kind == "memory":
        raise InputError(f"{source}: a table of runs; a plot of memory over time needs a .run file")
    else:
        table = select(read_table(source), filters, str(source))
        kinds = [kind] if kind else drawable_kinds(table)
        drawn = list(_draw(table, kinds[:1] if is_file else kinds, is_asked=kind is not None))
    return _save(drawn, out if is_file else out / f"{source.stem}.png", name_kind=not is_file)


def drawable_kinds(table: pd.DataFrame) -> list[str]:
    """List the kinds of figures that a table of runs has the data for, the main one first."""
    kinds = ["overhead", "lowest"]
    if table["method"].str.startswith("h_abl_").any():
        kinds.append("ablation")
    if "deallocation" in table and table.groupby("method")["deallocation"].nunique().gt(1).any():
        kinds.append("deallocation")
    if "metadata_accesses" in table and table["metadata_accesses"].notna().any():
        kinds.append("accesses")
    return kinds


def _draw(table: pd.DataFrame, kinds: list[str], *, is_asked: bool) -> Iterator[tuple[str, Figure]]:
    """Draw figures of these kinds, a page of traces each."""
    for kind in kinds:
        shown = table
        if not is_asked and "ablation" in kinds and kind in ("overhead", "lowest"):
            named = ~table["method"].str.startswith("h_abl_")
            shown = table[named] if named.any() else table
        traces = trace_order(shown["trace"])
        size = TRACES_PER_FIGURE.get(kind, len(traces))
        for start in range(0, len(traces), size):
            page = shown[shown["trace"].isin(traces[start : start + size])]
            yield kind, TABLE_KINDS[kind](page)


def _save(drawn: list[tuple[str, Figure]], path: Path, *, name_kind: bool) -> list[Path]:
    """Save figures under names made from one path."""
    paths = []
    kinds = [kind for kind, _ in drawn]
    for place, (kind, figure) in enumerate(drawn):
        name = f"{path.stem}-{kind}" if name_kind else path.stem
        if kinds.count(kind) > 1:
            name += f"-{kinds[:place].count(kind) + 1}"
        paths.append(save_figure(figure, path.with_name(name + path.suffix)))
    return paths
