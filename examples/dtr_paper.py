"""Redo the simulated evaluation of the DTR paper (Kirisame et al., ICLR 2021) on operator logs.

``python examples/dtr_paper.py --logs dtr-logs.zip`` sweeps heuristics, the ablation grid, the
deallocation policies and the count of metadata accesses, and draws the figures of section 4 and of
the appendices: about a minute on one core, half of it counting accesses. ``--graphs FOLDER`` holds
the heuristics against planners on the graphs that the paper compares them on with Checkmate, its
Figure 3: a minute or two on two cores. Killed and started again, it goes on where it was.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
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
    solving_figure,
)
from rematsim.analysis.gaps import gaps
from rematsim.analysis.summaries import lowest_budget_table, lowest_budgets
from rematsim.cli.progress import Progress
from rematsim.errors import RematsimError, TraceError
from rematsim.heuristics import names
from rematsim.lowering import compile_trace
from rematsim.requirements import requirements
from rematsim.traces.importing import import_trace
from rematsim.traces.loading import load_traces
from rematsim.traces.trace import Trace
from rematsim.workers import available_cores

AUTHORS = "repository, github.com/uwsampl/dtr-prototype"

BUDGETS = "0.1x:1.0x:0.1x"
SEEDS = "0:9"  # of h_rand; the others run once
HEURISTICS = ("h_DTR", "h_DTR_eq", "h_DTR_local", "h_MSPS", "h_LRU", "h_size", "h_rand")
POLICIES = ("eager", "ignore", "banish")
POLICIES_UNDER = "h_DTR_eq"

# Counting follows the plain algorithm, which walks every neighborhood afresh for every score; it is
# slow, so fewer budgets are looked at. The paper counts these three.
COUNTED = ("h_DTR", "h_DTR_eq", "h_DTR_local")
COUNTED_BUDGETS = "0.2x:1.0x:0.2x"


# Figure 3: batches of 256, 512 and 32, in microseconds of a V100, as Checkmate profiled them.
GRAPHS = {
    "vgg16_b256_train.json": "VGG16",
    "mobilenet_b512_train.json": "MobileNet",
    "unet_b32_train.json": "U-Net",
}
PLANNERS = (
    *("chen-sqrt", "chen-sqrt(points=articulation)"),
    *("chen-greedy", "chen-greedy(points=articulation)"),
    *("revolve", "optimal"),
)
POINTS, TIME_LIMIT = 6, 5.0  # the paper has 32 budgets and more, and lets Checkmate take an hour
HIGHEST = 1.5  # slowdown in the figure, as in the paper's
COMPARED = "planners.sqlite"


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


def load_logs(paths: Sequence[str]) -> list[Trace]:
    """Read the logs; say where there are some if these are not there."""
    try:
        return load_traces(paths)
    except RematsimError as error:
        if all(Path(path).exists() for path in paths):
            raise
        raise TraceError(f"{error}; the paper's logs are in its authors' {AUTHORS}") from None


def load_graphs(folder: Path) -> list[Trace]:
    """Read the graphs that are there, and say which are not."""
    for file in GRAPHS:
        if not (folder / file).is_file():
            _say(f"{folder / file}: no such file; Figure 3 is drawn without it")
    found = {folder / file: name for file, name in GRAPHS.items() if (folder / file).is_file()}
    return [import_trace([path], name=name, time_unit="us").trace for path, name in found.items()]


def figure_3_budgets(trace: Trace, points: int) -> list[int]:
    """Give the budgets in bytes: from the least that any call needs to what needs no recomputation.

    As many again lie between the least and half as much more (the paper also looks at budgets below
    the least, which are not possible). All are rounded up to thousands.
    """
    least = requirements(compile_trace(trace)).lowest_budget_bytes
    most = rematsim.simulate(trace).unlimited_peak_bytes
    values = [*np.linspace(least, most, points), *np.linspace(least, 1.5 * least, points)]
    return sorted({math.ceil(value / 1000) * 1000 for value in values if value <= most + 1000})


def compare_with_planners(traces: Sequence[Trace], out: Path, given: Options) -> pd.DataFrame:
    """Run heuristics and planners on the graphs; give their table."""
    tables = []
    for trace in traces:
        budgets = figure_3_budgets(trace, given.points)
        _say(f"{trace.name}: {len(PLANNERS)} planners, {len(budgets)} budgets")
        with Progress(is_quiet=False) as progress:
            table = rematsim.sweep(
                trace,
                HEURISTICS,
                budgets,
                seeds=SEEDS,
                methods=PLANNERS,
                time_limit=given.time_limit,
                jobs=given.jobs,
                out=out / COMPARED,
                report=progress.report,
            )
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


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


def figures_of_planners(table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """Draw Figure 3, and how long the planners took."""
    yield "planners", overhead_figure(table, HIGHEST)
    yield "solving", solving_figure(table)


def write_tables(tables: dict[str, pd.DataFrame], out: Path) -> list[Path]:
    """Write every run, and the lowest budget that each heuristic survives on each model."""
    every = pd.concat(list(tables.values()), ignore_index=True)
    parts = {"runs.csv": every, "lowest_budgets.csv": lowest_budgets(tables["heuristics"])}
    for name, table in parts.items():
        table.to_csv(out / name, index=False)
    return [out / name for name in parts]


class Options(argparse.Namespace):
    """What the command line says."""

    logs: list[str]
    graphs: Path | None
    points: int
    time_limit: float
    out: Path
    jobs: int
    format: str


def read_options(arguments: Sequence[str] | None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--logs", nargs="+", default=[], help="operator logs, or a zip of them (dtr-logs.zip)"
    )
    parser.add_argument("--graphs", type=Path, help=f"folder with {', '.join(GRAPHS)}")
    parser.add_argument("--points", type=int, default=POINTS, help="budgets of Figure 3 (32: all)")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT, help="seconds for a plan")
    parser.add_argument("--out", type=Path, default=Path("out/dtr_paper"), help="folder to fill")
    parser.add_argument("--jobs", type=int, default=available_cores(), help="processes")
    parser.add_argument("--format", choices=["png", "svg", "pdf"], default="png")
    given = parser.parse_args(arguments, Options())
    if not given.logs and given.graphs is None:
        parser.error("nothing to do: give --logs, --graphs or both")
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    """Redo the evaluation and name the files written."""
    given = read_options(arguments)
    traces = load_logs(given.logs)
    graphs = load_graphs(given.graphs) if given.graphs else []
    given.out.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    if traces:
        files += redo_evaluation(traces, given)
    if graphs:
        files += redo_figure_3(graphs, given)
    print("Written:")
    for file in files:
        print(file)


def redo_evaluation(traces: Sequence[Trace], given: Options) -> list[Path]:
    """Redo what the logs are for; give the files."""
    out = given.out
    tables = evaluate(traces, out, given.jobs)
    files = [*dict.fromkeys(out / study.file for study in studies()), *write_tables(tables, out)]
    files += [save_figure(drawn, out / f"{s}.{given.format}") for s, drawn in figures(tables)]
    print("Lowest budget survived, as a fraction of the unlimited peak (and the slowdown there)\n")
    print(lowest_budget_table(tables["heuristics"]).to_string(), "\n")
    return files


def redo_figure_3(graphs: Sequence[Trace], given: Options) -> list[Path]:
    """Redo what the graphs are for; give the files."""
    out = given.out
    table = compare_with_planners(graphs, out, given)
    gaps(table).to_csv(out / "gaps.csv", index=False)
    drawn = figures_of_planners(table)
    saved = [save_figure(figure, out / f"{stem}.{given.format}") for stem, figure in drawn]
    return [out / COMPARED, out / "gaps.csv", *saved]


def _say(text: str) -> None:
    print(f"dtr_paper: {text}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (RematsimError, OSError) as error:
        sys.exit(f"dtr_paper.py: {error}")
    except KeyboardInterrupt:
        sys.exit("dtr_paper.py: interrupted; the same command goes on where this one was")
