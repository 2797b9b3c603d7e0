"""One contract for every heuristic, shipped or a user's own, and for how a user brings one."""

from __future__ import annotations

import functools
import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import rematsim
from rematsim import heuristics
from rematsim.conformance import check_heuristic
from rematsim.errors import HeuristicError, InputError, UnknownNameError
from rematsim.heuristics.methods import ignore_small, sample
from rematsim.heuristics.terms import class_cost, own_cost, ratio, size
from rematsim.opcodes import ACTIONS, DEALLOCATIONS
from rematsim.result import RunResult
from rematsim.simulation import simulate
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace

NAMES = heuristics.names()
VARIANTS = (
    "h_next_use(exponent=2)",
    "h_last_step(exponent=0.5)",
    "h_MegEngine(cost_power=0.5,time_power=2)",
    "Coop(partition=density,drop=true)",
    "Coop(window=false,partition=none)",
    "sample(h_DTR)",
    "sample(h_DTR_eq)",
    "ignore_small(h_DTR_eq)",
    "ignore_small(sample(h_LRU),0.5)",
    "sample(ignore_small(h_next_use,0.2))",
)
SMALL = ("tree:3,steps=2", "u_shape:2", "transformer:1", "random:1", "random:2", "random:5")
FIGURES = (*oracle.REFERENCE_FIGURES, "pressure_evictions", "rematerializations")


@functools.cache
def small(spec: str) -> Trace:
    return load_trace(f"synthetic:{spec}")


def figures(result: RunResult) -> tuple[Any, ...]:
    return tuple(result.row[figure] for figure in FIGURES)


# What all of them keep.


@pytest.mark.parametrize("name", [*NAMES, *VARIANTS])
def test_heuristic_keeps_the_contract(name: str) -> None:
    """Every rule that `rematsim check-heuristic` knows."""
    report = check_heuristic(name)
    assert report.is_ok, str(report)


@pytest.mark.parametrize("name", NAMES)
def test_heuristic_says_what_it_is(name: str) -> None:
    """Its name, its formula in words and where it comes from are there for `rematsim list`."""
    heuristic = heuristics.get(name)
    assert heuristic.name == name
    assert heuristic.summary and heuristic.reference
    assert "\n" not in heuristic.summary


@pytest.mark.parametrize("deallocation", DEALLOCATIONS)
@pytest.mark.parametrize("name", oracle.SCORES)
def test_heuristic_decides_as_the_reference_does(name: str, deallocation: str) -> None:
    """The same evictions in the same order, and the same work by the plain algorithm."""
    for spec in SMALL:
        for fraction in (0.5, 0.8):
            counted = simulate(
                small(spec), name, fraction, deallocation=deallocation, count_accesses=True
            )
            expected = oracle.replay(small(spec), name, counted.budget_bytes, deallocation)
            columns = (*FIGURES, "evaluations", "metadata_accesses")
            found = {column: counted.row[column] for column in columns}
            assert found == {column: expected[column] for column in columns}, spec
            fast = simulate(small(spec), name, fraction, deallocation=deallocation)
            assert figures(fast) == figures(counted), spec
            assert fast.evaluations is None and fast.metadata_accesses is None


def test_random_choice_is_uniform_and_of_the_seed() -> None:
    """Each of three equal storages goes first about as often; a seed repeats itself."""
    builder = TraceBuilder("three")
    builder.constant("x", 1)
    for name in "abc":
        builder.call("f", ["x"], [(name, 1, -1)], 1)
    builder.call("f", ["x"], [("d", 1, -1)], 1)
    trace = builder.build()
    firsts = []
    for seed in range(300):
        run = simulate(trace, "h_rand", 4, seed=seed, event_log=True)
        assert run.events is not None
        evicted = run.events["storage"][run.events["action"] == ACTIONS.index("evict")]
        firsts.append(int(evicted[0]))
    counts = np.bincount(firsts)[1:4]
    assert counts.sum() == 300 and (counts > 70).all(), counts
    first, again = (simulate(small("random:1"), "h_rand", 0.6, seed=9) for _ in range(2))
    assert figures(first) == figures(again) and first.seed == 9


