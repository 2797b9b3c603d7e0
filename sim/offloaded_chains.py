"""Kernels: POFO's dynamic program, the least time of a chain whose inputs may go to the host.

A state is a stage about to run, with what is pinned in memory until backward steps need it, what is
queued to go to the host, what has to be back when the stage's backward step ends, and the form of
the stage's input: what was kept of the stage before, all or its output alone. All in slots of
memory. States that differ only in what has to be back are filled as a row, since most of what a
stage can do is the same for them; a segment is left out where no state after it makes it faster.

References
----------
Beaumont, Eyraud-Dubois, Shilova: NeurIPS 2021.
"""

from __future__ import annotations

import functools

import numpy as np

from .jit import Entry, entry, kernel, shared_kernel
from .offloaded_states import OffloadedChain, Times

OUTPUT, RECORD = 0, 1  # forms of an input
ALL = -1  # in place of the last stage of a segment: the stage keeps all that it makes


@kernel
def place_of(times: Times, row: int, pinned: int, leaving: int, coming: int) -> int:
    """Give where the time of a state stands; its row is 2 * stage + form."""
    slots = len(times.start) - 2
    width = slots - pinned + 1
    states = times.start[slots + 1]
    return int(row * states + times.start[pinned] + leaving * width + coming)


@kernel
def queued(before: int, now: int, moved: int, later: int, moved_later: int) -> int:
    """Give what is left of a queue: ``now`` joins it, what is moved goes, then ``later`` joins."""
    return max(0, max(0, before + now - moved) + later - moved_later)


@kernel
def least_of(times: Times, stage: int, pinned: int, leaving: int) -> int:
    """Give where the least time of some states stands."""
    width = len(times.start) - 1
    return int((stage * width + pinned) * width + leaving)


@kernel
def take_input(chain: OffloadedChain, times: Times, offloads: int) -> int:
    """Keep the input or let it go to the host; give the slots that are left beside it."""
    facts, here = chain.facts[0], times.here[0]
    row = 2 * here.stage + here.form
    here.offloads, here.whole, here.part = offloads, chain.whole[row], chain.part[row]
    held = here.part if offloads else here.whole
    here.joins = here.whole - held
    return int(facts.slots - here.pinned - held)


@kernel
def go_to(times: Times, row: int, leaving: int) -> bool:
    """Let a row's states with so much to leave be those after it; say whether there are some."""
    here, slots = times.here[0], len(times.start) - 2
    pinned = here.pinned + (0 if here.offloads else here.whole)
    if pinned + leaving > slots:
        return False
    here.pinned_then, here.leaving_then = pinned, leaving
    here.next = place_of(times, row, pinned, leaving, 0)
    return True


@kernel
def time_then(times: Times, spent: float) -> float:
    """Give the time with that of the state after it; infinite if too much has to be back."""
    here, slots = times.here[0], len(times.start) - 2
    if here.pinned_then + here.coming > slots:
        return np.inf
    return float(spent + times.time[here.next + here.coming])


@shared_kernel
def can_keep_all(chain: OffloadedChain, times: Times, room: int) -> bool:
    """Try to run the stage so that all stays that its backward step needs."""
    facts, here = chain.facts[0], times.here[0]
    i = here.stage
    forward, here.need = chain.need_forward[i] - room, chain.need_backward[i] - room
    if max(forward, here.need) > 0:
        return False
    late = here.part * here.offloads
    wait = max(0, here.leaving + here.joins + forward)
    here.spent = wait * facts.to_host_time if facts.moves else 0.0
    out = chain.sent[i + 1] - chain.sent[i] + wait
    leaving = queued(here.leaving, here.joins, out, late * (facts.to_host_time > 0), 0)
    here.late, here.end = late * (facts.from_host_time > 0), ALL
    return go_to(times, 2 * (i + 1) + RECORD, leaving)


@kernel
def time_of_all(chain: OffloadedChain, times: Times, coming: int) -> float:
    """Give the time if so much has to be back when the stage's backward step ends."""
    facts, here = chain.facts[0], times.here[0]
    wait, spent = max(0, coming + here.joins + here.need), chain.both[here.stage]
    if facts.moves:
        spent += here.spent + wait * facts.from_host_time
    back = chain.fetched[here.stage + 1] - chain.fetched[here.stage] + wait
    here.coming, here.rerun = queued(coming, here.joins, back, here.late, 0), 0
    return time_then(times, spent)


@shared_kernel
def can_run_again(chain: OffloadedChain, times: Times, room: int, end: int) -> bool:
    """Try to run a segment that begins with the stage and keep only the output of its last one."""
    facts, here = chain.facts[0], times.here[0]
    i, pair = here.stage, facts.stages * here.stage + end
    wait = max(0, here.leaving + here.joins + chain.need_sent[pair] - room)
    here.spent = chain.forward[end + 1] - chain.forward[i]
    if facts.moves:
        here.spent += wait * facts.to_host_time
    late = here.part * here.offloads
    out = chain.sent[i + 1] - chain.sent[i] + wait
    ahead = chain.sent[end + 1] - chain.sent[i + 1]
    here.late, here.end = late * (facts.from_host_time > 0), end
    # Room for the segment, if all that has to come back comes after it.
    here.need, here.again = room, pair * (facts.slots + 1)
    leaving = queued(here.leaving, here.joins, out, late, ahead)
    return go_to(times, 2 * (end + 1) + OUTPUT, leaving)


