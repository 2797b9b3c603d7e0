"""The cost model against numbers that a pencil gives, and its named devices."""

from __future__ import annotations

from typing import Any

import pytest
from rematsim.errors import InputError, UnknownNameError
from rematsim.traces import devices
from rematsim.traces.costs import TensorKind, operator_ns
from rematsim.traces.devices import GPUS, Device, device
from rematsim.traces.flops import PRODUCTS, base_name, traffic_bytes, work

# 1 flop and 1 byte take a nanosecond, once the shares that are reached are taken out.
PLAIN = Device(
    "plain", "", {"float32": 1e9 / 0.75, "vector": 1e9 / 0.75}, 1e9 / 0.85, 300, 1 << 30, "a test"
)


def kind(*shape: int, dtype: str = "float32") -> TensorKind:
    return TensorKind(dtype, shape)


@pytest.mark.parametrize("name", devices.NAMES)
def test_a_device_has_every_figure(name: str) -> None:
    found = device(name)
    assert found.name == name
    assert {"float32", "float64", "vector"} <= set(found.peak_flops)
    assert min(found.peak_flops.values()) > 1e8
    assert found.bandwidth > 1e8
    assert found.launch_ns > 0
    assert found.source


def test_an_unknown_device_is_answered_with_the_known_ones() -> None:
    known = "known: a100, h100, h200, rtx4090, cpu"
    with pytest.raises(UnknownNameError, match=f"device 'tpu': unknown; {known}"):
        device("tpu")


