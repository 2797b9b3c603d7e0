"""Sweeps: which cells there are, that each is run once, and that nothing depends on the workers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import rematsim
from rematsim import sweeps
from rematsim.errors import BudgetError, HeuristicError, InputError, UnknownNameError
from rematsim.grid import expand_options, expand_seeds, find_methods, make_grid
from rematsim.result import COLUMNS
from rematsim.store import Row, Store
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace


def chain(units: int, name: str = "chain", size: int = 10) -> Trace:
    """Make a chain of units forward and their gradients backward, each of 10 bytes and 10 ns."""
    builder = TraceBuilder(name)
    builder.constant("x-1", 5)
    for unit in range(units):
        builder.call("forward", [f"x{unit - 1}"], [(f"x{unit}", size, -1)], 10)
    builder.backward()
    builder.call("loss", [f"x{units - 1}"], [(f"g{units}", size, -1)], 10)
    for unit in reversed(range(units)):
        gradient = (f"g{unit}", size, -1)
        builder.call("backward", [f"g{unit + 1}", f"x{unit}"], [gradient], 10)
        builder.release(f"g{unit + 1}")
        builder.release(f"x{unit}")
    return builder.build()


def without_times(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out the one column that differs from run to run."""
    return table.drop(columns="run_seconds")


def one_over_size(state: Any, s: int) -> float:
    """Score by size: a user's function in a module of their own."""
    return -float(s)


def fails_at_half(state: Any, s: int) -> float:
    """Fail once memory is short."""
    raise ValueError("no idea")


def test_table_has_the_documented_columns_and_nullable_types() -> None:
    """Integers stay integers beside empty fields."""
    table = rematsim.sweep(chain(6), ["h_LRU", "h_rand"], ["0.5x", 40, "unlimited"], seeds=[3])
    assert list(table.columns) == list(COLUMNS)
    assert table["budget_bytes"].dtype == "Int64"
    assert table["budget_bytes"].tolist() == [42, 40, pd.NA, 42, 40, pd.NA]
    assert table["seed"].tolist() == [pd.NA, pd.NA, pd.NA, 3, 3, 3]
    assert table["slowdown"].dtype == "float64" and table["status"].dtype == "string"
    assert (table["unlimited_peak_bytes"] == 85).all()  # 5 + 6 x 10 + two gradients


def test_rows_are_those_of_single_runs() -> None:
    """A sweep adds nothing to what `simulate` gives."""
    trace = chain(8)
    table = rematsim.sweep([trace], "h_DTR", "0.4x:0.8x:0.2x", deallocation="banish")
    for budget, row in zip(("0.4x", "0.6x", "0.8x"), table.to_dict("records"), strict=True):
        single = rematsim.simulate(trace, "h_DTR", budget, deallocation="banish")
        assert row["evict_sha"] == single.evict_sha
        assert row["clock"] == single.clock


def test_cells_come_in_the_order_of_the_arguments() -> None:
    """Traces outermost, then options, methods, budgets, seeds."""
    options = expand_options(deallocation=["eager", "banish"], slowdown_limit=None)
    grid = make_grid([chain(3, "a"), chain(4, "b")], ["h_rand", "h_LRU"], "9,8", "2,1", options)
    cells = [
        (c.trace.name, c.options.deallocation, c.method.name, c.budget.value, c.seed)
        for c in grid.cells().values()
    ]
    assert cells[:6] == [
        ("a", "eager", "h_rand", 9, 2),
        ("a", "eager", "h_rand", 9, 1),
        ("a", "eager", "h_rand", 8, 2),
        ("a", "eager", "h_rand", 8, 1),
        ("a", "eager", "h_LRU", 9, None),
        ("a", "eager", "h_LRU", 8, None),
    ]
    assert cells[6][1] == "banish" and cells[12][0] == "b"
    assert len(cells) == 2 * 2 * (2 * 2 + 2)


def test_a_method_that_moves_no_data_runs_once_for_all_links() -> None:
    """It heeds none, and its row says so."""
    links = ["none", "h100-pcie5", "gh200-c2c"]
    methods = ["rotor", "offload-all"]
    table = rematsim.sweep("synthetic:chain:20", "h_LRU", 0.7, link=links, methods=methods)
    found = sorted(zip(table["method"], table["link"], strict=True))
    assert found == [
        *(("h_LRU", "none"), ("offload-all", "gh200-c2c"), ("offload-all", "h100-pcie5")),
        *(("offload-all", "none"), ("rotor", "none")),
    ]


