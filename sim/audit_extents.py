"""Stretches of addresses of which parts are in use: what an audit derives of memory's layout."""

from __future__ import annotations

from bisect import insort


class Extents:
    """Parts of a stretch of addresses that are in use.

    Parameters
    ----------
    begin, end : int
        The stretch.
    """

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.used: list[tuple[int, int]] = []  # from, to
        self.touched: list[tuple[int, int]] = []  # what has ever been in use, likewise

    def copy(self) -> Extents:
        """Give the same stretch with the same in use."""
        other = Extents(self.begin, self.end)
        other.used = list(self.used)
        return other

    def holes(self) -> list[tuple[int, int]]:
        """Give size and address of all that is free between what is in use."""
        edges = [self.begin, *(edge for part in self.used for edge in part), self.end]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return [(end - begin, begin) for begin, end in pairs if end > begin]

    def overlaps(self, begin: int, end: int) -> bool:
        """Say whether something in use lies there, or the stretch ends before."""
        inside = self.begin <= begin and end <= self.end
        return not inside or any(b < end and begin < e for b, e in self.used)

    def add(self, begin: int, end: int) -> None:
        """Put addresses into use."""
        insort(self.used, (begin, end))

    def remove(self, begin: int) -> None:
        """Take what begins there out of use."""
        self.used = [part for part in self.used if part[0] != begin]

    def touch(self) -> None:
        """Note that all that is in use now has been in use."""
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(self.touched + self.used):
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        self.touched = merged

    @property
    def touched_bytes(self) -> int:
        """How much has ever been in use."""
        return sum(end - begin for begin, end in self.touched)
