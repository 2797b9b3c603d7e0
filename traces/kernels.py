"""What PyTorch's kernels give, where the formulas of fake tensors say otherwise or say nothing.

Needs torch, so only the modules of a capture import it. Found by comparing fake and real captures
(torch 2.13, CPU; ``tests/traces/test_fake_kernels.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

from .values import value_of

# Losses that make a number for each element, and reduce in place: the result keeps that memory.
_REDUCED_IN_PLACE = ("mse_loss", "smooth_l1_loss", "soft_margin_loss", "binary_cross_entropy")
# Where a norm's arguments are that may be more precise than its input: scale, shift, statistics.
_PRECISE = {
    "native_layer_norm": slice(2, 4),
    "native_group_norm": slice(1, 3),
    "native_batch_norm": slice(1, 5),
}


def amended(mode: Any, name: str, args: Any, output: Any) -> Any:
    """Return an operator's result as its kernel gives it.

    Parameters
    ----------
    mode : FakeTensorMode
    name : str
        Of the operator, without its namespace.
    args : sequence
    output : object
        What the formulas of fake tensors say.

    Returns
    -------
    object
    """
    change = _CHANGES.get(name)
    return output if change is None else change(mode, name, args, output)


def answered(mode: Any, name: str, func: Any, args: Any) -> Any:
    """Return the result of an operator that fake tensors have no formula for, or None.

    Those here need small values (lengths), and have an answer if these are known.
    """
    answer = _ANSWERS.get(name)
    return None if answer is None else answer(mode, func, args)


def _fake(mode: Any, like: Any, shape: Any, dtype: Any = None) -> Any:
    """Make a fake tensor without a call that a mode would see."""
    with no_dispatch():
        described = torch.empty(shape, dtype=dtype or like.dtype, device="meta")
    return FakeTensor(mode, described, like.fake_device)


def _grow(tensor: Any, n_bytes: int) -> None:
    """Let a result have the memory that its kernel took before it knew the size."""
    storage = tensor.untyped_storage()
    if storage.nbytes() < n_bytes:
        storage.resize_(n_bytes)


def _reduced_in_place(_: Any, __: str, args: Any, output: Any) -> Any:
    if output.dim() == 0:
        shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
        _grow(output, math.prod(shape) * output.element_size())
    return output


def _image_of_columns(_: Any, __: str, args: Any, output: Any) -> Any:
    """``col2im`` begins with as much memory as the columns have."""
    _grow(output, args[0].numel() * args[0].element_size())
    return output


def _bags(_: Any, __: str, ___: Any, output: Any) -> Any:
    """``_embedding_bag`` counts into one place more than there are indices."""
    places = output[1]
    if places.numel():
        _grow(places, (places.numel() + 1) * places.element_size())
    return output


def _norm(mode: Any, name: str, args: Any, output: Any) -> Any:
    """Let a norm keep statistics as precise as its scale (autocast: float32, of half precision)."""
    result, *statistics = output
    others = [arg.dtype for arg in args[_PRECISE[name]] if arg is not None]
    if not others or others[0] == result.dtype:
        return output
    return (result, *(_fake(mode, s, s.shape, others[0]) for s in statistics))


def _group_norm_backward(mode: Any, _: str, args: Any, output: Any) -> Any:
    """Let the gradient of the input have the input's dtype."""
    gradient, *others = output
    if gradient is None or gradient.dtype == args[1].dtype:
        return output
    return (_fake(mode, gradient, gradient.shape, args[1].dtype), *others)


def _packed(mode: Any, func: Any, args: Any) -> Any:
    """Pack sequences of known lengths; how many there are at each place is real, for C++ reads it.

    Where lengths are not known there is no answer.
    """
    sequences, lengths, is_batch_first = args
    lengths = value_of(lengths)
    if not isinstance(lengths, torch.Tensor):
        return None
    with no_dispatch():
        one_wide = torch.empty((*sequences.shape[:2], 1))
        rows, sizes = func(one_wide, lengths, is_batch_first)
    return _fake(mode, sequences, (rows.shape[0], *sequences.shape[2:])), sizes


def _ctc(mode: Any, _: Any, args: Any) -> Any:
    """Connectionist temporal classification: a loss a sequence, and sums for its gradient."""
    log_probabilities, lengths = args[0], args[3]
    if isinstance(lengths, torch.Tensor):
        lengths = value_of(lengths)
        if not isinstance(lengths, torch.Tensor):
            return None
        with no_dispatch():
            lengths = lengths.tolist()
    places, sequences = log_probabilities.shape[:2]
    sums = (sequences, places, 2 * max(lengths) + 1)
    return tuple(_fake(mode, log_probabilities, shape) for shape in ((sequences,), sums))


def _ctc_backward(mode: Any, _: Any, args: Any) -> Any:
    return _fake(mode, args[1], args[1].shape)


_CHANGES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_REDUCED_IN_PLACE, _reduced_in_place),
    **dict.fromkeys(_PRECISE, _norm),
    "native_group_norm_backward": _group_norm_backward,
    "col2im": _image_of_columns,
    "_embedding_bag": _bags,
}
_ANSWERS: dict[str, Callable[..., Any]] = {
    "_pack_padded_sequence": _packed,
    "_ctc_loss": _ctc,
    "_ctc_loss_backward": _ctc_backward,
}
NEED_LENGTHS = tuple(_ANSWERS)
