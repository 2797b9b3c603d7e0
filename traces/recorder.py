"""Watch eager PyTorch at work: a dispatch mode that records operator calls and deaths of storages.

Needs torch (the extra ``capture``) and imports it at once, so nothing else imports this module
before it is asked to capture. What is recorded is in ``recording.py``; how a user starts it, in
``capturing.py``. What runs at each operator is written to be quick: plain tuples, of which
``raw_events.py`` makes a recording at the end.
"""

from __future__ import annotations

import gc
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from ..errors import TraceError
from ..opcodes import PHASE_BACKWARD, PHASE_FORWARD, PHASE_OPTIMIZER
from .autograd import Engine, graph_task, next_node
from .clocks import Clock, best_clock
from .module_paths import ModulePaths
from .naming import constant_labels
from .raw_events import (
    BACKWARD,
    STEP_END,
    WITHOUT_GRAD,
    BegunCall,
    OpenCall,
    RawCall,
    RawEvent,
    RawView,
    events_of,
)
from .recording import Recording
from .refusing import higher_order, out_of_sight
from .resizing import resizes_noticed
from .schemas import (
    CLOSES_REGION,
    HIDDEN_WRITES,
    HIGHER_ORDER,
    OPENS_REGION,
    STORAGE_RESIZE,
    Traits,
    hidden_writes,
    learn_maker,
    traits_by_id,
    traits_of,
    written_arguments,
)
from .storages import StorageTable, dense_tensors, explained, living_storages

