"""The plan of ``torch.utils.checkpoint``, worked by hand; against real runs: examples/truth.py."""

from __future__ import annotations

import pytest
from rematsim.checkpointing import checkpoint_plan
from rematsim.errors import InputError
from rematsim.execution import execute
from rematsim.opcodes import PHASE_BACKWARD, PHASE_FORWARD
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace


def two_blocks() -> Trace:
    """Two blocks of two calls, each result 10 bytes, each call 1 ns; ``in`` is 10 bytes, too.

    in -> m.0: a -> b -> m.1: c -> d, then the backward pass: d's, c's, b's, a's call, each with the
    gradient so far and the input of its forward call.
    """
    builder = TraceBuilder("two blocks")
    builder.constant("in", 10)
    forward = {}
    for result, operand, module in (
        ("a", "in", "m.0"),
        ("b", "a", "m.0.x"),
        ("c", "b", "m.1"),
        ("d", "c", "m.1"),
    ):
        forward[result] = builder.call(
            "f", [operand], [(result, 10, -1)], 1, phase=PHASE_FORWARD, module=module
        )
    builder.backward()
    builder.call("ones", ["d"], [("ge", 10, -1)], 1, phase=PHASE_BACKWARD)
    builder.release("d")
    gradient = "ge"
    for result, operand in (("d", "c"), ("c", "b"), ("b", "a"), ("a", "in")):
        made = f"g{result}"
        builder.call(
            "g", [gradient, operand], [(made, 10, -1)], 1,
            phase=PHASE_BACKWARD, forward=forward[result],
        )  # fmt: skip
        builder.release(gradient)
        if operand != "in":
            builder.release(operand)
        gradient = made
    return builder.build()


def words(trace: Trace, blocks: list[str]) -> str:
    """The plan as text: calls by the names of their results, freed storages with a minus."""
    names = ["in", "a", "b", "c", "d", "ge", "gd", "gc", "gb", "ga"]
    return " ".join(
        "-" * action + names[target] for action, target in checkpoint_plan(trace, blocks)
    )


def test_no_block_is_the_run_itself() -> None:
    assert words(two_blocks(), []) == "in a b c d ge -d gd -c -ge gc -b -gd gb -a -gc ga -gb"


def test_a_block_runs_again_when_its_backward_pass_needs_what_it_saved() -> None:
    """a goes after b has read it; b, the other block's input, stays; b is not made again."""
    plan = "in a b -a c d ge -d gd -c -ge gc -b -gd a gb -a -gc ga -gb"
    assert words(two_blocks(), ["m.0"]) == plan


def test_an_input_of_a_checkpointed_block_stays_until_its_backward_pass_ends() -> None:
    """c goes at d and is made again for gd; it is no more needed after that."""
    plan = "in a b c d -c ge -d c gd -c -ge gc -b -gd gb -a -gc ga -gb"
    assert words(two_blocks(), ["m.1"]) == plan


def test_the_plan_is_executed_and_costs_what_runs_again() -> None:
    result = execute(two_blocks(), checkpoint_plan(two_blocks(), ["m.0", "m.1"]))
    assert result.status == "ok"
    assert (result.model_ns, result.remat_ns) == (9, 2)  # a and c
    # At gd: in, b, ge, c and gd. Without checkpoints, at ge: in, a, b, c, d and ge.
    assert result.peak_bytes == 50
    assert execute(two_blocks(), checkpoint_plan(two_blocks(), [])).peak_bytes == 60


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (["m.2"], "block 'm.2': no forward call of 'two blocks' belongs to it"),
        (["m.0", "m.0.x"], "blocks 'm.0' and 'm.0.x': one is in the other"),
    ],
)
def test_blocks_that_are_none_are_refused(blocks: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checkpoint_plan(two_blocks(), blocks)
