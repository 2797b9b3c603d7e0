"""Marks: how a program without an optimizer says where its training steps end. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable

listeners: list[Callable[[], None]] = []


def mark_step() -> None:
    """Say that a training step ends here.

    Without a capture this does nothing, so it can stay in a program. Where it is called at all,
    marks count and steps of optimizers do not.

    Examples
    --------
    >>> mark_step()
    """
    for listener in tuple(listeners):
        listener()
