"""The only module that imports numba: how kernels are compiled, cached and switched off.

Kernels get their arrays in a `Bundle`: to Python an object with arrays for attributes, to compiled
code one pointer, so that a call costs nothing and compiling takes seconds, not minutes.
With ``NUMBA_DISABLE_JIT=1`` every function here hands back what it was given, and the same source
runs as plain Python: slowly, with the same results. DESIGN.md tells why it is built this way.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import operator
import os
import sys
import types as types_module
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature as typing_signature
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_jitable,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import from_dtype

F = TypeVar("F", bound=Callable[..., Any])

# Modules of the digest's folders that cannot change a row.
NOT_IN_DIGEST = {
    *("audit", "audit_ledger", "audit_scores", "conformance", "errors", "files", "grid"),
    *("inspection", "requirements", "store", "sweeps", "workers"),
}
_inlineable: WeakSet[Callable[..., Any]] = WeakSet()
_WORD = ir.IntType(64)
_FLAGS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
# What no kernel needs that only kernels call: Python never does, and nothing is allocated in them.
_INNER_FLAGS: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "no_rewrites": True,
    "_nrt": False,
}


def is_compiling() -> bool:
    """Whether kernels are compiled at all (not under ``NUMBA_DISABLE_JIT=1``)."""
    return not numba.config.DISABLE_JIT


def kernel(function: F) -> F:
    """Compile a function that other kernels call: a copy of it becomes part of each."""
    return _inner_kernel(function, forceinline=True)


def shared_kernel(function: F) -> F:
    """Compile a function that is too large, or called too rarely, to be copied into its callers."""
    return _inner_kernel(function, forceinline=False)


def _inner_kernel(function: F, **flags: Any) -> F:
    """Compile a function that Python does not call; it becomes part of its callers' cache entry."""
    if not is_compiling():
        return function
    compiled = numba.njit(function, **flags, **_INNER_FLAGS, **_FLAGS)
    template = compiled.get_call_template

    def widened(arguments: Any, keywords: Any) -> Any:
        """Compile once for all integers, and only a little: what calls it is optimized in full."""
        with _optimizing(1):
            return template(tuple(_widest(a) for a in arguments), keywords)

    compiled.get_call_template = widened
    return compiled  # type: ignore[no-any-return]


@contextmanager
def _optimizing(level: int) -> Iterator[None]:
    before = numba.config.OPT
    numba.config.OPT = type(before)(level)
    try:
        yield
    finally:
        numba.config.OPT = before


def _widest(argument: Any) -> Any:
    argument = types.unliteral(argument)
    return types.int64 if isinstance(argument, types.Integer) else argument


def inlineable(function: F, *, is_foreign: bool = False) -> F:
    """Leave a function plain for Python and let kernels inline it: scores and their terms.

    One from outside the package is checked for array bounds.
    """
    if not is_compiling() or function in _inlineable:
        return function
    _inlineable.add(function)
    return register_jitable(boundscheck=is_foreign)(function)  # type: ignore[no-any-return]


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


class BundleType(types.Type):  # type: ignore[misc]
    """What compiled code sees of a Bundle: the address of a table of addresses and lengths."""

    def __init__(self, name: str, layout: tuple[tuple[str, Any], ...]) -> None:
        self.columns = {name: (i, ColumnType(dtype)) for i, (name, dtype) in enumerate(layout)}
        super().__init__(name=f"Bundle({name})")


