"""What a trace needs of memory: by pencil, against the corpus, and as a bound that no run beats."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import rematsim
from rematsim.lowering import compile_trace
from rematsim.requirements import Requirements, requirements
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.synthetic import chain, random_dag

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


def test_requirements_of_a_few_calls_by_pencil() -> None:
    """Views take nothing; an operand given twice counts once; constants are those made so far."""
    builder = TraceBuilder("few")
    builder.constant("w", 100)
    builder.call("a", ["w"], [("x", 10, -1)], 1)
    builder.call("view", ["x"], [("v", 0, 0)], 1)
    builder.call("b", ["x", "v", "x"], [("y", 20, -1), ("z", 5, -1)], 1, workspace_bytes=3)
    builder.constant("late", 1000)
    builder.call("c", ["late", "z"], [("out", 7, -1)], 1)
    for name in ("x", "v", "y", "z"):
        builder.release(name)
    # b holds 10 + 20 + 5 + 3 = 38 beside 100; c holds 5 + 7 = 12 beside 1100.
    needs = requirements(compile_trace(builder.build()))
    assert needs == Requirements(1100, 7, 2, 38, 1112, 3)


def test_what_must_be_there_at_the_end_may_need_the_most() -> None:
    """Every output is pinned in the end, together with the constants."""
    builder = TraceBuilder("outputs")
    builder.constant("w", 1)
    for place in range(5):
        builder.call("a", ["w"], [(f"x{place}", 10, -1)], 1)
    assert requirements(compile_trace(builder.build())) == Requirements(1, 50, 0, 10, 51, -1)


def test_a_trace_without_calls_needs_its_constants() -> None:
    """Nothing is largest where there is nothing."""
    builder = TraceBuilder("constants")
    builder.constant("w", 9)
    assert requirements(compile_trace(builder.build())) == Requirements(9, 0, -1, 0, 9, -1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("deallocation", ["eager", "ignore"])
def test_no_run_ends_ok_below_the_lowest_budget(seed: int, deallocation: str) -> None:
    """One byte less is too little for every heuristic."""
    trace = random_dag(seed, is_plain=True)
    lowest = requirements(compile_trace(trace)).lowest_budget_bytes
    for heuristic in ("h_DTR", "h_LRU", "h_size", "h_rand"):
        result = rematsim.simulate(
            trace, heuristic, lowest - 1, deallocation=deallocation, slowdown_limit=None
        )
        assert result.status == "oom"


@pytest.mark.parametrize("units", [3, 12, 24])
@pytest.mark.parametrize("deallocation", ["eager", "banish"])
def test_a_chain_runs_at_its_lowest_budget(units: int, deallocation: str) -> None:
    """The bound is met where nothing else is held: it is no more than is needed."""
    trace = chain(units)
    lowest = requirements(compile_trace(trace)).lowest_budget_bytes
    result = rematsim.simulate(
        trace, "h_DTR_eq", lowest, deallocation=deallocation, slowdown_limit=None
    )
    assert (result.status, result.peak_bytes) == ("ok", lowest)


def test_bounds_agree_with_the_corpus() -> None:
    """The manifest has the constants of each log, and the reference which budgets ended ok."""
    manifest, runs = CORPUS / "manifest.csv", CORPUS.parent / "reference" / "corpus-runs.csv"
    if not (manifest.exists() and runs.exists()):
        pytest.skip("needs the corpus of logs and its runs in ../shared")
    with manifest.open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["gz_bytes"]))[:12]
    with runs.open(newline="") as file:
        ok = [run for run in csv.DictReader(file) if run["status"] == "ok"]
    for row in rows:
        trace = rematsim.load_trace(CORPUS / row["file"], cache=False)
        needs = requirements(compile_trace(trace))
        budgets = [int(run["budget_bytes"]) for run in ok if run["log"] == row["name"]]
        assert needs.constant_bytes == int(row["constant_bytes"]), row["name"]
        assert needs.lowest_budget_bytes <= min(budgets, default=2**62), row["name"]
