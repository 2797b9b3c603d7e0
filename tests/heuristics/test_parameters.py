"""Parameters of heuristics and planners: what is declared is what is taken, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from rematsim.errors import InputError
from rematsim.heuristics import get as get_heuristic
from rematsim.heuristics import names as heuristics
from rematsim.heuristics.parameters import Number, Rule, Text, Whole
from rematsim.heuristics.registry import family
from rematsim.heuristics.static import get, names, planner
from rematsim.planning import plan_trace

DOCS = Path(__file__).parents[2] / "docs"
RULES = [
    *((name, key, rule, get(name).parameters[key])
      for name in names() for key, rule in get(name).allowed.items()),
    *((name, key, rule, dict(get_heuristic(name).parameters)[key])
      for name in heuristics() for key, rule in get_heuristic(name).allowed.items()),
]  # fmt: skip


def resolve(name: str, text: str) -> object:
    """Look up a heuristic or a planner with a parameter."""
    return (get_heuristic if name in heuristics() else get)(f"{name}({text})")


@pytest.mark.parametrize(
    ("name", "key", "rule"),
    [pytest.param(*case[:3], id=f"{case[0]}-{case[1]}") for case in RULES if case[2] != Text()],
)
@pytest.mark.parametrize("value", ["nan", "inf", "-3", "1e400", "9" * 5000, "x", "0x1", ""])
def test_a_value_that_a_parameter_may_not_have_is_refused_in_one_line(
    name: str, key: str, rule: Rule, value: str
) -> None:
    """It names the method, the parameter, the value and the rule."""
    with pytest.raises(InputError) as caught:
        resolve(name, f"{key}={value}")
    shown = value if len(value) <= 60 else f"{value[:60]}..."
    assert str(caught.value) == f"{name}: {key} ({shown}): it is {rule.words}"


@pytest.mark.parametrize(
    "text",
    ["every-kth(k=-3)", "rotor(slots=0)", "rotor(slots=1000000)", "knapsack(part=nan)",
     "knapsack(part=-0.5)", "annealing(steps=-1)", "m-of-n(m=-2)", "moccasin(cv=1.5)"],
)  # fmt: skip
def test_what_is_just_outside_is_refused_too(text: str) -> None:
    with pytest.raises(InputError, match="it is a"):
        get(text)


def test_defaults_may_be_given() -> None:
    for name, key, _, default in RULES:
        assert getattr(resolve(name, f"{key}={str(default).lower()}"), "name", "") == name


def test_numbers_written_differently_are_one_method() -> None:
    assert get_heuristic("h_next_use(exponent=2)") is get_heuristic("h_next_use(exponent=2.0)")
    assert get("knapsack(part=0.5)") == get("knapsack(part=5e-1)")


@pytest.mark.parametrize(
    ("method", "asked"), [("m-of-n(m=9999)", "9,999"), ("every-kth(k=99)", "99")]
)
def test_more_blocks_than_a_trace_has_are_not_planned(method: str, asked: str) -> None:
    """How many there are is known only where the trace is."""
    planned = plan_trace("synthetic:transformer:3", method)
    assert (planned.plan, planned.row.planner_status) == (None, "not_applicable")
    assert planned.row.message == f"the trace has 3 blocks, {asked} were asked for"


def test_a_method_declares_a_rule_for_each_parameter() -> None:
    rule = "allowed= has a rule for each parameter, no others"
    with pytest.raises(InputError, match=f"bare: times: {rule}"):

        @planner("bare")
        def bare(graph: object, budget: object, *, times: int = 1) -> object:
            """Have a parameter without a rule."""

    with pytest.raises(InputError, match=f"h_bare: power: {rule}"):

        @family("h_bare", allowed={"power": Number(0, 1)})
        def h_bare() -> object:
            """Have a rule without a parameter."""

    with pytest.raises(InputError, match=r"bare: times \(1\): it is a whole number from 2 to 3"):

        @planner("bare", allowed={"times": Whole(2, 3)})
        def refused(graph: object, budget: object, *, times: int = 1) -> object:
            """Have a default that breaks its rule."""


def test_the_docs_give_each_parameter_with_its_rule() -> None:
    pages = {name: (DOCS / f"{name}.md").read_text() for name in ("planners", "heuristics")}
    for name, key, rule, _ in RULES:
        lines = pages["heuristics" if name in heuristics() else "planners"].splitlines()
        told = [line for line in lines if f"`{key}`" in line and name in line]
        assert any(rule.words.replace("file.py", "FILE.py") in line for line in told), (name, key)
