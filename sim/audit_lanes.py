"""What an audit derives of copies and memory together: `lanes.py`, and where everything lies.

With the counter it adds nothing. With addresses a call or a copy fits if the slow model
(`audit_addresses.py`) has a place for it, and every row says where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .lanes import Copy, Lanes
from .links import Link

if TYPE_CHECKING:
    from .audit_addresses import Layout
    from .audit_facts import Call, Storage


class AuditLanes(Lanes):
    """Copies under way, memory with or without addresses, and the host.

    Parameters
    ----------
    link : Link
    budget : int or float
        Bytes.
    layout : Layout or None
        Where storages lie that were computed; what was copied here, its copy tells.
    """

    def __init__(self, link: Link, budget: float, layout: Layout | None) -> None:
        super().__init__(link, budget)
        self.layout = layout
        self.knows_places = True  # nothing that the log does not tell has asked for room
        self._at: dict[Copy, int] = {}  # where what was copied lies, or has lain
        self._passing: list[int] = []
        self._is_refused = False  # for who is first in line, since something was freed last

    def fits(self, size: int, asker: Any = None) -> bool:
        """Say whether there is room, or a place, which is taken then."""
        if self.layout is None:
            return super().fits(size)
        if size > 0 and not self._is_refused:
            self._is_refused = not self._finds_place(size, asker)
        return size == 0 or not self._is_refused

    def _finds_place(self, size: int, asker: Any) -> bool:
        assert self.layout is not None
        if not isinstance(asker, Copy):
            found = self.layout.fit(asker, {})
            self.layout.fits_now = True  # nothing has gone to make room: this is no retry
            return found
        address = self.layout.arena.place(size)
        if address is None:
            return False
        self.layout.arena.touch()
        self._at[asker] = address
        return True

    def makes_room(self, size: int, call: Any = None) -> bool:
        """Stand in the line for a call until it fits."""
        if self.layout is not None:
            self.layout.placed = {}
        return super().makes_room(size, call)

    def keep(self, call: Call) -> None:
        """Let a call's results have their places, and the rest pass."""
        if self.layout is None:
            return
        for tensor, address in self.layout.placed.items():
            if tensor is None or tensor.defined:
                self._passing.append(address)
            else:
                self.layout.address[tensor.storage] = address

    def let_pass(self) -> None:
        """Let go what only the call that was running needed."""
        super().let_pass()
        for address in self._passing:
            self._free(address)
        self._passing = []

    def begin_to_leave(self, copy: Copy) -> None:
        """Let what is issued to the host be the copy's: it may be computed again meanwhile."""
        if self.layout is not None and copy.storage in self.layout.address:
            self._at[copy] = self.layout.address.pop(copy.storage)

    def leave(self, copy: Copy) -> None:
        """Let what has been copied to the host go from memory."""
        super().leave(copy)
        self._free(self._of(copy))

    def drop_storage(self, storage: Storage, arrival: Copy | None) -> int:
        """Let a storage go from memory; give where it has lain."""
        self.memory -= storage.size
        address = -1
        if arrival is not None:
            address = self._at.get(arrival, -1)
        elif self.layout is not None:
            address = self.layout.address.pop(storage, -1)
        self._free(address)
        return address

    def _free(self, address: int) -> None:
        if self.layout is not None and address >= 0:
            self.layout.arena.free(address)
            self._is_refused = False

    def _of(self, copy: Copy) -> int:
        """Give where a copy has its bytes; one to the host may have them of that which came."""
        is_of_source = copy.is_out and copy.source is not None
        return self._at.get(copy.source if is_of_source and copy.source else copy, -1)

    def place_of(self, tensor: Any) -> int:
        """Give where a result of the call that runs was put."""
        return -1 if self.layout is None else self.layout.placed.get(tensor, -1)

    def note_copy(self, copy: Copy, **others: int) -> None:
        """Write the row of a copy."""
        super().note_copy(copy, **others, address=self._of(copy))

    def note(self, action: str, storage: Any, place: int, times: Any, **others: int) -> None:
        """Write a row that the log must have, with what is reserved then."""
        reserved = 0 if self.layout is None else self.layout.arena.reserved_bytes
        where = {"address": -1, "reserved_after_bytes": reserved, **others}
        super().note(action, storage, place, times, **where)
        if not self.knows_places:
            self.rows[-1] |= {"address": None, "reserved_after_bytes": None}
