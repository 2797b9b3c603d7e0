"""A plan as a selective policy of ``torch.utils.checkpoint``: a file that a script imports.

PyTorch checkpoints whole blocks, keeps the results of the calls that a policy names, and runs the
others again at once, when the backward pass comes to the block. A plan says more; what cannot be
said in that form is counted, and what it comes to is simulated.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from .checkpointing import checkpoint_plan
from .errors import PlanError
from .execution import execute
from .opcodes import PHASE_BACKWARD, PHASE_FORWARD
from .plan import Plan
from .plan_choices import PlanChoices
from .result import RunResult
from .schedules import COMPUTE
from .traces.trace import Trace
from .workload import workload

_BLOCK = re.compile(r"^(.*?\.\d+)(\.|$)")  # up to the outermost number

# What a plan does and a policy cannot.
TWICE = "calls run again more than once: once here"
EARLY = "calls run again in the forward pass: not here"
NOT_FORWARD = "calls of the backward pass or the optimizer run again: not here"
NO_BLOCK = "calls outside of blocks run again: kept here"
IN_PLACE = "saved calls whose result is updated in place, or which update: run again here"
IN_VAIN = "calls that the plan neither saves nor runs again: run again here"

Run = dict[str, list[int]]  # operator -> places among its calls in the block that are saved


@dataclass
class Policy:
    """A policy, and what of the plan it cannot say.

    Attributes
    ----------
    trace : Trace
    method : str
        Who made the plan.
    blocks : dict of str to list
        Path of a block -> for each time that it runs, the operators and places that are saved.
    saved : set of int
        The calls of the trace that are saved.
    unsaid : dict of str to int
        What the plan does and the policy does not: how many calls.
    """

    trace: Trace
    method: str
    blocks: dict[str, list[Run]] = field(default_factory=dict)
    saved: set[int] = field(default_factory=set)
    unsaid: dict[str, int] = field(default_factory=dict)

    def simulated(self, *, cached: bool = True) -> RunResult:
        """Execute what the policy does, as a plan with updates in place."""
        paths = list(self.blocks)
        plan = checkpoint_plan(self.trace, paths, saved=self.saved, cached=cached)
        return execute(self.trace, plan, cached=cached)

    def text(self) -> str:
        """Write the file."""
        origin = {"trace": self.trace.name, "method": self.method}
        blocks = "".join(
            f"    {path.partition('.')[2]!a}: {runs!a},\n" for path, runs in self.blocks.items()
        )
        return _FILE.format(origin=ascii(origin), blocks=blocks)


def policy_of(trace: Trace, plan: Plan) -> Policy:
    """Put a plan into the form of a policy, as far as that goes.

    Parameters
    ----------
    trace : Trace
        With phases and module paths, as a capture has them.
    plan : Plan

    Returns
    -------
    Policy

    Raises
    ------
    PlanError
        If the plan is for another trace, runs nothing again, or nothing of it is in a block.
    """
    choices = PlanChoices(trace, plan)
    runs = _block_runs(choices)
    dropping = {run for run, calls in enumerate(runs.calls) if choices.dropped.intersection(calls)}
    paths = {runs.paths[run] for run in dropping}
    if not paths:
        raise PlanError(
            f"plan of {plan.method!r}: it runs nothing again in a block of the model (a module "
            "with a number in its path): there is nothing for a policy to say"
        )
    updated = _updated(trace)
    policy = Policy(trace, plan.method)
    for path, calls in zip(runs.paths, runs.calls, strict=True):
        if path in paths:
            saved = [call for call in calls if call in choices.saved and call not in updated]
            policy.saved.update(saved)
            policy.blocks.setdefault(path, []).append(_places(choices, calls, set(saved)))
    policy.unsaid = _unsaid(choices, plan, policy, updated, runs)
    return policy


@dataclass
class _Runs:
    """The times that blocks run in the forward pass, with the calls of each."""

    paths: list[str] = field(default_factory=list)
    calls: list[list[int]] = field(default_factory=list)


def _block_runs(choices: PlanChoices) -> _Runs:
    """Find the blocks."""
    found, last = _Runs(), ""
    for call in range(choices.trace.n_calls):
        if choices.trace.call_phase[call] != PHASE_FORWARD:
            continue
        match = _BLOCK.match(choices.trace.place_of(call)[0])
        path = match[1] if match else ""
        if path and path != last:
            found.paths.append(path)
            found.calls.append([])
        if path:
            found.calls[-1].append(call)
        last = path
    return found


def _places(choices: PlanChoices, calls: list[int], saved: set[int]) -> Run:
    """Count each operator's calls, and give the places of those that are saved."""
    seen: Counter[str] = Counter()
    found: Run = {}
    for call in calls:
        operator = choices.trace.place_of(call)[1]
        if call in saved:
            found.setdefault(operator, []).append(seen[operator])
        seen[operator] += 1
    return found