class ColumnType(types.Type):  # type: ignore[misc]
    """What compiled code sees of an array of a Bundle: where its row of the table is.

    An index is an integer from 0; a negative one does not count from the end, as it does in Python.
    Neither slices nor anything else that an array can do is there: what is left compiles quickly,
    and to two instructions.
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Column({dtype})")


@functools.cache
def bundle_type(bundle: type[Bundle]) -> BundleType:
    """Give the numba type of a Bundle class."""
    layout = tuple((name, from_dtype(np.dtype(d))) for name, d in bundle.LAYOUT.items())
    return BundleType(bundle.__name__, layout)


@typeof_impl.register(Bundle)
def _typeof_bundle(value: Bundle, _: Any) -> BundleType:
    return bundle_type(type(value))  # type: ignore[arg-type]


@register_model(BundleType)
@register_model(ColumnType)
class _AddressModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD)


@unbox(BundleType)
def _unbox_bundle(kind: BundleType, value: Any, context: Any) -> NativeValue:
    address = context.pyapi.object_getattr_string(value, "address")
    native = context.unbox(types.int64, address)
    context.pyapi.decref(address)
    return NativeValue(native.value, is_error=native.is_error)


@infer_getattr
class _BundleAttributes(AttributeTemplate):  # type: ignore[misc]
    key = BundleType

    def generic_resolve(self, kind: BundleType, name: str) -> Any:
        """Type an array of the bundle."""
        return kind.columns[name][1] if name in kind.columns else None


@lower_getattr_generic(BundleType)
def _bundle_column(context: Any, builder: Any, kind: BundleType, table: Any, name: str) -> Any:
    return builder.add(table, _WORD(16 * kind.columns[name][0]))


def _entry(builder: Any, column: Any, which: int) -> Any:
    """Load the address (0) or the length (1) of a column.

    A table never changes: said to the optimizer, or it would load both again after each store.
    """
    value = builder.load(
        builder.inttoptr(builder.add(column, _WORD(8 * which)), _WORD.as_pointer())
    )
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _item(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Point to an item; its index is checked where the function asks for that."""
    kind, index_type = signature.args[:2]
    index = context.cast(builder, values[1], index_type, types.int64)
    if context.enable_boundscheck:
        cgutils.do_boundscheck(context, builder, index, _entry(builder, values[0], 1))
    item = context.get_data_type(kind.dtype)
    first = builder.inttoptr(_entry(builder, values[0], 0), item.as_pointer())
    return builder.gep(first, [index])


@infer_global(operator.getitem)
class _ColumnItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, keywords: Any) -> Any:
        """Type ``column[index]``."""
        if isinstance(arguments[0], ColumnType) and isinstance(arguments[1], types.Integer):
            return typing_signature(arguments[0].dtype, *arguments)
        return None


@infer_global(operator.setitem)
class _ColumnStore(AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, keywords: Any) -> Any:
        """Type ``column[index] = value``."""
        if isinstance(arguments[0], ColumnType) and isinstance(arguments[1], types.Integer):
            return typing_signature(types.none, *arguments[:2], arguments[0].dtype)
        return None


@infer_global(len)
class _ColumnLength(AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, keywords: Any) -> Any:
        """Type ``len(column)``."""
        is_column = isinstance(arguments[0], ColumnType)
        return typing_signature(types.int64, *arguments) if is_column else None


