"""What operators do: arithmetic and traffic of ATen's operators, from the kinds of their tensors.

Operators that it does not know are taken to be elementwise. It knows no machine: ``costs.py``
makes times of this.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .costs import TensorKind

    Kinds = Sequence[TensorKind]
    Work = Callable[[Kinds, Kinds], float]

VECTOR = "vector"
TRANSCENDENTAL_FLOPS = 16  # of an exponential and the like, an element
LONGEST_TABLE = 4  # a gather reads at most this many times what it writes


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


VIEWS = _set("""alias as_strided detach diagonal expand expand_as permute select slice split
    split_with_sizes squeeze t transpose unbind unfold unsqueeze view view_as _reshape_alias
    _unsafe_view view_as_real view_as_complex chunk narrow lift_fresh _conj _neg_view
    unsafe_split unsafe_chunk swapaxes movedim real imag squeeze_ unsqueeze_ t_ transpose_
    detach_ as_strided_ empty empty_like empty_strided new_empty new_empty_strided
    resize_ resize_storage_ set_ sym_size sym_numel sym_stride sym_storage_offset is_same_size""")
FACTORIES = _set("zeros ones full arange rand randn randint randperm scalar_tensor")
WRITES_ONLY = _set(
    "zero_ fill_ normal_ uniform_ bernoulli_ random_ exponential_ ones_like zeros_like full_like "
    "rand_like randn_like new_zeros new_ones new_full"
)
GATHERS = _set("embedding index index_select gather take take_along_dim")
TRANSCENDENTALS = _set("""exp exp2 expm1 log log1p log2 sin cos tan tanh sigmoid gelu silu pow
    softplus erf gelu_backward silu_backward mish elu selu _softmax _log_softmax logsumexp
    native_dropout bernoulli_ normal_ uniform_ randn rand _thnn_fused_lstm_cell hardswish""")
# Passes over the operands beyond the first: statistics first, values then.
TWO_PASSES = _set("""native_batch_norm cudnn_batch_norm miopen_batch_norm _batch_norm_with_update
    _native_batch_norm_legit native_batch_norm_backward cudnn_batch_norm_backward
    batch_norm_backward native_group_norm native_group_norm_backward""")


def base_name(operator: str) -> str:
    """Return an operator's name without namespace ATen and without overload.

    Examples
    --------
    >>> base_name("aten::add.Tensor"), base_name("aten.mm.default"), base_name("c10d::send")
    ('add', 'mm', 'c10d.send')
    """
    name = operator.replace("::", ".")
    if name.startswith("aten."):
        return name.split(".")[1]
    head, _, rest = name.partition(".")
    return f"{head}.{rest.split('.')[0]}" if "::" in operator else head


def is_view(name: str) -> bool:
    """Say whether an operator only makes or changes the description of a tensor."""
    return name in VIEWS


def traffic_bytes(name: str, operands: Kinds, results: Kinds) -> int:
    """Return the bytes that an operator moves between chip and memory.

    Parameters
    ----------
    name : str
        As ``base_name`` gives it.
    operands, results : sequence of TensorKind
        An operator in place (``add_``) may have none; its first operand is written then.

    Returns
    -------
    int
    """
    is_inplace = name.endswith("_") and not name.endswith("__")
    written = sum(kind.nbytes() for kind in results)
    if is_inplace and not results:
        written = operands[0].nbytes() if operands else 0
    if name in WRITES_ONLY or name in FACTORIES:
        return written
    if name == "copy_":
        return written + sum(kind.nbytes() for kind in operands[1:2])
    if name in GATHERS:
        read = sum(kind.nbytes() for kind in operands)
        return written + min(read, LONGEST_TABLE * written)
    if name.startswith("embedding_dense_backward") or name == "embedding_backward":
        return 2 * written
    passes = 2 if name in TWO_PASSES else 1
    return written + passes * sum(kind.nbytes() for kind in operands)


def work(name: str, operands: Kinds, results: Kinds) -> tuple[float, str]:
    """Return the arithmetic of an operator and the unit that does it.

    Parameters
    ----------
    name : str
        As ``base_name`` gives it.
    operands, results : sequence of TensorKind

    Returns
    -------
    flops : float
        A multiplication and an addition are two.
    unit : str
        A dtype whose matrix products do it, ``tf32``, or ``vector``.
    """
    if name in PRODUCTS:
        with contextlib.suppress(IndexError, ValueError):  # operands that a source leaves out
            flops = PRODUCTS[name](operands, results)
            is_tf32 = operands[0].dtype == "float32" and "conv" in name
            return flops, "tf32" if is_tf32 else operands[0].dtype
    largest = max((kind.numel for kind in (*operands, *results)), default=0)
    return float(largest * (TRANSCENDENTAL_FLOPS if name in TRANSCENDENTALS else 1)), VECTOR


def _matrix(first: int) -> Work:
    """Count a product of the operands ``first`` and ``first + 1``, batched or not."""

    def count(operands: Kinds, _: Kinds) -> float:
        a, b = operands[first], operands[first + 1]
        columns = b.shape[-1] if len(b.shape) > 1 else 1
        return 2.0 * a.numel * columns

    return count


def _linear(operands: Kinds, _: Kinds) -> float:
    """Count x W^T: the weight has its outputs first."""
    x, weight = operands[:2]
    return 2.0 * x.numel * (weight.shape[0] if len(weight.shape) > 1 else 1)


def _outer(operands: Kinds, results: Kinds) -> float:
    return 2.0 * max(kind.numel for kind in (*operands, *results))


def _convolution(operands: Kinds, results: Kinds) -> float:
    """Count a convolution: input, weight; results: output."""
    return _convolution_flops(operands[0], operands[1], results[0])


def _convolution_flops(x: TensorKind, weight: TensorKind, out: TensorKind) -> float:
    """Count one pass; each weight meets each place of the smaller image (that of the output).

    A transposed convolution has its weight's inputs first and meets each place of its input.
    """
    if len(weight.shape) < 3 or len(x.shape) != len(out.shape):
        return 0.0
    is_larger = out.shape[-1] > x.shape[-1] + weight.shape[-1]
    if is_larger or (out.shape[-1] > x.shape[-1] and out.shape[1] != weight.shape[0]):
        return 2.0 * x.numel * weight.numel / max(weight.shape[0], 1)
    return 2.0 * out.numel * weight.numel / max(weight.shape[0], 1)


def _convolution_backward(operands: Kinds, results: Kinds) -> float:
    """Count one pass for each gradient: grad_output, input, weight; the bias costs no product."""
    grad, x, weight = operands[:3]
    n_gradients = sum(len(kind.shape) == len(weight.shape) for kind in results)
    return n_gradients * _convolution_flops(x, weight, grad)


def _attention(first: int, passes: float) -> Work:
    """Count both products of attention; query, key and value begin at operand ``first``.

    The shapes are (batch, heads, length, width). Backward makes five products where forward
    makes two. Whether the attention is causal cannot be seen, so all of it is counted.
    """

    def count(operands: Kinds, _: Kinds) -> float:
        query, key, value = operands[first : first + 3]
        if len(query.shape) < 3:
            return 0.0
        rows = query.numel // max(query.shape[-1], 1)
        width = query.shape[-1] + value.shape[-1]
        return passes * 2.0 * rows * key.shape[-2] * width

    return count


def _recurrent(operands: Kinds, _: Kinds) -> float:
    """Count a whole recurrent layer: every weight meets every step of every sequence."""
    x = operands[0]
    steps = x.numel // max(x.shape[-1], 1) if x.shape else 0
    return 2.0 * steps * sum(k.numel for k in operands[1:] if len(k.shape) == 2)


def _twice(count: Work) -> Work:
    return lambda operands, results: 2 * count(operands, results)


def _each(names: str, count: Work) -> dict[str, Work]:
    return dict.fromkeys(names.split(), count)


PRODUCTS: dict[str, Work] = {
    **_each("mm bmm mv matmul dot vdot _int_mm _scaled_mm _grouped_mm", _matrix(0)),
    **_each("addmm addmm_ baddbmm baddbmm_ addmv addmv_ addbmm _addmm_activation", _matrix(1)),
    **_each("linear mkldnn_linear _mkldnn_linear", _linear),
    **_each("outer ger addr addr_", _outer),
    **_each(
        """convolution _convolution convolution_overrideable cudnn_convolution mkldnn_convolution
        conv1d conv2d conv3d cudnn_convolution_transpose miopen_convolution thnn_conv2d
        _slow_conv2d_forward conv_transpose1d conv_transpose2d conv_transpose3d
        _conv_depthwise2d conv_depthwise3d cudnn_convolution_relu""",
        _convolution,
    ),
    **_each(
        """convolution_backward convolution_backward_overrideable cudnn_convolution_backward
        mkldnn_convolution_backward _slow_conv2d_backward""",
        _convolution_backward,
    ),
    **_each(
        """_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
        scaled_dot_product_attention _scaled_dot_product_attention_math""",
        _attention(0, 1.0),
    ),
    **_each(
        """_scaled_dot_product_flash_attention_backward
        _scaled_dot_product_flash_attention_for_cpu_backward
        _scaled_dot_product_efficient_attention_backward
        _scaled_dot_product_cudnn_attention_backward""",
        _attention(1, 2.5),
    ),
    **_each("_cudnn_rnn mkldnn_rnn_layer lstm gru rnn_tanh rnn_relu", _recurrent),
    **_each("_cudnn_rnn_backward mkldnn_rnn_layer_backward", _twice(_recurrent)),
}
