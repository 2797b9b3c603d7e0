"""What an audit knows: rows of the log, calls, tensors, storages, and what contradicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any


class Contradiction(Exception):  # noqa: N818
    """Something in the log that cannot be."""

    def __init__(self, finding: str, message: str, row: int = -1) -> None:
        super().__init__(message)
        self.finding = finding
        self.row = row


@dataclass(frozen=True)
class Row:
    """A row of the event log."""

    number: int
    action: str
    columns: dict[str, Any]

    def fail(self, finding: str, message: str) -> Contradiction:
        """Describe a contradiction at this row."""
        at = f"event {self.number} ({self.action} of storage {self.columns['storage']} "
        at += f"at {self.columns['end_ns']} ns)"
        return Contradiction(finding, f"{at}: {message}", self.number)


@dataclass(eq=False)
class Call:
    """An execution of an operator; number -1 for a constant."""

    number: int
    cost: int = 0
    workspace: int = 0
    is_constant: bool = False
    parents: list[Tensor] = field(default_factory=list)
    results: list[Tensor] = field(default_factory=list)
    replaces: dict[Tensor, Storage] = field(default_factory=dict)
    last: set[Tensor] = field(default_factory=set)  # of these, whose old storage no name means

    def request(self, taken: dict[Tensor, Storage]) -> int:
        """Give the bytes that it needs beside what is there and what it takes over."""
        return self.workspace + sum(t.size for t in self.results if t not in taken)

    def gives_up(self, new: Tensor, old: Storage) -> bool:
        """Whether a storage that cannot be made again is needed by nobody after this call."""
        others = (t for t in old.readers if t.call is not self and t.storage is not old)
        awaits = (not t.defined and (not t.storage.banished or t.storage.came_back) for t in others)
        is_lost = old.irreplaceable and not old.tensors[0].call.is_constant
        return is_lost and new in self.last and not any(awaits)


@dataclass(eq=False)
class Tensor:
    """A result of a call."""

    number: int
    call: Call
    storage: Storage
    size: int
    first_name: int = -1
    references: int = 1
    defined: bool = False


@dataclass(eq=False)
class Storage:
    """A buffer and its tensors."""

    number: int
    size: int
    tensors: list[Tensor] = field(default_factory=list)
    readers: list[Tensor] = field(default_factory=list)  # tensors that have it as a parent
    last_access: float = -inf
    material: bool = False
    pinned: bool = False
    banished: bool = False
    was_recomputed: bool = False  # ever
    came_back: bool = False  # banished, computed beside a sibling, evicted: it waits again
    irreplaceable: bool = False  # banish's rule holds for it, whatever the policy

    @property
    def cost(self) -> int:
        """Cost of the distinct calls that made its tensors."""
        return sum(call.cost for call in {t.call for t in self.tensors})

    @property
    def referenced(self) -> bool:
        """Whether the program holds one of its tensors."""
        return any(t.references > 0 for t in self.tensors)

    @property
    def awaited(self) -> bool:
        """Whether a tensor of another storage, not computed, has it as a parent."""
        others = (t for t in self.readers if t.storage is not self and not t.defined)
        return any(not t.storage.banished or t.storage.came_back for t in others)

    def parents(self) -> set[Storage]:
        """Storages that its tensors are computed from."""
        found = {p.storage for t in self.tensors for p in t.call.parents}
        return {s for s in found if s is not self and not s.banished}

    def children(self) -> set[Storage]:
        """Storages computed from it."""
        found = {t.storage for t in self.readers}
        return {s for s in found if s is not self and not s.banished}

    def evicted_neighbors(self) -> set[Storage]:
        """Parents and children that are not material."""
        return {s for s in self.parents() | self.children() if not s.material}
