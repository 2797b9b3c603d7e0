"""The theorems' example: its numbers, which stand in the literature or follow from counting."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from example_modules import load_example

# Operations of a chain of 25, 50, 100, 200 and 400 units within 2 ceil(sqrt(N)) units, t_0 among
# them: with the ties of the replay contract, under eager and banish alike.
CHAIN_OPERATIONS = {
    "h_abl_estar_size": (71, 139, 320, 599, 1431),
    "h_DTR": (66, 135, 281, 575, 1161),
    "h_DTR_eq": (66, 135, 281, 575, 1161),
    "h_LRU": (85, 187, 647, 1629, 6128),
}


@pytest.fixture(scope="module")
def theory() -> ModuleType:
    return load_example("theory")


@pytest.mark.parametrize("deallocation", ["eager", "banish"])
@pytest.mark.parametrize("heuristic", CHAIN_OPERATIONS)
def test_chain_takes_the_known_number_of_operations(
    theory: ModuleType, heuristic: str, deallocation: str
) -> None:
    """Theorem 3.1's chains, forward and backward, whatever is computed twice included."""
    runs = [theory.run_chain(n, heuristic, deallocation=deallocation) for n in theory.CHAINS]
    assert [run.status for run in runs] == ["ok"] * 5
    assert tuple(map(theory.operations, runs)) == CHAIN_OPERATIONS[heuristic]


def test_chain_is_linear_under_the_proofs_heuristic_and_not_under_lru(theory: ModuleType) -> None:
    """Operations per unit stay below 4 for e*; LRU's grow."""
    per_unit = {
        name: [count / n for count, n in zip(counts, theory.CHAINS, strict=True)]
        for name, counts in CHAIN_OPERATIONS.items()
    }
    assert max(per_unit["h_abl_estar_size"]) < 4 and max(per_unit["h_DTR"]) < 3
    assert per_unit["h_LRU"] == sorted(per_unit["h_LRU"]) and per_unit["h_LRU"][-1] > 15


def test_adversary_by_hand(theory: ModuleType) -> None:
    """A budget of 3: t_0 and two nodes, so three paths, the first without memory is extended.

    1, 2 and 3 begin the paths; for 3, 1 is dropped. The first path has nothing in memory and gets
    4: 1 is computed again, 4 from it; 3 and 2 have gone for these two. The second gets 5 likewise:
    2 again, then 5. Now the first has nothing again and gets 6: 1, 4 again, then 6; then 7 goes
    to the second: 2, 5 again, then 7. In all 3 + 2 + 2 + 3 + 3 operations.
    """
    game = theory.play(7, 3, "h_LRU")
    assert game.paths == [[1, 4, 6], [2, 5, 7], [3]]
    assert game.parents == [0, 0, 0, 1, 2, 4, 5]
    assert game.operations == [1, 2, 3, 5, 7, 10, 13]


@pytest.mark.parametrize(
    ("heuristic", "counts"), [("h_abl_estar_size", (326, 595)), ("h_LRU", (396, 1259))]
)
def test_adversary_needs_the_known_number_of_operations(
    theory: ModuleType, heuristic: str, counts: tuple[int, int]
) -> None:
    """Theorem 3.2 for (N, B) = (50, 5) and (100, 10): above N^2 / 2B, where a plan needs N."""
    table = theory.adversary_table([(50, 5), (100, 10)], [heuristic])
    assert tuple(table["operations"]) == counts
    assert (table["operations"] >= table["bound"]).all()
    assert table["static"].tolist() == table["n"].tolist()


def test_tables_and_figures_are_written(
    theory: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command names the files that it wrote, and they hold what it printed."""
    monkeypatch.setattr(theory, "NETS", ((12, 10),))
    monkeypatch.setattr(theory.adversary_table, "__defaults__", (((12, 10),), ("h_DTR", "h_LRU")))
    theory.main(["--out", str(tmp_path / "made")])
    shown = capsys.readouterr().out
    files = [Path(line) for line in shown.splitlines() if line.startswith(str(tmp_path))]
    assert {file.name for file in files} == {
        "theorem_3_1.csv",
        "theorem_3_1_operations.png",
        "theorem_3_1_memory.png",
        "theorem_3_2.csv",
        "theorem_3_2_operations.png",
    }
    assert all(file.stat().st_size > 0 for file in files)
    table = pd.read_csv(tmp_path / "made" / "theorem_3_1.csv")
    last = table[table["n"].eq(400)].set_index("method")["operations"]
    assert last.to_dict() == {name: counts[-1] for name, counts in CHAIN_OPERATIONS.items()}
