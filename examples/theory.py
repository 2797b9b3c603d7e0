"""The two theorems of the DTR paper, run: a chain in linear time, and an adversary.

Theorem 3.1: a chain of N units is trained in O(N) operations within a budget of order sqrt(N).
Theorem 3.2: whatever the heuristic, there is a net on which it needs N / B times the operations of
the best static plan. ``python examples/theory.py`` writes tables and figures for both.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rematsim
from rematsim.analysis.figures import (
    operations_figure,
    residency,
    residency_figure,
    save_figure,
)
from rematsim.errors import InputError
from rematsim.opcodes import ACTIONS
from rematsim.result import RunResult
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.synthetic import chain
from rematsim.traces.trace import Trace

# The proof of Theorem 3.1 is about the first one: e*'s cost alone, all sizes being equal.
HEURISTICS = ("h_abl_estar_size", "h_DTR", "h_DTR_eq", "h_LRU")
CHAINS = (25, 50, 100, 200, 400)
PICTURED = ("h_abl_estar_size", "h_DTR_eq", "h_LRU")
PICTURED_UNITS = 200  # the paper's Figure 5

# Nodes and budget of the nets that the adversary makes; those of one budget are drawn.
NETS = ((50, 5), (25, 10), (50, 10), (100, 10), (200, 10), (400, 20))
DRAWN_BUDGET = 10


def operations(run: RunResult) -> int:
    """Count the operations of a run whose operators take one nanosecond each."""
    return run.model_ns + run.remat_ns


# Theorem 3.1.


def chain_budget(units: int) -> int:
    """Give the budget of a chain, t_0 included."""
    return 2 * math.ceil(math.sqrt(units))


def run_chain(units: int, heuristic: Any, **options: Any) -> RunResult:
    """Train a chain under the theorem's budget, however long it takes."""
    return rematsim.simulate(
        chain(units),
        heuristic,
        chain_budget(units),
        slowdown_limit=None,
        **{"deallocation": "banish", **options},
    )


def chain_table(sizes: Iterable[int] = CHAINS, heuristics: Sequence[str] = HEURISTICS) -> Any:
    """Count operations, forward and backward, for chains of several sizes.

    Returns
    -------
    DataFrame
        n, budget, method, operations (empty where the run failed).
    """
    rows = []
    for n in sizes:
        for name in heuristics:
            run = run_chain(n, name)
            count = operations(run) if run.status == "ok" else None
            rows.append({"n": n, "budget": chain_budget(n), "method": name, "operations": count})
    return pd.DataFrame(rows)


# Theorem 3.2.


@dataclass
class Game:
    """What the adversary has made of a net, and what it cost.

    Attributes
    ----------
    parents : list of int
        ``parents[k - 1]`` is what node k is computed from; 0 is t_0.
    paths : list of list of int
        The nodes of each path, from t_0 on; there are as many paths as the budget has units.
    operations : list of int
        Operations of the run of the first 1, 2, ... nodes.
    """

    parents: list[int]
    paths: list[list[int]]
    operations: list[int]


def net_trace(parents: Sequence[int]) -> Trace:
    """Make a trace that computes a node after the other and lets go of them only at the end."""
    builder = TraceBuilder("adversary")
    builder.constant("t0", 1)
    for node, parent in enumerate(parents, 1):
        builder.call("f", [f"t{parent}"], [(f"t{node}", 1, -1)], 1)
    for node in range(1, len(parents) + 1):
        builder.release(f"t{node}")
    return builder.build()


def run_net(parents: Sequence[int], heuristic: Any, budget: int) -> RunResult:
    """Compute a net in the order of its nodes; the releases at the end change nothing."""
    return rematsim.simulate(
        net_trace(parents),
        heuristic,
        budget,
        deallocation="ignore",
        slowdown_limit=None,
        event_log=True,
        cached=False,
    )


def resident(run: RunResult) -> set[int]:
    """Find the nodes in memory at the end of a run: those whose last event is no eviction."""
    assert run.events is not None
    action, storage = run.events["action"], run.events["storage"]
    placed = np.isin(action, [ACTIONS.index("compute"), ACTIONS.index("recompute")])
    relevant = placed | (action == ACTIONS.index("evict"))
    last = dict(zip(storage[relevant].tolist(), placed[relevant].tolist(), strict=True))
    return {node for node, is_there in last.items() if is_there}


