"""`fits`: a yes is what a run does, a no is proven, and the parts of the lowest budget add up."""

from __future__ import annotations

import json
import math
import os
import shlex
from fractions import Fraction
from pathlib import Path

import pytest
from command_line import told
from rematsim.bounds import lower_bound
from rematsim.errors import BudgetError, InputError
from rematsim.fitting import NO, NONE_FOUND, YES, Answer, fits
from rematsim.floors import floor_of
from rematsim.headroom import Headroom, parse_headroom
from rematsim.traces.loading import load_trace
from rematsim.trials import LARGE, Method, Trials, methods
from rematsim.workload import workload

SMALL = "synthetic:transformer:2"
TRACES = ("bundled:unet", SMALL, "synthetic:random:7")
CORPUS = Path(os.environ.get("REMATSIM_CORPUS", "shared/corpus"))


def check(answer: Answer) -> None:
    """Hold an answer against runs of its own: whatever it is, none contradicts it."""
    work = workload(answer.trace)
    again = Trials(work, answer.slowdown)
    for trial in answer.fitting:
        run = again(trial.method, answer.allowed_bytes)
        assert run.fits and run.row.peak_bytes <= answer.allowed_bytes
        assert run.row.slowdown is not None and run.row.slowdown <= answer.slowdown
        assert run.row.slowdown == trial.row.slowdown
    if answer.verdict == NO:
        for method in methods(answer.trace.n_calls):
            assert not again(method, answer.allowed_bytes).fits, method
    smallest = answer.smallest
    assert smallest.none_below_bytes <= smallest.budget_bytes
    assert smallest.trial.row.slowdown is not None
    assert smallest.trial.row.slowdown <= answer.slowdown
    if answer.verdict == YES:
        assert smallest.budget_bytes <= answer.budget_bytes


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize(("budget", "slowdown"), [("0.3x", 2.0), ("0.6x", 1.1)])
def test_no_run_contradicts_an_answer(trace: str, budget: str, slowdown: float) -> None:
    check(fits(trace, budget, slowdown=slowdown))


def test_a_large_trace_is_tried_with_the_quickest_of_the_methods_of_others() -> None:
    large, others = (methods(n) for n in (LARGE + 1, LARGE))
    names = {(method.name, method.deallocation) for method in others}
    assert {(method.name, method.deallocation) for method in large} < names
    assert large[0] == others[0]


@pytest.mark.benchmark
def test_no_run_contradicts_an_answer_on_the_logs_of_a_corpus() -> None:
    """With REMATSIM_CORPUS, a folder of logs."""
    logs = sorted(CORPUS.glob("*.log.gz"))
    if not logs:
        pytest.skip("no corpus: set REMATSIM_CORPUS to a folder of logs")
    for log in logs:
        for budget, slowdown in (("0.3x", 1.3), ("0.6x", 1.1)):
            check(fits(str(log), budget, slowdown=slowdown))


def test_the_same_question_has_the_same_answer() -> None:
    first, second = (fits(SMALL, "0.7x", slowdown=1.3) for _ in range(2))
    assert [t.method for t in first.trials] == [t.method for t in second.trials]
    assert first.smallest.budget_bytes == second.smallest.budget_bytes
    assert first.smallest.trial.row.evict_sha == second.smallest.trial.row.evict_sha


@pytest.mark.parametrize("heuristic", ["h_DTR_eq", "h_next_use"])
def test_a_run_within_a_budget_of_its_own_peak_is_the_same_run(heuristic: str) -> None:
    """So the smallest budget that is told is a run's peak, not the budget that it was tried at."""
    work = workload(load_trace("bundled:unet"))
    method = Method(heuristic, "eager")
    run = method.run(work, 16_000_000, 2.0)
    again = method.run(work, run.peak_bytes, 2.0)
    assert run.status == "ok" and run.peak_bytes < 16_000_000
    assert (again.status, again.evict_sha, again.clock) == ("ok", run.evict_sha, run.clock)


def test_far_below_the_lowest_budget_nothing_is_tried_and_it_is_taken_apart() -> None:
    answer = fits("bundled:unet", 6_000_000)
    assert (answer.verdict, answer.proof, answer.bound_slowdown) == (NO, "memory", None)
    assert not answer.trials
    neediest = answer.floor.calls[0]
    assert answer.floor.is_of_a_call
    assert neediest.total_bytes == answer.floor.total_bytes > 6_000_000
    assert fits("bundled:unet", answer.floor.total_bytes).verdict != NO


@pytest.mark.parametrize("trace", TRACES)
def test_the_parts_of_the_lowest_budget_add_up_to_one_that_no_bound_excludes(trace: str) -> None:
    work = workload(load_trace(trace))
    floor = floor_of(work)
    at_end = floor.constant_bytes + floor.output_bytes
    assert floor.total_bytes == max([at_end, *(need.total_bytes for need in floor.calls)])
    assert not math.isinf(lower_bound(work.program, floor.total_bytes))


def test_a_slowdown_below_the_bound_is_a_proven_no() -> None:
    answer = fits("bundled:unet", "0.4x", slowdown=1.05)
    assert (answer.verdict, answer.proof) == (NO, "time")
    assert answer.bound_slowdown is not None and answer.bound_slowdown > 1.05


