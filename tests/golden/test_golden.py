"""Golden rows: decisions on the bundled traces do not change unless somebody means them to.

``make_golden.py`` makes the rows anew, and holds most of them against the reference simulator.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest
from rematsim.traces.bundled import bundled_traces


def _script() -> ModuleType:
    path = Path(__file__).parent / "make_golden.py"
    spec = importlib.util.spec_from_file_location("make_golden", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


make_golden = _script()


def by_trace() -> dict[str, list[dict[str, str]]]:
    rows = defaultdict(list)
    for row in make_golden.read_golden():
        rows[row["trace"]].append(row)
    return rows


@pytest.mark.parametrize("trace", list(bundled_traces()))
def test_rows_of_a_bundled_trace_are_the_golden_ones(trace: str) -> None:
    """Every heuristic, at every budget, under every policy: the same figures and victims."""
    expected = by_trace()[trace]
    found = [row for _, _, row in make_golden.rows([trace])]
    different = [(want, got) for want, got in zip(expected, found, strict=True) if want != got]
    assert not different, f"{len(different)} of {len(expected)} rows differ: {different[:2]}"


def test_golden_rows_are_of_all_kinds() -> None:
    """Runs that end well, that run out of memory and that thrash are among them."""
    statuses = {row["status"] for row in make_golden.read_golden()}
    assert statuses == {"ok", "oom", "thrashed"}
