"""A report as one HTML file: style, scripts, the chart library and the data are all inside.

The file asks nothing of a network, and its policy forbids it to. What a trace says is packed
(`packing.py`), and put into the page as text by its scripts, never as markup.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from importlib.resources import files
from typing import Any

from ..errors import MissingExtraError
from .content import Report, Section, Table
from .glossary import GLOSSARY
from .packing import Packer

# Where the library says with which of its modules it begins: with all ("main"), not only the base.
ENTRY = re.compile(r'\], (0), (\{"main":\1,[^{}]*?"index":(\d+),)')

# It greets on the console, and a browser then looks through all of it for the place that did.
QUIETLY = "const written = console.log; console.log = () => {{}};\n{}\nconsole.log = written;"

SCRIPTS = (
    "unpack",
    "formats",
    "tables",
    "library",
    "looks",
    "less_work",
    "run",
    "timeline",
    "addresses",
    "curves",
    "page",
)

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page draws with scripts; rematsim report --text tells the same without.</noscript>
<main id="report"></main>
<script type="text/plain" id="data">{data}</script>
<script>{library}</script>
<script>{scripts}</script>
</body>
</html>
"""


def as_page(report: Report) -> str:
    """Write a report as HTML.

    Raises
    ------
    MissingExtraError
        If the chart library is not installed.
    """
    library, version = chart_library()
    scripts = "\n".join(_file(f"{name}.js") for name in SCRIPTS)
    scripts = f'"use strict";\n(() => {{\n{scripts}\n}})();\n'
    return TEMPLATE.format(
        policy=_policy(library, scripts),
        title=escape(f"rematsim: {report.title}"),
        style=_file("page.css"),
        data=_packed(report, version),
        library=library,
        scripts=scripts,
    )


def chart_library() -> tuple[str, str]:
    """Give the script of the chart library, and its version.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    try:
        import bokeh
        from bokeh.resources import Resources
    except ImportError as error:
        raise MissingExtraError(
            f"a report as a page needs bokeh ({error}): pip install bokeh, "
            "or --text for the same as text"
        ) from error
    inline = Resources(mode="inline", components=["bokeh"])
    script = QUIETLY.format(_without_models("\n".join(inline.js_raw)))
    return script.replace("</script", "<\\/script"), bokeh.__version__


def _without_models(script: str) -> str:
    """Let the chart library begin without its models: `library.js` asks for those that it needs.

    A library that begins otherwise stays as it is; it only takes longer.
    """
    return ENTRY.sub(r"], \3, \2", script, count=1)


def _policy(*scripts: str) -> str:
    """Allow these scripts and nothing else: no network, no frame, no form."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(d).decode()}'" for d in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _file(name: str) -> str:
    """Read a file that lies beside this module."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def _packed(report: Report, version: str) -> str:
    texts = _Texts()
    sections = [_section(section, texts) for section in report.sections]
    return Packer().pack(
        {
            "title": report.title,
            "sections": sections,
            "texts": texts.lists,
            "provenance": [*report.provenance, ("charts", f"bokeh {version}")],
            "glossary": GLOSSARY,
        }
    )


class _Texts:
    """Lists of texts that several columns are places in: each is packed once."""

    def __init__(self) -> None:
        self.lists: list[Any] = []

    def place(self, texts: Any) -> int:
        """Give the place of a list."""
        for number, known in enumerate(self.lists):
            if known is texts:
                return number
        self.lists.append(texts)
        return len(self.lists) - 1


def _section(section: Section, texts: _Texts) -> dict[str, Any]:
    chart = dict(section.chart)
    if section.kind == "run":
        chart["calls"] = texts.place(chart["calls"])
        chart["storages"] = chart["storages"] | {"names": texts.place(chart["storages"]["names"])}
    return {
        "kind": section.kind,
        "title": section.title,
        "facts": section.facts,
        "provenance": section.provenance,
        "tables": [_table(table, texts) for table in section.tables],
        "chart": chart,
    }


def _table(table: Table, texts: _Texts) -> dict[str, Any]:
    columns = []
    for column in table.columns:
        packed = {"title": column.title, "kind": column.kind, "values": column.values}
        if column.texts is not None:
            packed["texts"] = texts.place(column.texts)
        columns.append(packed)
    return {
        "key": table.key,
        "title": table.title,
        "note": table.note,
        "columns": columns,
        "rows_in_all": table.rows_in_all,
        "events": table.events,
    }
