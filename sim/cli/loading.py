"""How sub-commands that run something load traces: what the numbers of a file became is said.

Where they are only shown, `rematsim info` and `rematsim import` say that among the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from . import options

if TYPE_CHECKING:
    from ..traces.trace import Trace


def load_given(trace: str, *, cache: bool) -> Trace:
    """Load the trace that the user named."""
    from ..traces.loading import load_trace

    loaded = load_trace(options.trace_given(trace), cache=cache)
    tell_fractions([loaded])
    return loaded


def tell_fractions(traces: Iterable[Trace]) -> None:
    """Say on standard error what became of sizes and costs with fractions."""
    for trace in traces:
        told = trace.provenance.fractions if trace.provenance else []
        if told:
            click.echo(f"rematsim: note: {trace.name}: {'; '.join(told)}", err=True)
