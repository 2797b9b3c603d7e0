"""The only module that imports numba: what kernels, Bundles and their columns are to its compiler.

Imported when something has to be compiled, and not before (`jit.py`). DESIGN.md tells why kernels
are built this way.
"""

from __future__ import annotations

import functools
import importlib
import operator
import sys
import threading
import types as types_module
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakSet

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature as typing_signature
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_jitable,
    register_model,
)
from numba.np.numpy_support import from_dtype

from .garbage import collection_paused
from .jit import Bundle, Kernel, inlined

_WORD = ir.IntType(64)
_FLAGS: dict[str, Any] = {
    "error_model": "numpy",
    "nogil": True,
    # What no kernel needs, as Python does not call it as numba would and nothing is allocated.
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "no_rewrites": True,
    "_nrt": False,
}
_kept: list[Any] = []  # what numba has made lives as long as this process
_registered: WeakSet[Callable[..., Any]] = WeakSet()


class Compiled(NamedTuple):
    """Machine code: where it is, and what to store of it."""

    address: int
    symbol: str
    machine_code: bytes


def compile_entry(
    function: Callable[..., Any], bundles: tuple[type[Bundle], ...], *, checks_bounds: bool
) -> Compiled:
    """Compile ``(program, state, number) -> number`` with all that it calls."""
    _import_array_functions()
    for inner in list(inlined):
        if inner not in _registered:
            # Copied in whole: functions made by one factory have one name, which the linker takes
            # for one function.
            register_jitable(forceinline=True)(inner)
            _registered.add(inner)
    arguments = (bundle_type(bundle, checks_bounds) for bundle in bundles)  # type: ignore[arg-type]
    with collection_paused():
        compiled = numba.njit(types.int64(*arguments, types.int64), **_FLAGS)(function)
    made = compiled.overloads[compiled.signatures[0]]
    _kept.append(made)
    symbol = made.fndesc.llvm_func_name
    machine_code = made.library.serialize_using_object_code()[2][0]
    return Compiled(int(made.library.get_pointer_to_function(symbol)), symbol, machine_code)


@functools.cache
def _import_array_functions() -> None:
    """Spare numba the import of all of scipy.linalg, which it wants only to see that it is there.

    numba's own linear algebra looks the functions up when it calls them, and finds them then. Other
    threads would see what stands in for the modules meanwhile, so there must be none.
    """
    names = ("scipy.linalg", "scipy.linalg.cython_blas")
    is_late = any(name in sys.modules for name in (*names, "numba.np.arraymath"))
    if is_late or threading.active_count() > 1:
        return
    for name in names:
        sys.modules[name] = types_module.ModuleType(name)
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        for name in names:
            del sys.modules[name]


def kernel_type(kernel: Kernel) -> Any:
    """Give the type of a kernel: that of a function which numba compiles when it is called."""
    compiled = numba.njit(kernel.function, forceinline=kernel.is_copied, **_FLAGS)
    template = compiled.get_call_template

    def widened(arguments: Any, keywords: Any) -> Any:
        """Compile once for all integers, and only a little: what calls it is optimized in full."""
        with _optimizing(1):
            return template(tuple(_widest(a) for a in arguments), keywords)

    compiled.get_call_template = widened
    _kept.append(compiled)
    return compiled._numba_type_


def _widest(argument: Any) -> Any:
    argument = types.unliteral(argument)
    return types.int64 if isinstance(argument, types.Integer) else argument


@contextmanager
def _optimizing(level: int) -> Iterator[None]:
    before = numba.config.OPT
    numba.config.OPT = type(before)(level)
    try:
        yield
    finally:
        numba.config.OPT = before


class BundleType(types.Type):  # type: ignore[misc]
    """What compiled code sees of a Bundle: the address of a table of addresses and lengths.

    Two types for each Bundle: what gets one that checks bounds, hands it on to all that it calls.
    """

    def __init__(self, bundle: type[Bundle], checks_bounds: bool) -> None:
        self.columns = {
            name: (place, ColumnType(from_dtype(np.dtype(dtype)), checks_bounds))
            for place, (name, dtype) in enumerate(bundle.LAYOUT.items())
        }
        super().__init__(name=f"{'Checked' * checks_bounds}Bundle({bundle.__name__})")


class ColumnType(types.Type):  # type: ignore[misc]
    """What compiled code sees of an array of a Bundle: where its row of the table is.

    An index is an integer from 0; a negative one does not count from the end, as it does in Python.
    Neither slices nor anything else that an array can do is there: what is left compiles quickly,
    and to two instructions.
    """

    def __init__(self, dtype: Any, checks_bounds: bool) -> None:
        self.dtype = dtype
        self.checks_bounds = checks_bounds
        super().__init__(name=f"{'Checked' * checks_bounds}Column({dtype})")


@functools.cache
def bundle_type(bundle: type[Bundle], checks_bounds: bool) -> BundleType:
    """Give the numba type of a Bundle class."""
    return BundleType(bundle, checks_bounds)


@register_model(BundleType)
@register_model(ColumnType)
class _AddressModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD)


@infer_getattr
class _BundleAttributes(AttributeTemplate):  # type: ignore[misc]
    key = BundleType

    def generic_resolve(self, kind: BundleType, name: str) -> Any:
        """Type an array of the bundle."""
        return kind.columns[name][1] if name in kind.columns else None


@lower_getattr_generic(BundleType)
def _bundle_column(context: Any, builder: Any, kind: BundleType, table: Any, name: str) -> Any:
    return builder.add(table, _WORD(16 * kind.columns[name][0]))


def _table_entry(builder: Any, column: Any, which: int) -> Any:
    """Load the address (0) or the length (1) of a column.

    A table never changes: said to the optimizer, or it would load both again after each store.
    """
    value = builder.load(
        builder.inttoptr(builder.add(column, _WORD(8 * which)), _WORD.as_pointer())
    )
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _item(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Point to an item; its index is checked where the column asks for that."""
    kind, index_type = signature.args[:2]
    index = context.cast(builder, values[1], index_type, types.int64)
    if kind.checks_bounds:
        cgutils.do_boundscheck(context, builder, index, _table_entry(builder, values[0], 1))
    item = context.get_data_type(kind.dtype)
    first = builder.inttoptr(_table_entry(builder, values[0], 0), item.as_pointer())
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
    return _table_entry(builder, values[0], 1)


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


def _call(address: int, program: Any, state: Any, number: int) -> int:
    return _call_at(address, program, state, number)  # type: ignore[no-any-return]


def call_at_type() -> Any:
    """Give the type of `jit.call_at`."""
    return kernel_type(Kernel(_call, is_copied=True))