def _updated(trace: Trace) -> set[int]:
    """Give the calls that update in place, and those whose results are updated later."""
    program = workload(trace, "inplace").program
    tensors, origin = program.tensors, program.calls["origin"]
    takes = tensors["takes_over"] >= 0
    old = tensors["takes_over"][takes]
    makers = tensors["call"][program.storages["root"][old]]
    return {*origin[tensors["call"][takes]].tolist(), *origin[makers].tolist()}


def _unsaid(
    choices: PlanChoices, plan: Plan, policy: Policy, updated: set[int], runs: _Runs
) -> dict[str, int]:
    """Count what the plan does and the policy does not."""
    trace, remats = choices.trace, choices.remats
    inside = {
        call
        for path, calls in zip(runs.paths, runs.calls, strict=True)
        if path in policy.blocks
        for call in calls
    }
    forward = {call for call in remats if trace.call_phase[call] == PHASE_FORWARD}
    again = inside - policy.saved
    counts = {
        TWICE: sum(remats[call] > 1 for call in forward & inside),
        EARLY: len(_early(trace, plan)),
        NOT_FORWARD: len(remats) - len(forward),
        NO_BLOCK: len(forward - inside),
        IN_PLACE: len(again & updated & choices.saved.keys()),
        IN_VAIN: sum(
            call not in remats and call not in choices.saved and int(trace.call_time_ns[call]) > 0
            for call in again
        ),
    }
    return {what: count for what, count in counts.items() if count}


def _early(trace: Trace, plan: Plan) -> set[int]:
    """Give the calls that a plan runs again before its first one of the backward pass."""
    calls = workload(trace, plan.mutation).program.calls
    seen: set[int] = set()
    early: set[int] = set()
    for action, target in plan:
        if action != COMPUTE:
            continue
        if calls["phase"][target] == PHASE_BACKWARD:
            break
        (early if target in seen else seen).add(target)
    return early


_FILE = '''\
"""Selective activation checkpointing by a plan of rematsim; needs PyTorch 2.4 or newer.

    from THIS_FILE import apply
    apply(model)  # once, before training

The blocks named below are checkpointed. In each, the results of the calls that are named are kept;
everything else is computed again in the backward pass.
"""

from collections import Counter
from functools import partial

from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

ORIGIN = {origin}

# Block -> for each time that it runs in a step: operator -> which of its calls in the block are
# kept, counted from 0.
SAVED = {{
{blocks}}}


class Policy:
    """Says of each operator that a block calls whether its result is kept."""

    def __init__(self, saved):
        self.saved, self.seen = saved, Counter()

    def __call__(self, ctx, op, *args, **kwargs):
        name = op.name().partition("::")[2].partition(".")[0]
        place = self.seen[ctx.is_recompute, name]
        self.seen[ctx.is_recompute, name] += 1
        is_saved = place in self.saved.get(name, ())
        return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE


class Contexts:
    """Makes the policy of each run of a block, in turn."""

    def __init__(self, runs):
        self.runs, self.count = runs, 0

    def __call__(self):
        saved = self.runs[self.count % len(self.runs)]
        self.count += 1
        return create_selective_checkpoint_contexts(Policy(saved))


def apply(model):
    """Checkpoint the blocks of a model, in place."""
    for path, runs in SAVED.items():
        block = model.get_submodule(path)
        block.forward = partial(
            checkpoint, block.forward, use_reentrant=False, context_fn=Contexts(runs)
        )
'''
