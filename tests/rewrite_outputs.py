"""Write the outputs of commands into the documents anew: ``make docs-outputs``.

Every command of every block ``console`` and every statement of every block ``pycon`` is run, and
what it prints takes the place of what stands below it, unless the two differ in nothing but what
varies. `docs/glossary.md` gets the glossary of the reports.

    python tests/rewrite_outputs.py [DOCUMENT.md ...]
"""

from __future__ import annotations

import contextlib
import doctest
import io
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from document_blocks import (
    DOCUMENTS,
    ROOT,
    SESSION,
    Block,
    blocks,
    commands,
    lend,
    masked,
    run,
    write_if_named,
)

GLOSSARY_PAGE = ROOT / "docs" / "glossary.md"


def renewed(block: Block, folder: Path) -> str:
    """The text of a console block with the outputs of its commands as they are now."""
    parts = []
    for command, shown in commands(block.text):
        output = run(command, folder)
        parts.append("$ " + command.replace("\n", "\n> ") + "\n")
        parts.append(shown if masked(output) == masked(shown) else _shown(output))
    return "".join(parts)


def _shown(output: str) -> str:
    lines = [line.rstrip() for line in output.strip("\n").splitlines()]
    kept = [line for line in lines if not line or masked(line)]  # progress is not shown
    return "".join(f"{line}\n" for line in kept)


def renewed_session(text: str, names: dict[str, Any]) -> str:
    """The text of a Python session with what its statements print now."""
    parts = []
    for part in doctest.DocTestParser().parse(text):
        if isinstance(part, str):
            parts.append(part)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(part.source, "session", "single"), names)
        first, *others = part.source.splitlines()
        parts.append(f">>> {first}\n" + "".join(f"... {line}".rstrip() + "\n" for line in others))
        same = doctest.OutputChecker().check_output(part.want, printed.getvalue(), SESSION)
        parts.append(part.want if same else _shown(printed.getvalue()))
    return "".join(parts)


def glossary_page(page: str) -> str:
    """The page of the glossary, its title and introduction as they are, with the terms of now."""
    from rematsim.pages.glossary import GLOSSARY

    title, introduction, _ = page.split("\n\n", 2)
    terms = [
        f"{term[0].upper()}{term[1:]}\n"
        + textwrap.fill(meaning, 100, initial_indent=": ", subsequent_indent="  ")
        for term, meaning in GLOSSARY
    ]
    return "\n\n".join([title, introduction, *terms]) + "\n"


def rewrite(document: Path) -> bool:
    """Write a document anew, block by block; say whether anything in it has changed."""
    before = text = document.read_text(encoding="utf-8")
    if document == GLOSSARY_PAGE:
        text = glossary_page(before)
        document.write_text(text, encoding="utf-8")
    names: dict[str, Any] = {}
    moved = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lend(folder)
        for block in blocks(before):
            if block.kind == "python":
                write_if_named(block.text, folder)
            if block.kind not in ("console", "pycon") or not block.can_run:
                continue
            is_session = block.kind == "pycon"
            new = renewed_session(block.text, names) if is_session else renewed(block, folder)
            start = block.start + moved
            text = text[:start] + new + text[start + len(block.text) :]
            moved += len(new) - len(block.text)
            if new != block.text:
                document.write_text(text, encoding="utf-8")
    return text != before


def main(arguments: list[str]) -> None:
    """Rewrite the documents that are named, or all."""
    for document in [Path(name).resolve() for name in arguments] or DOCUMENTS:
        if rewrite(document):
            sys.stdout.write(f"{document.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
