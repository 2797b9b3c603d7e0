"""Captures of programs with threads: work in another thread is refused, what it prepares is not."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rematsim import traces
from rematsim.errors import TraceError
from rematsim.traces.trace import Trace


class Program:
    """A model, its optimizer, and one step of training."""

    def __init__(self, torch: Any) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.batch = torch.ones(2, 8)
        self.step(self.batch)

    def loss(self, batch: Any) -> Any:
        return self.model(batch).sum()

    def step(self, batch: Any) -> None:
        self.optimizer.zero_grad()
        self.loss(batch).backward()
        self.optimizer.step()

    def operators(self, run: Callable[[], object], **options: Any) -> list[str]:
        with traces.capture(self.model, self.optimizer, **options) as log:
            run()
        return operators_of(log.trace)


def operators_of(trace: Trace) -> list[str]:
    return [trace.operators[k] for k in trace.call_operator]


@pytest.fixture
def program(torch: Any) -> Program:
    return Program(torch)


def elsewhere(work: Callable[..., object], *args: Any) -> None:
    """Run something in another thread to its end; what it raises there fails the test."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work(*args)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="worker")
    thread.start()
    thread.join()
    assert not raised, raised


def an_optimizer_step(program: Program) -> None:
    program.loss(program.batch).backward()
    elsewhere(program.optimizer.step)


def a_backward_pass(program: Program) -> None:
    elsewhere(program.loss(program.batch).backward)


def a_whole_step(program: Program) -> None:
    elsewhere(program.step, program.batch)


def a_module_in_a_hook(program: Program) -> None:
    def hook(_: Any) -> None:
        elsewhere(program.model, program.batch)

    handle = program.model[0].weight.register_hook(hook)
    program.step(program.batch)
    handle.remove()


def backward_passes_of_four_threads(program: Program) -> None:
    losses = [program.loss(program.batch) for _ in range(4)]
    threads = [threading.Thread(target=loss.backward, name="worker") for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


REFUSED = {
    an_optimizer_step: "the step of SGD",
    a_backward_pass: "a backward pass",
    a_whole_step: "module Sequential",
    a_module_in_a_hook: "module Sequential",
    backward_passes_of_four_threads: "a backward pass",
}


@pytest.mark.parametrize("work", REFUSED, ids=lambda work: work.__name__)
@pytest.mark.parametrize("repeat", [1, 2])
def test_work_in_another_thread_is_refused_and_done_all_the_same(
    program: Program, work: Callable[[Program], None], repeat: int
) -> None:
    hint = "only the thread that began the capture is seen; run the whole step in that thread"
    with pytest.raises(TraceError) as caught:
        program.operators(lambda: work(program), repeat=repeat)
    assert str(caught.value) == f"capture 'step': {REFUSED[work]} ran in thread 'worker': {hint}"
    assert program.model[0].weight.grad is not None


def test_a_mark_in_another_thread_is_refused(program: Program) -> None:
    from rematsim.traces import mark_step

    with pytest.raises(TraceError, match=r"mark_step\(\) ran in thread 'worker'"):
        program.operators(lambda: elsewhere(mark_step), repeat=2)


def prefetched(torch: Any) -> Iterator[Any]:
    """Batches that another thread makes, one ahead."""
    ready: queue.Queue[Any] = queue.Queue(1)

    def produce() -> None:
        for _ in range(2):
            ready.put(torch.ones(2, 8).mul_(2))
        ready.put(None)

    thread = threading.Thread(target=produce)
    thread.start()
    yield from iter(ready.get, None)
    thread.join()


def test_batches_that_another_thread_makes_are_constants(torch: Any, program: Program) -> None:
    """How they were made is not seen, and nothing recomputes them; the rest is as ever."""
    alone = program.operators(lambda: program.step(program.batch))

    def work() -> None:
        for batch in prefetched(torch):
            program.step(batch)

    with traces.capture(program.model, program.optimizer) as log:
        work()
    assert operators_of(log.trace) == 2 * alone
    sizes = log.trace.constant_bytes.tolist()
    assert sizes.count(2 * 8 * 4) == 2, "two batches of 2 x 8 numbers"


@pytest.mark.parametrize("n_workers", [0, 1])
def test_a_data_loader_may_have_workers(torch: Any, program: Program, n_workers: int) -> None:
    """Its processes are not seen; its own thread, without workers, is the program's."""
    data = torch.utils.data.TensorDataset(torch.ones(4, 8))
    alone = program.operators(lambda: program.step(program.batch))

    def work() -> None:
        loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=n_workers)
        for (batch,) in loader:
            program.step(batch)

    found = program.operators(work)
    assert [name for name in found if name in alone] == 2 * alone


def test_hooks_of_backward_and_the_threads_of_the_engine_are_seen(
    torch: Any, program: Program
) -> None:
    """What a hook computes is a call like others, whatever is said of the engine's threads."""
    seen = []
    handle = program.model[0].weight.register_hook(lambda grad: grad * 2)
    after = program.model[0].weight.register_post_accumulate_grad_hook(seen.append)
    for is_threaded in (True, False):
        with torch.autograd.set_multithreading_enabled(is_threaded):
            found = program.operators(lambda: program.step(program.batch))
        assert found.count("mul") == 1
    assert len(seen) == 2
    handle.remove()
    after.remove()


def test_what_a_capture_put_into_torch_is_gone_after_it(torch: Any, program: Program) -> None:
    before = torch.autograd._engine_run_backward
    with traces.capture(program.model):
        assert torch.autograd._engine_run_backward is not before
        program.step(program.batch)
    assert torch.autograd._engine_run_backward is before
    elsewhere(program.step, program.batch)
