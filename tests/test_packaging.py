"""What is shipped: sdist and wheel hold everything and nothing else, and work where they land."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("packaging")  # one worker: they share what is made once

SHIPPED = ("pyproject.toml", "README.md", "LICENSE", "sim", "traces", "heuristics", "analysis")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command; its output, or a failure that shows it."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("packaging")
    source = folder / "source"
    source.mkdir()
    for name in SHIPPED:
        if (root / name).is_dir():
            shutil.copytree(
                root / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
            )
        else:
            shutil.copy(root / name, source / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def expected(root: Path) -> set[str]:
    """The files that a wheel must hold, by their places in it."""
    files = {"rematsim/py.typed"}
    for folder, package in (
        ("sim", "rematsim"),
        ("traces", "rematsim/traces"),
        ("heuristics", "rematsim/heuristics"),
        ("analysis", "rematsim/analysis"),
    ):
        for path in (root / folder).rglob("*"):
            is_data = path.parent == root / "traces" / "data" or path.suffix in (".css", ".js")
            if path.is_file() and (path.suffix == ".py" or is_data):
                files.add(f"{package}/{path.relative_to(root / folder).as_posix()}")
    return files


def test_wheel_holds_one_package_with_every_file(root: Path, wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")]
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"rematsim"}
    assert len(top) == 2
    assert {name for name in names if name.startswith("rematsim/")} == expected(root)


def test_sdist_holds_what_the_wheel_is_made_of(root: Path, built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = {"rematsim/traces": "traces", "rematsim/heuristics": "heuristics"}
    folders["rematsim/analysis"] = "analysis"
    wanted = {"pyproject.toml", "README.md", "LICENSE"}
    for name in expected(root):
        package = next((p for p in folders if name.startswith(f"{p}/")), "rematsim")
        wanted.add(folders.get(package, "sim") + name.removeprefix(package))
    assert wanted <= names


def test_installed_wheel_works_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    """In an empty environment; only its dependencies are lent by this one."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet"),
        *("--disable-pip-version-check", "--no-index", "--no-deps", wheel),
        cwd=tmp_path,
    )
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    clean = {"PYTHONPATH": "", "NUMBA_DISABLE_JIT": "1"}

    place = run(python, "-c", "import rematsim; print(rematsim.__file__)", cwd=elsewhere, **clean)
    assert Path(place.strip()).is_relative_to(environment)
    command = environment / "bin" / "rematsim"
    assert run(command, "--version", cwd=elsewhere, **clean).startswith("rematsim ")
    assert "bundled:unet" in run(command, "list", "traces", cwd=elsewhere, **clean)
    told = run(command, "replay", "bundled:unet", "--budget", "0.6x", "--no-cache",
               cwd=elsewhere, **clean)  # fmt: skip
    assert "status" in told
    run(python, "-m", "rematsim", "--version", cwd=elsewhere, **clean)
