"""What a program needs of memory whatever the method: known from its sizes, without a replay.

The bounds hold where constants stay in memory (under eager and ignore; banish drops those that
nobody needs any more). They say which budgets are hopeless, never that a budget suffices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .program import Program

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]


class Requirements(NamedTuple):
    """Bytes that no method can do without.

    Attributes
    ----------
    constant_bytes, output_bytes : int
        Weights and inputs; what the program still holds at its end, constants aside.
    largest_call : int
        The call that holds the most in operands, results and workspace, constants aside, as its
        place among the trace's calls; -1 if there is no call.
    largest_call_bytes : int
        What it holds.
    lowest_budget_bytes : int
        Below this no run can end ok.
    lowest_budget_call : int
        The call that asks for it, or -1 where it is what must be there at the end.
    """

    constant_bytes: int
    output_bytes: int
    largest_call: int
    largest_call_bytes: int
    lowest_budget_bytes: int
    lowest_budget_call: int


def requirements(program: Program) -> Requirements:
    """Work out the bounds of a program, lowered with ``mutation="copy"``.

    Notes
    -----
    A call needs its distinct operands, its results and its workspace at once, next to the constants
    made before it. At the end, constants and outputs are all pinned.
    """
    sizes = program.storages["size_bytes"][:-1].astype(np.int64)
    is_constant = program.storages["is_constant"][:-1].astype(bool)
    movable = np.where(is_constant, 0, sizes)
    output_storages = np.unique(program.tensors["storage"][program.outputs])
    constant_bytes, output_bytes = (
        int(sizes[is_constant].sum()),
        int(movable[output_storages].sum()),
    )

    origins, constants_so_far, held = call_needs(program)
    at_end = constant_bytes + output_bytes
    if not held.size:
        return Requirements(constant_bytes, output_bytes, -1, 0, at_end, -1)
    needed = constants_so_far + held
    largest, neediest = int(held.argmax()), int(needed.argmax())
    asks_most = needed[neediest] > at_end
    return Requirements(
        constant_bytes,
        output_bytes,
        int(origins[largest]),
        int(held[largest]),
        max(int(needed[neediest]), at_end),
        int(origins[neediest]) if asks_most else -1,
    )


def call_needs(program: Program) -> tuple[Int64, Int64, Int64]:
    """Give what each of the trace's calls needs.

    Returns
    -------
    origin : ndarray of int64
        The place of each call among the trace's calls.
    constants_bytes : ndarray of int64
        The constants made before it.
    held_bytes : ndarray of int64
        Its distinct operands, constants aside, its results and its workspace.
    """
    sizes = program.storages["size_bytes"][:-1].astype(np.int64)
    movable = np.where(program.storages["is_constant"][:-1].astype(bool), 0, sizes)
    calls = program.calls
    is_call = calls["origin"] >= 0
    constants_so_far = np.cumsum(np.where(is_call, 0, calls["result_bytes"]))[is_call]
    operands = np.concatenate([[0], np.cumsum(movable[program.sources])])
    held = (
        operands[calls["end_source"][is_call]]
        - operands[calls["first_source"][is_call]]
        + calls["result_bytes"][is_call]
        + calls["workspace_bytes"][is_call]
    )
    return calls["origin"][is_call].astype(np.int64), constants_so_far, held