def test_rows_are_the_same_whatever_the_number_of_workers() -> None:
    """One process or two, in the order of the cells."""
    traces = [chain(6, "a"), chain(9, "b")]
    arguments: dict[str, Any] = {"seeds": "0:2", "deallocation": ["eager", "ignore"]}
    alone = rematsim.sweep(traces, ["h_DTR", "h_rand"], "0.4x:1x:0.2x", **arguments)
    shared = rematsim.sweep(traces, ["h_DTR", "h_rand"], "0.4x:1x:0.2x", jobs=2, **arguments)
    pd.testing.assert_frame_equal(without_times(alone), without_times(shared))
    assert len(alone) == 2 * 2 * 4 * (1 + 3)


def test_a_sweep_goes_on_from_its_file_and_runs_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More budgets, another name for the file: known cells are not run again."""
    runs: list[int] = []
    run_batch = sweeps._run_batch

    def counted(trace: Trace, batch: list[Any]) -> Any:
        outcome = run_batch(trace, batch)
        runs.append(len(outcome.rows))
        return outcome

    monkeypatch.setattr(sweeps, "_run_batch", counted)
    out = tmp_path / "t.sqlite"
    first = rematsim.sweep(chain(6), "h_LRU", "0.5x,0.7x", out=out)
    again = rematsim.sweep(chain(6), "h_LRU", "0.5x,0.7x", out=out)
    pd.testing.assert_frame_equal(first, again)
    assert sum(runs) == 2
    more = rematsim.sweep(chain(6, "renamed"), "h_LRU", "0.6x,0.7x,0.5x", out=out)
    assert sum(runs) == 3
    assert more["budget_fraction"].tolist() == [0.6, 0.7, 0.5]
    assert set(more["trace"]) == {"renamed"}
    with closing(sqlite3.connect(out)) as database:
        stored = database.execute("SELECT trace, budget_fraction FROM runs").fetchall()
    assert stored == [("renamed", 0.5), ("renamed", 0.7), ("renamed", 0.6)]


def test_an_edited_heuristic_is_run_again_in_its_place(tmp_path: Path) -> None:
    """The key holds the digest of a user's own file."""
    mine, out = tmp_path / "mine.py", tmp_path / "t.sqlite"
    mine.write_text("def score(state, s):\n    return float(s)\n")
    spec = f"{mine}:score"
    first = rematsim.sweep(chain(8), spec, "0.5x", out=out)
    mine.write_text("def score(state, s):\n    return -float(s)\n")
    second = rematsim.sweep(chain(8), spec, "0.5x", out=out)
    assert first["evict_sha"].item() != second["evict_sha"].item()
    with closing(sqlite3.connect(out)) as database:
        assert database.execute("SELECT evict_sha FROM runs").fetchall() == [
            (second["evict_sha"].item(),)
        ]


def test_a_planner_with_an_edited_function_is_run_again_in_its_place(tmp_path: Path) -> None:
    """The key holds the digest of a user's own file among the parameters of a planner."""
    mine, out = tmp_path / "mine.py", tmp_path / "t.sqlite"
    spec = f"knapsack(solver={mine}:save,part=0.5)"

    def planned(saved: str) -> int:
        mine.write_text(f"def save(memory, runtimes, most):\n    return 0.0, {saved}, []\n")
        rows = rematsim.sweep(chain(6), [], "unlimited", methods=spec, out=out)
        return int(rows["rematerializations"].item())

    assert planned("[]") > planned("list(range(len(memory)))") == 0
    with closing(sqlite3.connect(out)) as database:
        assert database.execute("SELECT rematerializations FROM runs").fetchall() == [(0,)]


def test_equal_traces_are_one_trace_and_equal_names_are_kept_apart(tmp_path: Path) -> None:
    """Cells are known by content."""
    table = rematsim.sweep([chain(4, "a"), chain(4, "b"), chain(5, "a")], "h_LRU", "0.9x")
    assert table["trace"].tolist() == ["a", "a"]
    assert table["trace_digest"].nunique() == 2


def test_a_users_function_runs_in_one_process_or_in_several() -> None:
    """A function of a module can travel; one defined on the spot is run here, which is said."""
    arguments: dict[str, Any] = {"jobs": 2, "deallocation": "ignore"}
    with pytest.warns(UserWarning, match="one process"):
        table = rematsim.sweep([chain(6)], [lambda state, s: float(s)], "0.6x,0.8x", **arguments)
    assert len(table) == 2


