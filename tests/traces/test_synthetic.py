"""Synthetic traces: the shapes are right, and specs are read or refused."""

from __future__ import annotations

import pytest
from rematsim.errors import InputError, UnknownNameError
from rematsim.opcodes import BACKWARD, CALL, CONSTANT, RELEASE
from rematsim.traces.random_dag import random_dag
from rematsim.traces.synthetic import chain, synthetic, transformer, tree, u_shape
from rematsim.traces.trace import Trace


def script(trace: Trace) -> list[str]:
    """Write a trace down in one line an instruction."""
    names, lines = trace.names, []
    for code, a, _ in trace.instructions.tolist():
        if code == CALL:
            args = trace.arg_names[trace.arg_offsets[a] : trace.arg_offsets[a + 1]]
            results = trace.result_names[trace.result_offsets[a] : trace.result_offsets[a + 1]]
            shown = [",".join(names[k] for k in ids) for ids in (results, args)]
            lines.append(f"{shown[0]}={trace.operators[trace.call_operator[a]]}({shown[1]})")
        else:
            what = {CONSTANT: "constant", RELEASE: "release", BACKWARD: "backward"}[code]
            lines.append(what if code == BACKWARD else f"{what} {names[a]}")
    return lines


def test_a_chain_is_that_of_the_paper() -> None:
    assert script(chain(3)) == [
        "constant t0",
        "t1=f(t0)",
        "t2=f(t1)",
        "t3=f(t2)",
        "release t3",
        "backward",
        "g3=b(t2)",
        "release t2",
        "g2=b(t1,g3)",
        "release t1",
        "release g3",
        "g1=b(g2)",
        "release g2",
    ]
    assert chain(3).call_forward.tolist() == [-1, -1, -1, 2, 1, 0]
    assert chain(3).call_phase.tolist() == [1, 1, 1, 2, 2, 2]


def test_the_shortest_chains_are_chains() -> None:
    assert script(chain(1))[-2:] == ["backward", "g1=b(t0)"]
    assert script(chain(2))[-5:] == ["backward", "g2=b(t1)", "release t1", "g1=b(g2)", "release g2"]


def test_a_long_chain_is_the_same_wherever_its_blocks_end() -> None:
    long, lines = chain(40_000), script(chain(40_000))
    assert long.n_calls == 80_000
    assert lines[1:3] == ["t1=f(t0)", "t2=f(t1)"]
    assert lines[40_000:40_003] == ["t40000=f(t39999)", "release t40000", "backward"]
    for i in (2, 2, 7_232, 7_233, 20_000, 39_999):
        at = lines.index(f"g{i}=b(t{i - 1},g{i + 1})")
        assert lines[at + 1 : at + 3] == [f"release t{i - 1}", f"release g{i + 1}"]
    assert (long.call_forward[40_000:] == range(39_999, -1, -1)).all()


def test_sizes_and_times_of_a_chain_are_those_asked_for() -> None:
    trace = chain(4, size_bytes=3, time_ns=5)
    assert set(trace.result_bytes) | set(trace.constant_bytes) == {3}
    assert trace.compute_ns == 8 * 5


