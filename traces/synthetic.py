"""Synthetic traces: regular models of any size, and random ones for tests.

Chains are those of the theory of the DTR paper; trees, U-shapes and transformers imitate how
models of these families use memory, with times from counted operations. None was measured.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..errors import UnknownNameError, UsageError
from ..garbage import collection_paused
from ..opcodes import CALL, PHASE_BACKWARD, PHASE_FORWARD, RELEASE
from .builder import TraceBuilder
from .bulk import Events
from .random_dag import random_dag
from .steps import Step, repeat
from .trace import MAX_VALUE, Trace
from .wording import show

PREFIX = "synthetic:"
CALLS_AT_ONCE = 1 << 14
MAX_CALLS = 10**8


def chain(n: int, *, size_bytes: int = 1, time_ns: int = 1, steps: int = 1) -> Trace:
    """Make a linear feed-forward net of n units with its backward pass.

    Parameters
    ----------
    n : int
        Units; the trace has 2 n calls a step.
    size_bytes, time_ns : int, optional
        Of each unit.
    steps : int, optional
        How often the step is repeated.

    Returns
    -------
    Trace

    Notes
    -----
    ``t[i] = f(t[i - 1])`` with a constant t[0], then ``g[n] = b(t[n - 1])``,
    ``g[i] = b(t[i - 1], g[i + 1])`` and ``g[1] = b(g[2])``; a value is released after its last
    use, and the g[1] of the last step is the output.

    References
    ----------
    Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021, Theorem 3.1 and Figure 5.
    """
    _check(1, MAX_CALLS, n=n, steps=steps)
    _check(0, MAX_VALUE, size_bytes=size_bytes, time_ns=time_ns)
    builder = TraceBuilder(f"chain:{n}")
    builder.constant("t0", size_bytes)
    for step in range(steps):
        prefix = f"{step}." if steps > 1 else ""
        t = ["t0", *map(f"{prefix}t%d".__mod__, range(1, n + 1))]
        g = ["", *map(f"{prefix}g%d".__mod__, range(1, n + 1))]
        with collection_paused():
            _ChainStep(builder, t, g, (size_bytes, time_ns), 2 * n * step).emit()
        if step < steps - 1:
            builder.release(g[1])
    return builder.build()


class _ChainStep:
    """One step of a chain: its calls go to the builder in large blocks."""

    def __init__(
        self,
        builder: TraceBuilder,
        t: list[str],
        g: list[str],
        unit: tuple[int, int],
        first_call: int,
    ) -> None:
        self._builder, self._t, self._g = builder, t, g
        self._size_bytes, self._time_ns = unit
        self._first_call = first_call

    def emit(self) -> None:
        """Emit the forward and the backward pass."""
        n, t, g = len(self._t) - 1, self._t, self._g
        for i in range(1, n + 1, CALLS_AT_ONCE):
            block = range(i, min(i + CALLS_AT_ONCE, n + 1))
            self._calls("f", [[t[k - 1]] for k in block], [[t[k]] for k in block], [])
        self._builder.release(t[n])
        self._builder.backward()
        self._calls("b", [[t[n - 1]]], [[g[n]]], [t[n - 1]] if n > 1 else [], [n])
        for i in range(n - 1, 1, -CALLS_AT_ONCE):
            block = range(i, max(i - CALLS_AT_ONCE, 1), -1)
            args = [[t[k - 1], g[k + 1]] for k in block]
            released = [name for pair in args for name in pair]
            self._calls("b", args, [[g[k]] for k in block], released, block)
        if n > 1:
            self._calls("b", [[g[2]]], [[g[1]]], [g[2]], [1])

    def _calls(
        self,
        operator: str,
        args: list[list[str]],
        results: list[list[str]],
        released: list[str],
        units: Sequence[int] = (),
    ) -> None:
        """Emit calls, each followed by its share of the releases."""
        n = len(args)
        codes = np.full((n, 1 + len(released) // n), RELEASE, dtype=np.int8)
        codes[:, 0] = CALL
        accepted = self._builder.extend(
            Events(
                codes=codes.ravel(),
                lines=np.zeros(codes.size, dtype=np.int64),
                operators=[operator] * n,
                times_ns=[self._time_ns] * n,
                workspace_bytes=[0] * n,
                phases=[PHASE_BACKWARD if units else PHASE_FORWARD] * n,
                modules=[""] * n,
                forwards=[self._first_call + unit - 1 for unit in units] or [-1] * n,
                tags=[0] * n,
                args=args,
                results=results,
                mutates=[()] * n,
                result_bytes=[self._size_bytes] * n,
                result_alias=[-1] * n,
                released=released,
            )
        )
        assert accepted, "a chain is legal"


def tree(depth: int, *, size_bytes: int = 1 << 20, time_ns: int = 100_000, steps: int = 1) -> Trace:
    """Make a binary tree, as a TreeLSTM walks it: each node is computed from its two children.

    Parameters
    ----------
    depth : int
        Levels above the leaves; there are 2^depth leaves.
    size_bytes, time_ns : int, optional
        Of each node.
    steps : int, optional
        How often the step is repeated.

    Returns
    -------
    Trace
    """
    _check(1, 24, depth=depth)
    _check(0, MAX_VALUE, size_bytes=size_bytes, time_ns=time_ns)

    def forward(step: Step) -> str:
        weight = step.weight("w", 4 * size_bytes)
        level = [step.input(f"leaf{k}", size_bytes) for k in range(2**depth)]
        level = [step.call("embed", [leaf, weight], size_bytes, time_ns) for leaf in level]
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=True)
            level = [
                step.call("combine", [left, right, weight], size_bytes, time_ns)
                for left, right in pairs
            ]
        return level[0]

    return repeat(f"tree:{depth}", forward, steps)


def u_shape(
    depth: int, *, size_bytes: int = 64 << 20, time_ns: int = 1_000_000, steps: int = 1
) -> Trace:
    """Make a U-Net: halving on the way down, doubling and joining with what was kept on the way up.

    Parameters
    ----------
    depth : int
        How often the size is halved.
    size_bytes, time_ns : int, optional
        Of an operator at the top; both are halved with each level.
    steps : int, optional
        How often the step is repeated.

    Returns
    -------
    Trace
    """
    _check(1, 60, depth=depth)
    _check(0, MAX_VALUE, size_bytes=size_bytes, time_ns=time_ns)

    def forward(step: Step) -> str:
        def double_convolution(x: str, level: int, side: str) -> str:
            size, time = size_bytes >> level, time_ns >> level
            for k in range(2):
                with step.module(f"{side}{level}.{k}"):
                    weight = step.weight(f"{side}{level}.{k}.weight", 1 << 10 + 2 * min(level, 6))
                    x = step.call("convolution", [x, weight], size, time)
                    x = step.call("relu", [x], size, time // 8)
            return x

        x, kept = step.input("x", size_bytes // 8), []
        for level in range(depth):
            kept.append(double_convolution(x, level, "down"))
            x = step.call("pool", kept[-1:], size_bytes >> level + 1, time_ns >> level + 3)
        x = double_convolution(x, depth, "bottom")
        for level in reversed(range(depth)):
            size, time = size_bytes >> level, time_ns >> level
            x = step.call("upsample", [x], size, time // 4)
            x = step.call("concatenate", [kept[level], x], 2 * size, time // 8)
            x = double_convolution(x, level, "up")
        return x

    return repeat(f"u_shape:{depth}", forward, steps)


def transformer(
    layers: int, *, width: int = 512, sequence: int = 512, batch: int = 8, steps: int = 1
) -> Trace:
    """Make a stack of transformer layers: attention and a feed-forward net, with residuals.

    Parameters
    ----------
    layers : int
    width, sequence, batch : int, optional
        Of the activations, in 4-byte numbers; a head is 64 wide.
    steps : int, optional
        How often the step is repeated.

    Returns
    -------
    Trace

    Notes
    -----
    A product takes a nanosecond for 10^5 operations, anything else one for 1,000 bytes written.
    """
    _check(1, 1 << 16, layers=layers, width=width, sequence=sequence, batch=batch)
    tokens, heads = sequence * batch, max(width // 64, 1)

    def linear(step: Step, x: str, name: str, n_in: int, n_out: int) -> str:
        weight = step.weight(f"{name}.weight", 4 * n_in * n_out)
        return step.call(
            "linear", [x, weight], 4 * tokens * n_out, 2 * tokens * n_in * n_out // 10**5
        )

    def pointwise(step: Step, operator: str, args: list[str], n_numbers: int) -> str:
        return step.call(operator, args, 4 * n_numbers, 4 * n_numbers // 1000)

    def attention(step: Step, x: str, name: str) -> str:
        q, k, v = (
            step.view("view", linear(step, x, f"{name}.{part}", width, width)) for part in "qkv"
        )
        n_scores, product_ns = heads * batch * sequence**2, 2 * tokens * sequence * width // 10**5
        scores = step.call("matmul", [q, k], 4 * n_scores, product_ns)
        weights = pointwise(step, "softmax", [scores], n_scores)
        mixed = step.call("matmul", [weights, v], 4 * tokens * width, product_ns)
        return linear(step, step.view("view", mixed), f"{name}.out", width, width)

    def forward(step: Step) -> str:
        x, n_numbers = step.input("x", 4 * tokens * width), tokens * width
        for layer in range(layers):
            name = f"layers.{layer}"
            with step.module(f"{name}.attention"):
                normal = pointwise(step, "layer_norm", [x], n_numbers)
                x = pointwise(step, "add", [x, attention(step, normal, name)], n_numbers)
            with step.module(f"{name}.feed_forward"):
                normal = pointwise(step, "layer_norm", [x], n_numbers)
                wide = linear(step, normal, f"{name}.up", width, 4 * width)
                wide = pointwise(step, "gelu", [wide], 4 * n_numbers)
                narrow = linear(step, wide, f"{name}.down", 4 * width, width)
                x = pointwise(step, "add", [x, narrow], n_numbers)
        return x

    return repeat(f"transformer:{layers}", forward, steps)


FAMILIES: dict[str, Callable[..., Trace]] = {
    "chain": chain,
    "tree": tree,
    "u_shape": u_shape,
    "transformer": transformer,
    "random": random_dag,
}


def synthetic(spec: str) -> Trace:
    """Make a synthetic trace from a text such as ``chain:1000`` or ``tree:6,steps=2``.

    Parameters
    ----------
    spec : str
        ``family:number``, then any of the function's other parameters as ``,name=number``;
        ``synthetic:`` may stand before it.

    Returns
    -------
    Trace
        Its name is ``spec``.

    Raises
    ------
    UnknownNameError
        There is no such family.
    UsageError
        It has no such parameter, or not of that value.
    """
    spec = spec.removeprefix(PREFIX)
    family, _, given = spec.partition(":")
    if family not in FAMILIES:
        raise UnknownNameError(f"synthetic trace {show(family)}: unknown; {EXAMPLES}")
    values: list[int] = []
    options: dict[str, int] = {}
    for part in given.split(","):
        key, is_option, value = part.rpartition("=")
        if not value.isdecimal() or (is_option and key in options):
            raise UsageError(f"synthetic trace {show(spec)}: {show(part)} is no number; {EXAMPLES}")
        if is_option:
            options[key] = int(value)
        else:
            values.append(int(value))
    try:
        inspect.signature(FAMILIES[family]).bind(*values, **options)
    except TypeError as error:
        raise UsageError(f"synthetic trace {show(spec)}: {error}; {EXAMPLES}") from None
    return replace(FAMILIES[family](*values, **options), name=spec)


EXAMPLES = f"such as chain:1000 or tree:6,steps=2; families: {', '.join(FAMILIES)}"


def _check(smallest: int, largest: int, **values: int) -> None:
    """Check the parameters of a synthetic trace."""
    for name, value in values.items():
        if not smallest <= value <= largest:
            rule = f"not from {smallest:,} to {largest:,}"
            raise UsageError(f"synthetic trace: {name} {value:,} is {rule}")
