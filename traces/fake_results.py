"""Results of fake operators that are like their first argument, described without PyTorch.

PyTorch works out the size, strides and type of ``x * y`` in Python, which costs a millisecond, and
a transformer is made of such operators. Where the answer is that of the first argument, it is given
here; where there is any doubt, there is no answer. Needs torch, so only the modules of a capture
import it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

_NUMBERS = (int, float)
_DEFAULTS: tuple[Any, ...] = (None, False, torch.preserve_format)  # of options
_ELEMENTWISE = {
    "add",
    "addcdiv",
    "addcmul",
    "div",
    "exp",
    "lerp",
    "mul",
    "neg",
    "pow",
    "sqrt",
    "sub",
}
LIKE_FIRST = {
    *(_ELEMENTWISE - {"addcdiv", "addcmul", "lerp"}),
    *("rsqrt", "sigmoid", "silu", "tanh", "sigmoid_backward", "silu_backward", "tanh_backward"),
    *("_to_copy", "clone", "empty_like", "ones_like", "zeros_like"),
}
LISTS_LIKE_FIRST = {f"_foreach_{name}{end}" for name in _ELEMENTWISE for end in ("", "_")}


def like_first(mode: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the result of an operator in ``LIKE_FIRST``, or None if it may be another.

    Parameters
    ----------
    mode : FakeTensorMode
    args : sequence
        Its tensors are fake, all of one device, and nothing is known of their values.
    kwargs : dict
    """
    first = args[0]
    dtype = kwargs.get("dtype") or first.dtype
    options = (value for key, value in kwargs.items() if key != "dtype")
    has_options = any(all(value is not default for default in _DEFAULTS) for value in options)
    if has_options or dtype is torch.bool or not _is_like(first, args[1:]):
        return None
    with no_dispatch():
        described = torch.empty_strided(first.shape, first.stride(), dtype=dtype, device="meta")
    return FakeTensor(mode, described, first.fake_device)


def are_lists_like_first(mode: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Say whether each result of an operator in ``LISTS_LIKE_FIRST`` is like the first of its row.

    Parameters
    ----------
    mode : FakeTensorMode
    args : sequence
    kwargs : dict
    """
    if kwargs or not _is_list_of_tensors(args[0]):
        return False
    for value in args[1:]:
        if _is_list_of_tensors(value):
            if len(value) != len(args[0]):
                return False
        elif any(type(v) not in _NUMBERS for v in (value if type(value) is list else (value,))):
            return False
    return all(_is_unknown(mode, row) and _is_like(row[0], row[1:]) for row in rows_of(args))


def rows_of(args: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the tensors that an operator over lists takes together."""
    return zip(*(value for value in args if _is_list_of_tensors(value)), strict=True)


def _is_list_of_tensors(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], torch.Tensor)


def _is_unknown(mode: Any, tensors: Sequence[Any]) -> bool:
    """Say whether tensors are fake, of one device, and nothing is known of their values."""
    return all(
        type(tensor) is FakeTensor
        and tensor.fake_mode is mode
        and tensor.constant is None
        and "known" not in tensor.__dict__
        and tensor.fake_device == tensors[0].fake_device
        for tensor in tensors
    )


def _is_like(first: Any, others: Sequence[Any]) -> bool:
    """Say whether what is made of tensors has the first one's size, strides and type.

    PyTorch orders the dimensions of a result by the strides of the first argument, as far as they
    differ: those of a dense tensor do, unless a dimension is 1 long.
    """
    if not (type(first) is FakeTensor and first.is_floating_point() and first.numel()):
        return False
    has_ties = 1 in first.shape
    is_contiguous = first.stride() == _strides(first.shape) if has_ties else first.is_contiguous()
    if not (is_contiguous or (_is_dense(first) and not has_ties)):
        return False
    for other in others:
        if type(other) in _NUMBERS:
            continue
        if type(other) is not FakeTensor or other.dtype is not first.dtype:
            return False
        is_same = other.shape == first.shape and is_contiguous and other.is_contiguous()
        if not is_same and (has_ties or not _fits(other.shape, first.shape)):
            return False
    return True


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    return tuple(accumulate(reversed(shape[1:]), mul, initial=1))[::-1]


def _is_dense(tensor: Any) -> bool:
    """Say whether a tensor's elements lie side by side, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if stride != expected:
            return False
        expected *= size
    return True


def _fits(shape: Sequence[int], into: Sequence[int]) -> bool:
    """Say whether a shape is broadcast to another."""
    pairs = zip(reversed(shape), reversed(into), strict=False)
    return len(shape) <= len(into) and all(size in (1, whole) for size, whole in pairs)
