"""What a program does with tensors beside operators, answered or refused where they are fake.

Needs torch, so only the modules of a capture import it. What operators do is in ``guarding.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.data import DataLoader

from ..errors import TraceError
from .replacing import replaced

HINT = "capture with real ones (without --fake)"


def _refusal(what: str) -> Callable[..., Any]:
    """Make a method that says what fake tensors cannot."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise TraceError(f"{what} needs values, which fake tensors do not have; {HINT}")

    return refuse


def _copy(tensor: Any) -> Any:
    """Copy as ``copy.copy`` does, which goes the way of pickle and needs no values."""
    make, arguments = torch.Tensor.__reduce_ex__(tensor, 4)[:2]
    return make(*arguments)


_load = DataLoader._get_iterator


def _load_here(loader: Any) -> Any:
    """Load in this process: what fake tensors stand for cannot be sent from a worker's."""
    wanted = loader.num_workers, loader.timeout
    loader.num_workers = loader.timeout = 0
    try:
        return _load(loader)
    finally:
        loader.num_workers, loader.timeout = wanted


_METHODS: tuple[tuple[type, str, Callable[..., Any]], ...] = (
    (FakeTensor, "__copy__", _copy),
    (FakeTensor, "__reduce_ex__", _refusal("saving a tensor (torch.save, pickle)")),
    (DataLoader, "_get_iterator", _load_here),
)


def answering_methods() -> AbstractContextManager[None]:
    """Let fake tensors, and what loads them, have these methods in the block."""
    return replaced(*_METHODS)
