"""Named devices: what the cost model has to know of a machine, and nothing else.

Figures of GPUs are their makers' peak figures, without structured sparsity. ``cpu`` is the machine
that this runs on: it is measured when it is first asked for, without torch, and kept in the cache.
"""

from __future__ import annotations

import functools
import os
import platform
import time
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import UnknownNameError
from .wording import show

GIB = 1 << 30
TERA = 1e12
GIGA = 1e9


class Device(NamedTuple):
    """A machine as the cost model sees it.

    Attributes
    ----------
    name, title : str
        What options call it; what it is.
    peak_flops : mapping of str to float
        FLOP/s of matrix products, by dtype. ``tf32``: of convolutions in float32, which PyTorch
        runs in this format where there is one. ``vector``: of everything else.
    bandwidth : float
        Bytes a second between the chip and its memory.
    launch_ns : int
        Nanoseconds before an operator does anything.
    memory_bytes : int
        Bytes of its memory.
    source : str
        Where the figures are from.
    """

    name: str
    title: str
    peak_flops: Mapping[str, float]
    bandwidth: float
    launch_ns: int
    memory_bytes: int
    source: str

    def flops_of(self, dtype: str) -> float:
        """Give the peak of a dtype in FLOP/s; that of float32 where it has none of its own."""
        return self.peak_flops.get(dtype, self.peak_flops["float32"])


def _gpu(title: str, peaks: str, bandwidth: float, memory_gib: int, source: str) -> Device:
    """Make a GPU; ``peaks`` are pairs dtype=TFLOP/s, ``bandwidth`` is in GB/s."""
    pairs = (pair.split("=") for pair in peaks.split())
    return Device(
        name=title.split()[1].lower().removesuffix("-80gb"),
        title=title,
        peak_flops={dtype: float(peak) * TERA for dtype, peak in pairs},
        bandwidth=bandwidth * GIGA,
        launch_ns=5_000,
        memory_bytes=memory_gib * GIB,
        source=source,
    )


_HOPPER = (
    "float64=66.9 float32=66.9 tf32=494.7 bfloat16=989.4 float16=989.4 int8=1978.9 "
    "float8_e4m3fn=1978.9 float8_e5m2=1978.9 vector=66.9"
)

GPUS = {
    device.name: device
    for device in (
        _gpu(
            "NVIDIA A100 SXM 80 GB",
            "float64=19.5 float32=19.5 tf32=156 bfloat16=312 float16=312 int8=624 vector=19.5",
            2039,
            80,
            "NVIDIA A100 Tensor Core GPU data sheet",
        ),
        _gpu("NVIDIA H100 SXM 80 GB", _HOPPER, 3350, 80, "NVIDIA H100 Tensor Core GPU data sheet"),
        _gpu(
            "NVIDIA H200 SXM 141 GB", _HOPPER, 4800, 141, "NVIDIA H200 Tensor Core GPU data sheet"
        ),
        _gpu(
            "NVIDIA RTX4090 24 GB",
            "float64=1.29 float32=82.6 tf32=82.6 bfloat16=165.2 float16=165.2 int8=660.6 "
            "float8_e4m3fn=330.3 float8_e5m2=330.3 vector=82.6",
            1008,
            24,
            "NVIDIA Ada GPU architecture paper, products of 16-bit numbers summed in 32 bits",
        ),
    )
}


class LinkFigures(NamedTuple):
    """What connects a device to its host.

    Attributes
    ----------
    to_host, from_host : int
        Bytes a second each way: the rate of the wires, which packets do not quite reach.
    latency_ns : int
        Nanoseconds before a copy begins: of the size that small copies take, an assumption.
    source : str
        Where the rates are from.
    """

    to_host: int
    from_host: int
    latency_ns: int
    source: str


def _pcie(generation: int, gigatransfers: int) -> LinkFigures:
    """Make a link of 16 lanes with 128 bits of data in 130."""
    rate = gigatransfers * 10**9 * 16 * 128 // 130 // 8
    return LinkFigures(rate, rate, 10_000, f"PCI Express {generation}.0 base specification, x16")


_PCIE = {3: _pcie(3, 8), 4: _pcie(4, 16), 5: _pcie(5, 32)}
LINKS = {
    "v100-pcie3": _PCIE[3],
    "a100-pcie4": _PCIE[4],
    "rtx4090-pcie4": _PCIE[4],
    "h100-pcie5": _PCIE[5],
    "h200-pcie5": _PCIE[5],
    "gh200-c2c": LinkFigures(
        450 * 10**9,
        450 * 10**9,
        10_000,
        "NVIDIA GH200 Grace Hopper Superchip architecture paper: NVLink-C2C, 900 GB/s both ways",
    ),
}
CPU = "cpu"
NAMES = (*GPUS, CPU)
DEFAULT = "h100"


def device(name: str) -> Device:
    """Return a device by its name.

    Parameters
    ----------
    name : str
        One of ``NAMES``: ``a100``, ``h100``, ``h200``, ``rtx4090``, or ``cpu``, which is the
        machine at hand, measured.

    Returns
    -------
    Device

    Raises
    ------
    UnknownNameError
        No device has that name.

    Examples
    --------
    >>> device("h100").bandwidth / 1e9
    3350.0
    """
    if isinstance(name, str) and name in GPUS:
        return GPUS[name]
    if name == CPU:
        return this_cpu()
    raise UnknownNameError(f"device {show(name)}: unknown; known: {', '.join(NAMES)}")


@functools.cache
def this_cpu() -> Device:
    """Return the machine at hand, measured once and then taken from the cache."""
    from .cache import cache_get, cache_put

    key = f"cpu-1-{platform.node()}-{platform.processor()}-{os.cpu_count()}"
    entry = cache_get(key)
    figures = str(entry["figures"]).split() if entry else []
    if len(figures) != 3:
        figures = [f"{figure:.4g}" for figure in measure_cpu()]
        cache_put(key, {"figures": " ".join(figures)})
    single, double, bandwidth = map(float, figures)
    return Device(
        name=CPU,
        title=f"this CPU, {os.cpu_count()} cores",
        peak_flops={"float32": single, "float64": double, "vector": single / 4},
        bandwidth=bandwidth,
        launch_ns=2_000,
        memory_bytes=_memory_bytes(),
        source="measured",
    )


def measure_cpu(size: int = 768, megabytes: int = 64, repeats: int = 5) -> tuple[float, ...]:
    """Measure this machine by products of matrices and by copies: the best of some tries.

    Parameters
    ----------
    size : int, optional
        Of the matrices.
    megabytes : int, optional
        To copy: more than caches hold.
    repeats : int, optional
        Tries of each.

    Returns
    -------
    tuple of float
        FLOP/s in float32 and in float64; bytes a second, what is read and what is written
        together.
    """
    import numpy as np

    figures = []
    for dtype in (np.float32, np.float64):
        matrix = np.ones((size, size), dtype)
        out = np.empty_like(matrix)
        seconds = _best(lambda a=matrix, b=out: np.matmul(a, a, out=b), repeats)
        figures.append(2 * size**3 / seconds)
    source = np.ones(megabytes << 20, np.uint8)
    target = source.copy()
    return (*figures, 2 * source.nbytes / _best(lambda: np.copyto(target, source), repeats))


def _best(work: object, repeats: int) -> float:
    """Return the shortest time of a function in seconds, the first run left out."""
    assert callable(work)
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return max(min(times[1:]), 1e-9)


def _memory_bytes() -> int:
    """Return this machine's memory, or 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0
