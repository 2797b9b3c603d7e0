"""Know PyTorch's storages: number them, notice their deaths, find those that are there already.

Needs torch, so only the modules of a capture import it. What they are called is for ``naming.py``.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .recording import Constant

_STRIDED = torch.strided
_SPARSE_ROWS = (torch.sparse_csr, torch.sparse_bsr)
_SPARSE_COLUMNS = (torch.sparse_csc, torch.sparse_bsc)


class UnseenMemoryError(NotImplementedError):
    """A tensor whose memory cannot be followed."""


def dense_tensors(value: Any) -> Sequence[torch.Tensor]:
    """Return the tensors in an argument or a result; sparse ones by their parts.

    Raises
    ------
    UnseenMemoryError
        If a tensor has a layout whose parts PyTorch does not show.
    """
    if isinstance(value, torch.Tensor):
        return (value,) if value.layout is _STRIDED else _parts(value)
    if isinstance(value, list | tuple):
        return [tensor for element in value for tensor in dense_tensors(element)]
    return ()


def _parts(value: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the strided tensors that a tensor of another layout is made of."""
    if value.layout is torch.sparse_coo:
        return value._indices(), value._values()
    if value.layout in _SPARSE_ROWS:
        return value.crow_indices(), value.col_indices(), value.values()
    if value.layout in _SPARSE_COLUMNS:
        return value.ccol_indices(), value.row_indices(), value.values()
    raise UnseenMemoryError(
        f"a tensor of layout {str(value.layout).removeprefix('torch.')}: its memory cannot be "
        "followed; strided and sparse ones can be captured"
    )


class _Watch(weakref.ref):  # type: ignore[type-arg]  # a slot needs the bare class
    """A weak reference to a storage that knows its ``id`` and its number."""

    __slots__ = ("key", "number")
    key: int
    number: int


class StorageTable:
    """Number storages as they appear and notice their deaths.

    A storage that is watched has one Python object as long as it lives, so the ``id`` of that
    tells it from others, and is quicker to get than its address.

    A weak reference to the storage fires when the memory really goes: views, autograd's saved
    tensors and C++ keep it alive. One to a tensor could fire earlier.

    Attributes
    ----------
    dead : list of int
        Storages that died since somebody looked, in order.
    held : dict of int to Constant
        Storages that were watched from the start, were used by no call, and died.
    """

    def __init__(self) -> None:
        self.dead: list[int] = []
        self.held: dict[int, Constant] = {}
        self._watches: dict[int, _Watch] = {}
        self._watched: dict[int, weakref.ref[Any]] = {}
        self._count = 0
        self._on_death = self._died  # bound once
        self.find = self._watches.get  # (id of a storage) -> what has its number, or None

    def watch(self, storages: Iterable[Any], labels: dict[int, str]) -> None:
        """Notice the deaths of storages that are there already, though no call has used them.

        Parameters
        ----------
        storages : iterable of storage
        labels : dict of int to str
            What some are called, by address.
        """
        for storage in storages:
            pointer, size = storage._cdata, storage.nbytes()
            if size and pointer not in self._watched:
                label = labels.get(pointer, "")
                lost = partial(self._lost, pointer, size, label)
                self._watched[pointer] = weakref.ref(storage, lost)

    def is_watched(self, storage: Any) -> bool:
        """Say whether a storage was there when watching began, and no call has used it since."""
        return storage._cdata in self._watched

    def _lost(self, pointer: int, size: int, label: str, _: object) -> None:
        """Note that a watched storage has died before any call used it."""
        del self._watched[pointer]
        number = self._count
        self._count = number + 1
        self.held[number] = Constant(label, size)
        self.dead.append(number)

    def add(self, storage: Any) -> int:
        """Give a number to a storage that has not been seen."""
        if self._watched:
            self._watched.pop(storage._cdata, None)
        self._watches[id(storage)] = watch = _Watch(storage, self._on_death)
        watch.key = id(storage)
        watch.number = number = self._count
        self._count = number + 1
        return number

    def _died(self, watch: Any) -> None:
        """Forget a storage at once, since its ``id`` may be used again."""
        del self._watches[watch.key]
        self.dead.append(watch.number)

    def numbers(self) -> dict[int, int]:
        """Return the numbers of the storages that live, by address."""
        living = [(watch(), watch.number) for watch in list(self._watches.values())]
        return {storage._cdata: number for storage, number in living if storage is not None}

    def close(self) -> None:
        """Stop watching."""
        self._watches.clear()
        self._watched.clear()


def objects_of(kind: type) -> list[Any]:
    """Return the living Python objects of a class; lazy ones are not woken up."""
    return [found for found in gc.get_objects() if issubclass(type(found), kind)]


def living_storages(counts_fakes: bool) -> dict[int, Any]:
    """Return the storages of all tensors that Python code can reach, by address.

    Parameters
    ----------
    counts_fakes : bool
        As ``has_memory`` takes it; storages without memory are left out.
    """
    found: dict[int, Any] = {}
    with torch._C.DisableTorchFunctionSubclass():  # a subclass's own answers may be anything
        for tensor in objects_of(torch.Tensor):
            with suppress(Exception):  # no storage (a wrapper), or a subclass that refuses
                found |= _memory_of(tensor, counts_fakes)
    return found


def _memory_of(tensor: torch.Tensor, counts_fakes: bool) -> dict[int, Any]:
    """Return the storages of a tensor's parts that are memory, by address."""
    parts = [(part, part.untyped_storage()) for part in dense_tensors(tensor)]
    return {s._cdata: s for part, s in parts if has_memory(part, s, counts_fakes)}


def has_memory(tensor: torch.Tensor, storage: Any, counts_fakes: bool) -> bool:
    """Say whether a tensor's storage is memory, or stands for it.

    Parameters
    ----------
    tensor, storage : torch.Tensor, torch.UntypedStorage
    counts_fakes : bool
        Whether fake tensors stand for real ones, as in a fake capture; a tensor that is made on
        the device ``meta`` never does.
    """
    return not (tensor.is_meta if counts_fakes else storage.device.type == "meta")


def explained(failure: Exception, *values: Any) -> Exception:
    """Return a failure to record, or what is to be said of the tensors that are its cause."""
    if any(isinstance(x, torch.Tensor) and x.is_nested for x in tree_leaves(values)):
        return UnseenMemoryError(
            "a nested tensor: its memory cannot be followed; strided and sparse ones can be "
            "captured"
        )
    return failure