def test_a_failing_heuristic_is_named_and_finished_rows_are_kept(tmp_path: Path) -> None:
    """The first budgets need no eviction of a choice; the last one asks for a score."""
    out = tmp_path / "t.sqlite"
    with pytest.raises(HeuristicError) as caught:
        rematsim.sweep(chain(6), fails_at_half, "unlimited,0.4x", deallocation="ignore", out=out)
    assert "no idea" in str(caught.value) and "chain, fails_at_half, 0.4x" in str(caught.value)
    assert "\n" not in str(caught.value)
    with Store(out) as store:
        grid = make_grid(
            [chain(6)], fails_at_half, "unlimited", 0, expand_options(deallocation="ignore")
        )
        assert len(store.rows(grid.cells())) == 1


def test_progress_is_reported_from_what_is_done_to_all(tmp_path: Path) -> None:
    """The first report tells what was there before."""
    out = tmp_path / "t.sqlite"
    rematsim.sweep(chain(6), "h_LRU", "0.5x", out=out)
    reports: list[tuple[int, int]] = []
    rematsim.sweep(
        chain(6), "h_LRU", "0.5x,0.6x,0.7x", out=out, report=lambda *r: reports.append(r)
    )
    assert reports == [(1, 3), (2, 3), (3, 3)]


def test_rows_hold_plain_values_only() -> None:
    """SQLite and JSON know no numpy scalars, and would store them as bytes."""
    grid = make_grid([chain(6)], ["h_DTR", "h_rand"], "0.3x,0.9x", 0, expand_options())
    with Store(None) as store:
        rows: list[Row] = sweeps.run_grid(grid, store)
    kinds = {type(value) for row in rows for value in row.values()}
    assert kinds <= {str, int, float, type(None)}


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (5, (5,)),
        ("0:3", (0, 1, 2, 3)),
        ("1,2,1", (1, 2)),
        ("7, 0 : 1", (7, 0, 1)),
        (range(2), (0, 1)),
    ],
)
def test_seeds_are_lists_and_ranges_with_their_end(given: Any, seeds: tuple[int, ...]) -> None:
    """As budgets are."""
    assert expand_seeds(given) == seeds


@pytest.mark.parametrize(
    "given", ["", "a", "3:1", "-1", "1.5", [], [-1], [1.5], [True], "0:99999999"]
)
def test_what_is_no_seed_is_refused(given: Any) -> None:
    """In one line."""
    with pytest.raises(InputError, match="seed"):
        expand_seeds(given)


def test_what_cannot_be_swept_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """And nothing is left behind."""
    out = tmp_path / "t.sqlite"
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (UnknownNameError, {"heuristics": "h_drt"}),
        (InputError, {"heuristics": []}),
        (BudgetError, {"budgets": "a"}),
        (UnknownNameError, {"deallocation": "eagre"}),
        (InputError, {"slowdown_limit": 0.5}),
        (InputError, {"seeds": "x"}),
        (InputError, {"jobs": 0}),
        (InputError, {"traces": []}),
    ]
    for error, given in wrong:
        arguments: dict[str, Any] = {"traces": chain(3), "out": out} | given
        with pytest.raises(error):
            rematsim.sweep(arguments.pop("traces"), **arguments)


def test_two_heuristics_of_one_name_are_refused(tmp_path: Path) -> None:
    """Their rows could not be told apart."""
    for folder, sign in (("a", ""), ("b", "-")):
        (tmp_path / folder).mkdir()
        text = f"def score(state, s):\n    return {sign}float(s)\n"
        (tmp_path / folder / "mine.py").write_text(text)
    specs = [f"{tmp_path / folder / 'mine.py'}:score" for folder in "ab"]
    with pytest.raises(InputError, match="two different heuristics"):
        find_methods(specs)
    assert len(find_methods([specs[0], specs[0]])) == 1


def test_processes_are_started_only_for_work_that_is_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call takes some microseconds; a heuristic that cannot be judged gets every core."""
    monkeypatch.setattr(sweeps, "available_cores", lambda: 8)
    monkeypatch.setattr(sweeps, "CALL_SECONDS", 1.0)
    monkeypatch.setattr(sweeps, "WORKER_SECONDS", 10.0)

    def worth(units: int, heuristic: Any, budgets: str) -> int:
        grid = make_grid([chain(units)], heuristic, budgets, 0, expand_options())
        return sweeps._worth(list(grid.cells().values()))

    assert worth(2, "h_LRU", "9") == 1  # 5 calls: 5 seconds
    assert worth(2, "h_LRU", "9,10,11,12,13") == 3  # 25 seconds
    assert worth(50, "h_LRU", "9,10") == 8
    assert worth(2, one_over_size, "9") == 8
