"""The Trace as a value: equality, hash, repr, pickle, and what its digest depends on."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.random_dag import random_dag
from rematsim.traces.trace import Trace


def small(name: str = "a", source: str = "s", line: int = 1, **how: str | bool) -> TraceBuilder:
    builder = TraceBuilder(name, source, **how)  # type: ignore[arg-type]
    builder.constant("x", 8, line)
    builder.call("f", ["x"], [("y", 4, -1)], 10, line=line)
    return builder


def test_equality_looks_at_what_happened_not_at_what_it_is_called() -> None:
    assert small().build() == small("b", "t", 99).build()
    assert hash(small().build()) == hash(small("b", "t", 99).build())
    assert small().build() != "a"


CHANGES: dict[str, Callable[[], TraceBuilder]] = {
    "rebinding": lambda: small(rebinding="storage"),
    "times_estimated": lambda: small(times_estimated=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_how_it_was_recorded_is_part_of_the_digest(change: str) -> None:
    assert CHANGES[change]().build() != small().build()


EVENTS: dict[str, Callable[[TraceBuilder], object]] = {
    "nothing": lambda b: None,
    "constant": lambda b: b.constant("z", 1),
    "constant size": lambda b: b.constant("z", 2),
    "constant name": lambda b: b.constant("zz", 1),
    "copy": lambda b: b.copy("z", "x"),
    "copy of another": lambda b: b.copy("z", "y"),
    "copy_from": lambda b: b.copy_from("y", "x"),
    "release": lambda b: b.release("x"),
    "backward": lambda b: b.backward(),
    "call": lambda b: b.call("f", ["x"], [("z", 4, -1)], 10),
    "operator": lambda b: b.call("g", ["x"], [("z", 4, -1)], 10),
    "args": lambda b: b.call("f", ["y"], [("z", 4, -1)], 10),
    "size": lambda b: b.call("f", ["x"], [("z", 5, -1)], 10),
    "alias": lambda b: b.call("f", ["x"], [("z", 4, 0)], 10),
    "time": lambda b: b.call("f", ["x"], [("z", 4, -1)], 11),
    "mutates": lambda b: b.call("f", ["x"], [("z", 4, -1)], 10, mutates=[0]),
    "workspace": lambda b: b.call("f", ["x"], [("z", 4, -1)], 10, workspace_bytes=1),
    "phase": lambda b: b.call("f", ["x"], [("z", 4, -1)], 10, phase=1),
    "module": lambda b: b.call("f", ["x"], [("z", 4, -1)], 10, module="m"),
    "forward": lambda b: b.call("f", ["x"], [("z", 4, -1)], 10, forward=0),
    "tags": lambda b: b.call("f", ["x"], [("z", 4, -1)], 10, tags=1),
    "kind": lambda b: b.call("f", ["x"], [("z", 4, -1)], 10, kinds=["float32[1]"]),
    "kind of a constant": lambda b: b.constant("z", 1, kind="float32[1]"),
}


def test_every_difference_changes_the_digest() -> None:
    digests = {}
    for name, event in EVENTS.items():
        builder = small()
        event(builder)
        digests[name] = builder.build().digest
    assert len(set(digests.values())) == len(EVENTS)


def test_the_digest_is_the_same_everywhere_and_for_good() -> None:
    """A number that tables keep: it changes only when the raw layer itself does."""
    assert small().build().digest == (
        "13b213b2b0afd9ede1d7adc77d71cf845ee300a9727b6a0270bfcc16db28a852"
    )


def test_repr_tells_traces_apart() -> None:
    assert repr(small().build()).startswith("Trace('a', n_calls=1, n_constants=1, digest='")


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_a_duplicate_is_equal_and_complete(duplicate: Callable[[Trace], Trace]) -> None:
    trace = random_dag(3)
    twin = duplicate(trace)
    assert twin == trace
    assert twin.names == trace.names
    assert twin.call_line.tolist() == trace.call_line.tolist()
    assert (twin.name, twin.source) == (trace.name, trace.source)


def test_what_a_trace_has_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="a Trace has no 'colour'"):
        _ = small().build().colour
