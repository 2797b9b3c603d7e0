"""Views, siblings, classes, outputs, mutation and releases, each in a trace of a few calls."""

from __future__ import annotations

from typing import Any

import pytest


def evicted(run: Any) -> list[str]:
    """Give what memory forced out, in order."""
    return [step.split()[1] for step in run.story if step.startswith("evict")]


def test_a_class_keeps_its_phantoms(play: Any, pencil: Any) -> None:
    """The union-find still counts w for m when p, which joined them, is back.

    ::

        x -- p -- u -- k        costs: p 1, u 2, v 3, w 4, k 1, m 20, t 25, the rest 1;
              `-- v -- m        p and u have no bytes (scored infinite), the rest 10
              `-- w

    p, u, v, w are dropped and evicted: one class of cost 10. t, k, m are in memory: 30 of 50.

    B (30 bytes) needs one gone. Without staleness, times 10: t 25; k 1 + u 2 + p 1 = 4, m 20 + v 3
    + p 1 = 24; by class k 1 + 10 = 11, m 20 + 10 = 30. k goes either way, and joins the class: 11.
    B is dropped. s(k) needs k again, that u, that p: the class is worth 11 - 1 - 2 - 1 = 7 = v + w.
    z(k, s) locks k and s: t 25, m 20 + v 3 = 23, by class m 20 + 7 = 27. So m goes; by class t.
    """

    def hub() -> Any:
        steps = pencil("x", size=0).call("t", "x", 25).call("p", "x", 1, 0).call("u", "p", 2, 0)
        steps.call("v", "p", 3).call("w", "p", 4).call("k", "u", 1).call("m", "v", 20)
        steps.release(*"puvw").call("B", "x", 1, 30).release("B")
        return steps.call("s", "k", 1).call("z", "ks", 1, 20).release(*"tkms").trace()

    exact = play(hub(), "h_abl_estar_size", 50)
    assert evicted(exact) == ["k", "m"]
    assert exact.scores == [0.4, 2.3]
    classes = play(hub(), "h_abl_eq_size", 50)
    assert evicted(classes) == ["k", "t"]
    assert classes.scores == [1.1, 2.5]
    assert exact["remat_ns"] == classes["remat_ns"] == 1 + 2 + 1


def test_a_score_of_zero_ends_the_search(play: Any, pencil: Any) -> None:
    """a costs 5, b and c nothing: b, the first that scores 0, goes, after two scores.

    e (no bytes, 1 ns) lets the clock go from 6 to 7. Pool when d needs a place: a b c e;
    a 5/(10*1) = .5, b 0.
    """
    steps = pencil("x", size=0).call("a", "x", 5).call("b", "x", 0).call("c", "x", 0)
    steps.call("e", "x", 1, 0).call("d", "x", 1).release(*"abced")
    run = play(steps.trace(), "h_DTR_local", 30)
    assert evicted(run) == ["b"]
    assert run.scores == [0]
    assert run["evaluations"] == 2


def test_nothing_stale_scores_infinite(play: Any, pencil: Any) -> None:
    """Of a, b (0 ns) and c all were used at this very clock; the last of the infinite goes.

    a 3 ns, clock 4; b and c take no time: last access 4 for all, staleness 0.
    """
    steps = pencil("x", size=0).pair("ab", "x", 3).call("c", "ab", 0)
    run = play(steps.call("d", "x", 1).release(*"abcd").trace(), "h_DTR_local", 30)
    assert run.scores == [float("inf")]
    assert evicted(run) == ["b"]


def test_a_view_can_be_undefined_on_a_material_storage(play: Any, pencil: Any) -> None:
    """a's eviction takes its view v along; a comes back alone, v when it is read.

    a 4 ns, v 3, b 1; clock 9. b (30 bytes of 30) takes a's place: a's score counts v's call, 7/10.
    Dropping b makes room. c(a) runs a again (4). d(v) runs v again (3): no bytes, no eviction.
    """
    steps = pencil("x", size=0).call("a", "x", 4).view("v", "a", 3).call("b", "x", 1, 30)
    trace = steps.release("b").call("c", "a", 1).call("d", "v", 1).release(*"avcd").trace()
    run = play(trace, "h_abl_local_size", 30)
    assert run.story[:4] == ["evict a", "deallocate b", "recompute a", "recompute a"]
    assert run.scores == [0.7]
    assert (run["remat_ns"], run["rematerializations"], run["pressure_evictions"]) == (7, 2, 1)
    assert run["peak_bytes"] == 30


def test_a_sibling_computed_twice_is_dropped_after_the_peak(play: Any, pencil: Any) -> None:
    """a and b are made by one call; a alone was evicted, so b is there twice while it runs again.

    Siblings enter the pool before the result that was asked for: pool b a. c (20 bytes of 30)
    takes a's place (a tie, a entered last) and is dropped. d(a): b 10, a and b anew make 30, the
    second b goes, d makes 30.
    """
    steps = pencil("x", size=0).pair("ab", "x", 5).call("c", "x", 1, 20).release("c")
    run = play(steps.call("d", "a", 1).release(*"ab").trace(), "h_size", 30)
    assert run.story == [
        "evict a",
        "deallocate c",
        "recompute a",
        "recompute b",
        "drop_duplicate b",
        "deallocate a",
        "deallocate b",
        "pin d",
    ]
    assert (run["peak_bytes"], run["remat_ns"]) == (30, 5)