@lower_builtin(operator.getitem, ColumnType, types.Integer)
def _get_item(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    where = _item(context, builder, signature, values)
    return context.unpack_value(builder, signature.args[0].dtype, where)


@lower_builtin(operator.setitem, ColumnType, types.Integer, types.Any)
def _set_item(context: Any, builder: Any, signature: Any, values: Any) -> None:
    where = _item(context, builder, signature, values)
    context.pack_value(builder, signature.args[0].dtype, values[2], where)


@lower_builtin(len, ColumnType)
def _length(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return _entry(builder, values[0], 1)


def signature(result: str, *arguments: Any) -> Any:
    """Build a signature from a result type's name and argument types (or type names)."""
    if not is_compiling():
        return None
    return getattr(types, result)(*(_as_type(a) for a in arguments))


@dataclass(frozen=True)
class Entry:
    """A compiled entry point.

    Attributes
    ----------
    function : callable
        What Python calls, with the types of the signature: nothing is looked up or checked.
    address : int
        What kernels call it by: see `call_at`.
    """

    function: Any
    address: int


_in_python: list[Any] = []  # uncompiled, an address is an index into it


@intrinsic
def _call_at(context: Any, address: Any, program: Any, state: Any, number: Any) -> Any:
    """Call ``(program, state, number) -> int`` at an address; exceptions go on to the caller."""
    arguments = (program, state, types.int64)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        convention = context.call_conv
        kind = convention.get_function_type(types.int64, arguments)
        function = builder.inttoptr(values[0], kind.as_pointer())
        status, answer = convention.call_function(
            builder, function, types.int64, arguments, values[1:]
        )
        with builder.if_then(status.is_error, likely=False):
            convention.return_status_propagate(builder, status)
        return answer

    return types.int64(types.int64, *arguments), generate


def _call_in_python(address: int, program: Any, state: Any, number: int) -> Any:
    return _in_python[address](program, state, number)


call_at = _call_at if is_compiling() else _call_in_python


def _as_type(argument: Any) -> Any:
    """Take a type's name, a Bundle class, the dtype of an array, or a type as it is."""
    if isinstance(argument, str):
        return getattr(types, argument)
    if isinstance(argument, np.dtype):
        return types.Array(from_dtype(argument), 1, "C")
    if isinstance(argument, type) and issubclass(argument, Bundle):
        return bundle_type(argument)  # type: ignore[arg-type]
    return argument


def entry(
    function: Any, function_signature: Any, *, cached: bool = True, called_by_python: bool = True
) -> Entry:
    """Compile an entry point for one signature, from the disk cache where it is there.

    Parameters
    ----------
    function : callable
        The kernel that Python, or the engine through a pointer, calls.
    function_signature : numba signature
        From `signature`.
    cached : bool
        Whether to keep the machine code on disk; not for functions from outside the package,
        whose sources the cache's key does not cover. Those are checked for array bounds.
    called_by_python : bool
        Whether Python calls it too, not only other kernels by its address.
    """
    if not is_compiling():
        _in_python.append(function)
        return Entry(function, len(_in_python) - 1)
    _import_array_functions()
    function = getattr(function, "py_func", function)
    with _cache_directory() as is_usable, _no_garbage_collection():
        flags = {"cache": cached and is_usable, "boundscheck": not cached, **_FLAGS}
        if not called_by_python:
            flags |= _INNER_FLAGS
        compiled = numba.njit(function_signature, **flags)(function)
        made = compiled.overloads[compiled.signatures[0]]
        address = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
        return Entry(made.entry_point, int(address))


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Compile without looking for garbage: there is little, and much to look through."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@functools.cache
def _import_array_functions() -> None:
    """Spare numba the import of all of scipy.linalg, which it wants only to see that it is there.

    numba's own linear algebra looks the functions up when it calls them, and finds them then.
    """
    names = ("scipy.linalg", "scipy.linalg.cython_blas")
    if any(name in sys.modules for name in (*names, "numba.np.arraymath")):
        return
    for name in names:
        sys.modules[name] = types_module.ModuleType(name)
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        for name in names:
            del sys.modules[name]


@functools.cache
def engine_digest() -> str:
    """Digest of every source file that can change a row: kernels, heuristics, lowering.

    numba notices an edit only in the file of the function that it loads, not in what that
    function inlines; so the compile cache, and the key of a sweep's rows, carry this digest.
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


@contextmanager
def _cache_directory() -> Iterator[bool]:
    """Point numba at our own cache folder while it decorates; yield whether that is writable."""
    before = numba.config.CACHE_DIR
    folder = _cache_root() / "kernels" / engine_digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_usable = os.access(folder, os.W_OK)
    except OSError:
        is_usable = False
    numba.config.CACHE_DIR = str(folder)
    try:
        yield is_usable
    finally:
        numba.config.CACHE_DIR = before


def _cache_root() -> Path:
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR) / "rematsim"
    from .traces.cache import cache_root

    return cache_root()
