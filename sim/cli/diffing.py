"""``rematsim diff``: what one plan keeps or recomputes and another does not."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..traces.wording import printable
from . import options
from .output import format_bytes, format_count, format_ns, name_cell, print_json, print_table

if TYPE_CHECKING:
    from ..plan_diff import Difference

SHOWN = 20


@options.command(
    "diff",
    "rematsim diff checkmate.plan dtr.plan",
    "rematsim diff a.plan b.plan --trace model.log --json",
)
@click.argument("first")
@click.argument("second")
@click.option("--trace", help="The trace that both are for. Default: where the first one says.")
@click.option("--all", "shows_all", is_flag=True, help=f"Show all rows, not the first {SHOWN}.")
@options.cache_option
@options.json_option
def command(
    first: str, second: str, trace: str | None, shows_all: bool, no_cache: bool, as_json: bool
) -> None:
    """Compare two plans for one trace, by module and operator.

    Bytes are of storages that one plan keeps and the other drops although it reads them later; time
    and calls are of what one computes again beyond the other.
    """
    from ..errors import PlanError
    from ..plan_diff import compare_plans
    from ..plan_files import load_plan
    from ..traces.loading import load_trace

    plans = load_plan(first), load_plan(second)
    where = trace or plans[0].source
    if not where:
        raise PlanError(f"{first}: it does not say where its trace is: give --trace")
    rows = compare_plans(load_trace(where, cache=not no_cache), *plans)
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        _print(rows, (plans[0].method or first, plans[1].method or second), shows_all)


def _print(rows: list[Difference], names: tuple[str, str], shows_all: bool) -> None:
    """Say which plans they are, and how they differ."""
    click.echo(printable(f"A: {names[0]}") + "\n" + printable(f"B: {names[1]}") + "\n")
    print_differences(rows, ("A", "B"), len(rows) if shows_all else SHOWN, "--all")


def print_differences(
    rows: list[Difference], labels: tuple[str, str], most: int, option: str
) -> None:
    """Show the rows that differ most, and the sums of all; the option named shows more."""
    if not rows:
        click.echo("both keep and recompute the same")
        return
    columns = [f"only {label} keeps" for label in labels]
    columns += [f"{label} recomputes" for label in labels]
    shown = rows[:most]
    cells = [[name_cell(row.module), name_cell(row.operator), *_cells([row])] for row in shown]
    total = ["all", f"{len(rows)} rows", *_cells(rows)]
    print_table(["module", "operator", *columns], [*cells, total], n_text=2)
    if len(shown) < len(rows):
        click.echo(f"\n{len(rows) - len(shown)} rows more: {option}")


def _cells(rows: list[Difference]) -> list[str]:
    """Write the sums of some rows."""
    kept = [format_bytes(sum(row.kept_bytes[side] for row in rows)) for side in (0, 1)]
    again = []
    for side in (0, 1):
        count = sum(row.remats[side] for row in rows)
        time = format_ns(sum(row.remat_ns[side] for row in rows))
        again.append(f"{time} ({format_count(count)})" if count else "-")
    return [*("-" if text == "0 B" else text for text in kept), *again]