def test_outputs_are_made_again_in_the_order_of_their_names(play: Any, pencil: Any) -> None:
    """a and b had to go for c and d; at the end both are made again, a first, and pinned.

    h_LRU, 40 bytes: d (20) puts a out, of a 2, b 3, c 4; e (10) puts b out. d and e are dropped.
    """
    steps = pencil("x", size=0).call("a", "x", 1).call("b", "x", 1).call("c", "x", 1)
    steps.call("d", "x", 1, 20).call("e", "x", 1).release("d", "e")
    run = play(steps.trace(), "h_LRU", 40, slowdown_limit=None)
    assert run.story == [
        "evict a",
        "evict b",
        "deallocate d",
        "deallocate e",
        "recompute a",
        "pin a",
        "recompute b",
        "pin b",
        "pin c",
    ]
    assert (run["status"], run["remat_ns"]) == ("ok", 2)


@pytest.mark.parametrize(
    ("policy", "story", "evictions", "peak"),
    [
        ("ignore", ["pin b", "pin c"], 0, 40),
        ("eager", ["deallocate a", "pin b", "pin c"], 1, 30),
        ("banish", ["banish x", "pin a", "banish a", "pin b", "pin c"], 2, 20),
    ],
)
def test_what_a_release_does(
    play: Any, pencil: Any, policy: str, story: list[str], evictions: int, peak: int
) -> None:
    """The policy alone decides what an unlimited run holds: x, a(x), b(a), c(b), one after another.

    x is dropped after a: only banish lets a constant go, and pins a, which cannot be made again.
    a is dropped after b: eager evicts it, though b would need it again; banish may, since b is
    computed, and pins b. At c: x a b c, x b c, b c (two at a time are the most under banish).
    """
    steps = pencil("x").call("a", "x", 1).release("x").call("b", "a", 1)
    trace = steps.release("a").call("c", "b", 1).trace()
    run = play(trace, "h_LRU", None, deallocation=policy)
    assert run.story == story
    assert run["evictions"] == evictions
    assert run["peak_bytes"] == peak
    assert run["unlimited_peak_bytes"] == 20


def test_banish_waits_for_those_that_need_it(play: Any, pencil: Any) -> None:
    """b was evicted and waits for a: a, dropped, stays until b is there again.

    h_LRU, 40 bytes. Clock 2, 3, 4 after a(x), b(a), c(a). d(a) has 20 bytes: of b (3) and c (4)
    b goes. d goes at once when dropped; a is awaited by b; c goes. e(b) runs b again at 5: then
    nobody awaits a, which goes and leaves b pinned; b, dropped at last, goes all the same.
    """
    steps = pencil("x", size=0).call("a", "x", 1).call("b", "a", 1).call("c", "a", 1)
    steps.call("d", "a", 1, 20).release(*"dac").call("e", "b", 1).release("b")
    run = play(steps.trace(), "h_LRU", 40, deallocation="banish")
    assert run.story == [
        "evict b",
        "banish d",
        "banish c",
        "recompute b",
        "banish a",
        "pin b",
        "banish b",
        "pin e",
    ]
    assert run.scores == [3]
    assert (run["clock"], run["remat_ns"], run["evictions"]) == (7, 1, 5)


def test_mutation_copies_and_rebinds(play: Any, pencil: Any) -> None:
    """Writing into a makes a', of a's size, and drops a; both are there while it runs."""
    trace = pencil("x", size=0).call("a", "x", 2).mutate("ax", [0], 3).call("b", "a", 1).trace()
    run = play(trace, "h_LRU", None)
    assert run.story == ["deallocate a", "pin a'", "pin b"]
    assert (run["peak_bytes"], run["unlimited_peak_bytes"], run["clock"]) == (20, 20, 7)


def test_mutation_in_place_takes_the_bytes_over(play: Any, pencil: Any) -> None:
    """In place, a' takes a's bytes: 10 suffice where a copy needs 20, and nothing is evicted."""
    trace = pencil("x", size=0).call("a", "x", 2).mutate("ax", [0], 3).trace()
    run = play(trace, "h_LRU", 10, mutation="inplace")
    assert run.story == ["take_over a", "pin a'"]
    assert (run["status"], run["peak_bytes"], run["evictions"]) == ("ok", 10, 0)
    assert play(trace, "h_LRU", 10)["status"] == "oom"


def test_what_was_written_over_can_be_made_again(play: Any, pencil: Any) -> None:
    """k still means the old a, which a' took over: reading k makes it again, from x, in 2 ns."""
    steps = pencil("x", size=0).call("a", "x", 2).copy("k", "a").mutate("ax", [0], 3)
    run = play(steps.call("b", "k", 1).release("k").trace(), "h_LRU", None, mutation="inplace")
    assert run.story == ["take_over a", "recompute a", "deallocate a", "pin a'", "pin b"]
    assert (run["remat_ns"], run["clock"], run["peak_bytes"]) == (2, 9, 30)


def test_what_cannot_be_made_again_is_taken_over_too(play: Any, pencil: Any) -> None:
    """Under banish p goes for good and pins a; a' takes a's bytes all the same, and a goes."""
    steps = pencil("x", size=0).call("p", "x", 1).call("a", "p", 2).release("p")
    trace = steps.mutate("ax", [0], 3).trace()
    options = {"mutation": "inplace", "deallocation": "banish"}
    run = play(trace, "h_LRU", None, **options)
    assert run.story == ["banish p", "pin a", "take_over a", "banish a", "pin a'"]
    assert run["peak_bytes"] == 20


def test_a_view_that_the_call_returns_keeps_the_old_bytes(play: Any, pencil: Any) -> None:
    """v, which the call that writes into a returns, shows the old a: so a' is a copy, 20 bytes."""
    steps = pencil("x", size=0).call("a", "x", 2)
    steps.builder.call("op_", ["a"], [("v", 0, 0)], 3, mutates=[0])
    run = play(steps.trace(), "h_LRU", None, mutation="inplace")
    assert run.story == ["pin a'", "pin a"]
    assert (run["peak_bytes"], run["remat_ns"]) == (20, 0)
