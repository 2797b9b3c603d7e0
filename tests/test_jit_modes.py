"""Compiled and plain Python give the same rows: the kernels are one source, run in two ways."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("jit_modes")  # one worker: they share what is made once

HEURISTICS = (
    "h_DTR",
    "h_DTR_eq",
    "h_LRU",
    "h_DTR_neighborhood",
    "h_last_step",
    "h_rand",
    "ignore_small(sample(h_DTR_eq))",
)
MODES = (("eager", "copy"), ("eager", "inplace"), ("ignore", "copy"), ("banish", "inplace"))
TRACES = (
    ("synthetic:transformer:1,steps=2", "0.9x", MODES),
    ("synthetic:random:6", "0.9x", MODES[1::2]),
)
PLACED = (("bundled:unet", "h_DTR_eq", "0.8x"), ("synthetic:transformer:1", "h_LRU", "1x"))
MEMORIES = ("arena", "arena(small_area=1MiB)")
COUNTED = ("h_DTR", "h_DTR_eq")
ADDRESSED = ("Coop", "Coop(partition=density,drop=true)", "h_DTE", "h_MegEngine")

# Run again by a second interpreter, as a script, without the compiler.
WITHOUT_COMPILER = {"NUMBA_DISABLE_JIT": "1"}


def rows() -> list[dict[str, Any]]:
    """Run two small traces under everything above."""
    from rematsim import execute, load_trace, plan_trace, simulate
    from rematsim.inspection import enlarged
    from rematsim.plan import plan_of_run
    from rematsim.workload import workload

    results = []
    for spec, budget, modes in TRACES:
        trace = load_trace(spec)
        for heuristic, (policy, mutation) in itertools.product(HEURISTICS, modes):
            options = {"deallocation": policy, "mutation": mutation, "seed": 3, "cached": False}
            results.append(simulate(trace, heuristic, budget, **options))
        for heuristic, (policy, mutation) in itertools.product(ADDRESSED, modes):
            options = {"deallocation": policy, "mutation": mutation, "memory": "arena"}
            results.append(simulate(enlarged(trace), heuristic, budget, cached=False, **options))
        for heuristic in COUNTED:
            results.append(simulate(trace, heuristic, budget, count_accesses=True, cached=False))
        online = simulate(trace, "h_DTR_eq", budget, event_log=True, cached=False)
        if online.status == "ok":
            plan = plan_of_run(workload(trace).program, online)
            results += [execute(trace, plan, budget), execute(trace, plan, "0.5x")]
        results.append(plan_trace(trace, "keep-all").row)
    results += [
        simulate(*run, memory=memory, cached=False) for run in PLACED for memory in MEMORIES
    ]
    return [{**result.row, "run_seconds": 0, "solve_seconds": 0} for result in results]


@pytest.fixture(scope="module")
def plain() -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, **WITHOUT_COMPILER},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_rows_are_the_same_compiled_and_not(plain: list[dict[str, Any]]) -> None:
    compiled = json.loads(json.dumps(rows()))
    assert len(compiled) == len(plain)
    for one, other in zip(compiled, plain, strict=True):
        assert one == other


def test_the_runs_are_worth_comparing(plain: list[dict[str, Any]]) -> None:
    """They evict, they rematerialize, and they do not all end in one way."""
    assert sum(row["pressure_evictions"] > 0 for row in plain) > len(plain) / 2
    assert sum(row["rematerializations"] > 0 for row in plain) > len(plain) / 2
    assert {"ok", "oom"} <= {row["status"] for row in plain}


if __name__ == "__main__":
    json.dump(rows(), sys.stdout)
