"""Cheap tensor partitioning: at which end of a hole a call's results are placed.

Results that are expensive to compute again gather at low addresses, cheap ones at high addresses,
so that what is cheap lies together and one window of it makes a large hole (Zhang et al., NeurIPS
2023). Which call is expensive is known before it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .program import Program
from .space import HIGH, LOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .traces.trace import Trace

# Ways to tell, by name.
NO_PARTITION, BY_CLASS, BY_DENSITY = "none", "class", "density"
PARTITIONS = (BY_CLASS, BY_DENSITY, NO_PARTITION)

# Of an operator's plain name: convolutions, matrix products and sums of tensors, as Coop's authors
# have it; attention in one kernel is made of matrix products.
EXPENSIVE = frozenset(
    {"add", "add_n", "addbmm", "addmm", "baddbmm", "bmm", "gemm", "linear", "matmul", "mm"}
)
EXPENSIVE_PARTS = ("conv", "_scaled_dot_product_")


def sides(trace: Trace, program: Program, partition: str) -> NDArray[np.uint8] | None:
    """Give the side of each call of a program; None where all are the low one.

    Parameters
    ----------
    trace : Trace
        What the program was made of.
    program : Program
    partition : {"class", "density", "none"}
        Whether a call is expensive by its operator, or if it takes at least as long for a byte of
        its results as the calls up to it do on average.
    """
    if partition == NO_PARTITION:
        return None
    calls = program.calls
    is_call = calls["origin"] >= 0
    chosen = np.full(len(calls), LOW, np.uint8)
    if partition == BY_CLASS:
        is_expensive = np.array([is_expensive_operator(name) for name in trace.operators], bool)
        chosen[is_call] = np.where(
            is_expensive[trace.call_operator[calls["origin"][is_call]]], LOW, HIGH
        )
    else:
        cost = calls["cost_ns"][is_call].astype(np.float64)
        size = calls["result_bytes"][is_call].astype(np.float64)
        chosen[is_call] = np.where(cost * np.cumsum(size) >= size * np.cumsum(cost), LOW, HIGH)
    return chosen


def is_expensive_operator(name: str) -> bool:
    """Say whether an operator is one of those that are expensive as a class.

    Examples
    --------
    >>> [is_expensive_operator(name) for name in ("aten::addmm", "cudnn_convolution_backward")]
    [True, True]
    >>> [is_expensive_operator(name) for name in ("aten::addcmul", "relu_", "add_.Tensor")]
    [False, False, True]
    """
    plain = name.rpartition("::")[2].removeprefix("aten.").partition(".")[0].rstrip("_").lower()
    return plain in EXPENSIVE or any(part in plain for part in EXPENSIVE_PARTS)
