"""Machine code: kept between processes, never mistaken for another's, and of no harm if damaged."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rematsim import simulate
from rematsim.errors import HeuristicError
from rematsim.heuristics.methods import get
from rematsim.heuristics.registry import Heuristic
from rematsim.heuristics.terms import size
from rematsim.jit import is_compiling
from rematsim.lowering import compile_trace
from rematsim.traces.synthetic import chain

pytestmark = pytest.mark.skipif(not is_compiling(), reason="nothing is compiled here")

# The smallest entry point, and whether numba had to be there for it.
RENDER = """
import sys
from rematsim import compiled
compiled.render()
print("numba" in sys.modules)
"""
TRACE, BUDGET = "synthetic:transformer:1", "0.6x"


def says(program: str, **environment: str) -> str:
    """Run a program in a process of its own; give what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def entries(cache: Path) -> list[Path]:
    """List the files of a cache."""
    return [path for path in cache.rglob("*") if path.is_file()]


def test_machine_code_is_kept_and_linked_without_the_compiler(tmp_path: Path) -> None:
    """numba takes a second to start; a process that finds its code does without."""
    assert says(RENDER, REMATSIM_CACHE_DIR=str(tmp_path)) == "True"
    assert says(RENDER, REMATSIM_CACHE_DIR=str(tmp_path)) == "False"


def test_old_entry_of_a_folder_that_is_only_read_is_used(tmp_path: Path) -> None:
    """Noting the time of use fails there, which is no reason to compile."""
    says(RENDER, REMATSIM_CACHE_DIR=str(tmp_path))
    for path in entries(tmp_path):
        os.utime(path, (0, time.time() - 10**6))
    refusing = "import os\ndef refuse(*_): raise PermissionError\nos.utime = refuse\n"
    assert says(refusing + RENDER, REMATSIM_CACHE_DIR=str(tmp_path)) == "False"


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_damaged_machine_code_is_compiled_again(tmp_path: Path, damage: str) -> None:
    """It is not run."""
    says(RENDER, REMATSIM_CACHE_DIR=str(tmp_path))
    for path in entries(tmp_path):
        data = path.read_bytes()
        middle = len(data) // 2
        changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"cut": data[:middle], "changed": changed, "empty": b""}[damage])
    assert says(RENDER, REMATSIM_CACHE_DIR=str(tmp_path)) == "True"
    assert says(RENDER, REMATSIM_CACHE_DIR=str(tmp_path)) == "False"


def test_threads_that_load_at_once_do_not_disturb_each_other() -> None:
    """Each gets code that stays where it is."""
    program = f"""
from concurrent.futures import ThreadPoolExecutor
from rematsim import simulate
with ThreadPoolExecutor(6) as pool:
    runs = list(pool.map(lambda _: simulate("{TRACE}", "h_DTR_eq", "{BUDGET}"), range(6)))
print(len({{run.evict_sha for run in runs}}))
"""
    assert says(program) == "1"


def test_two_heuristics_of_one_name_are_not_mistaken_for_each_other() -> None:
    """Neither in this process nor in the cache: a user's are not kept there at all."""

    def largest(state: object, s: int) -> float:
        return -size(state, s)

    def smallest(state: object, s: int) -> float:
        return size(state, s)

    own = [
        simulate(TRACE, Heuristic("own", function), BUDGET).evict_sha
        for function in (largest, smallest)
    ]
    plain = [simulate(TRACE, function, BUDGET).evict_sha for function in (largest, smallest)]
    assert own == plain and own[0] != own[1]


def test_parameters_that_differ_a_little_make_different_names() -> None:
    """The name tells rows and machine code apart."""
    names = {get(f"h_next_use(exponent={text})").name for text in ("2", "2.0000001", "2.0000002")}
    assert names == {f"h_next_use(exponent={text})" for text in ("2", "2.0000001", "2.0000002")}


@pytest.mark.parametrize("wrapper", ["sample({})", "ignore_small({})", "ignore_small({},0.5)"])
def test_shortcuts_work_on_a_users_function(tmp_path: Path, wrapper: str) -> None:
    """They decide as on the built-in of the same formula."""
    (tmp_path / "mine.py").write_text(
        "from rematsim.heuristics.terms import last_access\n"
        "def oldest(state, s):\n    return last_access(state, s)\n"
    )
    own = simulate(TRACE, wrapper.format(f"{tmp_path / 'mine.py'}:oldest"), BUDGET)
    assert own.evict_sha == simulate(TRACE, wrapper.format("h_LRU"), BUDGET).evict_sha


@pytest.mark.parametrize("index", ["s + 10**9", "-1", "-(10**9)"])
@pytest.mark.parametrize("used", ["state.storages[{}].size_bytes", "class_cost(state, {})"])
def test_index_that_does_not_exist_is_an_error_that_names_the_function(
    tmp_path: Path, index: str, used: str
) -> None:
    """Compiled code does not count from the end, neither the user's own nor a term's."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from rematsim.heuristics.terms import class_cost\n"
        f"def wrong(state, s):\n    return {used.format(index)}\n"
    )
    with pytest.raises(HeuristicError, match=r"mine\.py:[23]"):
        simulate(TRACE, f"{path}:wrong", BUDGET)


def test_reason_why_a_function_is_not_compiled_is_told(tmp_path: Path) -> None:
    """Arrays of the State have no slices."""
    path = tmp_path / "mine.py"
    path.write_text("def sliced(state, s):\n    return float(len(state.pool[2:4]) + s)\n")
    with pytest.warns(UserWarning, match=r"sliced cannot be compiled .*getitem.*slice"):
        simulate(TRACE, f"{path}:sliced", BUDGET)


@pytest.mark.parametrize("doing", [copy.deepcopy, pickle.dumps])
def test_program_cannot_be_copied_with_the_addresses_of_another(doing: object) -> None:
    """Traces travel between processes, Programs do not."""
    with pytest.raises(TypeError, match="a Program cannot be pickled or copied"):
        doing(compile_trace(chain(3)))  # type: ignore[operator]
