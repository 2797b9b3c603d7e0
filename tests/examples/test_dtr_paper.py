"""The paper's evaluation: the whole of it on two small logs, its table on the paper's own."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import networkx as nx
import pandas as pd
import pytest
import rematsim
from example_modules import load_example
from rematsim.analysis.summaries import lowest_budgets
from rematsim.errors import TraceError
from rematsim.traces.loading import load_traces

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT.parent / "shared" / "reference" / "dtr-logs.zip"

METHODS = ("h_DTR", "h_DTR_eq", "h_DTR_local", "h_MSPS", "h_LRU", "h_size")

# What the paper's own simulator survives: budget as a fraction of the unlimited peak, and in
# parentheses the slowdown there, where it is known.
SURVIVED = """
ResNet-32     .2 (1.37)  .2 (1.33)  .5         .2 (1.43)  .6  .4 (1.74)
DenseNet-121  .2 (1.68)  .2 (1.62)  .2 (1.65)  .2 (1.47)  .7  .6
InceptionV4   .3 (1.22)  .3 (1.24)  .5         .3 (1.39)  .6  .5
U-Net         .5 (1.16)  .5 (1.16)  .5 (1.85)  .3 (1.59)  .6  .5 (1.66)
Transformer   .2 (1.35)  .2 (1.54)  .2 (1.64)  .2 (1.33)  .6  .3
LSTM          .2 (1.60)  .2 (1.55)  .6         .3 (1.38)  .7  1.0
TreeLSTM      .2 (1.53)  .4 (1.19)  .6         .4 (1.35)  .6  1.0
Unrolled GAN  .3 (1.21)  .3 (1.11)  .7         .7         .7  1.0
"""


@pytest.fixture(scope="module")
def dtr_paper() -> ModuleType:
    return load_example("dtr_paper")


def expected() -> dict[tuple[str, str], tuple[float, float | None]]:
    """Read the table: model and method to fraction and slowdown."""
    cells = {}
    for line in SURVIVED.strip().splitlines():
        model, rest = line[:14].strip(), line[14:].split()
        numbers: list[tuple[float, float | None]] = []
        for word in rest:
            if word.startswith("("):
                numbers[-1] = (numbers[-1][0], float(word.strip("()")))
            else:
                numbers.append((float(word), None))
        cells |= {(model, m): n for m, n in zip(METHODS, numbers, strict=True)}
    return cells


@pytest.mark.skipif(not LOGS.exists(), reason=f"the paper's logs are absent: {LOGS}")
def test_each_heuristic_survives_what_it_survives_in_the_papers_simulator(
    dtr_paper: ModuleType,
) -> None:
    """The lowest budgets of six heuristics on eight models, and the slowdowns that are known."""
    table = rematsim.sweep(load_traces([LOGS]), METHODS, dtr_paper.BUDGETS)
    found = lowest_budgets(table).set_index(["trace", "line"])
    for (model, method), (fraction, slowdown) in expected().items():
        name = next(name for name in table["trace"].unique() if name.startswith(model))
        cell = found.loc[(name, method)]
        assert cell["lowest_fraction"] == pytest.approx(fraction, abs=1e-6), (model, method)
        if slowdown is not None:
            assert cell["slowdown"] == pytest.approx(slowdown, abs=0.0051), (model, method)


def test_whole_evaluation_writes_figures_and_tables(
    dtr_paper: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One command: every file that it names is there; started again, it runs nothing again."""
    logs = ["bundled:densenet", "bundled:unet"]
    arguments = ["--logs", *logs, "--out", str(tmp_path), "--jobs", "1"]
    dtr_paper.main(arguments)
    first = capsys.readouterr()
    files = [Path(line) for line in first.out.splitlines() if line.startswith(str(tmp_path))]
    assert sorted(file.name for file in files) == [
        "ablations.png",
        "accesses.png",
        "accesses.sqlite",
        "deallocation.png",
        "heuristics.png",
        "lowest_budgets.csv",
        "lowest_budgets.png",
        "runs.csv",
        "runs.sqlite",
    ]
    assert all(file.stat().st_size > 0 for file in files)
    runs = pd.read_csv(tmp_path / "runs.csv")
    assert set(runs["trace"]) == {"densenet", "unet"}
    assert runs["method"].nunique() == 7 + 11
    assert set(runs["deallocation"]) == {"eager", "ignore", "banish"}
    assert runs["metadata_accesses"].notna().sum() == 2 * len(dtr_paper.COUNTED) * 5
    dtr_paper.main(arguments)
    assert capsys.readouterr().out == first.out
    assert pd.read_csv(tmp_path / "runs.csv").equals(runs)  # run_seconds too: nothing ran again


def test_error_is_one_line(dtr_paper: ModuleType, tmp_path: Path) -> None:
    """A log that is not there is named, and no folder is made for it."""
    with pytest.raises(TraceError, match=r"none\.zip: no such file; the paper.s logs are in"):
        dtr_paper.main(["--logs", str(tmp_path / "none.zip"), "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def write_graph(path: Path) -> None:
    """Write a chain of four layers and their backward nodes, as Checkmate's graphs are written."""
    graph = nx.DiGraph()
    for node in range(9):
        graph.add_node(node, name=f"n{node}", cost_ram=10_000, cost_cpu=5, backward=node > 3)
    nx.add_path(graph, range(9))
    graph.add_edges_from((node, 8 - node) for node in range(4))
    path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))


def test_figure_3_is_drawn_of_the_graphs_that_are_there(
    dtr_paper: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Heuristics and planners are in one table; a graph that is missing is named."""
    write_graph(tmp_path / "vgg16_b256_train.json")
    out = tmp_path / "out"
    arguments = ["--graphs", str(tmp_path), "--out", str(out), "--points", "3", "--jobs", "1"]
    dtr_paper.main(arguments)
    told = capsys.readouterr()
    names = ["planners.sqlite", "gaps.csv", "planners.png", "solving.png"]
    assert told.out.split() == ["Written:", *(str(out / name) for name in names)]
    assert "mobilenet_b512_train.json: no such file; Figure 3 is drawn without it" in told.err
    gaps = pd.read_csv(out / "gaps.csv")
    assert set(gaps["line"]) == {*dtr_paper.HEURISTICS, *dtr_paper.PLANNERS}
    assert set(gaps["trace"]) == {"VGG16"}
    proven = gaps[gaps["line"].eq("optimal") & gaps["status"].eq("ok")]
    assert proven["is_optimal"].all() and not gaps["gap"].lt(0).any()
    dtr_paper.main(arguments)
    assert capsys.readouterr().out == told.out


def test_budgets_of_figure_3_begin_around_the_least_that_a_call_needs(
    dtr_paper: ModuleType, tmp_path: Path
) -> None:
    """A backward node reads two values and makes one; nothing is recomputed in six."""
    write_graph(tmp_path / "vgg16_b256_train.json")
    [trace] = dtr_paper.load_graphs(tmp_path)
    assert dtr_paper.figure_3_budgets(trace, 3) == [30_000, 38_000, 45_000, 60_000]


def test_there_has_to_be_something_to_do(
    dtr_paper: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        dtr_paper.main([])
    assert "give --logs, --graphs or both" in capsys.readouterr().err