# The prototype's two shortcuts.


def test_sample_depends_on_the_seed_alone() -> None:
    """The same seed, the same run; another may choose otherwise."""
    runs = [simulate("bundled:unet", "sample(h_DTR_eq)", 0.5, seed=seed) for seed in (1, 1, 2, 3)]
    assert figures(runs[0]) == figures(runs[1])
    assert len({run.evict_sha for run in runs}) > 1
    assert runs[0].method == "sample(h_DTR_eq)" and runs[0].seed == 1


def test_sample_scores_fewer() -> None:
    """Strides of 1 to floor(sqrt(n)): a part of the pool is scored, not all of it."""
    whole = simulate("bundled:unet", "h_LRU", 0.7, count_accesses=True)
    part = simulate("bundled:unet", "sample(h_LRU)", 0.7, count_accesses=True)
    assert whole.evaluations is not None and part.evaluations is not None
    per_choice = [run.evaluations / run.pressure_evictions for run in (whole, part)]
    assert per_choice[1] < 0.6 * per_choice[0]


def test_sample_of_a_small_pool_is_all_of_it() -> None:
    """Of up to three storages floor(sqrt(n)) is 1: none is passed over."""
    trace = small("random:1")
    builder = TraceBuilder("few")
    builder.constant("x", 1)
    for k in range(8):
        builder.call("f", ["x"], [(f"a{k}", 1, -1)], 1 + k)
    for k in range(8):
        builder.release(f"a{k}")
    trace = builder.build()
    options = {"deallocation": "ignore"}
    assert figures(simulate(trace, "sample(h_LRU)", 4, **options)) == figures(
        simulate(trace, "h_LRU", 4, **options)
    )


def pebbles_and_rocks() -> Trace:
    """Ten storages of one byte, then three of 1,000, then one that needs room."""
    builder = TraceBuilder("pebbles and rocks")
    builder.constant("x", 0)
    for k in range(10):
        builder.call("f", ["x"], [(f"pebble{k}", 1, -1)], 1)
    for k in range(3):
        builder.call("f", ["x"], [(f"rock{k}", 1000, -1)], 1)
    builder.call("f", ["x"], [("last", 1000, -1)], 1)
    for name in [*(f"pebble{k}" for k in range(10)), *(f"rock{k}" for k in range(3)), "last"]:
        builder.release(name)
    return builder.build()


def test_small_storages_are_passed_over_while_there_are_others() -> None:
    """The mean is 4,010 / 14 bytes at the last call: below a hundredth of it are the pebbles."""
    plain = simulate(pebbles_and_rocks(), "h_LRU", 3010, event_log=True, deallocation="ignore")
    ignoring = simulate(
        pebbles_and_rocks(), "ignore_small(h_LRU)", 3010, event_log=True, deallocation="ignore"
    )
    assert evicted_bytes(plain) == [1] * 10 + [1000]
    assert evicted_bytes(ignoring) == [1000]
    assert ignoring.method == "ignore_small(h_LRU,0.01)"


def test_small_storages_go_if_there_is_nothing_else() -> None:
    """Passing over is no reason to run out of memory."""
    ignoring = simulate(
        pebbles_and_rocks(), "ignore_small(h_LRU)", 1000, event_log=True, deallocation="ignore"
    )
    assert ignoring.status == "ok"
    assert evicted_bytes(ignoring).count(1) == 10


def evicted_bytes(run: RunResult) -> list[int]:
    assert run.events is not None
    chosen = run.events["action"] == ACTIONS.index("evict")
    return [int(count) for count in run.events["bytes"][chosen]]


def test_wrappers_from_python_are_those_from_text() -> None:
    """`sample` and `ignore_small` take any heuristic, and each other."""
    inner = heuristics.get("h_DTR_local")
    made = ignore_small(sample(inner), 0.2)
    assert made.name == "ignore_small(sample(h_DTR_local),0.2)"
    assert heuristics.get(made.name) == made
    assert made.is_random and not inner.is_random


# Parameters.


