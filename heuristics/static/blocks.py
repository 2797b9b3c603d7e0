"""every-kth, m-of-n: some blocks of a model are checkpointed, as people do it by hand.

A block is a run of forward calls of one module, such as ``GPT.blocks.3``; of what a checkpointed
block makes, only what others need is saved, and the rest is computed again in its backward pass
(``torch.utils.checkpoint``). Blocks are known by module paths, which not every trace has.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from ...static_graph import StaticGraph
from ..parameters import Text, Whole
from .clock import Clock
from .registry import NOT_APPLICABLE, PlannerResult, planner
from .saving import always_saved, kept_of_saved
from .segments import NO_BACKWARD, forward_nodes
from .stages import Kept, links_of
from .sweeping import cheapest

_NUMBERED = re.compile(r"^(.*?\.\d+)(\.|$)")  # up to the outermost number
MOST_BLOCKS = 10**6
NO_BLOCKS = PlannerResult(NOT_APPLICABLE, message="the trace has no numbered modules as blocks")


class Blocks:
    """The blocks of a forward pass, in order, and what is kept if some are checkpointed."""

    def __init__(self, graph: StaticGraph, prefix: str = "") -> None:
        self.graph = graph
        self.forward = forward_nodes(graph)
        self.path = [self._path(module, prefix) for module in graph.module]
        self.block: dict[int, int] = {}  # forward node -> its block
        self.paths: list[str] = []
        last = ""
        for node in self.forward:
            if self.path[node] and self.path[node] != last:
                self.paths.append(self.path[node])
            last = self.path[node]
            if last:
                self.block[node] = len(self.paths) - 1

    def _path(self, module: str, prefix: str) -> str:
        """Give the block that a module belongs to, or nothing."""
        if prefix:
            found = re.match(rf"^({re.escape(prefix)}\.[^.]+)(\.|$)", module)
        else:
            found = _NUMBERED.match(module)
        return found[1] if found else ""

    def kept(self, checkpointed: Collection[int]) -> Kept:
        """Keep what is saved if some blocks are checkpointed, by their places."""
        saved = {
            value
            for node in self.forward
            for value in links_of(self.graph).made[node]
            if self.block.get(node) not in checkpointed
            or self._is_needed_outside(value, checkpointed)
        }
        return kept_of_saved(self.graph, saved | always_saved(self.graph))

    def _is_needed_outside(self, value: int, checkpointed: Collection[int]) -> bool:
        """Say whether other blocks' backward passes need a value, to differentiate or run again."""
        own = self.block[int(self.graph.producer[value])]
        for reader in self.graph.readers(value).tolist():
            if reader in self.block:
                if self.block[reader] != own and self.block[reader] in checkpointed:
                    return True
            elif self.graph.backward[reader] and self.path[reader] != self.paths[own]:
                return True
        return False


def _planned(
    budget: int | None, blocks: Blocks, count: int, choices: list[tuple[int, ...]], clock: Clock
) -> PlannerResult:
    """Plan by some choices, of which the one of that count was asked for, or all by 0."""
    if not blocks.forward:
        return NO_BACKWARD
    if not blocks.paths:
        return NO_BLOCKS
    if count > len(blocks.paths):
        message = f"the trace has {len(blocks.paths):,} blocks, {count:,} were asked for"
        return PlannerResult(NOT_APPLICABLE, message=message)
    return cheapest(blocks.graph, budget, choices, blocks.kept, clock=clock)


@planner(
    "every-kth",
    reference="torch.utils.checkpoint on every k-th block",
    allowed={"k": Whole(0, MOST_BLOCKS), "blocks": Text()},
)
def every_kth(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    k: int = 0,
    blocks: str = "",
    **_: Any,
) -> PlannerResult:
    """Checkpoint every k-th block; k = 0: of all k, and none, the cheapest that fits.

    ``blocks=GPT.blocks`` names the module whose children are the blocks; else they are the modules
    up to the outermost number.
    """
    clock, found = Clock(time_limit), Blocks(graph, blocks)
    n = len(found.paths)
    tried = [k] if k > 0 else range(1, n + 1)
    choices = [tuple(range(every - 1, n, every)) for every in tried]
    return _planned(budget, found, k, choices if k > 0 else [(), *choices], clock)


@planner(
    "m-of-n",
    reference="Megatron-LM, recompute-method block",
    allowed={"m": Whole(0, MOST_BLOCKS, also=-1), "blocks": Text()},
)
def m_of_n(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    m: int = -1,
    blocks: str = "",
    **_: Any,
) -> PlannerResult:
    """Checkpoint the first m blocks; without m, the fewest that fit. ``blocks`` as of every-kth."""
    clock, found = Clock(time_limit), Blocks(graph, blocks)
    n = len(found.paths)
    tried = [m] if m >= 0 else range(n + 1)
    choices = [tuple(range(count)) for count in tried]
    return _planned(budget, found, m, choices, clock)
