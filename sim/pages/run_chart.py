"""The event log of a run as the page's scripts take it: columns, and names beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.stays import stays
from ..opcodes import ACTIONS
from ..result import CATEGORIES
from ..story import NONE
from .content import shown
from .packing import floats, places

if TYPE_CHECKING:
    from ..story import Story


class CallNames:
    """Names of the calls of a run, each once.

    Attributes
    ----------
    texts : list of str
        Of the calls that ran, by number.
    """

    def __init__(self, story: Story) -> None:
        self._calls = np.unique(np.array([step.call for step in story.steps], np.int64))
        self.texts = [shown(story.name_of(call)) for call in self._calls.tolist()]

    def places_of(self, calls: Any) -> np.ndarray:
        """Give the places of calls in the texts; -1 for none, or one that never ran."""
        calls = np.asarray(calls, np.int64)
        if not len(self._calls):
            return places(np.full(len(calls), NONE))
        found = np.minimum(np.searchsorted(self._calls, calls), len(self._calls) - 1)
        return places(np.where(self._calls[found] == calls, found, NONE))


def chart(story: Story, names: CallNames, storages: list[str]) -> dict[str, Any]:
    """Lay out what the page draws of a run, and looks up where it is asked."""
    events, table = story.events, story.storages
    placed = np.zeros(len(story.memory), np.uint8)
    placed[story.placements] = 1
    modules, module_texts = _coded(table["module"])
    operators, operator_texts = _coded(table["operator"])
    return {
        "budget": story.result.budget_bytes,
        "peak_row": story.peak_row,
        "end_ns": int(events["end_ns"].max(initial=0)),
        "categories": list(CATEGORIES),
        "actions": list(ACTIONS),
        "rows": {
            "time": floats(story.moments),
            "memory": floats(story.memory),
            "storage": places(events["storage"]),
            "action": np.asarray(events["action"], np.uint8),
            "placed": placed,
        },
        "storages": {
            "bytes": floats(table["bytes"]),
            "category": category_codes(story),
            "module": modules,
            "operator": operators,
            "names": storages,
            "modules": module_texts,
            "operators": operator_texts,
        },
        "steps": _steps(story, names),
        "calls": names.texts,
        "stays": _stays(story),
    }


def _steps(story: Story, names: CallNames) -> dict[str, Any]:
    """Lay out which call ran when, and what it needed only while it ran."""
    steps = story.steps
    return {
        "first": places([step.first_row for step in steps]),
        "last": places([step.last_row for step in steps]),
        "call": names.places_of([step.call for step in steps]),
        "end": floats([step.end_ns for step in steps]),
        "again": np.array([step.is_again for step in steps], np.uint8),
        "workspace": floats([story.workspace_of(step) for step in steps]),
    }


def _stays(story: Story) -> dict[str, Any] | None:
    """Lay out who lay where, and when; nothing where memory has no addresses."""
    events = story.events
    if not (np.asarray(events["address"]) >= 0).any():
        return None
    found = list(stays(events))
    return {
        "start": floats([stay.start for stay in found]),
        "end": floats([stay.end for stay in found]),
        "address": floats([stay.address for stay in found]),
        "size": floats([stay.size for stay in found]),
        "storage": places([stay.storage for stay in found]),
    }


def _coded(texts: Any) -> tuple[np.ndarray, list[str]]:
    """Give texts as places in those that differ."""
    different, codes = np.unique(np.asarray(texts, dtype=np.str_), return_inverse=True)
    return places(codes), list(map(shown, different.tolist()))


def category_codes(story: Story) -> np.ndarray:
    """Give each storage's category as a place in `CATEGORIES`."""
    known = {name: code for code, name in enumerate(CATEGORIES)}
    return np.array([known[str(name)] for name in story.storages["category"]], np.uint8)
