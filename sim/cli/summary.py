"""The table that ends a sweep: slowdown by trace, method and budget."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

import click

from ..result import NO_LINK, OPTIONS, OPTIONS_OF_PLANS, named, shared_names, told_apart
from ..traces.wording import printable
from .output import format_bytes, print_table
from .telling import missed_floor

if TYPE_CHECKING:
    from ..store import Row
    from ..traces.trace import Trace

_Budget: TypeAlias = tuple[object, object]


def print_summary(rows: Sequence[Row]) -> None:
    """Print a line per trace, options and method, a column per budget.

    Notes
    -----
    A cell shows the slowdown, or how the run failed; over several seeds the median, where a run
    that failed counts as infinitely slow, with the number of those. Of the options plans heed the
    memory model, and those that move data the link.
    """
    varying = [
        name
        for name in (*OPTIONS, "link")
        if len({row[name] for row in rows if _heeds(row, name)}) > 1
    ]
    budgets = list(dict.fromkeys(_budget(row) for row in rows))
    lines: dict[tuple[str, ...], dict[_Budget, list[Row]]] = {}
    shared = shared_names(_trace(row) for row in rows)
    for row in rows:
        heeded = (str(row[name]) if _heeds(row, name) else "-" for name in varying)
        trace = named(told_apart(*_trace(row), shared), str(row["times"]))
        key = (trace, *heeded, str(row["method"]))
        lines.setdefault(key, {}).setdefault(_budget(row), []).append(row)
    print_table(
        ["trace", *varying, "method", *_titles(budgets)],
        [
            (*key, *(_cell(line.get(budget, [])) for budget in budgets))
            for key, line in lines.items()
        ],
        n_text=2 + len(varying),
    )


def _heeds(row: Row, option: str) -> bool:
    """Say whether an option can change a row."""
    if option == "link":
        return row["link"] != NO_LINK
    return row["kind"] != "static" or option in OPTIONS_OF_PLANS


def print_reasons(rows: Sequence[Row]) -> None:
    """Say why there are no plans: once for each reason, with the first row that it is told of.

    Notes
    -----
    Rows of a method whose messages differ in numbers alone have the same reason. Methods stand in
    one line only if all that is said is true of each: same rows, same numbers.
    """
    reasons: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["kind"] == "static" and row["status"] != "ok":
            message = re.sub(r"\d[\d,.]*", "", str(row["message"]))
            reasons.setdefault((str(row["method"]), message), []).append(row)
    lines: dict[tuple[tuple[str, str, str, _Budget, str], ...], list[str]] = {}
    for (method, _), alike in reasons.items():
        told = tuple(
            (_failure(row), *_trace(row), _budget(row), str(row["message"])) for row in alike
        )
        lines.setdefault(told, []).append(method)
    for told, methods in lines.items():
        failure, trace, _, budget, message = told[0]
        [title] = _titles([budget])
        more = f"; the first of {len(told)} rows" if len(told) > 1 else ""
        click.echo(
            printable(f"{failure}, {', '.join(methods)}: {message} ({trace}, {title}{more})")
        )


def print_floors(rows: Sequence[Row], traces: Sequence[Trace]) -> None:
    """Name the lowest budget worth trying of each trace that was tried below it, and failed."""
    floors = []
    for trace in traces:
        missed = missed_floor(trace, [row for row in rows if row["trace_digest"] == trace.digest])
        if missed is not None:
            floors.append(f"{trace.name} {missed[1]:.3f}x")
    if floors:
        told = f"lowest budget worth trying: {', '.join(floors)} (rematsim info says why)"
        click.echo(printable(told))


def _trace(row: Row) -> tuple[str, str]:
    return str(row["trace"]), str(row["trace_digest"])


def _budget(row: Row) -> _Budget:
    """Tell the budget that was asked for: a fraction, or bytes."""
    fraction = row["budget_fraction"]
    return fraction, (row["budget_bytes"] if fraction is None else None)


def _titles(budgets: Sequence[_Budget]) -> list[str]:
    """Name the budgets, in exact bytes where rounding would make two look alike."""
    rounded = [
        f"{fraction}x" if fraction is not None else format_bytes(count)  # type: ignore[arg-type]
        for fraction, count in budgets
    ]
    return [
        title if rounded.count(title) == 1 else f"{count} B"
        for title, (_, count) in zip(rounded, budgets, strict=True)
    ]


def _failure(row: Row) -> str:
    """Say how a run failed; where there was no plan, how the planner ended."""
    return str(row["planner_status"] if row["status"] == "no_plan" else row["status"])


def _cell(rows: Sequence[Row]) -> str:
    """Show the runs of one cell, of one seed or several."""
    slowdowns = [row["slowdown"] for row in rows if isinstance(row["slowdown"], float | int)]
    failures = [_failure(row) for row in rows if row["status"] != "ok"]
    middle = median([*slowdowns, *(math.inf for _ in failures)])
    if math.isinf(middle):
        return "/".join(sorted(set(failures)))
    failed = f" ({len(failures)} failed)" if failures else ""
    return f"{middle:.3f}{failed}"
