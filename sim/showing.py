"""What a notebook or a prompt shows of a result: a few facts, and not every array in it."""

from __future__ import annotations

from html import escape

from .texts import format_bytes, format_ns
from .traces.wording import printable

LONGEST_FACT = 200  # letters


class Shown:
    """A result that shows itself by its `facts`: in one line, or in a notebook as a table."""

    def facts(self) -> dict[str, str]:
        """Name what is to be seen first, each fact in words."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Write the facts in one line."""
        told = ", ".join(f"{name} {_harmless(fact)}" for name, fact in self.facts().items())
        return f"<{type(self).__name__}: {told}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align: left; padding-right: 1em'>{escape(name)}</th>"
            f"<td style='text-align: left'>{escape(_harmless(fact))}</td></tr>"
            for name, fact in self.facts().items()
        )
        return f"<table>{rows}</table>"


def _harmless(fact: str) -> str:
    """Write a fact, which may hold a name of a trace, without control characters, and cut off."""
    cut = fact if len(fact) <= LONGEST_FACT else f"{fact[:LONGEST_FACT]}..."
    return printable(cut)


class ShownRun(Shown):
    """A row of a table of runs that shows itself."""

    def facts(self) -> dict[str, str]:
        """Name what was run and what came out."""
        row = vars(self)
        facts = {
            "trace": row["trace"],
            "method": row["method"],
            "budget": format_bytes(row["budget_bytes"]),
            "status": row["status"],
        }
        if row["slowdown"] is not None:
            facts["slowdown"] = f"{row['slowdown']:.4f}"
        facts["rematerialization"] = format_ns(row["remat_ns"])
        facts["peak"] = (
            f"{format_bytes(row['peak_bytes'])} of {format_bytes(row['unlimited_peak_bytes'])}"
        )
        if row["times"] != "measured":
            facts["times"] = row["times"]
        if row["message"]:
            facts["message"] = row["message"]
        return facts
