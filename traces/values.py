"""What is known of fake tensors' values: small ones made from constants, and truths.

Needs torch, so only the modules of a capture import it. A real value stands beside the fake tensor
and is worked out along with it, so storages and operators stay those of the fake one. An update in
place ends what is known (one through ``.data`` is not noticed).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

from ..opcodes import TAG_RANDOM
from .schemas import Traits

LARGEST = 1024  # elements; larger ones are not worked out

# What makes tensors of no others, from numbers alone.
_FACTORIES = {"arange", "linspace", "logspace", "zeros", "ones", "full", "eye", "scalar_tensor"}
_UNSET = ("empty", "new_empty")

# What gives truths of two operands; where either is unknown, it counts as 1.
_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "mul": operator.and_,
    "logical_and": operator.and_,
    "bitwise_and": operator.and_,
    "logical_or": operator.or_,
    "bitwise_or": operator.or_,
    "logical_xor": operator.ne,
    "bitwise_xor": operator.ne,
}
_NEGATIONS = {"logical_not", "bitwise_not"}
# What leaves the truth of its first argument as it is.
_PASSES_ON = {
    "all",
    "any",
    "_to_copy",
    "clone",
    "detach",
    "alias",
    "view",
    "_unsafe_view",
    "t",
    "transpose",
    "permute",
    "slice",
    "select",
    "expand",
    "squeeze",
    "unsqueeze",
}


def value_of(tensor: Any) -> Any:
    """Return what is known of a tensor: its value, the truth that all of it is, or None."""
    if not isinstance(tensor, FakeTensor):
        return tensor if tensor.numel() <= LARGEST else None
    known = getattr(tensor, "known", None)
    if known is not None and not tensor.is_inference() and tensor._version == 0:
        return known
    return tensor.constant


def follow(func: Any, traits: Traits, args: Any, kwargs: Any, output: Any) -> None:
    """Note what is known of an operator's results, after it has run on fake tensors."""
    if traits.written or traits.tags & TAG_RANDOM:
        return
    first: Any = args[0] if args else None
    if (  # nearly all
        type(first) is FakeTensor
        and first.constant is None
        and "known" not in first.__dict__
        and getattr(output, "dtype", None) is not torch.bool
    ):
        return
    results = [output] if type(output) is FakeTensor else output
    if not isinstance(results, list | tuple):
        return
    if _is_worked_out(traits, args, results):
        _work_out(func, args, kwargs, results)
    elif results and getattr(results[0], "dtype", None) is torch.bool:
        results[0].known = _truth(traits.name, args)


def _is_worked_out(traits: Traits, args: Any, results: Any) -> bool:
    """Say whether an operator's results are small, and made of what is known."""
    tensors = list(_tensors(args))
    if not tensors and traits.name not in _FACTORIES:
        return False
    return (
        all(isinstance(value_of(tensor), torch.Tensor) for tensor in tensors)
        and all(type(r) is FakeTensor and r.numel() <= LARGEST for r in results)
        and all(result.fake_device.type == "cpu" for result in results)
        and not traits.name.startswith(_UNSET)
    )


def _tensors(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _work_out(func: Any, args: Any, kwargs: Any, results: Any) -> None:
    """Run an operator on what is known; one that fails on it leaves its results unknown."""
    with no_dispatch():
        try:
            real = func(*_known(args), **kwargs)
        except (RuntimeError, IndexError, TypeError, NotImplementedError):
            return
        values = [real] if isinstance(real, torch.Tensor) else real
        for result, value in zip(results, values, strict=True):
            result.known = value.clone()  # what it may be a view of can change


def _known(values: Any) -> list[Any]:
    """Return arguments with values in place of fake tensors."""
    return [
        value_of(value)
        if isinstance(value, torch.Tensor)
        else _known(value)
        if isinstance(value, list | tuple)
        else value
        for value in values
    ]


def _truth(name: str, args: Any) -> bool | None:
    """Return the truth that all elements of a result are, if every unknown value is 1."""
    if name in _OF_TWO:
        return bool(_OF_TWO[name](_assumed(args[0]), _assumed(args[1])))
    if name in _NEGATIONS:
        return not _assumed(args[0])
    return bool(_assumed(args[0])) if name in _PASSES_ON else None


def _assumed(value: Any) -> Any:
    """Return the number that a value is taken to be."""
    if not isinstance(value, torch.Tensor):
        return value
    known = value_of(value)
    if isinstance(known, torch.Tensor) and known.numel() == 1:
        with no_dispatch():
            return known.item()
    if isinstance(known, bool):
        return known
    return False if value.dtype is torch.bool else 1
