"""Results described without PyTorch are those that PyTorch's kernels give."""

from __future__ import annotations

from itertools import product

import pytest

torch = pytest.importorskip("torch")

from rematsim.traces.fake_results import LIKE_FIRST, LISTS_LIKE_FIRST, like_first  # noqa: E402
from rematsim.traces.guarding import fake_tensors  # noqa: E402

SHAPES = ((4, 5), (1, 5), (4, 1), (2, 3, 4, 5), (2, 1, 4, 5), (3, 0), ())
LAYOUTS = {
    "as made": lambda t: t,
    "transposed": lambda t: t.transpose(0, -1) if t.dim() else t,
    "last channels": lambda t: t.to(memory_format=torch.channels_last) if t.dim() == 4 else t,
    "a part": lambda t: t[..., :3] if t.dim() else t,
    "expanded": lambda t: t[:1].expand(t.shape) if t.dim() and t.numel() else t,
    "odd strides": lambda t: torch.as_strided(t, (1, *t.shape), (99, *t.stride())),
}
OPERANDS = {
    "number": lambda t: 2.5,
    "like it": lambda t: torch.ones_like(t),
    "contiguous": lambda t: torch.ones(t.shape),
    "a row": lambda t: torch.ones(t.shape[-1:]),
    "a column": lambda t: torch.ones((*t.shape[:-1], 1) if t.dim() else ()),
    "one more dimension": lambda t: torch.ones((2, *t.shape)),
    "precise": lambda t: torch.ones(t.shape, dtype=torch.float64),
}
TWO = {"add", "div", "mul", "sub", "pow"}
GRADIENTS = {"sigmoid_backward", "silu_backward", "tanh_backward"}


def described(tensor):
    """Say all that a trace knows of a tensor."""
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.untyped_storage().nbytes()


def cases(name):
    """Give the arguments of an operator, for every layout of the first."""
    for shape, layout in product(SHAPES, LAYOUTS):
        first = LAYOUTS[layout](torch.ones(shape))
        if name in TWO:
            yield from ((first, make(first)) for make in OPERANDS.values())
        elif name in GRADIENTS:
            yield from (
                (first, other) for other in (torch.ones_like(first), torch.ones(first.shape))
            )
        else:
            yield (first,)


@pytest.mark.parametrize("name", sorted(LIKE_FIRST))
def test_what_is_answered_is_what_the_kernel_gives(name):
    """Shape, strides, dtype and bytes are the kernel's, whatever the layout of the arguments."""
    function = getattr(torch.ops.aten, name)
    options = {"dtype": torch.bfloat16} if name == "_to_copy" else {}
    real = [described(function(*args, **options)) for args in cases(name)]
    with fake_tensors("cpu") as mode:
        answers = [like_first(mode, args, options) for args in cases(name)]
        given = [(answer, k) for k, answer in enumerate(answers) if answer is not None]
        assert [described(answer) for answer, _ in given] == [real[k] for _, k in given]
    assert len(given) > len(real) / 4


def test_there_is_no_answer_where_options_matter():
    """What is written elsewhere, to another device or in another order is left to PyTorch."""
    with fake_tensors("cpu") as mode:
        x = torch.ones(4, 5)
        for options in (
            {"out": torch.ones(4, 5)},
            {"memory_format": torch.contiguous_format},
            {"device": "meta"},
            {"alpha": 2},
        ):
            assert like_first(mode, (x, x), options) is None


def lists_of(name):
    """Run an operator over lists; say what it returns and what its first list is afterwards."""
    first = [torch.ones(2, 3), torch.ones(4, 1), torch.ones(3, 2).t()]
    ones = [torch.ones_like(t) for t in first]
    base = name.removeprefix("_foreach_").removesuffix("_")
    rest = {
        "addcdiv": (ones, ones, [1.0, 2.0, 3.0]),
        "addcmul": (ones, ones, 0.5),
        "lerp": (ones, 0.5),
        **dict.fromkeys(("exp", "neg", "sqrt"), ()),
    }.get(base, (2.0,))
    returned = getattr(torch.ops.aten, name)(first, *rest)
    return returned and [described(t) for t in returned], [described(t) for t in first]


@pytest.mark.parametrize("name", sorted(LISTS_LIKE_FIRST))
def test_fake_lists_are_described_as_real_ones(name):
    """An operator over lists returns what the real one does, in place nothing."""
    real = lists_of(name)
    with fake_tensors("cpu"):
        fake = lists_of(name)
    assert fake == real
