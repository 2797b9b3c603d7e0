"""Progress of long work on standard error: a bar on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import click

from ..traces.wording import name_cell, printable

LINE_SECONDS = 5.0
MOST_NAME = 60


class Lines:
    """Writes a line now and then, and is silent about work that is short since the first."""

    def __init__(self) -> None:
        self._next: float | None = None

    def write(self, line: str) -> None:
        """Write it, unless the last was not long ago, or a captured script closed the stream."""
        if sys.stderr is None or sys.stderr.closed:
            return
        now = time.monotonic()
        if self._next is None:
            self._next = now + LINE_SECONDS
        if now >= self._next:
            self._next = now + LINE_SECONDS
            click.echo(f"rematsim: {printable(line)}", err=True)


class Progress:
    """Shows how many runs, or what else is counted, are done.

    Parameters
    ----------
    is_quiet : bool
        Whether to count only, and show nothing.
    what : str
        What is counted.
    """

    def __init__(self, is_quiet: bool, what: str = "runs") -> None:
        self._what = what
        self.done = 0
        self.total = 0
        self._is_quiet = is_quiet
        self._bar: Any = None
        self._lines = Lines()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def report(self, done: int, total: int) -> None:
        """Take and show new numbers; the first call tells how much is done already."""
        is_first = self.total == 0
        self.done, self.total = done, total
        if self._is_quiet:
            return
        if is_first and done:
            click.echo(f"rematsim: {done} of {total} {self._what} were done before", err=True)
        if sys.stderr.isatty():
            self._show_bar()
        elif done < total:
            self._lines.write(f"{done} of {total} {self._what}")

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show_bar(self) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self._bar = RichProgress(
                self._what,
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._what, total=self.total)
            self._bar.start()
        self._bar.update(self._task, completed=self.done)


class Waiting:
    """Shows for how long something has been going on, once it takes long.

    Parameters
    ----------
    what : str
        What is going on.
    limit : float or None
        Seconds that it may take.
    trace : str
        The name of a trace that it is done to, if there is one.
    """

    def __init__(self, what: str, limit: float | None, trace: str = "") -> None:
        self._what = f"{what} {name_cell(trace, MOST_NAME)}" if trace else what
        self._of = "" if limit is None else f" of {limit:g}"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _show(self) -> None:
        from ..heuristics.static.clock import Clock
        from ..jit import compiling

        is_terminal = sys.stderr.isatty()
        clock = Clock()
        while not self._is_over.wait(1.0 if is_terminal else LINE_SECONDS):
            line = f"rematsim: {self._what}, {clock.spent:.0f}{self._of} s"
            if compiling.is_going_on:
                line += f"; compiling for {compiling.seconds:.0f} s, once for this version, beside"
            click.echo(f"\r{line}" if is_terminal else line, err=True, nl=not is_terminal)
        if is_terminal:
            click.echo("\r\033[K", err=True, nl=False)
