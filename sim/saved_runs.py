"""What a saved run has to be: whatever something is looked up by later, or that is added up.

A file may be damaged, or written by another program; nothing that reads a run checks this again.
"""

from __future__ import annotations

import dataclasses
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError
from .opcodes import ACTIONS, OK, RECOMPUTE, STATUSES, STREAMS
from .result import (
    CATEGORIES,
    COLUMNS,
    EVENT_COLUMNS,
    LATER_COLUMNS,
    LATER_EVENT_COLUMNS,
    RUN_FORMAT,
    STORAGE_COLUMNS,
    LiveSet,
    RunResult,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST = 2**63 - 1  # bytes, nanoseconds, numbers
KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "str": (str,), "None": (type(None),),
}  # fmt: skip
TEXTS = ("name", "category", "module", "operator")


class Damage(Exception):  # noqa: N818
    """Something that a saved run cannot say."""


def read_run(path: str | Path) -> dict[str, Any]:
    """Read and check what `RunResult.save` wrote; give the fields of the result.

    Raises
    ------
    InputError
        If the file is not a saved run, or is damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            head = json.loads(bytes(stored["head"]).decode())
            if head.get("format") != RUN_FORMAT:
                raise InputError(f"{path}: format {head.get('format')!r}: expected {RUN_FORMAT!r}")
            events, storages = _arrays(stored)
        row = {name: head["row"][name] for name in COLUMNS if name not in LATER_COLUMNS}
        row |= {name: head["row"].get(name) for name in LATER_COLUMNS}
        check_row(row, {f.name: str(f.type) for f in dataclasses.fields(RunResult)})
        check_log(events, storages, row["calls"])
        live = {name: _live_set(head[name]) for name in ("live_at_peak", "live_at_oom")}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except InputError:
        raise
    except Damage as error:
        raise InputError(f"{path}: not a saved run, or damaged: {error}") from None
    except (OSError, KeyError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile,
            zlib.error, RuntimeError) as error:  # fmt: skip
        raise InputError(f"{path}: not a saved run, or damaged ({type(error).__name__})") from None
    return {**row, **live, "events": events, "storages": storages}


def _arrays(stored: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the event log, with what older files lack, and the table of storages."""
    there = [c for c in EVENT_COLUMNS if c not in LATER_EVENT_COLUMNS or f"events.{c}" in stored]
    events = {c: stored[f"events.{c}"] for c in there}
    missing = np.full(events["action"].shape, -1, np.int64)
    events = {c: events.get(c, missing) for c in EVENT_COLUMNS}
    return events, {c: stored[f"storages.{c}"] for c in STORAGE_COLUMNS}


def _live_set(stored: Any) -> LiveSet | None:
    """Read what was in memory at a moment."""
    if stored is None:
        return None
    is_table = isinstance(stored, dict) and isinstance(stored.get("categories"), dict)
    locked = stored.get("locked") if is_table else None
    pairs = list(stored["categories"].items()) if is_table else []
    pairs += locked if isinstance(locked, list) else [None]
    if not all(_is_counted(pair) for pair in pairs):
        raise Damage("what was in memory at a moment: it is names with bytes")
    return LiveSet(stored["categories"], [(name, count) for name, count in stored["locked"]])


def check_row(row: Mapping[str, Any], types: Mapping[str, str]) -> None:
    """Check the columns of a row.

    Parameters
    ----------
    row : mapping
    types : mapping
        What each column may be, as ``int | None``.

    Raises
    ------
    Damage
        If one is of another kind, or out of range.
    """
    for name, value in row.items():
        kinds = [kind for word in types[name].split(" | ") for kind in KINDS[word]]
        is_of_kind = isinstance(value, tuple(kinds)) and not isinstance(value, bool)
        if not is_of_kind:
            raise Damage(f"{name} ({value!r:.60}): it is {types[name].replace(' | ', ' or ')}")
        if isinstance(value, int) and not 0 <= value <= MOST:
            raise Damage(f"{name} ({value}): it is from 0 to 2^63 - 1")
        if isinstance(value, float) and not isfinite(value):
            raise Damage(f"{name} ({value}): it is finite")
    if row["status"] not in STATUSES:
        raise Damage(f"status ({row['status']!r:.60}): it is one of {', '.join(STATUSES)}")
    if (row["status"] == STATUSES[OK]) != ((row["slowdown"] or 0) >= 1):
        raise Damage(f"slowdown ({row['slowdown']}): at least 1 where a run ended ok, else none")


def check_log(
    events: Mapping[str, NDArray[Any]], storages: Mapping[str, NDArray[Any]], calls: int | None
) -> None:
    """Check an event log and the table of its storages.

    Raises
    ------
    Damage
        If a column is no column of numbers, is longer than others, or has a number of a storage, a
        call or an action that does not exist.
    """
    _check_lengths("the event log", events)
    _check_lengths("the table of storages", storages)
    limits = dict(_limits(len(storages["name"]), MOST if calls is None else calls))
    for name, column in (*events.items(), ("bytes", storages["bytes"])):
        if column.dtype.kind not in ("f" if name == "score" else "iu"):
            raise Damage(f"{name} of a log: no numbers, but {column.dtype}")
        if name == "score":  # may be infinite, or none
            continue
        low, high = limits.get(name, (0, MOST))
        wrong = np.flatnonzero((column < low) | (column > high))
        if len(wrong):
            raise Damage(f"row {wrong[0]}: {name} ({column[wrong[0]]}): it is from {low} to {high}")
    if len(wrong := np.flatnonzero((events["action"] == RECOMPUTE) & (events["call"] < 0))):
        raise Damage(f"row {wrong[0]}: call (-1): what is computed again has one")
    for name in TEXTS:
        if storages[name].dtype.kind != "U":
            raise Damage(f"{name} of storages: no texts, but {storages[name].dtype}")
    if unknown := set(storages["category"].tolist()) - set(CATEGORIES):
        raise Damage(f"category ({min(unknown)!r:.60}): it is one of {', '.join(CATEGORIES)}")


def _is_counted(pair: Any) -> bool:
    """Say whether it is a name and bytes."""
    if not isinstance(pair, list | tuple) or len(pair) != len(("name", "bytes")):
        return False
    name, count = pair
    is_count = isinstance(count, int) and not isinstance(count, bool)
    return isinstance(name, str) and is_count and 0 <= count <= MOST


def _check_lengths(what: str, columns: Mapping[str, NDArray[Any]]) -> None:
    """Check that columns have as many rows as the first of them."""
    length = next(iter(columns.values())).size
    for name, column in columns.items():
        if column.shape != (length,):
            raise Damage(f"{what}: {name} has the shape {column.shape}, others ({length},)")


def _limits(storages: int, calls: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Give the least and the greatest number of columns that are not just counts."""
    yield "storage", (-1, storages - 1)
    yield "action", (0, len(ACTIONS) - 1)
    yield "stream", (0, len(STREAMS) - 1)
    for name in ("call", "cause_call"):
        yield name, (-1, calls - 1)
    for name in ("tensor", "address", "instruction"):
        yield name, (-1, MOST)
