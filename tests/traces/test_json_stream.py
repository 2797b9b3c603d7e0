"""Elements of an array in JSON of any length: all of them, whole, wherever pieces are cut."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rematsim.errors import TraceError
from rematsim.traces.importers import json_stream
from rematsim.traces.importers.json_stream import ElementStream

AWKWARD = st.sampled_from(['"', "\\", '\\"', "[", "}", '"nodes": [', "é\\\\", "", "a"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | AWKWARD | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(AWKWARD, inner, max_size=3),
    max_leaves=10,
)


def elements(data: bytes, piece_bytes: int = 1 << 20) -> tuple[list[Any], dict[str, Any]]:
    """All elements, and what stands beside the array, read in pieces of a size."""
    usual, json_stream.CHUNK_BYTES = json_stream.CHUNK_BYTES, piece_bytes
    try:
        stream = ElementStream(io.BytesIO(data), "nodes", "file")
        found = [element for block in stream.blocks() for element in json.loads(block)]
        return found, stream.rest
    finally:
        json_stream.CHUNK_BYTES = usual


@given(
    st.dictionaries(st.sampled_from(["a", "b"]), VALUES),
    st.lists(VALUES, max_size=6),
    st.integers(1, 40),
    st.sampled_from([None, 1]),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_what_comes_out_is_what_a_whole_decoder_finds(
    beside: dict[str, Any], nodes: list[Any], piece: int, indent: int | None, is_first: bool
) -> None:
    document = {"nodes": nodes, **beside} if is_first else {**beside, "nodes": nodes}
    found, rest = elements(json.dumps(document, indent=indent).encode(), piece)
    assert found == nodes
    assert {key: value for key, value in rest.items() if key != "nodes"} == beside


def test_an_array_of_that_name_deeper_inside_is_another() -> None:
    data = b'{"x": {"nodes": [1]}, "y": [{"nodes": [2]}], "nodes": [3, {"nodes": [4]}]}'
    assert elements(data)[0] == [3, {"nodes": [4]}]


def test_every_place_to_cut_a_document_is_found_out() -> None:
    data = b'{"a": "]}", "nodes": [{"b": [1, "\\""]}, 2], "c": {}}'
    for length in range(1, len(data)):
        with pytest.raises(TraceError, match="^file: "):
            elements(data[:length])


def test_an_element_larger_than_any_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MAX_ELEMENT_BYTES", 1000)
    data = b'{"nodes": [{"a": "' + b"x" * 3000 + b'"}]}'
    with pytest.raises(TraceError, match="one element of 'nodes' is larger than 1,000 bytes"):
        elements(data, 100)


def test_much_beside_the_array_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MAX_BESIDE_BYTES", 1000)
    data = b'{"nodes": [], "a": "' + b"x" * 3000 + b'"}'
    with pytest.raises(TraceError, match="what stands beside 'nodes' is larger than 1,000 bytes"):
        elements(data, 100)
