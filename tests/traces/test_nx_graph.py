"""Graphs of networkx: both dialects, what is inferred, known figures, and what may be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from rematsim.errors import TraceError
from rematsim.opcodes import CALL, RELEASE
from rematsim.simulation import simulate
from rematsim.traces.importing import Import, import_trace
from rematsim.traces.loading import load_trace

GRAPHS = Path(__file__).resolve().parents[2] / ".." / "shared" / "reference" / "graphs"


def graph(links: str = "links") -> dict[str, Any]:
    """Two layers, a loss and their backward nodes, as networkx writes them."""
    made = nx.DiGraph(name="two layers")
    for number, (name, size, cost) in enumerate(
        [("a", 4, 1), ("b", 8, 2.4), ("loss", 1, 0), ("b_backward", 8, 6), ("a_backward", 4, 3)]
    ):
        made.add_node(
            number, name=name, cost_ram=size, cost_cpu=cost, backward=name not in ("a", "b")
        )
    made.add_edges_from([(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)])
    written = nx.node_link_data(made, edges=links)
    assert set(written) == {"directed", "multigraph", "graph", "nodes", links}
    return written


def write(tmp_path: Path, values: object, name: str = "g.json") -> Path:
    (tmp_path / name).write_text(json.dumps(values))
    return tmp_path / name


def read(tmp_path: Path, values: object, **options: Any) -> Import:
    return import_trace([write(tmp_path, values)], **options)


def test_a_node_is_a_call_and_is_released_after_its_last_use(tmp_path: Path) -> None:
    """Worked out by hand; nothing is kept, so the loss and the last gradient go at once."""
    found = read(tmp_path, graph())
    trace = found.trace
    assert trace.names == ("a", "b", "loss", "b_backward", "a_backward")
    assert trace.operators == trace.names
    assert trace.result_bytes.tolist() == [4, 8, 1, 8, 4]
    assert trace.call_time_ns.tolist() == [10, 24, 0, 60, 30]  # one cost is 2.4
    assert trace.call_phase.tolist() == [1, 1, 2, 2, 2]
    assert trace.call_forward.tolist() == [-1, -1, -1, 1, 0]
    released = [trace.names[a] for code, a, _ in trace.instructions if code == RELEASE]
    assert released == ["b", "a", "loss", "b_backward", "a_backward"]
    assert trace.instructions[:, 0].tolist().count(CALL) == 5
    assert trace.n_constants == 0
    assert simulate(trace).unlimited_peak_bytes == 13
    assert found.summary.inferred["releases after last use"] == 5


def test_costs_without_a_unit_count_as_nanoseconds_and_are_said_to_be_estimated(
    tmp_path: Path,
) -> None:
    values = changed("nodes/1/cost_cpu", 2)
    without, micro = read(tmp_path, values), read(tmp_path, graph(), time_unit="us")
    assert without.trace.times_estimated
    assert without.trace.call_time_ns.tolist() == [1, 2, 0, 6, 3]
    assert without.summary.inferred == {
        "releases after last use": 5,
        "costs without a unit (1 counts as 1 ns: --time-unit)": 5,
    }
    assert not micro.trace.times_estimated
    assert micro.trace.call_time_ns.tolist() == [1_000, 2_400, 0, 6_000, 3_000]


def test_fractions_are_scaled_and_that_is_said(tmp_path: Path) -> None:
    """Rounded, costs of 0.4 and 2.4 would be 0 and 2; so 1 counts as 10, for all."""
    values = changed("nodes/2/cost_cpu", 0.4)
    found = read(tmp_path, values)
    assert found.trace.call_time_ns.tolist() == [10, 24, 4, 60, 30]
    assert found.trace.result_bytes.tolist() == [4, 8, 1, 8, 4]
    assert found.summary.inferred == {
        "releases after last use": 5,
        "costs without a unit (1 counts as 10 ns: --time-unit)": 5,
        "costs with fractions (scaled: 1 counts as 10 ns)": 2,
    }
    told = read(tmp_path, values, time_unit="ns")
    assert told.trace.call_time_ns.tolist() == [1, 2, 0, 6, 3]
    how = "rounded to whole ns; 2 rounded, by up to 100%"
    assert told.summary.inferred[f"costs with fractions ({how})"] == 2


def test_sizes_with_fractions_are_scaled_with_all_that_is_beside_them(tmp_path: Path) -> None:
    """Parameters and the fixed amount are in the same unit."""
    values = changed("nodes/0/cost_ram", 4.25)
    values["nodes"][1]["param_cost"] = 0.5
    found = read(tmp_path, values, fixed_bytes=2)
    assert found.trace.result_bytes.tolist() == [425, 800, 100, 800, 400]
    assert found.trace.constant_bytes.tolist() == [250]
    text = "sizes with fractions (scaled: 1 counts as 100 bytes, in budgets too)"
    assert found.summary.inferred[text] == 2


def test_numbers_without_end_are_cut_after_nine_digits(tmp_path: Path) -> None:
    """And sums of what is scaled stay below 2^53, where floats are exact."""
    third = read(tmp_path, changed("nodes/0/cost_cpu", 1 / 3)).trace.call_time_ns
    assert third.tolist()[:2] == [333_333_333, 2_400_000_000]
    large = changed("nodes/0/cost_cpu", 2**50 + 0.5)
    times = read(tmp_path, large).trace.call_time_ns
    assert times.tolist() == [2**50, 2, 0, 6, 3]


@pytest.mark.parametrize(
    ("cost", "beside", "told"),
    [
        (1 / 3, 3, "2 costs with fractions (scaled: 1 counts as 1000000000 ns; "
                   "1 rounded, by up to 1e-07%)"),
        (1e-9, 3.7e9, "2 costs with fractions (scaled: 1 counts as 1000000 ns; "
                      "1 rounded, by up to 100%)"),
        (2**50 + 0.5, 3, "2 costs with fractions (scaled: 1 counts as 1 ns; "
                         "2 rounded, by up to 16.7%)"),
        (1e-9, 3, "2 costs with fractions (scaled: 1 counts as 1000000000 ns)"),
        (2.9999999999, 3, "2 costs with fractions (scaled: 1 counts as 10 ns; "
                          "1 rounded, by up to 3.33e-09%)"),
    ],
)  # fmt: skip
def test_what_is_rounded_is_said_with_how_much(
    tmp_path: Path, cost: float, beside: float, told: str
) -> None:
    """A cost that is lost altogether changes by all of itself; 2.4 stands in the graph already."""
    values = changed("nodes/0/cost_cpu", cost)
    values["nodes"][4]["cost_cpu"] = beside
    made_of = read(tmp_path, values).trace.provenance
    assert made_of is not None and made_of.fractions == [told]


def test_the_fixed_amount_is_one_constant(tmp_path: Path) -> None:
    values = graph()
    values["nodes"][0]["param_cost"] = 5
    trace = read(tmp_path, values, fixed_bytes=100).trace
    assert trace.constant_bytes.tolist() == [105]
    assert simulate(trace).unlimited_peak_bytes == 118


def test_links_may_be_called_edges_and_be_there_twice(tmp_path: Path) -> None:
    values = graph("edges")
    values["edges"] += values["edges"]
    assert read(tmp_path, values).trace == read(tmp_path, graph()).trace


def other_dialect() -> dict[str, Any]:
    return {
        "directed": True,
        "multigraph": False,
        "graph": {
            "node_output_cost_tag": "out_cost",
            "node_duration_tag": "duration",
            "node_param_cost_tag": "param_cost",
            "order": [0, 2, 1],
        },
        "nodes": [
            {"out_cost": 7, "param_cost": 0, "duration": 2, "name": 0},
            {"out_cost": 1, "param_cost": 3, "duration": 5, "name": 1},
            {"out_cost": 2, "param_cost": 0, "duration": 1, "name": 2},
        ],
        "links": [{"0": 0, "1": 2}, {"0": 2, "1": 1}],
    }


def test_a_graph_may_name_its_attributes_and_its_order(tmp_path: Path) -> None:
    trace = read(tmp_path, other_dialect()).trace
    assert trace.names == ("fixed", "node0", "node2", "node1")
    assert trace.result_bytes.tolist() == [7, 2, 1]
    assert trace.call_time_ns.tolist() == [2, 1, 5]
    assert trace.constant_bytes.tolist() == [3]
    assert trace.operators == ("node",)
    assert trace.call_phase.tolist() == [0, 0, 0]


def changed(path: str, value: Any) -> dict[str, Any]:
    values = graph()
    *places, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    inner: Any = values
    for place in places:
        inner = inner[place]
    inner[last] = value
    return values


def without(path: str, key: str, **more: Any) -> dict[str, Any]:
    """The graph with an attribute of a node less, and perhaps others instead."""
    values = graph()
    node = values["nodes"][int(path.split("/")[1])]
    del node[key]
    node.update(more)
    return values


BROKEN: dict[str, tuple[object, str]] = {
    "undirected": (
        changed("directed", False),
        "directed is not true, and a graph of calls is directed",
    ),
    "nodes": (changed("nodes", 3), "graph: nodes 3 is not what it should be"),
    "node": (changed("nodes/1", 3), "node 1: 3 is no JSON object"),
    "id": (changed("nodes/1/id", None), "node 1: id null is not what it should be"),
    "twice": (changed("nodes/1/id", 0), "node 1: there is a node 0 already"),
    "no size": (
        changed("nodes/1/cost_ram", None),
        "node 1: cost_ram null is not a number from 0 to 2^53",
    ),
    "negative": (
        changed("nodes/1/cost_cpu", -1),
        "node 1: cost_cpu -1 is not a number from 0 to 2^53",
    ),
    "huge": (
        changed("nodes/1/cost_ram", 10**400),
        "node 1: cost_ram an integer of 1329 bits is not a number from 0 to 2^53",
    ),
    "link": (changed("links/0/source", 9), "link 0: there is no node 9"),
    "no link": (changed("links/0", {}), "link 0: no '0'"),
    "itself": (
        changed("links/0", {"source": 1, "target": 1}),
        "cycle 1 -> 1: a graph of calls has none",
    ),
    "cycle": (
        changed("links/0", {"source": 3, "target": 1}),
        "cycle 1 -> 2 -> 3 -> 1: a graph of calls has none",
    ),
    "not in order": (
        changed("graph/order", [1, 0, 2, 3, 4]),
        "node 1 reads 0, which is not before it in the order of the file",
    ),
    "text": (
        changed("nodes/1/cost_cpu", "5 ms"),
        "node 1: cost_cpu '5 ms' is text: numbers stand without a unit, all in the same",
    ),
    "mixed units": (
        without("nodes/1", "cost_cpu", duration=5),
        "node 1: no 'cost_cpu', but 'duration': all nodes say it under one name, in one unit",
    ),
    "no cost": (
        without("nodes/1", "cost_ram"),
        "node 1: no 'cost_ram': all nodes say it under one name, in one unit",
    ),
    "negative size": (
        changed("nodes/2/cost_ram", -0.5),
        "node 2: cost_ram -0.5 is not a number from 0 to 2^53",
    ),
    "negative parameters": (
        without("nodes/2", "name", param_cost=-3),
        "node 2: param_cost -3 is not a number from 0 to 2^53",
    ),
    "order": (changed("graph/order", [0, 1]), "order: 2 entries are not the 5 nodes"),
    "order as text": (
        changed("graph/order", "01234"),
        "graph: order '01234' is not what it should be",
    ),
    "graph": (
        changed("graph", "two layers"),
        "the file: graph 'two layers' is not what it should be",
    ),
    "name of sizes": (
        changed("graph/node_output_cost_tag", 3),
        "graph: node_output_cost_tag 3 is not what it should be",
    ),
    "backward": (
        changed("nodes/1/backward", "yes"),
        "node 1: backward 'yes' is not what it should be",
    ),
    "no number": (
        changed("nodes/1/cost_cpu", float("nan")),
        "node 1: cost_cpu nan is not a number from 0 to 2^53",
    ),
    "infinite": (
        changed("nodes/2/cost_ram", float("inf")),
        "node 2: cost_ram inf is not a number from 0 to 2^53",
    ),
    "minus infinite": (
        changed("nodes/2/cost_ram", -float("inf")),
        "node 2: cost_ram -inf is not a number from 0 to 2^53",
    ),
    "order of what": (changed("graph/order", [0, []]), "order: there is no node []"),
    "empty": (changed("nodes", []) | {"links": []}, "no instructions: the trace is empty"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_graph_is_refused_with_its_message(tmp_path: Path, what: str) -> None:
    values, message = BROKEN[what]
    path = write(tmp_path, values)
    with pytest.raises(TraceError) as caught:
        load_trace(path, cache=False)
    assert str(caught.value) == f"{path}: {message}"


def test_a_long_cycle_is_cut_and_a_large_time_named(tmp_path: Path) -> None:
    ring = nx.DiGraph()
    ring.add_nodes_from(range(99), cost_ram=1, cost_cpu=1)
    nx.add_cycle(ring, range(99))
    shown = "0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> ... -> 0"
    with pytest.raises(TraceError, match=f"g.json: cycle {shown}: a graph of calls has none"):
        read(tmp_path, nx.node_link_data(ring, edges="links"))
    with pytest.raises(TraceError, match=r"node 0: cost_cpu 10+ is more than 2\^53 ns, at 1000"):
        read(tmp_path, changed("nodes/0/cost_cpu", 10**15), time_unit="us")


def test_a_graph_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps(graph())[:-30])
    with pytest.raises(TraceError, match=r"g.json: networkx node-link graph: not JSON .*cut off$"):
        load_trace(path)


# Peak of computing in order and freeing after the last use, and the sum of costs, of the files'
# nodes; both were reckoned by others from the same files.
KNOWN = {
    "vgg16_b256_train": (15_825_108_992, 15_500),
    "vgg19_b256_train": (17_058_234_368, 9_493_135),
    "mobilenet_b512_train": (34_701_056_000, 162_080),
    "unet_b32_train": (20_959_461_376, 31_005),
    "random_layered_n100": (46_319, 47_769),
    "random_layered_n500": (284_439, 255_302),
}


@pytest.mark.skipif(not GRAPHS.exists(), reason=f"there is no {GRAPHS}")
@pytest.mark.parametrize("name", KNOWN)
def test_a_published_graph_has_its_known_peak_and_cost(name: str) -> None:
    trace = load_trace(GRAPHS / f"{name}.json", cache=False)
    assert (simulate(trace).unlimited_peak_bytes, trace.compute_ns) == KNOWN[name]
