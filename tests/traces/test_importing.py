"""Importing: which file is the trace, what companions are, and what is told at the end."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rematsim
from dtr_logs import START, constant, log, valid_lines
from rematsim.cli.listing import IMPORTED
from rematsim.cli.main import main
from rematsim.errors import InputError, TraceError, UnknownNameError
from rematsim.lowering import compile_trace
from rematsim.opcodes import CALL, COPY_FROM, RELEASE
from rematsim.requirements import requirements
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.contents import Content
from rematsim.traces.importers.dtr_export import exportable
from rematsim.traces.importers.dtr_writer import refuse_inexpressible
from rematsim.traces.importers.registry import READERS, find_reader, load_reader
from rematsim.traces.importing import import_trace
from rematsim.traces.loading import load_trace, load_traces
from rematsim.traces.random_dag import random_dag
from rematsim.traces.saving import save_trace
from rematsim.traces.synthetic import synthetic

GRAPH = {
    "directed": True,
    "multigraph": False,
    "graph": {},
    "nodes": [{"id": 0, "name": "a", "cost_ram": 4, "cost_cpu": 1}],
    "links": [],
}


@pytest.mark.parametrize("module", READERS)
def test_a_reader_has_what_is_asked_of_it(module: str) -> None:
    reader = load_reader(module)
    assert isinstance(reader.FORMAT, str)
    assert callable(reader.read)
    for head in (b"", b"{", b"\0" * 100, b"\xff\xfe", b"{}\n", b'{"a": ' * 1000, b",,,\n"):
        assert reader.recognizes(head) is False


@pytest.mark.parametrize("data", [b"", b"{", b" [1]", b'warm-up\n{"INSTRUCTION":"CONSTANT"}'])
def test_what_looks_like_a_log_or_json_and_no_reader_recognizes_is_taken_for_a_log(
    data: bytes,
) -> None:
    assert find_reader(Content.of_bytes(data, "x")).FORMAT == "DTR log"


def test_a_script_is_no_trace_and_the_way_to_one_is_said() -> None:
    with pytest.raises(TraceError, match="x.py: a script, no trace: rematsim capture"):
        find_reader(Content.of_bytes(b"import torch\n", "x.py"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"import torch\n",
            "x: none of the formats that rematsim reads: see rematsim list formats",
        ),
        (b"\x89PNG\r\n", "x: none of the formats that rematsim reads: see rematsim list formats"),
        (b"SQLite format 3\0", "x: a table of runs (SQLite), no trace: rematsim plot draws it"),
        (
            b'{"format":"rematsim plan 1","actions":0}\n',
            "x: a plan, no trace: rematsim execute runs it on its trace",
        ),
    ],
)
def test_what_is_of_no_known_format_is_not_called_broken_json(data: bytes, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        find_reader(Content.of_bytes(data, "x"))
    assert str(caught.value) == message


def test_a_saved_run_is_no_trace_and_called_so(tmp_path: Path) -> None:
    rematsim.simulate(synthetic("chain:3"), event_log=True).save(tmp_path / "x.run")
    with pytest.raises(TraceError, match=r"x.run: a saved run, no trace: rematsim plot draws it"):
        rematsim.load_trace(tmp_path / "x.run")


def test_every_format_that_is_read_is_listed() -> None:
    own = {"rematsim trace file", "DTR log"}
    assert set(IMPORTED) == {load_reader(name).FORMAT for name in READERS} - own


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": []}, "no files given"),
        ({"time_unit": "xx"}, "time unit 'xx': unknown; known: ns, us, ms, s"),
        ({"device": "abacus"}, "device 'abacus': unknown; known: a100"),
        ({"fixed_bytes": -1}, "fixed bytes -1: not from 0 to 2\\^53"),
    ],
)
def test_arguments_that_mean_nothing_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        import_trace(**{"paths": ["x.json"]} | options)


def test_paths_may_be_bytes(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "a.log")
    save_trace(synthetic("chain:3"), path)
    assert rematsim.load_trace(path) == load_traces([path])[0] == import_trace([path]).trace


@pytest.mark.parametrize("name", ["x.json", "x.jsonl", "x.json.gz", "x.txt"])
def test_a_log_is_written_under_the_name_of_a_log_only(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="the name ends in .trace"):
        save_trace(synthetic("chain:3"), tmp_path / name)
    assert not (tmp_path / name).exists()


def test_what_no_log_can_say_is_refused_with_the_way_out(tmp_path: Path) -> None:
    builder = TraceBuilder("t", rebinding="storage")
    builder.constant("x", 8)
    builder.call("add_", ["x"], [], 5, mutates=[0])
    with pytest.raises(TraceError, match="cannot be written as a DTR log: .*; a .trace keeps it"):
        save_trace(builder.build(), tmp_path / "x.log")


def test_companions_are_refused_where_they_say_nothing(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        save_trace(synthetic("chain:3"), tmp_path / name)
    with pytest.raises(TraceError) as caught:
        import_trace([tmp_path / "a.log", tmp_path / "b.log"])
    assert str(caught.value) == (
        f"{tmp_path}/b.log: not read: {tmp_path}/a.log is a DTR log, which takes no companions"
    )


def test_the_command_writes_a_trace_and_tells_what_it_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    out = tmp_path / "g.trace"
    assert main(["import", str(tmp_path / "g.json"), "-o", str(out), "--name", "mine"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert lines[0] == f"{tmp_path}/g.json: networkx node-link graph"
    assert lines[1] == "  taken     nodes as calls: 1"
    assert lines[2] == (
        "  inferred  releases after last use: 1; "
        "costs without a unit (1 counts as 1 ns: --time-unit): 1"
    )
    assert lines[3] == "  dropped   nothing"
    assert lines[4].startswith(f"written: {out} (")
    assert load_trace(out).n_calls == 1
    assert main(["info", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        f"made of                     {tmp_path}/g.json (networkx node-link graph)",
        f"inferred                    {lines[2].removeprefix('  inferred  ')}",
        "dropped                     nothing",
    ]


def test_what_is_read_without_an_import_says_what_was_inferred_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the cache as from the file, which may be at another place by then."""
    monkeypatch.setenv("REMATSIM_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(GRAPH))
        made_of = load_trace(tmp_path / name).provenance
        assert made_of is not None
        assert made_of.files == (f"{tmp_path}/{name}",)
        assert made_of.summary.inferred["releases after last use"] == 1
    assert synthetic("chain:3").provenance is None


def test_lines_before_the_step_are_told_as_dropped(tmp_path: Path) -> None:
    """The small log has one such line; a constant is two lines."""
    for n_constants in (0, 3):
        warm_up = log(*[constant("w", 64)] * n_constants)
        (tmp_path / "a.log").write_bytes(warm_up + log(*valid_lines()))
        dropped = import_trace([tmp_path / "a.log"]).summary.dropped
        assert dropped == {"lines before START (warm-up)": 2 * n_constants + 1}
    (tmp_path / "a.log").write_bytes(log(START, constant("w", 64)))
    assert import_trace([tmp_path / "a.log"]).summary.dropped == {}


def test_the_summary_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    out = tmp_path / "g.log.gz"
    arguments = ["import", str(tmp_path / "g.json"), "-o", str(out), "--json"]
    assert main([*arguments, "--time-unit", "us", "--fixed-bytes", "9"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["taken"] == {"nodes as calls": 1, "links": 0, "bytes throughout": 9}
    assert told["times_estimated"] is False
    assert load_trace(out).compute_ns == 1_000


def test_a_device_that_is_not_known_is_refused_even_if_nobody_needs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    arguments = ["import", str(tmp_path / "g.json"), "-o", str(tmp_path / "x.trace")]
    assert main([*arguments, "--device", "abacus"]) == 2
    assert "device 'abacus': unknown; known: a100" in capsys.readouterr().err
    assert not (tmp_path / "x.trace").exists()


@pytest.mark.parametrize("out", ["x.bin", "none/x.trace"])
def test_nothing_is_read_if_it_cannot_be_written(
    tmp_path: Path, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(tmp_path / "absent.json"), "-o", str(tmp_path / out)]) in (1, 2)
    assert "absent" not in capsys.readouterr().err


def test_export_says_what_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A view of a result and a call that mutates as well become calls of their own."""
    builder = TraceBuilder("t", rebinding="listed")
    builder.constant("x", 8, kind="int8[8]")
    builder.call("f", ["x"], [("y", 8, -1), ("v", 0, -2)], 10, kinds=["int8[8]", ""])
    builder.call("add_", ["y"], [("z", 0, 0)], 5, mutates=[0])
    builder.call("norm", ["y", "x"], [("n", 4, -1)], 7, mutates=[1], forward=1)
    builder.release("y")
    save_trace(builder.build(), tmp_path / "t.trace")
    out = tmp_path / "t.log"
    assert main(["export", str(tmp_path / "t.trace"), "-o", str(out)]) == 0
    assert capsys.readouterr().err == (
        "lost: dtypes and shapes: 2; views of another result (written as calls of their own): 1; "
        "calls with results that mutate too (written as two calls): 2\n"
    )
    again = load_trace(out)
    operators = [again.operators[k] for k in again.call_operator]
    assert operators == ["f", "view", "add_", "add_", "norm", "norm"]
    assert again.call_time_ns.tolist() == [10, 0, 0, 5, 7, 0]
    assert again.call_forward.tolist() == [-1, -1, -1, -1, 3, 3]
    assert again.mutate_offsets.tolist() == [0, 0, 0, 0, 1, 1, 2]
    assert again.compute_ns == builder.build().compute_ns


def test_export_of_what_a_log_can_hold_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "t.log.gz", tmp_path / "u.log.gz"
    assert main(["export", "bundled:unet", "-o", str(first)]) == 0
    capsys.readouterr()
    assert main(["export", str(first), "-o", str(second), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lost"] == {}
    assert load_trace(first) == load_trace(second)


def test_export_of_a_trace_file_keeps_everything(tmp_path: Path) -> None:
    assert main(["export", "bundled:unet", "-o", str(tmp_path / "t.trace")]) == 0
    assert load_trace(tmp_path / "t.trace") == load_trace("bundled:unet")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rebinding", ["listed", "storage"])
def test_any_trace_can_be_said_in_a_log(seed: int, rebinding: str) -> None:
    """The work is the same, and so is what is alive at the end."""
    trace = replace(random_dag(seed), rebinding=rebinding)
    said, _ = exportable(trace)
    refuse_inexpressible(said)
    assert said.compute_ns == trace.compute_ns
    before, after = (requirements(compile_trace(one)) for one in (trace, said))
    assert after.output_bytes == before.output_bytes
    assert after.constant_bytes == before.constant_bytes


def test_a_mutation_of_every_name_is_said_name_by_name() -> None:
    """Worked out by hand: x is a view of y, so it is derived again; w is a constant."""
    builder = TraceBuilder("t", rebinding="storage")
    builder.constant("w", 8)
    builder.call("f", ["w"], [("y", 8, -1)], 10)
    builder.call("view", ["y"], [("x", 0, 0)], 1)
    builder.call("add_", ["y", "w"], [], 5, mutates=[0, 1])
    builder.call("sgd_", ["w"], [], 3, mutates=[0])
    said, _ = exportable(builder.build())
    assert said.names == ("w", "y", "x", "derived3", "derived4")
    assert [said.operators[k] for k in said.call_operator] == ["f", "view", "add_", "view", "sgd_"]
    assert said.instructions[-5:].tolist() == [
        [CALL, 3, 0],
        [COPY_FROM, 2, 3],
        [RELEASE, 3, 0],
        [CALL, 4, 0],
        [RELEASE, 4, 0],
    ]
    assert said.mutate_args.tolist() == [0]
    assert said.result_bytes.tolist() == [8, 0, 0, 0]
