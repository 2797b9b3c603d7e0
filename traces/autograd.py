"""Ask autograd where it is: whether its engine runs, for which node, and whether it recomputes.

Needs torch, so only the modules of a capture import it. The names of torch that it uses are not
public; where one is absent, the import fails and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_NO_NODE = 2**63  # numbers above belong to nodes without a forward call, such as AccumulateGrad

graph_task: Callable[[], int]
next_node: Callable[[], int]
_running_node: Callable[[], Any]

try:
    graph_task = torch._C._current_graph_task_id
    next_node = torch._C._autograd._get_sequence_nr
    _running_node = torch._C._current_autograd_node
except AttributeError as error:  # pragma: no cover (no such torch is known)
    raise ImportError(f"torch {torch.__version__} lacks {error.name}; 2.13 has it") from None


class Engine:
    """The state of autograd's engine as of the last look.

    Attributes
    ----------
    is_running : bool
        Whether a backward pass runs.
    task : int
        The number of the innermost backward pass; -1: none runs.
    is_building : bool
        Whether gradients are on: what is computed becomes part of a graph.
    is_recomputing : bool
        Whether it is computing forward operators again, as activation checkpointing does: a
        backward pass without ``create_graph`` makes a graph in the middle.
    """

    def __init__(self) -> None:
        self.is_running = self.is_recomputing = False
        self.task = -1
        self.is_building = True
        self._builds_graph: dict[int, bool] = {}

    def look(self, task: int, is_building: bool) -> bool:
        """Take in another state than before; say whether a backward pass has begun since then.

        Parameters
        ----------
        task : int
            What ``graph_task`` says.
        is_building : bool
            Whether gradients are on.
        """
        self.task, self.is_building = task, is_building
        if task == -1:
            self.is_running = self.is_recomputing = False
            return False
        has_begun = not self.is_running
        self.is_running = True
        if task not in self._builds_graph:
            name = _name(_running_node()) if is_building else ""
            self._builds_graph[task] = is_building and "Checkpoint" not in name
        self.is_recomputing = is_building and not self._builds_graph[task]
        return has_begun

    def node(self) -> int:
        """Return the number of the node that is being made, or that runs; -1 if it has none."""
        if not self.is_running or self.is_recomputing:
            return next_node() - 1
        node = _running_node()
        number = -1 if node is None else int(node._sequence_nr())
        return number if number < _NO_NODE else -1


def _name(node: Any) -> str:
    return "" if node is None else str(node.name())
