"""``rematsim diff``: what one plan keeps or recomputes and another does not."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..traces.wording import printable
from . import options
from .loading import load_of_plan, why_impossible
from .output import format_bytes, format_count, format_ns, name_cell, print_json, print_table
from .replay import NOT_OK

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
) -> int:
    """Compare two plans for one trace, by module and operator.

    Bytes are of storages that one plan keeps and the other drops although it reads them later; time
    and calls are of what one computes again beyond the other.
    """
    from ..plan_diff import compare_plans
    from ..plan_files import load_plan

    plans = load_plan(first), load_plan(second)
    loaded = load_of_plan(plans[0], first, trace, cache=not no_cache)
    pairs = zip(plans, (first, second), strict=True)
    faults = [fault for plan, path in pairs if (fault := why_impossible(loaded, plan, path))]
    if faults:
        click.echo("\n".join(printable(f"rematsim: {fault}") for fault in faults), err=True)
        return NOT_OK
    rows = compare_plans(loaded, *plans)
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        for letter, plan, path in zip("AB", plans, (first, second), strict=True):
            click.echo(printable(f"{letter}: {f'{plan.method}, ' * bool(plan.method)}{path}"))
        click.echo()
        _print(rows, shows_all)
    return 0


def _print(rows: list[Difference], shows_all: bool) -> None:
    """Say how they differ."""
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
