"""Redo the simulated evaluation of the DTR paper (Kirisame et al., ICLR 2021) on operator logs.

``python examples/dtr_paper.py --logs dtr-logs.zip`` sweeps heuristics, the ablation grid, the
deallocation policies and the count of metadata accesses, and draws the figures of section 4 and of
the appendices: about a minute on one core, half of it counting accesses. Killed and started again,
it goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import rematsim
from matplotlib.figure import Figure
from rematsim.analysis.figures import (
    ABLATION_SYNONYMS,
    ablation_figure,
    accesses_figure,
    deallocation_figure,
    lowest_budget_figure,
    overhead_figure,
    save_figure,
)
from rematsim.analysis.summaries import lowest_budget_table, lowest_budgets
from rematsim.cli.progress import Progress
from rematsim.errors import RematsimError
from rematsim.heuristics import names
from rematsim.traces.loading import load_traces
from rematsim.traces.trace import Trace
from rematsim.workers import available_cores

BUDGETS = "0.1x:1.0x:0.1x"
SEEDS = "0:9"  # of h_rand; the others run once
HEURISTICS = ("h_DTR", "h_DTR_eq", "h_DTR_local", "h_MSPS", "h_LRU", "h_size", "h_rand")
POLICIES = ("eager", "ignore", "banish")
POLICIES_UNDER = "h_DTR_eq"

# Counting follows the plain algorithm, which walks every neighborhood afresh for every score; it is
# slow, so fewer budgets are looked at. The paper counts these three.
COUNTED = ("h_DTR", "h_DTR_eq", "h_DTR_local")
COUNTED_BUDGETS = "0.2x:1.0x:0.2x"


class Study(NamedTuple):
    """One part of the evaluation: what is swept, and into which file."""

    title: str
    file: str
    heuristics: Sequence[str]
    budgets: str = BUDGETS
    deallocation: Sequence[str] = ("eager",)
    count_accesses: bool = False


def ablations() -> list[str]:
    """Name the points of the ablation grid that are not heuristics under another name."""
    grid = (name for name in names() if name.startswith("h_abl_"))
    return [name for name in grid if name not in ABLATION_SYNONYMS]


def studies() -> list[Study]:
    """List the parts of the evaluation."""
    runs = "runs.sqlite"
    return [
        Study("heuristics", runs, HEURISTICS),
        Study("ablations", runs, ablations()),
        Study("deallocation", runs, (POLICIES_UNDER,), deallocation=POLICIES),
        Study("accesses", "accesses.sqlite", COUNTED, COUNTED_BUDGETS, count_accesses=True),
    ]


def evaluate(traces: Sequence[Trace], out: Path, jobs: int) -> dict[str, pd.DataFrame]:
    """Run every study, or what is left of it; give its table by its title."""
    tables = {}
    for study in studies():
        _say(f"{study.title}: {len(study.heuristics)} heuristics, budgets {study.budgets}")
        with Progress(is_quiet=False) as progress:
            tables[study.title] = rematsim.sweep(
                traces,
                study.heuristics,
                study.budgets,
                deallocation=study.deallocation,
                seeds=SEEDS,
                count_accesses=study.count_accesses,
                jobs=jobs,
                out=out / study.file,
                report=progress.report,
            )
    return tables


def figures(tables: dict[str, pd.DataFrame]) -> Iterator[tuple[str, Figure]]:
    """Draw what the studies found, with the stem of each figure's file."""
    heuristics = tables["heuristics"]
    grid = pd.concat([heuristics, tables["ablations"]], ignore_index=True)
    drawn: list[tuple[str, Callable[[pd.DataFrame], Figure], pd.DataFrame]] = [
        ("heuristics", overhead_figure, heuristics),
        ("lowest_budgets", lowest_budget_figure, heuristics),
        ("ablations", ablation_figure, grid),
        ("deallocation", deallocation_figure, tables["deallocation"]),
        ("accesses", accesses_figure, tables["accesses"]),
    ]
    for stem, draw, table in drawn:
        yield stem, draw(table)


def write_tables(tables: dict[str, pd.DataFrame], out: Path) -> list[Path]:
    """Write every run, and the lowest budget that each heuristic survives on each model."""
    every = pd.concat(list(tables.values()), ignore_index=True)
    parts = {"runs.csv": every, "lowest_budgets.csv": lowest_budgets(tables["heuristics"])}
    for name, table in parts.items():
        table.to_csv(out / name, index=False)
    return [out / name for name in parts]


def main(arguments: Sequence[str] | None = None) -> None:
    """Redo the evaluation and name the files written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--logs", nargs="+", required=True, help="operator logs, or a zip of them (dtr-logs.zip)"
    )
    parser.add_argument("--out", type=Path, default=Path("out/dtr_paper"), help="folder to fill")
    parser.add_argument("--jobs", type=int, default=available_cores(), help="processes")
    parser.add_argument("--format", choices=["png", "svg", "pdf"], default="png")
    given = parser.parse_args(arguments)
    out: Path = given.out
    traces = load_traces(given.logs)
    out.mkdir(parents=True, exist_ok=True)
    tables = evaluate(traces, out, given.jobs)
    files = write_tables(tables, out)
    files += [save_figure(drawn, out / f"{s}.{given.format}") for s, drawn in figures(tables)]
    print("Lowest budget survived, as a fraction of the unlimited peak (and the slowdown there)\n")
    print(lowest_budget_table(tables["heuristics"]).to_string(), "\n")
    for file in [*dict.fromkeys(out / study.file for study in studies()), *files]:
        print(file)


def _say(text: str) -> None:
    print(f"dtr_paper: {text}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (RematsimError, OSError) as error:
        sys.exit(f"dtr_paper.py: {error}")
    except KeyboardInterrupt:
        sys.exit("dtr_paper.py: interrupted; the same command goes on where this one was")
