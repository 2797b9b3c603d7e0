"""The Program: a trace lowered to read-only integer arrays that the engine can run.

Names are gone; there are calls, tensors (numbered in creation order, constants included), storages
and the edges between storages. `lowering.py` makes one from a Trace; all runs share it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .jit import Bundle

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

# Instruction codes of a Program: (code, operand).
RUN_CALL, RETAIN, RELEASE_STORAGE, BEGIN_BACKWARD, KEEP_OUTPUT = range(5)

INSTRUCTION_FIELDS = np.dtype([("code", "i4"), ("operand", "i4")], align=True)
EDGE_FIELDS = np.dtype([("parent", "i4"), ("child", "i4")], align=True)
CALL_FIELDS = np.dtype(
    [
        ("cost_ns", "i8"),  # the call's own time
        ("result_bytes", "i8"),  # of all results together
        ("workspace_bytes", "i8"),  # needed only while it runs
        ("first_parent", "i4"),  # operands: parents[first_parent:end_parent], repeats kept
        ("end_parent", "i4"),
        ("first_result", "i4"),  # result tensors: range(first_result, end_result)
        ("end_result", "i4"),
        ("first_edge", "i4"),  # edges that exist from this call on
        ("end_edge", "i4"),
        ("first_source", "i4"),  # distinct parent storages: sources[first_source:end_source]
        ("end_source", "i4"),
        ("origin", "i4"),  # call of the trace
        ("phase", "i4"),  # opcodes.PHASES
        ("is_recomputable", "i4"),  # 0: collective or data-dependent
        ("previous", "i4"),  # the same call one training step earlier, or -1
    ],
    align=True,
)
TENSOR_FIELDS = np.dtype(
    [
        ("call", "i4"),  # the call that makes it; constants have a call without parents and cost
        ("storage", "i4"),
        ("takes_over", "i4"),  # storage whose bytes it takes when the call runs in place, or -1
        ("ends_old", "i4"),  # 1: the program does not hold that storage any more after the call
        ("first_wait", "i4"),  # its flags in State.waiting, one for each source of its call
        ("adds_cost", "i4"),  # 1: the first result of its call in this storage
    ],
    align=True,
)
STORAGE_FIELDS = np.dtype(
    [
        ("size_bytes", "i8"),
        ("root", "i4"),  # its first tensor; the others are views
        ("is_constant", "i4"),
        ("first_parent_edge", "i4"),  # the next row holds the ends (one row more than storages)
        ("first_child_edge", "i4"),
        ("first_tensor", "i4"),
        ("first_use", "i4"),
    ],
    align=True,
)


class Program(Bundle):
    """What the engine runs: integers only, not changed by any run, shared by all.

    Notes
    -----
    ============== ======= ============================================================
    instructions   record  `INSTRUCTION_FIELDS`
    calls          record  `CALL_FIELDS`, one row a call (constants have one each)
    tensors        record  `TENSOR_FIELDS`
    storages       record  `STORAGE_FIELDS`, and one row more for the ends
    edges          record  `EDGE_FIELDS`, in the order of their creation
    parents        int32   operand tensors of all calls
    sources        int32   distinct parent storages of all calls
    parent_edges   int32   parent storages of each storage, in the order of their creation
    child_edges    int32   child storages likewise
    views          int32   tensors of each storage
    uses           int32   calls that read each storage, in program order
    call_start_ns  int64   the model's own compute before each call, ns; one more for the end
    outputs        int32   tensors that the program still holds at its end
    counterparts   int32   the storage made at the same place one training step earlier, or -1
    ============== ======= ============================================================
    """

    instructions: Any
    calls: Any
    tensors: Any
    storages: Any
    edges: Any
    parents: Int32
    sources: Int32
    parent_edges: Int32
    child_edges: Int32
    views: Int32
    uses: Int32
    call_start_ns: Int64
    outputs: Int32
    counterparts: Int32

    LAYOUT: ClassVar[dict[str, Any]] = {
        "instructions": INSTRUCTION_FIELDS,
        "calls": CALL_FIELDS,
        "tensors": TENSOR_FIELDS,
        "storages": STORAGE_FIELDS,
        "edges": EDGE_FIELDS,
        "parents": np.int32,
        "sources": np.int32,
        "parent_edges": np.int32,
        "child_edges": np.int32,
        "views": np.int32,
        "uses": np.int32,
        "call_start_ns": np.int64,
        "outputs": np.int32,
        "counterparts": np.int32,
    }

    def arrays(self) -> dict[str, Any]:
        """Give the arrays by name."""
        return {name: getattr(self, name) for name in self.LAYOUT}

    @cached_property
    def n_storages(self) -> int:
        """Storages; the table has one row more."""
        return len(self.storages) - 1

    @cached_property
    def has_irreplaceable(self) -> bool:
        """Whether some call cannot be repeated."""
        return bool((self.calls["is_recomputable"] == 0).any())

    @cached_property
    def base_compute_ns(self) -> int:
        """The model's own compute, ns."""
        return int(self.call_start_ns[-1])


def freeze(array: Any, dtype: Any = None) -> Any:
    """Make an array contiguous and read-only to Python, its records reachable by attribute."""
    array = np.ascontiguousarray(array, dtype)
    if array.dtype.names:
        array = array.view(np.recarray)
    array.flags.writeable = False
    return array
