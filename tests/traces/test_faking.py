"""Fake captures: what they answer, what they refuse, and the operators of a GPU."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rematsim import traces
from rematsim.errors import InputError, TraceError

EXAMPLES = Path(__file__).parents[2] / "examples"


def captured(torch: Any, run: Callable[[], Any], **options: Any) -> Any:
    """Capture a function of no model, once, without warm-up."""
    return traces.capture_fake(lambda: run, warmup=0, **options)


def operators(log: Any) -> list[str]:
    return [call.operator for call in log.recording.calls]


def test_times_are_those_of_the_cost_model_and_marked(torch: Any) -> None:
    from rematsim.traces.costs import TensorKind, operator_ns
    from rematsim.traces.devices import device

    matrix = TensorKind("float32", (64, 64))
    x = torch.ones(64, 64)
    log = captured(torch, lambda: x @ x, device_name="a100")
    assert log.recording.calls[-1].time_ns == operator_ns(
        "mm", [matrix, matrix], [matrix], device("a100")
    )
    assert log.trace.times_estimated
    assert "target cpu, times estimated for NVIDIA A100" in log.trace.source


def test_the_log_says_that_times_are_estimated(torch: Any, tmp_path: Path) -> None:
    from rematsim.traces.loading import load_trace

    captured(torch, lambda: torch.ones(2) + 1).save(tmp_path / "a.log.gz")
    assert load_trace(tmp_path / "a.log.gz").times_estimated


def test_values_are_made_up(torch: Any) -> None:
    """A number is 1, a truth what follows: a program that prints its loss can go on."""
    seen = []

    def run() -> None:
        x = torch.rand(3)
        seen.extend([(x * 5).sum().item(), int((x * 5).argmax()), bool((x > 7).all())])

    log = captured(torch, run)
    assert seen == [1.0, 1, False]
    assert any("asked 3 times for a value that fake tensors do not have" in n for n in log.notes)
    assert not captured(torch, lambda: torch.rand(3)).notes


def test_scaled_gradients_are_taken_to_be_finite(torch: Any) -> None:
    """Mixed precision with a scaler: the optimizer steps, as it does with real gradients."""

    def make() -> Any:
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        x = torch.ones(3, 4)

        def step() -> None:
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(x).float().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

        return step, model, optimizer

    step, model, optimizer = make()
    step()
    with traces.capture(model, optimizer) as log:
        step()
    fake = traces.capture_fake(make)
    assert operators(fake) == operators(log)
    assert "_foreach_add_" in operators(log) or "add_" in operators(log)


def test_checks_for_nan_find_none(torch: Any) -> None:
    """A script that stops at a loss that is not finite goes on."""
    seen = []

    def run() -> None:
        loss = torch.rand(3, 2000).mean()
        seen.extend([bool(torch.isfinite(loss)), bool(loss.isnan()), bool(loss.isinf())])
        seen.extend([not torch.isfinite(torch.rand(3000)).all(), bool(loss < float("inf"))])

    captured(torch, run)
    assert seen == [True, False, False, False, True]


def test_small_values_made_from_constants_are_known(torch: Any) -> None:
    """Until they are updated in place; a copy and a view of one are known, too."""
    seen = []

    def run() -> None:
        seen.append(torch.linspace(0, 1, 5)[::2].tolist())
        seen.append(copy.deepcopy(torch.arange(4) * 2)[1:].tolist())
        x = torch.zeros(2)
        x[0] = 5
        seen.append(x.tolist())

    assert captured(torch, run)
    assert seen == [[0.0, 0.5, 1.0], [2, 4, 6], [1.0, 1.0]]


def test_numbers_can_be_printed_and_handed_to_numpy(torch: Any) -> None:
    seen = []

    def run() -> None:
        loss = torch.rand(3).mean()
        seen.extend([f"{loss:.3f}", float(loss.numpy()), torch.arange(3).numpy().tolist()])

    captured(torch, run)
    assert seen == ["1.000", 1.0, [0, 1, 2]]
    with pytest.raises(TraceError, match=r"numpy\(\): fake tensors have no values"):
        captured(torch, lambda: torch.rand(2000).numpy())


@pytest.mark.parametrize(
    "convert",
    ["bfloat16", "half", "double", "float", "cpu", "to_device", "to_dtype", "to_channels_last"],
)
def test_modules_are_converted(torch: Any, convert: str) -> None:
    """Parameters stay the objects that they were: an optimizer made before holds them, and ties."""
    conversions = {
        "to_device": lambda m: m.to("cpu"),
        "to_dtype": lambda m: m.to(torch.bfloat16),
        "to_channels_last": lambda m: m.to(memory_format=torch.channels_last),
    }

    def make() -> Any:
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        model[1].weight = model[0].weight
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.rand(2, 4)).sum().backward()
        model = conversions.get(convert, lambda m: getattr(m, convert)())(model)
        assert model[1].weight is model[0].weight is optimizer.param_groups[0]["params"][0]
        assert model[0].weight.grad.dtype is model[0].weight.dtype
        x = torch.rand(2, 4, dtype=model[0].weight.dtype)

        def step() -> None:
            model(x).sum().backward()
            optimizer.step()

        return step, model, optimizer

    log = traces.capture_fake(make)
    assert operators(log).count("add_") >= 3  # two biases, and one weight


def test_modules_with_buffers_are_copied(torch: Any) -> None:
    """An average of weights, a teacher: the copy has storages and values of its own."""
    seen = []

    def run() -> None:
        model = torch.nn.BatchNorm1d(4)
        teacher = copy.deepcopy(model)
        average = torch.optim.swa_utils.AveragedModel(model)
        model(torch.rand(3, 4))
        average.update_parameters(model)
        seen.extend([model.num_batches_tracked.item(), teacher.num_batches_tracked.item()])

    captured(torch, run)
    assert seen == [1, 0]


def test_what_torch_cannot_do_with_fakes_is_said_in_a_line(torch: Any) -> None:
    """And an error of the program's own stays what it is."""
    with pytest.raises(InputError, match="DistributedDataParallel: fake tensors cannot be sent"):
        captured(torch, lambda: torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2)))
    with pytest.raises(TraceError, match=r"torch cannot do this with fake tensors.*--fake\)$"):
        captured(torch, lambda: torch.empty(0).set_(torch.UntypedStorage(4)))

    def fail() -> None:
        raise RuntimeError("loss of my own")

    with pytest.raises(RuntimeError, match="^loss of my own$"):
        captured(torch, fail)


