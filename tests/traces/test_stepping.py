"""Recordings of several steps, cut at their marks. No torch is needed."""

from __future__ import annotations

import pytest
from rematsim.errors import TraceError
from rematsim.opcodes import PHASE_BACKWARD, PHASE_FORWARD
from rematsim.traces.merging import UnlikeRepeatsError, merge
from rematsim.traces.noting import notes_of
from rematsim.traces.recording import (
    Constant,
    Death,
    Event,
    Geometry,
    RecordedCall,
    Recording,
    StepEnd,
    View,
    live_bytes,
)
from rematsim.traces.stepping import _cut, _marked, _pieces, repeats, whole

STEPPED, SAID = StepEnd(False), StepEnd(True)


def view(storage: int) -> View:
    return View(storage, Geometry(0, (2,), (1,), "float32"))


def call(operator: str, arguments: list[int], result: int, size: int, ns: int = 5) -> RecordedCall:
    return RecordedCall(
        operator,
        tuple(map(view, arguments)),
        (view(result),),
        (),
        ((result, size),),
        ns,
        PHASE_FORWARD,
        "",
        0,
        autograd_node=result,
    )


def two_steps(*ends: StepEnd) -> Recording:
    """A weight 0 and a step's output, which is held until the next step has made its own."""
    constants = {0: Constant("param:w", 40), 1: Constant("", 8), 3: Constant("", 8)}
    events: list[Event] = [
        *(call("relu", [0, 1], 2, 16, 3), *ends[:1]),
        *(call("relu", [0, 3], 4, 16, 9), Death(2), *ends[1:]),
    ]
    return Recording(constants, tuple(events), labels={4: "grad:w"})


def test_a_step_has_what_it_uses_or_frees() -> None:
    """Of the second step: the weight, its own input, and the output that was held."""
    step = repeats(two_steps(STEPPED, STEPPED), 1, steps=2)
    assert [c.label for c in step.constants.values()] == ["param:w", "constant:1", "constant:2"]
    with pytest.raises(TraceError, match="repeat 2"):
        repeats(two_steps(STEPPED, STEPPED), 2)
    three = two_steps(STEPPED, STEPPED).events
    later = [call("relu", [0, 3], 5, 16, 7), Death(4), STEPPED]
    recording = Recording(two_steps().constants, (*three, *later))
    merged = repeats(recording, 3)  # the first, which frees nothing, is left out
    assert [c.label for c in merged.constants.values()] == ["param:w", "constant:1", "held:2"]
    assert [c.time_ns for c in merged.calls] == [8]
    assert list(live_bytes(merged)) == [40 + 8 + 16 + 16]


def test_a_storage_that_got_a_name_later_has_it_as_a_constant() -> None:
    """The second step makes storage 4, and the program names it: the third has it from then on."""
    events = (*two_steps(STEPPED, STEPPED).events, call("neg", [4], 5, 16), STEPPED)
    for labels, wanted in (({4: "grad:w"}, "grad:w"), ({}, "constant:0")):
        recording = Recording(two_steps().constants, events, labels=labels)
        third = list(_pieces(recording, _cut(*_marked(events))))[2]
        assert [c.label for c in third.constants.values()] == [wanted]


def loop(number: int, loads_first: bool) -> list[Event]:
    """A step of a training loop: a batch, the loss, its gradient, an update; then both are freed.

    Storage 0 is the weight; the gradient goes when the next step begins, after or before its batch.
    """
    batch, loss, gradient = (10 * number + k for k in range(3))
    load = call("select", [1], batch, 16)._replace(autograd_node=number - 1)  # it makes none
    drop = [Death(gradient - 10)] if number else []
    return [
        *([load, *drop] if loads_first else [*drop, load]),
        call("mul", [0, batch], loss, 4)._replace(autograd_node=number, module="Model"),
        call("mul_backward", [loss], gradient, 40)._replace(phase=PHASE_BACKWARD),
        *(Death(loss), Death(batch)),
        call("add", [0, gradient], gradient, 40)._replace(autograd_node=number),
        STEPPED,
    ]


@pytest.mark.parametrize("loads_first", [False, True])
def test_a_step_ends_when_its_gradients_are_gone(loads_first: bool) -> None:
    """No step begins or ends with gradients, even if the next batch is loaded before they go."""
    events = tuple(e for number in range(1, 5) for e in loop(number, loads_first))
    constants = {0: Constant("param:w", 40), 1: Constant("data", 64), 2: Constant("grad:w", 40)}
    step = repeats(Recording(constants, events), 3)
    held = [constant.label for constant in step.constants.values()]
    assert "grad:w" not in held
    assert {e.storage for e in step.events if isinstance(e, Death)} >= {
        view.storage for c in step.calls if c.phase == PHASE_BACKWARD for view in c.results
    }


