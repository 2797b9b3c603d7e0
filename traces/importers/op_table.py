"""Reader of tables of operators (CSV): a step as a profile of its kernels, with ids of tensors.

Sizes and storages are those of a table of tensors given beside it; without one, each tensor has a
storage of its own and elements of four bytes. Storages are versioned at each birth: ids of storages
are addresses in disguise, and come again.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ...errors import TraceError
from ...opcodes import PHASE_BACKWARD, PHASE_FORWARD, PHASE_OPTIMIZER, PHASE_UNKNOWN
from ..builder import TraceBuilder
from ..trace import MAX_VALUE
from ..wording import place, show
from . import tensor_table
from .liveness import PlannedCall, emit
from .reader import Imported, Request, Summary
from .tensor_table import TensorRow, has_columns, number, read_tensors, rows_of

FORMAT = "table of operators (CSV)"
TAKES_COMPANIONS = True
COLUMNS = (
    *("OperatorName", "Operator_input", "Operator_output", "Operator_cudatime"),
    *("InputSize", "OutputSize", "stage"),
)
PHASES = {"forward": PHASE_FORWARD, "backward": PHASE_BACKWARD, "optimizer": PHASE_OPTIMIZER}
ASSUMED_BYTES = 4
NS_IN_US = 1_000
LIST_OPERATOR = "_foreach_"


class Operator(NamedTuple):
    """A row of the table."""

    name: str
    inputs: list[int]
    outputs: list[int]
    input_counts: list[int]
    output_counts: list[int]
    time_ns: int
    phase: int
    line: int


def recognizes(head: bytes) -> bool:
    """Say whether the first line names the columns of such a table."""
    return has_columns(head, COLUMNS)


def read(request: Request) -> Imported:
    """Read a table, and the table of tensors beside it if there is one."""
    tensors: dict[int, TensorRow] = {}
    for companion in request.companions:
        if not tensor_table.recognizes(companion.head):
            raise TraceError("no table of tensors, so it does not belong here", companion.where)
        tensors |= read_tensors(companion)
    operators = [
        _operator(row, line, place(request.where, line))
        for line, row in rows_of(request.data, COLUMNS)
    ]
    builder = TraceBuilder(request.name, request.where, rebinding="storage")
    storages = _Storages(builder, tensors, request.where)
    calls = [call for call in map(storages.call, operators) if call]
    counts = storages.counts
    if counts["other size"] * 2 > counts["known"]:
        raise TraceError(
            f"of {counts['known']} operands and results that it has, {counts['other size']} have "
            f"another number of elements in {request.where}: the tables are of different runs",
            ", ".join(companion.where for companion in request.companions),
        )
    released = emit(builder, calls, storages.constants)
    taken = {"operators": len(calls), "constants": len(storages.constants)}
    taken |= {"storages": counts["births"], "operators that mutate": counts["mutations"]}
    inferred = {
        "storages read before anything makes them (constants)": len(storages.constants),
        "releases after last use": released,
        "tensors of four bytes an element, in a storage of their own": counts["assumed"],
        "storage ids used again": counts["again"],
        "sizes of the table of tensors that are not the operators'": counts["other size"],
    }
    dropped = {
        "undefined tensors": counts["undefined"],
        "operators without tensors": counts["idle"],
    }
    return Imported(builder.build(), Summary(taken, inferred, dropped))


def _operator(row: list[str], line: int, where: str) -> Operator:
    """Read a row."""
    name, inputs, outputs, time_us, input_counts, output_counts, stage = row
    time_ns = number(time_us, "Operator_cudatime", where) * NS_IN_US
    if time_ns > MAX_VALUE:
        raise TraceError(f"Operator_cudatime {show(time_us)}: more than 2^53 ns", where)
    operator = Operator(
        name,
        _numbers(inputs, "Operator_input", where),
        _numbers(outputs, "Operator_output", where),
        _numbers(input_counts, "InputSize", where),
        _numbers(output_counts, "OutputSize", where),
        time_ns,
        PHASES.get(stage.strip(), PHASE_UNKNOWN),
        line,
    )
    pairs = ((operator.inputs, operator.input_counts), (operator.outputs, operator.output_counts))
    for ids, counts in pairs:
        if len(ids) != len(counts):
            raise TraceError(f"{show(name)}: {len(ids)} tensors and {len(counts)} sizes", where)
    return operator


def _numbers(text: str, column: str, where: str) -> list[int]:
    """Read a list as in ``[4; 6]``."""
    inner = text.strip()
    if not (inner.startswith("[") and inner.endswith("]")):
        raise TraceError(f"{column} {show(text)} is not a list as in [4; 6]", where)
    inner = inner[1:-1].strip()
    return [number(part, column, where) for part in inner.split(";")] if inner else []


class _Storages:
    """Turns ids into names: a name for each version of a storage."""

    def __init__(self, builder: TraceBuilder, tensors: dict[int, TensorRow], source: str) -> None:
        self._builder, self._tensors, self._source = builder, tensors, source
        self._names: dict[int, str] = {}  # storage -> name of its present version
        self._versions: Counter[int] = Counter()
        self._assumed: set[int] = set()
        self.constants: set[str] = set()
        self.counts: Counter[str] = Counter()

    def call(self, operator: Operator) -> PlannedCall | None:
        """Make the call of a row; None if it has no tensors."""
        inputs = self._present(operator.inputs, operator.input_counts)
        outputs = self._present(operator.outputs, operator.output_counts)
        args = [self._read(tensor, operator.line) for tensor in inputs]
        storages = [tensor.storage for tensor in inputs]
        mutates = self._mutated(operator, storages)
        results = []
        for tensor in outputs:
            if tensor.storage in storages:
                if not mutates:
                    position = storages.index(tensor.storage)
                    results.append((self._view_name(tensor.storage), 0, position))
            else:
                results.append((self._new(tensor.storage), tensor.size_bytes, -1))
        if not results and not mutates:
            self.counts["idle"] += 1
            return None
        self.counts["mutations"] += bool(mutates)
        return PlannedCall(
            operator.name,
            args,
            results,
            operator.time_ns,
            mutates=mutates,
            phase=operator.phase,
            line=operator.line,
        )

    def _present(self, ids: list[int], counts: list[int]) -> list[TensorRow]:
        """Look tensors up, and pass over those that stand for none."""
        self.counts["undefined"] += counts.count(0)
        pairs = zip(ids, counts, strict=True)
        return [self._tensor(tensor, count) for tensor, count in pairs if count]

    def _tensor(self, tensor: int, count: int) -> TensorRow:
        """Give storage and bytes of a tensor."""
        known = self._tensors.get(tensor)
        if known is None:
            self._assumed.add(tensor)
            self.counts["assumed"] = len(self._assumed)
            size = min(count * ASSUMED_BYTES, MAX_VALUE)
            # A negative number, so that no storage in the table has it.
            known = TensorRow(-tensor - 1, size, count)
        else:
            self.counts["known"] += 1
            self.counts["other size"] += known.elements != count
        return known

    def _read(self, tensor: TensorRow, line: int) -> str:
        """Name an operand; a storage that nothing made is a constant."""
        name = self._names.get(tensor.storage)
        if name is None:
            name = self._next_name(tensor.storage)
            self._builder.constant(name, tensor.size_bytes, line)
            self.constants.add(name)
        return name

    def _new(self, storage: int) -> str:
        """Name the storage that a call makes."""
        self.counts["births"] += 1
        self.counts["again"] += storage in self._names
        return self._next_name(storage)

    def _view_name(self, storage: int) -> str:
        """Name a view; the storage goes on under the name that it had."""
        self._versions[storage] += 1
        return f"{_label(storage)}.{self._versions[storage]}"

    def _next_name(self, storage: int) -> str:
        name = self._view_name(storage) if storage in self._names else _label(storage)
        self._names[storage] = name
        return name

    def _mutated(self, operator: Operator, storages: list[int]) -> list[int]:
        """Say which operands are mutated: the first, or the first list, if the name ends in _."""
        base = operator.name.rpartition("::")[2].partition(".")[0]
        if not base.endswith("_") or not storages:
            return []
        n_first = 1
        if base.startswith(LIST_OPERATOR):
            counts = [count for count in operator.input_counts if count]
            n_lists = next(k for k in (4, 3, 2, 1) if _repeats(counts, k))
            n_first = len(counts) // n_lists
        return [k for k in range(n_first) if storages.index(storages[k]) == k]


def _repeats(counts: list[int], times: int) -> bool:
    """Say whether the sizes are those of so many lists with the same shapes."""
    part = len(counts) // times
    return part > 0 and counts == counts[:part] * times


def _label(storage: int) -> str:
    return f"s{storage}" if storage >= 0 else f"t{-storage - 1}"
