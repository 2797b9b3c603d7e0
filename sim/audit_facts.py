"""What an audit knows: rows of the log, calls, tensors, storages, and what contradicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

from .opcodes import ACTIONS

# What it is called where a column of the log says something else than what is derived.
COLUMN_FINDINGS = {
    "action": "UNEXPECTED_ACTION",
    "instruction": "UNEXPECTED_ACTION",
    "stream": "UNEXPECTED_ACTION",
    "call": "WRONG_CALL",
    "tensor": "WRONG_CALL",
    "cause_call": "WRONG_CAUSE",
    "storage": "WRONG_STORAGE",
    "bytes": "BYTES_MISMATCH",
    "start_ns": "CLOCK_MISMATCH",
    "end_ns": "CLOCK_MISMATCH",
    "memory_after_bytes": "BYTES_MISMATCH",
    "host_after_bytes": "BYTES_MISMATCH",
    "address": "WRONG_ADDRESS",
    "reserved_after_bytes": "BYTES_MISMATCH",
    "score": "SCORE_MISMATCH",
}
# What a log may be without: it is compared where it is there. Of plans it says what was done.
MAY_LACK = (
    *("instruction", "stream", "tensor"),
    *("host_after_bytes", "address", "reserved_after_bytes"),
)
OF_PLANS = ("tensor",)


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

    def compare(self, derived: dict[str, Any]) -> None:
        """Compare what has been derived of it with what it says; None is not known."""
        for column, finding in COLUMN_FINDINGS.items():
            if column in self.columns and derived.get(column) is not None:
                found, due = self.columns[column], derived[column]
                if found != due and not (found != found and due != due):  # no numbers are equal
                    raise self.fail(finding, f"{column} is {found} and should be {due}")


def names_of(codes: list[int]) -> list[str]:
    """Name the actions of an event log."""
    return [ACTIONS[code] if 0 <= code < len(ACTIONS) else f"action {code}" for code in codes]


def rows_of(events: Any) -> list[Row]:
    """Give the rows of an event log, with the columns that it has.

    In a file written before there was ``instruction`` that is -1 everywhere.
    """
    columns = {name: events[name].tolist() for name in COLUMN_FINDINGS if name in events}
    if all(number == -1 for number in columns.get("instruction", ())):
        columns.pop("instruction", None)
    columns["action"] = names_of(columns["action"])
    return [
        Row(number, values[0], dict(zip(columns, values, strict=True)))
        for number, values in enumerate(zip(*columns.values(), strict=True))
    ]


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

    @property
    def is_there(self) -> bool:
        """Whether it is in memory, or on its way there."""
        return self.defined and not self.storage.away


@dataclass(eq=False)
class Storage:
    """A buffer and its tensors."""

    number: int
    size: int
    tensors: list[Tensor] = field(default_factory=list)
    readers: list[Tensor] = field(default_factory=list)  # tensors that have it as a parent
    last_access: float = -inf
    material: bool = False
    away: bool = False  # on the host alone
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
    def evicted(self) -> bool:
        """Whether it has to be computed before it can be read."""
        return not (self.material or self.away)

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
        """Parents and children that are evicted."""
        return {s for s in self.parents() | self.children() if s.evicted}


FINDINGS = {
    "GOOD": "nothing contradicts",
    "BYTES_MISMATCH": "a size, or the memory after an action",
    "CLOCK_MISMATCH": "the time of an action",
    "WRONG_CALL": "another call should have run",
    "WRONG_STORAGE": "another storage should have been touched",
    "WRONG_CAUSE": "an action blamed on a call that did not ask for it",
    "PARENT_NOT_DEFINED": "a call ran without something that it reads",
    "OVER_BUDGET": "a result was placed where it does not fit",
    "WRONG_ADDRESS": "something lies where the memory model would not have put it",
    "NOT_MATERIAL": "a storage was evicted that was not in memory",
    "LOCKED_BUT_EVICTED": "a storage was evicted that a running call or a pin holds",
    "NEEDLESS_EVICTION": "a storage was evicted although everything fits",
    "STILL_NEEDED": "a policy freed a storage that is referenced or waited for",
    "SCORE_MISMATCH": "the victim's score is not what its definition gives",
    "NOT_THE_MINIMUM": "another storage of the pool should have been the victim",
    "DEARER_WAY": "a storage was dropped, or copied to the host, where the other costs less",
    "NOT_ON_HOST": "a transfer from the host, or a discard, of what is not there",
    "WAITS_FOR_EVER": "an action waited for something that never comes",
    "UNEXPECTED_ACTION": "another action was due",
    "LOG_ENDS_EARLY": "an action was due and the log has none",
    "STATUS_MISMATCH": "the run did not end as its row says",
    "COUNT_MISMATCH": "a figure of the row is not what the log adds up to",
}


@dataclass(frozen=True)
class Verdict:
    """What an audit found; true if it is good.

    Parameters
    ----------
    finding : str
        One of ``FINDINGS``.
    message : str
        The first contradiction, for a person; empty if there is none.
    row : int
        The row of the event log that it was found at; -1 if it is about the whole run.
    """

    finding: str
    message: str = ""
    row: int = -1

    def __bool__(self) -> bool:
        """Say whether nothing contradicts."""
        return self.finding == "GOOD"