def play(nodes: int, budget: int, heuristic: Any) -> Game:
    """Play the adversary against a heuristic: append to a path with nothing in memory.

    Parameters
    ----------
    nodes : int
        Without t_0.
    budget : int
        Units, t_0 included: so there are that many paths, and room for one node less.
    heuristic : str, function or Heuristic
        It must be deterministic: each node is placed after a replay of all before it.
    """
    game = Game([], [[] for _ in range(budget)], [])
    in_memory: set[int] = set()
    for node in range(1, nodes + 1):
        path = next(path for path in game.paths if in_memory.isdisjoint(path))
        game.parents.append(path[-1] if path else 0)
        path.append(node)
        run = run_net(game.parents, heuristic, budget)
        game.operations.append(operations(run))
        in_memory = resident(run)
    return game


def static_operations(game: Game, nodes: int) -> int:
    """Run the first nodes path by path, as who knows the net would: t_0 and two nodes suffice."""
    builder = TraceBuilder("static")
    builder.constant("t0", 1)
    for path in game.paths:
        known = [node for node in path if node <= nodes]
        for parent, node in zip([0, *known], known, strict=False):
            builder.call("f", [f"t{parent}"], [(f"t{node}", 1, -1)], 1)
            if parent:
                builder.release(f"t{parent}")
        if known:
            builder.release(f"t{known[-1]}")
    run = rematsim.simulate(builder.build(), "h_LRU", 3, slowdown_limit=None, cached=False)
    assert run.status == "ok" and run.remat_ns == 0, run.message
    return operations(run)


def adversary_table(
    nets: Iterable[tuple[int, int]] = NETS, heuristics: Sequence[str] = HEURISTICS
) -> Any:
    """Let the adversary play against several heuristics.

    Parameters
    ----------
    nets : iterable of (int, int)
        Nodes and budget; a smaller net of one budget is the beginning of a larger one.

    Returns
    -------
    DataFrame
        n, budget, method, operations, bound (N^2 / 2B), static (operations of a static plan).
    """
    sizes: dict[int, list[int]] = {}
    for n, budget in nets:
        sizes.setdefault(budget, []).append(n)
    rows = []
    for budget, wanted in sizes.items():
        for name in heuristics:
            print(f"adversary, budget {budget}, against {name}", file=sys.stderr)
            game = play(max(wanted), budget, name)
            rows += [
                {
                    "n": n,
                    "budget": budget,
                    "method": name,
                    "operations": game.operations[n - 1],
                    "bound": n * n / (2 * budget),
                    "static": static_operations(game, n),
                }
                for n in wanted
            ]
    return pd.DataFrame(rows)


# What is written.


def draw_chains(out: Path, table: pd.DataFrame) -> list[Path]:
    """Write what there is to see of Theorem 3.1."""
    lines: dict[str, Callable[[float], float]] = {"2N: nothing computed twice": lambda n: 2 * n}
    rasters = {
        f"{name}, {PICTURED_UNITS} units, budget {chain_budget(PICTURED_UNITS)}": residency(
            run_chain(PICTURED_UNITS, name, event_log=True)
        )
        for name in PICTURED
    }
    return [
        save_figure(operations_figure(table, lines), out / "theorem_3_1_operations.png"),
        save_figure(residency_figure(rasters), out / "theorem_3_1_memory.png"),
    ]


def draw_adversary(out: Path, table: pd.DataFrame) -> list[Path]:
    """Write what there is to see of Theorem 3.2."""
    lines: dict[str, Callable[[float], float]] = {
        f"N²/2B, B = {DRAWN_BUDGET}": lambda n: n * n / (2 * DRAWN_BUDGET),
        "N: a static plan": lambda n: n,
    }
    shown = table[table["budget"].eq(DRAWN_BUDGET)]
    return [save_figure(operations_figure(shown, lines), out / "theorem_3_2_operations.png")]


def write_table(table: pd.DataFrame, path: Path) -> Path:
    """Write a table as CSV and print it, a column a heuristic."""
    table.to_csv(path, index=False)
    keys = [column for column in ("n", "budget", "bound", "static") if column in table]
    wide = table.pivot(index=keys, columns="method", values="operations")
    print(wide.reindex(columns=list(HEURISTICS)).reset_index().to_string(index=False), "\n")
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both theorems and name the files written."""
    parser = argparse.ArgumentParser(description="Run the theorems of the DTR paper.")
    parser.add_argument("--out", type=Path, default=Path("out/theory"), help="folder to write to")
    out: Path = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    print("Theorem 3.1: operations, forward and backward, for a chain of n units\n")
    chains = chain_table()
    files = [write_table(chains, out / "theorem_3_1.csv"), *draw_chains(out, chains)]
    print("Theorem 3.2: operations for n nodes placed by an adversary (bound: n²/2B)\n")
    nets = adversary_table()
    files += [write_table(nets, out / "theorem_3_2.csv"), *draw_adversary(out, nets)]
    print("Written:")
    for file in files:
        print(file)


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        sys.exit(f"theory.py: {error}")
