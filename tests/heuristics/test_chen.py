"""Checkpoints of a forward pass: published figures on graphs of the literature and on toys."""

from __future__ import annotations

from typing import Any

import pytest
from planner_graphs import gigabytes, linear, reference_graph
from rematsim.errors import InputError
from rematsim.heuristics.static import get
from rematsim.heuristics.static.chen_greedy import greedy_checkpoints, segment_sizes
from rematsim.heuristics.static.chen_sqrt import sqrt_checkpoints
from rematsim.heuristics.static.registry import NO_PLAN, NOT_APPLICABLE, OPTIMAL
from rematsim.heuristics.static.segments import Segments, candidates, forward_nodes
from rematsim.heuristics.static.stages import schedule_of
from rematsim.static_graph import StaticGraph, evaluate, naive_peak_bytes
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.workload import workload

VGG16, VGG19, UNET, MOBILENET = "vgg16_b256", "vgg19_b256", "unet_b32", "mobilenet_b512"

# Slowdown, peak in GB as published and trimmed: all as checkpoints, every k-th; linear, AP.
ALL = {
    (VGG16, "linear"): (1, 19.585, 15.825),
    (VGG16, "articulation"): (1, 19.585, 15.825),
    (VGG19, "linear"): (1, 20.921, 17.058),
    (MOBILENET, "linear"): (1, 37.826, 34.701),
    (UNET, "linear"): (1, 22.950, 20.959),
    (UNET, "articulation"): (1.2132, 30.909, 20.959),
}
SQRT = {
    (VGG16, "linear"): (1.2816, 15.316, 13.975),
    (VGG16, "articulation"): (1.2816, 15.316, 13.975),
    (VGG19, "articulation"): (1.5367, 17.779, 13.975),
    (MOBILENET, "articulation"): (1.1437, 18.044, 13.464),
    (UNET, "linear"): (1.4125, 15.066, 11.914),
    (UNET, "articulation"): (1.2671, 27.518, 16.815),
}
LAST = {VGG16: (6.615, 13.153), VGG19: (13.416, 13.153), MOBILENET: (7.709, 6.636),
        UNET: (8.207, 11.627)}  # fmt: skip

# Points that some segment size reaches: peak in GB, slowdown.
FRONTS = {
    (VGG16, "linear", "faithful"): [(13.153, 1.0784), (18.086, 1.039), (19.524, 1)],
    (VGG16, "linear", "trimmed"): [(13.153, 1.0784), (15.209, 1.039), (15.825, 1)],
    (UNET, "linear", "faithful"): [
        (13.018, 1.2719), (14.313, 1.2388), (15.659, 1.2313), (16.213, 1.199), (17.767, 1.1956),
        (18.828, 1.1706), (21.023, 1.1343), (22.18, 1.0671), (22.82, 1.0189),
    ],
    (UNET, "linear", "trimmed"): [(10.36, 1.4693), (11.914, 1.2313), (20.83, 1.0189)],
    (UNET, "articulation", "faithful"): [(23.688, 1.2313), (30.909, 1.2132)],
}  # fmt: skip


def figures(graph: StaticGraph, method: str) -> tuple[float, float]:
    """Give slowdown and peak in GB of a method's plan."""
    found = get(method).plan(graph).predicted
    assert found is not None
    return round(found.cost / graph.base_cost, 4), gigabytes(found.peak_bytes)


@pytest.mark.parametrize("method", ["checkpoint-all", "chen-sqrt"])
@pytest.mark.parametrize(("name", "points"), sorted({*ALL, *SQRT}))
def test_checkpoints_have_the_published_figures(method: str, name: str, points: str) -> None:
    known = (ALL if method == "checkpoint-all" else SQRT).get((name, points))
    if known is None:
        return
    graph = reference_graph(name)
    slowdown, faithful, trimmed = known
    assert figures(graph, f"{method}(points={points},mode=faithful)") == (slowdown, faithful)
    assert figures(graph, f"{method}(points={points})") == (slowdown, trimmed)


@pytest.mark.parametrize("name", LAST)
def test_checkpoint_last_has_the_published_figures(name: str) -> None:
    slowdown, peak = figures(reference_graph(name), "checkpoint-last")
    assert (round(slowdown, 3), peak) == LAST[name]


@pytest.mark.parametrize(("name", "points", "mode"), FRONTS)
def test_greedy_reaches_the_published_fronts(name: str, points: str, mode: str) -> None:
    """For each known point there is one of no more memory and no more time."""
    graph = reference_graph(name)
    planner = get(f"chen-greedy(points={points},mode={mode})")
    for peak, slowdown in FRONTS[name, points, mode]:
        found = planner.plan(graph, int((peak + 0.0005) * 1e9))
        assert found.predicted is not None, (peak, found.message)
        assert round(found.predicted.cost / graph.base_cost, 4) <= slowdown


