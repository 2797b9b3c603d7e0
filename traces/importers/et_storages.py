"""Which storages the operators of a profile work on: ids are told apart, lives are followed.

A profile's storage ids are used again for later storages. An output whose storage is among the
operator's inputs is a view of it or that storage updated; any other output begins a new storage,
whatever its id was before. What is first seen as an input is a constant.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Struct

from .et_nodes import Tensor
from .et_operators import Operator, Run
from .et_schemas import RESHAPERS

END = 1 << 62  # after the last operator
UNDATED = -2  # not known yet
BEFORE = -1  # before the first operator


class Storage(Struct, eq=False):
    """One storage, from its birth to its death.

    Attributes
    ----------
    number : int
        Its place among all.
    size_bytes : int
    device, kind : str
    born : int
        The operator that made it; BEFORE for constants.
    last_use : int
        The last operator that it takes part in.
    ended : int
        The operator at which its id is another's, or END.
    freed : int
        The operator after which it is freed, END if it is not; UNDATED until that is known.
    is_gradient : bool
        Whether it has been accumulated into a parameter.
    root : Value
        The value that stands for all of it.
    """

    number: int
    size_bytes: int
    device: str
    kind: str
    born: int
    last_use: int = BEFORE
    ended: int = END
    freed: int = UNDATED
    is_gradient: bool = False
    root: Value = None  # type: ignore[assignment]  # given at once: each names the other
    values: dict[int, Value] = {}  # by the ids of their tensors


class Value(Struct, eq=False):
    """A tensor in a storage: what gets a name in the trace."""

    storage: Storage
    kind: str
    last_use: int
    name: str = ""


class Step(Struct, eq=False):
    """One operator on its storages.

    Attributes
    ----------
    operator : Operator
    args : list of Value
    results : list of (Value, int)
        With the alias of ``Trace.result_alias``.
    written : list of int
        Positions in ``args``.
    """

    operator: Operator
    args: list[Value]
    results: list[tuple[Value, int]]
    written: list[int]

    def births(self) -> list[Storage]:
        """Give the storages that it makes."""
        return [value.storage for value, alias in self.results if alias == -1]


@dataclass(slots=True)
class Lives:
    """Operators on storages.

    Attributes
    ----------
    steps : list of Step
        A storage's ``born``, ``last_use`` and so on are positions here.
    storages : list of Storage
    device : str
        The one whose memory is meant: that with most bytes.
    dropped : Counter
        What was left out, and how often.
    """

    steps: list[Step]
    storages: list[Storage]
    device: str
    dropped: Counter[str]


def follow(run: Run) -> Lives:
    """Tell storages apart and follow their lives.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Lives
        Whose storages are not dated yet (``date_releases``).
    """
    follower = _Follower()
    gradients = iter(run.gradients)
    gradient = next(gradients, None)
    for operator in run.operators:
        while gradient is not None and gradient[0] < operator.node:
            follower.mark_gradient(gradient[1])
            gradient = next(gradients, None)
        follower.take(operator)
    while gradient is not None:
        follower.mark_gradient(gradient[1])
        gradient = next(gradients, None)
    device = _main_device(follower.storages)
    return Lives(follower.steps, follower.storages, device, follower.dropped)


def _main_device(storages: Iterable[Storage]) -> str:
    """Give the device that holds most."""
    sizes: Counter[str] = Counter()
    for storage in storages:
        sizes[storage.device] += storage.size_bytes
    accelerators = {name: size for name, size in sizes.items() if name not in ("cpu", "", "meta")}
    best = max((accelerators or sizes).items(), key=lambda item: item[1], default=("cpu", 0))
    return best[0]


class _Follower:
    """Takes operators in order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.storages: list[Storage] = []
        self.dropped: Counter[str] = Counter()
        self._live: dict[int, Storage] = {}

    def mark_gradient(self, storage: int) -> None:
        """Note that a storage belongs to a parameter from now on."""
        if storage in self._live:
            self._live[storage].is_gradient = True

    def take(self, operator: Operator) -> None:
        """Take an operator, unless it does nothing to memory."""
        here = len(self.steps)
        args, places = self._operands(operator, here)
        is_reshaper = operator.name in RESHAPERS
        written = [] if is_reshaper else _first_places(operator, places)
        updated = {args[place].storage for place in written}
        results = self._results(operator, args, updated, here)
        if not results and not written:
            self._drop(operator, is_reshaper)
            return
        for value in (*args, *(value for value, _ in results)):
            value.last_use = value.storage.last_use = here
        self.steps.append(Step(operator, args, results, written))

    def _drop(self, operator: Operator, is_reshaper: bool) -> None:
        """Count what is left out."""
        if not any(tensor.storage for tensor in operator.outputs):
            self.dropped["operators without tensor results"] += 1
        elif is_reshaper:
            self.dropped["operators that change only strides or size"] += 1
        else:
            self.dropped["operators that return what they are given"] += 1

    def _operands(self, operator: Operator, here: int) -> tuple[list[Value], list[int]]:
        """Give the values that an operator reads, each with the position of its argument."""
        args, places = [], []
        for tensor in operator.inputs:
            if not tensor.storage:
                continue
            storage = self._live.get(tensor.storage)
            if storage is None or _is_foreign(tensor, storage):
                storage = self._begin(tensor, BEFORE, here)
            value = storage.values.get(tensor.tensor, storage.root)
            if storage.born == BEFORE and value is storage.root:
                storage.size_bytes = max(storage.size_bytes, tensor.end_bytes)
            args.append(value)
            places.append(tensor.argument)
        return args, places

    def _results(
        self, operator: Operator, args: list[Value], updated: set[Storage], here: int
    ) -> list[tuple[Value, int]]:
        """Give the values that an operator makes."""
        first = {value.storage: place for place, value in reversed(list(enumerate(args)))}
        results: list[tuple[Value, int]] = []
        own: dict[int, int] = {}  # storage id -> the result that made it
        for tensor in operator.outputs:
            if not tensor.storage:
                continue
            storage = self._live.get(tensor.storage)
            if storage is not None and storage in first:
                if tensor.tensor in storage.values or storage in updated:
                    storage.values.setdefault(tensor.tensor, storage.root)
                    if operator.name in RESHAPERS:
                        storage.size_bytes = max(storage.size_bytes, tensor.end_bytes)
                    continue
                results.append((_value(storage, tensor, here), first[storage]))
            elif tensor.storage in own:
                made = self._live[tensor.storage]
                if tensor.tensor not in made.values:
                    results.append((_value(made, tensor, here), -own[tensor.storage] - 2))
            else:
                own[tensor.storage] = len(results)
                results.append((self._begin(tensor, here, here).root, -1))
        return results

    def _begin(self, tensor: Tensor, born: int, here: int) -> Storage:
        """Begin a storage; one that had its id before is gone by now."""
        before = self._live.get(tensor.storage)
        if before is not None:
            before.ended = here
        storage = Storage(
            len(self.storages), tensor.end_bytes, tensor.device, tensor.kind, born, max(born, 0)
        )
        storage.root = _value(storage, tensor, born)
        self._live[tensor.storage] = storage
        self.storages.append(storage)
        return storage