def test_nothing_is_saved(torch: Any, tmp_path: Path) -> None:
    """A checkpoint that is there is not replaced by one without values."""
    file = tmp_path / "model.pt"
    file.write_text("kept")
    captured(torch, lambda: torch.save(torch.nn.Linear(2, 2).state_dict(), file))
    assert file.read_text() == "kept"


def test_lengths_that_are_not_known_are_refused(torch: Any) -> None:
    def run() -> None:
        lengths = torch.randint(1, 5, (3,))
        torch.nn.utils.rnn.pack_padded_sequence(torch.rand(5, 3, 2), lengths)

    with pytest.raises(TraceError, match=r"_pack_padded_sequence: .*make lengths of constants"):
        captured(torch, run)


@pytest.mark.parametrize("function", ["nonzero", "unique", "masked_select"])
def test_operators_that_need_values_are_refused(torch: Any, function: str) -> None:
    def run() -> None:
        x = torch.ones(3)
        if function == "masked_select":
            x.masked_select(x > 0)
        else:
            getattr(x, function)()

    with pytest.raises(TraceError, match="depends on values, which fake tensors do not have"):
        captured(torch, run)


def test_sparse_gradients_are_refused(torch: Any) -> None:
    """How many rows they have depends on values; from within the backward pass, too."""
    embed = torch.nn.Embedding(10, 4, sparse=True)
    with pytest.raises(
        TraceError, match="_sparse_coo_tensor.*: its result depends on values.*sparse=False"
    ):
        captured(torch, lambda: embed(torch.tensor([1, 2])).sum().backward())


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_sparse_results_are_refused_whatever_the_operators_name(torch: Any, mode: str) -> None:
    """A sparse tensor tells by its layout: the gradient of a bag of embeddings."""
    bag = torch.nn.EmbeddingBag(10, 4, sparse=True, mode=mode)
    with pytest.raises(TraceError, match="_embedding_bag_backward: its result depends on values"):
        captured(torch, lambda: bag(torch.tensor([[1, 2]])).sum().backward())
    with pytest.raises(TraceError, match="zeros: its result depends on values"):
        captured(torch, lambda: torch.zeros(3, 3, layout=torch.sparse_coo))


