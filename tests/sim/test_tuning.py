"""Tuning: parameters are fitted to some traces and tried on others, the same ones each time."""

from __future__ import annotations

import json
import math
import shlex
import sys
from typing import Any

import pytest
import rematsim
from rematsim.cli.main import main
from rematsim.errors import InputError, MissingExtraError, UnknownNameError
from rematsim.parameter_space import Space, parse_range
from rematsim.simulation import Options
from rematsim.traces.trace import Trace
from rematsim.tuning import Figure, Search, family_of, tune

pytest.importorskip("optuna", reason="optuna is not installed")

METHOD = "h_last_step"
BUDGETS = "0.5x"
FEW = 3


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    """Give traces of three families."""
    names = ("synthetic:chain:20", "synthetic:tree:4", "synthetic:u_shape:4")
    return [
        rematsim.load_trace(spec, name=name)
        for spec, name in zip(names, ("chain20", "tree4", "u4"), strict=True)
    ]


def test_the_same_seed_fits_the_same_parameters(traces: list[Trace]) -> None:
    """And the figure of the fit is that of single runs, never worse than without fitting."""
    search = Search(trials=6, seed=5)
    first, second = (tune(traces[:1], METHOD, "0.4x,0.6x", search=search) for _ in range(2))
    assert first == second
    assert first.fit.fitted.loss <= first.fit.given.loss
    runs = [rematsim.simulate(traces[0], first.method, budget) for budget in ("0.4x", "0.6x")]
    slowdowns = [run.slowdown if run.status == "ok" else 2.0 for run in runs]
    assert first.fit.fitted.slowdown == pytest.approx(math.prod(slowdowns) ** 0.5)
    assert first.held_out is None and first.parts == ()


def test_one_family_held_out_is_only_tried(traces: list[Trace]) -> None:
    """What is fitted to the others does not change when the one held out does."""
    search = Search(trials=FEW, hold_out=("tree",))
    with_tree = tune(traces, METHOD, BUDGETS, search=search)
    assert with_tree.fitted_to == ("chain20", "u4")
    assert with_tree.parts == ((("tree4",), with_tree.method),)
    assert with_tree.held_out is not None and with_tree.held_out.fitted.runs == 1
    alone = tune([traces[0], traces[2]], METHOD, BUDGETS, search=Search(trials=FEW, folds=2))
    assert alone.method == with_tree.method


def test_each_family_is_held_out_in_turn(traces: list[Trace]) -> None:
    """The held-out figure has each trace once; the parameters told are fitted to all."""
    found = tune(traces, METHOD, BUDGETS, search=Search(trials=FEW))
    assert [names for names, _ in found.parts] == [("chain20",), ("tree4",), ("u4",)]
    assert found.held_out is not None and found.held_out.given.runs == 3
    assert found.fitted_to == ("chain20", "tree4", "u4")
    logs = [
        math.log(run.slowdown if run.status == "ok" else 2.0)
        for (_, method), trace in zip(found.parts, traces, strict=True)
        for run in [rematsim.simulate(trace, method, "0.5x")]
    ]
    assert found.held_out.fitted.slowdown == pytest.approx(math.exp(sum(logs) / 3))


def test_two_folds_hold_out_two_families_and_one(traces: list[Trace]) -> None:
    """Traces of one family stay together, whatever its name."""
    search = Search(trials=1, folds=2, families={"u4": "tree"})
    assert [[t.name for t in part] for part in search.parts(traces)] == [
        ["chain20"],
        ["tree4", "u4"],
    ]


def test_failures_count_first() -> None:
    """A set of parameters that fails less is better, however slow it is."""
    assert Figure(3, 1, 1.01).loss > Figure(3, 0, 1.99).loss > Figure(3, 0, 1.5).loss


def test_a_failed_run_counts_as_the_slowdown_limit(traces: list[Trace]) -> None:
    """Below what a trace needs every run fails."""
    limit = Options(slowdown_limit=3.0)
    found = tune(traces[:1], METHOD, "1,0.6x", search=Search(trials=1), options=limit)
    assert found.fit.given.failures == 1 and found.fit.given.runs == 2
    run = rematsim.simulate(traces[0], METHOD, "0.6x", slowdown_limit=3.0)
    assert found.fit.given.slowdown == pytest.approx(math.sqrt(3.0 * (run.slowdown or 0)))


