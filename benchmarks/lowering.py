"""How long it takes to lower a long trace in which storages are updated in place.

``python benchmarks/lowering.py [CALLS]``: a tenth of the calls update a storage of two names, and
all names live to the end, as if everything was kept for a backward pass. What an update costs must
not depend on how many names of other storages there are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from rematsim.lowering import MUTATIONS, compile_trace
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace

ROUND = 10  # calls: eight that compute, a view, an update


def long_trace(calls: int) -> Trace:
    """Make a chain whose every tenth call updates what the one before the last has made."""
    builder = TraceBuilder(f"long-{calls}", rebinding="storage")
    builder.constant("x0", 8)
    last = "x0"
    for number in range(1, calls + 1):
        name = f"x{number}"
        if number % ROUND == 0:
            builder.call("update_", (last,), (), 10, mutates=(0,))
        elif number % ROUND == ROUND - 1:
            builder.call("view", (last,), ((name, 8, 0),), 1)
        else:
            builder.call("compute", (last,), ((name, 8, -1),), 10)
            last = name
    return builder.build()


def report(calls: int) -> Iterator[str]:
    """Lower the trace in each way; yield a line about each."""
    trace = long_trace(calls)
    for mutation in MUTATIONS:
        start = time.process_time()
        compile_trace(trace, mutation)
        yield f"{calls:,} calls, {mutation}: {time.process_time() - start:.2f} s"


def main() -> None:
    """Measure at the size on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("calls", nargs="?", type=int, default=100_000)
    for line in report(parser.parse_args().calls):
        print(line, flush=True)


if __name__ == "__main__":
    main()
