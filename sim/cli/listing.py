"""``rematsim list``: the names that the other sub-commands take, and what columns mean.

It only shows what is defined elsewhere; `COLUMN_MEANINGS` alone is written here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import click

from . import options
from .output import print_json

WIDTH, LEAST_WIDTH = 100, 40  # of a list in letters, and of what stands beside the names

COLUMN_MEANINGS = {
    "trace": "name in the manifest, or the file's stem",
    "trace_digest": "SHA-256 of the trace's content, not of the file",
    "kind": "online: decided while running; static: a plan made before",
    "method": "heuristic or planner",
    "deallocation": "what a release of the program does: eager, ignore or banish; plan: nothing",
    "mutation": "how mutation is replayed: copy or inplace",
    "memory": "memory model with its settings: counter, arena or caching",
    "slowdown_limit": "slowdown at which the run stops as thrashed; empty: none",
    "budget_bytes": "bytes allowed, constants and outputs included; empty: unlimited",
    "budget_fraction": "the budget as a fraction of the unlimited peak, where so asked",
    "unlimited_peak_bytes": "bytes at the peak without a budget, under banish",
    "seed": "of a heuristic that draws lots; empty for the others",
    "status": "ok, oom (out of memory), thrashed; of plans: refused, infeasible, no_plan",
    "model_ns": "the model's own compute, as far as the run came",
    "remat_ns": "compute spent on rematerialization",
    "stall_ns": "time spent waiting for transfers",
    "search_ns": "time charged for the heuristic's own work",
    "slowdown": "(model + rematerialization + stalls + search) / model; empty unless ok",
    "clock": "nanoseconds on the simulated clock at the end, from 1",
    "peak_bytes": "most bytes in memory at once",
    "evictions": "evictions in all, those of the deallocation policy included",
    "pressure_evictions": "evictions that memory forced; of plans: of what is computed again",
    "evict_sha": "digest of the evicted storages, in order: equal where decisions are",
    "rematerializations": "calls computed again",
    "evaluations": "scores that the plain algorithm computes; with --count-accesses",
    "metadata_accesses": "scores and edges that it visits; with --count-accesses",
    "run_seconds": "seconds that the replay took on this machine",
    "base_compute_ns": "the model's own compute in all",
    "failed_at": "instruction, or action of the plan, at which the run ended; empty if ok",
    "message": "why it failed, in words; empty if ok",
    "times": "measured, or estimated by a cost model",
    "planner_status": "how the planner ended: optimal, feasible, time_limit ...; empty if none",
    "bound_slowdown": "no schedule within the budget is faster",
    "gap": "how far the slowdown is above the bound",
    "solve_seconds": "seconds that planning took on this machine",
    "predicted_slowdown": "slowdown that the planner's graph predicts",
    "predicted_peak_bytes": "bytes at the peak that it predicts",
    "time_limit": "seconds that planning was allowed; empty if there was no limit",
    "calls": "calls of the trace",
    "reserved_peak_bytes": "most bytes taken from the device; with addresses only",
    "fragmentation": "bytes free after room was made / budget, mean; with addresses only",
    "largest_hole_bytes": "largest free piece when memory ran out; with addresses only",
    "search_steps": "storages or pieces considered as victims; empty for plans",
    "retries": "how often a request was tried again after room was made; with addresses only",
    "link": "what connects device and host, with its settings; none: nothing",
    "offloaded_bytes": "bytes copied to the host",
    "prefetched_bytes": "bytes copied from the host",
    "host_peak_bytes": "most bytes on the host at once",
}

FORMATS = {
    ".trace": "trace file: keeps everything; what import and capture write",
    ".log": "operator log of the DTR prototype: JSON, an instruction a line",
    ".gz, .zst": "the same, compressed",
    ".zip": "several logs, with a manifest.json or without; FILE.zip::NAME is one of them",
    "-": "a log on standard input",
    "bundled:NAME": "a trace that ships with rematsim",
    "synthetic:chain:1000": "a chain of 1000 units, and other regular models",
}

# By the FORMAT of their readers: files of other tools, which their content tells apart.
IMPORTED = {
    "PyTorch execution trace": "JSON of ExecutionTraceObserver; times need the next one beside it",
    "Kineto trace": "JSON of torch.profiler: beside an execution trace, or for compare-memory",
    "Chakra execution trace": "protobuf (.et), converted from PyTorch's",
    "ONNX model": "a forward pass (.onnx); a backward pass is made up",
    "FX graph": "JSON of rematsim.traces.fx_dump: FX and AOT joint graphs",
    "networkx node-link graph": "JSON: a size and a cost for each node",
    "table of operators (CSV)": "an operator a row, with the ids of its tensors",
    "table of tensors (CSV)": "beside a table of operators: how large its tensors are",
    "CUDA memory snapshot": "pickle of torch.cuda.memory, for compare-memory alone",
    "memory timeline": "JSON of export_memory_timeline, for compare-memory alone",
}


@options.command("list", "rematsim list heuristics", "rematsim list columns --json")
@click.argument(
    "what",
    type=click.Choice(
        ["heuristics", "planners", "memory", "traces", "columns", "formats", "devices"]
    ),
    required=False,
)
@options.json_option
def command(what: str | None, as_json: bool) -> None:
    """List what there is to choose from.

    Heuristics, planners, memory models, bundled traces, columns of the tables, formats of files,
    devices whose times can be estimated; or all of them.
    """
    chosen = SECTIONS if what is None else {what: SECTIONS[what]}
    sections = {name: collect() for name, collect in chosen.items()}
    if as_json:
        print_json(sections)
        return
    for place, (name, entries) in enumerate(sections.items()):
        if what is None:
            click.echo(f"{chr(10) if place else ''}{name}")
        width = max(map(len, entries), default=0)
        for entry, meaning in entries.items():
            _print_entry(f"  {entry:<{width}}  ", meaning)


def _print_entry(head: str, meaning: str) -> None:
    """Print a name and what it means, broken into lines where it is long."""
    lines = textwrap.wrap(meaning, max(WIDTH - len(head), LEAST_WIDTH)) or [""]
    for number, line in enumerate(lines):
        click.echo(f"{' ' * len(head) if number else head}{line}".rstrip())


def _heuristics() -> dict[str, str]:
    """Give each heuristic's summary, parameters and reference."""
    from ..heuristics import get, names
    from ..heuristics.parameters import described

    found = {}
    for name in names():
        heuristic = get(name)
        own = described(dict(heuristic.parameters), heuristic.allowed)
        found[name] = _with_notes(heuristic.summary, own, heuristic.reference)
    return found


