"""Know PyTorch's storages: number them, notice their deaths, name those of a model.

Needs torch, so only ``recorder.py`` imports it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch


def dense_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in an argument or a result; sparse ones by their parts."""
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided:
            yield value
        elif value.layout is torch.sparse_coo:
            yield from (value._indices(), value._values())
        elif value.layout in (torch.sparse_csr, torch.sparse_bsr):
            yield from (value.crow_indices(), value.col_indices(), value.values())
    elif isinstance(value, list | tuple):
        for element in value:
            yield from dense_tensors(element)


class StorageTable:
    """Number storages as they appear and notice their deaths.

    A weak reference to the storage fires when the memory really goes: views, autograd's saved
    tensors and C++ keep it alive. One to a tensor could fire earlier.
    """

    def __init__(self) -> None:
        self.dead: list[int] = []
        self._numbers: dict[int, int] = {}
        self._references: dict[int, weakref.ref[Any]] = {}
        self._count = 0

    def find(self, storage: Any) -> int | None:
        """Return a storage's number, or None if it has not been seen."""
        return self._numbers.get(storage._cdata)

    def add(self, storage: Any) -> int:
        """Give a number to a storage that has not been seen."""
        pointer = storage._cdata
        number = self._numbers[pointer] = self._count
        self._count += 1
        self._references[number] = weakref.ref(storage, lambda _: self._died(pointer))
        return number

    def _died(self, pointer: int) -> None:
        """Forget a storage at once, since its address may be used again."""
        number = self._numbers.pop(pointer)
        del self._references[number]
        self.dead.append(number)

    def close(self) -> None:
        """Stop watching."""
        self._references.clear()


def constant_labels(model: Any, optimizer: Any) -> dict[int, str]:
    """Return a label for each storage of a model and of its optimizer, by storage address."""
    labels: dict[int, str] = {}

    def label(tensor: Any, text: str) -> None:
        for part in dense_tensors(tensor):
            labels.setdefault(part.untyped_storage()._cdata, text)

    names: dict[Any, str] = {}
    if model is not None:
        for name, parameter in model.named_parameters():
            names[parameter] = name
            label(parameter, f"param:{name}")
            label(parameter.grad, f"grad:{name}")
        for name, buffer in model.named_buffers():
            label(buffer, f"buffer:{name}")
    if optimizer is not None:
        for number, (parameter, state) in enumerate(optimizer.state.items()):
            for key, value in state.items():
                label(value, f"state:{names.get(parameter, number)}.{key}")
    return labels
