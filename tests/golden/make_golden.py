"""Make the golden rows of the traces that ship with rematsim, checked against the reference.

``python tests/golden/make_golden.py`` writes ``golden.csv``; with names of traces it makes their
rows alone anew. Of the heuristics that the reference
simulator (``tests/oracle.py``) knows, every row of the traces with few calls, and those at one
budget of the others, are held against it; nothing is written unless it agrees with all of their
figures and on every victim. The other rows are what the engine gave. Takes minutes.
"""

from __future__ import annotations

import argparse
import csv
import functools
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

from rematsim import load_trace, simulate
from rematsim.heuristics import get, names
from rematsim.result import RunResult
from rematsim.traces.bundled import bundled_traces
from rematsim.traces.trace import Trace

GOLDEN = Path(__file__).parent / "golden.csv"
BUDGETS = ("0.3x", "0.5x", "0.8x")
POLICIES = ("eager", "ignore", "banish")
WRAPPED = ("sample(h_DTR_eq)", "ignore_small(h_DTR_eq,0.01)")
SEED = 7
LINK = "link(d2h=1GB/s,h2d=1GB/s)"
FEW_CALLS, MANY_CALLS = 1_000, 3_000
SLOW = ("h_DTR_neighborhood",)  # half a minute on llama_7b
FIGURES = (
    *("budget_bytes", "status", "model_ns", "remat_ns", "peak_bytes", "evictions"),
    *("rematerializations", "evict_sha"),
)
COLUMNS = ("trace", "method", "deallocation", "budget", *FIGURES)
HEADER = """\
# Golden rows: every heuristic on every bundled trace, at three budgets, under three policies;
# seed {seed} where lots are drawn, slowdown limit 2. Made by make_golden.py. {count:,} of them were
# equal in the reference simulator (tests/oracle.py), decision by decision, when they were made:
# all of traces with fewer than {few:,} calls, those at 0.5x of traces with fewer than {many:,}, and
# those at 0.8x that ended well of the others (which have no {slow}), of
# {checked}
"""


def methods(trace: Trace) -> list[str]:
    """Name every heuristic that is run on a trace, and the two wrappers around one."""
    left_out = SLOW if trace.n_calls >= MANY_CALLS else ()
    return [*(name for name in names() if name not in left_out), *WRAPPED]


def run(trace: Trace, method: str, policy: str, budget: str) -> RunResult:
    """Do the run of a row; with an arena, or over a link, where the method is of no use without."""
    memory = "arena" if get(method).needs_addresses else "counter"
    link = LINK if get(method).moves else "none"
    return simulate(trace, method, budget, deallocation=policy, seed=SEED, memory=memory, link=link)


def rows(trace_names: Iterable[str]) -> Iterator[tuple[Trace, RunResult, dict[str, str]]]:
    """Do the runs of some traces; give each with its row."""
    for name in trace_names:
        trace = load_trace(f"bundled:{name}")
        for method, policy, budget in product(methods(trace), POLICIES, BUDGETS):
            result = run(trace, method, policy, budget)
            figures = {figure: str(result.row[figure]) for figure in FIGURES}
            key = {"trace": name, "method": method, "deallocation": policy, "budget": budget}
            yield trace, result, {**key, **figures}


def is_checked(trace: Trace, row: dict[str, str]) -> bool:
    """Whether the reference simulator has to agree with a row."""
    import oracle

    if trace.n_calls < FEW_CALLS:
        is_due = True
    elif trace.n_calls < MANY_CALLS:
        is_due = row["budget"] == "0.5x"
    else:  # the reference takes minutes where a long trace thrashes
        is_due = row["budget"] == "0.8x" and row["status"] == "ok"
    return is_due and row["method"] in oracle.SCORES


def check(trace: Trace, result: RunResult) -> None:
    """Hold a row against the reference simulator.

    Raises
    ------
    SystemExit
        If a figure differs.
    """
    import oracle

    expected = oracle.replay(trace, result.method, result.budget_bytes, result.deallocation)
    for figure in FIGURES[1:] + ("unlimited_peak_bytes", "base_compute_ns", "clock"):
        if result.row[figure] != expected[figure]:
            sys.exit(
                f"{trace.name}, {result.method}, {result.deallocation}, {result.budget_bytes}: "
                f"{figure} is {result.row[figure]}, in the reference {expected[figure]}"
            )


def find_oracle() -> None:
    """Make the reference simulator importable; it need not find a trace's peak for each row."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import oracle

    oracle.unlimited_peak = functools.cache(oracle.unlimited_peak)


def checked_rows(name: str) -> list[dict[str, str]]:
    """Make the rows of a trace; hold those that are due against the reference simulator."""
    made = []
    for trace, result, row in rows([name]):
        if is_checked(trace, row):
            check(trace, result)
        made.append(row)
    print(f"{name}: {len(made)} rows", file=sys.stderr, flush=True)
    return made


def read_golden() -> list[dict[str, str]]:
    """Read the golden rows."""
    with GOLDEN.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def count_checked(golden: Iterable[dict[str, str]]) -> int:
    """Count the rows with which the reference simulator agreed when they were made."""
    traces = {name: load_trace(path) for name, path in bundled_traces().items()}
    return sum(is_checked(traces[row["trace"]], row) for row in golden)


def write_golden(golden: list[dict[str, str]]) -> None:
    """Write the golden rows, under what is to be known of them."""
    import oracle

    facts = {
        "count": count_checked(golden),
        "few": FEW_CALLS,
        "many": MANY_CALLS,
        "slow": ", ".join(SLOW),
        "checked": ", ".join(name for name in names() if name in oracle.SCORES),
    }
    with GOLDEN.open("w", newline="") as file:
        file.write(HEADER.format(seed=SEED, **facts))
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(golden)


def main() -> None:
    """Make the rows of all traces anew, or of some."""
    known = list(bundled_traces())
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("traces", nargs="*", metavar="TRACE", help=f"of {', '.join(known)}")
    asked = parser.parse_args().traces or known
    find_oracle()
    kept = [row for row in read_golden() if row["trace"] not in asked]
    with ProcessPoolExecutor(initializer=find_oracle) as workers:
        made = [row for of_one in workers.map(checked_rows, asked) for row in of_one]
    write_golden(sorted(kept + made, key=lambda row: row["trace"]))


if __name__ == "__main__":
    main()