def _planners() -> dict[str, str]:
    """Give each planner's summary, parameters and reference."""
    from ..heuristics.parameters import described
    from ..heuristics.static import get, names

    found = {}
    for name in names():
        planner = get(name)
        own = described(planner.parameters, planner.allowed)
        found[name] = _with_notes(planner.summary, own, planner.reference)
    return found


def _with_notes(summary: str, *notes: str) -> str:
    return summary + "".join(f" ({note})" for note in notes if note)


def _memory() -> dict[str, str]:
    """Give each memory model, and what it does."""
    from ..memory_models import MODELS

    return {name: summary for name, (_, summary) in MODELS.items()}


def _traces() -> dict[str, str]:
    """Give each bundled trace as it is named on the command line, and its file."""
    from ..traces.bundled import PREFIX, bundled_traces

    return {f"{PREFIX}{name}": path.name for name, path in bundled_traces().items()}


def _devices() -> dict[str, str]:
    """Give each device of the cost model, and what it is."""
    from ..traces.devices import CPU, GPUS

    return {name: gpu.title for name, gpu in GPUS.items()} | {CPU: "this machine, measured"}


SECTIONS: dict[str, Callable[[], dict[str, str]]] = {
    "heuristics": _heuristics,
    "planners": _planners,
    "memory": _memory,
    "traces": _traces,
    "columns": lambda: COLUMN_MEANINGS,
    "formats": lambda: FORMATS | IMPORTED,
    "devices": _devices,
}