def _is_foreign(tensor: Tensor, storage: Storage) -> bool:
    """Say whether an operand cannot be in the storage that last had its storage's id.

    Numbers that Python hands to an operator are tensors of one element whose ids were others'.
    """
    if tensor.device != storage.device:
        return True
    is_number = tensor.shape == [] and tensor.tensor not in storage.values
    return is_number and tensor.end_bytes != storage.size_bytes


def _value(storage: Storage, tensor: Tensor, here: int) -> Value:
    """Make a value, known by the tensor's id from now on."""
    value = Value(storage, tensor.kind, here)
    storage.values[tensor.tensor] = value
    return value


def _first_places(operator: Operator, places: list[int]) -> list[int]:
    """Give the positions of the operands that an operator writes."""
    if not operator.written:
        return []
    return [k for k, argument in enumerate(places) if argument in operator.written]


def date_releases(lives: Lives, run: Run) -> Counter[str]:
    """Date the releases that nothing has dated yet.

    Parameters
    ----------
    lives : Lives
        Whose storages get a date.
    run : Run

    Returns
    -------
    Counter
        How many were dated in each way.

    Notes
    -----
    A profile without memory events says no release. A storage is taken to be freed after its last
    use; a gradient, when the optimizer drops gradients after that, or never; a constant, never,
    unless its id is used again: then, too, after its last use.
    """
    inferred: Counter[str] = Counter()
    drops = _drops(lives.steps, run.zeroed)
    for storage in lives.storages:
        if storage.freed != UNDATED:
            continue
        if storage.born == BEFORE and storage.ended == END:
            storage.freed = END
        elif storage.is_gradient:
            later = bisect_left(drops, storage.last_use)
            storage.freed = min(drops[later] if later < len(drops) else END, storage.ended)
            inferred["releases of gradients"] += storage.freed != END
            inferred["gradients held to the end"] += storage.freed == END
        else:
            storage.freed = storage.last_use
            inferred["releases after last use"] += 1
        if storage.freed == storage.ended and storage.ended != END:
            storage.freed = max(storage.ended - 1, storage.last_use)
    return inferred


def _drops(steps: list[Step], zeroed: list[int]) -> list[int]:
    """Give the last operator before each point at which gradients are dropped."""
    drops, place = [], 0
    for node in zeroed:
        while place < len(steps) and steps[place].operator.node < node:
            place += 1
        drops.append(place - 1)
    return drops