WAYS: dict[str, Callable[[Any, str], Any]] = {
    "made": lambda torch, device: torch.ones(2, device=device),
    "listed": lambda torch, device: torch.tensor([1.0], device=device),
    "like": lambda torch, device: torch.empty_like(torch.ones(2), device=device),
    "moved": lambda torch, device: torch.ones(2).to(device),
    "module": lambda torch, device: torch.nn.Linear(2, 2).to(device),
    "from_meta": lambda torch, device: torch.nn.Linear(2, 2, device="meta").to_empty(device=device),
    "block": lambda torch, device: made_in(torch, device),
    "type": lambda torch, device: torch.ones(2).type(f"torch.{device}.FloatTensor"),
    "storage": lambda torch, device: torch.UntypedStorage(8, device=device),
}


def made_in(torch: Any, device: str) -> Any:
    with torch.device(device):  # as set_default_device does
        return torch.ones(2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("device", ["cuda", "xpu", "mps", "mtia", "hpu", "xla", "lazy"])
def test_devices_that_torch_is_built_without_are_refused(torch: Any, device: str, way: str) -> None:
    """Otherwise the first gradient would end the process."""
    from rematsim.traces.refusing import has_backend

    if has_backend(device):
        pytest.skip(f"this torch is built for {device}")
    if way == "type" and device not in ("cuda", "xpu"):
        pytest.skip("has no types of its own")
    message = f"device '{device}(:0)?': this torch .* is built without {device.upper()}"
    with pytest.raises(InputError, match=message):
        captured(torch, lambda: WAYS[way](torch, device))


ASKED = {
    "pin_memory": lambda torch: torch.ones(2).pin_memory(),
    "storage": lambda torch: torch.ones(2).untyped_storage().pin_memory(),
    "stream": lambda torch: torch.cuda.Stream(),
    "event": lambda torch: torch.cuda.Event(enable_timing=True),
    "any event": lambda torch: torch.Event().record(),
    "graph": lambda torch: torch.cuda.CUDAGraph(),
    "synchronize": lambda torch: torch.cuda.synchronize(),
    "set_device": lambda torch: torch.cuda.set_device(0),
    "device": lambda torch: torch.cuda.device(0).__enter__(),
    "statistics": lambda torch: torch.cuda.reset_peak_memory_stats(),
    "summary": lambda torch: torch.cuda.memory_summary(),
    "ranges": lambda torch: torch.cuda.nvtx.range_push("step"),
    "accelerator": lambda torch: torch.accelerator.synchronize(),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_asks_for_a_gpu_that_is_not_there_is_refused(torch: Any, what: str) -> None:
    """In one form, whatever torch says: each of these fails in words of its own."""
    if torch.backends.cuda.is_built():
        pytest.skip("this torch is built for CUDA")
    with pytest.raises(InputError, match="device 'cuda': .* is built without CUDA.*use the CPU"):
        captured(torch, lambda: ASKED[what](torch))


def test_a_mistake_of_the_program_is_not_taken_for_a_device_that_is_missing(torch: Any) -> None:
    """Also where torch's own part for a device stands around it."""

    def run() -> None:
        with torch.cuda.stream(None):
            torch.ones(6).view(4)

    with pytest.raises(RuntimeError, match="shape"):
        captured(torch, run)


def test_a_device_by_number_or_by_method_is_refused_too(torch: Any) -> None:
    if torch.backends.cuda.is_built():
        pytest.skip("this torch is built for CUDA")
    for way in (
        lambda: torch.ones(2, device="cuda:1"),
        lambda: torch.ones(2).to(0),
        lambda: torch.ones(2).cuda(),
        lambda: torch.nn.Linear(2, 2).cuda(),
        lambda: torch.cuda.FloatTensor([1.0]),
    ):
        with pytest.raises(InputError, match="is built without CUDA"):
            captured(torch, way)


def test_the_devices_of_every_torch_are_not_refused(torch: Any) -> None:
    captured(torch, lambda: (torch.ones(2, device="cpu"), torch.ones(2, device="meta")))


def attention_step(torch: Any, **options: Any) -> Callable[[], Any]:
    """Attention over 64 places in 2 heads of 16, with its backward pass."""
    dtype = options.pop("dtype")

    def step() -> None:
        q, k, v = (torch.randn(1, 2, 64, 16, dtype=dtype, requires_grad=True) for _ in range(3))
        mask = torch.ones(64, 64).bool() if options.pop("masked", False) else None
        torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, **options
        ).sum().backward()

    return step


@pytest.mark.parametrize(
    ("dtype", "options", "wanted"),
    [
        ("bfloat16", {"is_causal": True}, "_scaled_dot_product_flash_attention"),
        ("float16", {"dropout_p": 0.1}, "_scaled_dot_product_flash_attention"),
        ("float32", {"dropout_p": 0.1}, "_scaled_dot_product_efficient_attention"),
        ("bfloat16", {"masked": True}, "_scaled_dot_product_efficient_attention"),
    ],
)
def test_a_gpu_fuses_attention(
    torch: Any, dtype: str, options: dict[str, Any], wanted: str
) -> None:
    """Forward and backward are one operator each, and no matrix of 64 x 64 places is made."""
    is_masked = options.get("masked", False)
    step = attention_step(torch, dtype=getattr(torch, dtype), **options)
    log = captured(torch, step, target="cuda")
    found = operators(log)
    assert wanted in found
    assert f"{wanted}_backward" in found
    shapes = [view.geometry.shape for call in log.recording.calls for view in call.results]
    assert is_masked or not [shape for shape in shapes if shape[-2:] == (64, 64)]


def test_a_gpu_fuses_dropout_and_batch_norm(torch: Any) -> None:
    def step() -> None:
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
        y = torch.nn.functional.dropout(model(torch.ones(2, 3, 8, 8)), 0.5)
        y.sum().backward()

    on_gpu, on_cpu = (operators(captured(torch, step, target=t)) for t in ("cuda", "cpu"))
    assert {"cudnn_batch_norm", "cudnn_batch_norm_backward", "native_dropout"} <= set(on_gpu)
    assert {"native_batch_norm", "bernoulli_"} <= set(on_cpu)


def test_a_gpus_optimizer_goes_through_lists(torch: Any) -> None:
    """Unless the program says how; the recording takes the lists apart."""

    def make(**options: Any) -> Any:
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.AdamW(model.parameters(), **options)

        def step() -> None:
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()

        return step, model, optimizer

    found = operators(traces.capture_fake(make, target="cuda"))
    assert found.count("_foreach_addcdiv_") == 2
    said = operators(traces.capture_fake(lambda: make(foreach=False), target="cuda"))
    assert "addcdiv_" in said
    assert "_foreach_addcdiv_" not in said


def test_attention_on_a_gpu_needs_far_less_memory(torch: Any) -> None:
    """A GPT-2 XL block with dropout in half precision: the CPU's operators keep T x T matrices."""

    def make() -> Any:
        torch.set_default_dtype(torch.bfloat16)
        try:
            layer = torch.nn.TransformerEncoderLayer(
                1600, 25, 6400, dropout=0.1, batch_first=True, norm_first=True
            )
            x = torch.randn(16, 1024, 1600)
        finally:
            torch.set_default_dtype(torch.float32)
        return (lambda: layer(x).sum().backward()), layer

    peaks = {t: traces.capture_fake(make, target=t).peak_bytes for t in ("cpu", "cuda")}
    assert peaks["cpu"] > 3 * peaks["cuda"]


SEVEN_B = """
import json, resource, sys, time
from rematsim import traces
sys.path.insert(0, sys.argv[1])
from llama import llama_7b as make
start = time.process_time()
log = traces.capture_fake(make, target="cuda", name="llama_7b")
seconds = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([seconds, peak, log.ops, log.peak_bytes, log.trace.constant_bytes.tolist()]))
"""


def test_a_step_of_seven_billion_parameters_needs_little_memory(torch: Any) -> None:
    """Batch 8, 2048 tokens, AdamW, in bfloat16: weights and two moments are 6.74e9 * 6 bytes.

    What it takes is under 1 GiB; how long it takes, ``benchmarks/capture.py fake`` measures.
    """
    done = subprocess.run(
        [sys.executable, "-c", SEVEN_B, str(EXAMPLES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seconds, memory, n_calls, peak, constants = json.loads(done.stdout)
    assert memory < 2**30
    assert seconds > 0
    assert n_calls > 5000
    assert sum(size for size in constants if size > 1000) // 6 == pytest.approx(6.74e9, rel=0.01)
    assert peak > 2 * sum(constants)