def test_this_cpu_is_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The second time the cache answers, also in another process."""
    monkeypatch.setenv("REMATSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(devices, "measure_cpu", lambda: (4e9, 2e9, 1e9))
    devices.this_cpu.cache_clear()
    try:
        assert device("cpu").peak_flops == {"float32": 4e9, "float64": 2e9, "vector": 1e9}
        monkeypatch.setattr(devices, "measure_cpu", lambda: pytest.fail("measured again"))
        devices.this_cpu.cache_clear()
        assert device("cpu").bandwidth == 1e9
    finally:
        devices.this_cpu.cache_clear()


def test_measuring_gives_figures_above_zero() -> None:
    assert min(devices.measure_cpu(size=32, megabytes=1, repeats=1)) > 0


def test_a_dtype_without_a_peak_has_that_of_float32() -> None:
    assert GPUS["a100"].flops_of("complex64") == GPUS["a100"].flops_of("float32") == 19.5e12


def test_kinds_are_written_and_read() -> None:
    assert kind(2, 3).nbytes() == 24
    for text in ("float32[2,3]", "bool[]", "int64[0]"):
        assert TensorKind.parse(text).text() == text
    for text in ("float32", "float32[", "float32[a]", "float32[1,]"):
        with pytest.raises(InputError, match="expected a dtype and a shape"):
            TensorKind.parse(text)
    with pytest.raises(InputError, match="dtype 'float99': its size is not known"):
        kind(2, dtype="float99").nbytes()


@pytest.mark.parametrize("name", ["aten::mm", "aten.mm.default", "aten::mm.out", "mm"])
def test_every_spelling_of_an_operator_is_understood(name: str) -> None:
    """2 * 2 * 3 * 4 = 48 flops; (6 + 12 + 8) * 4 = 104 bytes; 300 for the launch."""
    assert base_name(name) == "mm"
    assert operator_ns(name, [kind(2, 3), kind(3, 4)], [kind(2, 4)], PLAIN) == 300 + 104


def test_large_products_are_bound_by_arithmetic() -> None:
    matrix = kind(100, 100)
    assert operator_ns("aten::mm", [matrix, matrix], [matrix], PLAIN) == 300 + 2_000_000


def test_an_addition_is_bound_by_traffic() -> None:
    assert operator_ns("aten::add", [kind(10), kind(10)], [kind(10)], PLAIN) == 300 + 120


def test_an_operator_in_place_writes_its_first_operand() -> None:
    """Whether or not the result is named again: read 80, write 40."""
    operands = [kind(10), kind(10)]
    assert operator_ns("aten::add_.Tensor", operands, [], PLAIN) == 300 + 120
    assert operator_ns("aten::add_.Tensor", operands, [kind(10)], PLAIN) == 300 + 120


def test_a_copy_does_not_read_what_it_overwrites() -> None:
    assert operator_ns("aten::copy_", [kind(10), kind(10)], [], PLAIN) == 300 + 80
    assert operator_ns("aten::zero_", [kind(10)], [], PLAIN) == 300 + 40


def test_a_view_costs_a_third_of_a_launch() -> None:
    assert operator_ns("aten::view", [kind(1000)], [kind(10, 100)], PLAIN) == 100


def test_a_look_up_does_not_read_the_whole_table() -> None:
    """Written 2 * 4 floats; read at most four times as much."""
    operands = [kind(50_000, 4), kind(2, dtype="int64")]
    assert traffic_bytes("embedding", operands, [kind(2, 4)]) == 32 + 4 * 32


def flops(name: str, operands: list[TensorKind], results: list[TensorKind]) -> float:
    return work(name, operands, results)[0]


def test_flops_of_a_convolution() -> None:
    """8x8 places, 16 channels from 3 by 3x3 weights, two images; twice that backward."""
    x, weight, out = kind(2, 3, 8, 8), kind(16, 3, 3, 3), kind(2, 16, 8, 8)
    once = 2 * 2 * 64 * 16 * 27
    assert flops("convolution", [x, weight], [out]) == once
    gradients = [x, weight, kind(16)]
    assert flops("convolution_backward", [out, x, weight], gradients) == 2 * once
    assert flops("convolution_backward", [out, x, weight], [weight]) == once
    assert work("convolution", [x, weight], [out])[1] == "tf32"


def test_flops_of_a_transposed_convolution() -> None:
    """Each of 4x4 places of the input meets all 8 * 4 * 2 * 2 weights."""
    x, weight, out = kind(1, 8, 4, 4), kind(8, 4, 2, 2), kind(1, 4, 8, 8)
    assert flops("convolution", [x, weight], [out]) == 2 * 16 * 128


def test_flops_of_attention() -> None:
    """Two products of 5 x 7 for each of 2 * 3 heads of width 4; five of them backward."""
    q, k = kind(2, 3, 5, 4), kind(2, 3, 7, 4)
    once = 2 * 6 * 5 * 7 * 8
    assert flops("_scaled_dot_product_flash_attention", [q, k, k], [q]) == once
    backward = "_scaled_dot_product_flash_attention_backward"
    assert flops(backward, [q, q, k, k], [q, k, k]) == 2.5 * once


def test_flops_of_a_recurrent_layer() -> None:
    """Twelve steps (three sequences of four) through weights of 5x8 and 2x8."""
    operands = [kind(4, 3, 5), kind(8, 5), kind(8, 2), kind(8)]
    assert flops("mkldnn_rnn_layer", operands, [kind(4, 3, 2)]) == 2 * 12 * 56


def test_a_faster_device_is_faster() -> None:
    matrix = kind(4096, 4096, dtype="bfloat16")
    slow, fast = (
        operator_ns("mm", [matrix, matrix], [matrix], GPUS[name]) for name in ("a100", "h100")
    )
    assert slow > 2 * fast


@pytest.mark.parametrize("name", sorted(PRODUCTS))
@pytest.mark.parametrize("shapes", [[(4,)], [(2, 3), (3, 2)], [()] * 3, [(0, 2)] * 4])
def test_odd_shapes_are_no_error(name: str, shapes: list[tuple[int, ...]]) -> None:
    """Traces of others leave operands out, or list them in another order."""
    kinds = [kind(*shape) for shape in shapes]
    assert operator_ns(name, kinds, kinds[:1], PLAIN) >= 1
    assert operator_ns(name, [], [], PLAIN) >= 1
