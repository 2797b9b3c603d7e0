"""Why calls ran again: who read what they made, and what bringing a storage back took in all."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np

from .opcodes import DROP_DUPLICATE, EVICT
from .story import NONE, Step, Story

MANY = 10**9


class Causes:
    """For each step of a run that computes again, the first later step that reads what it made.

    Parameters
    ----------
    story : Story
        With the trace, which says what calls read. Without it the cause of a recomputation in an
        online run is the model's call that ran next, and of one in a plan it is not known.
    """

    def __init__(self, story: Story) -> None:
        self.story = story

    @cached_property
    def readers(self) -> list[int]:
        """By step: the number of the step that reads its results first, or -1."""
        if self.story.program is None:
            return self._next_of_model()
        program, steps = self.story.program, self.story.steps
        calls, parents = program.calls, program.parents.tolist()
        spans = ("first_result", "end_result", "first_parent", "end_parent")
        columns = [calls[name].tolist() for name in spans]
        tensors = self.story.events["tensor"]
        numbers = program.tensors["call"][tensors[self.story.first_rows]].tolist()
        copies = self._second_copies()
        next_reader: dict[int, int] = {}
        readers = [NONE] * len(steps)
        for number in range(len(steps) - 1, NONE, -1):
            first, end, first_parent, end_parent = (c[numbers[number]] for c in columns)
            made = [t for t in range(first, end) if (number, t) not in copies]
            found = min((next_reader.pop(t, MANY) for t in made), default=MANY)
            readers[number] = NONE if found == MANY else found
            for t in parents[first_parent:end_parent]:
                next_reader[t] = number
        return readers

    def _second_copies(self) -> set[tuple[int, int]]:
        """Find steps with tensors that were there already: their readers have the first ones."""
        rows = np.flatnonzero(self.story.events["action"] == DROP_DUPLICATE)
        numbers = np.searchsorted(self.story.first_rows, rows, "right") - 1
        tensors = self.story.events["tensor"][rows]
        return set(zip(numbers.tolist(), tensors.tolist(), strict=True))

    def _next_of_model(self) -> list[int]:
        readers = [NONE] * len(self.story.steps)
        following = NONE
        is_known = self.story.result.kind == "online"
        for number in range(len(readers) - 1, NONE, -1):
            if self.story.steps[number].is_again:
                readers[number] = following if is_known else NONE
            else:
                following = number
        return readers

    def chain(self, number: int) -> list[Step]:
        """Give the steps that a recomputation was for: its reader, and on to the model's call.

        Empty where nothing read it: an output, which has to be there at the end.
        """
        steps, found = self.story.steps, []
        while steps[number].is_again and self.readers[number] != NONE:
            number = self.readers[number]
            found.append(steps[number])
        return found

    @cached_property
    def in_all_ns(self) -> list[int]:
        """By step: its time, and that of all recomputations that were made for it only.

        A recomputation counts for the first that reads it, and so on along the chain.
        """
        steps = self.story.steps
        totals = [step.cost_ns for step in steps]
        if self.story.program is None:
            return totals
        for number, step in enumerate(steps):  # a reader comes after what it reads
            if step.is_again and self.readers[number] != NONE:
                totals[self.readers[number]] += totals[number]
        return totals

    @cached_property
    def returns(self) -> dict[int, list[tuple[int, int]]]:
        """By storage: steps that brought it back, with the row of the eviction before, or -1.

        Only evictions for lack of memory (in a plan: for now) are evictions here; -1 where the
        program had let go of it.
        """
        events, story = self.story.events, self.story
        placed = set(story.placements.tolist())
        evicted: dict[int, int] = {}
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        seen: set[int] = set()
        actions, storages = events["action"].tolist(), events["storage"].tolist()
        numbers = (np.searchsorted(story.first_rows, np.arange(len(actions)), "right") - 1).tolist()
        for row, (action, storage) in enumerate(zip(actions, storages, strict=True)):
            if row in placed:
                if storage in seen:
                    found[storage].append((numbers[row], evicted.pop(storage, NONE)))
                seen.add(storage)
            elif action == EVICT:
                evicted[storage] = row
        return dict(found)
