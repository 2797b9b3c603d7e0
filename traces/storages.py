"""Know PyTorch's storages: number them, notice their deaths, find those that are there already.

Needs torch, so only the modules of a capture import it. What they are called is for ``naming.py``.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
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
    """A weak reference to a storage that knows its ``id`` and its number.

    Attributes
    ----------
    key, number : int
        A number of -1: no call has used the storage.
    constant : Constant
        What a storage is that was watched from the start.
    """

    __slots__ = ("constant", "key", "number")
    constant: Constant
    key: int
    number: int


class StorageTable:
    """Number storages as they appear and notice their deaths.

    A storage that is watched has one Python object as long as it lives, so the ``id`` of that
    tells it from others, and is quicker to get than its address.

    A weak reference to the storage fires when the memory really goes: views, autograd's saved
    tensors and C++ keep it alive. One to a tensor could fire earlier.

    Parameters
    ----------
    labels : dict of int to str
        What some are called that are there already, by address.
    counts_fakes : bool
        As ``has_memory`` takes it.
    note_death : callable
        Given the number of each storage that dies.

    Attributes
    ----------
    counts_fakes : bool
        As it was given.
    constants : dict of int to Constant
        Those that calls used, and that were there before.
    held : dict of int to Constant
        Storages that were watched from the start, were used by no call, and died.
    memoryless : set of int
        Those that are no memory, such as meta tensors'.
    has_zero_tensors : bool
        Whether there are tensors of forward-mode autograd that only stand for zeros.
    """

    def __init__(
        self, labels: dict[int, str], counts_fakes: bool, note_death: Callable[[int], object]
    ) -> None:
        self.constants: dict[int, Constant] = {}
        self.held: dict[int, Constant] = {}
        self.memoryless: set[int] = set()
        self.has_zero_tensors = False
        self._note_death = note_death
        self._labels = labels
        self.counts_fakes = counts_fakes
        self._watches: dict[int, _Watch] = {}
        self._unused: dict[int, _Watch] = {}
        self._count = 0
        self._on_death = self._died  # bound once
        self.find = self._watches.get  # (id of a storage) -> what has its number, or None

    def watch(self, living: dict[int, Any]) -> None:
        """Notice the deaths of storages that are there already, though no call has used them.

        What can be known of them is looked up here, and not while the program runs.

        Parameters
        ----------
        living : dict of int to storage
            What ``living_storages`` found.
        """
        for address, storage in living.items():
            size = storage.nbytes()
            if size:
                self._unused[id(storage)] = watch = _Watch(storage, self._lost)
                watch.key = id(storage)
                watch.number = -1
                watch.constant = Constant(self._labels.pop(address, ""), size)

    def use(self, storage: Any) -> int | None:
        """Give a number to a storage that was there when watching began; None: it was not."""
        watch = self._unused.pop(id(storage), None)
        if watch is None:
            return None
        self._watches[watch.key] = watch
        watch.number = number = self._next()
        self.constants[number] = watch.constant
        return number

    def add(self, storage: Any) -> int:
        """Give a number to a storage that has not been seen."""
        key = id(storage)
        if key in self._unused:
            del self._unused[key]
        self._watches[key] = watch = _Watch(storage, self._on_death)
        watch.key = key
        watch.number = number = self._count
        self._count = number + 1
        return number

    def add_constant(self, storage: Any, size: int, tensor: torch.Tensor | None = None) -> int:
        """Give a number to a storage that was there before, and could not be found.

        Parameters
        ----------
        storage : storage
        size : int
            Its bytes, if it is memory.
        tensor : torch.Tensor, optional
            One that lies in it.
        """
        number = self.add(storage)
        if tensor is not None:
            size = self.size(number, tensor, storage)
        self.constants[number] = Constant(self._labels.pop(storage._cdata, ""), size)
        return number

    def size(self, number: int, tensor: torch.Tensor, storage: Any) -> int:
        """Return the bytes of a storage that has just got its number."""
        is_zeros = self.has_zero_tensors and tensor._is_zerotensor()
        if has_memory(tensor, storage, self.counts_fakes) and not is_zeros:
            return int(storage.nbytes())
        self.memoryless.add(number)
        return 0

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def _died(self, watch: Any) -> None:
        """Forget a storage at once, since its ``id`` may be used again."""
        del self._watches[watch.key]
        self._note_death(watch.number)

    def _lost(self, watch: Any) -> None:
        """Note that a storage has died that was watched from the start."""
        if watch.number < 0:  # no call has used it
            del self._unused[watch.key]
            number = self._next()
            self.held[number] = watch.constant
            self._note_death(number)
        else:
            self._died(watch)

    def numbers(self) -> dict[int, int]:
        """Return the numbers of the storages that live, by address."""
        living = [(watch(), watch.number) for watch in list(self._watches.values())]
        return {storage._cdata: number for storage, number in living if storage is not None}

    def close(self) -> None:
        """Stop watching."""
        self._watches.clear()
        self._unused.clear()


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
