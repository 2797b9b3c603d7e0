"""Tell a recorder of tensors that PyTorch makes without asking any dispatch mode.

Needs torch, so only the modules of a capture import it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch

from .replacing import replaced

# Functions that return such a tensor, by module: activation checkpointing saves these states.
_MAKERS = (
    (torch, "get_rng_state"),
    (torch.random, "get_rng_state"),
    (torch.cuda, "get_rng_state"),
    (torch.cuda.random, "get_rng_state"),
)


def makers_noticed(run: Callable[..., Any]) -> AbstractContextManager[None]:
    """Stand, in the block, before functions whose results no dispatch mode sees.

    Parameters
    ----------
    run : callable
        Given the function and its arguments: runs it and notes what it returned. A function that
        this torch lacks is passed over.
    """
    known = [(place, name) for place, name in _MAKERS if hasattr(place, name)]
    return replaced(*((place, name, partial(run, getattr(place, name))) for place, name in known))
