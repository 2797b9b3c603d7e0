"""Which event of a Kineto trace is which operator of an execution trace.

By record-function ids, where the Kineto trace has them; else by the order of names, thread by
thread. Short runs of operators may be missing on either side. What the match tells is in
``kineto_join.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from .et_nodes import Node
from .kineto import Profile

Int64 = NDArray[np.int64]

MIN_SHARE = 0.9  # of the operators must be found, or the two are of different runs
LOOK_AHEAD = 64  # operators that may be missing in one place
NONE = -1


class Match(NamedTuple):
    """Where operators are in a profile.

    Attributes
    ----------
    how : str
        ``record-function id`` or ``order``.
    rows : ndarray of int64, shape (occurrences, nodes)
        For each time that the run occurs in the profile, and each node: the row of its event, or
        -1. A profile of forty steps may hold the one step of an execution trace forty times.
    """

    how: str
    rows: Int64


def match(nodes: Sequence[Node], profile: Profile) -> Match:
    """Find nodes among the operators of a profile.

    Parameters
    ----------
    nodes : sequence of Node
        With a schema, by id.
    profile : Profile

    Returns
    -------
    Match

    Raises
    ------
    TraceError
        Less than nine in ten are found: another run's.
    """
    columns = profile.operators.arrays()
    numbers = [profile.names.get(node.name, NONE) for node in nodes]
    names = np.array(numbers, np.int64)
    if len(profile.operators) and int(columns["record"].max(initial=NONE)) > 0:
        how, rows = "record-function id", _by_record(nodes, names, columns)
    else:
        how, rows = "order", _by_order(nodes, names, columns)
    found = int((rows[-1] != NONE).sum())
    if found < MIN_SHARE * max(len(nodes), 1):
        share = f"{found:,} of {len(nodes):,} operators of the execution trace are found by {how}"
        raise TraceError(f"not the Kineto trace of the same run: {share}", profile.where)
    return Match(how, rows)


def _by_record(nodes: Sequence[Node], names: Int64, columns: dict[str, Int64]) -> Int64:
    """Match by record-function id; the name must be the same."""
    order = np.argsort(columns["record"], kind="stable")
    records = columns["record"][order]
    wanted = np.array([min(node.rf_id, 2**62) for node in nodes], np.int64)
    places = np.minimum(np.searchsorted(records, wanted), len(records) - 1)
    rows = order[places]
    is_same = (records[places] == wanted) & (columns["name"][rows] == names)
    return np.where(is_same, rows, NONE)[None, :]


def _by_order(nodes: Sequence[Node], names: Int64, columns: dict[str, Int64]) -> Int64:
    """Match each thread of the execution trace with the thread of the profile that fits best."""
    tids = np.array([node.tid for node in nodes], np.int64)
    threads = _threads(columns)
    parts: list[tuple[Int64, Int64]] = []
    for tid in np.unique(tids):
        mine = np.flatnonzero(tids == tid)
        found = [_occurrences(names[mine], rows, columns["name"]) for rows in threads]
        if found:
            parts.append((mine, max(found, key=lambda rows: int((rows[-1] != NONE).sum()))))
    n_times = min((len(rows) for _, rows in parts), default=1)
    matched = np.full((n_times, len(nodes)), NONE, np.int64)
    for mine, rows in parts:
        matched[:, mine] = rows[-n_times:]
    return matched


def _threads(columns: dict[str, Int64]) -> list[Int64]:
    """Give the rows of each thread in the order in which its operators began."""
    index = columns["index"]
    if len(index) and int(index.min()) >= 0:
        order = np.lexsort((index, columns["thread"]))
    else:
        order = np.lexsort((-columns["duration_ns"], columns["start_ns"], columns["thread"]))
    borders = np.flatnonzero(np.diff(columns["thread"][order])) + 1
    return [rows for rows in np.split(order, borders) if len(rows)]


def _occurrences(names: Int64, rows: Int64, names_of_rows: Int64) -> Int64:
    """Find where a sequence of names occurs: whole, as often as it does, or else with gaps."""
    there = names_of_rows[rows].astype("<i4")
    needle, hay = names.astype("<i4").tobytes(), there.tobytes()
    starts, begin = [], hay.find(needle)
    while begin >= 0:
        if begin % 4 == 0:
            starts.append(begin // 4)
            begin = hay.find(needle, begin + len(needle))
        else:
            begin = hay.find(needle, begin + 1)
    if starts:
        return np.stack([rows[start : start + len(names)] for start in starts])
    aligned = _align(names.tolist(), there.tolist())
    found = np.array(aligned, np.int64)
    return np.where(found == NONE, NONE, rows[np.maximum(found, 0)])[None, :]


def _align(wanted: list[int], there: list[int]) -> list[int]:
    """Match two sequences in order, passing over short runs that are in one of them only."""
    found, place = [NONE] * len(wanted), 0
    k = 0
    while k < len(wanted) and place < len(there):
        if wanted[k] == there[place]:
            found[k] = place
            k, place = k + 1, place + 1
            continue
        skip_there, skip_wanted = _shortest_skip(wanted, k, there, place)
        k, place = k + skip_wanted, place + skip_there
    return found


def _shortest_skip(wanted: list[int], k: int, there: list[int], place: int) -> tuple[int, int]:
    """Say how much to pass over on which side until names agree again."""
    for distance in range(1, LOOK_AHEAD):
        if place + distance < len(there) and there[place + distance] == wanted[k]:
            return distance, 0
        if k + distance < len(wanted) and wanted[k + distance] == there[place]:
            return 0, distance
    return 1, 1
