"""Tell a recorder of tensors that PyTorch makes without asking any dispatch mode.

Needs torch, so only the modules of a capture import it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

# Functions that return such a tensor, by module: activation checkpointing saves these states.
_MAKERS = (
    (torch, "get_rng_state"),
    (torch.random, "get_rng_state"),
    (torch.cuda, "get_rng_state"),
    (torch.cuda.random, "get_rng_state"),
)


class UnseenMakers:
    """Stands, while it is open, before functions whose results no dispatch mode sees.

    Parameters
    ----------
    run : callable
        Given the function and its arguments: runs it and notes what it returned.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self._originals: list[tuple[Any, str, Any]] = []

    def open(self) -> None:
        """Begin to notice; a function that this torch lacks is passed over."""
        for module, name in _MAKERS:
            original = getattr(module, name, None)
            if original is not None:
                self._originals.append((module, name, original))
                setattr(module, name, partial(self._run, original))

    def close(self) -> None:
        """Stop noticing."""
        while self._originals:
            setattr(*self._originals.pop())
