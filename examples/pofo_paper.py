"""Hold POFO's claims (Beaumont, Eyraud-Dubois, Shilova, NeurIPS 2021) against traces.

``python examples/pofo_paper.py [TRACE ...]`` plans steps at several budgets and bandwidths of the
link to the host: keeping, recomputing, offloading, and both. How much less overhead has both than
recomputation, how much less activation memory does it take at 20% overhead, and does an exact plan
ever beat greedy and uniform recomputation and offloading all? Bandwidths are what moves the
unlimited peak a number of times one way in the model's own time, so that traces of unlike machines
compare. Minutes a trace on two cores; ``--quick`` for half of one. Killed and started again, it
goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import rematsim
from matplotlib.figure import Figure
from rematsim.analysis.figures import links_figure, save_figure, winners_figure
from rematsim.analysis.summaries import trace_order
from rematsim.cli.progress import Progress
from rematsim.errors import RematsimError
from rematsim.links import NO_LINK, parse_link
from rematsim.lowering import compile_trace
from rematsim.requirements import requirements
from rematsim.result import RunResult, named
from rematsim.traces.loading import load_traces
from rematsim.traces.trace import Trace

# The first has times as counted for a GPU of 100 TFLOP/s and 1 TB/s; the others were measured on a
# CPU.
TRACES = ("synthetic:transformer:6", "bundled:resnet32", "bundled:gpt")
QUICK_TRACES = ("synthetic:transformer:2",)

# Of the link: peaks one way in the model's own time. Of budgets: parts of the activation memory,
# that is, of what the unlimited peak has beside constants.
SHARES, QUICK_SHARES = (0.1, 0.25, 0.5, 1.0, 2.0), (0.25, 1.0)
PARTS, QUICK_PARTS = (1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 5 / 6), (1 / 2, 3 / 4)

# What is compared; a planner or a heuristic more is a name more in one of these.
ONLINE_MOVING = ("h_DTR_offload", "h_next_use_offload")
ONLINE = ("h_DTR_eq", "h_next_use", *ONLINE_MOVING)
UNIFORM = ("every-kth", "m-of-n", "chen-sqrt", "chen-greedy")
MOVING = (*ONLINE_MOVING, "offload-all", "capuchin", "pofo", "joint")
EXACT = ("rotor", "optimal", "pofo", "joint")
LIMITED = ("optimal", "joint")  # what improves a plan for as long as it may
SIMPLE = ("h_DTR_eq", *UNIFORM, "offload-all")
PLANNERS = tuple(
    name for name in dict.fromkeys(("keep-all", *UNIFORM, *EXACT, *MOVING)) if name not in ONLINE
)

HIGHEST = 2.0  # slowdown in the figures
OVERHEAD = 0.2  # at which the paper states the memory
PLACE = ["trace", "share", "part"]


def evaluate(traces: Sequence[Trace], given: argparse.Namespace) -> pd.DataFrame:
    """Run every method, or what is left of it, with the columns ``share`` and ``part``."""
    tables = []
    for trace in traces:
        run = rematsim.simulate(trace, "h_LRU", cached=False)
        peak = run.unlimited_peak_bytes
        constants = requirements(compile_trace(trace)).constant_bytes
        parts = {round(constants + part * (peak - constants)): part for part in given.parts}
        links = {link_of(run, share): share for share in given.shares}
        planners = [name for name in PLANNERS if name not in LIMITED]
        _say(f"{trace.name}: {len(planners)} planners, {len(parts)} budgets, {len(links)} links")
        for heuristics, methods, seconds in (
            (ONLINE, planners, None),
            ((), LIMITED, given.time_limit),
        ):
            with Progress(is_quiet=False) as progress:
                table = rematsim.sweep(
                    trace,
                    heuristics,
                    list(parts),
                    methods=methods,
                    link=list(links),
                    time_limit=seconds,
                    jobs=given.jobs,
                    out=given.out / "runs.sqlite",
                    report=progress.report,
                )
            share, part = table["link"].map(links), table["budget_bytes"].map(parts)
            tables.append(table.assign(share=share, part=part))
    return pd.concat(tables, ignore_index=True)


def link_of(run: RunResult, share: float) -> str:
    """Give the link that moves a share of the peak each way in the model's own time."""
    rate = float(f"{share * run.unlimited_peak_bytes / run.base_compute_ns * 1e9:.3g}")
    return parse_link(f"link(d2h={rate:.0f},h2d={rate:.0f})")


