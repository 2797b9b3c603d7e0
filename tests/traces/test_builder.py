"""The TraceBuilder: what it takes, what it refuses, and that both ways into it agree."""

from __future__ import annotations

import numpy as np
import pytest
from rematsim.errors import InputError, TraceError
from rematsim.opcodes import BACKWARD, CALL, CONSTANT, COPY, COPY_FROM, RELEASE
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.bulk import Events
from rematsim.traces.random_dag import random_dag


def with_constants(*names: str) -> TraceBuilder:
    builder = TraceBuilder("test", "source")
    for k, name in enumerate(names):
        builder.constant(name, 8, line=k + 1)
    return builder


def test_events_become_instructions_in_order() -> None:
    builder = with_constants("x")
    builder.copy("x2", "x")
    assert builder.call("f", ["x", "x2"], [("y", 4, -1), ("z", 9, 1)], 10, module="m") == 0
    builder.backward()
    builder.copy_from("x2", "y")
    assert builder.call("f_", ["y"], [], 5, mutates=[0]) == 1
    builder.release("z")
    builder.release("unknown")
    trace = builder.build()
    assert trace.names == ("x", "x2", "y", "z")
    assert trace.instructions.tolist() == [
        [CONSTANT, 0, 0],
        [COPY, 1, 0],
        [CALL, 0, 0],
        [BACKWARD, 0, 0],
        [COPY_FROM, 1, 2],
        [CALL, 1, 0],
        [RELEASE, 3, 0],
    ]
    assert trace.arg_names[trace.arg_offsets[0] : trace.arg_offsets[1]].tolist() == [0, 1]
    assert trace.result_names.tolist() == [2, 3]
    assert trace.result_bytes.tolist() == [4, 0], "a view has no bytes of its own"
    assert trace.modules == ("m",)
    assert trace.call_module.tolist() == [0, -1]
    assert trace.call_forward.tolist() == [-1, -1]
    assert trace.compute_ns == 15


def test_columns_are_read_only() -> None:
    trace = random_dag(1)
    with pytest.raises(ValueError, match="read-only"):
        trace.call_time_ns[0] = 5


REFUSED = {
    "size below 0": (
        lambda b: b.constant("c", -1, line=7),
        "source:7: CONSTANT 'c': size -1 is not an integer from 0 to 2^53",
    ),
    "size of the wrong type": (
        lambda b: b.constant("c", 1.5),
        "source: CONSTANT 'c': size 1.5 is not an integer from 0 to 2^53",
    ),
    "result too large": (
        lambda b: b.call("f", [], [("y", 2**53 + 1, -1)], 1),
        "source: CALL 'f': size of 'y', 9007199254740993 is not an integer from 0 to 2^53",
    ),
    "time of the wrong type": (
        lambda b: b.call("f", [], [("y", 1, -1)], "1"),
        "source: CALL 'f': TIME '1' is not an integer from 0 to 2^53",
    ),
    "workspace below 0": (
        lambda b: b.call("f", [], [("y", 1, -1)], 1, workspace_bytes=-1),
        "source: CALL 'f': workspace -1 is not an integer from 0 to 2^53",
    ),
    "name that is no text": (
        lambda b: b.constant(3, 1),
        "source: CONSTANT 3 is no string, and a name is one",
    ),
    "view of a later result": (
        lambda b: b.call("f", [], [("y", 1, -2), ("z", 1, -1)], 1),
        "source: CALL 'f': ALIAS -2 of 'y' is neither -1 nor an index into 0 ARGS",
    ),
    "unknown phase": (
        lambda b: b.call("f", [], [("y", 1, -1)], 1, phase=4),
        "source: CALL 'f': phase 4 is not in 0..3",
    ),
    "unknown tag": (
        lambda b: b.call("f", [], [("y", 1, -1)], 1, tags=8),
        "source: CALL 'f': tags 8 is not in 0..7",
    ),
    "forward call that is this one": (
        lambda b: b.call("f", [], [("y", 1, -1)], 1, forward=0),
        "source: CALL 'f': forward call 0 is not in -1..-1",
    ),
    "release twice, without lines": (
        lambda b: (b.release("x"), b.release("x")),
        "source: RELEASE of 'x': no live reference (last released)",
    ),
}


@pytest.mark.parametrize("event", REFUSED)
def test_an_illegal_event_is_refused_at_once(event: str) -> None:
    act, message = REFUSED[event]
    with pytest.raises(TraceError) as caught:
        act(with_constants("x"))
    assert str(caught.value) == message


def test_what_is_no_integer_is_refused_at_the_latest_by_build() -> None:
    builder = with_constants("x")
    builder.call("f", ["x"], [("y", 1, 0.0)], 1)  # type: ignore[list-item]
    with pytest.raises(TraceError, match="no 64-bit integer"):
        builder.build()


def test_text_that_no_file_can_hold_is_refused() -> None:
    with pytest.raises(TraceError, match="a name is no Unicode text"):
        with_constants("\ud800").build()


def test_times_that_do_not_add_up_in_64_bits_are_refused() -> None:
    builder = TraceBuilder("test")
    for k in range(513):
        builder.call("f", [], [(f"y{k}", 0, -1)], 2**53)
    with pytest.raises(TraceError, match=r"all times together .* more than 2\^60"):
        builder.build()


