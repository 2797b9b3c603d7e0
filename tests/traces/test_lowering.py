"""What becomes of a recording: hand-made events, and the log's instructions for each."""

from __future__ import annotations

import pytest
from rematsim import simulate
from rematsim.errors import TraceError
from rematsim.opcodes import PHASE_BACKWARD, PHASE_FORWARD
from rematsim.traces.importers.dtr_export import exportable
from rematsim.traces.lowering import to_trace
from rematsim.traces.merging import merge
from rematsim.traces.recording import (
    BackwardEntered,
    Constant,
    Death,
    Event,
    Geometry,
    RecordedCall,
    Recording,
    View,
    live_bytes,
    split_by_tensor,
)
from rematsim.traces.trace import Trace

WEIGHT = {0: Constant("param:w", 40)}


def whole(storage: int) -> View:
    """Give the view of a storage that is the tensor it was made for."""
    return View(storage, Geometry(0, (2,), (1,), "torch.float32"))


def half(storage: int) -> View:
    """Give another view of a storage."""
    return View(storage, Geometry(0, (1,), (1,), "torch.float32"))


def call(
    operator: str,
    arguments: list[View],
    results: list[View],
    sizes: dict[int, int] | None = None,
    written: tuple[int, ...] = (),
    time_ns: int = 5,
    phase: int = PHASE_FORWARD,
    node: int = -1,
) -> RecordedCall:
    return RecordedCall(
        operator,
        tuple(arguments),
        tuple(results),
        written,
        tuple((sizes or {}).items()),
        time_ns,
        phase,
        "",
        0,
        node,
    )


def lowered(*events: Event, constants: dict[int, Constant] | None = None) -> Trace:
    return to_trace(Recording(WEIGHT if constants is None else constants, events), "t")


def spoken(trace: Trace) -> list[str]:
    """Say a trace's instructions in words: results with bytes, or with the operand they view."""
    said = []
    for code, a, b in trace.instructions.tolist():
        if code == 0:
            said.append(f"constant {trace.names[a]}:{trace.constant_bytes[b]}")
        elif code == 1:
            said.append(spoken_call(trace, a))
        elif code in (2, 3):
            said.append(f"{('copy', 'copy_from')[code - 2]} {trace.names[a]} {trace.names[b]}")
        else:
            said.append(f"release {trace.names[a]}" if code == 4 else "backward")
    return said


def spoken_call(trace: Trace, index: int) -> str:
    def section(values: object, offsets: object) -> list[int]:
        return values[offsets[index] : offsets[index + 1]].tolist()  # type: ignore[index]

    operands = [trace.names[n] for n in section(trace.arg_names, trace.arg_offsets)]
    for position in section(trace.mutate_args, trace.mutate_offsets):
        operands[position] += "!"
    results = [
        f"{trace.names[name]}:{size}" if alias == -1 else f"{trace.names[name]}@{alias}"
        for name, size, alias in zip(
            section(trace.result_names, trace.result_offsets),
            section(trace.result_bytes, trace.result_offsets),
            section(trace.result_alias, trace.result_offsets),
            strict=True,
        )
    ]
    operator = trace.operators[trace.call_operator[index]]
    return " ".join([operator, *operands, "->", *results]).removesuffix(" ->")


def test_constants_stand_at_the_head_wherever_they_were_met() -> None:
    trace = lowered(
        call("relu", [whole(0)], [whole(1)], {1: 8}),
        call("add", [whole(1), whole(2)], [whole(3)], {3: 8}),
        constants={**WEIGHT, 2: Constant("constant:1", 8)},
    )
    assert spoken(trace) == [
        "constant param:w:40",
        "constant constant:1:8",
        "relu param:w -> x1:8",
        "add x1 constant:1 -> x2:8",
    ]


def test_all_names_of_a_storage_go_when_it_dies() -> None:
    trace = lowered(
        call("relu", [whole(0)], [whole(1)], {1: 8}),
        call("view", [whole(1)], [half(1)]),
        call("sum", [half(1)], [whole(2)], {2: 4}),
        Death(1),
    )
    assert spoken(trace)[1:] == [
        "relu param:w -> x1:8",
        "view x1 -> x2@0",
        "sum x2 -> x3:4",
        "release x1",
        "release x2",
    ]


