"""How the calls of a Program become nodes of a static graph: calls that only make views are folded.

A view goes when its storage is dropped, and has to be made again with it; so the call that makes it
belongs to the node of that storage. Only where that cannot be, it is a node of its own, and the
storage that it shows cannot be dropped and made again. Nothing here plans or simulates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .program import Program

NO_CALL = -1


@dataclass
class Node:
    """A node: ``reads`` are storages, also of its views; a mark does nothing (`StaticGraph`)."""

    call: int
    reads: set[int]
    own_reads: set[int]
    cost: int = 0
    workspace: int = 0
    is_recomputable: bool = True
    is_mark: bool = False
    makes: set[int] = field(default_factory=set)


class View(NamedTuple):
    """A folded view: its call, the call of the storage that it shows, and where it is made first.

    ``place`` is a node's position, and the view is made before or after its first computation.
    """

    call: int
    owner: int
    place: int
    is_before: bool


class Folding:
    """Goes through the calls once to see what is a view, and once to place nodes and views.

    Attributes
    ----------
    nodes : list of Node
        In the order of the trace; the last has no call and reads the outputs, if there are some.
    views : list of View
        In the order of the trace.
    """

    def __init__(self, program: Program) -> None:
        calls, tensors, storages = program.calls, program.tensors, program.storages
        self.storage = tensors["storage"].tolist()
        self.root = storages["root"][:-1].tolist()
        self.is_constant = (storages["is_constant"][:-1] == 1).tolist()
        self.maker = tensors["call"][storages["root"][:-1]].tolist()  # by storage
        self.cost = calls["cost_ns"].tolist()
        self.workspace = calls["workspace_bytes"].tolist()
        self.can_repeat = (calls["is_recomputable"] == 1).tolist()
        self.sources = [
            {s for s in program.sources[first:end].tolist() if not self.is_constant[s]}
            for first, end in zip(calls["first_source"], calls["end_source"], strict=True)
        ]
        self.own_sources = [set(sources) for sources in self.sources]  # without those of views
        self.results = [
            range(first, end)
            for first, end in zip(
                calls["first_result"].tolist(), calls["end_result"].tolist(), strict=True
            )
        ]
        self.outputs = {
            s for s in tensors["storage"][program.outputs].tolist() if not self.is_constant[s]
        }
        self.owner = [self._owner(call) for call in range(len(self.cost))]
        for call in range(len(self.cost)):
            self._bind_views(call)
        self.nodes: list[Node] = []
        self.views: list[View] = []
        self._place()

    def _owner(self, call: int) -> int:
        """Give the call that a view's call is folded into, or -1 where it is none to be folded."""
        shown = {self.storage[t] for t in self.results[call]}
        storage = min(shown)
        is_view = self.maker[storage] != call and not self.is_constant[storage]
        if len(shown) > 1 or not is_view or self.workspace[call]:
            return NO_CALL
        return int(self.maker[storage])

    def _bind_views(self, call: int) -> None:
        """Note what the storages that a call shows need to be made again: or that they cannot."""
        owner = self.owner[call]
        if owner == NO_CALL:
            for t in self.results[call]:
                maker = self.maker[self.storage[t]]
                if maker != call:
                    self.can_repeat[maker] = False
            return
        self.cost[owner] += self.cost[call]
        later = {s for s in self.sources[call] if self.maker[s] > owner}
        if later or not self.can_repeat[call]:
            self.can_repeat[owner] = False
        self.sources[owner] |= {s for s in self.sources[call] if self.maker[s] < owner}

    def _place(self) -> None:
        """Make a node of each call that is not folded, and place the views between them."""
        waiting: list[int] = []
        for call, owner in enumerate(self.owner):
            if owner != NO_CALL:
                waiting.append(call)
                continue
            made = {self.storage[t] for t in self.results[call] if self._is_root(t)}
            if any(self.is_constant[s] for s in made):
                continue
            node = Node(
                call,
                self.sources[call],
                self.own_sources[call],
                self.cost[call],
                self.workspace[call],
                self.can_repeat[call],
                makes=made,
            )
            self._place_views(waiting, node.reads)
            waiting = []
            self.nodes.append(node)
        self._place_views(waiting, self.outputs)
        if self.outputs:
            self.nodes.append(Node(NO_CALL, self.outputs, self.outputs))

    def _is_root(self, tensor: int) -> bool:
        return bool(self.root[self.storage[tensor]] == tensor)

    def _place_views(self, views: list[int], read_next: set[int]) -> None:
        """Place the views between two nodes where what they read is there anyway, or by a mark.

        They stay in order: the first go with the node before, the last with the node after.
        """
        first_late = len(views)
        while first_late and self.sources[views[first_late - 1]] <= read_next:
            first_late -= 1
        for call in views[:first_late]:
            before = self.nodes[-1]
            if not self.sources[call] <= before.reads | before.makes:
                self.nodes.append(Node(call, self.sources[call], self.sources[call], is_mark=True))
            self.views.append(View(call, self.owner[call], len(self.nodes) - 1, False))
        for call in views[first_late:]:
            self.views.append(View(call, self.owner[call], len(self.nodes), True))
