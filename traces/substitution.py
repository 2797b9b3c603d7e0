"""What a GPU would run instead: fused attention, dropout and batch norm, optimizers over lists.

PyTorch picks these by the device of a tensor. On fake tensors of the CPU they can be picked by
hand; without that, the peak of an attention model is wrong several times over. Needs torch, so
only the modules of a capture import it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

TARGETS = ("cpu", "cuda")

HALF = (torch.float16, torch.bfloat16)
FLASH_HEAD = 256  # the widest head that flash attention takes
SMALLEST_EPS = 1e-5  # cuDNN's own


class CudaOperators(TorchFunctionMode):  # type: ignore[misc]  # torch may be absent for types
    """Swap functions for the operators that CUDA would choose, where it would.

    A mode sees what a program calls; what ``torch.nn.functional`` calls in itself it does not see,
    so there the functions' names are bound anew.
    """

    def __enter__(self) -> CudaOperators:
        for function, swap in _SWAPS.items():
            setattr(functional, function.__name__, _choice(function, swap))
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        for function in _SWAPS:
            setattr(functional, function.__name__, function)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one function of PyTorch's Python side."""
        swap = _SWAPS.get(func)
        return (_choice(func, swap) if swap else func)(*args, **(kwargs or {}))


def _choice(function: Callable[..., Any], swap: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that swaps where it can, and else is the one that was there."""

    @functools.wraps(function)
    def choose(*args: Any, **kwargs: Any) -> Any:
        swapped = swap(*args, **kwargs)
        return function(*args, **kwargs) if swapped is NotImplemented else swapped

    return choose


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Any:
    """Choose flash attention for half precision without a mask, else the memory-efficient one."""
    scale, is_grouped = options.get("scale"), options.get("enable_gqa", False)
    if query.dim() != 4 or query.device.type != "cpu":
        return NotImplemented
    is_flash = attn_mask is None and query.dtype in HALF and query.shape[-1] <= FLASH_HEAD
    if is_flash:
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if is_grouped or query.dtype == torch.float64:
        return NotImplemented
    if attn_mask is not None:
        attn_mask = _bias(attn_mask, query, key)
    keeps_sums = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, keeps_sums, dropout_p, is_causal, scale=scale
    )[0]


def _flash(query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, scale: Any) -> Any:
    """Run flash attention; heads that are no multiple of 8 wide are padded, as CUDA does."""
    width = query.shape[-1]
    scale = width**-0.5 if scale is None else scale
    lacking = -width % 8
    if lacking:
        query, key, value = (functional.pad(t, (0, lacking)) for t in (query, key, value))
    out = torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, dropout_p, is_causal, False, scale=scale
    )[0]
    return out[..., :width] if lacking else out


def _bias(mask: Any, query: Any, key: Any) -> Any:
    """Make of a mask what the memory-efficient attention takes: numbers to add, of full shape."""
    if mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, float("-inf"))
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def _dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Choose the fused dropout, with a mask of one byte an element."""
    if not training or inplace or not 0 < p < 1 or x.numel() == 0:
        return NotImplemented
    return torch.native_dropout(x, p, True)[0]


def _batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    *numbers: float,
    **named: float,
) -> Any:
    """Choose cuDNN's batch norm under the conditions that PyTorch has for it."""
    momentum, eps = _momentum_and_eps(*numbers, **named)
    has_all = all(t is not None for t in (running_mean, running_var, weight, bias))
    if not training or not has_all or eps < SMALLEST_EPS or x.dim() < 3:
        return NotImplemented
    if x.dtype not in (torch.float32, torch.float16):
        return NotImplemented
    return torch.ops.aten.cudnn_batch_norm(
        x, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


def _momentum_and_eps(momentum: float = 0.1, eps: float = 1e-5) -> tuple[float, float]:
    return momentum, eps


_SWAPS: dict[Any, Callable[..., Any]] = {
    functional.scaled_dot_product_attention: _attention,
    functional.dropout: _dropout,
    functional.batch_norm: _batch_norm,
}


@contextmanager
def lists_in_optimizers() -> Iterator[None]:
    """Let optimizers update lists of tensors at once, where a program does not say how: as on CUDA.

    The choice is made at an optimizer's first step in the block.
    """

    def choose(optimizer: Any, *_: Any) -> None:
        for group in optimizer.param_groups:
            if "foreach" in group and group["foreach"] is None and not group.get("fused"):
                group["foreach"] = True

    hook = register_optimizer_step_pre_hook(choose)
    try:
        yield
    finally:
        hook.remove()
