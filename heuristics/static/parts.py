"""A part of a schedule, as its constraint program sees it: from an order of nodes and back."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from ...static_graph import StaticGraph
from .part_program import ALWAYS, MAKES, READS, Part
from .stages import links_of


class Layout:
    """The computations that stay, and between them places where free nodes may run again.

    Parameters
    ----------
    graph : StaticGraph
    order : sequence of int
        The nodes that the schedule computes.
    free : collection of int
        Whose repeats are free; all may be computed again.

    Attributes
    ----------
    stays : list of int
        The order without repeats of free nodes.
    events : list of (int, int)
        Optional ones: before which of those that stay, and which node.
    """

    def __init__(self, graph: StaticGraph, order: Sequence[int], free: Collection[int]) -> None:
        self.graph, self.links = graph, links_of(graph)
        self.stays: list[int] = []
        known, fresh = [], 0
        for node in order:
            if node != fresh and node in free:
                known.append((len(self.stays), node))
                continue
            fresh += node == fresh
            self.stays.append(node)
        made, reads, _ = self.links
        self.is_tracked = [False] * graph.n_values
        for node in free:
            for value in (*made[node], *reads[node]):
                self.is_tracked[value] = True
        self.events = sorted(self._places(free, known))
        number = {event: i for i, event in enumerate(self.events)}
        self.known = sorted({number[event] for event in known})

    def _places(
        self, free: Collection[int], known: list[tuple[int, int]]
    ) -> Iterator[tuple[int, int]]:
        """Give where free nodes may run: as they do, or just before somebody may read of them."""
        _, reads, producer = self.links
        first: dict[int, int] = {}
        places: dict[int, set[int]] = {node: set() for node in free}
        for at, node in known:
            places[node].add(at)
        for at, node in enumerate(self.stays):
            first.setdefault(node, at)
            for value in reads[node]:
                if producer[value] in places:
                    places[producer[value]].add(at)
        for node in sorted(free, reverse=True):
            after = {at for at in places[node] if at > first[node]}
            for value in reads[node]:
                if producer[value] in places:
                    places[producer[value]] |= after
            yield from ((at, node) for at in after)

    def part(self, budget: int) -> Part:
        """Make the part's problem."""
        graph, (made, reads, _) = self.graph, self.links
        size, workspace = graph.size.tolist(), graph.workspace.tolist()
        lives: dict[int, list[tuple[int, int, int]]] = {}
        rooms: list[tuple[int, int, int, int]] = []

        def happen(node: int, number: int) -> bool:
            """Note what a node reads and makes now; say whether any of that is tracked."""
            is_noted = False
            for what, values in ((READS, reads[node]), (MAKES, made[node])):
                for value in values:
                    if self.is_tracked[value]:
                        lives.setdefault(value, []).append((time, what, number))
                        is_noted = True
            return is_noted

        before, during = self._untracked(budget)
        time, at_next = 0, 0
        for at, node in enumerate(self.stays):
            while at_next < len(self.events) and self.events[at_next][0] == at:
                again = self.events[at_next][1]
                time += 1
                happen(again, at_next)
                takes = workspace[again] + sum(size[value] for value in made[again])
                rooms.append((time, before[at], at_next, takes))
                at_next += 1
            time += 1
            is_noted = happen(node, ALWAYS)
            takes = sum(size[value] for value in made[node] if self.is_tracked[value])
            rooms.append((time, during[at] - takes, ALWAYS, int(is_noted)))
        values = sorted(lives)
        costs = graph.cost.tolist()
        return _scaled(
            Part(
                cost=[costs[node] for _, node in self.events],
                lives=[_until_read(lives[value]) for value in values],
                size=[size[value] for value in values],
                rooms=_tightest(rooms),
                known=self.known,
            )
        )

    def _untracked(self, budget: int) -> tuple[list[int], list[int]]:
        """Give what is left of the budget before, and while, each of those that stay runs.

        Of it goes what is not tracked.
        """
        graph, (made, reads, _) = self.graph, self.links
        size, workspace = graph.size.tolist(), graph.workspace.tolist()
        wanted = list(self.is_tracked)  # those are not counted, as if they were there
        left = budget - graph.fixed_bytes
        before, during = [0] * len(self.stays), [0] * len(self.stays)
        for at in range(len(self.stays) - 1, -1, -1):
            node, makes = self.stays[at], 0
            for value in made[node]:
                if not self.is_tracked[value]:
                    makes += size[value]
                    left += size[value] * wanted[value]
                    wanted[value] = False
            for value in reads[node]:
                if not wanted[value]:
                    wanted[value] = True
                    left -= size[value]
            before[at], during[at] = left, left - makes - workspace[node]
        return before, during

    def order(self, events: Sequence[int]) -> list[int]:
        """Give the order of computations if some optional events happen."""
        found: list[int] = []
        chosen = [self.events[number] for number in sorted(events)]
        place = 0
        for at, node in enumerate(self.stays):
            while place < len(chosen) and chosen[place][0] == at:
                found.append(chosen[place][1])
                place += 1
            found.append(node)
        return found


def _until_read(life: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Leave out what comes after a value's last read."""
    last = max((i for i, event in enumerate(life) if event[1] == READS), default=0)
    return life[: last + 1]


def _tightest(rooms: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Of times in a row at which nothing tracked happens, keep the one with the least room."""
    found: list[tuple[int, int, int, int]] = []
    was_quiet = False
    for time, room, number, takes in rooms:
        is_quiet = number == ALWAYS and not takes
        if is_quiet and was_quiet:
            if room < found[-1][1]:
                found[-1] = time, room, ALWAYS, 0
        else:
            found.append((time, room, number, 0 if number == ALWAYS else takes))
        was_quiet = is_quiet
    return found


def _scaled(part: Part) -> Part:
    """Divide sizes, and costs, by what they have in common."""
    takes = [taken for _, _, number, taken in part.rooms if number != ALWAYS]
    unit = math.gcd(*part.size, *takes) or 1
    cost_unit = math.gcd(*part.cost) or 1
    return Part(
        cost=[cost // cost_unit for cost in part.cost],
        lives=part.lives,
        size=[size // unit for size in part.size],
        rooms=[(t, room // unit, number, taken // unit) for t, room, number, taken in part.rooms],
        known=part.known,
    )