def test_what_is_neither_found_nor_excluded_is_said_to_be_that() -> None:
    answer = fits("bundled:unet", "0.35x", slowdown=1.3)
    assert answer.verdict == NONE_FOUND and not answer.proof and answer.recommended is None


def test_a_trace_that_fits_as_it_is_needs_no_method() -> None:
    answer = fits("synthetic:chain:16", "2x")
    assert answer.recommended is not None
    assert (answer.recommended.method.name, answer.recommended.row.slowdown) == ("keep-all", 1.0)


def test_headroom_is_kept_out_of_the_runs_and_added_to_what_is_needed() -> None:
    answer = fits("bundled:unet", 20_000_000, slowdown=1.3, headroom="10%")
    assert (answer.headroom_bytes, answer.allowed_bytes) == (2_000_000, 18_000_000)
    check(answer)
    smallest = answer.smallest
    free = parse_headroom("10%").of(smallest.budget_bytes)
    assert smallest.budget_bytes - free >= smallest.trial.row.peak_bytes


@pytest.mark.parametrize(
    ("given", "headroom"),
    [
        ("10%", Headroom(Fraction(1, 10))),
        (" 2.5 % ", Headroom(Fraction(1, 40))),
        ("2KiB", Headroom(count=2048)),
        (0, Headroom()),
        ("0%", Headroom()),
    ],
)
def test_a_headroom_is_a_share_or_bytes(given: str | int, headroom: Headroom) -> None:
    assert parse_headroom(given) == headroom


@pytest.mark.parametrize("given", ["100%", "-1%", "x", "0.1x", "", "1e2%", -5])
def test_what_is_no_headroom_is_refused(given: str | int) -> None:
    with pytest.raises(BudgetError, match="headroom .* is a share"):
        parse_headroom(given)


@pytest.mark.parametrize("headroom", ["10%", "3.7%", "333B", 0])
def test_the_smallest_budget_for_an_amount_leaves_just_that(headroom: str | int) -> None:
    free = parse_headroom(headroom)
    for needed in (900, 901, 12_345):
        budget = free.budget_for(needed)
        assert budget - free.of(budget) >= needed > budget - 1 - free.of(budget - 1)


@pytest.mark.parametrize("slowdown", [0.9, 1e30, math.inf, math.nan])
def test_a_slowdown_is_a_number_from_1_to_100(slowdown: float) -> None:
    with pytest.raises(InputError, match="a number from 1"):
        fits("synthetic:chain:16", 8, slowdown=slowdown)


def test_a_name_is_quoted_in_a_command() -> None:
    command = Method("m-of-n(m=2)").command("-a b; $(x).log", 7, 2.0)
    words = shlex.split(command)
    assert words[1:4] == ["plan", "./-a b; $(x).log", "--method"]
    assert words[4] == "m-of-n(m=2)"


@pytest.mark.parametrize(("budget", "slowdown"), [("0.5x", "1.3"), ("0.9x", "1.1"), ("3x", "1")])
def test_the_printed_commands_do_what_is_said(
    capsys: pytest.CaptureFixture[str], budget: str, slowdown: str
) -> None:
    asked = ("fits", "bundled:unet", "--budget", budget, "--slowdown", slowdown, "--json")
    code, out, _ = told(capsys, *asked)
    answer = json.loads(out)
    assert code == 0 and answer["verdict"] == YES
    for said in (answer["recommended"], answer["smallest"]):
        code, out, _ = told(capsys, *shlex.split(said["command"])[1:], "--json")
        row = json.loads(out)
        assert (code, row["status"]) == (0, "ok")
        assert (row["slowdown"], row["peak_bytes"]) == (said["slowdown"], said["peak_bytes"])


@pytest.mark.parametrize(
    ("budget", "slowdown", "shown"),
    [
        ("6MB", "2", ("no, proven: no run fits", "convolution_backward (call 116")),
        ("0.4x", "1.05", ("no, proven: no run within", "lower bound")),
        ("0.35x", "1.3", ("none found, not proven", "--method annealing")),
    ],
)
def test_what_does_not_fit_ends_with_3_and_says_why(
    capsys: pytest.CaptureFixture[str], budget: str, slowdown: str, shown: tuple[str, ...]
) -> None:
    code, out, _ = told(capsys, "fits", "bundled:unet", "--budget", budget, "--slowdown", slowdown)
    assert code == 3
    assert all(part in out for part in shown), out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--budget", "unlimited"], 2, "budget unlimited: everything fits"),
        ([], 2, "Missing option '--budget'"),
        (["--budget", "1GiB", "--headroom", "lots"], 2, "headroom 'lots'"),
        (["--budget", "1GiB", "--headroom", "2GiB"], 2, "headroom of 2,147,483,648 bytes"),
        (["--budget", "1GiB", "--slowdown", "0.5"], 2, "0.5"),
        (["--budget", "1GiB", "--slowdown", "nan"], 2, "a number from 1"),
    ],
)
def test_a_question_that_means_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    found, _, err = told(capsys, "fits", "synthetic:chain:8", *arguments)
    assert found == code and message in err
