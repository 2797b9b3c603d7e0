"""The constraint program of addresses: rectangles in time and memory that do not overlap.

Solved with CP-SAT in the solvers' process (``static/solving.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..static.cp_sat import solve_model


def improve(
    columns: list[list[int]],
    known: list[int],
    least: int,
    tell: Callable[[Any], None],
    seconds: float | None,
) -> dict[str, Any]:
    """Look for lower addresses than those known.

    Parameters
    ----------
    columns : list of list of int
        Lower and upper ends of lifetimes, sizes, alignments.
    known : list of int
        Addresses that are a plan.
    least : int
        The height that is good enough.
    tell, seconds
        As for every task of the solvers' process.

    Returns
    -------
    dict
        ``status``, ``bound``, and ``address``, or None if there is nothing lower.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    lower, upper, size, alignment = columns
    most = max(at + bytes_ for at, bytes_ in zip(known, size, strict=True))
    height = model.new_int_var(least, most, "")
    units, times, spaces = [], [], []
    for place, at in enumerate(known):
        # Addresses are multiples of an alignment: the variable counts those.
        top = (most - size[place]) // alignment[place]
        unit = model.new_int_var(0, top, "")
        model.add_hint(unit, at // alignment[place])
        model.add(alignment[place] * unit + size[place] <= height)
        units.append(unit)
        if size[place]:
            life = upper[place] - lower[place]
            times.append(model.new_fixed_size_interval_var(lower[place], life, ""))
            start = alignment[place] * unit
            spaces.append(model.new_fixed_size_interval_var(start, size[place], ""))
    model.add_no_overlap_2d(times, spaces)
    model.add_cumulative(times, [s for s in size if s], height)
    model.minimize(height)
    answer = solve_model(
        model,
        lambda value: [a * value(unit) for a, unit in zip(alignment, units, strict=True)],
        seconds=seconds,
        tell=tell,
    )
    return {"status": answer.status, "bound": int(answer.bound), "address": answer.found}