def test_an_output_keeps_one_name() -> None:
    trace = lowered(
        call("relu", [whole(0)], [whole(1)], {1: 8}), call("view", [whole(1)], [half(1)])
    )
    assert spoken(trace)[-1] == "release x2"


def test_an_update_in_place_of_a_constant_is_a_call_without_bytes() -> None:
    trace = lowered(call("add_", [whole(0)], [], written=(0,)))
    assert spoken(trace)[1:] == ["add_ param:w -> x1:0", "release x1"]


def test_an_update_in_place_takes_the_other_names_away_and_derives_them_again() -> None:
    trace = lowered(
        call("relu", [whole(0)], [whole(1)], {1: 8}),
        call("view", [whole(1)], [half(1)]),
        call("mul_", [whole(1)], [], written=(0,)),
        call("sum", [half(1)], [whole(2)], {2: 4}),
        Death(1),
    )
    assert spoken(trace)[1:] == [
        "relu param:w -> x1:8",
        "view x1 -> x2@0",
        "release x2",
        "mul_ x1!",
        "view x1 -> x3@0",
        "sum x3 -> x4:4",
        "release x1",
        "release x3",
    ]


def test_an_update_through_a_view_makes_the_view_the_root() -> None:
    trace = lowered(
        call("relu", [whole(0)], [whole(1)], {1: 8}),
        call("view", [whole(1)], [half(1)]),
        call("mul_", [half(1)], [], written=(0,)),
        call("sum", [whole(1)], [whole(2)], {2: 4}),
    )
    assert spoken(trace)[3:] == ["release x1", "mul_ x2!", "view x2 -> x3@0", "sum x3 -> x4:4"] + [
        "release x3"
    ]


def test_a_call_that_updates_and_returns_is_one_call() -> None:
    """A DTR log has no such call: there it is two."""
    trace = lowered(
        call("relu", [whole(0)], [whole(1)], {1: 8}),
        call("rrelu", [whole(0), whole(1)], [whole(2)], {2: 40}, written=(1,)),
    )
    assert spoken(trace)[2:] == ["rrelu param:w x1! -> x2:40"]
    log, _ = exportable(trace)
    assert spoken(log)[2:] == ["rrelu param:w x1 -> x2:40", "rrelu param:w x1!"]


def test_a_view_that_an_update_returns_is_derived_from_the_new_value() -> None:
    trace = lowered(
        call("relu", [whole(0)], [whole(1)], {1: 8}),
        call("add_", [whole(1)], [half(1)], written=(0,)),
        call("sum", [half(1)], [whole(2)], {2: 4}),
    )
    assert spoken(trace)[2:5] == ["add_ x1!", "view x1 -> x2@0", "sum x2 -> x3:4"]


def test_a_resized_operand_has_its_new_size() -> None:
    trace = lowered(
        call("empty", [], [whole(1)], {1: 0}),
        call("mm", [whole(0), whole(1)], [], {1: 16}, written=(1,)),
    )
    assert spoken(trace)[2:] == ["mm param:w x1 -> x2:16", "copy_from x1 x2", "release x2"]


def test_operands_of_an_updated_storage_go_by_one_name() -> None:
    trace = lowered(
        call("relu", [whole(0)], [whole(1)], {1: 8}),
        call("fill_", [whole(1), half(1)], [], written=(0, 1)),
    )
    assert spoken(trace)[2:] == ["fill_ x1! x1"]


IN_PLACE = call("mul_", [whole(1)], [], written=(0,))


