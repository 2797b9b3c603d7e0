"""The reference pages name everything that there is, in its order, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def tables(page: str) -> list[list[str]]:
    """The names in the first column of each table of a page; a row may hold several."""
    found: list[list[str]] = []
    rows: list[str] | None = None
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            rows = None
        elif rows is None:
            rows = []
            found.append(rows)
        else:
            first = line.split("|")[1]
            rows.extend(re.findall(r"`([^`]+)`", first))
    return found


def test_columns_are_all_explained() -> None:
    from rematsim.opcodes import ACTIONS
    from rematsim.result import COLUMNS, EVENT_COLUMNS, STORAGE_COLUMNS

    runs, events, actions, storages = tables("columns.md")
    assert runs == list(COLUMNS)
    assert events == list(EVENT_COLUMNS)
    assert sorted(actions) == sorted(ACTIONS)
    assert storages == list(STORAGE_COLUMNS)


def test_short_meanings_are_those_of_the_columns() -> None:
    from rematsim.cli.listing import COLUMN_MEANINGS
    from rematsim.result import COLUMNS

    assert list(COLUMN_MEANINGS) == list(COLUMNS)


def test_heuristics_are_all_explained() -> None:
    from rematsim.heuristics import names

    shown = {name for table in tables("heuristics.md") for name in table}
    shown = {name for name in shown if name.startswith("h_") or name == "Coop"}
    ablations = {name for name in names() if name.startswith("h_abl_")}
    assert shown - ablations == set(names()) - ablations


def test_terms_and_needs_are_all_explained() -> None:
    import inspect

    from rematsim.heuristics import terms
    from rematsim.state import NEEDS

    page = (DOCS / "heuristics.md").read_text(encoding="utf-8")
    functions = [
        name
        for name, value in vars(terms).items()
        if inspect.isfunction(value) and value.__module__ == terms.__name__
    ]
    assert functions, "terms are functions of their module"
    missing = [name for name in (*functions, *NEEDS) if f"`{name}" not in page]
    assert not missing


def test_instructions_are_all_explained() -> None:
    from rematsim.traces.importers.dtr_lines import KINDS

    shown = {name for table in tables("log-format.md") for name in table}
    assert set(KINDS) <= shown


def test_columns_of_trace_files_are_all_explained() -> None:
    from rematsim.traces.importers.trace_columns import NUMBER_ENCODINGS, TEXT_ENCODINGS
    from rematsim.traces.importers.trace_wire import NUMBERS, TEXTS

    _, fields, columns, encodings = tables("trace-format.md")
    assert columns == [*NUMBERS, *TEXTS]
    assert encodings == [*NUMBER_ENCODINGS, *TEXT_ENCODINGS]
    assert "columns" in fields


def test_formats_are_all_explained() -> None:
    from rematsim.traces.importers.registry import READERS

    pages = ("reading-profiles.md", "reading-profiles-pytorch.md")
    page = "".join((DOCS / name).read_text(encoding="utf-8").lower() for name in pages)
    words = {"trace_file": "trace file", "dtr_reader": "dtr log", "nx_graph": "networkx graph"}
    words |= {"fx_graph": "joint graph", "op_table": "table of operators"}
    words |= {"tensor_table": "table of tensors", "execution_trace": "execution trace"}
    words |= {"kineto": "kineto trace", "chakra": "chakra", "onnx_model": "onnx model"}
    words |= {"memory_snapshot": "memory snapshot", "memory_timeline": "memory timeline"}
    assert set(READERS) == set(words), "say here how the page calls the format"
    assert not [word for word in words.values() if word not in page]


def test_the_page_of_the_api_has_all_that_is_public() -> None:
    import importlib

    from test_docstrings import API

    page = (DOCS / "api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\.\. auto\w+:: ([\w.]+)$", page, re.MULTILINE))
    parts = {name.rpartition(".")[2] for name in shown}
    wanted = {name for names in API.values() for name in names}
    wanted |= {name for name, names in API.items() if not names}
    for module in ("rematsim", "rematsim.traces", "rematsim.heuristics"):
        wanted |= set(importlib.import_module(module).__all__) - {"__version__"}
    assert not wanted - shown - parts


def test_the_page_of_the_glossary_says_what_reports_say() -> None:
    """It is written from theirs: make docs-outputs."""
    from rewrite_outputs import GLOSSARY_PAGE, glossary_page

    page = GLOSSARY_PAGE.read_text(encoding="utf-8")
    assert page == glossary_page(page)


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = re.findall(r"^(?:.*<)?([\w-]+)>?$", (DOCS / "index.md").read_text(), re.MULTILINE)
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert pages <= set(listed)
