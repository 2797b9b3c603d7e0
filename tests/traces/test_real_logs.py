"""Every real log at hand is read, in columns to its end, and means what is known of it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from rematsim.traces.importers import dtr_log
from rematsim.traces.importers.dtr_writer import encoded
from rematsim.traces.loading import load_trace, load_traces

SHARED = Path(__file__).parents[3] / "shared"
LOGS, CORPUS = SHARED / "reference" / "dtr-logs.zip", SHARED / "corpus"
BASE_COMPUTE_NS = {
    "ResNet-32 (56)": 291_905_487,
    "DenseNet-121 (84)": 355_299_140,
    "InceptionV4 (64)": 636_429_561,
    "U-Net (6)": 435_278_292,
    "Transformer (10)": 276_259_118,
    "LSTM (512)": 769_458_833,
    "TreeLSTM (D.6)": 120_490_892,
    "Unrolled GAN": 125_451_477,
}


@pytest.fixture
def nothing_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a log is not read in columns to its end."""
    usual = dtr_log.decode_one_by_one

    def checked(data: bytes, line: int, source: str, begin: int) -> object:
        assert begin == len(data), "the quick way was left"
        return usual(data, line, source, begin)

    monkeypatch.setattr(dtr_log, "decode_one_by_one", checked)


@pytest.mark.skipif(not LOGS.exists(), reason=f"{LOGS} is not there: it is not shipped")
@pytest.mark.usefixtures("nothing_one_by_one")
def test_the_logs_of_the_dtr_paper_are_read() -> None:
    traces = load_traces([LOGS], cache=False)
    assert {trace.name: trace.compute_ns for trace in traces} == BASE_COMPUTE_NS
    for trace in traces:
        assert dtr_log.read(b"".join(encoded(trace)), "", "") == trace


def rows() -> list[dict[str, str]]:
    """Rows of the corpus's manifest, or none."""
    if not (CORPUS / "manifest.csv").exists():
        return []
    with (CORPUS / "manifest.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.skipif(not rows(), reason=f"{CORPUS} is not there: it is not shipped")
@pytest.mark.usefixtures("nothing_one_by_one")
def test_the_logs_of_the_corpus_are_read() -> None:
    for row in rows():
        trace = load_trace(CORPUS / row["file"], cache=False)
        assert trace.name == row["name"]
        assert trace.n_calls == int(row["ops"]), row["name"]
        assert trace.compute_ns == int(row["base_compute_ns"]), row["name"]
        assert int(trace.constant_bytes.sum()) == int(row["constant_bytes"]), row["name"]
        assert trace.n_constants == int(row["constants"]), row["name"]
