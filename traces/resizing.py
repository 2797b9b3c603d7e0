"""Notice that a program changes the size of a storage by hand, which no operator does.

Sharded training frees and fills its parameters so: ``tensor.untyped_storage().resize_(0)``. Needs
torch, so only the modules of a capture import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_NAME = "resize_"


class ResizeWatch:
    """Stands in for ``torch.UntypedStorage.resize_`` from ``open`` to ``close``.

    Parameters
    ----------
    is_wanted : callable
        Asked at each resize whether it is to be reported.
    report : callable
        Given the storage, after it, and its bytes before.
    """

    def __init__(self, is_wanted: Callable[[], bool], report: Callable[[Any, int], None]) -> None:
        self._is_wanted, self._report = is_wanted, report
        self._own: Any = None  # what the class itself had, if it did: else the method is inherited

    def open(self) -> None:
        """Begin to notice."""
        self._own = vars(torch.UntypedStorage).get(_NAME)
        resize = torch.UntypedStorage.resize_

        def noticed(storage: Any, size: int) -> Any:
            before = storage.nbytes()
            result = resize(storage, size)
            if storage.nbytes() != before and self._is_wanted():
                self._report(storage, before)
            return result

        setattr(torch.UntypedStorage, _NAME, noticed)

    def close(self) -> None:
        """Put back what was there."""
        if self._own is None:
            delattr(torch.UntypedStorage, _NAME)
        else:
            setattr(torch.UntypedStorage, _NAME, self._own)
