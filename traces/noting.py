"""Say what a user should know of a recording before believing a replay of it. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator

from .recording import Death, Recording, live_bytes

MUCH = 0.1  # of the peak


def notes_of(recording: Recording) -> tuple[str, ...]:
    """Return what a user should know of a recording, a line each."""
    return (*recording.notes, *_recomputation(recording), *_lost_constants(recording))


def _recomputation(recording: Recording) -> Iterator[str]:
    count = sum(call.is_recomputed for call in recording.calls)
    if count:
        yield (
            f"{count} of the calls are recomputation by activation checkpointing, "
            "which the model has switched on; switch it off to let rematsim decide"
        )


def _lost_constants(recording: Recording) -> Iterator[str]:
    """Say how much was there before and goes: most policies keep a constant for good."""
    deaths = [event.storage for event in recording.events if isinstance(event, Death)]
    lost = [recording.constants[storage] for storage in deaths if storage in recording.constants]
    size, peak = sum(constant.bytes for constant in lost), max(live_bytes(recording), default=0)
    if size <= MUCH * peak:
        return
    largest = max(lost, key=lambda constant: constant.bytes).label
    others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    are_gradients = any(constant.label.startswith("grad:") for constant in lost)
    hint = ", or call zero_grad() right behind the optimizer's step" if are_gradients else ""
    yield (
        f"{size:,} bytes ({size / peak:.0%} of the peak) were there before the step and go in it "
        f"({largest}{others}), which a replay sees with --deallocation banish only: with eager and "
        f"ignore, constants stay to the end; replay with banish{hint}"
    )
