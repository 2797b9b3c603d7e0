"""Writing logs: what was written reads back as an equal trace, and files are whole or not there."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path

import msgspec
import pytest
from dtr_logs import log, valid_lines
from rematsim.errors import OutputError, TraceError
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.importers import dtr_log
from rematsim.traces.importers.dtr_writer import encoded, write_log
from rematsim.traces.loading import load_trace
from rematsim.traces.random_dag import random_dag
from rematsim.traces.synthetic import synthetic
from rematsim.traces.trace import Trace


def through_a_log(trace: Trace) -> Trace:
    return dtr_log.read(b"".join(encoded(trace)), trace.name, "log")


@pytest.mark.parametrize("seed", range(40))
def test_a_random_trace_survives_writing_and_reading(seed: int) -> None:
    """Views, mutations, copies, phases, modules, and what only our own keys can say."""
    trace = random_dag(seed, is_plain=True)
    again = through_a_log(trace)
    assert again == trace
    assert again.names == trace.names
    assert (again.call_tags == trace.call_tags).all()


@pytest.mark.parametrize(
    "spec", ["chain:7,steps=2", "tree:3", "u_shape:2", "transformer:2,steps=2"]
)
def test_a_synthetic_trace_survives_writing_and_reading(spec: str) -> None:
    assert through_a_log(synthetic(spec)) == synthetic(spec)


def test_odd_names_survive_writing_and_reading() -> None:
    builder = TraceBuilder("odd", times_estimated=True)
    names = ["", "\n", "\0", '"', "\\", "é", "\U0001f600", "\u2028", "START", "x" * 5000]
    for name in names:
        builder.constant(name, 1)
    builder.call("\n", names, [("y", 2**53, -1)], 2**53, module="\0")
    trace = builder.build()
    assert through_a_log(trace) == trace
    assert through_a_log(trace).names == (*names, "y")


def test_lines_are_those_of_the_format() -> None:
    """Numbers as strings, optional keys only where there is something to say."""
    trace = dtr_log.read(log(*valid_lines()), "name", "log")
    lines = [msgspec.json.decode(text) for text in b"".join(encoded(trace)).splitlines()]
    assert lines[0] == {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"}
    assert lines[2] == {"INSTRUCTION": "MEMORY", "NAME": "w", "MEMORY": "64"}
    assert lines[5] == {
        "INSTRUCTION": "CALL",
        "NAME": "conv",
        "ARGS": ["x", "w"],
        "RESULT": ["y", "z"],
        "TIME": "10",
        "PHASE": "fwd",
        "MODULE": "net.0",
    }
    assert lines[7] == {"INSTRUCTION": "ALIAS", "NAME": "y", "ALIAS": "-1"}
    assert {"INSTRUCTION": "COPY_FROM", "DST": "z", "SRC": "g"} in lines
    mutation = next(found for found in lines if found["INSTRUCTION"] == "MUTATE")
    assert mutation["MUTATE"] == [0]
    assert "RESULT" not in mutation


def view_of_result(builder: TraceBuilder) -> None:
    builder.call("split", ["x"], [("y", 4, -1), ("z", 4, -2)], 1)


def result_and_mutation(builder: TraceBuilder) -> None:
    builder.call("add_", ["x"], [("y", 4, 0)], 1, mutates=[0])


KEPT = "; a .trace keeps it, and rematsim export makes a log of that"


@pytest.mark.parametrize(
    ("event", "rebinding", "why"),
    [
        (
            view_of_result,
            "listed",
            "test: call 0 ('split') cannot be written as a DTR log: "
            "a result is a view of another result" + KEPT,
        ),
        (
            result_and_mutation,
            "listed",
            "test: call 0 ('add_') cannot be written as a DTR log: "
            "it has results and mutates operands" + KEPT,
        ),
        (
            lambda builder: None,
            "storage",
            "test: cannot be written as a DTR log: a mutation there changes what the listed names "
            "mean, not all names of the storage" + KEPT,
        ),
    ],
)
def test_what_the_format_cannot_say_is_refused(
    tmp_path: Path, event: object, rebinding: str, why: str
) -> None:
    builder = TraceBuilder("test", rebinding=rebinding)
    builder.constant("x", 8)
    event(builder)  # type: ignore[operator]
    with pytest.raises(TraceError) as caught:
        write_log(builder.build(), tmp_path / "x.log")
    assert str(caught.value) == why
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.log", "a.log.gz", "a.log.zst"])
def test_the_name_decides_how_a_log_is_packed(tmp_path: Path, name: str) -> None:
    trace = random_dag(5, is_plain=True)
    write_log(trace, tmp_path / name)
    again = load_trace(tmp_path / name, cache=False)
    assert again == trace
    assert again.name == "a"
    assert (tmp_path / name).read_bytes()[:1] == {".log": b"{", ".gz": b"\x1f", ".zst": b"("}[
        Path(name).suffix
    ]


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.log.gz", "b.log.gz"):
        write_log(random_dag(5, is_plain=True), tmp_path / name)
    assert (tmp_path / "a.log.gz").read_bytes() == (tmp_path / "b.log.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.log.gz").read_bytes())


def test_a_log_is_written_to_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer))
    trace = random_dag(5, is_plain=True)
    write_log(trace, "-")
    assert dtr_log.read(buffer.getvalue(), "", "") == trace


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    trace = random_dag(5, is_plain=True)
    for place in (tmp_path, tmp_path / "none" / "x.log"):
        with pytest.raises(OutputError, match=str(place)):
            write_log(trace, place)
    assert list(tmp_path.iterdir()) == []


def test_the_old_file_stays_if_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"old")

    def encode_and_fail(trace: Trace) -> object:
        yield b"new"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rematsim.traces.importers.dtr_writer.encoded", encode_and_fail)
    with pytest.raises(OutputError, match="No space left on device"):
        write_log(random_dag(5, is_plain=True), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_log(synthetic("chain:2"), pipe)
        data = os.read(reader, 1 << 16)
    finally:
        os.close(reader)
    assert dtr_log.read(data, "", "") == synthetic("chain:2")
    assert pipe.is_fifo()


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link.log").symlink_to(tmp_path / "real.log")
    write_log(synthetic("chain:2"), tmp_path / "link.log")
    assert (tmp_path / "link.log").is_symlink()
    assert load_trace(tmp_path / "real.log", cache=False) == synthetic("chain:2")
