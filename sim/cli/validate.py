"""``rematsim validate``: whether files are traces that can be replayed.

Each file gets one line: that it is good, or the first thing in it that is not.
"""

from __future__ import annotations

import click

from ..errors import RematsimError
from . import options
from .output import print_json


@options.command("validate", "rematsim validate logs/*.log.gz")
@click.argument("files", nargs=-1)
@options.json_option
def command(files: tuple[str, ...], as_json: bool) -> int:
    """Check that files are good traces.

    FILES are trace files, logs or what else rematsim import reads, plain or compressed, .zip files
    of several, or bundled:NAME (see rematsim list traces); - or none reads standard input. The exit
    code is 1 if one of them cannot be read.
    """
    verdicts = []
    for file in files or ("-",):
        found = _verdicts(options.trace_given(file))
        verdicts.extend(found)
        for verdict in [] if as_json else found:
            state = verdict["error"] or f"{verdict['file']}: ok ({verdict['trace']})"
            click.echo(" ".join(str(state).splitlines()))
    if as_json:
        print_json(verdicts)
    return int(any(verdict["error"] for verdict in verdicts))


def _verdicts(file: str) -> list[dict[str, object]]:
    """Read a file, past the cache: one verdict for each trace in it."""
    from ..traces.loading import load_traces

    try:
        traces = load_traces([file], cache=False)
    except RematsimError as error:
        return [{"file": file, "trace": None, "error": str(error)}]
    except OSError as error:
        return [{"file": file, "trace": None, "error": f"{file}: {error.strerror or error}"}]
    return [
        {"file": file, "trace": trace.name, "error": None, "calls": trace.n_calls}
        for trace in traces
    ]
