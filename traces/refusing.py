"""Refuse, with the reason, what a capture would get wrong or what would end the process.

Needs torch, so only the modules of a capture import it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from ..errors import InputError, TraceError
from .replacing import replaced

_ASKING = "torch._dynamo.eval_frame"  # where compiled functions ask for their callback
_COMPILES = "torch.compile; torch.cond and flex_attention use it"
_MAKES_TENSORS = "aten::empty.memory_format"
_DISPATCH_KEYS = {"meta": "Meta", "lazy": "Lazy", "vulkan": "Vulkan"}  # others are in capitals
_HINT = "capture it uncompiled: set TORCHDYNAMO_DISABLE=1, or do not call torch.compile"


def refuse_compiled(models: Iterable[Any]) -> None:
    """Refuse models that ``torch.compile`` has wrapped: under a capture they would run eagerly.

    Raises
    ------
    InputError
        If one is compiled, or a module in it.
    """
    for model in models:
        for name, module in model.named_modules():
            is_wrapped = type(module).__name__ == "OptimizedModule"
            if is_wrapped or getattr(module, "_compiled_call_impl", None) is not None:
                where = f"module {name!r} of {type(model).__name__}" if name else "the model"
                raise InputError(f"{where} is compiled (torch.compile): {_HINT}")


@contextmanager
def compiled_calls_reported(report: Callable[[Exception], None]) -> Iterator[None]:
    """Notice calls of functions that ``torch.compile`` made, in the block.

    Such a function asks for its callback before each call; one that compiles, and not one that
    forbids it, counts. ``torch.cond`` and ``flex_attention`` compile, too.
    """

    def note(callback: Any = None) -> None:
        if callable(callback):
            report(TraceError(f"a compiled function was called ({_COMPILES}): {_HINT}"))

    with ExitStack() as stack:

        def listen() -> None:
            stack.enter_context(_overheard(_ASKING, "_callback_from_stance", note))

        if _ASKING in sys.modules:
            listen()
        else:
            compiling = _followed_once(torch.compile, listen)
            stack.enter_context(replaced((torch, "compile", compiling)))
        yield


def _followed_once(function: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any]:
    """Make a function that runs another and, the first time, something behind it."""
    pending = [then]

    def run(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if pending:
            pending.pop()()
        return made

    return run


@contextmanager
def backward_passes_reported(report: Callable[[], None]) -> Iterator[None]:
    """Notice backward passes that a program begins, in any thread, in the block."""
    with _overheard("torch.autograd", "_engine_run_backward", lambda *_, **__: report()):
        yield


@contextmanager
def _overheard(module: str, name: str, note: Callable[..., None]) -> Iterator[None]:
    """Have a function of torch tell of its calls; where there is none such, nothing is told."""
    place = sys.modules.get(module)
    original = getattr(place, name, None)
    if place is None or original is None:
        yield
        return

    def called(*args: Any, **kwargs: Any) -> Any:
        note(*args, **kwargs)
        return original(*args, **kwargs)

    with replaced((place, name, called)):
        yield


def is_watched_here(mode: Any) -> bool:
    """Say whether a dispatch mode sees the operators of this thread.

    The engine of autograd runs threads of its own, with the modes of the thread that started it.
    """
    return any(mode is one for one in _get_current_dispatch_mode_stack())


def higher_order(name: str) -> TraceError:
    """Return the refusal of an operator that takes functions: they run where no mode sees them."""
    return TraceError(
        f"{name}: an operator that takes functions (torch.cond, flex_attention and their like) "
        "cannot be captured; use plain Python or ordinary operators in its place"
    )


def out_of_sight(node: str) -> TraceError:
    """Return the refusal of what autograd knows a node of, and no dispatch mode saw."""
    return TraceError(
        f"a tensor that {node} belongs to was computed out of sight: in another thread, or by an "
        "extension that goes round PyTorch's dispatcher; run the whole step in the thread that "
        "began the capture"
    )


@cache
def has_backend(device: str) -> bool:
    """Say whether this torch was built for a type of device, whether or not there is one."""
    key = _DISPATCH_KEYS.get(device, device.upper())
    if device == torch._C._get_privateuse1_backend_name():
        key = "PrivateUse1"
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(_MAKES_TENSORS, key))
    except RuntimeError:  # no such key
        return False
