"""Every log format: its sample loads, and each broken variant gives its exact message."""

from __future__ import annotations

import re

import pytest
from broken_logs import BROKEN, RELU, X
from dtr_logs import START, constant, line, log, valid_lines
from rematsim.errors import TraceError
from rematsim.traces.importers import dtr_log
from rematsim.traces.loading import load_trace
from rematsim.traces.unpacking import unpack


def check(message: str, expected: str) -> None:
    """Compare messages; the words of the JSON decoder in parentheses do not matter."""
    assert re.sub(r"not JSON \(.*\)", "not JSON (...)", message) == expected


@pytest.mark.parametrize("variant", BROKEN)
def test_a_broken_log_is_refused_with_its_message(variant: str) -> None:
    data, message = BROKEN[variant]
    with pytest.raises(TraceError) as caught:
        dtr_log.read(data, "name", "log")
    check(str(caught.value), message)


LINES_BEFORE = [START, *(constant(f"before{k}") for k in range(6_000))]


@pytest.mark.parametrize("variant", [v for v in BROKEN if re.match(r"log:\d", BROKEN[v][1])])
def test_the_line_at_fault_is_found_behind_many_good_ones(variant: str) -> None:
    """In a log of more than one block, where what stands before the fault is taken in columns."""
    data, message = BROKEN[variant]
    if variant == "defined only in the warm-up":
        pytest.skip("a second START is none")
    before = log(*LINES_BEFORE)
    shift = before.count(b"\n")
    if data.startswith(log(START)):
        data, shift = data.removeprefix(log(START)), shift - 1
    with pytest.raises(TraceError) as caught:
        dtr_log.read(before + data, "name", "log")
    shifted = re.sub(
        r"(log:|at line )(\d+)", lambda found: f"{found[1]}{int(found[2]) + shift}", message
    )
    check(str(caught.value), shifted)


def test_a_message_is_one_line_whatever_the_log_holds() -> None:
    for data, _ in BROKEN.values():
        with pytest.raises(TraceError) as caught:
            dtr_log.read(data, "name", "a\nb.log")
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith(r"'a\nb.log'")


def test_a_log_with_everything_in_it_is_read() -> None:
    """Numbers as strings or not, extra keys, marks, names never defined, views and rebinding."""
    trace = dtr_log.read(log(*valid_lines()), "name", "log")
    assert trace.names == ("w", "x", "y", "z", "v", "y2", "late", "g")
    assert trace.operators == ("conv", "view", "add_", "conv_backward")
    assert trace.constant_bytes.tolist() == [64, 16, 0]
    assert trace.result_bytes.tolist() == [4, 4, 0, 4]
    assert trace.result_alias.tolist() == [-1, -1, 0, -1]
    assert trace.mutate_offsets.tolist() == [0, 0, 0, 1, 1]
    assert trace.mutate_args.tolist() == [0]
    assert trace.call_time_ns.tolist() == [10, 10, 5, 0]
    assert trace.call_phase.tolist() == [1, 0, 1, 2]
    assert trace.modules == ("net.0",)
    assert trace.call_module.tolist() == [0, -1, -1, 0]
    assert trace.call_line.tolist() == [7, 12, 17, 22]
    assert trace.compute_ns == 25


def test_what_stands_before_the_first_start_is_skipped_whatever_it_is() -> None:
    log_proper = log(START, X, RELU)
    warm_up = b'garbage "START"\n' + log(constant("x"), line("ANNOTATE", ANNOTATION="BACKWARD"))
    trace = dtr_log.read(warm_up + log_proper + log(START), "name", "log")
    assert trace == dtr_log.read(log_proper, "name", "log")
    assert trace.call_line.tolist() == [8]


@pytest.mark.parametrize("change", ["crlf", "blank lines", "no last line end", "mark", "spaces"])
def test_how_lines_are_ended_does_not_matter(change: str) -> None:
    plain = log(*valid_lines())
    changed = {
        "crlf": plain.replace(b"\n", b"\r\n"),
        "blank lines": plain.replace(b"\n", b"\n\n  \n"),
        "no last line end": plain.rstrip(),
        "mark": b"\xef\xbb\xbf" + plain,
        "spaces": plain.replace(b"\n", b" \n\t "),
    }[change]
    read = dtr_log.read(unpack(changed, "log"), "name", "log")
    assert read == dtr_log.read(plain, "name", "log")


def test_a_bundled_sample_loads() -> None:
    trace = load_trace("bundled:unet", cache=False)
    assert trace.name == "unet"
    assert trace.n_calls > 0
