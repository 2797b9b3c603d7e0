"""Recordings of several steps, cut at their marks. No torch is needed."""

from __future__ import annotations

import pytest
from rematsim.errors import TraceError
from rematsim.opcodes import PHASE_FORWARD
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
        -1,
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