def test_offsets_are_not_compared_and_shapes_are() -> None:
    """Each step takes another batch of one storage; the message has both values."""

    def step(offset: int, length: int) -> Recording:
        taken = View(0, Geometry(offset, (length,), (1,), "float32"))
        return Recording(
            {0: Constant("data", 800)}, (call("neg", [], 1, 8)._replace(arguments=(taken,)),)
        )

    assert merge([step(0, 2), step(2, 2)]).repeats == 2
    wanted = (
        r"repeat 2 differs from repeat 1 at call 0: argument 0 has shape \(3,\) instead of \(2,"
    )
    with pytest.raises(TraceError, match=wanted):
        merge([step(0, 2), step(2, 3)])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (call("tanh", [0], 1, 16), "tanh instead of relu"),
        (call("relu", [0], 1, 24), "bytes_after 24 of storage 1 instead of 16 of storage 1"),
        (call("relu", [0], 1, 16)._replace(module="A"), "module A instead of none"),
        (call("relu", [0], 1, 16)._replace(phase=3), "phase opt instead of fwd"),
        (call("relu", [0, 0], 1, 16), "2 arguments instead of 1"),
        (call("relu", [2], 1, 16), "argument 0 is x (8 bytes) instead of w (8 bytes)"),
        (Death(2), "the end of x (8 bytes) instead of a call of relu"),
    ],
)
def test_a_message_names_what_differs(other: Event, message: str) -> None:
    constants = {0: Constant("w", 8), 2: Constant("x", 8)}
    first = Recording(constants, (call("relu", [0], 1, 16), call("neg", [2], 3, 8)))
    with pytest.raises(TraceError) as caught:
        merge([first, Recording(constants, (other, first.events[1]))])
    assert f"at call 0: {message}" in str(caught.value)
    with pytest.raises(TraceError, match="only repeat 1 goes on, with a call of neg"):
        merge([first, Recording(constants, first.events[:1])])


def test_a_minority_of_repeats_is_left_out_with_a_note() -> None:
    """An epoch ends in one of four; kinds of steps that take turns are refused."""
    usual, other = (Recording({}, (call(name, [], 0, 8),)) for name in ("relu", "randperm"))
    merged = merge([usual, other, usual, usual])
    assert merged.repeats == 3
    assert merged.notes == (
        "1 of 4 repeats left out: repeat 2 differs from repeat 1 at call 0: "
        "randperm instead of relu",
    )
    with pytest.raises(UnlikeRepeatsError, match="every repeat must run the same step") as caught:
        merge([usual, other, usual, other, usual])
    assert caught.value.period == 2


@pytest.mark.parametrize(
    ("kinds", "period"), [("ab", 0), ("abab", 2), ("abcabca", 3), ("aabbab", 0)]
)
def test_kinds_of_steps_that_take_turns_are_seen_from_two_turns_on(kinds: str, period: int) -> None:
    steps = [Recording({}, (call(name, [], 0, 8),)) for name in kinds]
    with pytest.raises(UnlikeRepeatsError) as caught:
        merge(steps)
    assert caught.value.period == period


def test_what_stands_behind_the_last_mark_of_a_block_belongs_to_each_step() -> None:
    """A loop averages its weights after the optimizer's step: a block of two is two of these."""
    update, average = call("mul_", [0], 0, 40), call("lerp_", [0], 0, 40)
    events = (update, STEPPED, average, update, STEPPED, average)
    recording = Recording({0: Constant("param:w", 40)}, events)
    step = repeats(recording, 2, is_block=True)
    assert [c.operator for c in step.calls] == ["mul_", "lerp_"]
    with pytest.raises(TraceError, match="repeat 2 differs"):
        repeats(recording, 2)


def test_what_goes_before_the_first_call_is_the_step_befores() -> None:
    """Gradients that a loop drops first are neither constants nor outputs that come back."""
    first = (call("mul", [0], 1, 8), STEPPED, Death(1))
    events = (*first, call("mul", [0], 2, 8), STEPPED, Death(2))
    step = repeats(Recording({0: Constant("param:w", 40)}, events), 2)
    assert list(step.constants) == [0]
    assert [type(event) for event in step.events] == [RecordedCall, Death]


def test_more_steps_than_wanted_are_left_out_unless_they_are_in_a_block() -> None:
    recording = two_steps(STEPPED, STEPPED)
    assert len(repeats(recording, 1).calls) == 1
    with pytest.raises(TraceError, match="2 steps instead of 1"):
        repeats(recording, 1, is_block=True)


def test_much_that_goes_in_a_step_is_noted() -> None:
    """40 bytes of gradients are there for half of a step that has 56 at its peak."""
    constants = {0: Constant("grad:w", 40)}
    lost = Recording(constants, (call("relu", [], 1, 16), Death(0), call("relu", [], 2, 16)))
    (note,) = notes_of(lost)
    assert note.startswith("40 bytes (71% of the peak) were there before the step and go in it")
    assert "--deallocation banish" in note
    assert "zero_grad() right behind" in note
    assert not notes_of(Recording(constants, lost.events[:1]))


def test_marks_of_the_program_win() -> None:
    recording = two_steps(STEPPED, SAID)
    assert len(repeats(recording, 1).calls) == 2
    with pytest.raises(TraceError, match="1 steps instead of 2"):
        repeats(recording, 2)


def test_a_whole_recording_has_no_marks_and_new_numbers() -> None:
    recording = whole(two_steps(STEPPED, SAID))
    assert [type(event).__name__ for event in recording.events] == [
        *("RecordedCall", "RecordedCall", "Death")
    ]
    assert list(recording.constants) == [0, 1, 3]
    assert list(live_bytes(recording)) == list(live_bytes(two_steps()))
