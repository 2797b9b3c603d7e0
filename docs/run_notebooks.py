"""Run the notebooks of ``examples/`` and make a page of each for the site: ``make docs`` does.

In the repository notebooks have no outputs; a page has those of this run. A cell that fails ends
it. The pages, and the figures beside them, are written into ``docs/notebooks/``, which is not kept.
"""

from __future__ import annotations

import base64
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).parent
PAGES = DOCS / "notebooks"
SECONDS = 300  # of a cell


def shown(output: dict[str, Any], stem: str) -> str:
    """Write an output as Markdown; a figure goes into a file that is named after ``stem``."""
    data = output.get("data", {})
    if "image/png" in data:
        (PAGES / f"{stem}.png").write_bytes(base64.b64decode(data["image/png"]))
        return f"![Figure of the cell above]({stem}.png)\n"
    if "text/html" in data:
        return f"````{{raw}} html\n{data['text/html'].strip()}\n````\n"
    text = output.get("text") or data.get("text/plain", "")
    return f"````text\n{text.rstrip()}\n````\n"


def page(notebook: nbformat.NotebookNode, name: str) -> str:
    """Write a notebook that has been run as Markdown."""
    parts = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source.replace("](../docs/", "](../"))
            continue
        code = re.sub(r"^%.*\n", "", cell.source, flags=re.MULTILINE)
        parts.append(f"```python\n{code}\n```")
        parts += [shown(out, f"{name}-{number}-{i}") for i, out in enumerate(cell.outputs)]
    return "\n\n".join(parts) + f"\n\nThe notebook: `examples/{name}.ipynb`.\n"


def run(path: Path) -> None:
    """Run a notebook in a kernel of its own, and write its page."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=SECONDS, resources=resources)
    client.extra_arguments = ["--IPKernelApp.log_level=ERROR"]
    client.execute()
    (PAGES / f"{path.stem}.md").write_text(page(notebook, path.stem), encoding="utf-8")
    sys.stdout.write(f"{path.name}: ran\n")


def main() -> None:
    """Run them all, two at a time."""
    PAGES.mkdir(exist_ok=True)
    for old in PAGES.iterdir():
        old.unlink()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, sorted((DOCS.parent / "examples").glob("*.ipynb"))))


if __name__ == "__main__":
    main()
