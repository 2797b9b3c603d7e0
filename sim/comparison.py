"""A replay without a budget held against the memory that a profile recorded.

It answers whether a trace holds the memory that the machine held. Times of the two differ, since a
replay knows compute only; what both know is the order of allocations. So the place in a curve is
the share of all bytes that it ever allocates, and heights are compared at the same place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError
from .opcodes import COMPUTE, TAKE_OVER
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
        ``QUANTITIES`` of each: bytes, and the place of the peak from 0 to 1.
    reserved_peak_bytes : int or None
        The most that the allocator had taken from the device, where the profile says.
    curves : list of (str, ndarray, ndarray)
        Label, place from 0 to 1, bytes.
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
        """Give the curves as a table: curve, place, bytes; what the figure is drawn from."""
        import pandas as pd

        parts = [
            pd.DataFrame({"curve": label, "place": where, "bytes": size})
            for label, where, size in self.curves
        ]
        table = pd.concat(parts, ignore_index=True)
        table.attrs.update(trace=self.trace, profile=self.profile, device=self.device)
        return table


def compare_memory(replayed: RunResult | Trace, curve: Curve) -> Comparison:
    """Hold a run, or the unlimited replay of a trace, against a recorded curve.

    Parameters
    ----------
    replayed : RunResult or Trace
        A run with an event log; or a trace, which is replayed without a budget and with updates
        in place, what is released being freed: as the machine ran it.
    curve : Curve

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        The run has no event log, or nothing was ever in memory.
    """
    if isinstance(replayed, Trace):
        run, workspaces = _replay(replayed), replayed.call_workspace_bytes
    else:
        run, workspaces = replayed, None
    if not len(run.logged()[0]["start_ns"]):
        raise InputError("run: nothing was ever in memory in it")
    start, memory = _run_curve(run, workspaces)
    places = _places(memory, start)
    recorded_places = _places(curve.allocated_bytes, curve.start_bytes)
    replay = _quantities(places, memory, start)
    replay["peak_bytes"] = max(replay["peak_bytes"], float(run.peak_bytes))
    replay["peak_above_start_bytes"] = replay["peak_bytes"] - start
    curves = [
        ("replay", np.append(0.0, places), np.append(start, memory)),
        (
            "allocated",
            np.append(0.0, recorded_places),
            np.append(curve.start_bytes, curve.allocated_bytes),
        ),
    ]
    if curve.reserved_bytes is not None:
        curves.append(("reserved", recorded_places, curve.reserved_bytes))
    return Comparison(
        run.trace,
        curve.name,
        curve.format,
        curve.device,
        curve.is_relative,
        replay,
        _quantities(recorded_places, curve.allocated_bytes, curve.start_bytes),
        None if curve.reserved_bytes is None else int(curve.reserved_bytes.max()),
        curves,
    )


def _replay(trace: Trace) -> RunResult:
    """Replay a trace as the machine ran it."""
    from .simulation import simulate

    return simulate(
        trace,
        budget="unlimited",
        deallocation="eager",
        mutation="inplace",
        slowdown_limit=None,
        event_log=True,
    )


def _run_curve(run: RunResult, workspaces: Int64 | None) -> tuple[int, Int64]:
    """Give what a run held before its first call, its constants, and its memory from there on.

    Where workspaces are known, each stands on top of the last result of its call, for a moment.
    That an update in place takes over bytes changes no memory, though the log has two rows for it.
    """
    assert run.events is not None, "checked before"
    memory = np.asarray(run.events["memory_after_bytes"], np.int64)
    calls = np.asarray(run.events["call"], np.int64)
    is_call = calls >= 0
    first = int(np.argmax(is_call)) if is_call.any() else 0
    start = int(memory[first - 1]) if first else 0
    kinds = np.asarray(run.events["action"])
    kept = np.flatnonzero((kinds != TAKE_OVER) & (np.arange(len(kinds)) >= first))
    memory, calls, kinds = memory[kept], calls[kept], kinds[kept]
    if workspaces is None:
        return start, memory
    is_compute = (kinds == COMPUTE) & (calls >= 0)
    is_last = is_compute & (np.append(calls[1:], -1) != calls)
    rows = np.flatnonzero(is_last)
    rows = rows[workspaces[calls[rows]] > 0]
    spikes = memory[rows] + workspaces[calls[rows]]
    doubled = np.stack([spikes, memory[rows]], axis=1).ravel()
    return start, np.insert(memory, np.repeat(rows + 1, 2), doubled)


def _places(memory: Int64, start: int) -> NDArray[np.float64]:
    """Give the share of all bytes ever allocated that has been allocated at each point."""
    taken = np.cumsum(np.maximum(np.diff(memory, prepend=start), 0), dtype=np.float64)
    places: NDArray[np.float64] = taken / (taken[-1] or 1.0)
    return places


def _quantities(places: NDArray[np.float64], memory: Int64, start: int) -> dict[str, float]:
    """Give what is compared."""
    peak = int(np.argmax(memory))
    return {
        "peak_bytes": float(memory[peak]),
        "peak_above_start_bytes": float(memory[peak]) - start,
        "start_bytes": float(start),
        "end_bytes": float(memory[-1]),
        "mean_bytes": float((memory * np.diff(places, prepend=0.0)).sum()),
        "peak_at": float(places[peak]),
    }
