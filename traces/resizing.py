"""Notice that a program changes the size of a storage by hand, which no operator does.

Sharded training frees and fills its parameters so: ``tensor.untyped_storage().resize_(0)``. Needs
torch, so only the modules of a capture import it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from .replacing import replaced


def resizes_noticed(
    is_wanted: Callable[[], bool], report: Callable[[Any, int], None]
) -> AbstractContextManager[None]:
    """Stand in for ``torch.UntypedStorage.resize_`` in the block.

    Parameters
    ----------
    is_wanted : callable
        Asked at each resize whether it is to be reported.
    report : callable
        Given the storage, after it, and its bytes before.
    """
    resize = torch.UntypedStorage.resize_

    def noticed(storage: Any, size: int) -> Any:
        before = storage.nbytes()
        result = resize(storage, size)
        if storage.nbytes() != before and is_wanted():
            report(storage, before)
        return result

    return replaced((torch.UntypedStorage, "resize_", noticed))
