"""Where a trace was read from, and what was made of the files: it stays with the trace.

It is no part of what a trace says, so the digest does not know it. Trace files keep it; DTR logs
have no place for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WITH_FRACTIONS = "with fractions"  # in what is inferred of numbers that are not whole


@dataclass(frozen=True)
class Summary:
    """What an import made of a file; ``rematsim import`` prints it on standard error.

    Attributes
    ----------
    taken : mapping of str to int
        What is in the trace now, with how many: ``{"operators": 1234, "storages": 88}``.
    inferred : mapping of str to int
        What the file does not say: ``{"releases after last use": 88}``.
    dropped : mapping of str to int
        What is in the file and not in the trace: ``{"events that are no operators": 5120}``.
    """

    taken: Mapping[str, int] = field(default_factory=dict)
    inferred: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """Of which files an import made a trace, and what it made of them.

    Attributes
    ----------
    format : str
        What the main file is.
    files : tuple of str
        The files: the main one, then its companions.
    summary : Summary
    """

    format: str
    files: tuple[str, ...]
    summary: Summary = Summary()

    @property
    def fractions(self) -> list[str]:
        """Say how many numbers had fractions, and what became of them; nothing if none had."""
        inferred = self.summary.inferred.items()
        return [f"{count:,} {what}" for what, count in inferred if WITH_FRACTIONS in what]
