"""How a run's story is shown to a person: a few lines and tables, names made harmless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .output import (
    IN_LINE,
    format_bytes,
    format_count,
    format_ns,
    name_cell,
    print_fields,
    print_table,
)

if TYPE_CHECKING:
    from ..explaining import CallStory, Eviction, Explanation, Life, Return
    from ..live import Instant, LivePart
    from ..scores import Candidate, Decision
    from ..worth import Larger, Worth

MOST_CHAIN = 5  # calls of a chain of causes
LEFT = {
    "evict": "evicted for lack of memory",
    "offload": "offloaded for lack of memory",
    "deallocate": "the program let go of it",
    "banish": "dropped for good",
}


def print_head(told: Explanation) -> None:
    """Say which run it is, and how it ended."""
    run = told.result
    is_online = run.kind == "online"
    times = ", times estimated" * (run.times == "estimated")
    fields = {
        "trace": f"{name_cell(run.trace, IN_LINE)} ({run.trace_digest[:16]}){times}",
        "method": name_cell(run.method, IN_LINE) + f", {run.deallocation}" * is_online,
        "status": f"{run.status}: {name_cell(run.message, 400)}" if run.message else run.status,
        "slowdown": "-" if run.slowdown is None else f"{run.slowdown:.4f}",
        "budget": format_bytes(run.budget_bytes),
        "peak": format_bytes(run.peak_bytes),
    }
    if run.memory != "counter":
        fields["memory"] = name_cell(run.memory)
    print_fields(fields)


def print_summary(told: Explanation, top: int) -> None:
    """Tell where the overhead goes, what is there at the peak, what more memory would buy."""
    _print_overhead(told, top)
    print_instant(told.live(), top)
    _print_worth(told, top)


def _print_overhead(told: Explanation, top: int) -> None:
    from ..overheads import summed

    run = told.result
    parts = told.overhead
    total = sum(part.total_ns for part in parts)
    click.echo(
        f"\noverhead: {format_ns(total)} = {format_ns(run.remat_ns)} recomputation + "
        f"{format_ns(run.stall_ns)} stalls + {format_ns(run.search_ns)} search"
    )
    for field in ("module", "operator"):
        rows = summed(parts, (field,))
        if not total or (field == "module" and not any(part.module for part in rows)):
            continue
        cells = [
            [
                name_cell(getattr(part, field)),
                format_count(part.remats),
                *map(format_ns, (part.remat_ns, part.stall_ns, part.search_ns)),
                f"{part.total_ns / total:.1%}",
            ]
            for part in rows
        ]
        click.echo()
        _print_rows([field, "calls", "recomputation", "stalls", "search", "share"], cells, top)


def print_instant(live: Instant, top: int) -> None:
    """Tell what is in memory at an instant."""
    named = {"peak": "at the peak", "end": "at the end"}.get(live.moment, "then")
    since = "from " if live.moment not in ("peak", "end") else ""  # it holds for the whole call
    during = f", in {name_cell(live.running, IN_LINE)}" if live.running else ""
    click.echo(f"\nin memory {named} ({since}{format_ns(live.time_ns)}{during}): "
               f"{format_bytes(live.total_bytes)}")  # fmt: skip
    if not live.is_exact:
        click.echo("(less than the peak, which has a workspace: --trace tells whose)")
    for what, count in (
        ("workspace", live.workspace_bytes),
        ("second copies", live.second_copy_bytes),
    ):
        if count:
            click.echo(f"{format_bytes(count)} of it {what} of the running call")
    for field in ("category", "module", "operator"):
        rows = live.by(field)
        if any(getattr(part, field) for part in rows):
            header = [field, "bytes", "share", "recomputed", "storages"]
            cells = [_live_cells(part, field, live.total_bytes) for part in rows]
            click.echo()
            _print_rows(header, cells, top)
    cells = [
        [
            *map(name_cell, (one.name, one.category, one.module, one.operator)),
            "recomputed" if one.is_recomputed else "original",
            format_bytes(one.bytes),
        ]
        for one in live.storages
    ]
    if cells:
        click.echo()
        header = ["storage", "category", "module", "operator", "", "bytes"]
        _print_rows(header, cells, top, n_text=5)


def _live_cells(part: LivePart, field: str, total: int) -> list[str]:
    return [
        name_cell(getattr(part, field)),
        format_bytes(part.bytes),
        f"{part.bytes / total:.1%}" if total else "-",
        format_bytes(part.recomputed_bytes) if part.recomputed_bytes else "-",
        format_count(part.storages),
    ]


def _print_worth(told: Explanation, top: int) -> None:
    if not told.worths:
        return
    click.echo("\nwhat more memory would buy: cost of bringing storages back, the dearest bytes\n")
    _print_rows(
        ["storages", "module", "operator", "bytes", "again", "cost", "per MiB"],
        [_worth_cells(worth) for worth in told.worths],
        top,
        n_text=3,
    )
    larger = told.with_more(top)
    if told.story.trace is None:
        click.echo("\nthe run with so much more memory: --trace TRACE tries it")
    if larger:
        click.echo("\nthe run with room for the first of these more, and where these must stay:\n")
        rows = [_larger_cells(run, told.result.budget_bytes or 0) for run in larger]
        header = [
            "first",
            "more",
            "budget",
            "slowdown",
            "calls",
            "slowdown if kept",
            "calls if kept",
        ]
        print_table(header, rows, n_text=0)


def _worth_cells(worth: Worth) -> list[str]:
    return [
        *map(name_cell, (" ".join(worth.names), worth.module, worth.operator)),
        format_bytes(worth.bytes),
        format_count(worth.returns),
        format_ns(worth.cost_ns),
        format_ns(round(worth.ns_per_byte * 2**20)),
    ]


def _larger_cells(run: Larger, budget: int) -> list[str]:
    kept = run.slowdown_keeping
    return [
        format_count(run.first),
        format_bytes(run.budget_bytes - budget),
        format_bytes(run.budget_bytes),
        run.status if run.slowdown is None else f"{run.slowdown:.4f}",
        format_count(run.rematerializations),
        run.status_keeping if kept is None else f"{kept:.4f}",
        format_count(run.rematerializations_keeping),
    ]


def print_life(told: Explanation, life: Life, top: int) -> None:
    """Tell what happened to a storage."""
    from ..explaining import Eviction

    what = ", ".join(name_cell(text) for text in (life.operator, life.module) if text)
    click.echo(f"\n{name_cell(life.name)}: storage {life.storage}, {format_bytes(life.bytes)}, "
               f"{life.category}" + f", made by {what}" * bool(what))  # fmt: skip
    if life.made_ns is None:
        click.echo("it was never made")
        return
    click.echo(f"{format_ns(life.made_ns)}: made")
    for happening in life.happenings:
        if isinstance(happening, Eviction):
            _print_eviction(told, happening, top)
        else:
            _print_return(told, happening)


def print_call(told: Explanation, story: CallStory, top: int) -> None:
    """Tell what a call did."""
    click.echo(f"\n{name_cell(story.call, IN_LINE)}: ran at {format_ns(story.started_ns)}, "
               f"for {format_ns(story.cost_ns)}")  # fmt: skip
    for again in story.returns:
        _print_return(told, again)
    if not story.evictions:
        click.echo("nothing was evicted to make room for it")
    for eviction in story.evictions:
        _print_eviction(told, eviction, top)


def _print_return(told: Explanation, back: Return) -> None:
    in_all = "" if back.in_all_ns == back.cost_ns else f", {format_ns(back.in_all_ns)} in all"
    click.echo(
        f"{format_ns(back.time_ns)}: {name_cell(back.call, IN_LINE)} ran again "
        f"({format_ns(back.cost_ns)}{in_all})"
    )
    for name in back.chain[:MOST_CHAIN]:
        click.echo(f"    needed by {name_cell(name, IN_LINE)}")
    if len(back.chain) > MOST_CHAIN:
        last = name_cell(back.chain[-1], IN_LINE)
        click.echo(f"    ... {len(back.chain) - MOST_CHAIN} calls more, the last {last}")
    if not back.chain and told.story.trace is not None:
        click.echo("    needed at the end: an output")


def _print_eviction(told: Explanation, gone: Eviction, top: int) -> None:
    is_planned = told.result.kind != "online"
    reason = "the plan frees it" if is_planned else LEFT[gone.action]
    room = f", to make room for {name_cell(gone.for_call, IN_LINE)}" if gone.for_call else ""
    click.echo(
        f"{format_ns(gone.time_ns)}: {name_cell(gone.name)} ({format_bytes(gone.bytes)}) leaves: "
        f"{reason}{room}"
    )
    if gone.decision is not None:
        _print_decision(told, gone.decision, top)
    elif gone.score is not None and told.story.trace is None:
        click.echo(f"    its score was {gone.score:.6g}; --trace tells those of the others")


def _print_decision(told: Explanation, decision: Decision, top: int) -> None:
    """Show what could have gone, the lowest score first."""
    if len(decision.together) > 1:
        click.echo(
            f"    with its neighbors, a window of {len(decision.together)} that goes as one:"
        )
    names = list(dict.fromkeys(name for c in decision.candidates for name in c.terms))
    rows = [_candidate_cells(told, one, names) for one in decision.candidates]
    _print_rows(["candidate", "bytes", "score", *names], rows, top)


def _candidate_cells(told: Explanation, one: Candidate, names: Sequence[str]) -> list[str]:
    passed = "" if one.was_considered else " (passed over)"
    return [
        name_cell(str(told.story.storages["name"][one.storage])) + passed,
        format_bytes(one.bytes),
        "chance" if one.score is None else f"{one.score:.6g}",
        *(_number(one.terms[name]) if name in one.terms else "-" for name in names),
    ]


def _number(value: float) -> str:
    """Write a term: whole numbers with thousands set apart, others to six digits."""
    is_whole = value.is_integer() and abs(value) < 2**53
    return format_count(int(value)) if is_whole else f"{value:.6g}"


def _print_rows(
    header: Sequence[str], rows: Sequence[Sequence[str]], top: int, n_text: int = 1
) -> None:
    """Print the first rows of a table, and how many there are more."""
    print_table(header, rows[:top], n_text=n_text)
    if len(rows) > top:
        click.echo(f" more rows: {len(rows) - top} (--top)")
