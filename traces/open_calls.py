"""An operator call while it runs: what is known before, and what its results add.

Needs torch, so only the modules of a capture import it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from .recording import Geometry, RecordedCall, View
from .schemas import Traits
from .storages import dense_tensors


class Spread(NamedTuple):
    """A call over lists, to be taken apart once its time is known (``split_by_tensor``)."""

    call: RecordedCall
    parts: tuple[int, ...]
    width: int


class OpenCall:
    """A call that has begun.

    Attributes
    ----------
    width : int
        Length of the lists that the operator goes through; 0: it takes no lists apart.
    arguments, parts : list of View, list of int
        Its tensors, and which element of the lists each belongs to (-1: to all).
    written : list of int
        Positions in ``arguments`` that it writes to.
    """

    __slots__ = (
        "arguments",
        "autograd_node",
        "module",
        "parts",
        "traits",
        "width",
        "written",
        "written_storages",
    )

    def __init__(self, traits: Traits, autograd_node: int, module: str) -> None:
        self.traits = traits
        self.module = module
        self.autograd_node = autograd_node
        self.width = 0
        self.arguments: list[View] = []
        self.parts: list[int] = []
        self.written: list[int] = []
        self.written_storages: dict[int, tuple[Any, int]] = {}

    def add(self, storage: int, tensor: torch.Tensor, is_written: bool, part: int = -1) -> None:
        """Note a tensor, with the number of its storage."""
        if is_written:
            self.written.append(len(self.arguments))
            memory = tensor.untyped_storage()
            self.written_storages[storage] = (memory, memory.nbytes())
        self.arguments.append(View(storage, geometry(tensor)))
        if self.width:
            self.parts.append(part)

    def resized(self) -> list[tuple[int, int]]:
        """Return the written storages that have another size now, with it."""
        return [
            (number, storage.nbytes())
            for number, (storage, before) in self.written_storages.items()
            if storage.nbytes() != before
        ]

    def fresh_results(self, output: Any, keeps_contents: bool) -> Iterator[torch.Tensor]:
        """Yield the tensors that come out, but for those that went in to be written."""
        is_written = self.traits.returns_written
        if len(is_written) == 1:
            if keeps_contents or not is_written[0]:
                yield from dense_tensors(output)
            return
        for value, was_given in zip(output or (), is_written, strict=False):
            if keeps_contents or not was_given:
                yield from dense_tensors(value)


def geometry(tensor: torch.Tensor) -> Geometry:
    """Describe how a strided tensor lies in its storage."""
    return Geometry(tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
