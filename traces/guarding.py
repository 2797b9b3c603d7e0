"""Fake tensors, made safe: operators that need a value, or would end the process, are answered.

Needs torch, so only the modules of a capture import it. Under ``fake_tensors`` a program makes and
uses tensors that have a shape and no memory.
"""

from __future__ import annotations

import logging
import math
import re
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from types import TracebackType
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
)
from torch.utils import _foreach_utils
from torch.utils._mode_utils import no_dispatch

from ..errors import InputError, RematsimError, TraceError
from ..garbage import collection_paused
from .fake_methods import HINT, answering_methods
from .fake_modules import modules_of_fakes
from .fake_results import LIKE_FIRST, LISTS_LIKE_FIRST, are_lists_like_first, like_first, rows_of
from .kernels import NEED_LENGTHS, amended, answered
from .refusing import has_backend, higher_order
from .schemas import HIGHER_ORDER, traits_of
from .substitution import TARGETS, CudaOperators, lists_in_optimizers
from .values import LARGEST, follow, value_of

_DEVICE = torch.ops.prim.device.default
# Operators of one result whose shapes PyTorch's own kernels work out at once; they are most of a
# transformer's, and fake tensors spend several times as long on their own bookkeeping.
_DIRECT = {
    "view",
    "_unsafe_view",
    "t",
    "transpose",
    "slice",
    "expand",
    "detach",
    "mm",
    "mul",
    "add",
}
# What torch says where real memory is missing; said for real tensors, it has other reasons.
_OF_FAKES = re.compile(
    r"fake ?tensor|meta tensor|device \W*meta|data is not allocated|tensor subclass|_share_fd_",
    re.IGNORECASE,
)
_MADE = "lift_fresh"  # the last that torch.tensor(...) does: a view of what it has made
_COMPARES = {"allclose", "equal"}  # true, if every value is 1
_LACKS = re.compile(  # what torch says of a device that it was built without
    r"not linked with support for (\w+)|not compiled with (\w+) enabled"
    r"|Storage device not recognized: (\w+)|without ATen_(cuda|xpu|mtia|hpu) library"
    r"|Cannot access accelerator device when none is available"  # to(0): a number means a GPU
    r"|aten\._pin_memory|only CPU memory can be pinned|backend doesn't support events"
)
_DEVICE_MODULES = {"cuda", "xpu", "mps", "mtia", "accelerator"}  # of torch
_DENSE = "use dense gradients (sparse=False), or "
_CHECK = "_amp_foreach_non_finite_check_and_unscale_"


class GuardedFakes(FakeTensorMode):  # type: ignore[misc]  # torch may be absent for types
    """Fake tensors that answer what asks for a value, and refuse what cannot be.

    A value that a program asks for (``loss.item()``) is the real one, where it is known
    (``values.py``), and else taken to be 1, a truth what follows from that, or false; whether
    gradients are infinite (mixed precision) is taken to be 0, so that the optimizer steps.

    Attributes
    ----------
    values_made_up : int
        How often a program was given such a value.
    has_real_memory : bool
        Whether small tensors that are made empty are real for the moment.
    """

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.values_made_up = 0
        self.has_real_memory = False
        self._infinities: set[int] = set()

    def notes(self) -> tuple[str, ...]:
        """Say how often a program was given a value that is made up, if it was."""
        if not self.values_made_up:
            return ()
        return (
            f"the program asked {self.values_made_up} times for a value that fake tensors do not "
            "have, and was given 1 (for a truth: what follows from 1, or false)",
        )

    supports_higher_order_operators = True  # they come here then, to be refused in our words

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Go without a guard against compilation around each operator: it is slow.

        What is compiled is refused (``refusing.py``).
        """
        return False

    def __deepcopy__(self, _: Any) -> GuardedFakes:
        """Stay the one mode: a copied module's tensors would belong to another."""
        return self

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator."""
        kwargs = kwargs or {}
        if func is _DEVICE and not self.in_kernel_invocation and isinstance(args[0], FakeTensor):
            return args[0].fake_device
        traits = traits_of(func)
        if traits.role == HIGHER_ORDER:
            raise higher_order(traits.name)
        if traits.role:  # an exception here could end the process
            return self.dispatch(func, types, args, kwargs)
        _refuse_foreign(kwargs.get("device"))
        if traits.name in LISTS_LIKE_FIRST and are_lists_like_first(self, args, kwargs):
            return None if traits.written else [like_first(self, row, {}) for row in rows_of(args)]
        output = self._directly(func, traits.name, args, kwargs)
        if output is not None:
            return output
        if "sparse" in traits.name:
            raise TraceError(_needs_values(traits.name, _DENSE))
        if traits.name == _CHECK:
            self._infinities.add(args[1].untyped_storage()._cdata)
        if self._is_real(func, traits.name, args):
            return func(*args, **kwargs)
        output = answered(self, traits.name, func, args)
        if output is not None:
            return output
        try:
            output = self.dispatch(func, types, args, kwargs)
        except DataDependentOutputException:
            if traits.name in _COMPARES:
                self.values_made_up += 1
                return True
            if traits.name != "_local_scalar_dense":
                raise TraceError(_needs_values(traits.name)) from None
            return self._value(args[0])
        except DynamicOutputShapeException:
            hint = "make lengths of constants, or " if traits.name in NEED_LENGTHS else ""
            raise TraceError(_needs_values(traits.name, hint)) from None
        output = amended(self, traits.name, args, output)
        if _is_sparse(output):
            raise TraceError(_needs_values(traits.name, _DENSE))
        follow(func, traits, args, kwargs, output)
        return output

    def _directly(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Return an operator's result without the bookkeeping of fake tensors, or None."""
        if name == "_local_scalar_dense" and getattr(args[0], "constant", None) is not None:
            with no_dispatch():
                return args[0].constant.item()
        is_like_first = name in LIKE_FIRST
        if not (is_like_first or name in _DIRECT) or not self._is_direct(args):
            return None
        output = like_first(self, args, kwargs) if is_like_first else None
        if output is not None or kwargs or name not in _DIRECT:
            return output
        with in_kernel_invocation_manager(self):
            output = func(*args)
        return FakeTensor(self, output, args[0].fake_device)

    def _is_direct(self, args: Any) -> bool:
        """Say whether an operator's arguments need none of the care that fake tensors take."""
        device = getattr(args[0], "fake_device", None)
        return device is not None and all(
            value.fake_mode is self
            and value.constant is None
            and value.fake_device == device
            and "known" not in value.__dict__
            if type(value) is FakeTensor
            else not isinstance(value, torch.Tensor)
            for value in args
        )

    def _is_real(self, func: Any, name: str, args: Any) -> bool:
        """Say whether a result is a real tensor: a view of one, or memory that C++ writes to."""
        if name == "empty":
            return self.has_real_memory and math.prod(args[0]) <= LARGEST
        return bool(args) and type(args[0]) is torch.Tensor and func.is_view and name != _MADE

    def _value(self, tensor: Any) -> Any:
        """Give the value of a tensor of one element, or make one up."""
        known = value_of(tensor)
        if isinstance(known, torch.Tensor):
            with no_dispatch():
                return known.item()
        self.values_made_up += 1
        if tensor.untyped_storage()._cdata in self._infinities:
            return 0.0
        if tensor.dtype is torch.bool:
            return bool(known)
        return 1.0 if tensor.dtype.is_floating_point else 1


