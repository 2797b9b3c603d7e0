"""Kernels: how they are declared, compiled when first needed, kept on disk, and switched off.

A kernel is a plain Python function over `Bundle` objects, arrays by name; to compiled code a Bundle
is one pointer. What kernels become is in `compiler.py`, which imports numba, and is itself imported
only when something has to be compiled: machine code from the disk needs none of it. With
``NUMBA_DISABLE_JIT=1`` the same source runs as plain Python: slowly, with the same results.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar
from weakref import WeakSet

import numpy as np

from .errors import HeuristicError

F = TypeVar("F", bound=Callable[..., Any])

# Modules of the digest's folders that cannot change a row.
NOT_IN_DIGEST = {
    *("addressing", "allocation", "allocation_comparison", "allocation_layout", "audit"),
    *("audit_addresses", "audit_caching", "audit_extents", "audit_facts", "audit_lanes"),
    *("audit_ledger", "audit_moves", "audit_plan", "audit_program", "audit_row"),
    *("audit_scores", "audit_transfers", "batch_search", "buffer_files", "buffers", "causes"),
    *("cluster", "conformance", "errors"),
    *("explaining", "files", "fitting", "floors", "garbage", "grid", "headroom", "inspection"),
    *("lifetimes", "live", "overheads", "parameter_space", "plan_choices", "plan_diff"),
    *("plan_files", "policies", "requirements", "scores", "side_by_side", "store", "story"),
    *("sweeps", "trials", "tuning", "workers", "worth"),
}
# What changes the machine code that numba makes.
_SETTINGS = ("OPT", "CPU_NAME", "CPU_FEATURES", "BOUNDSCHECK", "ENABLE_AVX", "LOOP_VECTORIZE",
             "SLP_VECTORIZE", "DEBUGINFO", "LLVM_REFPRUNE_PASS")  # fmt: skip
_lock = threading.RLock()  # compiling and linking are for one thread at a time


class Compiling:
    """How long this process has been compiling: no part of what else takes time.

    It happens once for a version and a machine, the disk keeps what comes of it.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since: float | None = None

    @property
    def is_going_on(self) -> bool:
        """Whether something is being compiled now."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """Seconds in all, of what is going on too."""
        since = self._since
        return self._seconds + (0.0 if since is None else time.monotonic() - since)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of a block; of a block within one, once."""
        if self._since is not None:
            yield
            return
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._seconds, self._since = self.seconds, None


compiling = Compiling()
inlined: WeakSet[Callable[..., Any]] = WeakSet()  # functions that kernels inline


INDEX_RULE = "an index counts from 0, and there is nothing beyond the end"


def is_compiling() -> bool:
    """Whether kernels are compiled at all (not under ``NUMBA_DISABLE_JIT=1``)."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


class Kernel:
    """A function that only compiled code calls; to the compiler, what it has made of it.

    Parameters
    ----------
    function : callable
        The source.
    is_copied : bool
        Whether each caller gets a copy.
    """

    def __init__(self, function: Callable[..., Any], is_copied: bool) -> None:
        self.function = function
        self.is_copied = is_copied

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """What numba asks a value for that it does not know."""
        return _compiler().kernel_type(self)


def kernel(function: F) -> F:
    """Declare a function that other kernels call: a copy of it becomes part of each."""
    return Kernel(function, is_copied=True) if is_compiling() else function  # type: ignore[return-value]


def shared_kernel(function: F) -> F:
    """Declare one that is too large, or called too rarely, to be copied into its callers."""
    return Kernel(function, is_copied=False) if is_compiling() else function  # type: ignore[return-value]


def inlineable(function: F) -> F:
    """Leave a function plain for Python and let kernels inline it: scores and their terms."""
    with _lock:
        inlined.add(function)
    return function


class Bundle:
    """Named one-dimensional arrays that kernels reach through one pointer.

    Subclasses declare ``LAYOUT``: the dtype of each array, by name. The arrays are attributes; they
    must not be replaced, for compiled code knows their addresses.

    Parameters
    ----------
    **arrays : ndarray
        One contiguous array for each name of the layout.
    """

    LAYOUT: ClassVar[dict[str, Any]] = {}

    def __init__(self, **arrays: Any) -> None:
        self._table = np.zeros(2 * len(self.LAYOUT), np.int64)
        for i, (name, dtype) in enumerate(self.LAYOUT.items()):
            array = arrays[name]
            assert array.dtype == np.dtype(dtype), f"{name}: {array.dtype}"
            assert array.ndim == 1 and array.flags.c_contiguous, name
            setattr(self, name, array)
            self._table[2 * i : 2 * i + 2] = array.ctypes.data, len(array)
        self.address: int = self._table.ctypes.data

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or sent: the copy would have the addresses of this one's arrays."""
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied")


