"""Read off an ATen operator's schema what a capture has to know of it.

Needs torch, so only the modules of a capture import it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from ..opcodes import TAG_COLLECTIVE, TAG_DATA_DEPENDENT, TAG_RANDOM
from .importers.et_schemas import RUNNING_STATISTICS
from .storages import dense_tensors

# Operators whose schema hides that they write to the running mean and variance.
HIDDEN_WRITES = {name.removeprefix("aten::"): hidden for name, hidden in RUNNING_STATISTICS.items()}
COLLECTIVES = ("c10d", "_c10d_functional", "_dtensor")


# What an operator is to a capture.
COMPUTES, ASKS, OPENS_REGION, CLOSES_REGION, HIGHER_ORDER = range(5)


@dataclass(frozen=True, slots=True)  # quicker to read than a tuple with names
class Traits:
    """What an operator's schema says, looked up once for each operator.

    Attributes
    ----------
    name : str
        With the namespace, unless that is ATen.
    written : frozenset of int or str
        Arguments that it writes to, by position or by keyword.
    returns_written : tuple of bool
        Which of its results are such arguments.
    returns_new : bool
        Whether none is.
    tags : int
        The tags in ``opcodes.py``.
    is_foreach, is_inplace_view : bool
        Whether it takes lists apart; whether it changes the description of a tensor alone.
    role : int
        ``COMPUTES``, or one of the others.
    is_plain : bool
        Whether it writes to nothing that it is given, and takes no lists apart.
    writes_first : bool
        Whether it is an ordinary one in place: it writes to its first argument alone, returns that
        alone, and changes neither size nor description of it.
    run : callable
        Runs it, without the step in Python that an operator of PyTorch begins with.
    """

    name: str
    written: frozenset[int | str]
    returns_written: tuple[bool, ...]
    returns_new: bool
    tags: int
    is_foreach: bool
    is_inplace_view: bool
    role: int
    is_plain: bool
    writes_first: bool
    run: Callable[..., Any]

    def outputs(self, output: Any, keeps_contents: bool) -> Sequence[torch.Tensor]:
        """Return the tensors that come out, but for those that went in to be written.

        Parameters
        ----------
        output : object
            What the operator returned.
        keeps_contents : bool
            Whether those that went in were described anew and not written.

        Returns
        -------
        sequence of torch.Tensor
        """
        is_written = self.returns_written
        if self.returns_new:
            return dense_tensors(output)
        if len(is_written) == 1:
            return dense_tensors(output) if keeps_contents or not is_written[0] else ()
        pairs = zip(output or (), is_written, strict=False)
        return dense_tensors([value for value, given in pairs if keeps_contents or not given])


traits_by_id: dict[int, Traits] = {}
_operators: list[Any] = []  # kept, so that no other gets their ids


def traits_of(func: Any) -> Traits:
    """Return what an operator's schema says; read it the first time."""
    traits = traits_by_id.get(id(func))
    if traits is None:
        traits = traits_by_id[id(func)] = _read(func)
        _operators.append(func)
    return traits


def _read(func: Any) -> Traits:
    """Read an operator's schema; one that takes functions (``torch.cond``) has none."""
    if isinstance(func, HigherOrderOperator):
        return _without_schema(func.__name__, HIGHER_ORDER, func)
    schema = func._schema
    namespace, name = schema.name.split("::")
    writes = [
        argument.name if argument.kwarg_only else position
        for position, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    is_native = namespace == "aten"
    label = name if is_native else f"{namespace}.{name}"
    is_inplace_view = torch.Tag.inplace_view in func.tags
    is_foreach = name.startswith(("_foreach_", "_fused_", "_amp_foreach_"))
    is_hiding = label in HIDDEN_WRITES or label in ("lift_fresh", "_efficientzerotensor")
    returns_written = tuple(
        value.alias_info is not None and value.alias_info.is_write for value in schema.returns
    )
    return Traits(
        name=label,
        written=frozenset(writes),
        returns_written=returns_written,
        returns_new=not any(returns_written),
        tags=(
            TAG_RANDOM * (torch.Tag.nondeterministic_seeded in func.tags)
            | TAG_DATA_DEPENDENT * (torch.Tag.data_dependent_output in func.tags)
            | TAG_COLLECTIVE * (namespace in COLLECTIVES)
        ),
        is_foreach=is_foreach,
        is_inplace_view=is_inplace_view,
        role=_role(namespace, name),
        is_plain=not (writes or is_foreach or is_hiding),
        writes_first=(
            is_native
            and writes == [0]
            and returns_written == (True,)
            and not (is_foreach or is_inplace_view or "resize" in name)
        ),
        run=func._op if type(func) is OpOverload else func,
    )


def _without_schema(
    name: str, role: int, run: Any, written: frozenset[int | str] = frozenset()
) -> Traits:
    """Return the traits of what is no operator of ATen's kind; it returns no tensor."""
    return Traits(name, written, (), True, 0, False, False, role, False, False, run)


STORAGE_RESIZE = _without_schema(
    "resize_storage_", COMPUTES, torch.UntypedStorage.resize_, frozenset({0})
)


def learn_maker(func: Any) -> None:
    """Treat a function that is no operator as a random one that makes a tensor."""
    if id(func) not in traits_by_id:
        traits_by_id[id(func)] = Traits(
            name=func.__name__,
            written=frozenset(),
            returns_written=(False,),
            returns_new=True,
            tags=TAG_RANDOM,
            is_foreach=False,
            is_inplace_view=False,
            role=COMPUTES,
            is_plain=True,
            writes_first=False,
            run=func,
        )
        _operators.append(func)


def _role(namespace: str, name: str) -> int:
    if namespace == "profiler":
        if name.startswith("_record_function_enter"):
            return OPENS_REGION
        return CLOSES_REGION if name.startswith("_record_function_exit") else ASKS
    return ASKS if namespace == "prim" else COMPUTES


def hidden_writes(traits: Traits, args: Any) -> list[int]:
    """Return which of its tensors a call in ``HIDDEN_WRITES`` writes to; only tensors precede."""
    places = sorted(HIDDEN_WRITES[traits.name].of_call(args))
    written = [place for place in places if args[place] is not None]
    return [sum(value is not None for value in args[:place]) for place in written]


def written_arguments(traits: Traits, args: Any) -> frozenset[int | str]:
    """Return the arguments that a call writes to, those that the schema hides included."""
    hidden = HIDDEN_WRITES.get(traits.name)
    return traits.written if hidden is None else traits.written | hidden.of_call(args)