def test_numbers_are_looked_for_in_their_range_and_can_be_written_down(
    traces: list[Trace],
) -> None:
    """A range of one number fixes a parameter."""
    ranges = {"size_power": (2.0, 2.0), "time_power": (0.0, 0.5)}
    found = tune(traces[:1], "h_MegEngine", BUDGETS, search=Search(trials=FEW, ranges=ranges))
    again = dict(rematsim.heuristics.get(found.method).parameters)
    assert again == found.parameters
    space = Space.of("h_MegEngine", ranges)
    assert space.ends("size_power", space.heuristic.allowed["size_power"]) == (2.0, 2.0)
    low, high = space.ends("remat_penalty", space.heuristic.allowed["remat_penalty"])
    assert low * high == pytest.approx(1.0) and high == 6.0


@pytest.mark.parametrize(
    ("method", "search", "match"),
    [
        ("h_DTR", {}, "no parameters to fit; these have some: .*h_MegEngine"),
        ("sample(h_last_step)", {}, "no parameters to fit"),
        (METHOD, {"ranges": {"power": (0, 1)}}, "no range of 'power': it has exponent"),
        (METHOD, {"ranges": {"exponent": (0, 99)}}, "from 0 to 16"),
        (METHOD, {"hold_out": ("resnet",)}, "family 'resnet': it is one of chain, tree, u"),
        (METHOD, {"hold_out": ("chain", "tree", "u")}, "no trace to fit to"),
        (METHOD, {"folds": 4}, "there are 3 families"),
        (METHOD, {"families": {"x": "y"}}, "trace 'x'"),
    ],
)
def test_what_cannot_be_tuned_is_refused(
    traces: list[Trace], method: str, search: dict[str, Any], match: str
) -> None:
    """In one line, before anything is run."""
    with pytest.raises(InputError, match=match):
        tune(traces, method, BUDGETS, search=Search(**{"trials": 1, **search}))


def test_tuning_needs_a_slowdown_limit(traces: list[Trace]) -> None:
    """Without one a failed run would count as nothing."""
    with pytest.raises(InputError, match="slowdown limit"):
        tune(traces, METHOD, options=Options(slowdown_limit=None))


def test_searches_that_mean_nothing_are_refused() -> None:
    """Numbers out of range, folds beside what is held out."""
    for wrong in ({"trials": 0}, {"folds": 1}, {"folds": 2, "hold_out": ("a",)}):
        with pytest.raises(InputError):
            Search(**wrong)  # type: ignore[arg-type]
    for text in ("a", "=1:2", "a=2:1", "a=x", "a=nan"):
        with pytest.raises(InputError, match="range"):
            parse_range(text)


def test_families_are_told_by_names() -> None:
    """The letters that a name begins with."""
    names = ["resnet32", "resnet110", "vit_2steps", "llama_7b", "_x"]
    assert [family_of(name) for name in names] == ["resnet", "resnet", "vit", "llama", "_x"]


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, traces: list[Trace]) -> None:
    """With what installs it."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match="pip install optuna"):
        tune(traces, METHOD)


def test_the_command_tells_held_out_runs_and_what_uses_the_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command that it prints gives the rows that the figure is made of."""
    arguments = ["tune", "synthetic:chain:20", "synthetic:tree:4", "-H", METHOD]
    arguments += ["--family", "a=chain:20", "--family", "b=tree:4", "--quiet"]
    arguments += ["--budget", "0.5x", "--trials", "2"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "held out chain:20: h_last_step" in shown and "held out tree:4: h_last_step" in shown
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["held_out"]["fitted"]["runs"] == 2
    assert found["command"] == shown.splitlines()[-1]
    assert main([*shlex.split(found["command"])[1:], "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    slowdowns = [row["slowdown"] or 2.0 for row in rows]
    assert found["fit"]["fitted"]["slowdown"] == pytest.approx(math.prod(slowdowns) ** 0.5)


def test_a_mistake_in_the_command_is_one_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and one line."""
    assert main(["tune", "bundled:unet", "--family", "x"]) == 2
    assert main(["tune", "bundled:unet", "--range", "exponent"]) == 2
    assert main(["tune"]) == 2
    assert "NAME=TRACE" in capsys.readouterr().err


def test_unknown_names_are_told_as_such(traces: list[Trace]) -> None:
    """As everywhere."""
    with pytest.raises(UnknownNameError):
        tune(traces, "h_MegEngin(size_power=1)")
