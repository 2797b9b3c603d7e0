"""Entry point of the command line: finds the sub-command, and ends with the right exit code.

Sub-commands are imported when they are asked for, and import the simulator when they run, so
that ``rematsim --version`` is quick. No error ends in a traceback unless ``--debug`` asks for it.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import signal
import sys
import warnings
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from .. import __version__
from ..errors import RematsimError, Terminated, UsageError
from ..traces.wording import printable
from .leaving import leave
from .options import SETTINGS, debug_option
from .streams import open_streams

FAILED, USAGE, INTERRUPTED = 1, 2, 130

# Sub-command -> its module here, which has a function of the same name.
COMMANDS = {
    "capture": "capture",
    "fits": "fits",
    "replay": "replay",
    "plan": "planning",
    "execute": "execute",
    "explain": "explaining",
    "compare": "side_by_side",
    "diff": "diffing",
    "sweep": "sweep",
    "tune": "tune",
    "plot": "plot",
    "summary": "summarize",
    "report": "reporting",
    "import": "importing",
    "export": "exporting",
    "info": "info",
    "validate": "validate",
    "compare-memory": "comparing",
    "addresses": "addresses",
    "list": "listing",
    "check-heuristic": "checking",
}


class LazyGroup(click.Group):
    """A group whose sub-commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the sub-commands in the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a sub-command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"{__package__}.{COMMANDS[cmd_name]}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the sub-command, or say which one may have been meant."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            ctx.fail(f"no command {args[0]!r}; known: {', '.join(COMMANDS)}{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings=SETTINGS,
    epilog="\b\nExample:\n  rematsim replay model.log --heuristic h_DTR_eq --budget 0.5x",
)
@click.version_option(__version__, message="rematsim %(version)s")
@debug_option
def group() -> None:
    """Replay logs of deep-learning training under a memory budget.

    What does not fit is dropped and recomputed when it is needed again; the result is the
    slowdown. No GPU is needed and nothing is trained.
    """


def run() -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_end_at_once)
    leave(main(sys.argv[1:]))


def _end_at_once() -> None:
    """Let a process that a script forks end by the signal, as it would without this command."""
    if signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: object) -> NoReturn:
    """End in order when asked to: what was begun is told, workers are stopped."""
    raise Terminated(number)


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code.

    Parameters
    ----------
    arguments : list of str
        What stands after ``rematsim``.
    """
    open_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_note
    try:
        code = group.main(arguments, prog_name="rematsim", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        code = _end(error, "--debug" in arguments)
    return int(code or 0)


def _end(error: BaseException, is_debugging: bool) -> int:
    """Tell the user about an error and return its exit code."""
    if is_debugging and not isinstance(error, SystemExit | click.exceptions.Exit):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(shown)
        for line in shown.getvalue().splitlines():
            click.echo(printable(line), err=True)
        return error.exit_code
    if isinstance(error, Terminated):
        _tell("terminated")
        return 128 + int(error.args[0])
    if isinstance(error, click.Abort | KeyboardInterrupt):
        _tell("interrupted")
        return INTERRUPTED
    if isinstance(error, OSError) and not isinstance(error, RematsimError):
        _abandon_output()
        if isinstance(error, BrokenPipeError):
            return FAILED
    _tell(f"error: {_described(error)}")
    return USAGE if isinstance(error, UsageError) else FAILED


def _described(error: BaseException) -> str:
    """Put an error into one line."""
    if isinstance(error, RematsimError):
        text = str(error)
    elif isinstance(error, OSError):
        where = error.filename if error.filename is not None else "input or output"
        text = f"{where}: {error.strerror or error}"
    elif isinstance(error, MemoryError):
        text = "this machine's memory is full; a smaller trace or fewer jobs may fit"
    else:
        text = (
            f"a mistake in rematsim: {type(error).__name__}: {error} (--debug shows where; "
            "please report it)"
        )
    return printable(" ".join(text.splitlines()))


def _tell(message: str) -> None:
    """Write one line to standard error, if anybody listens."""
    with contextlib.suppress(OSError):
        click.echo(f"rematsim: {message}", err=True)


def _abandon_output() -> None:
    """Keep the interpreter from flushing, at its end, into what cannot be written."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> Any:
    """Show a warning as one line without the place in our code."""
    _tell(f"note: {printable(' '.join(str(message).split()))}")
