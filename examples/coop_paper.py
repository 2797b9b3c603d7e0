"""Redo the evaluation of Coop (Zhang et al., NeurIPS 2023) on the bundled traces and on logs.

``python examples/coop_paper.py [--logs dtr-logs.zip]`` sweeps DTR, DTE and Coop in an arena of the
budget: slowdown, fragmentation and search against the budget, the smallest budget that each
survives, and the ablation (window alone, with partitioning, with updates in place). Beside the
fragmentation of each run stands that of a static address plan for what it had in memory. Where Coop
survives less than DTR, its event log says why. Minutes on two cores. Killed and started again, it
goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import rematsim
from matplotlib.figure import Figure
from rematsim.addressing import address_plan
from rematsim.analysis.figures import address_figure, overhead_figure, save_figure
from rematsim.analysis.lines import PanelOfLines, Quantity, lines_figure, trace_note
from rematsim.analysis.summaries import curves, lowest_budgets, trace_order
from rematsim.budgets import expand_budgets
from rematsim.buffers import max_load
from rematsim.cli.progress import Progress
from rematsim.errors import RematsimError
from rematsim.lifetimes import buffers_of_run
from rematsim.opcodes import ACTIONS
from rematsim.result import RunResult, named
from rematsim.simulation import simulate
from rematsim.traces.bundled import bundled_traces
from rematsim.traces.loading import load_trace, load_traces
from rematsim.traces.trace import Trace
from rematsim.workers import available_cores, local_workers

BUDGETS = "0.2x:1.0x:0.05x"
PLAN_SECONDS = 10.0


class Line(NamedTuple):
    """One line of the figures: a heuristic, the memory model, and the lowering."""

    name: str
    heuristic: str
    memory: str = "arena"
    mutation: str = "copy"


# As DTR is in the code of Coop's authors: one by one, but with dropping and in place.
ONE_BY_ONE = "Coop(window=false,partition=none,drop=true)"
LINES = (
    Line("DTR, bytes counted", "h_DTR_eq", "counter"),
    Line("DTR", "h_DTR_eq"),
    Line("DTE", "h_DTE"),
    Line("DTR, in place", "h_DTR_eq", mutation="inplace"),
    Line("Coop, window alone", "Coop(partition=none)"),
    Line("Coop, and partition", "Coop"),
    Line("Coop", "Coop", mutation="inplace"),
    Line("Coop, partition by density", "Coop(partition=density)", mutation="inplace"),
    Line("Coop, and dropping", "Coop(drop=true)", mutation="inplace"),
    Line("one by one, and dropping", ONE_BY_ONE, mutation="inplace"),
)
MAIN = ("DTR, bytes counted", "DTR", "DTE", "Coop")
EXPLAINED = ("DTR", "Coop, window alone", "Coop, and partition", "Coop", "Coop, and dropping")
ABLATION = tuple(line.name for line in LINES if line.memory == "arena")

SAME_RUN = ["trace_digest", "method", "memory", "mutation", "budget_bytes", "evict_sha"]
PLANNED = ["plan_bytes", "load_bytes"]

FRAGMENTATION = Quantity("free bytes / budget, before placing", floor=0.0)
SEARCH = Quantity("pieces looked at for an eviction", floor=None, is_log=True)


def evaluate(traces: Sequence[Trace], given: argparse.Namespace) -> pd.DataFrame:
    """Run every line, or what is left of it; the column ``line`` names them.

    Budgets are the same bytes for all lines: fractions of the unlimited peak with copies.
    """
    tables = []
    for trace in traces:
        peak = unlimited_peak(trace)
        budgets = [int(budget.value * peak) for budget in expand_budgets(given.budgets)]
        _say(f"{trace.name}: {len(LINES)} lines, {len(budgets)} budgets")
        for memory, mutation in dict.fromkeys((line.memory, line.mutation) for line in LINES):
            asked = [line for line in LINES if (line.memory, line.mutation) == (memory, mutation)]
            with Progress(is_quiet=False) as progress:
                table = rematsim.sweep(
                    trace,
                    [line.heuristic for line in asked],
                    budgets,
                    memory=memory,
                    mutation=mutation,
                    jobs=given.jobs,
                    out=given.out / "runs.sqlite",
                    report=progress.report,
                )
            names = {line.heuristic: line.name for line in asked}
            tables.append(table.assign(line=table["method"].map(names), unlimited_peak_bytes=peak))
    table = pd.concat(tables, ignore_index=True)
    fraction = table["budget_bytes"] / table["unlimited_peak_bytes"]
    steps = table["search_steps"] / table["pressure_evictions"].mask(lambda n: n == 0)
    return table.assign(
        budget_fraction=fraction.astype("float64").round(4),
        steps_per_eviction=steps.astype("float64"),
    )


def with_plans(
    table: pd.DataFrame, traces: Sequence[Trace], given: argparse.Namespace
) -> pd.DataFrame:
    """Add what a static address plan leaves free for the same lifetimes, as `static_plan`.

    That is what it needs above the most bytes that live at once, over the budget. Plans that are
    known from before (``plans.csv``) are not made again.
    """
    path = given.out / "plans.csv"
    known = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=[*SAME_RUN, *PLANNED])
    chosen = table["line"].isin(MAIN[1:]) & table["status"].eq("ok")
    wanted = table[chosen & table["fragmentation"].notna()].merge(known, on=SAME_RUN, how="left")
    missing = wanted[wanted["plan_bytes"].isna()]
    by_digest = {trace.digest: trace for trace in traces}
    groups = [rows for _, rows in missing.groupby(["trace_digest", "line"])]
    _say(f"static address plans of {len(missing)} runs")
    with local_workers(given.jobs or available_cores()) as workers:
        running = {
            workers.submit(plan_runs, by_digest[rows["trace_digest"].iloc[0]], rows)
            for rows in groups
        }
        while running:
            for ended in workers.wait(running):
                running.remove(ended)
                known = pd.concat([known, ended.result()], ignore_index=True)
                known.to_csv(path, index=False)
    table = table.merge(known, on=SAME_RUN, how="left")
    above = (table["plan_bytes"] - table["load_bytes"]).astype("float64")
    return table.assign(static_plan=above / table["budget_bytes"].astype("float64"))


def plan_runs(trace: Trace, rows: pd.DataFrame) -> pd.DataFrame:
    """Repeat runs of one line with an event log; plan addresses for what they had in memory."""
    line = next(line for line in LINES if line.name == rows["line"].iloc[0])
    found = []
    for budget in rows["budget_bytes"]:
        run = simulate(
            trace, line.heuristic, int(budget), event_log=True,
            memory=line.memory, mutation=line.mutation,
        )  # fmt: skip
        load = max_load(buffers_of_run(run))
        found.append((address_plan(run, "first-fit", time_limit=None), load))
    plans = pd.DataFrame(found, columns=PLANNED, index=rows.index)
    return pd.concat([rows[SAME_RUN], plans], axis=1)


def unlimited_peak(trace: Trace) -> int:
    """Give the peak of a trace without a budget, with copies."""
    return simulate(trace, "h_LRU", cached=False).unlimited_peak_bytes


def figures(table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """Draw what was found, with the stem of each figure's file."""
    for stem, names in (("overhead", MAIN), ("ablation", ABLATION)):
        chosen = table[table["line"].isin(names)]
        alike = chosen.assign(method=chosen["line"], memory="arena", mutation="copy")
        yield stem, overhead_figure(alike)
    addressed = table[table["line"].isin(MAIN[1:])]
    for stem, column, quantity in (
        ("fragmentation", "fragmentation", FRAGMENTATION),
        ("search", "steps_per_eviction", SEARCH),
    ):
        shown = addressed[addressed[column].notna()]
        points = curves(shown, column)
        if column == "fragmentation":
            plans = shown[["trace", "line", "budget_bytes", "static_plan"]]
            points = points.merge(plans, on=["trace", "line", "budget_bytes"], how="left")
        yield stem, _against_budget(points, quantity)