def test_default_parameters_leave_the_name_alone() -> None:
    """A parameter given at its default is the plain heuristic."""
    assert heuristics.get("h_next_use(exponent=1)").name == "h_next_use"
    assert heuristics.get("h_next_use(exponent=2)").name == "h_next_use(exponent=2)"
    made = heuristics.get("h_MegEngine(remat_penalty=2)")
    assert dict(made.parameters)["remat_penalty"] == 2.0


def test_exponent_is_used() -> None:
    """exponent=0 leaves h_abl_eq_size; exponent=1 is the default."""
    trace = small("transformer:1")
    zero = simulate(trace, "h_last_step(exponent=0)", 0.5)
    assert figures(zero) == figures(simulate(trace, "h_abl_eq_size", 0.5))
    one = simulate(trace, "h_last_step(exponent=1)", 0.5)
    assert figures(one) == figures(simulate(trace, "h_DTR_eq", 0.5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h_drt", "unknown heuristic 'h_drt' (did you mean h_DTR?)"),
        ("rotor", "unknown heuristic 'rotor' (it is a planner: see plan, or --method of sweep)"),
        (
            "h_DTR,h_LRU",
            "unknown heuristic 'h_DTR,h_LRU' (one is asked for: sweep and compare take several)",
        ),
        ("rotor(slots=9)", "unknown heuristic 'rotor' (it is a planner"),
        ("chen-greedy(mode=x)", "unknown heuristic 'chen-greedy(mode=x)' (it is a planner"),
        ("h_next_use(power=2)", "h_next_use: parameter 'power': it has exponent"),
        ("h_next_use(exponent=two)", "h_next_use: exponent (two): it is a number from 0 to 16"),
        ("h_next_use(2)", "h_next_use(2): write parameters as name=value"),
        ("h_LRU(exponent=2)", "h_LRU: it has no parameters (exponent)"),
        ("sample()", "sample(...): it takes a heuristic"),
        ("sample(h_rand)", "sample(h_rand): a random choice has no scores"),
        ("sample(h_nothing)", "unknown heuristic 'h_nothing'"),
        (
            "ignore_small(h_LRU,0)",
            "ignore_small: fraction (0): it is a number above 0 and",
        ),
        (
            "ignore_small(h_LRU,2)",
            "ignore_small: fraction (2): it is a number above 0 and",
        ),
        ("ignore_small(h_LRU,much)", "ignore_small: fraction (much): it is a number above 0"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(text: str, message: str) -> None:
    """One line, with the value and the rule."""
    with pytest.raises(InputError) as caught:
        heuristics.get(text)
    assert str(caught.value).startswith(message)


# A user's own.

MINE = '''\
from rematsim.heuristics import heuristic
from rematsim.heuristics.terms import class_cost, own_cost, ratio, size, staleness


@heuristic("mine", needs=("classes",), monotone=True)
def declared(state, s):
    """As h_DTR_eq."""
    return ratio(own_cost(state, s) + class_cost(state, s), size(state, s) * staleness(state, s))


def plain(state, s):
    """As h_DTR_local."""
    return ratio(own_cost(state, s), size(state, s) * staleness(state, s))


NOT_A_FUNCTION = 3
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def largest_first(state: Any, s: int) -> float:
    """The function of a user who has read the README."""
    return ratio(1.0, size(state, s))


def test_function_given_to_the_api_is_a_heuristic() -> None:
    """Its name is the method; it decides as the same formula of ours."""
    run = simulate("bundled:unet", largest_first, 0.6)
    assert run.method == "largest_first"
    assert figures(run) == figures(simulate("bundled:unet", "h_size", 0.6))


def test_lambda_and_partial_are_functions_too() -> None:
    """Whatever can be called with (state, s)."""

    def power(p: float, state: Any, s: int) -> float:
        return ratio(1.0, size(state, s) ** p)

    expected = figures(simulate(small("u_shape:2"), "h_size", 0.6))
    assert figures(simulate(small("u_shape:2"), lambda state, s: -size(state, s), 0.6)) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a partial cannot be compiled
        assert figures(simulate(small("u_shape:2"), functools.partial(power, 2), 0.6)) == expected


@pytest.mark.parametrize(
    ("function", "name", "twin"),
    [("declared", "mine", "h_DTR_eq"), ("plain", "mine.py:plain", "h_DTR_local")],
)
def test_function_in_a_file_is_a_heuristic(mine: Path, function: str, name: str, twin: str) -> None:
    """By ``file.py:function``, declared with the decorator or not."""
    run = simulate("bundled:unet", f"{mine}:{function}", 0.5)
    assert run.method == name
    assert figures(run) == figures(simulate("bundled:unet", twin, 0.5))


def test_edited_file_is_read_again(mine: Path) -> None:
    """In one process too: an author edits and tries."""
    before = heuristics.get(f"{mine}:plain")
    mine.write_text(MINE.replace("own_cost(state, s), size", "1.0, size"))
    after = heuristics.get(f"{mine}:plain")
    assert before.source != after.source
    runs = [simulate("bundled:unet", function, 0.5) for function in (before, after)]
    assert figures(runs[0]) == figures(simulate("bundled:unet", "h_DTR_local", 0.5))
    assert figures(runs[1]) == figures(simulate("bundled:unet", "h_abl_one_size_stale", 0.5))
    assert figures(runs[0]) != figures(runs[1])


def test_relative_path_is_a_file_too(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is typed on a command line."""
    monkeypatch.chdir(mine.parent)
    assert simulate(small("u_shape:2"), "mine.py:plain", 0.6).method == "mine.py:plain"
    assert simulate(small("u_shape:2"), "./mine.py:plain", 0.6).method == "mine.py:plain"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with an entry point, on the path."""
    (tmp_path / "their_package.py").write_text(MINE)
    about = tmp_path / "their_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[rematsim.heuristics]\nh_theirs = their_package:plain\nh_broken = their_package:nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("their_package", None)


@pytest.mark.usefixtures("installed")
def test_entry_point_of_an_installed_package_is_a_heuristic() -> None:
    """It is known by the name that its package gives it."""
    run = simulate("bundled:unet", "h_theirs", 0.5)
    assert run.method == "h_theirs"
    assert figures(run) == figures(simulate("bundled:unet", "h_DTR_local", 0.5))
    assert heuristics.get("ignore_small(h_theirs)").name == "ignore_small(h_theirs,0.01)"


@pytest.mark.usefixtures("installed")
def test_entry_point_that_leads_nowhere_is_an_error_of_its_package() -> None:
    """It is named; there is no traceback to read."""
    with pytest.raises(HeuristicError, match="h_broken.*their_package:nothing"):
        heuristics.get("h_broken")


def test_users_own_in_a_sweep(mine: Path) -> None:
    """Beside ours, by file and by function."""
    table = rematsim.sweep(
        small("u_shape:2"), ["h_DTR_local", f"{mine}:plain", largest_first], ["0.5x", "0.7x"]
    )
    assert table["method"].tolist() == [
        *["h_DTR_local"] * 2,
        *["mine.py:plain"] * 2,
        *["largest_first"] * 2,
    ]
    assert table["evict_sha"][0] == table["evict_sha"][2]


# One that cannot be compiled.


def test_heuristic_that_cannot_be_compiled_runs_and_says_so() -> None:
    """A dict of its own: Python runs it, and the user is told, with file and line."""
    seen: dict[int, float] = {}

    def remembers(state: Any, s: int) -> float:
        seen[s] = ratio(1.0, size(state, s))
        return seen[s]

    with pytest.warns(UserWarning, match="cannot be compiled and runs in Python, slowly") as told:
        run = simulate("bundled:unet", remembers, 0.6)
    place = f"{__file__}:{remembers.__code__.co_firstlineno}: remembers"
    assert str(told[0].message).startswith(place)
    assert seen
    assert figures(run) == figures(simulate("bundled:unet", "h_size", 0.6))


def test_object_that_can_be_called_runs_in_python() -> None:
    """A class with parameters of its own is no function, but does."""

    class Weighted:
        def __init__(self, weight: float) -> None:
            self.weight = weight

        def __call__(self, state: Any, s: int) -> float:
            return self.weight * ratio(1.0, size(state, s))

    with pytest.warns(UserWarning, match="Weighted cannot be compiled"):
        run = simulate(small("u_shape:2"), Weighted(3.0), 0.6)
    assert run.method == "Weighted"
    assert figures(run) == figures(simulate(small("u_shape:2"), "h_size", 0.6))


def test_needs_are_kept_up_for_python_too() -> None:
    """What it declares is exact when it is asked, although nothing is compiled."""
    calls: list[int] = []

    @heuristics.heuristic("slow", needs=("classes",))
    def slow(state: Any, s: int) -> float:
        calls.append(s)
        return ratio(own_cost(state, s) + class_cost(state, s), size(state, s))

    with pytest.warns(UserWarning, match="slow cannot be compiled"):
        run = simulate(small("transformer:1"), slow, 0.5)
    assert figures(run) == figures(simulate(small("transformer:1"), "h_abl_eq_size", 0.5))


# One that fails.

FAILING = {
    "raises": ('raise ValueError("no idea")', "ValueError: no idea"),
    "nothing": ("return None", "None"),
    "text": ('return "high"', "high"),
    "nan": ('return float("nan")', "score (nan)"),
    "misspells": ("return staleness_(state, s)", "staleness_"),
    "wrong field": ("return state.storages[s].wieght", "wieght"),
}


@pytest.mark.parametrize("kind", FAILING)
def test_error_names_the_users_file_and_line(kind: str, tmp_path: Path) -> None:
    """And the storage that was being scored; it is one line."""
    statement, reason = FAILING[kind]
    path = tmp_path / "bad.py"
    path.write_text(f"# line 1\n\ndef score(state, s):\n    x = 1.0\n    {statement}\n")
    with warnings.catch_warnings(), pytest.raises(HeuristicError) as caught:
        warnings.simplefilter("ignore")
        simulate("bundled:unet", f"{path}:score", 0.5)
    text = str(caught.value)
    assert text.startswith((f"{path}:5: ", f"{path}:3: ")), text
    assert reason in text and "storage '" in text and "\n" not in text


def test_error_of_a_function_names_its_line_too() -> None:
    """Whether it could be compiled or not."""

    def score(state: Any, s: int) -> float:
        if size(state, s) > 0:
            raise KeyError(s)
        return 1.0

    with warnings.catch_warnings(), pytest.raises(HeuristicError) as caught:
        warnings.simplefilter("ignore")
        simulate("bundled:unet", score, 0.5)
    line = score.__code__.co_firstlineno + 2
    assert str(caught.value).startswith(f"{__file__}:{line}: KeyError: ")


def test_infinite_scores_are_scores() -> None:
    """All infinite: the one that entered the pool last goes, as among equals."""

    def never(state: Any, s: int) -> float:
        return math.inf

    def always(state: Any, s: int) -> float:
        return -math.inf

    def same(state: Any, s: int) -> float:
        return 1.0

    runs = [simulate(small("u_shape:2"), f, 0.7) for f in (never, always, same)]
    assert len({figures(run) for run in runs}) == 1


def test_zero_ends_the_search_wherever_it_stands() -> None:
    """A score of exactly 0 is taken at once, though a lower one is there."""

    def signed(state: Any, s: int) -> float:
        return float(s % 3) - 1.0

    fast = simulate("bundled:unet", signed, 0.6)
    plain = simulate("bundled:unet", signed, 0.6, count_accesses=True)
    assert figures(fast) == figures(plain)


@pytest.mark.parametrize(
    ("content", "function", "message"),
    [
        ("def f(state, s):\n    return (", "f", "line 2: SyntaxError: '(' was never closed"),
        ("import nothing_like_it\n", "f", "line 1: ModuleNotFoundError"),
        ("x = 1\n\ny = 1 / 0\n", "f", "line 3: ZeroDivisionError"),
        ("def f(state, s):\n    return 1.0\n", "g", "no function 'g'; it has f"),
        ("x = 1\n", "f", "no function 'f'; it has none"),
        ("f = 1\n", "f", "no function 'f'; it has none"),
        ("def f(state):\n    return 1.0\n", "f", "it takes (state); a heuristic takes (state, s)"),
        ("def f(a, b, c):\n    return 1.0\n", "f", "it takes (a, b, c); a heuristic takes (state"),
        ("def f(a, *, b=1):\n    return 1.0\n", "f", "it takes (a, *, b=1); a heuristic takes"),
        ("def f(*a):\n    return 1.0\n", "f", "it takes (*a); a heuristic takes (state, s)"),
    ],
)
def test_file_that_is_no_good_is_explained(
    tmp_path: Path, content: str, function: str, message: str
) -> None:
    """With its name, and the line where there is one."""
    path = tmp_path / "bad.py"
    path.write_text(content)
    with pytest.raises(HeuristicError) as caught:
        heuristics.get(f"{path}:{function}")
    assert message in str(caught.value) and str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_functions_of_one_file_have_the_names_they_are_asked_for_by(tmp_path: Path) -> None:
    """Also those that a lambda or a function of a function makes, which are all called alike."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from rematsim.heuristics.terms import size, staleness\n"
        "small = lambda state, s: size(state, s)\n"
        "old = lambda state, s: -staleness(state, s)\n"
        "def times(factor):\n"
        "    def score(state, s):\n"
        "        return factor * size(state, s)\n"
        "    return score\n"
        "up, down = times(1.0), times(-1.0)\n"
    )
    names = ["small", "old", "up", "down"]
    table = rematsim.sweep("bundled:unet", [f"{path}:{name}" for name in names], "0.8x")
    assert list(table["method"]) == [f"mine.py:{name}" for name in names]
    small, old, up, down = table["evict_sha"]
    assert small == up and len({small, old, down}) == 3


def test_a_kept_row_is_not_that_of_another_function_of_the_same_name(tmp_path: Path) -> None:
    """Whatever makes them differ: code, a variable outside, a default, an object."""

    def times(factor: float) -> Any:
        def score(state: Any, s: int) -> float:
            return factor * size(state, s)

        return score

    def by_default(factor: float) -> Any:
        def score(state: Any, s: int, *, by: float = factor) -> float:
            return by * size(state, s)

        return heuristics.Heuristic("score", score)

    pairs = [
        (times(1.0), times(-1.0)),
        (by_default(1.0), by_default(-1.0)),
        (lambda state, s: size(state, s), lambda state, s: -size(state, s)),
        (functools.partial(times(1.0)), functools.partial(times(-1.0))),
    ]
    for one, other in pairs:
        assert heuristics.get(one).source != heuristics.get(other).source
    assert heuristics.get(times(1.0)).source == heuristics.get(times(1.0)).source
    out = tmp_path / "runs.sqlite"
    slowdowns = [
        rematsim.sweep("bundled:unet", [times(factor)], "0.8x", out=out)["slowdown"].item()
        for factor in (1.0, -1.0, 1.0)
    ]
    assert slowdowns[0] == slowdowns[2] != slowdowns[1]


@pytest.mark.parametrize("text", ["mine.py", "mine.py:f(c=2)", "sample(mine.py)", "mine.py:"])
def test_a_file_named_otherwise_is_told_how_to_name_it(text: str) -> None:
    """Instead of a list of the built-in heuristics."""
    with pytest.raises(UnknownNameError, match=r"mine\.py.* own as file\.py:function.*") as caught:
        heuristics.get(text)
    assert "h_DTR" not in str(caught.value)


def test_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """As for every file."""
    with pytest.raises(HeuristicError, match=r"none\.py: No such file or directory"):
        heuristics.get(f"{tmp_path}/none.py:score")


def test_unknown_need_is_refused_when_it_is_declared() -> None:
    """The message lists those that there are."""
    with pytest.raises(UnknownNameError, match="needs 'neighbourhood': it is one of ancestors"):
        heuristics.heuristic("mine", needs=("neighbourhood",))
