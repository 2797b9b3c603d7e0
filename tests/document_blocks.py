"""The blocks of a document: what they are, how they are run, and what of their output varies.

In a fenced block ``console`` every line after ``$`` is run, in the order of the document, and what
follows is its output; ``pycon`` is a Python session; ``python`` that begins with ``# file.py`` is
written to that file. Blocks ``sh`` are not run (installation, long jobs). What needs a package that
may be missing has ``<!-- needs: torch -->`` in the line before it.
"""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "DESIGN.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
LENT = ("examples", "benchmarks", "docs")  # folders that commands may name

BLOCK = re.compile(
    r"(?:^<!-- needs: (\w+) -->\n\n?)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)

# How outputs of Python sessions are compared.
SESSION = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# What differs from run to run and from machine to machine: times that were taken, the size that
# zstd packs to, progress, and the folder.
VARYING = (
    (re.compile(r"^(solving +)\d+\.\d+ s$", re.MULTILINE), r"\1# s"),
    (re.compile(r"^(written: .*) \([\d.]+ \w+\)$", re.MULTILINE), r"\1 (# B)"),
    (re.compile(r"^rematsim: (\d+ of \d+ runs|planning .*)$\n?", re.MULTILINE), ""),
    (re.compile(r"^rematsim: trying methods on .*$\n?", re.MULTILINE), ""),
    (re.compile(re.escape(str(ROOT)) + r"[^\s)]*/"), ""),
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its kind, its text, where that begins, and the package that it needs."""

    kind: str
    text: str
    start: int
    needs: str

    @property
    def can_run(self) -> bool:
        """Whether what it needs is installed."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a document's text."""
    for found in BLOCK.finditer(text):
        yield Block(found[2], found[3], found.start(3), found[1] or "")


def commands(text: str) -> list[tuple[str, str]]:
    """Commands of a console block, each with the output that it shows."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0] += "\n" + line[2:]
        else:
            assert found, f"output without a command: {line}"
            found[-1][1] += line + "\n"
    return [(command, output) for command, output in found]


def masked(text: str) -> str:
    """A text without what varies, and without blanks at the ends of lines."""
    for pattern, mask in VARYING:
        text = pattern.sub(mask, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def lend(folder: Path) -> None:
    """Put into a folder what commands may name."""
    for name in LENT:
        (folder / name).symlink_to(ROOT / name)


def run(command: str, folder: Path) -> str:
    """Run a command as a reader would, with the tools of this environment; all that it prints."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": tools, "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}"
    return done.stdout


def run_session(text: str, name: str, names: dict[str, object]) -> None:
    """Run a Python session; fail where it prints something else than it shows."""
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=SESSION)
    runner.run(test, out=told.append, clear_globs=False)
    assert not runner.failures, "".join(told)
    names.update(test.globs)


def write_if_named(text: str, folder: Path) -> None:
    """Write a block ``python`` to the file that its first line names, if it does."""
    if file := re.match(r"# (\w+\.py)\n", text):
        (folder / file[1]).write_text(text, encoding="utf-8")
