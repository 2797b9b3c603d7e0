"""Stand in for functions of other packages for a while, and put back what was there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_ABSENT = object()


@contextmanager
def replaced(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Let attributes of modules and classes be others in the block.

    Parameters
    ----------
    *changes : tuple of module or class, str, object
        Where, which, and what it is in the block. One that was inherited is so again afterwards.
    """
    with ExitStack() as stack:
        for place, name, new in changes:
            own = vars(place).get(name, _ABSENT)
            setattr(place, name, new)
            if own is _ABSENT:
                stack.callback(delattr, place, name)
            else:
                stack.callback(setattr, place, name, own)
        yield
