"""The TraceBuilder: the only constructor of a Trace, and the place where its rules are checked.

It takes events one at a time, or many in columns (``bulk.py``), and rejects the first illegal one
with its source line. It knows names and whether they are live; tensors, storages and memory are
the business of the replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NoReturn

import numpy as np

from ..errors import TraceError
from ..opcodes import BACKWARD, CALL, CONSTANT, COPY, COPY_FROM, PHASES, RELEASE, TAGS
from . import tables as columns
from .bulk import Events, accept
from .tables import Tables
from .trace import MAX_VALUE, Trace
from .wording import place, show

ALL_TAGS = 2 ** len(TAGS) - 1
REBINDINGS = ("listed", "storage")
CALLS_PER_CHUNK = 1 << 16
_LABELS = ("phase", "tags", "forward call")
_PHASES, _TAGS = range(len(PHASES)), range(ALL_TAGS + 1)


class TraceBuilder:
    """Collects events in order and builds a Trace.

    Parameters
    ----------
    name : str
        What tables call the trace.
    source : str, optional
        The file that it comes from; errors start with it.
    rebinding : {"listed", "storage"}, optional
        Which names get the new value of a mutated operand (``Trace.rebinding``).
    times_estimated : bool, optional
        Whether the times are a model's and not measured.

    Notes
    -----
    Every method takes the source line of its event (0: none) and raises ``TraceError`` if the
    event breaks a rule; the builder is of no further use then.

    Examples
    --------
    >>> builder = TraceBuilder("tiny")
    >>> builder.constant("x", 8)
    >>> builder.call("relu", ["x"], [("y", 8, -1)], time_ns=100)
    0
    >>> builder.release("y")
    >>> builder.build().names
    ('x', 'y')
    """

    def __init__(
        self,
        name: str,
        source: str = "",
        rebinding: str = "listed",
        times_estimated: bool = False,
    ) -> None:
        if rebinding not in REBINDINGS:
            raise TraceError(f"rebinding {show(rebinding)}: it is one of {', '.join(REBINDINGS)}")
        self._name, self._source = name, source
        self._rebinding, self._times_estimated = rebinding, times_estimated
        self._tables = Tables()
        self._names, self._released = self._tables.names, self._tables.released

    def extend(self, events: Events) -> bool:
        """Take many events at once, quickly.

        Returns
        -------
        bool
            False: nothing was taken, because one of them may be illegal; hand them over one by
            one to learn which.
        """
        return accept(self._tables, events)

    def constant(self, name: str, size_bytes: int, line: int = 0, *, kind: str = "") -> None:
        """Bind a name to a tensor that no call makes (a weight, an input).

        Parameters
        ----------
        name : str
        size_bytes : int
            0..2^53.
        line : int, optional
        kind : str, optional
            Dtype and shape, as in ``"float32[64,3]"``.
        """
        tables = self._tables
        if size_bytes.__class__ is not int or not 0 <= size_bytes <= MAX_VALUE:
            size_bytes = self._count(size_bytes, f"CONSTANT {show(name)}: size", line)
        bound = self._bind(name, "CONSTANT", line)
        tables.instructions.extend((CONSTANT, bound, tables.n_constants, line))
        tables.constants.extend((size_bytes, self._kind(kind)))
        tables.n_constants += 1

    def call(
        self,
        operator: str,
        args: Sequence[str],
        results: Sequence[tuple[str, int, int]],
        time_ns: int,
        *,
        mutates: Sequence[int] = (),
        workspace_bytes: int = 0,
        phase: int = 0,
        module: str = "",
        forward: int = -1,
        tags: int = 0,
        line: int = 0,
        kinds: Sequence[str] = (),
    ) -> int:
        """Run an operator on live names and bind its results.

        Parameters
        ----------
        operator : str
        args : sequence of str
            Operands, in order; repeats are allowed.
        results : sequence of (name, bytes, alias)
            ``alias`` as in ``Trace.result_alias``; the bytes of a view are taken as 0.
        time_ns, workspace_bytes : int
            0..2^53.
        mutates : sequence of int, optional
            Positions in ``args``, none twice; a call without results needs one.
        phase, module, forward, tags, line : optional
            As in ``Trace``.
        kinds : sequence of str, optional
            Dtype and shape of each result, as in ``"float32[64,3]"``, or ``""``; none at all if
            none is known.

        Returns
        -------
        int
            Index of the call.
        """
        tables, n_args, n_results = self._tables, len(args), len(results)
        self._use_args(operator, args, n_results, line)
        if time_ns.__class__ is not int or not 0 <= time_ns <= MAX_VALUE:
            time_ns = self._count(time_ns, f"{_instruction(operator, n_results)}: TIME", line)
        if workspace_bytes or phase or tags or forward != -1:
            self._check_labels(operator, workspace_bytes, (phase, tags, forward), line)
        numbers = [self._kind(kind) for kind in kinds] if kinds else [-1] * n_results
        if len(numbers) != n_results:
            self._fail(line, f"CALL {show(operator)}: {len(kinds)} kinds of {n_results} results")
        self._bind_results(operator, results, numbers, n_args, line)
        if mutates or not n_results:
            self._mutate(_instruction(operator, n_results), mutates, n_args, line)
        row = (
            tables.operators.setdefault(operator, len(tables.operators)),
            time_ns,
            workspace_bytes,
            phase,
            tables.modules.setdefault(module, len(tables.modules) - 1),
            forward,
            tags,
            line,
            n_args,
            n_results,
            len(mutates),
        )
        tables.calls.extend(row)
        call = tables.n_calls
        tables.instructions.extend((CALL, call, 0, line))
        tables.n_calls = call + 1
        if not tables.n_calls % CALLS_PER_CHUNK:
            self._pack()
        return call

    def copy(self, dst: str, src: str, line: int = 0) -> None:
        """Bind another name to the tensor of a live one."""
        source = self._use(src, "COPY: SRC", line)
        bound = self._bind(dst, "COPY: DST", line)
        self._tables.instructions.extend((COPY, bound, source, line))

    def copy_from(self, dst: str, src: str, line: int = 0) -> None:
        """Let a live name mean the tensor of another live one."""
        target = self._use(dst, "COPY_FROM: DST", line)
        source = self._use(src, "COPY_FROM: SRC", line)
        self._tables.instructions.extend((COPY_FROM, target, source, line))

    def release(self, name: str, line: int = 0) -> None:
        """Drop a name; one that was never bound is ignored, for logs contain such lines."""
        found = self._names.get(name)
        if found is None:
            return
        if self._released[found]:
            where = self._line_of_release(found)
            self._fail(line, f"RELEASE of {show(name)}: no live reference (last released{where})")
        self._released[found] = 1
        self._tables.instructions.extend((RELEASE, found, 0, line))

    def backward(self, line: int = 0) -> None:
        """Mark where the backward pass begins."""
        self._tables.instructions.extend((BACKWARD, 0, 0, line))

    def build(self) -> Trace:
        """Make the Trace.

        Raises
        ------
        TraceError
            Nothing happened, or sizes or times add up to more than 64 bits hold.
        """
        self._pack()
        if not len(self._tables.instructions.table()):
            self._fail(0, "no instructions: the trace is empty")
        try:
            return self._tables.trace(
                self._name, self._source, self._rebinding, self._times_estimated
            )
        except TraceError as error:
            self._fail(0, str(error))

    def _use_args(self, operator: str, args: Sequence[str], n_results: int, line: int) -> None:
        """Note the operands of a call."""
        names, released = self._names, self._released
        try:
            ids = [names[name] for name in args]
            is_live = not any(map(released.__getitem__, ids))
        except (KeyError, TypeError):
            is_live = False
        if not is_live:
            for name in args:
                self._use(name, f"{_instruction(operator, n_results)}: argument", line)
        self._tables.args.extend(ids)

    def _bind_results(
        self,
        operator: str,
        results: Sequence[tuple[str, int, int]],
        kinds: list[int],
        n_args: int,
        line: int,
    ) -> None:
        """Bind what a call gives."""
        for position, (name, size_bytes, alias) in enumerate(results):
            if alias != -1:
                if not -position - 2 < alias < n_args:
                    what = f"CALL {show(operator)}: ALIAS {show(alias)} of {show(name)}"
                    self._fail(line, f"{what} is neither -1 nor an index into {n_args} ARGS")
                size_bytes = 0
            elif size_bytes.__class__ is not int or not 0 <= size_bytes <= MAX_VALUE:
                what = f"CALL {show(operator)}: size of {show(name)},"
                size_bytes = self._count(size_bytes, what, line)
            if name in self._names or name.__class__ is not str:
                self._refuse_binding(name, f"CALL {show(operator)}: RESULT", line)
            self._names[name] = bound = len(self._names)
            self._released.append(0)
            self._tables.results.extend((bound, size_bytes, alias, kinds[position]))

    def _kind(self, kind: str) -> int:
        """Give the number of a kind of value."""
        kinds = self._tables.kinds
        return kinds.setdefault(kind, len(kinds) - 1)

    def _bind(self, name: str, role: str, line: int) -> int:
        """Give a new name its id."""
        names = self._names
        if name in names or name.__class__ is not str:
            self._refuse_binding(name, role, line)
        names[name] = bound = len(names)
        self._released.append(0)
        return bound

    def _mutate(self, what: str, mutates: Sequence[int], n_args: int, line: int) -> None:
        """Note which operands a call mutates."""
        if not mutates:
            self._fail(line, f"{what}: neither a result nor a mutated operand")
        seen: set[int] = set()
        for position in mutates:
            if not 0 <= position < n_args:
                rule = f"is not an index into {n_args} ARGS"
                self._fail(line, f"{what}: mutated operand {show(position)} {rule}")
            if position in seen:
                self._fail(line, f"{what}: mutated operand {show(position)} is listed twice")
            seen.add(position)
        self._tables.mutates.extend(mutates)

    def _check_labels(
        self, operator: str, workspace_bytes: int, labels: tuple[int, int, int], line: int
    ) -> None:
        """Check what few traces know about a call."""
        if workspace_bytes.__class__ is not int or not 0 <= workspace_bytes <= MAX_VALUE:
            self._count(workspace_bytes, f"CALL {show(operator)}: workspace", line)
        allowed = (_PHASES, _TAGS, range(-1, self._tables.n_calls))
        for role, value, values in zip(_LABELS, labels, allowed, strict=True):
            if value not in values:
                rule = f"is not in {values.start}..{values.stop - 1}"
                self._fail(line, f"CALL {show(operator)}: {role} {show(value)} {rule}")

    def _use(self, name: str, role: str, line: int) -> int:
        """Give the id of a live name."""
        found = self._names.get(name)
        if found is None:
            self._fail(line, f"{role} {show(name)} is not defined")
        if self._released[found]:
            where = self._line_of_release(found)
            self._fail(line, f"{role} {show(name)} has no live reference (released{where})")
        return found

    def _count(self, value: Any, role: str, line: int) -> int:
        """Give a size or a time as an int in 0..2^53, of whatever integer type it is."""
        try:
            count = index(value)
        except TypeError:
            count = -1
        if not 0 <= count <= MAX_VALUE:
            self._fail(line, f"{role} {show(value)} is not an integer from 0 to 2^53")
        return count

    def _pack(self) -> None:
        """Move the events so far into arrays."""
        try:
            self._tables.pack()
        except (TypeError, OverflowError) as error:
            self._fail(0, f"an event holds something that is no 64-bit integer: {error}")

    def _refuse_binding(self, name: object, role: str, line: int) -> NoReturn:
        """Say where a name was bound before."""
        if not isinstance(name, str):
            self._fail(line, f"{role} {show(name)} is no string, and a name is one")
        where = self._line_of_binding(self._names[name])
        self._fail(line, f"{role} {show(name)} is bound already{where}, and a name is bound once")

    def _line_of_release(self, name_id: int) -> str:
        """Say where a name was released."""
        rows = self._tables.instructions.table()
        found = rows[(rows[:, columns.CODE] == RELEASE) & (rows[:, columns.FIRST] == name_id)]
        return _at(found[:, columns.INSTRUCTION_LINE])

    def _line_of_binding(self, name_id: int) -> str:
        """Say where a name was bound."""
        rows, calls = self._tables.instructions.table(), self._tables.calls.table()
        made = np.flatnonzero(self._tables.results.table()[:, columns.RESULT_NAME] == name_id)
        ends = calls[:, columns.N_RESULTS].cumsum()
        call = np.searchsorted(ends, made, side="right")
        if len(call):
            return _at(calls[call[call < len(calls)], columns.CALL_LINE])
        binds = np.isin(rows[:, columns.CODE], (CONSTANT, COPY)) & (
            rows[:, columns.FIRST] == name_id
        )
        return _at(rows[binds][:, columns.INSTRUCTION_LINE])

    def _fail(self, line: int, message: str) -> NoReturn:
        """Reject an event."""
        raise TraceError(message, where=place(self._source, line))


def _instruction(operator: str, n_results: int) -> str:
    """Name a call as the DTR log does."""
    return f"{'CALL' if n_results else 'MUTATE'} {show(operator)}"


def _at(lines: Any) -> str:
    """Say at which line, if it is known."""
    return f" at line {lines[-1]}" if len(lines) and lines[-1] else ""
