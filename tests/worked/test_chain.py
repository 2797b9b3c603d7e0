"""One chain, every kind of score, worked by hand.

x is a constant; a = f(x) takes 8 ns, b = f(a) 1, c = f(b) 2, d = f(c) 1, e = f(d) 1 and
y = f(b, e) 1: 14 ns of compute. Every storage has 10 bytes and 40 are allowed: four storages.
Then all names but y are dropped. The clock starts at 1, so it stands at 9, 10, 12 after a, b, c,
and everything fits so far:

======  =====  ====================================  ========  =====================
call    clock  last_access                           in memory  pool, oldest first
======  =====  ====================================  ========  =====================
a       9      x 1, a 9                              x a        a
b       10     a 9, b 10                             x a b      b a
c       12     a 9, b 10, c 12                       x a b c    a c b
======  =====  ====================================  ========  =====================

d stamps c (12) and locks it, and needs a place at clock 12: a or b has to go.
"""

from __future__ import annotations

from typing import Any

import pytest
from rematsim.traces.trace import Trace


@pytest.fixture
def chain(pencil: Any) -> Trace:
    """Give the chain of the table."""
    steps = pencil("x").call("a", "x", 8).call("b", "a", 1).call("c", "b", 2)
    steps.call("d", "c", 1).call("e", "d", 1).call("y", "be", 1)
    trace: Trace = steps.release(*"xabcde").trace()
    return trace


def test_h_dtr_local_counts_only_the_own_cost(play: Any, chain: Trace) -> None:
    """Cost over size times staleness; of equals the last to enter the pool goes.

    ====  =====  ==========================================  =====================================
    for   clock  scores in pool order                        what follows
    ====  =====  ==========================================  =====================================
    d     12     a 8/(10*3) = .267, b 1/(10*2) = .05         b goes; d, clock 13; pool a d c
    e     13     a 8/(10*4) = .2, c 2/(10*1) = .2            a tie: c, the later, goes; e, clock 14
    b     14     (y stamps b and e; b stamps and locks a,    d goes; b again, clock 15; pool e is
                 y has locked e) d 1/(10*1) = .1             locked; a
    y     15     a 8/(10*1) = .8                             a goes; y, clock 16
    ====  =====  ==========================================  =====================================

    Releases: x is pinned, a, c, d are gone, b and e go by the policy; y is the output, pinned.
    """
    run = play(chain, "h_DTR_local", 40)
    assert run.story == [
        "evict b",
        "evict c",
        "evict d",
        "recompute b",
        "evict a",
        "deallocate b",
        "deallocate e",
        "pin y",
    ]
    assert run.scores == [0.05, 0.2, 0.1, 0.8]
    assert (run["status"], run["clock"], run["model_ns"], run["remat_ns"]) == ("ok", 16, 14, 1)
    assert (run["evictions"], run["pressure_evictions"], run["rematerializations"]) == (6, 4, 1)
    assert (run["peak_bytes"], run["unlimited_peak_bytes"]) == (40, 70)
    assert run["evaluations"] == run["metadata_accesses"] == 2 + 2 + 1 + 1


@pytest.mark.parametrize("heuristic", ["h_DTR", "h_DTR_eq"])
def test_h_dtr_counts_what_is_evicted_around(play: Any, chain: Trace, heuristic: str) -> None:
    """The evicted neighborhood is part of the cost; here every class is one, too.

    ====  =====  ==============================================  ================================
    for   clock  scores in pool order                            what follows
    ====  =====  ==============================================  ================================
    d     12     a 8/(10*3), b 1/(10*2) = .05                    b goes; clock 13; pool a d c
    e     13     a (8+1)/(10*4) = .225, c (2+1)/(10*1) = .3      a goes; clock 14; pool c e d
    a     14     c (2+1+8)/(10*2) = .55, d 1/(10*1) = .1         d goes; a again, clock 22
    b     22     c (2+1+1)/(10*10) = .04                         c goes; b again, clock 23
    y     23     a 8/(10*9) = .0889                              a goes; y, clock 24
    ====  =====  ==============================================  ================================

    For a, y waits for b, which waits for a: a was evicted after b, and c has both above it.
    For b, c has b above it and d below it. For y, b is back: a has nobody evicted around it.
    """
    run = play(chain, heuristic, 40)
    assert run.story[:-1] == [
        "evict b",
        "evict a",
        "evict d",
        "recompute a",
        "evict c",
        "recompute b",
        "evict a",
        "deallocate b",
        "deallocate e",
    ]
    assert run.scores == [0.05, 0.225, 0.1, 0.04, 8 / 90]
    assert (run["status"], run["clock"], run["remat_ns"]) == ("ok", 24, 9)
    assert (run["evictions"], run["pressure_evictions"], run["rematerializations"]) == (7, 5, 2)


