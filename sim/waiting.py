"""Why a plan waits for ever: from the transfer or the call that waits to what keeps it waiting."""

from __future__ import annotations

from collections.abc import Callable

from .memory import LARGEST_HOLE
from .runner import Run
from .traffic import NO_TRANSFER


class Waiting:
    """A run whose compute stream, or a transfer that it has left behind, waits for ever.

    Parameters
    ----------
    run : Run
        That was stopped there.
    named : callable
        Names the plan's action of an instruction.

    Attributes
    ----------
    message : str
        The chain of who waits for whom.
    is_for_host : bool
        Whether host memory is what is missing in the end.
    """

    def __init__(self, run: Run, named: Callable[[int], str]) -> None:
        self._run, self._named = run, named
        self._transfers = run.state.transfers[: int(run.state.link["issued"][0])]
        self.is_for_host = False
        self.message = f"it waits for ever: {self._chain()}"

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
        """Follow who waits for whom, from a transfer on."""
        words: list[str] = []
        seen: set[int] = set()
        while number not in seen:
            seen.add(number)
            transfer = self._transfers[number]
            first = self._first(int(transfer["is_to_host"]))
            source = int(transfer["source"])
            if number != first:
                number, why = first, "its turn behind"
            elif source != NO_TRANSFER and not self._transfers[source]["has_ended"]:
                number, why = source, "what it copies, brought by"
            else:
                return " which ".join([*words, self._last_reason(number)])
            words.append(f"waits for {why} {self._name(number)},")
        return " which ".join(words).rstrip(",")

    def _last_reason(self, number: int) -> str:
        """Say what a transfer whose turn has come lacks."""
        state, transfer = self._run.state, self._transfers[number]
        size = int(state.storages["size_bytes"][transfer["storage"]])
        if transfer["is_to_host"]:
            self.is_for_host = True
            taken, most = int(state.link["host_bytes"][0]), int(state.link["host_limit_bytes"][0])
            what, later = "host memory", "only a later DISCARD frees"
        else:
            taken, most = int(state.room["used_bytes"]), int(state.room["budget_bytes"])
            what, later = "room", "only later actions free"
        need = f"it needs {size:,} bytes, {taken:,} of {most:,} are taken"
        if self._run.has_addresses and not transfer["is_to_host"]:
            need += f", the largest hole has {self._run.ask_memory(LARGEST_HOLE):,}"
        return f"waits for {what}: {need}, and {later} some"

    def _first(self, to_host: int) -> int:
        """Give the first transfer one way that has not ended."""
        transfers = self._transfers
        return int(((transfers["has_ended"] == 0) & (transfers["is_to_host"] == to_host)).argmax())

    def _name(self, number: int) -> str:
        return self._named(int(self._transfers["instruction"][number]))
