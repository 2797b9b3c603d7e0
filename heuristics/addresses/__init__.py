"""rematsim.heuristics.addresses: methods that give buffers addresses. One file each.

A method gets a `Search`, which holds the best plan so far, offers it better ones, and stops when it
is over; `METHODS` finds the methods by name.
"""

from __future__ import annotations

from .methods import METHODS as METHODS
from .methods import get as get
from .methods import prepare as prepare
from .searching import Search as Search

__all__ = ["METHODS", "Search", "get", "prepare"]
