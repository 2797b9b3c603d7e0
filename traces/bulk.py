"""Many events at once, in columns: the quick way into the tables of a TraceBuilder.

It checks the rules of ``builder.py`` with whole arrays and takes either all events or none: it
never says what is wrong, and refuses what is merely unusual too. Who is refused hands the events
over one by one, which is slower and names the culprit.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ..opcodes import BACKWARD, CALL, CONSTANT, COPY, COPY_FROM, PHASES, RELEASE, TAGS
from . import tables as columns
from .tables import NEVER, Tables
from .trace import MAX_VALUE

Ints = NDArray[np.int64]
NOT_BOUND = -1  # stands for the id of a name that is never bound


class Events(NamedTuple):
    """Events in order.

    ``codes`` and ``lines`` have an entry for each event, as in ``Trace.instructions``; the other
    columns have one for each event of their kind, in the same order.
    """

    codes: NDArray[Any]
    lines: NDArray[Any]
    constant_names: Sequence[str] = ()
    constant_bytes: Sequence[int] = ()
    operators: Sequence[str] = ()
    times_ns: Sequence[int] = ()
    workspace_bytes: Sequence[int] = ()
    phases: Sequence[int] = ()
    modules: Sequence[str] = ()
    forwards: Sequence[int] = ()
    tags: Sequence[int] = ()
    args: Sequence[Sequence[str]] = ()
    results: Sequence[Sequence[str]] = ()
    mutates: Sequence[Sequence[int]] = ()
    result_bytes: Sequence[int] = ()  # of the results of all calls, one after the other
    result_alias: Sequence[int] = ()
    copy_dst: Sequence[str] = ()
    copy_src: Sequence[str] = ()
    copy_from_dst: Sequence[str] = ()
    copy_from_src: Sequence[str] = ()
    released: Sequence[str] = ()


def accept(tables: Tables, events: Events) -> bool:
    """Append events to the tables of a builder.

    Parameters
    ----------
    tables : Tables
    events : Events

    Returns
    -------
    bool
        Whether they were taken; if not, the tables are as before.
    """
    known = len(tables.names)
    try:
        _Batch(tables, events).append()
    except (_RefusedError, KeyError, TypeError, OverflowError):
        while len(tables.names) > known:
            tables.names.popitem()
        return False
    return True


class _RefusedError(Exception):
    """Some event is illegal, or unusual."""


class _Batch:
    """Events on their way into the tables: their columns as integers, then as rows."""

    def __init__(self, tables: Tables, events: Events) -> None:
        self.tables, self.events = tables, events
        self.known = len(tables.names)
        self.at = [np.flatnonzero(events.codes == code) for code in range(BACKWARD + 1)]
        self.n_args = _lengths(events.args)
        self.n_results = _lengths(events.results)
        self.n_mutates = _lengths(events.mutates)
        self.rows = np.zeros((len(events.codes), 4), dtype=np.int64)
        self.rows[:, columns.CODE] = events.codes
        self.rows[:, columns.INSTRUCTION_LINE] = events.lines

    def append(self) -> None:
        """Check all events, then change the tables."""
        tables, at = self.tables, self.at
        constants = _amounts(self.events.constant_bytes)
        self.rows[at[CONSTANT], columns.SECOND] = tables.n_constants + np.arange(len(constants))
        self.rows[at[CALL], columns.FIRST] = tables.n_calls + np.arange(len(at[CALL]))
        result_ids, bound_at = self._bind()
        arg_ids, used, used_at = self._use()
        released, released_at = self._release()
        self._check_lives(bound_at, (used, used_at), (released, released_at))
        results, mutates, calls = self._results(result_ids), self._mutations(), self._calls()
        tables.instructions.add(self.rows[self.rows[:, columns.FIRST] >= 0])
        tables.constants.add(np.stack([constants, np.full(len(constants), -1)], axis=1))
        tables.calls.add(calls)
        tables.args.add(arg_ids)
        tables.results.add(results)
        tables.mutates.add(mutates)
        tables.n_constants += len(constants)
        tables.n_calls += len(calls)
        tables.released.extend(bytes(len(bound_at)))
        np.frombuffer(tables.released, dtype=np.uint8)[released] = 1

    def _bind(self) -> tuple[Ints, Ints]:
        """Give new names their ids.

        Returns
        -------
        result_ids : ndarray of int64
        bound_at : ndarray of int64
            For every new name, in order: which event binds it.
        """
        events, at = self.events, self.at
        new = [*events.constant_names, *chain.from_iterable(events.results), *events.copy_dst]
        places = np.concatenate([at[CONSTANT], np.repeat(at[CALL], self.n_results), at[COPY]])
        order = np.argsort(places, kind="stable")
        total = self.known + len(new)
        names = self.tables.names
        for _ in map(names.setdefault, [new[k] for k in order.tolist()], range(self.known, total)):
            pass
        _require(len(names) == total)
        ids = np.empty(len(order), dtype=np.int64)
        ids[order] = np.arange(self.known, total)
        n_constants, n_copies = len(at[CONSTANT]), len(at[COPY])
        self.rows[at[CONSTANT], columns.FIRST] = ids[:n_constants]
        self.rows[at[COPY], columns.FIRST] = ids[len(ids) - n_copies :]
        return ids[n_constants : len(ids) - n_copies], places[order]

    def _use(self) -> tuple[Ints, Ints, Ints]:
        """Give the ids of all operands; of every name used; and which event uses it."""
        events, at = self.events, self.at
        names = [
            chain.from_iterable(events.args),
            events.copy_src,
            events.copy_from_dst,
            events.copy_from_src,
        ]
        find = self.tables.names.__getitem__
        args, sources, targets, moved = (_integers(list(map(find, some))) for some in names)
        self.rows[at[COPY], columns.SECOND] = sources
        self.rows[at[COPY_FROM], columns.FIRST] = targets
        self.rows[at[COPY_FROM], columns.SECOND] = moved
        used_at = [np.repeat(at[CALL], self.n_args), at[COPY], at[COPY_FROM], at[COPY_FROM]]
        return args, np.concatenate([args, sources, targets, moved]), np.concatenate(used_at)

    def _release(self) -> tuple[Ints, Ints]:
        """Give the ids of the names released, and where; those never bound are ignored."""
        find, n_names = self.tables.names.get, len(self.events.released)
        ids = _integers(list(map(find, self.events.released, repeat(NOT_BOUND, n_names))))
        self.rows[self.at[RELEASE], columns.FIRST] = ids
        return ids[ids >= 0], self.at[RELEASE][ids >= 0]

    def _check_lives(
        self, bound_at: Ints, uses: tuple[Ints, Ints], releases: tuple[Ints, Ints]
    ) -> None:
        """Check that names are bound before they are used or released, and not released before."""
        (used, used_at), (released, released_at) = uses, releases
        ids, at = np.concatenate([used, released]), np.concatenate([used_at, released_at])
        old = ids < self.known
        _require(not np.frombuffer(self.tables.released, dtype=np.uint8)[ids[old]].any())
        _require((bound_at[ids[~old] - self.known] < at[~old]).all())
        dropped_at = self.tables.scratch()
        dropped_at[released] = released_at
        is_once = (dropped_at[released] == released_at).all()
        is_live = (used_at < dropped_at[used]).all()
        dropped_at[released] = NEVER
        _require(is_once and is_live)

    def _results(self, ids: Ints) -> Ints:
        """Make the rows of the results."""
        alias = _integers(self.events.result_alias)
        position = np.arange(len(ids)) - np.repeat(_starts(self.n_results), self.n_results)
        _require((alias < np.repeat(self.n_args, self.n_results)).all())
        _require((alias > -position - 2)[alias != -1].all())
        sizes = np.where(alias == -1, _amounts(self.events.result_bytes), 0)
        return np.stack([ids, sizes, alias, np.full(len(ids), -1)], axis=1)

    def _mutations(self) -> Ints:
        """Check the operands that calls mutate."""
        positions = _integers(list(chain.from_iterable(self.events.mutates)))
        n_args = np.repeat(self.n_args, self.n_mutates)
        _require(((positions >= 0) & (positions < n_args)).all())
        slots = np.repeat(_starts(self.n_args), self.n_mutates) + positions
        _require(len(np.unique(slots)) == len(slots))
        _require((self.n_results + self.n_mutates > 0).all())
        return positions

    def _calls(self) -> Ints:
        """Make the rows of the calls."""
        events, tables = self.events, self.tables
        phases, tags = _integers(events.phases), _integers(events.tags)
        forwards = _integers(events.forwards)
        times, workspaces = _amounts(events.times_ns), _amounts(events.workspace_bytes)
        _require(((phases >= 0) & (phases < len(PHASES))).all())
        _require(((tags >= 0) & (tags < 2 ** len(TAGS))).all())
        _require(((forwards >= -1) & (forwards < self.rows[self.at[CALL], columns.FIRST])).all())
        # Nothing is refused from here on.
        operators = _labels(tables.operators, events.operators, len(tables.operators))
        modules = _labels(tables.modules, events.modules, len(tables.modules) - 1)
        rows = np.empty((len(phases), columns.N_MUTATES + 1), dtype=np.int64)
        rows[:, columns.OPERATOR] = operators
        rows[:, columns.TIME] = times
        rows[:, columns.WORKSPACE] = workspaces
        rows[:, columns.MODULE] = modules
        rows[:, columns.PHASE] = phases
        rows[:, columns.FORWARD] = forwards
        rows[:, columns.TAGS] = tags
        rows[:, columns.CALL_LINE] = events.lines[self.at[CALL]]
        rows[:, columns.N_ARGS] = self.n_args
        rows[:, columns.N_RESULTS] = self.n_results
        rows[:, columns.N_MUTATES] = self.n_mutates
        return rows


def _require(condition: Any) -> None:
    """Refuse all events unless the condition holds."""
    if not condition:
        raise _RefusedError


def _integers(values: Sequence[int]) -> Ints:
    """Make an array; TypeError or OverflowError if a value is no 64-bit integer."""
    return np.frombuffer(array("q", values), dtype=np.int64)


def _amounts(values: Sequence[int]) -> Ints:
    """Make an array of sizes or of times."""
    amounts = _integers(values)
    _require(((amounts >= 0) & (amounts <= MAX_VALUE)).all())
    return amounts


def _labels(known: dict[str, int], texts: Sequence[str], following: int) -> Ints:
    """Give the numbers of operators or of modules; new ones get those that follow."""
    numbers = list(map(known.get, texts))
    if None in numbers:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, range(following, following + len(new)), strict=True))
        numbers = list(map(known.get, texts))
    return _integers(cast(list[int], numbers))


def _lengths(lists: Sequence[Sequence[Any]]) -> Ints:
    """Count what each call has."""
    return _integers(list(map(len, lists)))


def _starts(counts: Ints) -> Ints:
    """Say where each call's own begin in a ragged table."""
    return counts.cumsum() - counts
