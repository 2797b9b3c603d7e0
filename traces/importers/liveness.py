"""Releases where a file tells of none: every name is dropped after the last call that has it.

It knows no format; readers hand over calls in order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...opcodes import PHASE_BACKWARD
from ..builder import TraceBuilder


class PlannedCall(NamedTuple):
    """A call before it is handed to a builder; the fields are the parameters of its ``call``."""

    operator: str
    args: Sequence[str]
    results: Sequence[tuple[str, int, int]]
    time_ns: int
    mutates: Sequence[int] = ()
    phase: int = 0
    module: str = ""
    forward: int = -1
    tags: int = 0
    line: int = 0
    kinds: Sequence[str] = ()


def emit(builder: TraceBuilder, calls: Sequence[PlannedCall], kept: Collection[str]) -> int:
    """Hand calls to a builder, each followed by the releases of what is not read again.

    Parameters
    ----------
    builder : TraceBuilder
        It has the constants.
    calls : sequence of PlannedCall
        The backward pass begins at the first that is of its phase.
    kept : collection of str
        Names that are never released: constants, outputs.

    Returns
    -------
    int
        How many names were released.
    """
    last_use: dict[str, int] = {}
    for position, call in enumerate(calls):
        for name in (*call.args, *(result[0] for result in call.results)):
            last_use[name] = position
    released, has_begun = 0, False
    for position, call in enumerate(calls):
        if call.phase == PHASE_BACKWARD and not has_begun:
            has_begun = True
            builder.backward(call.line)
        operator, args, results, time_ns, *_ = call
        builder.call(
            operator,
            args,
            results,
            time_ns,
            mutates=call.mutates,
            phase=call.phase,
            module=call.module,
            forward=call.forward,
            tags=call.tags,
            line=call.line,
            kinds=call.kinds,
        )
        for name in dict.fromkeys((*args, *(result[0] for result in results))):
            if last_use[name] == position and name not in kept:
                builder.release(name, call.line)
                released += 1
    return released
