"""The Plan: what to compute, free and move, in order, in a trace's own calls and storages.

A planner's Schedule becomes one (`plan_of_schedule`), an online run leaves one (`plan_of_run`), and
``execution.py`` runs it. Here nothing is judged: whether a plan is possible, its execution tells.
Files are in ``plan_files.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import opcodes
from .errors import InputError, PlanError
from .made_views import with_views
from .program import Program
from .schedules import COMPUTE, FREE, Schedule
from .static_graph import NO_CALL, StaticGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .result import RunResult
    from .traces.trace import Trace

OFFLOAD, PREFETCH, DISCARD = 2, 3, 4
PLAN_ACTIONS = ("COMPUTE", "FREE", "OFFLOAD", "PREFETCH", "DISCARD")
Action = tuple[int, int]


BLOCK = 1 << 16  # actions that are Python numbers at a time


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A sequence of actions on one trace under one lowering.

    Attributes
    ----------
    action : ndarray of int8
        What to do, an index into ``PLAN_ACTIONS``: COMPUTE a call, FREE a storage, OFFLOAD it,
        PREFETCH it (the host copy stays), DISCARD its host copy.
    target : ndarray of int32
        The call, or the storage: numbers as in docs/plan-format.md.
    trace_digest : str
        Of the trace that it is for.
    mutation : str
        The lowering that it is for: ``"copy"`` or ``"inplace"``.
    trace, method, source : str
        What the trace is called, who made the plan, and where the trace was read: for a reader.
    file : str
        Where the plan was read, for messages.
    """

    action: NDArray[np.int8]
    target: NDArray[np.int32]
    trace_digest: str
    mutation: str = "copy"
    trace: str = ""
    method: str = ""
    source: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        """Check that there is a target for each action, and make the arrays read-only."""
        for name, dtype in (("action", np.int8), ("target", np.int32)):
            array = np.array(getattr(self, name), dtype)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.action.ndim != 1 or self.action.shape != self.target.shape:
            raise PlanError(f"plan: {self.action.size} actions, {self.target.size} targets")
        if self.action.size and not 0 <= self.action.min() <= self.action.max() <= DISCARD:
            raise PlanError(f"plan: an action is one of 0 ({PLAN_ACTIONS[0]}) to {DISCARD}")

    def check_trace(self, trace: Trace) -> None:
        """Refuse a trace that the plan is not for.

        Raises
        ------
        PlanError
            If it is for another one.
        """
        if self.trace_digest != trace.digest:
            source = f", {self.source}" if self.source else ""
            raise PlanError(
                f"{self.file or 'plan'}: it is for the trace {self.trace!r} "
                f"({self.trace_digest[:16]}{source}), not for {trace.name!r} ({trace.digest[:16]})"
            )

    def __len__(self) -> int:
        """Count the actions."""
        return len(self.action)

    def __iter__(self) -> Iterator[Action]:
        """Give pairs of action and target, in little more memory than the plan takes."""
        for start in range(0, len(self.action), BLOCK):
            block = slice(start, start + BLOCK)
            yield from zip(self.action[block].tolist(), self.target[block].tolist(), strict=True)

    def __eq__(self, other: object) -> bool:
        """Say whether both do the same on the same trace."""
        if not isinstance(other, Plan):
            return NotImplemented
        return (
            (self.trace_digest, self.mutation) == (other.trace_digest, other.mutation)
            and np.array_equal(self.action, other.action)
            and np.array_equal(self.target, other.target)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show how long it is and what it is for."""
        return (
            f"Plan({self.method!r} for {self.trace!r}, {len(self)} actions, "
            f"mutation={self.mutation!r}, trace_digest={self.trace_digest[:16]!r})"
        )


def made_plan(actions: Iterable[Action], trace_digest: str, **details: str) -> Plan:
    """Make a Plan from pairs of action and target."""
    pairs = np.array(list(actions), np.int64).reshape(-1, 2)
    return Plan(pairs[:, 0], pairs[:, 1], trace_digest, **details)  # type: ignore[arg-type]


def lower(graph: StaticGraph, program: Program, schedule: Schedule) -> Iterator[Action]:
    """Turn a schedule on a static graph into the actions of a plan.

    Constants come first. Where a node stands for a call with views of its values, these are made
    again with it if they have been made before and something reads them. What comes after the last
    node is left out if there are outputs: they stay.

    Parameters
    ----------
    graph : StaticGraph
        Derived from the Program.
    program : Program
    schedule : Schedule
        A legal one: `evaluate` accepts it.
    """
    roots = program.storages["root"][:-1][program.storages["is_constant"][:-1] == 1]
    for call in program.tensors["call"][roots].tolist():
        yield COMPUTE, call
    has_call = (graph.call != NO_CALL) & ~graph.is_mark
    calls = [*np.where(has_call, graph.call, NO_CALL).tolist(), *graph.view_call.tolist()]
    storage = graph.storage.tolist()
    for action, target in with_views(graph, schedule):
        if action != COMPUTE:
            yield action, storage[target]
        elif calls[target] != NO_CALL:
            yield COMPUTE, calls[target]


def plan_of_schedule(
    graph: StaticGraph, program: Program, schedule: Schedule, trace_digest: str, method: str = ""
) -> Plan:
    """Turn a schedule on a static graph into a Plan; see `lower`."""
    actions = lower(graph, program, schedule)
    return made_plan(actions, trace_digest, trace=graph.name, method=method)


def schedule_of_plan(graph: StaticGraph, program: Program, plan: Plan) -> Schedule:
    """See a Plan as a schedule on the static graph, to start a planner from it.

    It may break a rule of the graph that the plan's execution does not have, where views are
    entangled; `evaluate` tells.

    Raises
    ------
    PlanError
        If the plan is for another lowering, or moves data to the host and back.
    """
    if plan.mutation != "copy" or (plan.action > FREE).any():
        raise PlanError("plan: a schedule has neither updates in place nor transfers")
    node_of = dict(zip(graph.call.tolist(), range(graph.n_nodes), strict=True))
    value_of = dict(zip(graph.storage.tolist(), range(graph.n_values), strict=True))
    fresh = 0
    actions: list[Action] = []
    for action, target in plan:
        place = (value_of if action == FREE else node_of).get(target)
        is_late_mark = (
            place is not None and action == COMPUTE and graph.is_mark[place] and place < fresh
        )
        if place is None or is_late_mark:
            continue
        fresh += action == COMPUTE and place == fresh
        actions.append((action, place))
    if graph.has_outputs:
        actions.append((COMPUTE, graph.n_nodes - 1))
    return Schedule.of(actions)


def has_moved(result: RunResult) -> bool:
    """Say whether a run moved data, by its event log: over a link, it may as well not have."""
    events, _ = result.logged()
    return bool(np.isin(events["action"], (opcodes.OFFLOAD, opcodes.SAVE)).any())


def plan_of_run(program: Program, result: RunResult) -> Plan:
    """Give what a run did as a Plan.

    Parameters
    ----------
    program : Program
        What was run.
    result : RunResult
        Its result, with the event log.

    Raises
    ------
    InputError
        If the run kept no event log, did not end ok, or moved data.
    """
    events, _ = result.logged()
    if result.status != "ok":
        raise InputError(f"plan of a run: it ended {result.status}, and only a whole run is a plan")
    if has_moved(result):
        raise InputError(
            f"plan of a run: it moved data over {result.link} as it went; only plans for no link "
            "can be read off a run"
        )
    return made_plan(
        _run_actions(program, events),
        result.trace_digest,
        mutation=result.mutation,
        trace=result.trace,
        method=result.method,
    )


def _run_actions(program: Program, events: dict[str, Any]) -> list[Action]:
    """Read the actions off an event log: a call at its first result, and what left memory."""
    done: list[Action] = []
    is_resident = [False] * program.n_storages
    call_of = program.tensors["call"].tolist()
    first = program.calls["first_result"].tolist()
    computes = (opcodes.COMPUTE, opcodes.RECOMPUTE)
    frees = (opcodes.EVICT, opcodes.DEALLOCATE, opcodes.BANISH_STORAGE)
    actions, storages, tensors = (events[n].tolist() for n in ("action", "storage", "tensor"))
    for i, (action, storage) in enumerate(zip(actions, storages, strict=True)):
        if action in computes:
            if first[call_of[tensors[i]]] == tensors[i]:
                done.append((COMPUTE, call_of[tensors[i]]))
            is_resident[storage] = True
        elif action == opcodes.TAKE_OVER:
            # Handed over just before the call, of which the next row has a result.
            is_resident[storage] = False
            has_begun = first[call_of[tensors[i + 1]]] != tensors[i + 1]
            done.insert(len(done) - has_begun, (FREE, storage))
        elif action in frees and is_resident[storage]:  # the absent can be banished too
            is_resident[storage] = False
            done.append((FREE, storage))
    return done