@kernel
def time_of_segment(chain: OffloadedChain, times: Times, coming: int, is_after: int) -> float:
    """Give the time if that has room while the segment runs again, or comes after it."""
    facts, here = chain.facts[0], times.here[0]
    due = coming + here.joins
    here.rerun = here.need - due * (1 - is_after)
    if here.rerun < 0:
        return np.inf
    again = chain.again[here.again + here.rerun]
    spent, back = here.spent + again, due * is_after
    if facts.moves:
        spent += due * is_after * facts.from_host_time
        back += chain.moved[here.again + here.rerun]
    here.coming = queued(coming, here.joins, back, here.late, 0)
    return time_then(times, spent)


@kernel
def offer(times: Times, time: float) -> None:
    """Take what is tried, if it is the fastest so far."""
    here, choice = times.here[0], times.choice[0]
    if time < choice.time:
        choice.time = time
        choice.end, choice.offloads, choice.rerun = here.end, here.offloads, here.rerun
        choice.pinned, choice.leaving = here.pinned_then, here.leaving_then
        choice.coming = here.coming


@shared_kernel
def look(chain: OffloadedChain, times: Times, coming: int) -> None:
    """Find the best that can be done in a state; `Times.choice` has it."""
    facts, here = chain.facts[0], times.here[0]
    times.choice[0].time = np.inf
    for offloads in range(1 + facts.moves):
        room = take_input(chain, times, offloads)
        if can_keep_all(chain, times, room):
            offer(times, time_of_all(chain, times, coming))
        for end in range(here.stage, facts.stages - 1):
            if chain.need[facts.stages * here.stage + end] > room:
                break
            if can_run_again(chain, times, room, end):
                for is_after in range(2 if coming + here.joins > 0 else 1):
                    offer(times, time_of_segment(chain, times, coming, is_after))


@kernel
def fill_end(chain: OffloadedChain, times: Times, first: int) -> float:
    """Fill in the times after the last stage: all that is queued goes and comes.

    But for what has not left when it is wanted again: the last to leave is the first to come.
    """
    facts, here = chain.facts[0], times.here[0]
    room = facts.slots - here.pinned - facts.record
    for coming in range(facts.slots - here.pinned + 1):
        time = np.inf
        if here.form == RECORD and room >= 0:
            stays, time = min(room, here.leaving, coming), 0.0
            if here.leaving > stays:
                time += (here.leaving - stays) * facts.to_host_time
            if coming > stays:
                time += (coming - stays) * facts.from_host_time
        times.time[first + coming] = time
    return np.inf  # none has an output for its input


@shared_kernel
def fill_row(chain: OffloadedChain, times: Times, first: int) -> float:
    """Fill in the times of all states that differ in what has to be back; give the least."""
    facts, here = chain.facts[0], times.here[0]
    width = facts.slots - here.pinned + 1
    for coming in range(width):
        times.time[first + coming] = np.inf
    for offloads in range(1 + facts.moves):
        room, worst = take_input(chain, times, offloads), np.inf
        if can_keep_all(chain, times, room):
            worst = fill_all(chain, times, first)
        for end in range(here.stage, facts.stages - 1):
            # Each segment costs at least one more forward pass of it than keeping all.
            least = chain.forward[end + 1] - chain.forward[here.stage] + chain.least[here.stage]
            if chain.need[facts.stages * here.stage + end] > room or least >= worst:
                break
            if can_run_again(chain, times, room, end):
                worst = fill_segment(chain, times, first)
    least = np.inf
    for coming in range(width):
        least = min(least, times.time[first + coming])
    return float(least)


@kernel
def fill_all(chain: OffloadedChain, times: Times, first: int) -> float:
    """Take the times of keeping all where they are less than those before; give the greatest."""
    worst = 0.0
    for coming in range(chain.facts[0].slots - times.here[0].pinned + 1):
        best = min(times.time[first + coming], time_of_all(chain, times, coming))
        times.time[first + coming] = best
        worst = max(worst, best)
    return worst


@kernel
def fill_segment(chain: OffloadedChain, times: Times, first: int) -> float:
    """Take the times of a segment likewise."""
    here, worst = times.here[0], 0.0
    bound = here.spent + chain.again[here.again + here.need]
    bound += times.least[least_of(times, here.end + 1, here.pinned_then, here.leaving_then)]
    for coming in range(chain.facts[0].slots - here.pinned + 1):
        best = times.time[first + coming]
        if bound < best:
            best = min(best, time_of_segment(chain, times, coming, 0))
            if coming + here.joins > 0:
                best = min(best, time_of_segment(chain, times, coming, 1))
            times.time[first + coming] = best
        worst = max(worst, best)
    return worst


def fill_offloaded(chain: OffloadedChain, times: Times, i: int) -> int:
    """Fill in the times of all states of a stage; the stages after it have been."""
    facts, here = chain.facts[0], times.here[0]
    here.stage = i
    for form in range(2):
        here.form = form
        for pinned in range(facts.slots + 1):
            here.pinned = pinned
            for leaving in range(facts.slots - pinned + 1):
                here.leaving = leaving
                first = place_of(times, 2 * i + form, pinned, leaving, 0)
                if i < facts.stages:
                    least = fill_row(chain, times, first)
                else:
                    least = fill_end(chain, times, first)
                if form == OUTPUT:
                    times.least[least_of(times, i, pinned, leaving)] = least
    return 0


def choose_offloaded(chain: OffloadedChain, times: Times, coming: int) -> int:
    """Find what to do in the state `Times.here`, and go on to the one after that."""
    look(chain, times, coming)
    here, choice = times.here[0], times.choice[0]
    here.pinned, here.leaving = choice.pinned, choice.leaving
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
