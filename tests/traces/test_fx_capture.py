"""The joint graph of a model, held against an eager capture of the same step.

Two things differ for good. A joint graph is functional: what batch norm writes to its statistics
are results. And its values go after their last use, where eager Python holds what it has names for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rematsim import traces
from rematsim.opcodes import CALL, CONSTANT, RELEASE
from rematsim.simulation import simulate
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace

FORWARD, BACKWARD = 1, 2
# What the graph calls otherwise. What makes no memory of its own, or once where the other does so
# in the other phase (the gradient of the loss), is not compared.
SAME = {
    "_unsafe_view": "view",
    "add_": "add",
    "native_batch_norm": "_native_batch_norm_legit_functional",
}
ASIDE = ("detach", "ones_like", "empty")


def perceptron(torch: Any) -> tuple[Any, Any]:
    nn = torch.nn
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), torch.randn(32, 64)


def convolutions(torch: Any) -> tuple[Any, Any]:
    nn = torch.nn
    body = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    return nn.Sequential(*body, *head), torch.randn(8, 3, 16, 16)


def transformer(torch: Any) -> tuple[Any, Any]:
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.to_qkv = nn.LayerNorm(32), nn.Linear(32, 96)
            self.wide, self.narrow = nn.Linear(32, 64), nn.Linear(64, 32)

        def forward(self, x: Any) -> Any:
            parts = self.to_qkv(self.norm(x)).split(32, -1)
            q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in parts)
            attention = (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1) @ v
            x = x + attention.transpose(1, 2).flatten(2)
            return x + self.narrow(nn.functional.gelu(self.wide(x)))

    layers = (nn.Embedding(10, 32), Block(), nn.Flatten(), nn.Linear(16 * 32, 10))
    return nn.Sequential(*layers), torch.randint(0, 10, (4, 16))


MODELS = [perceptron, convolutions, transformer]


@pytest.fixture(params=MODELS, ids=lambda make: make.__name__)
def pair(request: Any, torch: Any, tmp_path: Path) -> tuple[Trace, Trace]:
    """A joint graph and a capture of one step."""
    make: Callable[[Any], tuple[Any, Any]] = request.param
    from rematsim.traces.fx_dump import dump_joint_graph

    body, x = make(torch)

    class WithLoss(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.body = body

        def forward(self, x: Any, y: Any) -> Any:
            return torch.nn.functional.cross_entropy(self.body(x), y)

    model, args = WithLoss(), (x, torch.zeros(len(x), dtype=torch.int64))
    dump_joint_graph(model, args, tmp_path / "graph.json")
    with traces.capture(model) as log:
        loss = model(*args)
        loss.backward()
    return load_trace(tmp_path / "graph.json", cache=False), log.trace


def operators(trace: Trace, phase: int) -> list[str]:
    names = [trace.operators[k] for k in trace.call_operator[trace.call_phase == phase]]
    bare = [name.removeprefix("aten.").partition(".")[0] for name in names]
    return [SAME.get(name, name) for name in bare if name not in ASIDE]


def test_the_operators_are_the_same(pair: tuple[Trace, Trace]) -> None:
    """Forward in one order; backward in that of the graph, or of the engine."""
    graph, eager = pair
    assert Counter(operators(graph, FORWARD)) == Counter(operators(eager, FORWARD))
    assert Counter(operators(graph, BACKWARD)) == Counter(operators(eager, BACKWARD))


def made(trace: Trace) -> Counter[int]:
    """Count the sizes of the storages that calls make, those set aside left out."""
    calls = np.repeat(np.arange(trace.n_calls), np.diff(trace.result_offsets))
    sizes: Counter[int] = Counter()
    for call, size in zip(calls, trace.result_bytes.tolist(), strict=True):
        name = trace.operators[trace.call_operator[call]].removeprefix("aten.").partition(".")[0]
        if size and name not in ASIDE:
            sizes[size] += 1
    return sizes


def test_results_have_the_same_sizes(pair: tuple[Trace, Trace]) -> None:
    """Batch norm's statistics aside: means, variances (8 numbers of 4 bytes), and a count of 8."""
    graph, eager = pair
    has_statistics = "_native_batch_norm_legit_functional" in operators(graph, FORWARD)
    assert made(graph) - made(eager) == (Counter({32: 2, 8: 1}) if has_statistics else Counter())
    assert not made(eager) - made(graph)


def peak_without_names(trace: Trace) -> int:
    """Largest sum of bytes if each storage went after its last use, unless it stays anyway."""
    released = {a for code, a, _ in trace.instructions.tolist() if code == RELEASE}
    lives: dict[int, list[int]] = {}  # by name: first call, last call and bytes of its storage
    for code, a, b in trace.instructions.tolist():
        if code == CONSTANT:
            lives[a] = [0, trace.n_calls, int(trace.constant_bytes[b])]
        elif code == CALL:
            args = trace.arg_names[slice(*trace.arg_offsets[a : a + 2])].tolist()
            results = slice(*trace.result_offsets[a : a + 2])
            names, sizes = trace.result_names[results].tolist(), trace.result_bytes[results]
            for k, alias in enumerate(trace.result_alias[results].tolist()):
                base = args[alias] if alias >= 0 else names[-alias - 2]
                lives[names[k]] = [a, a, int(sizes[k])] if alias == -1 else lives[base]
            for name in (*args, *names):
                lives[name][1] = max(lives[name][1], a)
    for name in lives.keys() - released:
        lives[name][1] = trace.n_calls
    change = np.zeros(trace.n_calls + 2, np.int64)
    for first, last, size in {id(life): life for life in lives.values()}.values():
        change[first] += size
        change[last + 1] -= size
    return int(change.cumsum().max())


def test_the_peak_is_the_same_but_for_what_python_holds(pair: tuple[Trace, Trace]) -> None:
    """Up to 80 bytes: new statistics of batch norm (72), and a scalar of 4 for the loss."""
    graph, eager = pair
    peak = simulate(graph).unlimited_peak_bytes
    assert peak == peak_without_names(graph)
    assert abs(peak - peak_without_names(eager)) <= 80
    assert simulate(eager).unlimited_peak_bytes >= peak_without_names(eager)
