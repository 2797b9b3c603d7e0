"""Sizes: long functions and modules, many parameters, deep nesting are decisions, not accidents.

``python tests/test_style.py`` prints the table; the tests fail above the limits. An exception is
listed here with its reason.
"""

from __future__ import annotations

import ast
import functools
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FOLDERS = ("sim", "traces", "heuristics", "analysis", "examples", "benchmarks")

BODY_LINES, MODULE_LINES, HEURISTIC_LINES = 40, 400, 80
PARAMETERS, NESTING = 6, 4

# Files of heuristics/ that are not heuristics.
INFRASTRUCTURE = {
    "parameters.py",
    "__init__.py",
    "methods.py",
    "registry.py",
    "terms.py",
    "user_files.py",
}

# What may be larger, and why: (file, function) -> (limit, reason).
LONG_BODIES: dict[tuple[str, str], tuple[int, str]] = {}
MANY_PARAMETERS: dict[tuple[str, str], tuple[int, str]] = {
    ("heuristics/registry.py", "family"): (7, "what is declared of a family, by keyword"),
    ("sim/execution.py", "execute"): (8, "the options of an execution, five by keyword"),
    ("sim/execution.py", "run_plan"): (7, "likewise, four by keyword"),
    ("sim/sweeps.py", "sweep"): (16, "the options of a sweep, all but three by keyword"),
    ("traces/builder.py", "call"): (12, "what a log can say of a call, all but four by keyword"),
}


class Function(NamedTuple):
    """One function and its sizes."""

    file: str
    name: str
    line: int
    body: int
    parameters: int
    nesting: int


def files() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


@functools.cache
def functions() -> list[Function]:
    return list(_functions())


def _functions() -> Iterator[Function]:
    for path in files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Function(
                    str(path.relative_to(ROOT)),
                    node.name,
                    node.lineno,
                    _body_lines(node),
                    _parameters(node),
                    _nesting(node),
                )


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a body, docstring excluded; functions inside are counted on their own."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if not body:
        return 0
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 - sum(map(_nested_lines, body))


def _nested_lines(node: ast.AST) -> int:
    """Lines of the functions that stand inside a statement."""
    if isinstance(node, _FUNCTIONS):
        return (node.end_lineno or 0) - node.lineno + 1
    return sum(_nested_lines(child) for child in ast.iter_child_nodes(node))


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def _nesting(node: ast.AST, is_elif: bool = False) -> int:
    """Depth of blocks in blocks; an elif is no deeper than its if."""
    deepest = 0
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, _FUNCTIONS):
                continue
            is_next = name == "orelse" and isinstance(node, ast.If) and isinstance(child, ast.If)
            depth = int(isinstance(child, _BLOCKS) and not (is_next and len(value) == 1))
            deepest = max(deepest, depth + _nesting(child))
    return deepest


def table() -> str:
    """The sizes of each folder: what is there, against the limits."""
    found = functions()
    lines = [
        f"{'folder':<12}{'modules':>8}{'lines':>8}{'longest':>9}{'functions':>11}"
        f"{'median':>8}{'p90':>5}{'longest':>9}"
    ]
    for folder in FOLDERS:
        modules = [
            len(p.read_text().splitlines()) for p in files() if p.is_relative_to(ROOT / folder)
        ]
        bodies = sorted(f.body for f in found if f.file.startswith(f"{folder}/"))
        if modules and bodies:
            ninth = bodies[int(0.9 * (len(bodies) - 1))]
            lines.append(
                f"{folder:<12}{len(modules):>8}{sum(modules):>8}{max(modules):>9}"
                f"{len(bodies):>11}{statistics.median(bodies):>8g}{ninth:>5}{bodies[-1]:>9}"
            )
    return "\n".join(lines)


def test_functions_are_short() -> None:
    faults = [
        f"{f.file}:{f.line}: {f.name}: {f.body} lines"
        for f in functions()
        if f.body > LONG_BODIES.get((f.file, f.name), (BODY_LINES, ""))[0]
    ]
    assert not faults, f"bodies above {BODY_LINES} lines:\n" + "\n".join(faults)


def test_modules_are_short() -> None:
    faults = []
    for path in files():
        is_heuristic = path.parent == ROOT / "heuristics" and path.name not in INFRASTRUCTURE
        limit = HEURISTIC_LINES if is_heuristic else MODULE_LINES
        count = len(path.read_text(encoding="utf-8").splitlines())
        if count > limit:
            faults.append(f"{path.relative_to(ROOT)}: {count} lines, limit {limit}")
    assert not faults, "\n".join(faults)


def test_functions_take_few_parameters() -> None:
    faults = [
        f"{f.file}:{f.line}: {f.name}: {f.parameters} parameters"
        for f in functions()
        if f.parameters > MANY_PARAMETERS.get((f.file, f.name), (PARAMETERS, ""))[0]
    ]
    assert not faults, f"more than {PARAMETERS} parameters:\n" + "\n".join(faults)


def test_blocks_are_not_deep() -> None:
    faults = [
        f"{f.file}:{f.line}: {f.name}: nested {f.nesting} deep"
        for f in functions()
        if f.nesting > NESTING
    ]
    assert not faults, f"nested more than {NESTING} deep:\n" + "\n".join(faults)


def test_exceptions_are_needed() -> None:
    """An exception that nothing needs any more goes from the list."""
    sizes = {(f.file, f.name): f for f in functions()}
    stale = [key for key in LONG_BODIES if key not in sizes or sizes[key].body <= BODY_LINES] + [
        key for key in MANY_PARAMETERS if sizes[key].parameters <= PARAMETERS
    ]
    assert not stale


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
