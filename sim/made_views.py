"""Where in a schedule folded views are made: first at their own places, later as they are needed.

A node that is computed again makes those of its views again that went with a storage, if something
reads them before that goes. A plan does just this (``plan.py``), so it is what time depends on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .schedules import COMPUTE, FREE, Schedule

if TYPE_CHECKING:
    from .static_graph import StaticGraph

Step = tuple[int, int]


def with_views(graph: StaticGraph, schedule: Schedule) -> list[Step]:
    """Give a schedule's actions and targets, and among them where views are made.

    What comes after the last node is left out if there are outputs: they stay.

    Parameters
    ----------
    graph : StaticGraph
    schedule : Schedule
        A legal one.

    Returns
    -------
    list of (int, int)
        Of n nodes and views, view i is made where ``n + i`` is computed.
    """
    making = _Making(graph)
    making.follow(schedule)
    return making.needed() if len(graph.view_call) else making.done


class _Making:
    """Follows a schedule and keeps which views have been made, and which have gone."""

    def __init__(self, graph: StaticGraph) -> None:
        self.graph, self.n_nodes = graph, graph.n_nodes
        self.views_of: dict[int, list[int]] = {}  # node -> its views, in trace order
        self.first_made: dict[tuple[int, bool], list[int]] = {}
        places = zip(
            graph.view_node.tolist(),
            graph.view_place.tolist(),
            graph.view_is_before.tolist(),
            strict=True,
        )
        for view, (node, place, is_before) in enumerate(places):
            self.views_of.setdefault(node, []).append(view)
            self.first_made.setdefault((place, is_before), []).append(view)
        self.shows: list[int] = graph.view_value.tolist()
        self.gone: set[int] = set()  # values dropped; their views have to be made again
        self.made: set[int] = set()  # views made before
        self.done: list[Step] = []
        self.may_go: set[int] = set()  # places in ``done`` that may be left out

    def follow(self, schedule: Schedule) -> None:
        """Make all views that could be wanted."""
        fresh = 0
        end = self.n_nodes if self.graph.has_outputs else -1
        for action, target in zip(schedule.action.tolist(), schedule.target.tolist(), strict=True):
            if fresh == end:
                break
            if action != COMPUTE:
                if action == FREE:
                    self.gone.add(target)
                self.done.append((action, target))
            elif target == fresh:
                self._first(target)
                fresh += 1
            else:
                self._again(target)

    def _first(self, node: int) -> None:
        """Compute a node for the first time, with the views that are first made beside it."""
        for is_before in (True, False):
            for view in self.first_made.get((node, is_before), ()):
                self.done.append((COMPUTE, self.n_nodes + view))
                self.made.add(view)
            if is_before:
                self.done.append((COMPUTE, node))

    def _again(self, node: int) -> None:
        """Compute a node again, and those of its views that went with a storage."""
        self.done.append((COMPUTE, node))
        for view in self.views_of.get(node, ()):
            if view in self.made and self.shows[view] in self.gone:
                self.may_go.add(len(self.done))
                self.done.append((COMPUTE, self.n_nodes + view))
        self.gone.difference_update(self.graph.values(node))

    def needed(self) -> list[Step]:
        """Leave out the views made again that nothing reads before they go; seen from the end."""
        wanted: dict[int, set[int]] = {}  # value -> its views that are read later
        kept: list[Step] = []
        for place in range(len(self.done) - 1, -1, -1):
            action, target = self.done[place]
            if action == FREE:
                wanted.pop(target, None)
            elif action == COMPUTE:
                view = target - self.n_nodes
                if view >= 0:
                    asked = wanted.get(self.shows[view], set())
                    if place in self.may_go and view not in asked:
                        continue
                    asked.discard(view)
                for read in self.graph.views_read[target]:
                    wanted.setdefault(self.shows[read], set()).add(read)
            kept.append((action, target))
        return kept[::-1]