_NO_TENSORS = {int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout}
_NO_KEYWORDS: dict[str, Any] = {}
_TENSORS = {Tensor, Parameter}
_LISTS = {list, tuple}
_get_dispatch_mode = torch._C._get_dispatch_mode
_FAKE = torch._C._TorchDispatchModeKey.FAKE
_DEVICE = torch.ops.prim.device.default
_NO_STEP = -2  # as a graph task: none, and not even the absence of one
_WITHOUT_GRAD = {PHASE_FORWARD: WITHOUT_GRAD, PHASE_BACKWARD: PHASE_BACKWARD}
is_grad_enabled = torch.is_grad_enabled


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch may be absent when types are checked
    """Record every operator below autograd: forward, backward and optimizer.

    Recording never raises into the program: an exception in a dispatch that C++ began may end the
    process. The first failure is kept in ``failure``, where it happened in ``failed_at``, and
    recording stops.

    Parameters
    ----------
    models : iterable of torch.nn.Module
        They name parameters, buffers and calls.
    optimizers : iterable of torch.optim.Optimizer
        They name their state.
    clock : Clock, optional
        Times the operators.
    """

    def __init__(
        self, models: Iterable[Any] = (), optimizers: Iterable[Any] = (), clock: Clock | None = None
    ) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.failed_at: traceback.StackSummary | None = None
        self._models, self._optimizers = list(models), list(optimizers)
        self._clock = clock or best_clock()
        self._now = self._clock.now
        self._modules = ModulePaths(self._models, self._is_followed)
        self._thread = threading.get_ident()
        self._regions: list[int] = []  # the graph task in which each step began, or _NO_STEP
        self._step_task = _NO_STEP
        self._engine = Engine()
        self._phase = PHASE_FORWARD
        self._events: list[RawEvent] = []
        self._calls: list[RawCall] = []
        self._names: dict[int, str] = {}
        labels = constant_labels(self._models, self._optimizers)
        is_faking = _get_dispatch_mode(_FAKE) is not None
        self._storages = StorageTable(labels, is_faking, self._events.append)
        self._find = self._storages.find
        self._resizes = resizes_noticed(self._is_open, self._storage_resized)

    supports_higher_order_operators = True  # they come here then, to be refused in our words

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Go without a guard against compilation around each operator: it costs more than a note.

        What is compiled is refused (``refusing.py``).
        """
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Stay away while torch compiles: meeting the recorder it would raise into the program."""
        return True

    def __enter__(self) -> Recorder:
        self._storages.watch(living_storages(self._storages.counts_fakes))
        self._modules.open()
        self._resizes.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._resizes.__exit__(None, None, None)
        self._modules.close()
        self._storages.close()

    def end_step(self, is_said: bool) -> None:
        """Note that a step ends: by a mark in the program, or because its optimizer has stepped."""
        if self.failure is None:
            gc.collect()
            numbers = self._storages.numbers()
            for address, label in constant_labels(self._models, self._optimizers).items():
                number = numbers.get(address)
                if number is not None and number not in self._storages.constants:
                    self._names[number] = label
            self._events.append(STEP_END[is_said])

    def recording(self) -> Recording:
        """Return what has been recorded.

        Raises
        ------
        TraceError
            If recording had to stop.
        """
        if self.failure is not None:
            raise TraceError(str(self.failure)) from self.failure
        constants = dict(sorted((self._storages.constants | self._storages.held).items()))
        events = tuple(events_of(self._events, self._calls, self._clock))
        return Recording(constants, events, labels=dict(self._names))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator; record it if it is one that computes."""
        traits = traits_by_id.get(id(func)) or traits_of(func)
        kwargs = kwargs or _NO_KEYWORDS
        if traits.role or self.failure is not None:
            if func is _DEVICE and (device := getattr(args[0], "fake_device", None)):
                return device  # autograd asks for it at each gradient
            self._follow_region(traits, args)
            return func(*args, **kwargs)
        run = traits.run
        try:
            begun = self._begin(traits, args, kwargs)
        except Exception as failure:
            self.fail(explained(failure, args, kwargs))
            return func(*args, **kwargs)
        now = self._now
        started = now()
        output = run(*args, **kwargs) if kwargs else run(*args)
        ended = now()
        try:
            self._end(traits, begun, output, started, ended)
        except Exception as failure:
            self.fail(explained(failure, args, kwargs, output))
        return output

    def run_maker(self, make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function whose result no dispatch mode sees; record it as an operator."""
        if threading.get_ident() != self._thread:
            return make(*args, **kwargs)
        learn_maker(make)
        return self.__torch_dispatch__(make, (), args, kwargs)

    def fail(self, failure: Exception) -> None:
        """Stop recording, unless it has stopped; remember the first failure and its place."""
        if self.failure is None:
            self.failure, self.failed_at = failure, traceback.extract_stack()

    def _follow_region(self, traits: Traits, args: Any) -> None:
        """Follow the profiler's regions; ``Optimizer.step`` runs in one of its own."""
        role = traits.role
        if role == HIGHER_ORDER:
            self.fail(higher_order(traits.name))
        if role == OPENS_REGION:
            is_step = str(args[0]).startswith("Optimizer.step")
            self._regions.append(graph_task() if is_step else _NO_STEP)
        elif role == CLOSES_REGION and self._regions:
            self._regions.pop()
        steps = [task for task in self._regions if task != _NO_STEP]
        self._step_task = steps[-1] if steps else _NO_STEP
        self._find_phase()

    def is_elsewhere(self, what: str) -> bool:
        """Say whether something runs in another thread, which this mode does not see."""
        if threading.get_ident() == self._thread:
            return False
        self.fail(
            TraceError(
                f"{what} ran in thread {threading.current_thread().name!r}: only the thread that "
                "began the capture is seen; run the whole step in that thread"
            )
        )
        return True

    def _is_followed(self, module: Any) -> bool:
        """Say whether a module runs where this mode sees it."""
        is_here = threading.get_ident() == self._thread  # nearly always: no words are needed
        return is_here or not self.is_elsewhere(f"module {type(module).__name__}")

    def _begin(self, traits: Traits, args: Any, kwargs: Any) -> BegunCall:
        """Note an operator's arguments before it runs; unknown storages were there before."""
        engine, task, is_building = self._engine, graph_task(), is_grad_enabled()
        if task != engine.task or is_building is not engine.is_building:
            if engine.look(task, is_building):
                self._events.append(BACKWARD)
            self._find_phase()
        begun: BegunCall
        if traits.is_plain or traits.writes_first:
            try:
                begun = self._arguments((*args, *kwargs.values()) if kwargs else args)
            except NotImplementedError:  # a sparse tensor
                begun = self._begin_with_care(traits, args, kwargs)
        elif traits.name in HIDDEN_WRITES and not kwargs:  # batch normalization, which is frequent
            begun = OpenCall(self._arguments(args), (), hidden_writes(traits, args), 0, None)
        else:
            begun = self._begin_with_care(traits, args, kwargs)
        self._events.append(begun)  # here already: what dies in the call is noted behind it
        return begun

    def _arguments(self, values: Iterable[Any]) -> list[RawView]:
        """Describe the tensors among an operator's arguments, all of them strided."""
        find = self._find
        arguments: list[RawView] = []
        for value in values:
            kind = type(value)
            if kind is Tensor or kind is Parameter:
                storage = value.untyped_storage()
                watch = find(id(storage))
                number = self._first_seen(value, storage) if watch is None else watch.number
                arguments.append(
                    (number, value.storage_offset(), value.shape, value.stride(), value.dtype)
                )
            elif kind not in _NO_TENSORS and not (kind is list and value and type(value[0]) is int):
                arguments += map(self._view, dense_tensors(value))
        return arguments

    def _begin_with_care(self, traits: Traits, args: Any, kwargs: Any) -> OpenCall:
        """Note arguments of which any may be written, or are lists to be taken apart."""
        call = OpenCall([], [], [], len(args[0]) if traits.is_foreach else 0, {})
        if traits.name == "lift_fresh":  # torch.tensor(...): its argument was made just now
            return call
        if traits.name == "_efficientzerotensor":
            self._storages.has_zero_tensors = True
        written = written_arguments(traits, args)
        for key, value in (*enumerate(args), *kwargs.items()):
            kind = type(value)
            if kind in _NO_TENSORS:
                continue
            if kind in _TENSORS and value.layout is torch.strided:
                call.add(self._view(value), value, key in written, -1)
                continue
            is_apart = call.width and kind in _LISTS and len(value) == call.width
            for part, element in enumerate(value) if is_apart else ((-1, value),):
                for tensor in dense_tensors(element):
                    call.add(self._view(tensor), tensor, key in written, part)
        return call

    def _view(self, tensor: Tensor) -> RawView:
        """Describe a strided tensor; its storage, if it is new here, was there before."""
        storage = tensor.untyped_storage()
        watch = self._find(id(storage))
        number = self._first_seen(tensor, storage) if watch is None else watch.number
        return (number, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)

    def _first_seen(self, tensor: Tensor, storage: Any) -> int:
        """Give a number to a storage that was there before the first call."""
        number = self._storages.use(storage)
        if number is None:
            if tensor.grad_fn is not None and not self._engine.is_running:
                self._refuse_unseen(tensor, storage)
            number = self._storages.add_constant(storage, 0, tensor)
        return number

    def _is_open(self) -> bool:
        """Say whether a resize would be between two operators, and not what one of them does."""
        return self.failure is None and (
            threading.get_ident() != self._thread or self in _get_current_dispatch_mode_stack()
        )

    def _storage_resized(self, storage: Any, before: int) -> None:
        """Note that the program has changed the size of a storage, by no operator."""
        storages, watch = self._storages, self._find(id(storage))
        if threading.get_ident() != self._thread:
            if watch is not None:
                self.is_elsewhere("resize_ of a captured storage")
            return
        number = storages.use(storage) if watch is None else watch.number
        is_unreal = storage.device.type == "meta" and not storages.counts_fakes
        if number in storages.memoryless or is_unreal:
            return
        try:
            if number is None:
                number = storages.add_constant(storage, before)
            begun = self._begin(STORAGE_RESIZE, (), {})
            assert isinstance(begun, OpenCall), "a call that writes"
            begun.add_resized((number, 0, (before,), (1,), torch.uint8), storage, before)
            now = self._now()
            self._end(STORAGE_RESIZE, begun, None, now, now)
        except Exception as failure:
            self.fail(failure)

    def _refuse_unseen(self, tensor: Tensor, storage: Any) -> None:
        """Refuse what autograd knows, and was made during the capture, and not in sight of it.

        Memory that is not PyTorch's own, such as numpy's, is taken for an input.
        """
        if storage.nbytes() and storage.resizable():
            assert tensor.grad_fn is not None
            raise out_of_sight(tensor.grad_fn.name())

    def _find_phase(self) -> None:
        """Find which phase calls belong to; what runs without gradients is told from later on."""
        engine = self._engine
        self._phase = PHASE_BACKWARD if engine.is_running else PHASE_FORWARD
        if not engine.is_building:
            is_step = self._step_task == engine.task
            self._phase = PHASE_OPTIMIZER if is_step else _WITHOUT_GRAD[self._phase]

    def _end(self, traits: Traits, begun: BegunCall, output: Any, started: Any, ended: Any) -> None:
        """Note an operator's results after it has run."""
        results: list[RawView] = []
        sizes: list[tuple[int, int]] = []
        keeps_contents = False
        if type(begun) is OpenCall and begun.storages is not None:
            memoryless = self._storages.memoryless
            sizes = [size for size in begun.resized() if size[0] not in memoryless]
            keeps_contents = traits.is_inplace_view and not sizes  # such as squeeze_
        if not traits.writes_first:
            try:
                is_one = type(output) is Tensor and traits.returns_new
                outputs = (output,) if is_one else traits.outputs(output, keeps_contents)
                results = self._results(outputs, sizes)
            except NotImplementedError:  # a sparse tensor
                results = self._results(traits.outputs(output, keeps_contents), sizes)
        engine, running, phase = self._engine, self._modules.running, self._phase
        self._calls.append(
            (
                traits,
                begun,
                results,
                sizes,
                keeps_contents,
                started,
                ended,
                phase,
                running[-1] if running else None,
                engine.node() if phase == PHASE_BACKWARD else next_node() - 1,
                engine.is_recomputing,
            )
        )

    def _results(self, tensors: Sequence[Tensor], sizes: list[tuple[int, int]]) -> list[RawView]:
        """Describe strided tensors that an operator returned; add the sizes of new storages."""
        storages, find = self._storages, self._find
        results: list[RawView] = []
        for tensor in tensors:
            storage = tensor.untyped_storage()
            watch = find(id(storage))
            if watch is None:
                number = storages.add(storage)
                is_odd = type(tensor) is not Tensor or tensor.is_meta or storages.has_zero_tensors
                size = storages.size(number, tensor, storage) if is_odd else storage.nbytes()
                sizes.append((number, size))
            else:
                number = watch.number
            results.append(
                (number, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
            )
        return results
