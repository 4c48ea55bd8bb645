"""Compiled steps of optimizers: what eager code computes in Python is as precise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import optim

import anyshape

STEPS: Final = 9
OPTIMIZERS: Final[dict[str, Callable[..., optim.Optimizer]]] = {
    "adamw": lambda p, **more: optim.AdamW(p, lr=1e-2, **more),
    "amsgrad": lambda p, **more: optim.Adam(p, lr=1e-2, amsgrad=True, weight_decay=0.1, **more),
    "nadam": lambda p, **more: optim.NAdam(p, lr=1e-2, **more),
    "adamax": lambda p, **more: optim.Adamax(p, lr=1e-2, **more),
    "adagrad": lambda p, **more: optim.Adagrad(p, lr=1e-2, lr_decay=0.1, **more),
    "asgd": lambda p, **more: optim.ASGD(p, lr=1e-2, t0=3, **more),
}


def _trained(make: Any, foreach: bool, dtype: torch.dtype, is_compiled: bool) -> Any:
    torch.manual_seed(0)
    shapes = ((5, 7), (9,), (), (5, 7))
    parameters = [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]
    optimizer = make(parameters, foreach=foreach)
    step = anyshape.compile(optimizer.step) if is_compiled else optimizer.step
    captures: list[int] = []
    graphs = 0
    for _ in range(STEPS):
        for each in parameters:
            each.grad = torch.randn(each.shape, dtype=torch.float64).to(dtype)
        step()
        captures += [step.stats().captures] if is_compiled else []
        graphs = step.stats().graphs if is_compiled else 0
    return parameters, optimizer, captures, graphs


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("foreach", [False, True], ids=["one by one", "foreach"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_numbers_are_those_of_eager(name: str, foreach: bool, dtype: torch.dtype) -> None:
    expected, eager, *_ = _trained(OPTIMIZERS[name], foreach, dtype, is_compiled=False)
    found, ours, captures, graphs = _trained(OPTIMIZERS[name], foreach, dtype, is_compiled=True)
    exact = 16 * torch.finfo(dtype).eps
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=exact, atol=exact)
        for key, value in eager.state[theirs].items():
            torch.testing.assert_close(ours.state[mine][key], value, rtol=exact, atol=exact)
    if name != "asgd":  # It branches on its numbers.
        assert captures[-3:] == captures[-1:] * 3, "no compile for each step"
        if torch.get_default_device().type == "cpu":  # Where the counters are, too.
            assert graphs == 1, "the step is one graph"
