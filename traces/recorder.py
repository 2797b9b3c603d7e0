"""Watch eager PyTorch at work: a dispatch mode that records operator calls and deaths of storages.

Needs torch (the extra ``capture``) and imports it at once, so nothing else imports this module
before it is asked to capture. What is recorded is in ``recording.py``; how a user starts it, in
``capturing.py``. It reads of autograd what torch has no public name for, and nothing else.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import TraceError
from ..opcodes import PHASE_BACKWARD, PHASE_FORWARD, PHASE_OPTIMIZER
from .autograd import Engine
from .clocks import Clock, best_clock
from .module_paths import ModulePaths
from .naming import constant_labels
from .open_calls import OpenCall, Spread, geometry
from .recording import (
    BackwardEntered,
    Constant,
    Death,
    Event,
    RecordedCall,
    Recording,
    StepEnd,
    View,
    split_by_tensor,
)
from .schemas import (
    CLOSES_REGION,
    COMPUTES,
    OPENS_REGION,
    Traits,
    traits_of,
    written_arguments,
)
from .storages import StorageTable, dense_tensors, living_storages


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch may be absent when types are checked
    """Record every operator below autograd: forward, backward and optimizer.

    Recording never raises into the program: an exception in a dispatch that C++ began may end the
    process. The first failure is kept in ``failure`` and recording stops.

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
        self._models, self._optimizers = list(models), list(optimizers)
        self._clock = clock or best_clock()
        self._modules = ModulePaths(self._models, self._is_followed)
        self._thread = threading.get_ident()
        self._regions: list[bool] = []
        self._engine = Engine()
        self._events: list[Event | Spread] = []
        self._constants: dict[int, Constant] = {}
        self._names: dict[int, str] = {}
        self._storages = StorageTable()
        self._labels = constant_labels(self._models, self._optimizers)

    def __enter__(self) -> Recorder:
        self._storages.watch(living_storages().values(), self._labels)
        self._modules.open()
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._modules.close()
        self._storages_flushed().close()

    def end_step(self, is_said: bool) -> None:
        """Note that a step ends: by a mark in the program, or because its optimizer has stepped."""
        if self.failure is None:
            gc.collect()
            self._storages_flushed()
            for address, label in constant_labels(self._models, self._optimizers).items():
                number = self._storages.find(address)
                if number is not None and number not in self._constants:
                    self._names[number] = label
            self._events.append(StepEnd(is_said))
            self._modules.forget_nodes()

    def recording(self) -> Recording:
        """Return what has been recorded.

        Raises
        ------
        TraceError
            If recording had to stop.
        """
        if self.failure is not None:
            raise TraceError(str(self.failure)) from self.failure
        constants = dict(sorted((self._constants | self._storages.held).items()))
        return Recording(constants, tuple(self._timed_events()), labels=dict(self._names))

    def _timed_events(self) -> Iterator[Event]:
        """Yield the events with their times, calls over lists taken apart."""
        calls = [event for event in self._events if isinstance(event, RecordedCall | Spread)]
        raw = [event.call if isinstance(event, Spread) else event for event in calls]
        times = iter(self._clock.resolve([call.time_ns for call in raw]))
        for event in self._events:
            if isinstance(event, RecordedCall):
                yield event._replace(time_ns=next(times))
            elif isinstance(event, Spread):
                whole = event.call._replace(time_ns=next(times))
                yield from split_by_tensor(whole, event.parts, event.width)
            else:
                yield event

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator; record it if it is one that computes."""
        kwargs = kwargs or {}
        traits = traits_of(func)
        if traits.role != COMPUTES or self.failure is not None:
            if traits.role in (OPENS_REGION, CLOSES_REGION):
                self._follow_region(traits.role, args)
            return func(*args, **kwargs)
        try:
            call = self._begin(traits, args, kwargs)
        except Exception as failure:
            self.failure = failure
            return func(*args, **kwargs)
        started = self._clock.start()
        output = func(*args, **kwargs)
        elapsed = self._clock.stop(started)
        try:
            self._end(call, output, elapsed)
        except Exception as failure:
            self.failure = failure
        return output

    def _follow_region(self, role: int, args: Any) -> None:
        """Follow the profiler's regions; ``Optimizer.step`` runs in one of its own."""
        if role == OPENS_REGION:
            self._regions.append(str(args[0]).startswith("Optimizer.step"))
        elif self._regions:
            self._regions.pop()

    def is_elsewhere(self, what: str) -> bool:
        """Say whether something runs in another thread, which this mode does not see."""
        if threading.get_ident() == self._thread:
            return False
        if self.failure is None:
            self.failure = TraceError(
                f"{what} ran in thread {threading.current_thread().name!r}: only the thread that "
                "began the capture is seen; run the whole step in that thread"
            )
        return True

    def _is_followed(self, module: Any) -> bool:
        """Say whether a module runs where this mode sees it."""
        return not self.is_elsewhere(f"module {type(module).__name__}")

    def _storages_flushed(self) -> StorageTable:
        """Move the deaths since the last call into the record."""
        storages = self._storages
        if storages.dead:
            dead, storages.dead = storages.dead, []
            self._events.extend(map(Death, dead))
        return storages

    def _begin(self, traits: Traits, args: Any, kwargs: Any) -> OpenCall:
        """Note an operator's arguments before it runs; unknown storages were there before."""
        self._storages_flushed()
        engine = self._engine
        if engine.look():
            self._events.append(BackwardEntered())
        node = engine.node()
        call = OpenCall(traits, node, self._modules.of_call(engine.is_running, node))
        if traits.name != "lift_fresh":  # torch.tensor(...): its argument was made just now
            written = written_arguments(traits, args)
            if traits.is_foreach:
                call.width = len(args[0])
            for position, value in enumerate(args):
                self._add_arguments(call, value, position in written)
            for key, value in kwargs.items():
                self._add_arguments(call, value, key in written)
        return call

    def _add_arguments(self, call: OpenCall, value: Any, is_written: bool) -> None:
        """Note the tensors of an argument."""
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            call.add(self._known(value), value, is_written)
        elif isinstance(value, list | tuple) and call.width == len(value):
            for part, element in enumerate(value):
                for tensor in dense_tensors(element):
                    call.add(self._known(tensor), tensor, is_written, part)
        elif isinstance(value, list | tuple | torch.Tensor):
            for tensor in dense_tensors(value):
                call.add(self._known(tensor), tensor, is_written)

    def _known(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor's storage; one that is new here was there before."""
        storage = tensor.untyped_storage()
        number = self._storages.find(storage._cdata)
        if number is None:
            number = self._storages.add(storage)
            label = self._labels.pop(storage._cdata, "")
            kind = geometry(tensor).kind.text()
            self._constants[number] = Constant(label, storage.nbytes(), kind)
        return number

    def _phase(self) -> int:
        if self._engine.is_running:
            return PHASE_BACKWARD
        return PHASE_OPTIMIZER if any(self._regions) else PHASE_FORWARD

    def _end(self, call: OpenCall, output: Any, elapsed: int) -> None:
        """Note an operator's results after it has run."""
        traits = call.traits
        sizes = call.resized() if call.written else []
        keeps_contents = traits.is_inplace_view and not sizes  # such as squeeze_
        results: list[View] = []
        for tensor in call.fresh_results(output, keeps_contents):
            storage = tensor.untyped_storage()
            number = self._storages.find(storage._cdata)
            if number is None:
                number = self._storages.add(storage)
                sizes.append((number, storage.nbytes()))
            results.append(View(number, geometry(tensor)))
        recorded = RecordedCall(
            traits.name,
            tuple(call.arguments),
            tuple(results),
            () if keeps_contents else tuple(call.written),
            tuple(sizes),
            elapsed,
            self._phase(),
            call.module,
            traits.tags,
            call.autograd_node,
            self._engine.is_recomputing,
        )
        if call.width > 1:
            self._events.append(Spread(recorded, tuple(call.parts), call.width))
        else:
            self._events.append(recorded)
