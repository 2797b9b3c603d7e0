"""Training steps from forward passes: what a synthetic model computes, and how that is undone.

A model says which calls its forward pass makes; ``repeat`` adds the loss, the backward pass, and
the releases, each after the last use. Nothing is measured and nothing is particular to a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..opcodes import PHASE_BACKWARD, PHASE_FORWARD
from .builder import TraceBuilder
from .trace import Trace

SCALAR_BYTES, SCALAR_NS = 4, 1_000


class _Call(NamedTuple):
    operator: str
    args: list[str]
    results: list[tuple[str, int, int]]
    time_ns: int
    module: str = ""
    phase: int = PHASE_FORWARD
    forward: int = -1


class Step:
    """One training step on its way into a trace.

    Parameters
    ----------
    builder : TraceBuilder
    prefix : str
        What the names of the step begin with.
    constants : dict of str to int
        Weights and inputs with their sizes; all steps share them.
    """

    def __init__(self, builder: TraceBuilder, prefix: str, constants: dict[str, int]) -> None:
        self._builder = builder
        self._prefix = prefix
        self._constants = constants
        self._inputs: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._calls: list[_Call] = []
        self._module = ""

    def weight(self, name: str, size_bytes: int) -> str:
        """Name a weight: a constant that gets a gradient."""
        if name not in self._constants:
            self._builder.constant(name, size_bytes)
            self._constants[name] = size_bytes
        self._sizes[name] = size_bytes
        return name

    def input(self, name: str, size_bytes: int) -> str:
        """Name an input: a constant that gets no gradient."""
        self._inputs.add(name)
        return self.weight(name, size_bytes)

    def call(self, operator: str, args: list[str], size_bytes: int, time_ns: int) -> str:
        """Make a call of the forward pass; give the name of its result."""
        return self._add(_Call(operator, args, [], time_ns, self._module), size_bytes, -1)

    def view(self, operator: str, of: str) -> str:
        """Make a view; give its name."""
        return self._add(_Call(operator, [of], [], SCALAR_NS, self._module), self._sizes[of], 0)

    @contextmanager
    def module(self, path: str) -> Iterator[None]:
        """Let the calls in a ``with`` block belong to a module."""
        before, self._module = self._module, path
        yield
        self._module = before

    def finish(self, output: str, *, is_last: bool) -> None:
        """Add loss, backward pass and releases; only the last step keeps its gradients."""
        loss = self._add(_Call("loss", [output], [], SCALAR_NS), SCALAR_BYTES, -1)
        n_forward = len(self._calls)
        gradients = self._backward(loss)
        kept = {loss, *(gradients[name] for name in self._constants if name in gradients)}
        self._emit(n_forward, kept)
        if not is_last:
            for name in sorted(kept):
                self._builder.release(name)

    def _add(self, call: _Call, size_bytes: int, alias: int) -> str:
        """Append a call with one new result."""
        name = f"{self._prefix}x{len(self._sizes)}"
        self._sizes[name] = size_bytes
        self._calls.append(call._replace(results=[(name, size_bytes, alias)]))
        return name

    def _backward(self, loss: str) -> dict[str, str]:
        """Append the backward pass; give the name of each value's gradient."""
        seed = _Call("ones_like", [], [], SCALAR_NS, phase=PHASE_BACKWARD)
        gradients = {loss: self._add(seed, SCALAR_BYTES, -1)}
        for index, call in reversed(list(enumerate(self._calls[:-1]))):
            [(result, _, alias)] = call.results
            if result not in gradients:
                continue
            wanted = [name for name in dict.fromkeys(call.args) if name not in self._inputs]
            new = []
            for name in wanted:
                fresh = f"{self._prefix}x{len(self._sizes)}"
                self._sizes[fresh] = self._sizes[name]
                new.append((fresh, self._sizes[name], alias))
            args = [gradients[result]] if alias >= 0 else [gradients[result], *call.args]
            if new:
                undo = (f"{call.operator}_backward", args, new, 2 * call.time_ns, call.module)
                self._calls.append(_Call(*undo, PHASE_BACKWARD, index))
            for name, (fresh, _, _) in zip(wanted, new, strict=True):
                gradients[name] = self._sum(gradients.get(name), fresh)
        return gradients

    def _sum(self, old: str | None, new: str) -> str:
        """Add a gradient to what there is of it already."""
        if old is None:
            return new
        size = self._sizes[new]
        add = _Call("add", [old, new], [], SCALAR_NS + size // 1000, phase=PHASE_BACKWARD)
        return self._add(add, size, -1)

    def _emit(self, n_forward: int, kept: set[str]) -> None:
        """Hand the calls to the builder, and release each name after its last use."""
        last_use: dict[str, int] = {}
        for index, call in enumerate(self._calls):
            for name in (*call.args, *(result[0] for result in call.results)):
                last_use[name] = index
        for name in (*kept, *self._constants):
            last_use.pop(name, None)
        first = -1
        for index, call in enumerate(self._calls):
            if index == n_forward:
                self._builder.backward()
            emitted = self._builder.call(
                call.operator,
                call.args,
                call.results,
                call.time_ns,
                phase=call.phase,
                module=call.module,
                forward=call.forward + first if call.forward >= 0 else -1,
            )
            first = emitted if first < 0 else first
            for name in dict.fromkeys((*call.args, *(result[0] for result in call.results))):
                if last_use.get(name) == index:
                    self._builder.release(name)


def repeat(name: str, forward: Callable[[Step], str], steps: int) -> Trace:
    """Make a trace of the same training step, several times.

    Parameters
    ----------
    name : str
        Of the trace.
    forward : callable
        Makes the forward pass of a step; gives the name of its output.
    steps : int

    Returns
    -------
    Trace
    """
    builder = TraceBuilder(name)
    constants: dict[str, int] = {}
    for k in range(steps):
        step = Step(builder, f"{k}." if steps > 1 else "", constants)
        step.finish(forward(step), is_last=k == steps - 1)
    return builder.build()
