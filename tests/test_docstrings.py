"""Docstrings say what they should: tables of fields, a sentence each, the API in full."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

# Module -> its public functions and classes: those that README, docs and other programs use.
API = {
    "rematsim": ["load_trace", "simulate", "sweep"],
    "rematsim.execution": ["execute"],
    "rematsim.fitting": ["fits"],
    "rematsim.batch_search": ["largest_batch"],
    "rematsim.links": ["find_link"],
    "rematsim.policies": ["policy_of"],
    "rematsim.planning": ["plan_trace"],
    "rematsim.plan_files": ["load_plan", "save_plan"],
    "rematsim.plan_diff": ["compare_plans"],
    "rematsim.explaining": ["explain", "Explanation"],
    "rematsim.side_by_side": ["compare", "SideBySide"],
    "rematsim.live": ["instant"],
    "rematsim.scores": ["decisions"],
    "rematsim.analysis.run_curves": [],
    "rematsim.static_graph": ["static_graph"],
    "rematsim.schedules": ["evaluate"],
    "rematsim.budgets": ["expand_budgets", "parse_budget"],
    "rematsim.result": ["load_run"],
    "rematsim.traces.loading": ["load_trace", "load_traces"],
    "rematsim.comparison": ["compare_memory"],
    "rematsim.traces.curves": ["load_curve"],
    "rematsim.traces.builder": ["TraceBuilder"],
    "rematsim.traces.bundled": ["bundled_path", "bundled_traces"],
    "rematsim.heuristics.methods": ["get"],
    "rematsim.heuristics.registry": ["heuristic"],
    "rematsim.analysis.comparing": [],
    "rematsim.analysis.figures": [],
    "rematsim.analysis.output": ["save_figure"],
    "rematsim.analysis.plotting": ["plot"],
    "rematsim.analysis.tables": ["read_run", "read_table"],
}


def fields_in_table(docstring: str) -> list[str]:
    """Names in the first column of a docstring's table; a row may hold two."""
    rows = docstring.split("\n")
    borders = [i for i, row in enumerate(rows) if re.fullmatch(r"\s*=+( +=+)+\s*", row)]
    assert len(borders) >= 2, "no table of fields"
    named = [row.strip() for row in rows[borders[0] + 1 : borders[-1]] if row.strip()]
    width = len(rows[borders[0]].strip().split()[0])
    return [name for row in named for name in row[:width].split(",")]


@pytest.mark.parametrize(
    ("module", "name"), [("rematsim.program", "Program"), ("rematsim.state", "State")]
)
def test_table_of_fields_is_true(module: str, name: str) -> None:
    bundle = getattr(importlib.import_module(module), name)
    declared = [field for field in bundle.__annotations__ if field != "LAYOUT"]
    shown = [field.strip() for field in fields_in_table(bundle.__doc__ or "")]
    assert shown == declared == list(bundle.LAYOUT)


def test_columns_in_the_docstring_of_a_row_are_its_columns() -> None:
    from rematsim.result import COLUMNS, RunResult

    section = inspect.cleandoc(RunResult.__doc__ or "").partition("Attributes\n----------\n")[2]
    entries = re.findall(r"^(\w[\w, ]*) : ", section, re.MULTILINE)
    documented = [name.strip() for entry in entries for name in entry.split(",")]
    assert documented[: len(COLUMNS)] == list(COLUMNS)


def test_everything_public_has_a_sentence(sources: list[Any]) -> None:
    faults = []
    for source in sources:
        if not ast.get_docstring(source.tree):
            faults.append(f"{source.name}: no docstring")
        inside = _inside_functions(source.tree)
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            if node in inside:
                continue
            if ast.get_docstring(node) is None:
                faults.append(f"{source.path.name}:{node.lineno}: {node.name}: no docstring")
    assert not faults, "\n".join(faults)


def _inside_functions(tree: ast.Module) -> set[ast.AST]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {inner for outer in functions for inner in ast.walk(outer) if inner is not outer}


def public_functions() -> Iterator[tuple[str, Any]]:
    """The functions of the API, and the public methods of its classes."""
    for module_name, names in API.items():
        module = importlib.import_module(module_name)
        for name in names or _own_functions(module):
            found = getattr(module, name)
            if not inspect.isclass(found):
                yield f"{module_name}.{name}", found
                continue
            for key, member in vars(found).items():
                if inspect.isfunction(member) and not key.startswith("_"):
                    yield f"{module_name}.{name}.{key}", member


def _own_functions(module: Any) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
    ]


def section(docstring: str, title: str) -> str | None:
    """The text of a numpydoc section."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w+\n-+$|\Z)", docstring, re.MULTILINE | re.DOTALL)
    return found[1] if found else None


@pytest.mark.parametrize(("name", "function"), list(public_functions()))
def test_api_says_what_it_takes_and_returns(name: str, function: Any) -> None:
    """Numpydoc's sections; up to three parameters may be told in the sentence instead."""
    docstring = inspect.getdoc(function) or ""
    signature = inspect.signature(function)
    wanted = [p for p in signature.parameters if p not in ("self", "cls")]
    written = section(docstring, "Parameters")
    if written is None:
        assert len(wanted) <= 3, f"{name}: no section Parameters"
        return
    missing = [p for p in wanted if not re.search(rf"^\*{{0,2}}[\w, *]*\b{p}\b", written, re.M)]
    assert not missing, f"{name}: Parameters lacks {', '.join(missing)}"
    if str(signature.return_annotation) != "None":
        assert section(docstring, "Returns"), f"{name}: no section Returns"