@pytest.mark.parametrize(
    "update",
    [
        IN_PLACE,
        call("mul_", [half(1)], [], written=(0,)),
        call("mul_", [whole(1), half(1)], [], written=(0,)),
        call("mul_", [whole(1)], [half(1)], written=(0,)),
        call("rrelu", [whole(0), whole(1)], [whole(3)], {3: 8}, written=(1,)),
    ],
)
def test_an_update_in_place_never_holds_old_and_new(update: RecordedCall) -> None:
    """Whatever other names the storage has, and after an update that cut it off from its maker."""
    recording = Recording(
        WEIGHT,
        (
            call("relu", [whole(0)], [whole(1)], {1: 1 << 20}),
            call("t", [whole(1)], [half(1)]),
            IN_PLACE,
            call("sum", [half(1)], [whole(2)], {2: 4}),
            update,
        ),
    )
    for deallocation in ("banish", "eager", "ignore"):
        replay = simulate(
            to_trace(recording, "t"), "h_LRU", mutation="inplace", deallocation=deallocation
        )
        assert replay.peak_bytes == max(live_bytes(recording))


def test_a_second_tensor_of_a_new_storage_is_derived_when_it_is_used() -> None:
    trace = lowered(
        call("pair", [whole(0)], [whole(1), half(1)], {1: 8}),
        call("sum", [half(1)], [whole(2)], {2: 4}),
    )
    assert spoken(trace)[1:4] == ["pair param:w -> x1:8", "view x1 -> x2@0", "sum x2 -> x3:4"]


def test_a_call_without_a_tensor_has_a_result_of_no_bytes() -> None:
    trace = lowered(call("item", [whole(0)], []))
    assert spoken(trace)[1:] == ["item param:w -> x1:0", "release x1"]


def test_a_backward_call_knows_its_forward_call() -> None:
    trace = lowered(
        call("relu", [whole(0)], [whole(1)], {1: 8}, node=7),
        BackwardEntered(),
        call("relu_backward", [whole(1)], [whole(2)], {2: 8}, phase=PHASE_BACKWARD, node=7),
    )
    assert trace.call_forward.tolist() == [-1, 0]
    assert "backward" in spoken(trace)


def test_live_bytes_count_constants_from_the_start() -> None:
    """40 bytes of weights; +8, +4 with the 8 still there, then 4 more when the 8 are gone."""
    recording = Recording(
        WEIGHT,
        (
            call("relu", [whole(0)], [whole(1)], {1: 8}),
            call("sum", [whole(1)], [whole(2)], {2: 4}),
            Death(1),
            call("neg", [whole(2)], [whole(3)], {3: 4}),
        ),
    )
    assert list(live_bytes(recording)) == [48, 52, 48]


def test_merged_repeats_have_median_times() -> None:
    repeats = [
        Recording(WEIGHT, (call("relu", [whole(0)], [whole(1)], {1: 8}, time_ns=time_ns),))
        for time_ns in (9, 2, 4)
    ]
    assert merge(repeats).calls[0].time_ns == 4


@pytest.mark.parametrize("other", [(), (call("tanh", [whole(0)], [whole(1)], {1: 8}),)])
def test_repeats_that_differ_are_refused(other: tuple[Event, ...]) -> None:
    first = Recording(WEIGHT, (call("relu", [whole(0)], [whole(1)], {1: 8}),))
    with pytest.raises(TraceError, match=r"repeat 2 .*every repeat must run the same step"):
        merge([first, Recording(WEIGHT, other)])


def test_a_call_over_lists_is_taken_apart() -> None:
    """Two pairs and a scalar tensor: the scalar belongs to both parts, the 7 ns are divided."""
    lists = call(
        "_foreach_add",
        [whole(1), whole(2), whole(3), whole(4), whole(9)],
        [whole(5), whole(6)],
        {5: 8, 6: 16},
        time_ns=7,
    )
    parts = list(split_by_tensor(lists._replace(written=(0, 1)), (0, 1, 0, 1, -1), 2))
    assert [[view.storage for view in part.arguments] for part in parts] == [[1, 3, 9], [2, 4, 9]]
    assert [part.bytes_after for part in parts] == [((5, 8),), ((6, 16),)]
    assert [part.written for part in parts] == [(0,), (0,)]
    assert [part.time_ns for part in parts] == [4, 3]
