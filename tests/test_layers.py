"""The layers of the package: nothing imports upward, and numba is imported in one place only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

# From the bottom to the top; a module may import from its own layer and from those before it.
# The longest matching prefix decides, so that a module can stand apart from its package.
LAYERS = {
    "foundation": "errors opcodes files garbage texts budgets jit compiler traces.cache",
    "traces": "traces",
    "engine": "allocator_settings program view_folding schedules made_views static_graph plan "
    "plan_files plan_reading following sequences ondemand space state layout lowering memory "
    "serving pieces arena segments expanding caching event_replay partition pool events randomness "
    "classes neighborhood nextuse residence engine choosing windows compiled runner workload "
    "moment_bounds bounds requirements showing result saved_runs report buffers overlaps "
    "buffer_files lifetimes placing stacking stacking_bounds stacking_state traffic transfers "
    "transferring moving event_fields waiting placed_results asking links lanes moved_schedules "
    "offloaded_states offloaded_chains",
    "heuristics": "heuristics",
    "simulation": "allocation_layout allocation_comparison pythonchoice memory_models allocation "
    "simulation checkpointing comparison conformance inspection audit audit_addresses "
    "audit_caching audit_extents audit_facts audit_lanes audit_ledger audit_plan audit_program "
    "audit_row audit_moves audit_scores audit_transfers execution plan_diff planning grid store "
    "workers cluster sweeps addressing parameter_space tuning "
    "story live overheads causes scores worth explaining side_by_side headroom floors trials "
    "fitting batch_search plan_choices policies",
    "package": "rematsim",
    "analysis": "analysis",
    "reports": "pages",
    "command line": "cli __main__",
}
RANKS = {
    name if name == "rematsim" else f"rematsim.{name}": rank
    for rank, names in enumerate(LAYERS.values())
    for name in names.split()
}


def rank_of(module: str) -> int | None:
    """The layer of a module; None if it has been given none."""
    if module == "rematsim":
        return RANKS[module]
    while module != "rematsim":
        if module in RANKS:
            return RANKS[module]
        module = module.rpartition(".")[0]
    return None


def imported(source: Any) -> Iterator[tuple[int, str]]:
    """Lines and modules of the imports in a module, wherever in it they stand."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                base = source.package.split(".")
                above = base[: len(base) - node.level + 1]
                module = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def test_every_module_has_a_layer(sources: list[Any]) -> None:
    homeless = [source.name for source in sources if rank_of(source.name) is None]
    assert not homeless, f"give these modules a layer in {__name__}: {homeless}"


def test_nothing_imports_upward(sources: list[Any]) -> None:
    known = {source.name for source in sources}
    faults = []
    for source in sources:
        own = rank_of(source.name)
        for line, name in imported(source):
            if not name.startswith("rematsim"):
                continue
            target = name if name in known else name.rpartition(".")[0]
            rank = rank_of(target)
            if own is not None and rank is not None and rank > own:
                faults.append(f"{source.path.name}:{line}: {source.name} imports {target}")
    assert not faults, "\n".join(faults)


def test_imports_inside_the_package_are_relative(sources: list[Any]) -> None:
    """An absolute import would make a second copy of a module where a folder is on the path."""
    faults = [
        f"{source.path}:{node.lineno}"
        for source in sources
        for node in ast.walk(source.tree)
        if (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and (node.module or "").split(".")[0] in ("rematsim", "sim", "traces", "analysis")
        )
        or (
            isinstance(node, ast.Import)
            and any(alias.name.split(".")[0] == "rematsim" for alias in node.names)
        )
    ]
    assert not faults, faults


@pytest.mark.parametrize(
    ("library", "user"),
    [("numba", {"rematsim.compiler"}), ("llvmlite", {"rematsim.compiler", "rematsim.jit"})],
)
def test_only_the_compiler_imports_numba(sources: list[Any], library: str, user: set[str]) -> None:
    """Machine code from the disk needs only what links it."""
    users = {
        source.name
        for source in sources
        for _, name in imported(source)
        if name.split(".")[0] == library
    }
    assert users == user


def test_analysis_simulates_nothing(sources: list[Any]) -> None:
    """A figure can be redrawn from a file: analysis knows results, not how they are made."""
    allowed = {"rematsim.errors", "rematsim.files", "rematsim.opcodes", "rematsim.result"}
    allowed |= {"rematsim.links"}  # what the column link says
    known = {source.name for source in sources}
    faults = set()
    for source in sources:
        if source.name.startswith("rematsim.analysis"):
            for _, name in imported(source):
                target = name if name in known else name.rpartition(".")[0]
                if target.startswith("rematsim") and "analysis" not in target:
                    faults |= {target} - allowed
    assert not faults


def test_nothing_is_imported_by_star(sources: list[Any]) -> None:
    faults = [
        source.name for source in sources for _, name in imported(source) if name.endswith(".*")
    ]
    assert not faults
