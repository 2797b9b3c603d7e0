"""What users hand to the Python functions and name on the command line: every fault in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import rematsim
from rematsim.cli.main import main
from rematsim.errors import HeuristicError, InputError, RematsimError
from rematsim.heuristics.methods import get
from rematsim.heuristics.registry import heuristic
from rematsim.heuristics.terms import size
from rematsim.links import find_link, link_with
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.importers.dtr_log import write_log
from rematsim.traces.synthetic import chain, tree
from rematsim.traces.trace import Trace


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slowdown_limit": "2"}, r"slowdown limit \('2'\)"),
        ({"slowdown_limit": 0.5}, r"slowdown limit \(0.5\)"),
        ({"seed": "a"}, "seed 'a': a whole number"),
        ({"seed": -1}, "seed -1: a whole number"),
        ({"seed": 1.5}, "seed 1.5: a whole number"),
        ({"mutation": []}, r"mutation \[\]: it is one of"),
        ({"deallocation": None}, "deallocation None: it is one of"),
        ({"event_log": "x"}, r"event_log \('x'\): it is True or False"),
        ({"colour": 1, "age": 2}, "option age, colour: the options are"),
    ],
)
def test_options_of_a_wrong_kind_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rematsim.simulate(chain(3), **options)


def test_times_in_messages_are_of_a_size_that_people_read() -> None:
    """The 50th call of the chain is the first that needs something again, for two seconds."""
    trace = chain(40, time_ns=2 * 10**9)
    result = rematsim.simulate(trace, "h_LRU", "0.3x", slowdown_limit=1)
    assert result.message.endswith("at b (call 50, bwd), 2.00 s of rematerialization")


@pytest.mark.parametrize("traces", [None, 5, [b"x"], [None]])
def test_what_is_no_trace_is_named(traces: Any) -> None:
    with pytest.raises(InputError, match="a Trace or the path of one"):
        rematsim.sweep(traces, "h_LRU", "1.0x")


@pytest.mark.parametrize("heuristics", [None, 3, [None]])
def test_what_is_no_heuristic_is_named(heuristics: Any) -> None:
    with pytest.raises(InputError, match="a name, a function or a Heuristic"):
        rematsim.sweep(chain(3), heuristics, "1.0x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h_next_use(exponent=nan)", r"exponent \(nan\): it is a number from 0"),
        ("h_next_use(exponent=1e400)", r"exponent \(1e400\): it is a number from 0"),
        ("h_next_use(exponent=1,exponent=2)", "'exponent' is given twice"),
    ],
)
def test_parameters_are_finite_and_given_once(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        get(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("link(d2h=1GB/s,h2d=1GB/s,d2h=2GB/s)", "d2h is given twice"),
        ("a100-pcie4(d2h=9223372036854775807)", "at most 2\\^62"),
        ("a100-pcie4(host=9223372036854775807)", "at most 2\\^62"),
        ("link(d2h=1GB/s)", "^link: h2d missing, a link has both ways"),
    ],
)
def test_settings_of_a_link_are_there_once_and_within_limits(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_link(text)


def test_an_option_is_put_in_the_place_of_a_device_s_own_setting() -> None:
    assert link_with("a100-pcie4(d2h=1GB/s,host=1GiB)", d2h="2GB/s") == (
        "a100-pcie4(d2h=2GB/s,host=1073741824)"
    )


def test_own_heuristic_may_not_take_the_name_of_a_built_in_one() -> None:
    """Their rows would replace each other in a table."""

    @heuristic("h_DTR")
    def mine(state: Any, s: int) -> float:
        return size(state, s)

    with pytest.raises(HeuristicError, match="'h_DTR': there is a built-in one"):
        get(mine)
    with pytest.raises(InputError, match="3: its name is a text"):
        heuristic(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["import nothing_of_that_name", "x = 1 / 0"])
def test_line_that_fails_at_import_is_named_wherever_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "mine.py").write_text(f"\n{text}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeuristicError, match=r"mine\.py: line 2: \w+Error: "):
        get("mine.py:f")


def long_lasting(calls: int) -> Trace:
    """Make a chain whose calls take almost 2^60 ns together, each result needed twice."""
    builder = TraceBuilder("long")
    builder.constant("x0", 1)
    for place in range(1, calls + 1):
        builder.call("f", [f"x{place - 1}"], [(f"x{place}", 10, -1)], 2**59 // calls)
    builder.backward()
    for place in range(calls - 1, -1, -1):
        builder.call("b", [f"x{place}"], [(f"g{place}", 1, -1)], 2**59 // calls)
        builder.release(f"x{place + 1}")
        builder.release(f"g{place}")
    return builder.build()


def test_clock_does_not_overflow_without_a_slowdown_limit() -> None:
    """A run that would last for centuries has thrashed; it has no negative slowdown."""
    result = rematsim.simulate(long_lasting(200), "h_LRU", 35, slowdown_limit=None)
    assert result.status == "thrashed" and 2**61 < result.remat_ns < 2**63


def test_traces_of_one_name_stand_apart_in_the_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A median over different models would mean nothing."""
    for folder, trace in (("a", chain(4)), ("b", tree(3))):
        (tmp_path / folder).mkdir()
        write_log(trace, tmp_path / folder / "m.log")
    files = [str(tmp_path / folder / "m.log") for folder in "ab"]
    assert main(["sweep", *files, "--heuristic", "h_LRU", "--budget", "1.0x", "-q"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if " h_LRU " in line]
    assert len(lines) == 2 and {line[0] for line in lines} == {"m"}
    assert lines[0][1] != lines[1][1]


def test_all_of_them_are_errors_of_ours() -> None:
    """One `except` is enough for a caller."""
    assert issubclass(InputError, RematsimError) and issubclass(HeuristicError, InputError)
