"""Put the cost model's times in the place of measured ones, in a recording of a capture.

Needs no torch. The model is in ``costs.py``.
"""

from __future__ import annotations

from dataclasses import replace

from .costs import operator_ns
from .devices import Device
from .recording import RecordedCall, Recording


def with_estimated_times(recording: Recording, device: Device) -> Recording:
    """Return a recording with the times that a device would take, marked as estimated.

    Parameters
    ----------
    recording : Recording
    device : Device
        As ``devices.device`` gives it.

    Raises
    ------
    InputError
        If a tensor has a dtype whose size is not known.
    """
    known: dict[object, int] = {}

    def estimate(call: RecordedCall) -> RecordedCall:
        operands = tuple(view.geometry.kind for view in call.arguments)
        results = tuple(view.geometry.kind for view in call.results)
        key = call.operator, operands, results
        if key not in known:
            known[key] = operator_ns(call.operator, operands, results, device)
        return call._replace(time_ns=known[key])

    events = (
        estimate(event) if isinstance(event, RecordedCall) else event for event in recording.events
    )
    return replace(recording, events=tuple(events), times_estimated=True)