def side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """Lay slowdowns out: a row per trace, share and part, a column per method; NaN: none."""
    names = [named(name, times) for name, times in zip(table["trace"], table["times"], strict=True)]
    rows = table.assign(trace=names, slowdown=table["slowdown"].where(table["status"].eq("ok")))
    is_moving = rows["link"].ne(NO_LINK)
    links = rows.loc[is_moving, ["trace", "share"]].drop_duplicates()
    everywhere = rows[~is_moving].drop(columns="share").merge(links, on="trace")
    every = pd.concat([everywhere, rows[is_moving]])
    return every.set_index([*PLACE, "method"])["slowdown"].astype(float).unstack()


def claims(wide: pd.DataFrame) -> pd.DataFrame:
    """Say by how much both beat recomputation, and how much memory each saves.

    Returns
    -------
    DataFrame
        A row per trace and share. ``less overhead`` of pofo than of rotor, as a fraction: the mean
        over budgets at which both have a plan, the least and the most. ``times less``: the factor
        by which activation memory shrinks at `OVERHEAD`, of the budgets that were tried.
    """
    stays = [name for name in wide.columns if name not in MOVING]
    rows = []
    for place, cells in wide.groupby(level=["trace", "share"]):
        spent = cells[["rotor", "pofo"]].dropna() - 1
        less = (1 - spent["pofo"] / spent["rotor"])[spent["rotor"] > OVERHEAD / 100]
        best = {
            "recomputing": cells[stays].min(axis=1),
            "offload-all": cells["offload-all"],
            "pofo": cells["pofo"],
            "any": cells.min(axis=1),
        }
        row = dict(zip(["trace", "share"], place, strict=True))
        row |= {"budgets": len(less), "less overhead": less.mean()}
        row |= {"least": less.min(), "most": less.max()}
        for name, slowdowns in best.items():
            fits = slowdowns.index.get_level_values("part")[slowdowns <= 1 + OVERHEAD]
            row[f"times less, {name}"] = 1 / fits.min() if len(fits) else float("nan")
        rows.append(row)
    return pd.DataFrame(rows)


def exact_against_simple(wide: pd.DataFrame) -> pd.DataFrame:
    """Hold the best exact plan against the best of greedy, uniform and offload-all.

    Returns
    -------
    DataFrame
        A row per trace, share and part: the best of either and of capuchin, whose they are, and
        ``gain``, the part of the time that the exact one saves; less than 0 where it loses.
    """
    found = wide.reset_index()[PLACE]
    for title, names in (("exact", EXACT), ("simple", SIMPLE)):
        chosen = wide[[name for name in names if name in wide]]
        found[title] = chosen.min(axis=1).to_numpy()
        found[f"{title} is"] = [
            "" if row.isna().all() else str(row.idxmin()) for _, row in chosen.iterrows()
        ]
    found["capuchin"] = wide["capuchin"].to_numpy()
    return found.assign(gain=1 - found["exact"] / found["simple"])


def gains(found: pd.DataFrame) -> pd.DataFrame:
    """Sum up `exact_against_simple` by trace and share."""
    rows = []
    for (trace, share), cells in found.groupby(["trace", "share"]):
        largest = cells.loc[cells["gain"].idxmax()] if cells["gain"].notna().any() else None
        rows.append(
            {
                "trace": trace,
                "share": share,
                "places": len(cells),
                "only exact fits": int((cells["simple"].isna() & cells["exact"].notna()).sum()),
                "gains over 1%": int(cells["gain"].gt(0.01).sum()),
                "over 5%": int(cells["gain"].gt(0.05).sum()),
                "loses over 0.1%": int(cells["gain"].lt(-0.001).sum()),
                "most": float("nan") if largest is None else largest["gain"],
                "there": ""
                if largest is None
                else f"{largest['exact is']}, not {largest['simple is']}, {largest['part']:.2f}",
            }
        )
    return pd.DataFrame(rows)


