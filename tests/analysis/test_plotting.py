"""From a file to figures: what is drawn, and under which names."""

from __future__ import annotations

import sqlite3

import pandas as pd
import pytest
from rematsim.analysis.plotting import drawable_kinds, plot
from rematsim.errors import InputError, OutputError, UnknownNameError


@pytest.fixture
def source(table, tmp_path):
    table.to_csv(tmp_path / "runs.csv", index=False)
    return tmp_path / "runs.csv"


def names(paths):
    return [path.name for path in paths]


def test_all_that_can_be_drawn_is_drawn_beside_the_file(source):
    paths = plot(source)
    assert names(paths) == ["runs.csv-overhead.png", "runs.csv-lowest.png"]
    assert all(path.parent == source.parent and path.stat().st_size for path in paths)


def test_a_file_gets_the_main_figure_a_folder_all(source, tmp_path):
    folder = tmp_path / "figures"
    folder.mkdir()
    assert names(plot(source, out=tmp_path / "x.svg")) == ["x.svg"]
    assert names(plot(source, out=folder)) == ["runs.csv-overhead.png", "runs.csv-lowest.png"]
    assert names(plot(source, "lowest", tmp_path / "y.pdf", trace=["resnet9"])) == ["y.pdf"]


@pytest.mark.parametrize("out", ["absent", "absent/x.png"])
def test_a_folder_that_is_not_there_is_named_before_anything_is_drawn(out, tmp_path):
    with pytest.raises(OutputError, match="absent: there is no folder|there is no folder .*absent"):
        plot(tmp_path / "no_such_table.csv", out=tmp_path / out)


def test_kinds_are_found_by_what_the_table_holds(table, rows):
    assert drawable_kinds(table) == ["overhead", "lowest"]
    ablation = rows("resnet9", "h_abl_eq", {0.5: 1.1})
    assert drawable_kinds(pd.concat([table, ablation])) == ["overhead", "lowest", "ablation"]
    policy = rows("resnet9", "h_DTR", {0.5: 1.1}, deallocation="banish", metadata_accesses=7)
    kinds = drawable_kinds(pd.concat([table, policy]))
    assert kinds == ["overhead", "lowest", "deallocation", "accesses"]
    solved = {"kind": "static", "planner_status": "optimal"}
    plans = rows("resnet9", "optimal", {0.5: 1.1}, solve_seconds=0.5, calls=9, **solved)
    assert drawable_kinds(pd.concat([table, plans])) == ["overhead", "lowest"]  # of one size
    larger = rows("resnet99", "optimal", {0.5: 1.1}, solve_seconds=5.0, calls=99, **solved)
    kinds = drawable_kinds(pd.concat([table, plans, larger]))
    assert kinds == ["overhead", "lowest", "solving"]
    larger["planner_status"] = "infeasible"
    assert drawable_kinds(pd.concat([table, plans, larger])) == ["overhead", "lowest"]


def test_many_traces_are_spread_over_several_figures(rows, tmp_path):
    table = pd.concat([rows(f"net{number}", "h_DTR", {0.5: 1.1}) for number in range(13)])
    table.to_csv(tmp_path / "many.csv", index=False)
    paths = plot(tmp_path / "many.csv", "overhead", tmp_path / "x.png")
    assert names(paths) == ["x-1.png", "x-2.png"]


def test_a_run_gives_its_memory_and_its_plan(run, tmp_path):
    run().save(tmp_path / "tiny.run")
    assert names(plot(tmp_path / "tiny.run")) == ["tiny-memory.png", "tiny-plan.png"]
    assert names(plot(tmp_path / "tiny.run", out=tmp_path / "x.png")) == ["x.png"]
    assert names(plot(tmp_path / "tiny.run", "lowest")) == ["tiny.run-lowest.png"]


def test_a_plan_is_drawn_once_it_has_been_executed(run, tmp_path):
    """What is drawn is what the plan did; the file gives the figures their names."""
    for name in ("x.plan", "x.plan.gz"):
        drawn = names(plot(tmp_path / name, run=run()))
        assert drawn == [f"{name}-plan.png", f"{name}-memory.png"]
    assert names(plot(tmp_path / "x.plan", "memory", tmp_path / "y.pdf", run())) == ["y.pdf"]
    with pytest.raises(InputError, match="has to be executed"):
        plot(tmp_path / "x.plan")


def test_figures_of_files_beside_each_other_have_names_of_their_own(table, run, tmp_path):
    """A figure is never written over that of another file in the folder."""
    table.to_csv(tmp_path / "x.csv", index=False)
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        table.to_sql("runs", database, index=False)
    run().save(tmp_path / "x.run")
    files = ["x.csv", "x.sqlite", "x.run"]
    paths = [path for name in files for path in plot(tmp_path / name)]
    paths += plot(tmp_path / "x.run", "lowest")
    paths += [p for name in ("x.plan", "x.plan.gz") for p in plot(tmp_path / name, run=run())]
    assert len(set(paths)) == len(paths)


def test_what_cannot_be_drawn_is_refused(source, tmp_path):
    with pytest.raises(UnknownNameError, match="unknown kind of plot 'pie'; known: overhead"):
        plot(source, "pie")
    with pytest.raises(InputError, match="needs a .run file"):
        plot(source, "memory")
    with pytest.raises(InputError, match="no run of an ablation"):
        plot(source, "ablation")
    with pytest.raises(InputError, match="no run with method 'h_MSPS'"):
        plot(source, method="h_MSPS")
    with pytest.raises(InputError, match="no column 'colour'"):
        plot(source, colour="red")
    with pytest.raises(UnknownNameError, match="unknown kind of figure"):
        plot(source, out=tmp_path / "x.jpeg")


@pytest.mark.parametrize("slowdown", [1e19, 1e-19])
def test_the_largest_and_least_numbers_that_are_read_can_be_drawn(table, tmp_path, slowdown):
    """What `check_table` lets through has axes."""
    table.loc[1, "slowdown"] = slowdown
    table = table.astype({"budget_bytes": float, "unlimited_peak_bytes": float})
    table.loc[3, ["budget_bytes", "unlimited_peak_bytes"]] = [1e19, 1e-19]
    table.to_csv(tmp_path / "runs.csv", index=False)
    assert names(plot(tmp_path / "runs.csv")) == ["runs.csv-overhead.png", "runs.csv-lowest.png"]
