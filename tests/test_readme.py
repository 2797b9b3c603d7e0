"""What README and docs show is true: commands run as they stand and print what stands below them.

``document_blocks.py`` says what is run, ``rewrite_outputs.py`` writes outputs anew. Of blocks
``sh``, which are not run, only what they name must exist.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from document_blocks import (
    DOCUMENTS,
    ROOT,
    blocks,
    commands,
    lend,
    masked,
    run,
    run_session,
    write_if_named,
)

LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_print_what_the_document_shows(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lend(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(document.read_text(encoding="utf-8")):
        if not block.can_run:
            continue
        if block.kind == "console":
            for command, shown in commands(block.text):
                assert masked(run(command, tmp_path)) == masked(shown), f"$ {command}"
        elif block.kind == "pycon":
            run_session(block.text, document.name, names)
        elif block.kind == "python":
            write_if_named(block.text, tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_names_exists(document: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    text = document.read_text(encoding="utf-8")
    for block in blocks(text):
        if block.kind != "sh":
            continue
        for target in re.findall(r"^make ([\w-]+)", block.text, re.MULTILINE):
            assert target in targets, f"no target {target!r} in the Makefile"
        for script in re.findall(r"python ([\w/]+\.py)", block.text):
            assert (ROOT / script).is_file(), script
    for link in LINK.findall(text):
        assert (document.parent / link).exists(), f"{document.name}: link to {link}"


def test_what_may_be_missing_is_told() -> None:
    """A block that needs a package is run where it is installed, and only there."""
    text = "<!-- needs: no_such -->\n\n```console\n$ false\n```\n\n```console\n$ true\n```\n"
    missing, there = blocks(text)
    assert (missing.needs, missing.can_run) == ("no_such", False)
    assert (there.needs, there.can_run) == ("", True)


def test_outputs_are_written_anew(tmp_path: Path) -> None:
    """What differs is replaced, what only varies is kept, and nothing else is touched."""
    from rewrite_outputs import rewrite

    kept = "# Title\n\n```console\n$ echo 'solving  1.25 s'\nsolving  2.50 s\n```\n\ntext\n\n"
    stale = (
        "```console\n$ echo one; echo; echo two\nthree\n```\n\n```pycon\n>>> 1 + 1\n3\n```\n\nend\n"
    )
    page = tmp_path / "page.md"
    page.write_text(kept + stale)
    assert rewrite(page)
    assert page.read_text() == kept + stale.replace("three", "one\n\ntwo").replace("\n3\n", "\n2\n")
    assert not rewrite(page)