def _against_budget(points: pd.DataFrame, quantity: Quantity) -> Figure:
    panels = []
    for trace in trace_order(points["trace"]):
        of_trace = points[points["trace"].eq(trace)]
        panels.append(PanelOfLines(trace, trace_note(of_trace), of_trace))
    return lines_figure(panels, quantity, [name for name in MAIN if name in set(points["line"])])


def smallest(table: pd.DataFrame) -> pd.DataFrame:
    """Lay out the smallest budget that each line survives: a row a trace, fractions of the peak."""
    found = lowest_budgets(table)
    wide = found.pivot(index="trace", columns="line", values="lowest_fraction")
    wide = wide.reindex(index=trace_order(found["trace"]), columns=[line.name for line in LINES])
    return wide.round(3)


def fragmentation(table: pd.DataFrame) -> pd.DataFrame:
    """Average slowdown, fragmentation and steps over the budgets that all main lines survive."""
    main = table[table["line"].isin(MAIN) & table["status"].eq("ok")]
    survivors = main.groupby(["trace", "budget_fraction"])["line"].transform("nunique")
    both = main[survivors.eq(len(MAIN)) & main["pressure_evictions"].gt(0)]
    columns = ["slowdown", "fragmentation", "static_plan", "steps_per_eviction"]
    columns.append("pressure_evictions")
    return both.groupby(["trace", "line"])[columns].mean()


def explain(trace: Trace, budget: float) -> Iterator[dict[str, Any]]:
    """Say what DTR and Coop did at a budget that only DTR survives, from their event logs."""
    for line in LINES:
        if line.name in EXPLAINED:
            run = simulate(
                trace, line.heuristic, int(budget * unlimited_peak(trace)), event_log=True,
                memory=line.memory, mutation=line.mutation,
            )  # fmt: skip
            yield {"trace": trace.name, "budget": budget, "line": line.name, **_told(run)}


