"""Training in one process: compiled as eager, with graphs inside. The rest is in tests/slow."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from tests import forks
from tests.wrappers.programs import ROWS, Net, data, difference

#: Rows of every kind, the others are for the slow suite.
FAST = (
    "optimizer_sgd_momentum",
    "optimizer_adamw_foreach",
    "clip_compiled",
    "whole_step_adam",
    "forward_hooks",
    "forward_hook_that_keeps",
    "backward_hooks",
    "tensor_hooks",
    "global_hooks",
    "hooks_come_and_go",
    "parametrized",
    "weight_normed",
    "spectral_normed_by_hook",
    "data_parallel",
    "data_parallel_around",
    "forward_only",
)
#: Seven steps with five sizes need a few graphs a part, whatever is wrapped around.
MOST_GRAPHS = 24
#: Those that branch on data, once for each parameter, or on numbers that no two steps share.
MANY_GRAPHS = {"optimizer_asgd": 80, "optimizer_radam": 60, "step_with_closure": 100}


def check(name: str) -> None:
    made: list[Any] = []

    def compile(function: Any) -> Any:
        made.append(anyshape.compile(function))
        return made[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        expected = ROWS[name](lambda function: function)
        torch.manual_seed(0)
        found = ROWS[name](compile)
    assert difference(expected, found) is None
    most = MANY_GRAPHS.get(name, MOST_GRAPHS)
    assert 0 < sum(each.stats().graphs for each in made) <= most
    assert sum(each.stats().hits for each in made) > 0


@pytest.mark.parametrize("name", FAST)
def test_compiled_as_eager(name: str):
    check(name)


def test_graphs_are_bounded_over_many_sizes():
    """After the first calls nothing is compiled for a size that is new."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @anyshape.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    seen: list[int] = []
    for x, y in data(tuple(range(2, 40))):
        step(x, y)
        seen.append(step.stats().graphs)
    assert 0 < seen[-1] == seen[12] <= 8


def test_hooks_of_optimizers_are_called_in_order():
    """They are registered, and removed, between steps of a compiled optimizer."""

    def run(compile: Any) -> list[Any]:
        torch.manual_seed(0)
        net = nn.Linear(3, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        step = compile(optimizer.step)
        log: list[Any] = []
        handles: list[Any] = []
        for index in range(8):
            if index == 3:
                before = optimizer.register_step_pre_hook(lambda *_: log.append("before"))
                after = optimizer.register_step_post_hook(lambda *_: log.append("after"))
                handles = [before, after]
            if index == 6:
                for handle in handles:
                    handle.remove()
            net.zero_grad()
            net(torch.ones(index + 1, 3)).sum().backward()
            step()
            log.append((index, net.weight.detach().clone()))
        return log

    assert difference(run(lambda function: function), run(anyshape.compile)) is None


def test_what_the_program_changes_between_steps_is_seen():
    """Rates, groups, frozen parameters and state that is loaded."""

    def run(compile: Any) -> list[Any]:
        torch.manual_seed(0)
        net = nn.Linear(6, 3, dtype=torch.float64)
        extra = nn.Parameter(torch.ones(3, dtype=torch.float64))
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        step = compile(optimizer.step)
        told: list[Any] = []
        kept: Any = None
        for index, (x, y) in enumerate(data((4, 5, 6, 7, 8, 9, 3, 2, 4, 5))):
            if index == 3:
                optimizer.param_groups[0]["lr"] = 0.05
                optimizer.param_groups[0]["weight_decay"] = 0.0
                kept = optimizer.state_dict()["state"]
            if index == 4:
                net.bias.requires_grad_(False)
            if index == 5:
                optimizer.add_param_group({"params": [extra], "lr": 0.5})
            if index == 7:
                groups = optimizer.state_dict()["param_groups"]
                optimizer.load_state_dict({"state": kept, "param_groups": groups})
            if index == 8:
                optimizer.param_groups[0]["betas"] = (0.5, 0.9)
            optimizer.zero_grad(set_to_none=index % 2 == 0)
            nn.functional.cross_entropy(net(x.double()) * extra, y).backward()
            step()
            told.append([p.detach().clone() for p in (net.weight, net.bias, extra)])
        return told

    assert difference(run(lambda function: function), run(anyshape.compile)) is None


#: What torch.compile marks at its first use is as it was before, and graphs are no more.
BESIDE_TORCH_COMPILE = """
import sys
import torch

sys.path.insert(0, sys.argv[1])
from tests.wrappers.test_wrappers import check

torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
assert hasattr(torch.optim.LBFGS.step, "_torchdynamo_disable_msg"), "torch marks nothing any more"
for name in sys.argv[2:]:
    check(name)
"""


@pytest.mark.slow
def test_beside_torch_compile(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(BESIDE_TORCH_COMPILE)
    names = ("optimizer_sgd_momentum", "optimizer_adamw_fused", "step_with_closure")
    root = Path(__file__).parents[2]
    done = forks.run([str(script), str(root), *names], root)
    assert done.returncode == 0, done.stderr


def test_what_the_program_disables_is_not_traced():
    """An optimizer's step too, which torch.compile disables for reasons of its own."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    setattr(optimizer, "step", torch.compiler.disable(optimizer.step))  # noqa: B010

    @anyshape.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        optimizer.step()
        return y.cos()

    step(torch.ones(3))
    assert "is not to be traced" in str(step.explain())
