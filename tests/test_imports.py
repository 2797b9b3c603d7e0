"""What is cheap stays cheap: nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "llvmlite",
    "matplotlib",
    "msgspec",
    "networkx",
    "numba",
    "numpy",
    "pandas",
    "rich",
    "scipy",
    "sqlite3",
    "torch",
    "zstandard",
)
REPORT = f"import sys; print('heavy:', *sorted(set(sys.modules) & set({HEAVY!r})))"


def heavy_modules(code: str) -> list[str]:
    """Run code in a fresh interpreter; name the heavy modules that it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{REPORT}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert heavy_modules("import rematsim, rematsim.traces, rematsim.heuristics") == []


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["replay", "--help"]])
def test_version_and_help_load_nothing_heavy(arguments: list[str]) -> None:
    code = f"from rematsim.cli.main import main\nassert main({arguments!r}) == 0"
    assert heavy_modules(code) == []


def test_version_is_that_of_the_package() -> None:
    import tomllib
    from pathlib import Path

    import rematsim

    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert rematsim.__version__ == tomllib.loads(text)["project"]["version"]


def test_public_names_are_found() -> None:
    import rematsim

    for name in rematsim.__all__:
        assert getattr(rematsim, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'simulat'"):
        rematsim.simulat  # noqa: B018
