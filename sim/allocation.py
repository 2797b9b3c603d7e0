"""`Allocator`: a memory model with addresses on its own, for sequences of allocations.

Without calls and storages: what asks keeps the piece that it was given, and gives it back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import compiled
from .memory import ASK, BEGIN, GIVE_BACK, LARGEST_HOLE, REQUESTS
from .memory_models import find_memory
from .program import Program
from .space import LOW, NONE
from .state import NO_LIMIT, State, blank


class Allocator:
    """Hands out addresses as a memory model does.

    Parameters
    ----------
    memory : str
        A model with addresses, with its settings.
    budget_bytes : int or None
        How much it may hand out; None: as much as there are addresses.
    most_pieces : int
        How many pieces there can be, free ones included.

    Attributes
    ----------
    state : State
        Of which the columns about addresses are in use.

    Examples
    --------
    >>> arena = Allocator("arena", 2048)
    >>> a, b = arena.allocate(100), arena.allocate(600)
    >>> arena.address(b), arena.allocate(1000)
    (512, None)
    """

    def __init__(
        self, memory: str = "arena", budget_bytes: int | None = None, most_pieces: int = 1 << 16
    ) -> None:
        model = find_memory(memory)
        assert model.has_addresses, f"{model.name} has no addresses"
        self.state: State = blank({"pieces": most_pieces})
        self._program: Program = _no_program()
        self.state.room["budget_bytes"] = NO_LIMIT if budget_bytes is None else budget_bytes
        self.state.settings[: len(model.settings)] = model.settings
        self._serve = compiled.serve(model.model).function
        self._ask(BEGIN)

    def _ask(self, request: int, subject: int = 0) -> int:
        return int(self._serve(self._program, self.state, REQUESTS * subject + request))

    def allocate(self, size_bytes: int, side: int = LOW) -> int | None:
        """Give a piece for so many bytes, at one end of a hole; None if there is no place."""
        self.state.space["wanted_side"] = side
        piece = self._ask(ASK, size_bytes)
        return None if piece == NONE else piece

    def free(self, piece: int) -> None:
        """Take a piece back."""
        self._ask(GIVE_BACK, piece)

    def address(self, piece: int) -> int:
        """Tell where a piece begins."""
        return int(self.state.pieces[piece].address)

    @property
    def largest_hole(self) -> int:
        """The most bytes that one piece could have now."""
        return self._ask(LARGEST_HOLE)

    @property
    def space(self) -> Any:
        """The model's accounts: a row of `space.SPACE_FIELDS`."""
        return self.state.space[0]


def _no_program() -> Program:
    """Make a Program that has nothing in it."""
    return Program(**{name: np.zeros(1, dtype) for name, dtype in Program.LAYOUT.items()})
