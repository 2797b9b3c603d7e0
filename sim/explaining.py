"""`explain`: a run's story: what was in memory, why it left, why it came back, what that cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .causes import Causes
from .errors import InputError, UnknownNameError
from .heuristics.methods import get
from .heuristics.registry import Heuristic
from .live import PEAK, Instant, first_step, instant
from .opcodes import ACTIONS, BANISH_STORAGE, DEALLOCATE
from .overheads import OverheadPart, overhead_parts
from .result import RunResult
from .scores import FORCED, Decision, decisions
from .story import NONE, Story
from .traces.trace import Trace
from .workload import workload
from .worth import Larger, Worth, with_more, worths

SHOWN = 10


@dataclass(frozen=True)
class Eviction:
    """A storage left memory, and perhaps came back.

    Attributes
    ----------
    row : int
        Of the event log.
    time_ns : int
    storage : int
    name : str
    bytes : int
    action : str
        ``evict`` (for lack of memory; in a plan: to be computed again), ``deallocate`` or
        ``banish``: the program, or the plan, had no more use for it.
    for_call : str
        The call that needed the room; empty where none did.
    score : float or None
        Of an online run's eviction for lack of memory.
    decision : Decision or None
        What else could have been evicted; where it was asked for, and can be told.
    """

    row: int
    time_ns: int
    storage: int
    name: str
    bytes: int
    action: str
    for_call: str
    score: float | None
    decision: Decision | None = None


@dataclass(frozen=True)
class Return:
    """A call that ran again.

    Attributes
    ----------
    time_ns, cost_ns : int
        When, and how long it took.
    in_all_ns : int
        With all that had to be computed first, and for it only.
    call : str
    chain : list of str
        The call that needed it, and the one that needed that, up to the model's own; empty where
        it was an output, or the trace is not at hand to tell.
    """

    time_ns: int
    cost_ns: int
    in_all_ns: int
    call: str
    chain: list[str]


@dataclass(frozen=True)
class Life:
    """What happened to one storage, in order.

    Attributes
    ----------
    storage : int
    name, category, module, operator : str
    bytes : int
    made_ns : int or None
        When it was made; None if the run ended before.
    happenings : list of Eviction and Return
    """

    storage: int
    name: str
    category: str
    module: str
    operator: str
    bytes: int
    made_ns: int | None
    happenings: list[Eviction | Return]


@dataclass(frozen=True)
class CallStory:
    """What one call of the trace did.

    Attributes
    ----------
    call : str
    started_ns : int
        When it ran as the model's own work.
    cost_ns : int
    returns : list of Return
        When it ran again.
    evictions : list of Eviction
        What was evicted to make room for it, each time.
    """

    call: str
    started_ns: int
    cost_ns: int
    returns: list[Return]
    evictions: list[Eviction]


class Explanation:
    """What can be told of one run.

    Parameters
    ----------
    story : Story
    heuristic : Heuristic or None
        What chose the victims; None where a plan did, or the trace is not at hand.
    """

    def __init__(self, story: Story, heuristic: Heuristic | None) -> None:
        self.story, self.heuristic = story, heuristic
        self.causes = Causes(story)

    @property
    def result(self) -> RunResult:
        """The run."""
        return self.story.result

    @cached_property
    def overhead(self) -> list[OverheadPart]:
        """Where the overhead goes, by module and operator; the sum is the run's, exactly."""
        return overhead_parts(self.story)

    def live(self, at: str | int = PEAK) -> Instant:
        """Say what is in memory at the peak, the end, a call or a time; see `live.instant`."""
        return instant(self.story, at)

    @cached_property
    def worths(self) -> list[Worth]:
        """What the evictions of each storage cost, the dearest byte first."""
        return worths(self.story, self.causes)

    def with_more(self, count: int = SHOWN) -> list[Larger]:
        """Run again with room for the dearest storages; nothing where a plan was executed."""
        if self.heuristic is None or self.story.trace is None:
            return []
        work = workload(self.story.trace, self.result.mutation)
        return with_more(self.story, work, self.heuristic, self.worths[:count])

    def storages_named(self, name: str) -> list[int]:
        """Find the storages of a name, or that of a number.

        Raises
        ------
        UnknownNameError
            If there is none.
        """
        names = self.story.storages["name"]
        found: list[int] = np.flatnonzero(names == name).tolist()
        if found:
            return found
        if name.isdecimal() and int(name[:20]) < len(names):
            return [int(name)]
        raise UnknownNameError(
            f"storage {name[:60]!r}: the run has none of that name; "
            f"by number they go from 0 to {len(names) - 1}"
        )

    def life(self, storage: int, scores: int = SHOWN) -> Life:
        """Tell what happened to a storage: when it left and why, and why it came back.

        Parameters
        ----------
        storage : int
        scores : int
            So many of its evictions, the first ones, are told with all candidates.

        Returns
        -------
        Life
        """
        events, table = self.story.events, self.story.storages
        mine = np.flatnonzero(events["storage"] == storage)
        left = mine[np.isin(events["action"][mine], (*FORCED, DEALLOCATE, BANISH_STORAGE))]
        placed = np.intersect1d(mine, self.story.placements)
        back = self.causes.returns.get(storage, [])
        told = self.evictions(left.tolist(), scores)
        happenings: list[Eviction | Return] = [*told, *map(self.back, back)]
        return Life(
            storage=storage,
            **{k: str(table[k][storage]) for k in ("name", "category", "module", "operator")},
            bytes=int(table["bytes"][storage]),
            made_ns=int(events["start_ns"][placed[0]]) if len(placed) else None,
            happenings=sorted(happenings, key=lambda h: (h.time_ns, isinstance(h, Return))),
        )

    def call(self, call: int, scores: int = SHOWN) -> CallStory:
        """Tell what a call of the trace did: when it ran, and what had to go for it.

        Raises
        ------
        InputError
            If the run has no such call.
        """
        first = first_step(self.story, call)
        steps = self.story.steps
        again = [n for n, step in enumerate(steps) if step.call == call and step.is_again]
        rows = np.flatnonzero(
            (self.story.events["cause_call"] == call) & np.isin(self.story.events["action"], FORCED)
        )
        return CallStory(
            call=self.story.name_of(first.call),
            started_ns=first.start_ns,
            cost_ns=first.cost_ns,
            returns=list(map(self.back, again)),
            evictions=self.evictions(rows.tolist(), scores),
        )

    def back(self, number: int) -> Return:
        """Tell of one step that ran again."""
        step = self.story.steps[number]
        return Return(
            time_ns=step.start_ns,
            cost_ns=step.cost_ns,
            in_all_ns=self.causes.in_all_ns[number],
            call=self.story.name_of(step.call),
            chain=[self.story.name_of(reader.call) for reader in self.causes.chain(number)],
        )

    def evictions(self, rows: list[int], scores: int = SHOWN) -> list[Eviction]:
        """Tell of rows of the event log in which storages left memory.

        Parameters
        ----------
        rows : list of int
        scores : int
            So many evictions for lack of memory, the first of these, are told with all candidates.

        Returns
        -------
        list of Eviction
        """
        events = self.story.events
        forced = [row for row in rows if events["action"][row] in FORCED][:scores]
        decided = self.decisions(forced) if forced else {}
        found = []
        for row in rows:
            storage, call = int(events["storage"][row]), int(events["cause_call"][row])
            score = float(events["score"][row])
            found.append(
                Eviction(
                    row=row,
                    time_ns=int(events["start_ns"][row]),
                    storage=storage,
                    name=str(self.story.storages["name"][storage]),
                    bytes=int(events["bytes"][row]),
                    action=ACTIONS[events["action"][row]],
                    for_call="" if call == NONE else self.story.name_of(call),
                    score=None if np.isnan(score) else score,
                    decision=decided.get(row),
                )
            )
        return found

    def decisions(self, rows: list[int]) -> dict[int, Decision]:
        """Tell all candidates of some evictions, by row; nothing where that cannot be told."""
        if self.heuristic is None or self.story.trace is None:
            return {}
        work = workload(self.story.trace, self.result.mutation)
        return decisions(work, self.heuristic, self.result, rows)


