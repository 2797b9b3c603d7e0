"""A replay without a budget held against the memory that a profile recorded.

It answers whether a trace holds the memory that the machine held. Both are curves of bytes over
time; times differ (a replay knows compute only), so curves are compared by their heights, and
drawn over the share of each one's own time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError
from .result import RunResult
from .traces.curves import Curve
from .traces.trace import Trace

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

QUANTITIES = (
    "peak_bytes",
    "peak_above_start_bytes",
    "start_bytes",
    "end_bytes",
    "mean_bytes",
    "peak_at",
)


@dataclass(frozen=True)
class Comparison:
    """A replay and a profile, side by side.

    Attributes
    ----------
    trace, profile : str
        Their names.
    profile_format, device : str
        What the profile is, and whose memory it recorded.
    is_relative : bool
        Whether the profile's bytes count from what was held before, which it does not say.
    replay, recorded : dict of str to int or float
        ``QUANTITIES`` of each: bytes, and the share of the time at which the peak stands.
    reserved_peak_bytes : int or None
        The most that the allocator had taken from the device, where the profile says.
    curves : list of (str, ndarray, ndarray)
        Label, share of the time from 0 to 1, bytes.
    """

    trace: str
    profile: str
    profile_format: str
    device: str
    is_relative: bool
    replay: dict[str, float]
    recorded: dict[str, float]
    reserved_peak_bytes: int | None
    curves: list[tuple[str, Any, Any]]

    def rows(self) -> list[dict[str, object]]:
        """Give a row for each quantity: replay, recorded, difference, relative difference."""
        found = []
        for name in QUANTITIES:
            mine, theirs = self.replay[name], self.recorded[name]
            is_size = name.endswith("_bytes")
            found.append(
                {
                    "quantity": name,
                    "replay": mine,
                    "recorded": theirs,
                    "difference": mine - theirs,
                    "relative": (mine - theirs) / theirs if is_size and theirs else None,
                }
            )
        return found

    def table(self) -> pd.DataFrame:
        """Give the curves as a table: curve, share, bytes; what the figure is drawn from."""
        import pandas as pd

        parts = [
            pd.DataFrame({"curve": label, "share": share, "bytes": size})
            for label, share, size in self.curves
        ]
        table = pd.concat(parts, ignore_index=True)
        table.attrs.update(trace=self.trace, profile=self.profile, device=self.device)
        return table


def compare_memory(replayed: RunResult | Trace, curve: Curve) -> Comparison:
    """Hold a run, or the unlimited replay of a trace, against a recorded curve.

    Parameters
    ----------
    replayed : RunResult or Trace
        A run with an event log; or a trace, which is replayed without a budget, under banish and
        with updates in place: as the machine ran it.
    curve : Curve

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        The run has no event log.
    """
    run = _replay(replayed) if isinstance(replayed, Trace) else replayed
    if run.events is None or not len(run.events["start_ns"]):
        raise InputError("run: no event log in it; run again with one (--save-run)")
    times, memory, start = _run_curve(run)
    replay = _quantities(times, memory, start)
    replay["peak_bytes"] = max(replay["peak_bytes"], float(run.peak_bytes))
    replay["peak_above_start_bytes"] = replay["peak_bytes"] - start
    recorded = _quantities(curve.time_ns, curve.allocated_bytes, curve.start_bytes)
    curves = [
        ("replay", _share(times), memory),
        ("allocated", _share(curve.time_ns), curve.allocated_bytes),
    ]
    if curve.reserved_bytes is not None:
        curves.append(("reserved", _share(curve.time_ns), curve.reserved_bytes))
    return Comparison(
        run.trace,
        curve.name,
        curve.format,
        curve.device,
        curve.is_relative,
        replay,
        recorded,
        None if curve.reserved_bytes is None else int(curve.reserved_bytes.max()),
        curves,
    )


def _replay(trace: Trace) -> RunResult:
    """Replay a trace as the machine ran it."""
    from .simulation import simulate

    return simulate(
        trace,
        budget="unlimited",
        deallocation="banish",
        mutation="inplace",
        slowdown_limit=None,
        event_log=True,
    )


def _run_curve(run: RunResult) -> tuple[Int64, Int64, int]:
    """Give times and memory of a run, and what it held before its first call: its constants."""
    assert run.events is not None, "checked before"
    times = np.asarray(run.events["start_ns"], np.int64)
    memory = np.asarray(run.events["memory_after_bytes"], np.int64)
    calls = np.flatnonzero(np.asarray(run.events["call"]) >= 0)
    first = int(calls[0]) if len(calls) else 0
    start = int(memory[first - 1]) if first else 0
    kept = slice(max(first - 1, 0), None)
    return times[kept], memory[kept], start


def _quantities(times: Int64, memory: Int64, start: int) -> dict[str, float]:
    """Give what is compared."""
    peak = int(np.argmax(memory))
    spans = np.diff(times, append=times[-1])
    total = float(spans.sum())
    mean = float((memory * (spans / total)).sum()) if total else float(memory.mean())
    return {
        "peak_bytes": float(memory[peak]),
        "peak_above_start_bytes": float(memory[peak]) - start,
        "start_bytes": float(start),
        "end_bytes": float(memory[-1]),
        "mean_bytes": mean,
        "peak_at": float(_share(times)[peak]),
    }


def _share(times: Int64) -> NDArray[np.float64]:
    """Give times as shares of the whole."""
    length = float(times[-1] - times[0]) or 1.0
    shares: NDArray[np.float64] = (times - times[0]) / length
    return shares
