"""What a reader is given and what it returns: the contract of every module that reads a format.

A reader module has

``FORMAT : str``
    How messages and ``info`` call the format.
``recognizes(head) -> bool``
    Whether the first 64 KiB of an unpacked file look like it. By content, never by name; cheap;
    total: it never raises.
``read(request) -> Imported``
    The trace and what was made of the file; TraceError if the file breaks a rule.

and is listed in ``registry.py``. Three more names are optional:

``TAKES_COMPANIONS = True``
    It reads further files of the same run (``Request.companions``).
``IS_COMPANION = True``
    A file of this format is no trace by itself; ``read`` says what it belongs to.
``KEEPS_PROVENANCE = True``
    Its files say themselves where their traces came from.

A reader makes traces through a TraceBuilder and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..contents import Content
from ..provenance import Summary
from ..trace import Trace

__all__ = ["Content", "Imported", "Reader", "Request", "Summary"]


class Imported(NamedTuple):
    """A trace, and what an import made of its file."""

    trace: Trace
    summary: Summary = Summary()


class Request(NamedTuple):
    """What a reader is given.

    Attributes
    ----------
    data : Content
        The file: ``.head``, ``.bytes()`` (whole), ``.open()`` (a stream, for what is too large).
    name : str
        What the trace is to be called.
    where : str
        How messages call the file.
    companions : tuple of Content
        Further files of the same run, in the order in which they were given.
    device : str or None
        The device whose times are estimated where the file has none.
    time_unit : str or None
        The unit of times in a file that does not say it: ``ns``, ``us``, ``ms``, ``s``.
    fixed_bytes : int
        What is in memory throughout and the file does not say, as one constant.
    """

    data: Content
    name: str
    where: str
    companions: tuple[Content, ...] = ()
    device: str | None = None
    time_unit: str | None = None
    fixed_bytes: int = 0


class Reader(Protocol):
    """A module that reads one format."""

    FORMAT: str

    def recognizes(self, head: bytes) -> bool:
        """Say whether a file that begins so is of the format."""

    def read(self, request: Request) -> Imported:
        """Read a file."""