def violations(table: pd.DataFrame, wide: pd.DataFrame) -> pd.DataFrame:
    """List plans that are slower or take other memory than predicted, and where pofo loses.

    It should lose to neither rotor nor offload-all, whose plans it tries. Views, which predictions
    do not have, make executions faster (`views`), and, where copies wait for them, slower.
    """
    plans = planned(table)
    off = plans["slowdown"].gt(plans["predicted_slowdown"] * (1 + 1e-9))
    off |= plans["peak_bytes"].ne(plans["predicted_peak_bytes"])
    columns = ["trace", "link", "budget_bytes", "method", "slowdown", "predicted_slowdown"]
    different = plans.loc[off, [*columns, "peak_bytes", "predicted_peak_bytes"]]
    best = wide[["rotor", "offload-all"]].min(axis=1)
    loses = wide["pofo"].gt(best * (1 + 1e-9)) | (wide["pofo"].isna() & best.notna())
    lost = wide[loses].reset_index()[[*PLACE, "pofo", "rotor", "offload-all"]]
    different, lost = different.assign(what="not as predicted"), lost.assign(what="pofo loses")
    parts = [part for part in (different, lost) if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else different


def views(table: pd.DataFrame) -> str:
    """Say how many plans are faster than predicted, and by how much at most."""
    plans = planned(table)
    less = 1 - plans["slowdown"] / plans["predicted_slowdown"]
    faster = int(less.gt(1e-9).sum())
    return f"{faster} of {len(plans)} plans are faster than predicted, by {less.max():.2%} at most"


def planned(table: pd.DataFrame) -> pd.DataFrame:
    """Give the rows of plans that ended ok."""
    return table[table["status"].eq("ok") & table["predicted_slowdown"].notna()]


def figures(table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """Draw what was found, with the stem of each figure's file."""
    yield "winners", winners_figure(table)
    for trace in trace_order(table["trace"]):
        yield (
            f"links-{trace.replace(':', '-')}",
            links_figure(table[table["trace"].eq(trace)], HIGHEST),
        )


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "traces", nargs="*", metavar="TRACE", help=f"files or names; default: {' '.join(TRACES)}"
    )
    parser.add_argument("--shares", nargs="+", type=float, help="peaks that the link moves a step")
    parser.add_argument("--parts", nargs="+", type=float, help="of the activation memory")
    parser.add_argument(
        "--time-limit", type=float, default=20.0, help=f"seconds for {' and '.join(LIMITED)}"
    )
    parser.add_argument("--quick", action="store_true", help="one small trace, few places")
    parser.add_argument("--out", type=Path, default=Path("out/pofo_paper"), help="folder to fill")
    parser.add_argument("--jobs", type=int, help="processes; default: as the work is worth")
    parser.add_argument("--format", choices=["png", "svg", "pdf"], default="png")
    given = parser.parse_args(arguments)
    quick = given.quick
    given.traces = given.traces or (QUICK_TRACES if quick else TRACES)
    given.shares = given.shares or (QUICK_SHARES if quick else SHARES)
    given.parts = given.parts or (QUICK_PARTS if quick else PARTS)
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for, say what came of it, and name the files written."""
    given = read_options(arguments)
    traces = load_traces(given.traces)
    given.out.mkdir(parents=True, exist_ok=True)
    table = evaluate(traces, given)
    wide = side_by_side(table)
    exact = exact_against_simple(wide)
    sums = {"claims": claims(wide), "gains": gains(exact), "violations": violations(table, wide)}
    parts = {"runs": table, "slowdowns": wide.reset_index(), "exact": exact, **sums}
    for name, part in parts.items():
        part.to_csv(given.out / f"{name}.csv", index=False)
    files = [given.out / f"{name}.csv" for name in parts]
    files += [save_figure(f, given.out / f"{stem}.{given.format}") for stem, f in figures(table)]
    for title, part in sums.items():
        print(f"{title}\n")
        print(part.to_string(index=False, float_format="{:.3g}".format) if len(part) else "none")
        print()
    print(views(table))
    print("Written:")
    for file in files:
        print(file)


def _say(text: str) -> None:
    print(f"pofo_paper: {text}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (RematsimError, OSError) as error:
        sys.exit(f"pofo_paper.py: {error}")
    except KeyboardInterrupt:
        sys.exit("pofo_paper.py: interrupted; the same command goes on where this one was")
