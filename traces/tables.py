"""The growing tables that a TraceBuilder fills, and how they become the columns of a Trace.

No rule is checked here but the ones about totals and texts, which hold for a trace as a whole.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TraceError
from .trace import Trace

NEVER = np.iinfo(np.int64).max
MAX_TOTAL = 2**60  # what all sizes, or all times, may add up to: a replay adds in 64 bits

# Columns of the table of instructions: those of Trace.instructions, then the line.
CODE, FIRST, SECOND, INSTRUCTION_LINE = range(4)
# Columns of the table of calls: columns of the Trace, then how many rows of other tables belong
# to the call.
CALL_COLUMNS = {
    "call_operator": np.int32,
    "call_time_ns": np.int64,
    "call_workspace_bytes": np.int64,
    "call_phase": np.int8,
    "call_module": np.int32,
    "call_forward": np.int32,
    "call_tags": np.uint8,
    "call_line": np.int32,
}
OPERATOR, TIME, WORKSPACE, PHASE, MODULE, FORWARD, TAGS, CALL_LINE = range(len(CALL_COLUMNS))
N_ARGS, N_RESULTS, N_MUTATES = range(len(CALL_COLUMNS), len(CALL_COLUMNS) + 3)
# Columns of the table of constants, and of the table of results.
CONSTANT_BYTES, CONSTANT_KIND = range(2)
RESULT_NAME, RESULT_BYTES, RESULT_ALIAS, RESULT_KIND = range(4)


class Rows:
    """A growing table of integers: a list that appends quickly, packed into arrays at times.

    Parameters
    ----------
    width : int
        Columns.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._packed: list[NDArray[np.int64]] = []
        self._pending: list[int] = []
        self.extend = self._pending.extend

    def pack(self) -> None:
        """Move what is pending into an array; TypeError if it is no integer."""
        if self._pending:
            chunk = np.frombuffer(array("q", self._pending), dtype=np.int64)
            self._packed.append(chunk.reshape(-1, self._width))
            self._pending.clear()

    def add(self, chunk: NDArray[np.int64]) -> None:
        """Append rows that are an array already."""
        self.pack()
        self._packed.append(chunk.reshape(-1, self._width))

    def table(self) -> NDArray[np.int64]:
        """Give all rows so far, shape (n, width)."""
        self.pack()
        if len(self._packed) != 1:
            empty = np.empty((0, self._width), dtype=np.int64)
            self._packed = [np.concatenate([empty, *self._packed])]
        return self._packed[0]


class Tables:
    """Everything a TraceBuilder has collected.

    Attributes
    ----------
    names : dict of str to int
        Every name ever bound, in this order, with its id.
    released : bytearray
        For each name 1 once it is released, 0 before.
    operators, modules, kinds : dict of str to int
        Their numbers; the module ``""`` is no module, the kind ``""`` not known: -1.
    instructions, constants, calls, args, results, mutates : Rows
        As the constants above say.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.released = bytearray()
        self.operators: dict[str, int] = {}
        self.modules: dict[str, int] = {"": -1}
        self.kinds: dict[str, int] = {"": -1}
        self.n_calls = self.n_constants = 0
        self.instructions, self.constants = Rows(4), Rows(2)
        self.calls = Rows(N_MUTATES + 1)
        self.args, self.results, self.mutates = Rows(1), Rows(4), Rows(1)
        self._scratch = np.full(1 << 10, NEVER)

    def scratch(self) -> NDArray[np.int64]:
        """Lend an array with NEVER for each name; it must be given back like that."""
        if len(self._scratch) < len(self.names):
            self._scratch = np.full(2 * len(self.names), NEVER)
        return self._scratch

    def pack(self) -> None:
        """Pack every table; TypeError or OverflowError if something is no 64-bit integer."""
        for rows in (self.instructions, self.constants, self.calls):
            rows.pack()
        for rows in (self.args, self.results, self.mutates):
            rows.pack()

    def trace(self, name: str, source: str, rebinding: str, times_estimated: bool) -> Trace:
        """Make the Trace; the parameters are its attributes."""
        self._check_totals()
        self._check_texts()
        calls, results = self.calls.table(), self.results.table()
        constants = self.constants.table()
        columns: dict[str, Any] = {
            field: _frozen(calls[:, k], dtype)
            for k, (field, dtype) in enumerate(CALL_COLUMNS.items())
        }
        return Trace(
            name=name,
            source=source,
            names=tuple(self.names),
            instructions=_frozen(self.instructions.table()[:, :INSTRUCTION_LINE], np.int32),
            constant_bytes=_frozen(constants[:, CONSTANT_BYTES], np.int64),
            operators=tuple(self.operators),
            modules=tuple(self.modules)[1:],
            arg_offsets=_offsets(calls[:, N_ARGS]),
            arg_names=_frozen(self.args.table()[:, 0], np.int32),
            result_offsets=_offsets(calls[:, N_RESULTS]),
            result_names=_frozen(results[:, RESULT_NAME], np.int32),
            result_bytes=_frozen(results[:, RESULT_BYTES], np.int64),
            result_alias=_frozen(results[:, RESULT_ALIAS], np.int32),
            mutate_offsets=_offsets(calls[:, N_MUTATES]),
            mutate_args=_frozen(self.mutates.table()[:, 0], np.int32),
            value_kinds=tuple(self.kinds)[1:],
            constant_kind=_frozen(constants[:, CONSTANT_KIND], np.int32),
            result_kind=_frozen(results[:, RESULT_KIND], np.int32),
            rebinding=rebinding,
            times_estimated=times_estimated,
            **columns,
        )

    def _check_totals(self) -> None:
        """Refuse sizes or times that a replay could not add up; sums in floats do not wrap."""
        calls, results = self.calls.table(), self.results.table()[:, RESULT_BYTES]
        constants = self.constants.table()[:, CONSTANT_BYTES]
        largest = max(results.max(initial=0), constants.max(initial=0))
        sizes = results.sum(dtype=float) + constants.sum(dtype=float)
        sizes += calls[:, WORKSPACE].sum(dtype=float)
        sizes += float(largest) * len(self.mutates.table())  # a mutation may make a new storage
        for what, total in (("sizes", sizes), ("times", calls[:, TIME].sum(dtype=float))):
            if total > MAX_TOTAL:
                raise TraceError(f"all {what} together ({total:.3g}) are more than 2^60")

    def _check_texts(self) -> None:
        """Refuse names that are no text, or that no file can hold."""
        texts = {"name": self.names, "operator": self.operators, "module": self.modules}
        for what, labels in (texts | {"kind": self.kinds}).items():
            try:
                "".join(labels).encode()
            except (TypeError, UnicodeEncodeError) as error:
                raise TraceError(f"a {what} is no Unicode text: {ascii(str(error))}") from None


def _frozen(values: NDArray[np.int64], dtype: Any) -> NDArray[Any]:
    """Copy a column into a read-only array of its own type."""
    column = np.array(values, dtype=dtype, order="C")
    column.flags.writeable = False
    return column


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn counts into the offsets of a ragged table."""
    return _frozen(np.concatenate([[0], counts.cumsum()]), np.int64)
