"""The conformance check finds what it is there to find: one bad heuristic for each rule."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rematsim.conformance import FAILED, NOTE, Report, check_heuristic
from rematsim.errors import HeuristicError, UnknownNameError
from rematsim.heuristics import heuristic
from rematsim.heuristics.terms import (
    class_cost,
    last_access,
    neighborhood_cost,
    next_use,
    own_cost,
    ratio,
    size,
    staleness,
)

Function = Callable[..., Any]


def outcomes(report: Report) -> dict[str, str]:
    return {verdict.check: verdict.outcome for verdict in report.verdicts}


def failure(function: Any) -> tuple[str, str]:
    """Check something that breaks one rule; give the check that noticed, and what it said."""
    failed = [v for v in check_heuristic(function).verdicts if v.outcome == FAILED]
    assert len(failed) == 1, failed
    return failed[0].check, failed[0].text


def test_sound_heuristic_of_a_users_own_passes() -> None:
    """One short function, nothing declared but what it reads."""

    @heuristic("mine", needs=("classes",), monotone=True)
    def mine(state: Any, s: int) -> float:
        return ratio(own_cost(state, s) + class_cost(state, s), size(state, s))

    report = check_heuristic(mine)
    assert report.is_ok and set(outcomes(report).values()) == {"ok"}
    assert str(report).startswith("mine: ok\nok      signature")


def test_unknown_heuristic_is_no_report(tmp_path: Path) -> None:
    """What cannot be found is an error, as everywhere."""
    with pytest.raises(UnknownNameError, match="did you mean h_DTR"):
        check_heuristic("h_DRT")
    with pytest.raises(HeuristicError, match="none.py: No such file"):
        check_heuristic(f"{tmp_path}/none.py:score")


def test_wrong_number_of_parameters() -> None:
    """A declared function is not looked at before: here it is."""

    @heuristic("three")
    def three(state: Any, s: int, t: int) -> float:
        return 1.0

    check, text = failure(three)
    assert check == "signature"
    assert "takes (state, s, t); a heuristic takes (state, s)" in text


def test_exception_names_file_and_line() -> None:
    """So does the message of the check."""

    def fails(state: Any, s: int) -> float:
        if s > 2:
            raise ValueError("no such thing")
        return 1.0

    check, text = failure(fails)
    line = fails.__code__.co_firstlineno + 2
    assert check in ("compiles", "scores")
    assert f"{__file__}:{line}: ValueError: no such thing" in text


@pytest.mark.parametrize("value", [None, "text", [1.0], 1j], ids=repr)
def test_value_that_is_no_number(value: object) -> None:
    """Whatever else it returns is refused, and its place named."""

    def returns(state: Any, s: int) -> Any:
        return value

    check, text = failure(returns)
    assert check in ("compiles", "scores") and f"{__file__}:" in text
    assert f"it returns {value!r} ({type(value).__name__}), not a number" in text


def test_number_in_a_string() -> None:
    """Python would take it for a number; it is refused all the same."""

    def returns(state: Any, s: int) -> Any:
        return "1.5"

    assert failure(returns) == (
        "scores",
        f"{__file__}:{returns.__code__.co_firstlineno}: it returns '1.5' (str), not a number",
    )


def test_not_a_number() -> None:
    """NaN compares with nothing, so it would never be chosen, or always."""

    def undefined(state: Any, s: int) -> float:
        return size(state, s) * float("inf") - size(state, s) * float("inf")

    check, text = failure(undefined)
    assert check in ("compiles", "scores")
    assert "score (nan)" in text and "terms.ratio" in text


def test_a_division_by_zero_is_told_with_what_divides() -> None:
    """Compiled it would be infinite."""

    def divides(state: Any, s: int) -> float:
        return 1.0 / (size(state, s) - size(state, s))

    check, text = failure(divides)
    assert check == "scores" and "ZeroDivisionError" in text and "terms.ratio" in text


def test_score_that_writes() -> None:
    """A score reads the state."""

    def greedy(state: Any, s: int) -> float:
        state.storages[s].last_access = 0
        return 1.0

    check, text = failure(greedy)
    assert (check, "it changes the state" in text) == ("scores", True)


def test_score_that_draws_lots() -> None:
    """Two runs would differ."""

    def moody(state: Any, s: int) -> float:
        return random.random()

    check, text = failure(moody)
    assert (check, "asked twice about one storage" in text) == ("scores", True)


def undeclared_classes(state: Any, s: int) -> float:
    return ratio(own_cost(state, s) + class_cost(state, s), size(state, s))


def undeclared_neighborhood(state: Any, s: int) -> float:
    return own_cost(state, s) + neighborhood_cost(state, s)


@pytest.mark.parametrize(
    ("function", "need"),
    [(undeclared_classes, "classes"), (undeclared_neighborhood, "ancestors")],
)
def test_need_that_is_not_declared(function: Function, need: str) -> None:
    """The engine would not keep it up, and the score would be of another formula."""
    check, text = failure(function)
    assert check == "needs"
    assert f"reads what {need!r} keeps up" in text and f"needs=({need!r}" in text


def test_need_that_is_not_used_is_noted() -> None:
    """It costs time, and changes nothing."""

    @heuristic("idle", needs=("classes",))
    def idle(state: Any, s: int) -> float:
        return last_access(state, s)

    report = check_heuristic(idle)
    assert report.is_ok and outcomes(report)["needs"] == NOTE


def test_monotone_that_is_not() -> None:
    """The bounds of the fast scan would be wrong."""

    @heuristic("falls", needs=("classes",), monotone=True)
    def falls(state: Any, s: int) -> float:
        return 1.0 / (1.0 + class_cost(state, s)) + staleness(state, s)

    check, text = failure(falls)
    assert (check, "a score fell from" in text) == ("monotone", True)


def test_monotone_that_could_be_declared_is_noted() -> None:
    """It would be faster."""

    @heuristic("could", needs=("classes",))
    def could(state: Any, s: int) -> float:
        return own_cost(state, s) + class_cost(state, s)

    report = check_heuristic(could)
    assert report.is_ok and outcomes(report)["monotone"] == NOTE


def test_look_ahead_that_is_not_declared() -> None:
    """A heuristic that knows the trace says so."""

    @heuristic("oracle", needs=("next_use",))
    def oracle(state: Any, s: int) -> float:
        return -min(next_use(state, s), 1e18)

    check, text = failure(oracle)
    assert (check, "declared offline" in text) == ("online", True)


def test_offline_that_is_not_is_noted() -> None:
    """It would be left out where only online methods count."""

    @heuristic("shy", offline=True)
    def shy(state: Any, s: int) -> float:
        return last_access(state, s)

    report = check_heuristic(shy)
    assert report.is_ok and outcomes(report)["online"] == NOTE


def test_heuristic_that_cannot_be_compiled_is_noted() -> None:
    """It runs in Python, which is allowed."""
    seen: dict[int, int] = {}

    def remembers(state: Any, s: int) -> float:
        seen[s] = seen.get(s, len(seen))
        return float(seen[s])

    report = check_heuristic(remembers)
    assert outcomes(report)["compiles"] == NOTE
    assert "cannot be compiled" in str(report)