@pytest.mark.parametrize(
    ("name", "points", "count"),
    [(VGG16, "articulation", 22), (MOBILENET, "articulation", 92), (UNET, "articulation", 10),
     (VGG19, "articulation", 25), (UNET, "linear", 35)],
)  # fmt: skip
def test_candidates_are_as_many_as_known(name: str, points: str, count: int) -> None:
    assert len(candidates(reference_graph(name), points)) == count


def forked() -> StaticGraph:
    """Read 0 by 1, 1 by 2 and 3, 2 by 3, 3 by 4; a loss of 4, and gradients."""
    builder = TraceBuilder("forked")
    reads: list[list[int]] = [[], [0], [1], [1, 2], [3], [4], [5]]
    for node, read in enumerate(reads):
        result = [(f"x{node}", 1, -1)]
        builder.call("f", [f"x{r}" for r in read], result, 1, phase=1 if node < 5 else 2)
    for node in range(len(reads)):
        builder.release(f"x{node}")
    return workload(builder.build(), cached=False).graph


def test_both_ends_are_articulation_points_and_what_is_passed_by_is_none() -> None:
    assert candidates(forked(), "articulation") == [0, 1, 3, 4]
    assert candidates(forked(), "linear") == [0, 1, 2, 3, 4]


TOYS: list[tuple[int, Any, Any, Any]] = [
    (8, None, (17, 10), (17, 10)),
    (8, [1, 3, 5, 7], (21, 7), (21, 7)),
    (16, None, (33, 18), (33, 18)),
    (16, [3, 7, 11, 15], (45, 10), (45, 9)),
]


@pytest.mark.parametrize(("n", "checkpoints", "faithful", "trimmed"), TOYS)
def test_toys_have_the_known_cost_and_peak(
    n: int, checkpoints: list[int] | None, faithful: Any, trimmed: Any
) -> None:
    graph = linear(n)
    nodes = candidates(graph, "linear")
    assert nodes == forward_nodes(graph) == list(range(n))
    chosen = nodes if checkpoints is None else list(sqrt_checkpoints(nodes))
    assert checkpoints in (None, chosen)
    kept = Segments(graph).kept(chosen)
    assert evaluate(graph, schedule_of(graph, kept, is_trimmed=False)) == faithful
    assert evaluate(graph, schedule_of(graph, kept)) == trimmed


def test_greedy_takes_a_checkpoint_when_a_segment_is_full() -> None:
    graph = linear(16)
    found = next(greedy_checkpoints(graph, range(16), [2]))
    assert found == (2, 5, 8, 11, 14)
    assert evaluate(graph, schedule_of(graph, Segments(graph).kept(found))) == (43, 9)
    assert segment_sizes(graph, range(16))[:20] == [b // 10 for b in range(20)]  # tenths of 10


@pytest.mark.parametrize(("n", "cost"), [(8, 53), (16, 169)])
def test_checkpoint_last_takes_three_units_and_the_square_of_the_time(n: int, cost: int) -> None:
    found = get("checkpoint-last").plan(linear(n), 3)
    assert found.predicted == (cost, 3)


def test_greedy_takes_the_cheapest_that_fits() -> None:
    """More budget never costs more; at the peak of computing once, nothing is computed again."""
    graph = linear(16)
    peak = naive_peak_bytes(graph)
    costs = []
    for budget in range(9, peak + 1):
        found = get("chen-greedy").plan(graph, budget)
        assert found.predicted is not None and found.predicted.peak_bytes <= budget
        costs.append(found.predicted.cost)
    assert costs == sorted(costs, reverse=True) and costs[-1] == graph.base_cost
    assert get("chen-greedy").plan(graph, peak).status == OPTIMAL


def test_what_does_not_fit_is_told_with_the_least_that_would() -> None:
    found = get("chen-sqrt").plan(linear(16), 8)
    assert (found.status, found.schedule) == (NO_PLAN, None)
    assert found.message == "the smallest of its plans takes 9 bytes, the budget is 8"


@pytest.mark.parametrize("method", ["chen-sqrt", "chen-greedy", "checkpoint-all"])
def test_without_a_backward_pass_they_do_not_apply(method: str) -> None:
    builder = TraceBuilder("forward only")
    builder.call("f", [], [("a", 1, -1)], 1)
    builder.call("f", ["a"], [("b", 1, -1)], 1)
    graph = workload(builder.build(), cached=False).graph
    assert get(method).plan(graph).status == NOT_APPLICABLE
    with pytest.raises(InputError, match=rf"{method}: points \(all\): it is linear or artic"):
        get(f"{method}(points=all)").plan(linear(4))


@pytest.mark.parametrize("trace", ["bundled:unet", "bundled:resnet32"])
def test_on_traces_of_models_they_save_memory(trace: str) -> None:
    """Calls with several results, views and outputs: less memory than computing once."""
    graph = workload(load_trace(trace)).graph
    peak = naive_peak_bytes(graph)
    found = get("chen-sqrt(points=articulation)").plan(graph).predicted
    assert found is not None
    assert found.peak_bytes < 0.9 * peak and found.cost < 1.4 * graph.base_cost