def _needs_values(operator: str, hint: str = "") -> str:
    return f"{operator}: its result depends on values, which fake tensors do not have; {hint}{HINT}"


def _is_sparse(output: Any) -> bool:
    """Say whether a result is a sparse tensor: how much it holds depends on values."""
    results = output if isinstance(output, list | tuple) else (output,)
    return any(isinstance(x, torch.Tensor) and x.layout is not torch.strided for x in results)


def _refuse_foreign(device: Any) -> None:
    """Refuse a device that this torch has no backend for: a gradient there ends the process."""
    if device is not None and not has_backend(torch.device(device).type):
        raise InputError(_no_backend(str(device)))


def lacking_device(error: Exception) -> str | None:
    """Return the device that torch itself refuses as it was built without it, if that is it."""
    found = _LACKS.search(str(error))
    if found:
        return next((name.lower() for name in found.groups() if name), "cuda")
    return _device_asked(error.__traceback__)


def _device_asked(trace: TracebackType | None) -> str | None:
    """Return the device in whose module of torch an error was raised, if this torch lacks it.

    Each call of such a module (streams, events, statistics) fails in words of its own.
    """
    names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(trace)]
    for name in takewhile(lambda name: name.startswith("torch."), reversed(names)):
        module = name.split(".")[1]
        device = "cuda" if module == "accelerator" else module
        if module in _DEVICE_MODULES and not has_backend(device):
            return device
    return None


def said_of_fakes(error: Exception) -> str | None:
    """Say in a line what torch could not do with fake tensors, if that is what went wrong."""
    device = lacking_device(error)
    if device is not None:
        return _no_backend(device)
    message = (str(error) or type(error).__name__).splitlines()[0]
    is_torchs = type(error).__module__.startswith("torch._subclasses")
    if not is_torchs and not _OF_FAKES.search(message):
        return None
    return f"torch cannot do this with fake tensors: {type(error).__name__}: {message}; {HINT}"


def _no_backend(device: str) -> str:
    """Say in a line why a device is refused, and what to do."""
    kind = device.partition(":")[0].upper()
    return (
        f"device {device!r}: this torch ({torch.__version__}) is built without {kind}, and fake "
        f"{kind} tensors would end the process; let the program use the CPU, and take target cuda "
        "for the operators that a GPU would run"
    )


@contextmanager
def _lists_of_fakes() -> Iterator[None]:
    """Let what goes through lists of tensors at once (clipping gradients) do so with fake ones."""
    kinds = getattr(_foreach_utils, "_foreach_supported_types", [])
    kinds.append(FakeTensor)
    try:
        yield
    finally:
        kinds.remove(FakeTensor)


@contextmanager
def _without_torchs_report() -> Iterator[None]:
    """Keep torch from logging a traceback of its own for each error that it raises."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def fake_tensors(target: str) -> Iterator[GuardedFakes]:
    """Let every tensor that is made in the block be fake.

    Parameters
    ----------
    target : {"cpu", "cuda"}
        Whose operators are run: those of the CPU, or those that a GPU would run.

    Yields
    ------
    GuardedFakes

    Raises
    ------
    InputError
        If there is no such target.
    """
    if target not in TARGETS:
        raise InputError(f"target {target!r}: unknown; known: {', '.join(TARGETS)}")
    with collection_paused():  # it imports half of PyTorch
        fakes = GuardedFakes()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
        stack.enter_context(_lists_of_fakes())
        stack.enter_context(modules_of_fakes(fakes))
        stack.enter_context(answering_methods())
        stack.enter_context(fakes)
        if target == "cuda":
            stack.enter_context(CudaOperators())
            stack.enter_context(lists_in_optimizers())
        stack.enter_context(_without_torchs_report())
        try:
            yield fakes
        except RematsimError:
            raise
        except Exception as error:
            message = said_of_fakes(error)
            if message is None:
                raise
            kind = TraceError if lacking_device(error) is None else InputError
            raise kind(message) from None
