"""Cost model: how long an operator takes on a device, from the kinds of its tensors alone.

A roofline: the larger of arithmetic over peak and traffic over bandwidth, and a launch. It orders
operators roughly right and no more; whatever takes its times says that they are estimated. It
needs no torch. What is known of machines is in ``devices.py``, of operators in ``flops.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import InputError
from .devices import Device
from .wording import show

# What of a peak is reached: of arithmetic in large products, of bandwidth in large copies.
FLOPS_SHARE, BANDWIDTH_SHARE = 0.75, 0.85
SHORT_LAUNCH = 3  # an operator that moves nothing costs this part of a launch

ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "complex128": 16, "complex64": 8, "complex32": 4,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1, "qint8": 1, "quint8": 1, "qint32": 4,
}  # fmt: skip


class TensorKind(NamedTuple):
    """What a tensor is made of: numbers of a dtype in a shape.

    Attributes
    ----------
    dtype : str
        PyTorch's name without the ``torch.``: ``float32``.
    shape : tuple of int
        Elements along each dimension.
    """

    dtype: str
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def nbytes(self) -> int:
        """Give its bytes if it lies densely.

        Raises
        ------
        InputError
            If the dtype is not known.
        """
        try:
            return self.numel * ITEM_BYTES[self.dtype]
        except KeyError:
            raise InputError(f"dtype {show(self.dtype)}: its size is not known") from None

    def text(self) -> str:
        """Write it as traces do.

        Examples
        --------
        >>> TensorKind("float32", (64, 3)).text()
        'float32[64,3]'
        """
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @classmethod
    def parse(cls, text: str) -> TensorKind:
        """Read what ``text`` writes.

        Raises
        ------
        InputError
            If it is no such text.

        Examples
        --------
        >>> TensorKind.parse("int64[]").nbytes()
        8
        """
        dtype, bracket, rest = text.partition("[")
        sizes = rest.removesuffix("]").split(",") if rest != "]" else []
        if not bracket or not rest.endswith("]") or not all(s.isdecimal() for s in sizes):
            raise InputError(
                f"kind {show(text)}: expected a dtype and a shape, as in float32[64,3]"
            )
        return cls(dtype, tuple(map(int, sizes)))


def operator_ns(
    operator: str,
    operands: Sequence[TensorKind],
    results: Sequence[TensorKind],
    device: Device,
) -> int:
    """Estimate the time of an operator call.

    Parameters
    ----------
    operator : str
        Name of an overload: ``aten::mm``, ``aten.mm.default`` and ``mm`` are one.
    operands, results : sequence of TensorKind
        Its tensors in the order of its schema; results that it wrote in place may be left out.
    device : Device
        As ``devices.device`` gives it.

    Returns
    -------
    int
        Nanoseconds, at least 1.

    Raises
    ------
    InputError
        If the dtype of a tensor is not known.

    Notes
    -----
    launch + max(flops / (0.75 peak), bytes / (0.85 bandwidth)); a third of a launch for an
    operator that only makes a view. All operands are taken to be read once and all results to be
    written once, with exceptions in ``flops.py``.

    Examples
    --------
    >>> from rematsim.traces.devices import device
    >>> matrix = TensorKind("bfloat16", (4096, 4096))
    >>> operator_ns("aten::mm", [matrix, matrix], [matrix], device("h100"))  # 2 * 4096^3 flops
    190215
    """
    from .flops import base_name, is_view, traffic_bytes, work

    name = base_name(operator)
    if is_view(name):
        return max(device.launch_ns // SHORT_LAUNCH, 1)
    moved = traffic_bytes(name, operands, results)
    flops, unit = work(name, operands, results)
    seconds = max(
        flops / (FLOPS_SHARE * device.flops_of(unit)),
        moved / (BANDWIDTH_SHARE * device.bandwidth),
    )
    launch = device.launch_ns if moved or flops else max(device.launch_ns // SHORT_LAUNCH, 1)
    return max(launch + round(seconds * 1e9), 1)
