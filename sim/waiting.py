"""Why a plan waits for ever, or has no room: from who waits to what keeps it waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .memory import LARGEST_HOLE
from .runner import Run
from .traffic import NO_TRANSFER, NOT_YET


class Waiting:
    """A run that stopped because something waits for ever: a call, or a transfer.

    Parameters
    ----------
    run : Run
        That was stopped there.
    named : callable
        Names the plan's action of an instruction.

    Attributes
    ----------
    is_for_host : bool
        Whether host memory is what is missing in the end, once a message has been asked for.
    """

    def __init__(self, run: Run, named: Callable[[int], str]) -> None:
        self._run, self._named = run, named
        self._transfers = run.state.transfers[: int(run.state.link["issued"][0])]
        self.is_for_host = False

    def for_ever(self) -> str:
        """Give the chain of who waits for whom, from the compute stream on."""
        return f"it waits for ever: {self._chain()}"

    def what_is_to_leave(self, size: int) -> str:
        """Say what keeps the bytes from leaving that would make room for so many; or nothing."""
        number = self._leaving(size)
        return "" if number == NO_TRANSFER else f"{self._to_leave(number)} {self._reasons(number)}"

    def _chain(self) -> str:
        link = self._run.state.link[0]
        if self._run.fact("instruction") == len(self._run.program.instructions):
            number = int((self._transfers["has_ended"] == 0).argmax())
            return f"{self._name(number)} never ends: {self._reasons(number)}"
        if int(link["awaited"]) != NO_TRANSFER:
            number = int(link["awaited"])
            return f"for {self._name(number)} to end, which {self._reasons(number)}"
        number = self._first(to_host=0)
        return f"for room, behind {self._name(number)}, which {self._reasons(number)}"

    def _reasons(self, number: int) -> str:
        """Follow who waits for whom, from a transfer on, until that is known or comes round."""
        words: list[str] = []
        seen: set[int] = set()
        while number not in seen and number != NO_TRANSFER:
            seen.add(number)
            why, number = self._reason(number)
            words.append(why)
        return " which ".join(words).rstrip(",")

    def _reason(self, number: int) -> tuple[str, int]:
        """Say what a transfer waits for; give the transfer that has to end for that, if one has."""
        transfer = self._transfers[number]
        first = self._first(int(transfer["is_to_host"]))
        source = int(transfer["source"])
        if number != first:
            return f"waits for its turn behind {self._name(first)},", first
        if source != NO_TRANSFER and not self._transfers[source]["has_ended"]:
            return f"waits for what it copies, brought by {self._name(source)},", source
        size = self._size(number)
        return self._for_host(size) if transfer["is_to_host"] else self._for_room(number, size)

    def _for_host(self, size: int) -> tuple[str, int]:
        """Say what a transfer lacks whose turn to go to the host has come."""
        link = self._run.state.link[0]
        taken, most = int(link["host_bytes"]), int(link["host_limit_bytes"])
        why = f"waits for host memory: it needs {size:,} bytes, {taken:,} of {most:,} are taken"
        late = self._left(self._transfers["discarded_by"] != NOT_YET)
        freed = sum(self._size(number) for number in late)
        if not late or taken - freed + size > most:
            self.is_for_host = True
            return f"{why}, and only a later DISCARD frees some", NO_TRANSFER
        discard = self._named(int(self._transfers["discarded_by"][late[0]]))
        return f"{why}; {discard} waits for the end of {self._name(late[0])},", late[0]

    def _for_room(self, number: int, size: int) -> tuple[str, int]:
        """Say what a transfer lacks whose turn to come back has come."""
        state = self._run.state
        if self._transfers[number]["is_behind_call"] and state.link["call_waits"][0]:
            return "waits for room behind this call", NO_TRANSFER
        taken, most = int(state.room["used_bytes"]), int(state.room["budget_bytes"])
        why = f"waits for room: it needs {size:,} bytes, {taken:,} of {most:,} are taken"
        if self._run.has_addresses:
            why += f", the largest hole has {self._run.ask_memory(LARGEST_HOLE):,}"
        leaving = self._leaving(size)
        if leaving == NO_TRANSFER:
            return f"{why}, and only later actions free some", NO_TRANSFER
        return why + self._to_leave(leaving).removesuffix(" which"), leaving

    def _leaving(self, size: int) -> int:
        """Give the first transfer to the host that waits, if those that do make so much room."""
        waiting = self._to_host()
        room = self._run.state.room
        rest = int(room["used_bytes"]) - sum(self._size(number) for number in waiting)
        is_enough = rest + size <= int(room["budget_bytes"])
        return waiting[0] if waiting and is_enough else NO_TRANSFER

    def _to_leave(self, first: int) -> str:
        total = sum(self._size(number) for number in self._to_host())
        return f"; {total:,} are to leave, first by {self._name(first)}, which"

    def _to_host(self) -> list[int]:
        """Give the transfers to the host that wait and whose bytes are in memory."""
        ended, source = self._transfers["has_ended"] == 1, self._transfers["source"]
        is_there = (source == NO_TRANSFER) | ended[source]
        return self._left((self._transfers["is_to_host"] == 1) & is_there)

    def _left(self, chosen: Any) -> list[int]:
        """Give the transfers, of some, that have not ended."""
        found: list[int] = np.flatnonzero(chosen & (self._transfers["has_ended"] == 0)).tolist()
        return found

    def _first(self, to_host: int) -> int:
        """Give the first transfer one way that has not ended."""
        return self._left(self._transfers["is_to_host"] == to_host)[0]

    def _size(self, number: int) -> int:
        sizes = self._run.state.storages["size_bytes"]
        return int(sizes[self._transfers["storage"][number]])

    def _name(self, number: int) -> str:
        return self._named(int(self._transfers["instruction"][number]))
