"""Every example in a docstring runs and prints what it shows."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from rematsim.errors import MissingExtraError

# Iterated by name: under the mapping of pyproject.toml a package does not see its subpackages.
PACKAGES = (
    "rematsim",
    "rematsim.cli",
    "rematsim.pages",
    "rematsim.traces",
    "rematsim.traces.importers",
    "rematsim.heuristics",
    "rematsim.heuristics.addresses",
    "rematsim.heuristics.static",
    "rematsim.analysis",
)


def module_names() -> Iterator[str]:
    for name in PACKAGES:
        yield name
        for module in pkgutil.iter_modules(importlib.import_module(name).__path__):
            if not module.ispkg and module.name != "__main__":
                yield f"{name}.{module.name}"


def test_packages_are_the_ones_of_pyproject() -> None:
    import tomllib
    from pathlib import Path

    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert tuple(tomllib.loads(text)["tool"]["setuptools"]["packages"]) == PACKAGES


@pytest.mark.parametrize("name", list(module_names()))
def test_examples_in_docstrings_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except (ModuleNotFoundError, MissingExtraError) as error:
        if "torch" not in str(error):
            raise
        pytest.skip("torch is not installed (the extra 'capture')")
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, _ = doctest.testmod(module, optionflags=options)
    assert failed == 0
