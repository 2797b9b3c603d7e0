"""Plan addresses: one call that searches, checks what was found, and says how good it is.

`address_plan` gives the line that no allocator can be below for long: the height of a static plan
for what a run had in memory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from .buffers import AddressPlan, Buffers, check_plan, max_load
from .heuristics.addresses import Search, get, prepare
from .heuristics.static.clock import INTERRUPTED, Clock, interrupts_caught, is_interrupted
from .heuristics.static.registry import FEASIBLE, INFEASIBLE, NO_PLAN, OPTIMAL
from .lifetimes import ROUNDING, buffers_of_run
from .result import RunResult

SECONDS = 60.0  # that a search may take unless another limit is given


@dataclass(frozen=True)
class Addressed:
    """A plan, and how good it is.

    Attributes
    ----------
    plan : AddressPlan
    method : str
    status : str
        ``optimal``, no plan is lower; ``feasible``; where there is a capacity: ``infeasible``, no
        plan fits, which is proven; ``no_plan``, none was found that fits.
    max_load : int
        The most bytes that live at once.
    bound : int
        No plan is lower; at least the maximum load.
    capacity : int or None
        What the plan should fit in.
    solve_seconds : float
    message : str
        One line, for a person.
    """

    plan: AddressPlan
    method: str
    status: str
    max_load: int
    bound: int
    capacity: int | None
    solve_seconds: float
    message: str = ""

    @property
    def height(self) -> int:
        """The end of the highest buffer."""
        return self.plan.height

    @property
    def ratio(self) -> float:
        """The height over the maximum load; 1 where there is nothing."""
        return self.height / self.max_load if self.max_load else 1.0

    @property
    def gap(self) -> float:
        """How far the height is above the bound, as a fraction of it."""
        return self.height / self.bound - 1 if self.bound else 0.0

    @property
    def fits(self) -> bool:
        """Whether it fits in the capacity, if there is one."""
        return self.capacity is None or self.height <= self.capacity


def plan_addresses(
    buffers: Buffers,
    method: str = "auto",
    *,
    capacity: int | None = None,
    time_limit: float | None = SECONDS,
    seed: int = 0,
) -> Addressed:
    """Give buffers addresses.

    Parameters
    ----------
    buffers : Buffers
    method : str
        One of ``heuristics.addresses.METHODS``.
    capacity : int, optional
        Stop at the first plan that fits in so many bytes.
    time_limit : float or None
        Seconds; on Ctrl-C the best so far is the answer. Where it ends before there is a plan, an
        arena's that knows no future is made.
    seed : int
        For what is drawn. The same request has the same answer unless the time ends it.

    Returns
    -------
    Addressed

    Raises
    ------
    UnknownNameError
        If there is no such method.

    Examples
    --------
    >>> plan_addresses(Buffers.of([0, 1, 2], [2, 3, 4], [4, 8, 4]), "first-fit").height
    12
    """
    function = get(method)
    prepare(method)
    started = time.monotonic()
    with interrupts_caught():
        search = Search(buffers, capacity, clock=Clock(time_limit), seed=seed)
        function(search)
        message = INTERRUPTED if is_interrupted() else search.message
    seconds = time.monotonic() - started
    assert search.best is not None, "every method begins with a fit, which always gives a plan"
    check_plan(search.best)
    status = _status(search)
    if not message and status in (INFEASIBLE, NO_PLAN):
        message = f"{search.best.height:,} bytes do not fit in {capacity:,}"
    return Addressed(
        search.best, method, status, max_load(buffers), search.bound, capacity, seconds, message
    )


def _status(search: Search) -> str:
    height, capacity = search.height or 0, search.capacity
    if capacity is not None and height > capacity:
        return INFEASIBLE if search.bound > capacity else NO_PLAN
    return OPTIMAL if height <= search.bound else FEASIBLE


def address_plan(
    run: RunResult,
    method: str = "auto",
    *,
    rounding: int = ROUNDING,
    time_limit: float | None = SECONDS,
    seed: int = 0,
) -> int:
    """Give the height of a static plan for what a run had in memory.

    Parameters
    ----------
    run : RunResult
        With its event log.
    method : str
        One of ``heuristics.addresses.METHODS``.
    rounding : int
        What sizes and addresses are rounded to.
    time_limit, seed
        As for `plan_addresses`.

    Returns
    -------
    int
        Bytes: the line in a plot of fragmentation. Where the run has addresses, they are a plan as
        well, and count if none lower is found.
    """
    buffers = buffers_of_run(run, rounding)
    height = plan_addresses(buffers, method, time_limit=time_limit, seed=seed).height
    assert run.events is not None, "it has buffers"
    lies = (run.events["address"] >= 0) & (run.events["bytes"] > 0)
    if not lies.any():
        return height
    own = int((run.events["address"] + run.events["bytes"])[lies].max())
    return min(height, -(-own // rounding) * rounding)