@dataclass(frozen=True)
class Entry:
    """A compiled function ``(program, state, number) -> number``.

    Attributes
    ----------
    function : callable
        What Python calls.
    address : int
        What kernels call it by: see `call_at`.
    """

    function: Any
    address: int


_in_python: list[Any] = [None]  # uncompiled, an address is an index into it; 0 is none


class _CallAt:
    """To compiled code, calls an entry by its address; its exceptions go on to the caller."""

    @functools.cached_property
    def _numba_type_(self) -> Any:
        return _compiler().call_at_type()


def _call_in_python(address: int, program: Any, state: Any, number: int) -> Any:
    return _in_python[address](program, state, number)


call_at: Any = _CallAt() if is_compiling() else _call_in_python

# How compiled code calls a function: status = f(&answer, &error, program, state, number).
_WORD = ctypes.c_int64
_NATIVE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.POINTER(_WORD), ctypes.POINTER(ctypes.c_void_p), *[_WORD] * 3
)


def entry(
    function: Callable[..., Any], bundles: tuple[type[Bundle], type[Bundle]], *, cached: bool = True
) -> Entry:
    """Compile an entry point, or load it from the disk cache.

    Parameters
    ----------
    function : callable
        ``(program, state, number) -> number``, under a name of its own: the linker, and the
        cache, know functions by their names alone.
    bundles : tuple of two classes
        Those of program and state.
    cached : bool
        Whether to keep the machine code on disk; not for functions from outside the package,
        whose sources the cache's key does not cover. In those, and in all that they inline, an
        index is checked.
    """
    if not is_compiling():
        _in_python.append(function)
        return Entry(function, len(_in_python) - 1)
    key = f"kernel-{_platform()}-{engine_digest()}-{function.__module__}.{function.__qualname__}"
    with _lock:
        address = _stored(key) if cached else None
        if address is None:
            with compiling.timed():
                made = _compiler().compile_entry(function, bundles, checks_bounds=not cached)
            address = made.address
            if cached:
                _store(key, made.symbol, made.machine_code)
    return Entry(_callable_at(address), address)


def _compiler() -> Any:
    from . import compiler  # numba takes a second

    return compiler


def _callable_at(address: int) -> Callable[[Bundle, Bundle, int], int]:
    """Let Python call what lies at an address."""
    native = _NATIVE(address)

    def call(program: Bundle, state: Bundle, number: int) -> int:
        answer, error = _WORD(), ctypes.c_void_p()
        if native(answer, error, program.address, state.address, number):
            raise HeuristicError(f"it fails when compiled, and not in Python; {INDEX_RULE}")
        return answer.value

    return call


def _stored(key: str) -> int | None:
    """Load machine code from the cache; give its address, None if it cannot be used."""
    from .traces.cache import cache_get

    found = cache_get(key)
    if found is None:
        return None
    import llvmlite.binding as llvm

    code: Any = found["machine_code"]
    engine = _loader()
    try:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.tobytes()))
    except RuntimeError:  # another version's
        return None
    engine.finalize_object()
    return int(engine.get_function_address(found["symbol"])) or None


def _store(key: str, symbol: str, machine_code: bytes) -> None:
    from .traces.cache import cache_put

    cache_put(key, {"symbol": symbol, "machine_code": np.frombuffer(machine_code, np.uint8)})


@functools.cache
def _loader() -> Any:
    """Make what links machine code into this process and keeps it there."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@functools.cache
def _platform() -> str:
    """Tell apart what compiles, and for which processor."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    settings = [os.environ.get(f"NUMBA_{name}") for name in _SETTINGS]
    facts = [version("numba"), version("llvmlite"), llvm.get_host_cpu_name(), features, settings]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


@functools.cache
def engine_digest() -> str:
    """Digest of every source file that can change a row: kernels, heuristics, lowering.

    What is compiled depends on all that it inlines; so the keys of machine code, and of a sweep's
    rows, carry this digest.
    """
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for folder in (root, _package_folder("heuristics")):
        for path in sorted(p for p in folder.glob("*.py") if p.stem not in NOT_IN_DIGEST):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _package_folder(name: str) -> Path:
    """Folder of a subpackage, found without importing it."""
    from importlib.util import find_spec

    spec = find_spec(f"rematsim.{name}")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])