def test_integers_of_numpy_are_integers() -> None:
    builder = TraceBuilder("test")
    builder.constant("x", np.int64(8))  # type: ignore[arg-type]
    builder.call("f", ["x"], [("y", np.int32(4), -1)], np.uint8(3))  # type: ignore[list-item, arg-type]
    trace = builder.build()
    assert (trace.constant_bytes[0], trace.result_bytes[0], trace.compute_ns) == (8, 4, 3)


def test_an_unknown_rebinding_is_refused() -> None:
    with pytest.raises(InputError, match="rebinding 'all': it is one of listed, storage"):
        TraceBuilder("test", rebinding="all")


def columns(**given: object) -> Events:
    """Events of one call that is legal after a constant ``x``; what is given differs."""
    one_call: dict[str, object] = {
        "codes": np.array([CALL]),
        "lines": np.array([2]),
        "operators": ["f"],
        "times_ns": [1],
        "workspace_bytes": [0],
        "phases": [1],
        "modules": ["m"],
        "forwards": [-1],
        "tags": [0],
        "args": [["x"]],
        "results": [["y"]],
        "mutates": [[]],
        "result_bytes": [4],
        "result_alias": [-1],
    }
    return Events(**(one_call | given))  # type: ignore[arg-type]


def test_columns_that_are_legal_are_taken() -> None:
    bulk, single = with_constants("x"), with_constants("x")
    assert bulk.extend(columns())
    single.call("f", ["x"], [("y", 4, -1)], 1, phase=1, module="m", line=2)
    assert bulk.build() == single.build()


ILLEGAL_COLUMNS = {
    "unknown operand": {"args": [["z"]]},
    "operand that is its own result": {"args": [["y"]]},
    "result bound before": {"results": [["x"]]},
    "result bound twice": {
        "results": [["y", "y"]],
        "result_bytes": [1, 1],
        "result_alias": [-1, -1],
    },
    "size below 0": {"result_bytes": [-1]},
    "size too large": {"result_bytes": [2**53 + 1]},
    "size of the wrong type": {"result_bytes": [0.5]},
    "time below 0": {"times_ns": [-1]},
    "time beyond 64 bits": {"times_ns": [2**64]},
    "workspace below 0": {"workspace_bytes": [-1]},
    "alias out of range": {"result_alias": [1]},
    "view of itself": {"result_alias": [-2]},
    "unknown phase": {"phases": [4]},
    "unknown tag": {"tags": [8]},
    "forward call that is this one": {"forwards": [0]},
    "neither result nor mutation": {"results": [[]], "result_bytes": [], "result_alias": []},
    "mutated operand out of range": {"mutates": [[1]]},
    "operand mutated twice": {"mutates": [[0, 0]]},
    "released twice": {
        "codes": np.array([CALL, RELEASE, RELEASE]),
        "lines": np.array([2, 3, 4]),
        "released": ["x", "x"],
    },
    "released before its use": {
        "codes": np.array([RELEASE, CALL]),
        "lines": np.array([2, 3]),
        "released": ["x"],
    },
    "released before it is bound": {
        "codes": np.array([RELEASE, CALL]),
        "lines": np.array([2, 3]),
        "released": ["y"],
    },
}


@pytest.mark.parametrize("fault", ILLEGAL_COLUMNS)
def test_columns_with_a_fault_change_nothing(fault: str) -> None:
    builder, untouched = with_constants("x"), with_constants("x")
    assert not builder.extend(columns(**ILLEGAL_COLUMNS[fault]))
    assert builder.build() == untouched.build()
    assert builder.extend(columns())


def test_a_name_released_in_columns_is_known_to_be_released() -> None:
    builder = with_constants("x")
    released = {"codes": np.array([CALL, RELEASE]), "lines": np.array([2, 3]), "released": ["x"]}
    assert builder.extend(columns(**released))
    with pytest.raises(TraceError) as caught:
        builder.copy("z", "x", line=4)
    assert str(caught.value) == "source:4: COPY: SRC 'x' has no live reference (released at line 3)"
    assert not builder.extend(columns(results=[["z"]]))


def test_kinds_are_interned_and_unknown_ones_are_minus_one() -> None:
    builder = TraceBuilder("a")
    builder.constant("w", 8, kind="float32[2]")
    builder.constant("x", 8)
    results = [("y", 8, -1), ("z", 4, -1)]
    builder.call("f", ["w", "x"], results, 1, kinds=["float32[2]", "int32[1]"])
    builder.call("g", ["y"], [("v", 8, -1)], 1)
    trace = builder.build()
    assert trace.value_kinds == ("float32[2]", "int32[1]")
    assert trace.constant_kind.tolist() == [0, -1]
    assert trace.result_kind.tolist() == [0, 1, -1]


def test_each_result_has_a_kind_or_none_has() -> None:
    builder = TraceBuilder("a", "log")
    with pytest.raises(TraceError, match="^log:3: CALL 'f': 1 kinds of 2 results$"):
        builder.call("f", [], [("y", 8, -1), ("z", 8, -1)], 1, kinds=["int8[8]"], line=3)