def _told(run: RunResult) -> dict[str, Any]:
    """Sum up an event log: what went, how often the same, and what it cost to have it again."""
    assert run.events is not None and run.storages is not None
    log = run.events
    evicted = log["storage"][log["action"] == ACTIONS.index("evict")]
    again = log["action"] == ACTIONS.index("recompute")
    spent = pd.Series((log["end_ns"] - log["start_ns"])[again], dtype=float)
    spent_by = spent.groupby(run.storages["operator"][log["storage"][again]]).sum()
    top = spent_by.nlargest(3) / max(spent_by.sum(), 1.0)
    return {
        "status": run.status,
        "reached": float(run.model_ns) / max(run.base_compute_ns, 1),
        "slowdown so far": (run.model_ns + run.remat_ns) / max(run.model_ns, 1),
        "evictions": len(evicted),
        "of the same storage": len(evicted) - len(np.unique(evicted)),
        "mean bytes": float(run.storages["bytes"][evicted].mean()) if len(evicted) else 0.0,
        "small ones": float(
            (run.storages["bytes"][evicted] < 0.001 * (run.budget_bytes or 1)).mean()
        )
        if len(evicted)
        else 0.0,
        "fragmentation": run.fragmentation,
        "largest hole": run.largest_hole_bytes,
        "recomputed most": ", ".join(f"{name} {share:.0%}" for name, share in top.items()),
        "message": run.message,
    }


def reasons(table: pd.DataFrame, traces: Sequence[Trace]) -> pd.DataFrame:
    """Explain each trace on which Coop needs a larger budget than DTR."""
    lowest = smallest(table)
    rows: list[dict[str, Any]] = []
    for trace in traces:
        name = named(trace.name, "estimated" if trace.times_estimated else "measured")
        dtr, coop = lowest.loc[name, "DTR"], lowest.loc[name, "Coop"]
        if np.isnan(dtr) or not (np.isnan(coop) or coop > dtr):
            continue
        _say(f"why: {trace.name} at {dtr:g}")
        rows += explain(trace, float(dtr))
    return pd.DataFrame(rows)


def draw_maps(trace: Trace, budget: float, out: Path) -> Iterator[Path]:
    """Draw the address maps of DTR and Coop at a budget."""
    for line in LINES:
        if line.name in ("DTR", "Coop"):
            run = simulate(
                trace, line.heuristic, budget, memory=line.memory, mutation=line.mutation,
                event_log=True, slowdown_limit=4.0,
            )  # fmt: skip
            figure = address_figure(run, address_plan(run, time_limit=PLAN_SECONDS))
            yield save_figure(figure, out / f"map-{trace.name}-{line.name}.png")


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--logs", nargs="+", default=[], help="operator logs, or a zip of them")
    parser.add_argument(
        "--traces", nargs="*", default=list(bundled_traces()), help="bundled traces; default: all"
    )
    parser.add_argument("--map", default="gpt", help="the bundled trace that maps are drawn of")
    parser.add_argument("--map-budget", type=float, default=0.4)
    parser.add_argument("--budgets", default=BUDGETS)
    parser.add_argument("--out", type=Path, default=Path("out/coop_paper"), help="folder to fill")
    parser.add_argument("--jobs", type=int, help="processes; default: as the work is worth")
    parser.add_argument("--format", choices=["png", "svg", "pdf"], default="png")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Redo the evaluation and name the files written."""
    given = read_options(arguments)
    traces = [load_trace(f"bundled:{name}") for name in given.traces] + load_traces(given.logs)
    given.out.mkdir(parents=True, exist_ok=True)
    table = with_plans(evaluate(traces, given), traces, given)
    lowest, means = smallest(table), fragmentation(table)
    why = reasons(table, traces)
    parts = {"runs": table, "smallest": lowest, "means": means, "why": why}
    for name, part in parts.items():
        part.to_csv(given.out / f"{name}.csv", index=name in ("smallest", "means"))
    files = [given.out / f"{name}.csv" for name in parts]
    files += [save_figure(f, given.out / f"{stem}.{given.format}") for stem, f in figures(table)]
    files += draw_maps(load_trace(f"bundled:{given.map}"), given.map_budget, given.out)
    print("Smallest budget survived, as a fraction of the unlimited peak\n")
    print(lowest.to_string(), "\n")
    print("Means over the budgets that all survive\n")
    print(means.to_string(), "\n")
    print("Where Coop needs more than DTR\n")
    print(why.to_string() if len(why) else "nowhere", "\n")
    print("Written:")
    for file in files:
        print(file)


def _say(text: str) -> None:
    print(f"coop_paper: {text}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (RematsimError, OSError) as error:
        sys.exit(f"coop_paper.py: {error}")
    except KeyboardInterrupt:
        sys.exit("coop_paper.py: interrupted; the same command goes on where this one was")