def test_steps_are_repeated_with_names_of_their_own() -> None:
    lines = script(chain(2, steps=2))
    first = lines[1 : 1 + (len(lines) - 2) // 2]
    assert first[-1] == "release 0.g2"
    second = lines[len(first) + 2 :]
    assert [line.replace("0.", "1.") for line in first] == second
    assert lines[len(first) + 1] == "release 0.g1", "only the last step keeps its gradient"


@pytest.mark.parametrize(
    ("make", "steps"), [(tree, 3), (u_shape, 2), (lambda n, steps: transformer(n, steps=steps), 2)]
)
def test_models_repeat_their_step(make: object, steps: int) -> None:
    one, many = make(2, steps=1), make(2, steps=steps)  # type: ignore[operator]
    assert many.n_calls == steps * one.n_calls
    assert many.n_constants == one.n_constants
    assert many.compute_ns == steps * one.compute_ns
    n = one.n_calls
    for column in ("call_operator", "call_time_ns", "call_phase", "call_module"):
        values = getattr(many, column)
        assert (values[:n] == values[n : 2 * n]).all()
    first, second = many.call_forward[:n], many.call_forward[n : 2 * n]
    assert ((first < 0) == (second < 0)).all()
    assert (second[second >= 0] == first[first >= 0] + n).all()


@pytest.mark.parametrize("trace", [tree(3), u_shape(3), transformer(2)], ids=lambda t: t.name)
def test_a_model_ends_with_its_loss_and_the_gradients_of_its_weights(trace: Trace) -> None:
    released = {line.split()[1] for line in script(trace) if line.startswith("release")}
    constants = {line.split()[1] for line in script(trace) if line.startswith("constant")}
    left = set(trace.names) - released - constants
    n_weights = sum(1 for name in constants if name not in ("x",) and "leaf" not in name)
    assert len(left) == n_weights + 1
    assert trace.call_phase.tolist() == sorted(trace.call_phase.tolist())
    assert (trace.call_forward[trace.call_phase == 1] == -1).all()


def test_a_tree_has_a_node_for_each_pair() -> None:
    lines = script(tree(4))
    assert sum("=embed(" in line for line in lines) == 16
    assert sum("=combine(" in line for line in lines) == 15


def test_random_traces_are_the_same_for_the_same_seed() -> None:
    assert random_dag(7) == random_dag(7)
    assert random_dag(7) != random_dag(8)


def test_random_traces_have_everything_that_a_trace_may_have() -> None:
    traces = [random_dag(seed) for seed in range(30)]
    codes = {code for trace in traces for code in trace.instructions[:, 0].tolist()}
    assert codes == set(range(6))
    assert {trace.rebinding for trace in traces} == {"listed", "storage"}
    for column in ("call_workspace_bytes", "call_tags", "call_phase", "mutate_args"):
        assert any(getattr(trace, column).any() for trace in traces), column
    aliases = {alias for trace in traces for alias in trace.result_alias.tolist()}
    assert {-3, -2, -1, 0, 1} <= aliases
    assert any((trace.call_time_ns == 0).any() for trace in traces)
    assert any((trace.result_bytes[trace.result_alias == -1] == 0).any() for trace in traces)
    late = [trace.instructions[:, 0].tolist() for trace in traces]
    assert any(CONSTANT in codes[codes.index(CALL) :] for codes in late)


def test_a_spec_says_what_to_make() -> None:
    assert synthetic("chain:5") == synthetic("synthetic:chain:5") == chain(5)
    assert synthetic("tree:3,size_bytes=7,steps=2") == tree(3, size_bytes=7, steps=2)
    assert synthetic("random:3") == random_dag(3)
    assert synthetic("chain:5,steps=2").name == "chain:5,steps=2"


FAMILIES = "chain, tree, u_shape, transformer, random"
HINT = f"such as chain:1000 or tree:6,steps=2; families: {FAMILIES}"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("chains:5", f"synthetic trace 'chains': unknown; {HINT}"),
        ("", f"synthetic trace '': unknown; {HINT}"),
        ("chain", f"synthetic trace 'chain': '' is no number; {HINT}"),
        ("chain:x", f"synthetic trace 'chain:x': 'x' is no number; {HINT}"),
        ("chain:-1", f"synthetic trace 'chain:-1': '-1' is no number; {HINT}"),
        ("chain:5,", f"synthetic trace 'chain:5,': '' is no number; {HINT}"),
        ("chain:5,steps=2,steps=2", f"synthetic trace 'chain:5,steps=2,steps=2': "
         f"'steps=2' is no number; {HINT}"),
        ("chain:5,colour=2", f"synthetic trace 'chain:5,colour=2': "
         f"got an unexpected keyword argument 'colour'; {HINT}"),
        ("chain:0", "synthetic trace: n 0 is not from 1 to 100,000,000"),
        ("tree:40", "synthetic trace: depth 40 is not from 1 to 24"),
        ("chain:5,steps=0", "synthetic trace: steps 0 is not from 1 to 100,000,000"),
    ],
)  # fmt: skip
def test_a_spec_that_means_nothing_is_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        synthetic(spec)
    assert str(caught.value) == message
    assert isinstance(caught.value, UnknownNameError) == ("unknown;" in message)
