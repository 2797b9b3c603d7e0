"""What tests share: where the sources are, and the modules of the package as syntax trees."""

from __future__ import annotations

import ast
import signal
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# What a shell starts in the background ignores Ctrl-C; tests that interrupt need it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Folder -> package, as in pyproject.toml.
PACKAGES = {
    "sim": "rematsim",
    "traces": "rematsim.traces",
    "heuristics": "rematsim.heuristics",
    "analysis": "rematsim.analysis",
}


@dataclass(frozen=True)
class Source:
    """One module of the package: its name, its file, what stands in it."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def package(self) -> str:
        """The package that relative imports of the module start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


def _sources() -> list[Source]:
    found = []
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found.append(Source(".".join([package, *parts]), path))
    return found


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Every module of the package."""
    return _sources()