def test_h_lru_takes_the_one_unused_for_longest(play: Any, chain: Trace) -> None:
    """The score is the last access.

    ====  =====  =======================  ==========================
    for   clock  last access, pool order  what follows
    ====  =====  =======================  ==========================
    d     12     a 9, b 10                a goes; clock 13; pool b d c
    e     13     b 10, c 12               b goes; clock 14; pool c e d
    a     14     c 12, d 13               c goes; a again, clock 22
    b     22     d 13                     d goes; b again, clock 23
    y     23     a 14                     a goes; y, clock 24
    ====  =====  =======================  ==========================

    b's call, waiting for a, had stamped a at 14, before a was there.
    """
    run = play(chain, "h_LRU", 40)
    assert [step for step in run.story if not step.startswith("deallocate")] == [
        "evict a",
        "evict b",
        "evict c",
        "recompute a",
        "evict d",
        "recompute b",
        "evict a",
        "pin y",
    ]
    assert run.scores == [9, 10, 12, 13, 14]
    assert (run["clock"], run["remat_ns"]) == (24, 9)


def test_of_equal_scores_the_last_to_enter_the_pool_goes(play: Any, chain: Trace) -> None:
    """All storages are of one size: h_size is decided by the pool alone.

    d: pool a b, b goes. e: pool a c, c goes. b again: pool d, y: pool a.
    """
    run = play(chain, "h_size", 40)
    evicted = [step for step in run.story if step.startswith("evict")]
    assert evicted == ["evict b", "evict c", "evict d", "evict a"]
    assert run.scores == [0.1] * 4


def test_h_msps_adds_the_evicted_ancestors_only(play: Any, chain: Trace) -> None:
    """Cost and evicted ancestors over size: d: a .8, b .1. e: a .8, c (2+1)/10.

    b again: d (1 + c's 2 + b's 1)/10 = .4. y: a .8.
    """
    run = play(chain, "h_MSPS", 40)
    assert run.scores == [0.1, 0.3, 0.4, 0.8]
    assert run["clock"] == 16


def test_too_little_memory_ends_the_run_with_its_figures(play: Any, chain: Trace) -> None:
    """In 30 bytes x, b and e are there when y needs a place: all locked, out of memory.

    With h_LRU: c: a goes. d: b goes. e: c goes; clock 14, x d e in memory. y locks e; b needs a:
    d goes, clock 22, x e a; b needs a place while e and a are locked and x is pinned.
    """
    run = play(chain, "h_LRU", 30)
    assert run["status"] == "oom"
    assert run.story == ["evict a", "evict b", "evict c", "evict d", "recompute a"]
    assert (run["clock"], run["model_ns"], run["remat_ns"]) == (22, 13, 8)
    assert (run["peak_bytes"], run["base_compute_ns"]) == (30, 14)


def test_the_limit_ends_a_run_after_the_call_that_passes_it(play: Any, chain: Trace) -> None:
    """Under h_LRU a (8 ns) is recomputed, then b (1): clock 22, 23; the model's own are 14 ns.

    A limit of 7 ns ends the run after a, one of 8.4 after b, one of 14 not at all.
    """
    run = play(chain, "h_LRU", 40, slowdown_limit=1.5)
    assert (run["status"], run["clock"], run["remat_ns"]) == ("thrashed", 22, 8)
    run = play(chain, "h_LRU", 40, slowdown_limit=1.6)
    assert (run["status"], run["clock"], run["remat_ns"]) == ("thrashed", 23, 9)
    assert play(chain, "h_LRU", 40, slowdown_limit=2)["status"] == "ok"
    assert play(chain, "h_LRU", 40, slowdown_limit=None)["status"] == "ok"


def test_the_limit_may_be_reached(play: Any, pencil: Any) -> None:
    """b (1 ns, all 30 bytes) puts a (4 ns) out; c (3 ns) needs it again: 4 of the model's own 8."""
    steps = pencil("x", size=0).call("a", "x", 4).call("b", "x", 1, 30).release("b")
    trace = steps.call("c", "a", 3).trace()
    assert play(trace, "h_LRU", 30, slowdown_limit=1.5)["status"] == "ok"
    assert play(trace, "h_LRU", 30, slowdown_limit=1.25)["status"] == "thrashed"
