"""Watch eager PyTorch at work: a dispatch mode that records operator calls and deaths of storages.

Needs torch (the extra ``capture``) and imports it at once, so nothing else imports this module
before it is asked to capture. What is recorded is in ``recording.py``; how a user starts it, in
``capturing.py``. Names of torch that are not public are taken here and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..opcodes import (
    PHASE_BACKWARD,
    PHASE_FORWARD,
    PHASE_OPTIMIZER,
    TAG_COLLECTIVE,
    TAG_DATA_DEPENDENT,
    TAG_RANDOM,
)
from .module_paths import ModulePaths
from .recording import (
    BackwardEntered,
    Constant,
    Death,
    Event,
    RecordedCall,
    Recording,
    View,
    split_by_tensor,
)
from .storages import StorageTable, constant_labels, dense_tensors

# Operators whose schema hides that they write to the running mean and variance when training.
_HIDDEN_WRITES = dict.fromkeys(
    ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), frozenset({3, 4})
)
_TRAINING_ARGUMENT = 5

_NO_NODE = 2**63  # numbers above belong to nodes without a forward call, such as AccumulateGrad

_graph_task: Callable[[], int] = torch._C._current_graph_task_id
_next_node: Callable[[], int] = torch._C._autograd._get_sequence_nr
_running_node: Callable[[], Any] = torch._C._current_autograd_node


class Traits(NamedTuple):
    """What an operator's schema says, looked up once for each operator."""

    name: str
    written: frozenset[int | str]
    returns_written: tuple[bool, ...]
    tags: int
    is_foreach: bool
    is_inplace_view: bool


