"""Modules of fake tensors: conversions (``.to``, ``.half``), copies, and what cannot be had.

Needs torch, so only the modules of a capture import it. PyTorch swaps a module's tensors when it
converts fake ones, which the modes' weak references forbid; and copies what is known of a fake
tensor's value as if that were fake too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import _VF, Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Module, Parameter, functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils._mode_utils import no_dispatch

from ..errors import InputError, TraceError
from .replacing import replaced
from .values import LARGEST, value_of

_KNOWN = ("constant", "known")  # what a fake tensor may carry of its real value


def modules_of_fakes(mode: Any) -> AbstractContextManager[None]:
    """Let modules of fake tensors be converted, copied and run in the block; refuse DDP."""
    name = "_pad_packed_sequence"
    changes = (
        (Module, "_apply", _converted),
        (Tensor, "__deepcopy__", functools.partialmethod(_copied, Tensor.__deepcopy__)),
        (DistributedDataParallel, "__init__", _refuse_processes),
        (functional, "ctc_loss", _with_real_lengths(mode, functional.ctc_loss)),
        (Tensor, "__format__", functools.partialmethod(_formatted, Tensor.__format__)),
        (Tensor, "numpy", functools.partialmethod(_as_array, Tensor.numpy)),
        (torch, "save", _save_nothing),
        (_VF, name, _with_real_lengths(mode, getattr(_VF, name))),
    )
    return replaced(*changes)


def _converted(module: Any, function: Callable[[Any], Any], recurse: bool = True) -> Any:
    """Convert a module's tensors, as ``Module._apply`` does where they are real.

    Parameters and gradients stay the objects that they are, so optimizers, hooks and ties hold.
    """
    if recurse:
        for child in module.children():
            child._apply(function)
    with torch.no_grad():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = _convert(parameter, function)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = function(buffer)
    return module


def _convert(tensor: Any, function: Callable[[Any], Any]) -> Any:
    """Convert a parameter in place, and its gradient; make a new one where torch would (meta)."""
    gradient, converted = tensor.grad, function(tensor)
    if converted is not tensor:
        if not torch._has_compatible_shallow_copy_type(tensor, converted):
            return Parameter(converted, tensor.requires_grad)
        tensor.data = converted
        for name in ("fake_device", *_KNOWN):
            setattr(tensor, name, getattr(converted, name, None))
    if gradient is not None:
        _convert(gradient, function)
    return tensor


def _copied(tensor: Any, copy: Callable[[Any, Any], Any], memo: dict[int, Any]) -> Any:
    """Copy a fake tensor with what is known of its value; a real one stays real."""
    if not isinstance(tensor, FakeTensor):
        with no_dispatch():
            return copy(tensor, memo)
    kept = {name: getattr(tensor, name, None) for name in _KNOWN}
    tensor.__dict__.update(dict.fromkeys(_KNOWN))
    try:
        copied = copy(tensor, memo)
    finally:
        tensor.__dict__.update(kept)
    copied.__dict__.update(kept)
    if kept["constant"] is not None:  # written to, where the tensor is
        with no_dispatch():
            copied.constant = kept["constant"].clone()
        copied.fake_mode.fake_tensor_converter.add_constant_storage_mapping(copied)
    return copied


def _with_real_lengths(mode: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function have real memory for small tensors, which its C++ fills by hand."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        mode.has_real_memory = True
        try:
            return function(*args, **kwargs)
        finally:
            mode.has_real_memory = False

    return run


def _formatted(tensor: Any, function: Callable[[Any, str], str], form: str) -> str:
    """Format a fake number as the number that it is taken to be."""
    if isinstance(tensor, FakeTensor) and tensor.dim() == 0:
        return format(tensor.item(), form)
    return function(tensor, form)


def _as_array(tensor: Any, function: Callable[..., Any], **options: Any) -> Any:
    """Hand what is known of a small fake tensor to NumPy, or ones; the edge is cut as ever."""
    if not isinstance(tensor, FakeTensor):
        return function(tensor, **options)
    known = value_of(tensor)
    if not isinstance(known, Tensor):
        if tensor.numel() > LARGEST:
            raise TraceError(
                f"numpy(): fake tensors have no values, and only up to {LARGEST} are made up; "
                "capture with real ones (without --fake)"
            )
        tensor.fake_mode.values_made_up += 1
    with no_dispatch():
        if not isinstance(known, Tensor):
            known = torch.ones(tensor.shape, dtype=tensor.dtype)
        return function(known.clone())


def _save_nothing(*_: Any, **__: Any) -> None:
    """Write no file: there are no values, and one that is there may be of use."""


def _refuse_processes(*_: Any, **__: Any) -> None:
    """Refuse what sends tensors to other processes as soon as it is made."""
    raise InputError(
        "DistributedDataParallel: fake tensors cannot be sent to other processes (--fake); capture "
        "the model without it, in one process, or with real tensors"
    )
