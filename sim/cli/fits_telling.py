"""How the answer of `fits` is told: a few lines and a table for a person, an object for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..texts import shown_number
from .output import IN_LINE, format_bytes, name_cell, print_fields, print_table

if TYPE_CHECKING:
    from ..batch_search import BatchAnswer, LargestBatch
    from ..fitting import Answer
    from ..floors import CallNeed, Floor
    from ..trials import Trial

TOO_SLOW = "too slow"
MOST_OPERANDS = 3


def print_answer(answer: Answer, source: str, top: int) -> None:
    """Tell a person."""
    trace, best = answer.trace, answer.recommended
    times = ", times estimated" * trace.times_estimated
    share = answer.budget_bytes / peak if (peak := answer.unlimited_peak_bytes) else None
    lines = {
        "trace": f"{name_cell(trace.name, IN_LINE)} ({trace.digest[:16]}){times}",
        "asked": _asked(answer, share),
        "answer": _verdict(answer),
    }
    if best is not None:
        lines["command"] = answer.command(best, source)
    if answer.bound_slowdown is not None:
        lines["lower bound"] = f"slowdown {answer.bound_slowdown:.4f}"
    lines |= _smallest(answer, source)
    if best is None and not answer.proof:
        lines["not tried"] = f"what takes longer: {_longer(answer, source)}"
    print_fields(lines)
    _print_fitting(answer, top)
    _print_failed(answer)
    if answer.allowed_bytes < answer.floor.total_bytes:
        _print_floor(answer.floor)


def _asked(answer: Answer | BatchAnswer, share: float | None = None) -> str:
    budget = format_bytes(answer.budget_bytes)
    if share is not None:
        budget += f" ({share:.3f}x)"
    if answer.headroom_bytes:
        budget += f", {format_bytes(answer.allowed_bytes)} without the headroom"
    return f"{budget}; slowdown at most {shown_number(answer.slowdown)}"


def _verdict(answer: Answer) -> str:
    allowed = format_bytes(answer.allowed_bytes)
    best = answer.recommended
    if best is not None:
        return f"yes: {_named(best)}, slowdown {best.row.slowdown:.4f}"
    if answer.proof == "memory":
        return f"no, proven: no run fits into {allowed}"
    if answer.proof:
        return f"no, proven: no run within {allowed} is quick enough"
    return f"none found, not proven: none of {len(answer.trials)} methods fits into {allowed}"


def _smallest(answer: Answer, source: str) -> dict[str, str]:
    """Tell which budget would do."""
    found = answer.smallest
    best = answer.recommended
    is_shown = best is not None and best.row is found.trial.row
    return {
        "smallest budget": f"{format_bytes(found.budget_bytes)} ({found.budget_bytes:,} bytes): "
        f"{_named(found.trial)}, slowdown {found.trial.row.slowdown:.4f}",
        "": f"tried in steps of {format_bytes(found.resolution_bytes)}; proven: none in less than "
        f"{format_bytes(found.none_below_bytes)}",
    } | ({} if is_shown else {"its command": answer.command_of_smallest(source)})


def _longer(answer: Answer, source: str) -> str:
    """Name what may do better and takes its time."""
    from ..trials import Method

    command = Method("annealing").command(source, answer.allowed_bytes, answer.slowdown)
    return command.removesuffix(" --time-limit inf")


def _named(trial: Trial) -> str:
    policy = trial.method.deallocation
    return trial.method.name + (f", {policy}" if policy not in ("", "eager") else "")


def _print_fitting(answer: Answer, top: int) -> None:
    """Show the methods that fit."""
    rows = [
        [
            _named(trial),
            trial.method.kind,
            f"{trial.row.slowdown:.4f}",
            format_bytes(trial.row.peak_bytes),
            format_bytes(answer.budget_bytes - trial.row.peak_bytes),
        ]
        for trial in answer.fitting
    ]
    if rows:
        click.echo()
        print_table(["fits", "kind", "slowdown", "peak", "margin"], rows[:top], n_text=2)
    if len(rows) > top:
        click.echo(f" more that fit: {len(rows) - top} (--top)")


def _print_failed(answer: Answer) -> None:
    """Say how the others ended."""
    ended: dict[str, list[str]] = {}
    for trial in answer.trials:
        if not trial.fits:
            status = TOO_SLOW if trial.row.status == "ok" else trial.row.status
            ended.setdefault(status, []).append(_named(trial))
    if ended:
        click.echo()
    for status, names in ended.items():
        click.echo(f"{status}: {'; '.join(names)}")


def _print_floor(floor: Floor) -> None:
    """Say what the lowest budget is made of."""
    click.echo(
        f"\nlowest budget worth trying: {format_bytes(floor.total_bytes)}, of it constants "
        f"{format_bytes(floor.constant_bytes)}; outputs, there at the end: "
        f"{format_bytes(floor.output_bytes)}\n"
    )
    rows = [_need_cells(need) for need in floor.calls]
    header = ["the calls that need most", "constants", "operands", "results", "workspace", "all"]
    print_table(header, rows)
    if floor.calls and floor.is_of_a_call:
        read = floor.calls[0].operands
        shown = [f"{name_cell(name)} {format_bytes(count)}" for name, count in read[:MOST_OPERANDS]]
        more = [f"{len(read) - MOST_OPERANDS} more"] if len(read) > MOST_OPERANDS else []
        click.echo(f"operands of the first: {', '.join(shown + more) or 'none'}")


def _need_cells(need: CallNeed) -> list[str]:
    parts = need.constant_bytes, need.operand_bytes, need.result_bytes, need.workspace_bytes
    return [name_cell(need.name, IN_LINE), *map(format_bytes, (*parts, need.total_bytes))]


def as_object(answer: Answer, source: str) -> dict[str, Any]:
    """Give the answer as an object of JSON."""
    found, best = answer.smallest, answer.recommended
    return {
        "trace": answer.trace.name,
        "digest": answer.trace.digest,
        "times_estimated": answer.trace.times_estimated,
        "budget_bytes": answer.budget_bytes,
        "headroom_bytes": answer.headroom_bytes,
        "allowed_bytes": answer.allowed_bytes,
        "slowdown": answer.slowdown,
        "verdict": answer.verdict,
        "proof": answer.proof or None,
        "bound_slowdown": answer.bound_slowdown,
        "unlimited_peak_bytes": answer.unlimited_peak_bytes,
        "recommended": best and _as_object(answer, best, answer.command(best, source)),
        "trials": [
            _as_object(answer, trial, answer.command(trial, source)) for trial in answer.trials
        ],
        "smallest": {
            "budget_bytes": found.budget_bytes,
            "none_below_bytes": found.none_below_bytes,
            "resolution_bytes": found.resolution_bytes,
            **_as_object(answer, found.trial, answer.command_of_smallest(source)),
        },
        "floor": asdict(answer.floor),
    }


def _as_object(answer: Answer, trial: Trial, command: str) -> dict[str, Any]:
    row = trial.row
    return {
        "method": trial.method.name,
        "deallocation": trial.method.deallocation or None,
        "kind": trial.method.kind,
        "fits": trial.fits,
        "status": row.status,
        "slowdown": row.slowdown,
        "peak_bytes": row.peak_bytes if row.status == "ok" else None,
        "margin_bytes": answer.budget_bytes - row.peak_bytes if trial.fits else None,
        "command": command,
    }


def print_batches(answer: BatchAnswer, spec: str, out: str | None) -> None:
    """Tell a person which batches fit."""
    best, tried = answer.best, answer.tried
    lines = {
        "step": f"{name_cell(spec, IN_LINE)}, under fake tensors, times estimated",
        "asked": _asked(answer),
        "answer": f"none found: not at batch {tried[0]}, the smallest"
        if best is None
        else f"{_largest(best)}: {_named(best.trial)}, slowdown {best.trial.row.slowdown:.4f}",
        "captured at": ", ".join(map(str, tried)),
    }
    if best is not None and out is not None:
        lines["command"] = _batch_command(answer, best, out)
    print_fields(lines)
    click.echo()
    header = ["method", "largest batch", "slowdown", "peak", "margin", "next tried, does not fit"]
    print_table(header, [_batch_cells(answer, one) for one in answer.found])


def _largest(best: LargestBatch) -> str:
    """Name the batch; where nothing larger was asked for, it need not be the largest that fits."""
    return f"batch {best.batch}" + (", the end of the range" if best.next_batch is None else "")


def _batch_cells(answer: BatchAnswer, one: LargestBatch) -> list[str]:
    following = "-" if one.next_batch is None else str(one.next_batch)
    if one.batch is None:
        return [_named(one.trial), "none", "-", "-", "-", following]
    row = one.trial.row
    return [
        _named(one.trial),
        str(one.batch),
        f"{row.slowdown:.4f}",
        format_bytes(row.peak_bytes),
        format_bytes(answer.budget_bytes - row.peak_bytes),
        following,
    ]


def _batch_command(answer: BatchAnswer, best: LargestBatch, out: str) -> str:
    return best.method.command(out, answer.allowed_bytes, answer.slowdown)


def batches_as_object(answer: BatchAnswer, spec: str, out: str | None) -> dict[str, Any]:
    """Give the answer as an object of JSON."""
    best = answer.best
    return {
        "step": spec,
        "times_estimated": True,
        "budget_bytes": answer.budget_bytes,
        "headroom_bytes": answer.headroom_bytes,
        "slowdown": answer.slowdown,
        "largest_batch": best and best.batch,
        "command": None if best is None or out is None else _batch_command(answer, best, out),
        "tried": answer.tried,
        "found": [
            {
                "method": one.method.name,
                "largest_batch": one.batch,
                "slowdown": None if one.batch is None else one.trial.row.slowdown,
                "peak_bytes": None if one.batch is None else one.trial.row.peak_bytes,
                "next_batch": one.next_batch,
            }
            for one in answer.found
        ],
    }
