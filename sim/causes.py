"""Why calls ran again: who read what they made, and what bringing a storage back took in all."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np

from .opcodes import BANISH_STORAGE, DEALLOCATE, DROP_DUPLICATE, EVICT, TAKE_OVER
from .story import NONE, Step, Story

DROPS = (EVICT, DEALLOCATE, BANISH_STORAGE)


class Causes:
    """For each step of a run that computes again, the later steps that read what it made.

    Parameters
    ----------
    story : Story
        With the trace, which says what calls read. Without it the cause of a recomputation in an
        online run is the model's call that ran next, and of one in a plan it is not known.
    """

    def __init__(self, story: Story) -> None:
        self.story = story
        self._read: list[set[int]] = [set() for _ in story.steps]  # filled with the readers

    @cached_property
    def readers(self) -> list[list[int]]:
        """By step: the numbers of the steps that read its results, in order; -1 for an output.

        Of a result that was there already the first copy is read, not the second.
        """
        if self.story.program is None:
            return self._next_of_model()
        program, steps = self.story.program, self.story.steps
        calls, parents = program.calls, program.parents.tolist()
        spans = ("first_result", "end_result", "first_parent", "end_parent")
        columns = [calls[name].tolist() for name in spans]
        tensors = self.story.events["tensor"]
        numbers = program.tensors["call"][tensors[self.story.first_rows]].tolist()
        copies = self._second_copies()
        storages = program.tensors["storage"].tolist()
        waiting: dict[int, list[int]] = {t: [NONE] for t in program.outputs.tolist()}
        readers: list[list[int]] = [[] for _ in steps]
        for number in range(len(steps) - 1, NONE, -1):
            first, end, first_parent, end_parent = (c[numbers[number]] for c in columns)
            for t in range(first, end):
                if (number, t) not in copies and t in waiting:
                    readers[number] += waiting.pop(t)
                    self._read[number].add(storages[t])
            readers[number] = sorted(set(readers[number]), key=lambda n: (n == NONE, n))
            for t in parents[first_parent:end_parent]:
                waiting.setdefault(t, []).append(number)
        return readers

    def first_reader(self, number: int) -> int:
        """Give the step that reads a step's results first; -1 where none does."""
        return next(iter(self.readers[number]), NONE)

    def _second_copies(self) -> set[tuple[int, int]]:
        """Find steps with tensors that were there already: their readers have the first ones."""
        rows = np.flatnonzero(self.story.events["action"] == DROP_DUPLICATE)
        numbers = np.searchsorted(self.story.first_rows, rows, "right") - 1
        tensors = self.story.events["tensor"][rows]
        return set(zip(numbers.tolist(), tensors.tolist(), strict=True))

    def _next_of_model(self) -> list[list[int]]:
        readers: list[list[int]] = [[] for _ in self.story.steps]
        following = NONE
        for number in range(len(readers) - 1, NONE, -1):
            if not self.story.steps[number].is_again:
                following = number
            elif self.story.result.kind == "online":
                readers[number] = [following]
        return readers

    def chain(self, number: int) -> list[Step]:
        """Give the steps that a recomputation was for: its first reader, and on to the model's.

        Empty where nothing read it: an output, which has to be there at the end.
        """
        steps, found = self.story.steps, []
        while steps[number].is_again and self.first_reader(number) != NONE:
            number = self.first_reader(number)
            found.append(steps[number])
        return found

    @cached_property
    def needed_for(self) -> list[int]:
        """By step: the nearest recomputation without which it would not have been needed, or -1.

        Its dominator in the graph of who reads what: all that needs it needs that one first.
        """
        steps = self.story.steps
        above, depth = [NONE] * len(steps), [0] * (len(steps) + 1)  # depth[-1]: of none
        for number in range(len(steps) - 1, NONE, -1):
            if not steps[number].is_again:
                continue
            users = [n if n != NONE and steps[n].is_again else NONE for n in self.readers[number]]
            common = users[0] if users else NONE
            for user in users:
                common = _meeting(common, user, above, depth)
            above[number], depth[number] = common, depth[common] + 1
        return above

    @cached_property
    def in_all_ns(self) -> list[int]:
        """By step: its time, and that of all recomputations that were needed for it only."""
        totals = [step.cost_ns for step in self.story.steps]
        if self.story.program is not None:
            for number, above in enumerate(self.needed_for):  # comes after what it needs
                if above != NONE:
                    totals[above] += totals[number]
        return totals

    @cached_property
    def returns(self) -> dict[int, list[int]]:
        """By storage: the steps that brought it back."""
        found: dict[int, list[int]] = defaultdict(list)
        seen: set[int] = set()
        rows = self.story.placements
        numbers = np.searchsorted(self.story.first_rows, rows, "right") - 1
        placed = self.story.events["storage"][rows]
        for storage, number in zip(placed.tolist(), numbers.tolist(), strict=True):
            if storage in seen:
                found[storage].append(number)
            seen.add(storage)
        return dict(found)

    @cached_property
    def forced(self) -> dict[int, frozenset[int]]:
        """Steps that evictions for lack of memory (in a plan: for now) forced, by number.

        With the storages that would all have had to stay for a step not to be needed: those of its
        results that were read. A step is not here if the program had let go of one of them.
        """
        wanted = self._wanted()
        events = self.story.events
        rows = np.flatnonzero(np.isin(events["action"], (*DROPS, TAKE_OVER)))
        drops = zip(
            rows.tolist(),
            events["storage"][rows].tolist(),
            (events["action"][rows] == EVICT).tolist(),
            strict=True,
        )
        found: dict[int, frozenset[int]] = {}
        was_forced: dict[int, bool] = {}
        drop = next(drops, None)
        for number, step in enumerate(self.story.steps):
            while drop is not None and drop[0] < step.first_row:
                was_forced[drop[1]] = drop[2]
                drop = next(drops, None)
            is_forced = all(was_forced.get(storage) for storage in wanted[number])
            if step.is_again and wanted[number] and is_forced:
                found[number] = frozenset(wanted[number])
        return found

    def _wanted(self) -> list[set[int]]:
        """By step: the storages of its results that were read; without the trace all it placed."""
        if self.story.program is not None and self.readers:
            return self._read
        placed: list[set[int]] = [set() for _ in self.story.steps]
        for storage, numbers in self.returns.items():
            for number in numbers:
                placed[number].add(storage)
        return placed


def _meeting(one: int, other: int, above: list[int], depth: list[int]) -> int:
    """Go up from two steps, from the deeper one first, until both ways meet."""
    while one != other:
        if depth[one] >= depth[other]:
            one = above[one]
        else:
            other = above[other]
    return one
