"""What an audit derives of a run's row beside what its log adds up to; what cannot be derived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .budgets import Budget
from .errors import BudgetError
from .heuristics.methods import get
from .heuristics.registry import names
from .heuristics.static import registry as planners
from .links import find_link
from .memory_models import COUNTER
from .result import LATER_COLUMNS, NO_LINK, gap, slowdown

if TYPE_CHECKING:
    from .traces.trace import Trace

NOT_DERIVED = {
    "trace": "a name; the digest says which trace it is",
    "method": "asked for; shows where a heuristic chose, or a planner predicted",
    "deallocation": "asked for; shows where something was let go",
    "mutation": "asked for; shows where something was updated in place",
    "budget_bytes": "asked for; shows where room was wanted, or as a fraction of the peak",
    "slowdown_limit": "asked for; shows where a run has thrashed",
    "time_limit": "asked for; empty where nothing was planned",
    "seed": "asked for; empty where nothing is random",
    "link": "asked for; shows where something moved",
    "status": "of a plan: oom or refused, of the action that failed there is no row",
    "failed_at": "of a plan in place, where the call that failed may have rows",
    "message": "for a reader; empty if the run ended ok",
    "run_seconds": "a clock on the wall",
    "solve_seconds": "a clock on the wall; empty where nothing was planned",
    "planner_status": "the planner's word; empty where nothing was planned",
    "bound_slowdown": "proven elsewhere; no run may be below it",
    "predicted_slowdown": "the planner's word where there are views; no execution may be above it",
    "metadata_accesses": "steps of an algorithm, not of a run; empty unless counted",
    "evaluations": "likewise, where scores are not derived",
    "search_steps": "likewise, where windows are evicted",
    **dict.fromkeys(
        ("reserved_peak_bytes", "largest_hole_bytes", "retries"),
        "of a plan that failed in memory where an attempt that is not logged leaves traces",
    ),
}
EVENTS_NOT_DERIVED = {
    "score": "of heuristics whose definition is not in `audit_scores.SCORES`",
    "cause_call": "of a stall after which a plan failed: which of a storage's readers it was",
    "instruction": "of a FREE in place, beside one that hands its bytes over and has no row",
    "storage": "of a plan, where another one would have done",
}
FIGURES_OF_SPACE = ("reserved_peak_bytes", "fragmentation", "largest_hole_bytes", "retries")
OF_PLANNING = ("planner_status", "solve_seconds", "time_limit")
OF_PREDICTION = ("predicted_slowdown", "predicted_peak_bytes")
COUNTED = ("evaluations", "metadata_accesses")
ROUNDING = 1e-9  # of a bound, which is a sum of quotients


def is_known(row: dict[str, Any], column: str) -> bool:
    """Say whether a row has a column; one of a file written before there were links may not."""
    was_later = row.get("link") is None and column in LATER_COLUMNS
    return column in row and not (was_later and row[column] is None)


def rest_of_row(row: dict[str, Any], figures: dict[str, Any], trace: Trace) -> dict[str, Any]:
    """Give what the row's other columns have to be.

    Parameters
    ----------
    row : dict
    figures : dict
        What the log adds up to.
    trace : Trace
    """
    is_ok, is_plan = row["status"] == "ok", row["deallocation"] == "plan"
    times = (figures["model_ns"], figures["remat_ns"], figures["stall_ns"])
    spent, bound = slowdown(*times) if is_ok else None, row.get("bound_slowdown") or None
    rest = {
        "trace_digest": trace.digest,
        "calls": trace.n_calls,
        "times": "estimated" if trace.times_estimated else "measured",
        "kind": "static" if is_plan else "online",
        "search_ns": 0,
        "slowdown": spent,
        "gap": gap(spent, bound),
        "bound_slowdown": bound,
        "message": "" if is_ok else row.get("message") or "why it ended",
    }
    if is_ok:
        rest["failed_at"] = None
    if spent is not None and bound is not None and bound > spent * (1 + ROUNDING):
        rest["bound_slowdown"] = spent
    if row.get("budget_fraction") is not None:
        asked = Budget("fraction", row["budget_fraction"])
        try:
            rest["budget_bytes"] = asked.resolve(figures["unlimited_peak_bytes"])
        except (BudgetError, OverflowError, ValueError):  # of no number, or one without an end
            rest["budget_fraction"] = None
    return (
        rest | (_of_plan if is_plan else _of_choices)(row) | _predicted(row, rest, figures, trace)
    )


def _of_choices(row: dict[str, Any]) -> dict[str, Any]:
    """Give what a run that decides as it goes leaves empty."""
    rest: dict[str, Any] = dict.fromkeys((*OF_PLANNING, *OF_PREDICTION))
    if None in (row.get(column) for column in COUNTED):
        rest |= dict.fromkeys(COUNTED)
    if row.get("link") not in (None, NO_LINK):
        rest["memory"] = COUNTER
    name = row["method"].partition("(")[0]
    if name in names() and not get(row["method"]).is_random:
        rest["seed"] = None
    if name in names() and not get(row["method"]).moves:
        rest["link"] = NO_LINK
    return rest


def _of_plan(row: dict[str, Any]) -> dict[str, Any]:
    """Give what the execution of a plan leaves empty."""
    rest: dict[str, Any] = dict.fromkeys((*COUNTED, "slowdown_limit", "search_steps"))
    planner = _planner_of(row)
    if planner is None or not planner.is_random or row.get("planner_status") is None:
        rest["seed"] = None
    if None in (row.get("planner_status"), row.get("solve_seconds")):
        rest |= dict.fromkeys((*OF_PLANNING, *OF_PREDICTION))
    return rest


def _planner_of(row: dict[str, Any]) -> planners.Planner | None:
    is_known_one = row["method"].partition("(")[0] in planners.names()
    return planners.get(row["method"]) if is_known_one else None


def _predicted(
    row: dict[str, Any], rest: dict[str, Any], figures: dict[str, Any], trace: Trace
) -> dict[str, Any]:
    """Give what was to be predicted of a plan that ended ok, while bytes are counted.

    Where nothing can move, views take time on the planner's graph, and a plan makes only those
    again that are read.
    """
    said, planner = row.get("predicted_slowdown"), _planner_of(row)
    if said is None or planner is None or row["status"] != "ok" or row["memory"] != COUNTER:
        return {}
    link = find_link(row.get("link") or NO_LINK)
    is_exact = planner.can_move(link) or not (trace.result_alias != -1).any()
    return {
        "predicted_peak_bytes": figures["peak_bytes"],
        "predicted_slowdown": rest["slowdown"] if is_exact else max(said, rest["slowdown"]),
    }
