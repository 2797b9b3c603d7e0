"""What an operator's name and schema say: what it writes, and what kind of operator it is.

The tables hold what schemas do not say. Shared by the readers of profiles; needs no torch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...opcodes import TAG_COLLECTIVE, TAG_DATA_DEPENDENT, TAG_RANDOM


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Make a storage and leave its content to others.
FACTORIES = _set(
    "aten::empty aten::empty_like aten::empty_strided aten::empty_permuted aten::new_empty "
    "aten::new_empty_strided aten::empty_quantized aten::_empty_affine_quantized"
)
# Change size or strides of a tensor that is there, not its content.
RESHAPERS = _set(
    "aten::resize_ aten::resize_as_ aten::as_strided_ aten::set_ aten::squeeze_ aten::unsqueeze_ "
    "aten::transpose_ aten::t_ aten::detach_ aten::_resize_output_ aten::resize_output"
)
# Fill a storage just made: with it, the operator that the user called.
FILLERS = _set(
    "aten::fill_ aten::zero_ aten::copy_ aten::uniform_ aten::normal_ aten::random_ "
    "aten::bernoulli_ aten::exponential_ aten::_copy_from"
)


class Hidden(NamedTuple):
    """Positions of arguments that an operator writes to without saying so.

    ``training``: the argument that says whether it does; None if it always does.
    """

    written: frozenset[int]
    training: int | None = None

    def of_call(self, values: Sequence[Any]) -> frozenset[int]:
        """Give those that a call with these arguments writes to."""
        at = self.training
        return self.written if at is None or any(values[at : at + 1]) else frozenset()


_IN_TRAINING = Hidden(frozenset((3, 4)), training=5)
# Of batch norms; those of synchronized ones have no argument that says whether they train.
RUNNING_STATISTICS = {
    "aten::native_batch_norm": _IN_TRAINING,
    "aten::cudnn_batch_norm": _IN_TRAINING,
    "aten::miopen_batch_norm": _IN_TRAINING,
    "aten::batch_norm_gather_stats": Hidden(frozenset((3, 4))),
    "aten::batch_norm_gather_stats_with_counts": Hidden(frozenset((3, 4))),
    "aten::batch_norm_update_stats": Hidden(frozenset((1, 2))),
}

_RANDOM = _set(
    "aten::native_dropout aten::_fused_dropout aten::dropout aten::bernoulli aten::bernoulli_ "
    "aten::rand aten::rand_like aten::randn aten::randn_like aten::randint aten::randint_like "
    "aten::randperm aten::uniform_ aten::normal_ aten::normal aten::random_ aten::exponential_ "
    "aten::multinomial aten::rrelu_with_noise aten::rrelu_with_noise_ aten::geometric_ "
    "aten::cauchy_ aten::log_normal_ aten::poisson aten::binomial "
    "aten::_scaled_dot_product_flash_attention aten::_scaled_dot_product_efficient_attention "
    "aten::_scaled_dot_product_cudnn_attention aten::_flash_attention_forward "
    "aten::_efficient_attention_forward aten::_cudnn_rnn"
)
_DATA_DEPENDENT = _set(
    "aten::nonzero aten::unique_dim aten::_unique aten::_unique2 aten::unique_consecutive "
    "aten::masked_select aten::repeat_interleave aten::bincount aten::_local_scalar_dense "
    "aten::nonzero_static aten::argwhere"
)
_COLLECTIVE = ("c10d::", "_c10d_functional::", "c10d_functional::", "nccl:", "gloo:", "mpi:")


class Schema(NamedTuple):
    """What a schema says.

    Attributes
    ----------
    operator : str
        Name and overload: ``aten::add.Tensor``.
    written : frozenset of int
        Positions of the arguments that are written.
    """

    operator: str
    written: frozenset[int]


@functools.lru_cache(maxsize=4096)
def parse_schema(text: str) -> Schema:
    """Read a schema.

    >>> parse_schema("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> x")
    Schema(operator='aten::add_.Tensor', written=frozenset({0}))
    """
    operator, _, rest = text.partition("(")
    arguments = _split(rest.partition(" -> ")[0])
    written = {place for place, argument in enumerate(arguments) if "!" in argument}
    return Schema(operator.strip(), frozenset(written))


def _split(text: str) -> list[str]:
    """Split at commas outside brackets; a star alone is no argument."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip() != "*"]


@functools.lru_cache(maxsize=4096)
def tags_of(name: str) -> int:
    """Give the tags of an operator: random, collective, data-dependent.

    >>> tags_of("aten::native_dropout"), tags_of("aten::mm")
    (1, 0)
    """
    base = name.partition(".")[0]
    tags = TAG_RANDOM if base in _RANDOM else 0
    tags |= TAG_DATA_DEPENDENT if base in _DATA_DEPENDENT else 0
    return tags | (TAG_COLLECTIVE if base.startswith(_COLLECTIVE) else 0)
