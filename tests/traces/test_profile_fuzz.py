"""Profiles that are broken in every way: a value or one line comes out, and nothing is run."""

from __future__ import annotations

import json
import random
from typing import Any

import profile_files as files
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_fuzz import changed_message
from profile_fuzz import MESSAGES, check, check_joined, recognize_all, seeds

SEEDS = seeds()
KINDS = sorted(SEEDS)
JSON_KINDS = ["execution", "kineto", "timeline"]
# Values that have no business where they come to stand.
STRANGE: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**53 + 1,
    2**64,
    10**30,
    1.5,
    1e300,
    "",
    "cpu",
    "Tensor(float)",
    [],
    [[]],
    {},
    [1, 2, 3, 4, 5, "cpu"],
    [-1, 1, 0, 1, 4, "cpu"],
    [1, 1, 2**52, 2**52, 2**52, "cpu"],
    "aten::add_(Tensor(a!) x)->y",
    "(((",
    "[memory]",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything inside a document."""
    found = [path]
    inside = value.items() if isinstance(value, dict) else []
    for key, item in enumerate(value) if isinstance(value, list) else inside:
        found += places(item, (*path, key))
    return found


@st.composite
def mutated(draw: st.DrawFn, kinds: list[str]) -> tuple[str, bytes]:
    """A good document with something dropped, doubled, or strange in it."""
    kind = draw(st.sampled_from(kinds))
    document = json.loads(draw(st.sampled_from(SEEDS[kind])))
    for _ in range(draw(st.integers(1, 3))):
        all_places = places(document)[1:]
        if not all_places:
            break
        *path, last = draw(st.sampled_from(all_places))
        target = document
        for key in path:
            target = target[key]
        how = draw(st.sampled_from(["drop", "strange", "double"]))
        if how == "drop":
            del target[last]
        elif how == "double" and isinstance(target, list):
            target.append(json.loads(json.dumps(target[last])))
        else:
            target[last] = json.loads(json.dumps(draw(st.sampled_from(STRANGE))))
    return kind, json.dumps(document).encode()


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good file with bytes changed, dropped, put in, or cut off."""
    kind = draw(st.sampled_from(KINDS))
    data = draw(st.sampled_from(SEEDS[kind]))
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(len(data), begin + 8)))
        data = data[:begin] + draw(st.binary(max_size=4)) + data[end:]
    return kind, data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


@given(st.sampled_from([*KINDS, "onnx"]), st.binary(max_size=500))
@settings(max_examples=200, deadline=None)
def test_arbitrary_bytes(kind: str, data: bytes) -> None:
    recognize_all(data)
    check(kind, data)


@given(damaged())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_files(case: tuple[str, bytes]) -> None:
    check(*case)


@given(mutated(JSON_KINDS))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_documents_with_strange_things_in_them(case: tuple[str, bytes]) -> None:
    check(*case)


@given(st.sampled_from(MESSAGES), st.integers(0, 2**32))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_messages_with_fields_dropped_moved_or_altered(kind: str, seed: int) -> None:
    for data in SEEDS.get(kind, []):
        check(kind, changed_message(data, random.Random(seed)))


@given(mutated(["execution"]), mutated(["kineto"]))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_pairs_with_strange_things_in_them(
    trace: tuple[str, bytes], profile: tuple[str, bytes]
) -> None:
    check_joined(trace[1], profile[1])
    check_joined(trace[1], SEEDS["kineto"][0])
    check_joined(SEEDS["execution"][0], profile[1])


@pytest.mark.parametrize("kind", KINDS)
def test_every_place_to_cut_a_file(kind: str) -> None:
    """What is cut off is refused, except where a message or a number may end."""
    whole = SEEDS[kind][0]
    for length in range(0, len(whole), max(1, len(whole) // 300)):
        check(kind, whole[:length])


def test_good_files_are_read_and_recognized_as_what_they_are() -> None:
    names = {"execution": "execution", "kineto": "kineto", "chakra": "chakra"}
    for kind, expected in names.items():
        for data in SEEDS[kind]:
            assert recognize_all(data) == [expected]
    for kind in ("execution", "chakra", "snapshot", "timeline"):
        for data in SEEDS[kind]:
            assert check(kind, data) is not None


FOUND = {
    "strides that are a number": (
        "execution",
        files.execution_trace(schema="1.1.1").replace(b'"strides": [[3, 1]', b'"strides": [3', 1),
    ),
    "a history of events that move nothing": ("snapshot", files.snapshot(device_traces=[[{}]])),
    "an action that is a dictionary": (
        "snapshot",
        files.snapshot(device_traces=[[{"action": {}, "size": 1}]]),
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_what_fuzzing_found(what: str) -> None:
    check(*FOUND[what])