def explain(run: RunResult, trace: Trace | None = None, heuristic: Any = None) -> Explanation:
    """Make what can be told of a run.

    Parameters
    ----------
    run : RunResult
        With its event log: ``simulate(..., event_log=True)``, ``execute``, or `load_run`.
    trace : Trace, optional
        What was run. Without it there are no scores but the victims', and no chains of causes.
    heuristic : str, callable or Heuristic, optional
        What chose, as `simulate` takes it; by default what the run's ``method`` names.

    Returns
    -------
    Explanation

    Raises
    ------
    InputError
        If the run has no event log, or is of another trace.

    Examples
    --------
    The example of docs/semantics.md: t1 and t2 could go, t1 is used longer ago.

    >>> from rematsim.simulation import simulate
    >>> from rematsim.traces.synthetic import chain
    >>> trace = chain(4)
    >>> told = explain(simulate(trace, "h_DTR", budget=4, event_log=True), trace)
    >>> told.live("peak").total_bytes
    4
    >>> [(part.operator, part.remat_ns) for part in told.overhead]
    [('f', 1)]
    >>> life = told.life(*told.storages_named("t1"))
    >>> left, back, _ = life.happenings
    >>> [(c.storage, c.score) for c in left.decision.candidates]
    [(1, 0.5), (2, 1.0)]
    >>> left.decision.candidates[0].terms
    {'own_cost': 1.0, 'neighborhood_cost': 0.0, 'size': 1.0, 'staleness': 2.0}
    >>> back.chain
    ['call 6 b (bwd)']
    """
    story = Story(run, trace)
    if run.kind != "online":
        if heuristic is not None:
            raise InputError(f"heuristic: the run is of a plan ({run.method!r}), which has none")
        return Explanation(story, None)
    if heuristic is None and trace is None:
        return Explanation(story, None)
    return Explanation(story, _of_run(run) if heuristic is None else get(heuristic))


def _of_run(run: RunResult) -> Heuristic:
    """Find the heuristic that a run's row names."""
    try:
        return get(run.method)
    except InputError as error:
        raise InputError(f"run of {run.method!r}: {error}; hand its heuristic over") from None