@cache
def traits_of(func: Any) -> Traits:
    """Read an operator's schema."""
    schema = func._schema
    namespace, name = schema.name.split("::")
    writes = [
        argument.name if argument.kwarg_only else position
        for position, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return Traits(
        name=name if namespace == "aten" else f"{namespace}.{name}",
        written=frozenset(writes),
        returns_written=tuple(
            value.alias_info is not None and value.alias_info.is_write for value in schema.returns
        ),
        tags=(
            TAG_RANDOM * (torch.Tag.nondeterministic_seeded in func.tags)
            | TAG_DATA_DEPENDENT * (torch.Tag.data_dependent_output in func.tags)
            | TAG_COLLECTIVE * (namespace in ("c10d", "_c10d_functional"))
        ),
        is_foreach=name.startswith("_foreach_"),
        is_inplace_view=torch.Tag.inplace_view in func.tags,
    )


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch may be absent when types are checked
    """Record every operator below autograd: forward, backward and optimizer.

    Recording never raises into the program: an exception in a dispatch that C++ began may end the
    process. The first failure is kept in ``failure`` and recording stops.
    """

    def __init__(self, model: Any = None, optimizer: Any = None) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self._events: list[Event] = []
        self._constants: dict[int, Constant] = {}
        self._storages = StorageTable()
        self._labels = constant_labels(model, optimizer)
        self._modules = ModulePaths(model)
        self._regions: list[bool] = []
        self._in_backward = False

    def __enter__(self) -> Recorder:
        self._modules.open()
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._modules.close()
        self._flush_deaths()
        self._storages.close()

    def recording(self) -> Recording:
        """Return what has been recorded."""
        return Recording(dict(sorted(self._constants.items())), tuple(self._events))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator; record it if it is one that computes."""
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)
        if func.namespace == "profiler":
            return self._profiler_region(func, args, kwargs)
        call = self._guarded(self._begin, func, args, kwargs)
        start = time.perf_counter_ns()
        output = func(*args, **kwargs)
        elapsed = time.perf_counter_ns() - start
        if call is not None:
            self._guarded(self._end, call, output, elapsed)
        return output

    def _guarded(self, step: Callable[..., Any], *values: Any) -> Any:
        """Run a step of the recording; keep an exception for later."""
        if self.failure is not None:
            return None
        try:
            return step(*values)
        except Exception as failure:
            self.failure = failure
            return None

    def _profiler_region(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Follow the profiler's regions; ``Optimizer.step`` runs in one of its own."""
        if func._schema.name.endswith("_record_function_enter_new"):
            self._regions.append(str(args[0]).startswith("Optimizer.step"))
        elif func._schema.name.endswith("_record_function_exit") and self._regions:
            self._regions.pop()
        return func(*args, **kwargs)

    def _flush_deaths(self) -> None:
        """Move the deaths since the last call into the record."""
        dead, self._storages.dead = self._storages.dead, []
        self._events.extend(map(Death, dead))

    def _begin(self, func: Any, args: Any, kwargs: Any) -> _OpenCall:
        """Note an operator's arguments before it runs; unknown storages were there before."""
        self._flush_deaths()
        traits = traits_of(func)
        in_backward = _graph_task() != -1
        if in_backward and not self._in_backward:
            self._events.append(BackwardEntered())
        self._in_backward = in_backward
        node = _autograd_node(in_backward)
        module = self._modules.of_call(in_backward, node)
        call = _OpenCall(traits, self._phase(in_backward), module, node)
        if traits.name != "lift_fresh":  # torch.tensor(...): its argument was made just now
            written = self._written(traits, args)
            for key, value in (*enumerate(args), *kwargs.items()):
                for tensor in dense_tensors(value):
                    self._add_argument(call, tensor, key in written)
        if traits.is_foreach:
            call.width = len(args[0])
        return call

    @staticmethod
    def _written(traits: Traits, args: Any) -> frozenset[int | str]:
        """Return the arguments that are written to, those that the schema hides included."""
        hidden = _HIDDEN_WRITES.get(traits.name)
        if hidden and len(args) > _TRAINING_ARGUMENT and args[_TRAINING_ARGUMENT]:
            return traits.written | hidden
        return traits.written

    def _add_argument(self, call: _OpenCall, tensor: Any, is_written: bool) -> None:
        storage = tensor.untyped_storage()
        number = self._storages.find(storage)
        if number is None:
            number = self._storages.add(storage)
            label = self._labels.pop(storage._cdata, f"constant:{len(self._constants)}")
            self._constants[number] = Constant(label, storage.nbytes())
        if is_written:
            call.written.append(len(call.arguments))
            call.written_storages[number] = (storage, storage.nbytes())
        call.arguments.append(_view(number, tensor))

    def _phase(self, in_backward: bool) -> int:
        if in_backward:
            return PHASE_BACKWARD
        return PHASE_OPTIMIZER if any(self._regions) else PHASE_FORWARD

    def _end(self, call: _OpenCall, output: Any, elapsed: int) -> None:
        """Note an operator's results after it has run."""
        sizes = call.resized()
        keeps_contents = call.traits.is_inplace_view and not sizes  # such as squeeze_
        results: list[View] = []
        for tensor in _fresh_outputs(call.traits, output, keeps_contents):
            storage = tensor.untyped_storage()
            number = self._storages.find(storage)
            if number is None:
                number = self._storages.add(storage)
                sizes.append((number, storage.nbytes()))
            results.append(_view(number, tensor))
        recorded = RecordedCall(
            call.traits.name,
            tuple(call.arguments),
            tuple(results),
            () if keeps_contents else tuple(call.written),
            tuple(sizes),
            elapsed,
            call.phase,
            call.module,
            call.traits.tags,
            call.autograd_node,
        )
        if call.width > 1:
            self._events.extend(split_by_tensor(recorded, call.width))
        else:
            self._events.append(recorded)


class _OpenCall:
    """A call that has begun: what is known before it runs."""

    __slots__ = (
        "arguments",
        "autograd_node",
        "module",
        "phase",
        "traits",
        "width",
        "written",
        "written_storages",
    )

    def __init__(self, traits: Traits, phase: int, module: str, autograd_node: int) -> None:
        self.traits = traits
        self.phase = phase
        self.module = module
        self.autograd_node = autograd_node
        self.width = 0
        self.arguments: list[View] = []
        self.written: list[int] = []
        self.written_storages: dict[int, tuple[Any, int]] = {}

    def resized(self) -> list[tuple[int, int]]:
        """Return the written storages that have another size now, with it."""
        return [
            (number, storage.nbytes())
            for number, (storage, before) in self.written_storages.items()
            if storage.nbytes() != before
        ]


def _fresh_outputs(traits: Traits, output: Any, all_of_them: bool) -> Iterator[Any]:
    """Yield the tensors that an operator returns, but for those that it was given to write."""
    outputs = (output,) if len(traits.returns_written) == 1 else output or ()
    for value, is_written in zip(outputs, traits.returns_written, strict=False):
        if all_of_them or not is_written:
            yield from dense_tensors(value)


def _view(storage: int, tensor: Any) -> View:
    """Describe a strided tensor of a numbered storage."""
    geometry = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), str(tensor.dtype))
    return View(storage, geometry)


def _autograd_node(in_backward: bool) -> int:
    """Return the number that autograd gives to the node that is being made, or that runs."""
    if not in_backward:
        return _next_node() - 1
    node = _running_node()
    number = -1 if node is None else int(node._sequence_nr())
    return number if number < _NO_NODE else -1
