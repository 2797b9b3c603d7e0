"""A plan as a list, and as a selective policy: what is said is what PyTorch then does."""

from __future__ import annotations

import ast
import copy
import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rematsim
from rematsim.cli.main import main
from rematsim.errors import PlanError
from rematsim.plan import Plan, plan_of_run
from rematsim.plan_choices import PlanChoices
from rematsim.policies import EARLY, IN_VAIN, TWICE, policy_of
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)

RNG_STATE = 5_056  # bytes that torch.utils.checkpoint keeps of the generator for each block


def planned(trace: Trace, method: str, budget: str) -> Plan:
    plan = rematsim.plan_trace(trace, method, budget).plan
    assert plan is not None
    return plan


@pytest.fixture(scope="module")
def gpt() -> Trace:
    return load_trace("bundled:gpt")


def test_the_list_adds_up_to_the_run(gpt: Trace) -> None:
    """Calls, times and saved bytes are those of the plan's execution."""
    plan = planned(gpt, "m-of-n", "0.6x")
    row, rows = rematsim.execute(gpt, plan), PlanChoices(gpt, plan).rows()
    assert sum(choice.remats for choice in rows) == row.rematerializations > 0
    assert sum(choice.remat_ns for choice in rows) == row.remat_ns
    choices = PlanChoices(gpt, plan)
    assert not choices.saved.keys() & choices.remats.keys()


def test_a_policy_of_whole_blocks_says_all_of_such_a_plan(gpt: Trace) -> None:
    """m-of-n is what people do with the same function: as many blocks, about the same cost."""
    plan = planned(gpt, "m-of-n(m=4)", "unlimited")
    policy = policy_of(gpt, plan)
    assert list(policy.blocks) == [f"GPT.blocks.{k}" for k in range(4)]
    assert set(policy.unsaid) <= {IN_VAIN}
    row, simulated = rematsim.execute(gpt, plan), policy.simulated()
    assert simulated.status == "ok"
    assert simulated.slowdown == pytest.approx(row.slowdown, abs=0.02)


def test_what_is_saved_in_a_policy_does_not_run_again(gpt: Trace) -> None:
    policy = policy_of(gpt, planned(gpt, "knapsack", "0.6x"))
    whole = dataclasses.replace(policy, saved=set())
    assert policy.saved
    selective, full = policy.simulated(), whole.simulated()
    assert selective.rematerializations < full.rematerializations
    assert selective.remat_ns < full.remat_ns
    assert selective.peak_bytes > full.peak_bytes


def test_what_a_policy_cannot_say_is_counted(gpt: Trace) -> None:
    run = rematsim.simulate(gpt, "h_DTR_eq", "0.4x", event_log=True)
    plan = plan_of_run(workload(gpt).program, run)
    unsaid = policy_of(gpt, plan).unsaid
    assert unsaid.keys() & {TWICE, EARLY}


def test_names_cannot_become_code(gpt: Trace) -> None:
    """Whatever modules and traces are called, the file has the same statements."""
    plan = planned(gpt, "m-of-n(m=2)", "unlimited")
    policy = policy_of(gpt, plan)
    bad = '\'); import os  # """ {x}\n\u202e'
    evil = dataclasses.replace(
        policy, method=bad, blocks={f"GPT.{bad}.0": runs for runs in policy.blocks.values()}
    )
    kinds = [[type(node) for node in ast.parse(text).body] for text in (policy.text(), evil.text())]
    assert kinds[0] == kinds[1]
    assert evil.text().isascii()


def test_a_plan_that_runs_nothing_again_is_no_policy(gpt: Trace) -> None:
    with pytest.raises(PlanError, match="there is nothing for a policy to say"):
        policy_of(gpt, planned(gpt, "keep-all", "unlimited"))
    chain = load_trace("synthetic:chain:8")
    unknown = dataclasses.replace(chain, call_phase=np.zeros_like(chain.call_phase))
    with pytest.raises(PlanError, match="which calls are the forward pass"):
        policy_of(unknown, planned(unknown, "keep-all", "unlimited"))
    with pytest.raises(PlanError, match="it is for the trace 'gpt'"):
        policy_of(chain, planned(gpt, "keep-all", "unlimited"))


def test_a_plan_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["--method", "m-of-n", "--budget", "0.6x", "-o", "gpt.plan"]
    assert main(["plan", "bundled:gpt", *asked]) == 0
    capsys.readouterr()
    assert main(["export", "gpt.plan", "--list", "--json"]) == 0
    assert {row["phase"] for row in json.loads(capsys.readouterr().out)} == {"fwd"}
    assert main(["export", "gpt.plan", "--policy", "gpt_policy.py", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["blocks"] > 0 and told["policy"]["slowdown"] > 1
    compile(Path("gpt_policy.py").read_text(encoding="utf-8"), "gpt_policy.py", "exec")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.plan"], "give -o FILE"),
        (["x.plan", "--list", "--policy", "x.py"], "one of them"),
        (["x.plan", "--list", "-o", "x.log"], "one of them"),
        (["x.log", "-o", "y.log", "--trace", "z"], "--trace: it goes with"),
        (["x.plan", "--policy", "x.txt"], "must end in .py"),
    ],
)
def test_what_does_not_go_together_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["export", *arguments]) == 2
    assert message in capsys.readouterr().err


def model() -> Any:
    """Make a model of blocks with dropout."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up = nn.LayerNorm(32), nn.Linear(32, 128)
            self.down, self.dropout = nn.Linear(128, 32), nn.Dropout(0.1)

        def forward(self, x: Any) -> Any:
            return x + self.dropout(self.down(torch.nn.functional.gelu(self.up(self.norm(x)))))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.head = nn.ModuleList(Block() for _ in range(4)), nn.Linear(32, 8)

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    torch.manual_seed(0)
    return Net()


def imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_torch
@pytest.mark.parametrize("method", ["knapsack", "m-of-n", "h_DTR_eq"])
def test_pytorch_does_what_the_policy_says(method: str, tmp_path: Path) -> None:
    """The same gradients, the calls that the simulator runs again, and its peak."""
    import torch
    from rematsim.traces import capture_steps

    inputs = torch.randn(256, 32)

    def captured(net: Any) -> Any:
        def step() -> None:
            net(inputs).pow(2).mean().backward()
            for parameter in net.parameters():
                parameter.grad = None

        return capture_steps(step, net, repeat=1, name="net")

    plain = model()
    trace = captured(plain).trace
    if method.startswith("h_"):
        run = rematsim.simulate(trace, method, "0.6x", slowdown_limit=None, event_log=True)
        plan = plan_of_run(workload(trace).program, run)
    else:
        plan = planned(trace, method, "0.6x")
    policy = policy_of(trace, plan)
    (tmp_path / "policy.py").write_text(policy.text(), encoding="utf-8")
    checkpointed = copy.deepcopy(plain)
    imported(tmp_path / "policy.py").apply(checkpointed)

    for net in (plain, checkpointed):
        torch.manual_seed(1)
        net(inputs).pow(2).mean().backward()
    pairs = zip(plain.parameters(), checkpointed.parameters(), strict=True)
    assert all(torch.equal(one.grad, other.grad) for one, other in pairs)

    for parameter in checkpointed.parameters():
        parameter.grad = None
    log, simulated = captured(checkpointed), policy.simulated()
    assert simulated.status == "ok"
    assert log.recomputed_ops - len(policy.blocks) == simulated.rematerializations
    room = (len(policy.blocks) + 1) * RNG_STATE
    assert simulated.peak_bytes <= log.peak_bytes <= simulated.peak_bytes + room
