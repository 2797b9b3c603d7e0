"""Kernels: POFO's dynamic program, the least time of a chain whose inputs may go to the host.

A state is a stage about to run, with what is pinned in memory until backward steps need it, what is
queued to go to the host, what has to be back when the stage's backward step ends, and the form of
the stage's input: what was kept of the stage before, all or its output alone. All in slots of
memory. What a stage can do and what that costs is `look`; `fill` asks it for all states of a stage.

References
----------
Beaumont, Eyraud-Dubois, Shilova: NeurIPS 2021.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np

from .jit import Bundle, Entry, entry, kernel, shared_kernel

OUTPUT, RECORD = 0, 1  # forms of an input
ALL = -1  # in place of the last stage of a segment: the stage keeps all that it makes

# What is known of a chain of n stages.
CHAIN_FIELDS = np.dtype(
    [
        ("stages", "i8"),
        ("slots", "i8"),
        ("moves", "i8"),  # whether there is a way to the host and back
        ("to_host_time", "f8"),  # of a slot
        ("from_host_time", "f8"),
        ("record", "i8"),  # of the last stage
    ],
    align=True,
)
# The state that is looked at, and what is tried there.
HERE_FIELDS = np.dtype(
    [
        ("stage", "i8"),
        ("form", "i8"),
        ("pinned", "i8"),
        ("leaving", "i8"),
        ("coming", "i8"),
        ("whole", "i8"),  # the input, and what of it the stage itself reads
        ("part", "i8"),
        ("end", "i8"),  # the last stage of the segment to run without keeping, or ALL
        ("offloads", "i8"),  # whether the input goes to the host
        ("rerun", "i8"),  # slots that a segment has when it is run again
    ],
    align=True,
)
# The best that was found there; the last three are of the next state.
CHOICE_FIELDS = np.dtype(
    [
        ("time", "f8"),
        ("end", "i8"),
        ("offloads", "i8"),
        ("rerun", "i8"),
        ("pinned", "i8"),
        ("leaving", "i8"),
        ("coming", "i8"),
    ],
    align=True,
)


class OffloadedChain(Bundle):
    """A chain in slots and units of time.

    ============= ======= =============================================================
    facts         record  one row of `CHAIN_FIELDS`
    whole, part   int64   by 2 * stage + form: the input; and of it what its stage reads
    forward       float64 by stage: when it begins, of the forward pass without waiting
    both          float64 time of the forward and the backward step
    least         float64 time of the rest of the chain, this stage included
    need_forward  int64   slots that a stage needs beside its input to leave all, and
    need_backward int64   to be differentiated
    sent, fetched int64   slots that the link moves before a stage begins, of the forward
                          pass; and likewise of the backward pass
    need          int64   by n * first + last: slots beside its input that a segment needs
                          to be run forward; ``need_sent``: less what has been sent by then
    again         float64 by (n * first + last) * (slots + 1) + room: least time of a segment
    ============= ======= =============================================================
    """

    LAYOUT: ClassVar[dict[str, Any]] = {
        "facts": CHAIN_FIELDS,
        "whole": np.int64,
        "part": np.int64,
        "forward": np.float64,
        "both": np.float64,
        "least": np.float64,
        "need_forward": np.int64,
        "need_backward": np.int64,
        "sent": np.int64,
        "fetched": np.int64,
        "need": np.int64,
        "need_sent": np.int64,
        "again": np.float64,
    }
    facts: Any
    whole: Any
    part: Any
    forward: Any
    both: Any
    least: Any
    need_forward: Any
    need_backward: Any
    sent: Any
    fetched: Any
    need: Any
    need_sent: Any
    again: Any


class Times(Bundle):
    """Least times of all states, and the state that is looked at.

    ====== ======= ==================================================================
    time   float64 by (2 * stage + form) * states of a stage + state: see `place_of`
    start  int64   by pinned slots: the first state that has so many
    here   record  one row of `HERE_FIELDS`
    choice record  one row of `CHOICE_FIELDS`
    ====== ======= ==================================================================
    """

    LAYOUT: ClassVar[dict[str, Any]] = {
        "time": np.float64,
        "start": np.int64,
        "here": HERE_FIELDS,
        "choice": CHOICE_FIELDS,
    }
    time: Any
    start: Any
    here: Any
    choice: Any


@kernel
def place_of(times: Times, row: int, pinned: int, leaving: int, coming: int) -> int:
    """Give where the time of a state stands; its row is 2 * stage + form."""
    slots = len(times.start) - 2
    width = slots - pinned + 1
    states = times.start[slots + 1]
    return int(row * states + times.start[pinned] + leaving * width + coming)


@kernel
def offer(times: Times, spent: float, leaving: int, coming: int) -> None:
    """Take what is tried, if it is the fastest so far; the queues are those after it."""
    here, choice = times.here[0], times.choice[0]
    pinned = here.pinned
    if not here.offloads:
        pinned += here.whole
    if pinned + max(leaving, coming) > len(times.start) - 2:
        return
    row = 2 * (here.end + 1) + OUTPUT
    if here.end == ALL:
        row = 2 * (here.stage + 1) + RECORD
    time = spent + times.time[place_of(times, row, pinned, leaving, coming)]
    if time < choice.time:
        choice.time = time
        choice.end, choice.offloads, choice.rerun = here.end, here.offloads, here.rerun
        choice.pinned, choice.leaving, choice.coming = pinned, leaving, coming


@kernel
def queued(before: int, now: int, moved: int, later: int, moved_later: int) -> int:
    """Give what is left of a queue: ``now`` joins it, what is moved goes, then ``later`` joins."""
    return max(0, max(0, before + now - moved) + later - moved_later)


@shared_kernel
def keep_all(chain: OffloadedChain, times: Times) -> None:
    """Run the stage so that all stays that its backward step needs."""
    facts, here = chain.facts[0], times.here[0]
    i, held, late = here.stage, here.whole, 0
    if here.offloads:
        held = late = here.part
    joins = here.whole - held
    forward = here.pinned + held + chain.need_forward[i] - facts.slots
    backward = here.pinned + held + chain.need_backward[i] - facts.slots
    if max(forward, backward) > 0:
        return
    wait_out = max(0, here.leaving + joins + forward)
    wait_in = max(0, here.coming + joins + backward)
    out = chain.sent[i + 1] - chain.sent[i] + wait_out
    back = chain.fetched[i + 1] - chain.fetched[i] + wait_in
    spent = chain.both[i]
    if facts.moves:
        spent += wait_out * facts.to_host_time + wait_in * facts.from_host_time
    leaving = queued(here.leaving, joins, out, late * (facts.to_host_time > 0), 0)
    coming = queued(here.coming, joins, back, late * (facts.from_host_time > 0), 0)
    here.end, here.rerun = ALL, 0
    offer(times, spent, leaving, coming)


@shared_kernel
def keep_output(chain: OffloadedChain, times: Times) -> None:
    """Run segments that begin with the stage and keep nothing but the output of their last one."""
    facts, here = chain.facts[0], times.here[0]
    i, held, late = here.stage, here.whole, 0
    if here.offloads:
        held = late = here.part
    joins = here.whole - held
    room = facts.slots - here.pinned - held
    for end in range(i, facts.stages - 1):
        pair = facts.stages * i + end
        ahead = chain.forward[end + 1] - chain.forward[i]
        # Each segment costs at least one more forward pass of it than keeping all.
        is_dearer = ahead + chain.least[i] >= times.choice[0].time
        if chain.need[pair] > room or is_dearer:
            return
        wait_out = max(0, here.leaving + joins + chain.need_sent[pair] - room)
        if facts.moves:
            ahead += wait_out * facts.to_host_time
        out = chain.sent[i + 1] - chain.sent[i] + wait_out
        leaving = queued(here.leaving, joins, out, late, chain.sent[end + 1] - chain.sent[i + 1])
        here.end = end
        run_again(chain, times, ahead, leaving, joins)


@kernel
def run_again(chain: OffloadedChain, times: Times, ahead: float, leaving: int, joins: int) -> None:
    """Run a segment again, with room for what comes back meanwhile, or that comes after it."""
    facts, here = chain.facts[0], times.here[0]
    due = here.coming + joins
    late = here.part * here.offloads * (facts.from_host_time > 0)
    room = facts.slots - here.pinned - here.whole + joins - due
    for is_after in range(2 if due > 0 else 1):
        here.rerun = room + due * is_after
        if here.rerun < 0:
            continue
        pair = facts.stages * here.stage + here.end
        again = chain.again[pair * (facts.slots + 1) + here.rerun]
        if again == np.inf:
            continue
        spent, back = ahead + again, due * is_after
        if facts.moves:
            spent += due * is_after * facts.from_host_time
            back += facts.slots
            if again < facts.from_host_time * facts.slots:
                back = due * is_after + int(again / facts.from_host_time)
        offer(times, spent, leaving, queued(here.coming, joins, back, late, 0))


@shared_kernel
def look(chain: OffloadedChain, times: Times) -> None:
    """Find the best that can be done in the state `Times.here`; `Times.choice` has it."""
    here = times.here[0]
    row = 2 * here.stage + here.form
    here.whole, here.part = chain.whole[row], chain.part[row]
    times.choice[0].time = np.inf
    for offloads in range(1 + chain.facts[0].moves):
        here.offloads = offloads
        keep_all(chain, times)
        keep_output(chain, times)


@kernel
def time_at_end(chain: OffloadedChain, times: Times) -> float:
    """Give the time of a state after the last stage: all that is queued goes and comes.

    But for what has not left when it is wanted again: the last to leave is the first to come.
    """
    facts, here = chain.facts[0], times.here[0]
    room = facts.slots - here.pinned - facts.record
    if here.form != RECORD or room < 0:
        return np.inf
    stays, time = min(room, here.leaving, here.coming), 0.0
    if here.leaving > stays:
        time += (here.leaving - stays) * facts.to_host_time
    if here.coming > stays:
        time += (here.coming - stays) * facts.from_host_time
    return time


def fill_offloaded(chain: OffloadedChain, times: Times, i: int) -> int:
    """Fill in the times of all states of a stage; the stages after it have been."""
    facts, here = chain.facts[0], times.here[0]
    here.stage = i
    for form in range(2):
        here.form, here.pinned, here.leaving, here.coming = form, 0, 0, 0
        first = place_of(times, 2 * i + form, 0, 0, 0)
        for state in range(times.start[facts.slots + 1]):
            if i < facts.stages:
                look(chain, times)
                times.time[first + state] = times.choice[0].time
            else:
                times.time[first + state] = time_at_end(chain, times)
            go_on(times)
    return 0


@kernel
def go_on(times: Times) -> None:
    """Go on to the next state, in the order in which they stand."""
    here, slots = times.here[0], len(times.start) - 2
    here.coming += 1
    if here.coming > slots - here.pinned:
        here.coming = 0
        here.leaving += 1
    if here.leaving > slots - here.pinned:
        here.leaving = 0
        here.pinned += 1


def choose_offloaded(chain: OffloadedChain, times: Times, _: int) -> int:
    """Find what to do in the state `Times.here`, and go on to the one after that."""
    look(chain, times)
    here, choice = times.here[0], times.choice[0]
    here.pinned, here.leaving, here.coming = choice.pinned, choice.leaving, choice.coming
    if choice.end == ALL:
        here.stage, here.form = here.stage + 1, RECORD
    else:
        here.stage, here.form = choice.end + 1, OUTPUT
    return 0


@functools.cache
def fill_entry() -> Entry:
    """Give `fill_offloaded`, compiled."""
    return entry(fill_offloaded, (OffloadedChain, Times))


@functools.cache
def choose_entry() -> Entry:
    """Give `choose_offloaded`, compiled."""
    return entry(choose_offloaded, (OffloadedChain, Times))
