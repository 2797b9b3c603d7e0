"""What sharding leaves on a device: no more weights than there are."""

from __future__ import annotations

import pytest
from example_modules import load_example
from rematsim.traces.builder import TraceBuilder


@pytest.mark.parametrize(("unit", "held"), [("layers", 70), (r"layers\.\d+", 50)])
def test_no_more_is_gathered_than_the_units_that_are_in_use(unit: str, held: int) -> None:
    """By hand: a head of 10 and layers of 20, 30 and 10 bytes; half of what is held is its own."""
    sharding = load_example("sharding")
    builder = TraceBuilder("net")
    for name, size in {"head": 10, "layers.0": 20, "layers.1": 30, "layers.2": 10}.items():
        builder.constant(f"param:{name}", size)
    builder.call("f", ["param:head"], [("x", 1, -1)], 1)
    sizes = sharding.sizes_of(builder.build(), unit)
    assert sizes.weights == 70 and sharding.gathered(sizes, shards=2, kept=2) == held / 2
