"""What README and docs show is true: commands run as they stand and print what stands below them.

In a fenced block ``console`` every line after ``$`` is run, in the order of the document, and what
follows must be its output; ``pycon`` is a Python session; ``python`` that begins with ``# file.py``
is written to that file. Blocks ``sh`` are not run (installation, long jobs): only what they name
must exist.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "DESIGN.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
# By the commands of a document, beside what is required.
NEEDED = {"report.md": "bokeh", "tuning.md": "optuna"}
LENT = ("examples", "benchmarks", "docs")  # folders that commands may name

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")

# What differs from run to run and from machine to machine.
VARYING = (
    (re.compile(r"^(solving +)\d+\.\d+ s$", re.MULTILINE), r"\1# s"),
    (re.compile(r"^(written: .*) \([\d.]+ \w+\)$", re.MULTILINE), r"\1 (# B)"),  # zstd's version
    (re.compile(r"^rematsim: (\d+ of \d+ runs|planning .* s)$\n?", re.MULTILINE), ""),
    (re.compile(re.escape(str(ROOT)) + r"[^\s)]*/"), ""),
)


def blocks(document: Path) -> Iterator[tuple[str, str]]:
    """Kind and text of each fenced block."""
    yield from BLOCK.findall(document.read_text(encoding="utf-8"))


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
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=options)
    runner.run(test, out=told.append, clear_globs=False)
    assert not runner.failures, "".join(told)
    names.update(test.globs)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_print_what_the_document_shows(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if document.name in NEEDED:
        pytest.importorskip(NEEDED[document.name])
    monkeypatch.chdir(tmp_path)
    for folder in LENT:
        (tmp_path / folder).symlink_to(ROOT / folder)
    names: dict[str, object] = {}
    for kind, text in blocks(document):
        if kind == "console":
            for command, shown in commands(text):
                assert masked(run(command, tmp_path)) == masked(shown), f"$ {command}"
        elif kind == "pycon":
            run_session(text, document.name, names)
        elif kind == "python" and (file := re.match(r"# (\w+\.py)\n", text)):
            (tmp_path / file[1]).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_names_exists(document: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for kind, text in blocks(document):
        for target in re.findall(r"^make (\w+)", text, re.MULTILINE) if kind == "sh" else []:
            assert target in targets, f"no target {target!r} in the Makefile"
        for script in re.findall(r"python ([\w/]+\.py)", text) if kind == "sh" else []:
            assert (ROOT / script).is_file(), script
    for link in LINK.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / link).exists(), f"{document.name}: link to {link}"
