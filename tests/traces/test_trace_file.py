"""Trace files: nothing is lost, nothing that is no trace comes out, and what is wrong is said."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rematsim.errors import OutputError, TraceError, UnknownNameError
from rematsim.opcodes import CALL, CONSTANT, COPY, COPY_FROM, RELEASE
from rematsim.traces import unpacking
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.importers.trace_file import read_trace
from rematsim.traces.importers.trace_header import Header, decode_header, encode_header
from rematsim.traces.importers.trace_wire import NUMBERS, columns_of
from rematsim.traces.importers.trace_writer import encoded_trace, packed_columns, write_trace
from rematsim.traces.loading import load_trace, load_traces
from rematsim.traces.provenance import Provenance, Summary
from rematsim.traces.random_dag import random_dag
from rematsim.traces.saving import save_trace
from rematsim.traces.synthetic import synthetic
from rematsim.traces.trace import ARRAYS, TEXTS, Trace


def file_of(trace: Trace) -> bytes:
    return b"".join(encoded_trace(trace))


def read(data: bytes) -> Trace:
    return read_trace(data, "name", "x.trace")


def message(data: bytes) -> str:
    with pytest.raises(TraceError) as caught:
        read(data)
    text = str(caught.value)
    assert text.isprintable()
    assert text.startswith("x.trace: ")
    return text.removeprefix("x.trace: ")


def with_columns(trace: Trace, **changes: Any) -> bytes:
    """The file that a trace would have with other columns, which may be illegal."""
    columns = columns_of(trace)
    for name, values in changes.items():
        columns[name] = np.asarray(values, NUMBERS[name][0]) if name in NUMBERS else values
    described, frames = packed_columns(columns)
    header = Header("n", "", trace.rebinding, trace.times_estimated, "", described)
    return encode_header(header) + b"".join(frames)


def assert_same(again: Trace, trace: Trace) -> None:
    for field in (*ARRAYS, *TEXTS, "rebinding", "times_estimated"):
        before, after = getattr(trace, field), getattr(again, field)
        assert np.array_equal(before, after), field
        if field in ARRAYS:
            assert after.dtype == before.dtype, field
            assert not after.flags.writeable, field
    assert again == trace


def rich() -> Trace:
    """A trace with everything in it: each kind of instruction, view, mutation, label, kind."""
    builder = TraceBuilder("rich", times_estimated=True)
    builder.constant("w", 64, 1, kind="float32[16]")
    builder.constant("x", 16, 2)
    results = [("y", 16, -1), ("v", 0, -2), ("z", 0, 0)]
    kinds = ["float32[4]", "", "float32[16]"]
    builder.call("f", ["w", "x"], results, 10, mutates=[1], phase=1, module="a.b", kinds=kinds)
    builder.copy("y2", "y", 4)
    builder.copy_from("v", "z", 5)
    builder.backward(6)
    builder.call("g", ["y2", "y2"], [("d", 8, -1)], 7, workspace_bytes=9, forward=0, tags=5)
    for name in ("y", "y2", "d"):
        builder.release(name)
    return builder.build()


@pytest.mark.parametrize("seed", range(30))
def test_a_random_trace_survives_writing_and_reading(seed: int) -> None:
    trace = random_dag(seed)
    assert_same(read(file_of(trace)), trace)


@pytest.mark.parametrize(
    "make",
    [
        rich,
        lambda: synthetic("chain:300,steps=3"),
        lambda: synthetic("transformer:2,steps=2"),
        lambda: load_trace("bundled:treelstm"),
    ],
)
def test_a_trace_survives_writing_and_reading(make: Callable[[], Trace]) -> None:
    assert_same(read(file_of(make())), make())


def test_what_is_largest_survives() -> None:
    builder = TraceBuilder("large", rebinding="storage")
    builder.constant("x", 2**53)
    builder.call("f", ["x"], [("y", 2**53, -1)], 2**53, workspace_bytes=2**53, line=2**31 - 1)
    assert_same(read(file_of(builder.build())), builder.build())


def test_odd_texts_survive() -> None:
    """Also names with the character that separates names, where the layout is another."""
    for names in (["", "\n", '"', "\\", '","', "é", "\U0001f600", "x" * 5000], ["a", "\0", "b\0"]):
        builder = TraceBuilder("odd")
        for name in names:
            builder.constant(name, 1)
        builder.call("\0" * len(names), names, [("y", 1, -1)], 1, module="\n")
        assert_same(read(file_of(builder.build())), builder.build())


def test_the_same_trace_gives_the_same_bytes() -> None:
    assert file_of(random_dag(3)) == file_of(random_dag(3))


def test_a_file_says_what_it_is_before_anything_packed() -> None:
    first, second = file_of(rich()).split(b"\n")[:2]
    assert first.startswith(b"rematsim trace 1 ")
    header = msgspec.json.decode(second)
    assert header["digest"] == rich().digest
    assert header["times_estimated"]
    assert [column["rows"] for column in header["columns"] if column["name"] == "names"] == [7]


@pytest.mark.parametrize("ending", ["trace", "trace.gz", "trace.zst"])
def test_a_trace_file_is_read_like_any_other(tmp_path: Path, ending: str) -> None:
    import gzip

    import zstandard

    pack = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}
    path = tmp_path / f"step.{ending}"
    path.write_bytes(pack.get(ending.removeprefix("trace."), bytes)(file_of(rich())))
    for cache in (True, False):
        trace = load_trace(path, cache=cache)
        assert_same(trace, rich())
        assert (trace.name, trace.source) == ("step", str(path))


def test_trace_files_in_a_zip_are_found(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.trace", file_of(rich()))
        archive.writestr("b.trace", file_of(random_dag(1)))
    assert load_traces([tmp_path / "x.zip"]) == [rich(), random_dag(1)]


def test_the_ending_decides_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = synthetic("chain:3")
    for name, begin in (("a.trace", b"rematsim"), ("a.log", b"{"), ("a.log.gz", b"\x1f")):
        save_trace(trace, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin)
        assert load_trace(tmp_path / name) == trace
    with pytest.raises(UnknownNameError, match="a.bin: the name ends in .trace"):
        save_trace(trace, tmp_path / "a.bin")
    buffer = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(buffer))
    save_trace(trace, "-")
    assert buffer.getvalue().startswith(b"{")


def test_the_old_file_stays_if_writing_fails(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        write_trace(rich(), tmp_path / "none" / "x.trace")
    (tmp_path / "x.trace").write_bytes(b"old")
    broken = random_dag(1)
    object.__setattr__(broken, "operators", ("\ud800",))
    with pytest.raises(UnicodeEncodeError):
        write_trace(broken, tmp_path / "x.trace")
    assert (tmp_path / "x.trace").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def made_of(**changes: Any) -> Provenance:
    summary = Summary({"calls": 2}, {"releases after last use": 1}, {"events": 7})
    return replace(Provenance("a log", ("x.json", "y.json"), summary), **changes)


def test_what_a_trace_was_made_of_stays_with_it() -> None:
    """It is no part of the digest; without it a file is as files were before."""
    trace = rich().made_from(made_of())
    assert trace == rich()
    again = read(file_of(trace))
    assert again.provenance == made_of()
    assert read(file_of(again)).provenance == made_of()
    assert replace(again, name="other").provenance == made_of()
    assert b"provenance" not in file_of(rich())
    assert read(file_of(rich())).provenance is None


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"files": ()}, "names no file, or is no text of one line"),
        ({"files": ("a\nb",)}, "names no file, or is no text of one line"),
        ({"format": "\x1b[2J"}, "names no file, or is no text of one line"),
        ({"summary": Summary({"a\tb": 1})}, "names no file, or is no text of one line"),
        ({"summary": Summary(dropped={"a": -1})}, "counts less than nothing"),
    ],
)
def test_a_provenance_that_cannot_be_shown_is_refused(changes: dict[str, Any], fault: str) -> None:
    data = file_of(rich().made_from(made_of(**changes)))
    assert message(data) == f"trace file: its provenance {fault}"


def test_every_place_to_cut_a_file() -> None:
    data = file_of(rich())
    for length in range(len(b"rematsim trace "), len(data)):
        assert "cut off" in message(data[:length]) or "damaged" in message(data[:length])
    assert "something was added" in message(data + b"x")


def test_every_byte_that_may_be_damaged() -> None:
    """One wrong bit anywhere is found: by the checksum of the header or of a column."""
    data = file_of(rich())
    for position in range(len(b"rematsim trace "), len(data)):
        message(data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :])


def test_another_version_is_named() -> None:
    data = file_of(rich()).replace(b"trace 1 ", b"trace 2 ", 1)
    assert message(data) == "a trace file of version 2: this rematsim reads version 1"


RICH = columns_of(rich())


def changed(name: str, place: int, value: int) -> dict[str, Any]:
    values = RICH[name].copy()
    values[place] = value
    return {name: values}


ILLEGAL: dict[str, tuple[dict[str, Any], str]] = {
    "code": (changed("codes", 0, 9), "codes: entry 0 (9) is not in 0..5"),
    "no code": ({"codes": []}, "there are no instructions: the trace is empty"),
    "counts": ({"args": [1]}, "there are 1 operands, where 4 are announced"),
    "negative count": (
        changed("call_args", 0, -1),
        "call_args: entry 0 (-1) is not in 0..2147483647",
    ),
    "huge count": (
        changed("call_results", 0, 2**31 - 1),
        "there are 4 results, where 2,147,483,648 are announced",
    ),
    "names": ({"names": ("a", "b")}, "there are 2 names, and 7 are bound"),
    "twice": (
        {"names": ("w", "w", "y", "v", "z", "y2", "d")},
        "column names is damaged (a text is there twice)",
    ),
    "size": (
        changed("constant_bytes", 1, -1),
        f"constant_bytes: entry 1 (-1) is not in 0..{2**53}",
    ),
    "time": (changed("call_time_ns", 0, 2**53 + 1), "call_time_ns: entry 0 ("),
    "phase": (changed("call_phase", 0, 4), "call_phase: entry 0 (4) is not in 0..3"),
    "tags": (changed("call_tags", 0, 8), "call_tags: entry 0 (8) is not in 0..7"),
    "operator": (changed("call_operator", 0, 2), "call_operator: entry 0 (2) is not in 0..1"),
    "module": (changed("call_module", 0, 1), "call_module: entry 0 (1) is not in -1..0"),
    "kind": (changed("result_kind", 0, 2), "result_kind: entry 0 (2) is not in -1..1"),
    "forward": (
        changed("call_forward", 0, 1),
        "call_forward: a call is said to belong to one that is not before it",
    ),
    "view": (changed("result_alias", 1, -3), "result_alias: a view of what the call does not have"),
    "view of no operand": (
        changed("result_alias", 0, 2),
        "result_alias: a view of what the call does not have",
    ),
    "view with bytes": (changed("result_bytes", 1, 1), "result_bytes: a view has 0 bytes"),
    "mutated": (changed("mutate_args", 0, 2), "mutate_args: not the position of an operand"),
    "later name": (changed("args", 0, 0), "args: a name is referred to that is not bound yet"),
    "no name": (changed("args", 0, 9), "args: a name is referred to that is not bound yet"),
    "lowest reference": (
        changed("args", 0, -(2**31)),
        "args: a name is referred to that is not bound yet",
    ),
    "released twice": (changed("references", 5, 5), "a name is released twice"),
    "empty module": ({"modules": ("",)}, "column modules: a text is empty"),
}


@pytest.mark.parametrize("what", ILLEGAL)
def test_columns_that_are_no_trace_are_refused(what: str) -> None:
    changes, expected = ILLEGAL[what]
    shown = message(with_columns(rich(), **changes))
    assert shown.startswith(f"trace file: {expected}")


def test_sizes_that_do_not_add_up_in_64_bits_are_refused() -> None:
    builder = TraceBuilder("a")
    for k in range(200):
        builder.constant(f"x{k}", 1)
    data = with_columns(builder.build(), constant_bytes=[2**53] * 200)
    assert message(data).startswith("trace file: all sizes together (1.8e+18) are more than 2^60")


def replayed(trace: Trace) -> Trace:
    """Hand the events of a trace to a builder one by one: the rules in another way."""
    names = list(trace.names)
    builder = TraceBuilder(trace.name, "", trace.rebinding, trace.times_estimated)
    kind = [*trace.value_kinds, ""]
    for code, a, b in trace.instructions.tolist():
        if code == CONSTANT:
            size = int(trace.constant_bytes[b])
            builder.constant(names[a], size, kind=kind[trace.constant_kind[b]])
        elif code == COPY:
            builder.copy(names[a], names[b])
        elif code == COPY_FROM:
            builder.copy_from(names[a], names[b])
        elif code == RELEASE:
            builder.release(names[a])
        elif code == CALL:
            _replay_call(builder, trace, a)
        else:
            builder.backward()
    return builder.build()


def _replay_call(builder: TraceBuilder, trace: Trace, call: int) -> None:
    results = range(*trace.result_offsets[call : call + 2])
    module = int(trace.call_module[call])
    builder.call(
        trace.operators[trace.call_operator[call]],
        [trace.names[k] for k in trace.arg_names[slice(*trace.arg_offsets[call : call + 2])]],
        [
            (
                trace.names[trace.result_names[k]],
                int(trace.result_bytes[k]),
                int(trace.result_alias[k]),
            )
            for k in results
        ],
        int(trace.call_time_ns[call]),
        mutates=trace.mutate_args[slice(*trace.mutate_offsets[call : call + 2])].tolist(),
        workspace_bytes=int(trace.call_workspace_bytes[call]),
        phase=int(trace.call_phase[call]),
        module=trace.modules[module] if module >= 0 else "",
        forward=int(trace.call_forward[call]),
        tags=int(trace.call_tags[call]),
        line=int(trace.call_line[call]),
        kinds=[[*trace.value_kinds, ""][trace.result_kind[k]] for k in results],
    )


@given(
    st.integers(0, 300),
    st.sampled_from(sorted(NUMBERS)),
    st.floats(0, 1, exclude_max=True),
    st.one_of(st.integers(-4, 9), st.sampled_from([2**31 - 1, -(2**31), 2**53, 2**53 + 1])),
)
@settings(max_examples=600, deadline=None)
def test_what_passes_is_what_a_builder_could_have_made(
    seed: int, name: str, place: float, value: int
) -> None:
    """One number of a legal file is changed: it is refused, or a builder takes its events too."""
    trace = random_dag(seed, 12)
    values = columns_of(trace)[name].copy()
    if not len(values):
        return
    values[int(place * len(values))] = np.array(value).astype(values.dtype)
    data = with_columns(trace, **{name: values})
    try:
        found = read(data)
    except TraceError:
        return
    again = replayed(found)
    for field in ("instructions", "names", "arg_names", "result_names", "call_line"):
        assert np.array_equal(getattr(again, field), getattr(found, field))


def test_legal_changes_are_not_refused() -> None:
    """The test above would also pass if everything were refused."""
    for seed in range(100):
        trace = random_dag(seed, 12)
        read(with_columns(trace, call_time_ns=columns_of(trace)["call_time_ns"] + 1))
        assert_same(replayed(trace), trace)


def test_a_file_that_bursts_is_refused_before_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    data = file_of(rich())
    header, end = decode_header(data, "")
    header.columns[0].rows = header.columns[0].bytes = 1 << 40
    burst = encode_header(header) + data[end:]
    assert "too large" in message(burst)
    header.columns[0].rows = header.columns[0].bytes = 1 << 30
    assert "looks like a zip bomb" in message(encode_header(header) + data[end:])
    header.columns[0].rows = header.columns[0].bytes = 1 << 20
    assert message(encode_header(header) + data[end:]) == (
        "trace file: column codes: its size is not that in the header"
    )
    monkeypatch.setattr(unpacking, "DEFAULT_MAX_BYTES", 10)
    assert "larger than 10 bytes" in message(data)


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_after_the_mark(data: bytes) -> None:
    message(b"rematsim trace 1" + data)


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[" * 5_000,
        b"null",
        b'{"columns": 3}',
        msgspec.json.encode(Header("n", "", "listed", False, "", [])),
    ],
)
def test_headers_that_are_none(line: bytes) -> None:
    import zlib

    first = f"rematsim trace 1 {len(line):08d} {zlib.crc32(line):08x}\n".encode()
    assert message(first + line).startswith("trace file: ")
