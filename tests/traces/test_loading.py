"""Files to traces: packed and plain, zips with and without a manifest; what may be wrong."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import rematsim
import zstandard
from dtr_logs import START, call, constant, log, valid_lines
from fuzz_formats import OPERATORS, TENSORS
from rematsim.errors import InputError, TraceError, UnknownNameError
from rematsim.traces import unpacking
from rematsim.traces.importers import dtr_log
from rematsim.traces.importing import import_trace
from rematsim.traces.loading import load_trace, load_traces

PLAIN = log(*valid_lines())
OTHER = log(START, constant("x"), call("relu", ["x"], ["y"]))


@pytest.fixture(autouse=True)
def _no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMATSIM_CACHE_DIR", str(tmp_path / "cache"))


def packed_zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def manifest(**logs: str) -> bytes:
    models = [{"name": name, "log": log, "title": "more"} for name, log in logs.items()]
    return json.dumps({"models": models}).encode()


def message(path: Path | str) -> str:
    with pytest.raises(InputError) as caught:
        load_trace(path)
    return str(caught.value).replace(f"{Path(path).parent}/", "DIR/")


PACKED = {
    "a.log": PLAIN,
    "a.log.gz": gzip.compress(PLAIN),
    "a.log.zst": packed_zst(PLAIN),
    "a.jsonl.gz": gzip.compress(PLAIN[:100]) + gzip.compress(PLAIN[100:]),
    "a.zst": packed_zst(PLAIN[:100]) + packed_zst(PLAIN[100:]),
    "a.txt": gzip.compress(packed_zst(PLAIN)),
    "a": PLAIN,
    "a.log.zip": zipped({"sub/b.log": PLAIN}),
}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("cache", [True, False])
def test_the_content_decides_how_a_file_is_unpacked(tmp_path: Path, name: str, cache: bool) -> None:
    path = tmp_path / name
    path.write_bytes(PACKED[name])
    for _ in range(2):
        trace = load_trace(path, cache=cache)
        assert trace == dtr_log.read(PLAIN, "", "")
        assert trace.name == ("b" if name.endswith("zip") else "a")
        assert trace.source.startswith(str(path))


def test_a_trace_can_be_given_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(PLAIN)
    assert load_trace(tmp_path / "a.log", name="mine").name == "mine"
    assert load_trace("synthetic:chain:3", name="mine").name == "mine"
    assert rematsim.load_trace("synthetic:chain:3").name == "chain:3"


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (PLAIN, gzip.compress(PLAIN)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        trace = load_trace("-")
        assert (trace.name, trace.source) == ("stdin", "<stdin>")
        assert trace == dtr_log.read(PLAIN, "", "")


def test_a_zip_without_manifest_holds_all_its_logs(tmp_path: Path) -> None:
    files = {"README.md": b"not a log", "b/x.log": PLAIN, "y.log.gz": gzip.compress(OTHER)}
    files |= {"__MACOSX/b/x.log": b"not one either", ".hidden.log": b"nor this", "empty/": b""}
    (tmp_path / "x.zip").write_bytes(zipped(files))
    first, second = load_traces([tmp_path / "x.zip"])
    assert (first.name, second.name) == ("x", "y")
    assert second == dtr_log.read(OTHER, "", "")
    assert second.source.endswith("x.zip::y.log.gz")


def test_a_manifest_names_the_logs_and_orders_them(tmp_path: Path) -> None:
    for listed in (
        manifest(two="logs/y.log", one="logs/x.log"),
        manifest(two="y.log", one="x.log"),
    ):
        files = {"logs/x.log": PLAIN, "logs/y.log": OTHER, "logs/z.log": b"broken"}
        (tmp_path / "x.zip").write_bytes(zipped(files | {"logs/manifest.json": listed}))
        assert [trace.name for trace in load_traces([tmp_path / "x.zip"])] == ["two", "one"]


@pytest.mark.parametrize("wanted", ["The One", "logs/x.log", "x"])
def test_one_log_of_a_zip_can_be_asked_for(tmp_path: Path, wanted: str) -> None:
    files = {"logs/x.log": PLAIN, "logs/y.log": OTHER}
    files["manifest.json"] = manifest(**{"The One": "logs/x.log", "x of another": "logs/y.log"})
    (tmp_path / "x.zip").write_bytes(zipped(files))
    trace = load_trace(f"{tmp_path}/x.zip::{wanted}")
    assert trace == dtr_log.read(PLAIN, "", "")
    assert trace.name == "The One"
    assert load_traces([f"{tmp_path}/x.zip::{wanted}"]) == [trace]


def test_several_files_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(PLAIN)
    (tmp_path / "x.zip").write_bytes(zipped({"b.log": PLAIN, "c.log": OTHER}))
    paths = [tmp_path / "x.zip", tmp_path / "a.log", "synthetic:chain:2"]
    assert [trace.name for trace in load_traces(paths)] == ["b", "c", "a", "chain:2"]


def tarred(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("a.log")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def test_tables_in_a_zip_are_found_packed_or_not(tmp_path: Path) -> None:
    """Only where there is no log: a zip of logs may hold a table of results."""
    tables = {"ops.csv.gz": gzip.compress(OPERATORS), "tensors.csv": TENSORS}
    (tmp_path / "x.zip").write_bytes(zipped(tables))
    pair = [f"{tmp_path}/x.zip::{name}" for name in ("ops", "tensors")]
    assert import_trace(pair).trace.n_calls == 3
    (tmp_path / "y.zip").write_bytes(zipped({"a.log": PLAIN, "results.csv": OPERATORS}))
    assert load_trace(tmp_path / "y.zip").name == "a"


ONE_LOG = zipped({"a.log": PLAIN})
BROKEN = {
    "several.zip": (
        zipped({"a.log": PLAIN, "b.log": PLAIN}),
        "DIR/several.zip: a zip of several logs; it holds 'a', 'b'; take one with "
        "DIR/several.zip::NAME, or all with load_traces or sweep",
    ),
    "none.zip": (
        zipped({"README": b"nothing here"}),
        "DIR/none.zip: no log in the zip: none of its files ends in one of .log, .jsonl, .json, "
        ".trace, .csv, .et, .onnx, .pickle",
    ),
    "up.zip": (
        zipped({"../a.log": PLAIN}),
        "DIR/up.zip: the path '../a.log' leaves the zip",
    ),
    "deep.zip": (
        zipped({"logs/../../a.log": PLAIN}),
        "DIR/deep.zip: the path 'logs/../../a.log' leaves the zip",
    ),
    "root.zip": (zipped({"/a.log": PLAIN}), "DIR/root.zip: the path '/a.log' leaves the zip"),
    "back.zip": (
        zipped({"..\\a.log": PLAIN}),
        r"DIR/back.zip: the path '..\\a.log' leaves the zip",
    ),
    "drive.zip": (zipped({"C:a.log": PLAIN}), "DIR/drive.zip: the path 'C:a.log' leaves the zip"),
    "listed.zip": (
        zipped({"a.log": PLAIN, "manifest.json": manifest(a="../../etc/passwd")}),
        "DIR/listed.zip::manifest.json: log '../../etc/passwd': no such file in the zip",
    ),
    "twice.zip": (
        zipped(
            {
                "a.log": PLAIN,
                "manifest.json": b'{"models": [{"name": "a", "log": "a.log"},'
                b' {"name": "a", "log": "a.log"}]}',
            }
        ),
        "DIR/twice.zip::manifest.json: two logs have the name 'a'",
    ),
    "nothing_listed.zip": (
        zipped({"a.log": PLAIN, "manifest.json": b'{"models": []}'}),
        "DIR/nothing_listed.zip::manifest.json: it names no logs",
    ),
    "no_json.zip": (
        zipped({"a.log": PLAIN, "manifest.json": b"a.log"}),
        "DIR/no_json.zip::manifest.json: no manifest of logs "
        "(JSON is malformed: invalid character (byte 0))",
    ),
    "no_models.zip": (
        zipped({"a.log": PLAIN, "manifest.json": b'{"models": {"a": "a.log"}}'}),
        "DIR/no_models.zip::manifest.json: no manifest of logs "
        "(Expected `array`, got `object` - at `$.models`)",
    ),
    "cut.zip": (ONE_LOG[:-30], "DIR/cut.zip: the zip is damaged (File is not a zip file)"),
    "nested.zip": (
        zipped({"a.log": ONE_LOG}),
        "DIR/nested.zip::a.log: a zip inside another file: unpack it first",
    ),
    "bad_log.zip": (
        zipped({"logs/a.log": b"{}\n"}),
        "DIR/bad_log.zip::logs/a.log:1: not an instruction: no INSTRUCTION",
    ),
    "cut.gz": (
        gzip.compress(PLAIN)[:-20],
        "DIR/cut.gz: gzip: the file ends too early, it is cut off",
    ),
    "damaged.gz": (
        gzip.compress(PLAIN)[:-8] + b"12345678",
        "DIR/damaged.gz: gzip: the file is damaged (CRC check failed 0x34333231 != 0x",
    ),
    "trailing.gz": (
        gzip.compress(PLAIN) + b"and more",
        r"DIR/trailing.gz: gzip: the file is damaged (Not a gzipped file (b'an'))",
    ),
    "cut.zst": (
        packed_zst(PLAIN)[:-4],
        "DIR/cut.zst: zstd: the file ends too early, it is cut off",
    ),
    "damaged.zst": (
        packed_zst(PLAIN)[:30] + b"\xff" * 30 + packed_zst(PLAIN)[60:],
        "DIR/damaged.zst: zstd: the file is damaged (",
    ),
    "empty.gz": (gzip.compress(b""), "DIR/empty.gz: no instructions: the trace is empty"),
    "plain.gz": (
        b"hello",
        "DIR/plain.gz: none of the formats that rematsim reads: see rematsim list formats",
    ),
    "a.tar": (tarred(PLAIN), "DIR/a.tar: a tar archive: unpack it first"),
    "a.tar.gz": (gzip.compress(tarred(PLAIN)), "DIR/a.tar.gz: a tar archive: unpack it first"),
    "a.bz2": (bz2.compress(PLAIN), "DIR/a.bz2: packed as bzip2: unpack it first"),
    "a.xz": (lzma.compress(PLAIN), "DIR/a.xz: packed as xz: unpack it first"),
    "in.gz": (gzip.compress(ONE_LOG), "DIR/in.gz: a zip inside another file: unpack it first"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_its_message(tmp_path: Path, name: str) -> None:
    data, expected = BROKEN[name]
    (tmp_path / name).write_bytes(data)
    shown = message(tmp_path / name)
    assert shown.startswith(expected) if expected[-1] in "(x" else shown == expected
    assert "\n" not in shown


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert message(tmp_path / "none.log") == "DIR/none.log: no such file"
    assert message(tmp_path).endswith(": a folder; name the logs in it")
    assert message("a\0b.log") == r"'a\x00b.log': it cannot be read (embedded null byte)"
    assert "File name too long" in message("n" * 5000)
    (tmp_path / "a.log").write_bytes(PLAIN)
    assert message(f"{tmp_path}/a.log::x") == "DIR/a.log: no zip, so there is no 'x' in it"
    (tmp_path / "x.zip").write_bytes(ONE_LOG)
    assert message(f"{tmp_path}/x.zip::b") == "DIR/x.zip: no log 'b' in it; it holds 'a'"


def test_an_encrypted_log_is_refused(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.log": PLAIN}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    (tmp_path / "x.zip").write_bytes(data)
    assert message(tmp_path / "x.zip") == (
        "DIR/x.zip::a.log: it is encrypted: unpack the zip with its password first"
    )


BOMB = b'{"INSTRUCTION":"ANNOTATE","ANNOTATION":"x"}\n' * 2_000_000


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb.gz", gzip.compress(BOMB)),
        ("bomb.zst", packed_zst(BOMB)),
        ("bomb.zip", zipped({"a.log": BOMB})),
    ],
)
def test_a_bomb_is_refused_before_it_bursts(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    shown = message(tmp_path / name)
    assert "no log packs so well, it looks like a zip bomb" in shown
    assert shown.startswith(f"DIR/{name}")


def test_a_zip_that_lies_about_its_sizes_is_refused(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.log": PLAIN}))
    entry = data.index(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = (50).to_bytes(4, "little")
    (tmp_path / "x.zip").write_bytes(data)
    assert message(tmp_path / "x.zip").startswith("DIR/x.zip::a.log: it cannot be unpacked (")


def test_the_largest_size_of_a_log_can_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMATSIM_MAX_LOG_BYTES", "1000")
    for name, data in PACKED.items():
        (tmp_path / name).write_bytes(data)
        assert "larger than 1,000 bytes: too large for a log" in message(tmp_path / name)


def test_logs_of_a_zip_together_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.zip").write_bytes(zipped({"a.log": PLAIN, "b.log": PLAIN}))
    monkeypatch.setattr(unpacking, "DEFAULT_MAX_BYTES", len(PLAIN) + 10)
    with pytest.raises(TraceError, match=r"x.zip: larger than [\d,]+ bytes"):
        load_traces([tmp_path / "x.zip"])


def test_an_unknown_bundled_trace_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="bundled trace 'nope': unknown"):
        load_trace("bundled:nope")
