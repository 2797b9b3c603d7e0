"""Broken files of every format: only a TraceError comes out, in one line."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from fuzz_formats import (
    FX,
    GRAPH,
    OPERATORS,
    SEPARATOR,
    check,
    columns_seed,
    seeds,
    small_trace,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rematsim.traces.importers.trace_wire import NUMBERS
from rematsim.traces.importers.trace_writer import encoded_trace

SEEDS = seeds()
QUIET = [HealthCheck.too_slow]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 9),
    st.sampled_from([2**53, 2**53 + 1, 2**64, 10**400, 1e308, -0.5, "", "x", "\0", "a" * 70]),
    st.sampled_from([[], {}, [[]], [0], {"name": 0}]),
)


@pytest.mark.parametrize("data", SEEDS)
def test_seeds_are_read_or_refused(data: bytes) -> None:
    check(data)


def shortened(column: int) -> bytes:
    """Columns of which one has fewer rows than the others of its table."""
    sections = columns_seed(small_trace()).split(SEPARATOR)
    sections[column] = sections[column][:-4]
    return SEPARATOR.join(sections)


FOUND = {
    "a quote in the first line of a table": OPERATORS.replace(b"OperatorID", b'"'),
    **{f"column {k} of a table is shorter": shortened(k) for k in range(1, len(NUMBERS))},
}


@pytest.mark.parametrize("what", FOUND)
def test_what_fuzzing_found(what: str) -> None:
    check(FOUND[what])


@given(st.sampled_from(SEEDS), st.data())
@settings(max_examples=500, deadline=None, suppress_health_check=QUIET)
def test_files_with_some_bytes_changed(seed: bytes, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(seed)))
        length = data.draw(st.integers(0, 4))
        seed = seed[:place] + data.draw(st.binary(max_size=4)) + seed[place + length :]
    check(seed)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in nested values: the container and the key."""
    keys = value if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


@given(st.sampled_from([GRAPH, FX]), st.data())
@settings(max_examples=500, deadline=None, suppress_health_check=QUIET)
def test_graphs_with_some_values_changed(graph: dict[str, Any], data: st.DataObject) -> None:
    values = json.loads(json.dumps(graph))
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(values)))
        if data.draw(st.booleans()):
            container[key] = copy.deepcopy(data.draw(ODD))
        elif isinstance(container, dict):
            container.pop(key, None)
        else:
            container.insert(key, json.loads(json.dumps(container[key])))
        if not places(values):
            break
    check(json.dumps(values, separators=(",", ":")).encode())


@given(st.sampled_from(OPERATORS.split(b",")), st.sampled_from([b"", b"x", b"[1; 2]", b"-1", b'"']))
@settings(max_examples=200, deadline=None)
def test_tables_with_some_cells_changed(old: bytes, new: bytes) -> None:
    check(OPERATORS.replace(old, new, 1))
    check(OPERATORS.replace(old, new))


@given(st.data())
@settings(max_examples=500, deadline=None, suppress_health_check=QUIET)
def test_trace_files_whose_checksums_are_right(data: st.DataObject) -> None:
    """What only a checksum keeps out is kept out without it."""
    seed = columns_seed(small_trace())
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(8, len(seed)))
        length = data.draw(st.integers(0, 8))
        seed = seed[:place] + data.draw(st.binary(max_size=8)) + seed[place + length :]
    check(seed)


def test_every_place_to_cut_a_file() -> None:
    for data in (json.dumps(GRAPH).encode(), json.dumps(FX).encode(), OPERATORS):
        for length in range(len(data)):
            check(data[:length])
    file = b"".join(encoded_trace(small_trace()))
    for length in range(0, len(file), 7):
        check(file[:length])


@pytest.mark.parametrize(
    "data",
    [
        b'{"directed": true, "multigraph": false, "nodes": ' + b"[" * 100_000,
        b'{"format":"rematsim fx graph","nodes":' + b'[{"args":' * 50_000,
        b'{"directed": true, "multigraph": false, "nodes": [' + b"1" * 100_000 + b"]}",
        OPERATORS + b"1," * 200_000,
        OPERATORS + b'1,"' + b"x" * 200_000,
    ],
)
def test_deep_and_long_files(data: bytes) -> None:
    check(data)
