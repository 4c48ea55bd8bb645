from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.native.checks import FLOATS, SPECIAL, check, floats

SHAPES = ((4, 6), (6, 17), (2, 1), (2, 0))

ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "elu": lambda x: F.elu(x, 0.5),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 2.0),
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu of tanh": lambda x: F.gelu(x, approximate="tanh"),
    "mish": F.mish,
    "softplus": lambda x: F.softplus(x, 2.0, 5.0),
    "softshrink": F.softshrink,
    "hardshrink": F.hardshrink,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "glu": lambda x: F.glu(x, 0),
    "logsigmoid": F.logsigmoid,
    "rrelu": F.rrelu,
    "softmin": lambda x: F.softmin(x, -1),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_as_eager(name: str, dtype: torch.dtype) -> None:
    calls = [[x] for x in floats(*SHAPES, dtype=dtype)]
    # Torch has a NaN for the gelu of an infinity where it uses wide vectors.
    special = SPECIAL[3:] if name == "gelu" else SPECIAL
    plans = check(ACTIVATIONS[name], [*calls, [special.to(dtype).reshape(-1, 1)]])
    assert len(plans.made) == len({id(plan) for plan in plans.made})


@pytest.mark.parametrize("weights", [1, 6])
def test_prelu(weights: int) -> None:
    module = torch.nn.PReLU(weights)
    check(module, [[x] for x in floats((4, 6), (9, 6), (2, 6, 5))])


def test_one_kernel() -> None:
    plans = check(lambda x: F.gelu(F.silu(x) + 1), [[x] for x in floats(*SHAPES)])
    assert len(plans.kernels) == 1


def test_integers_are_rectified() -> None:
    check(F.relu, [[torch.arange(-3, 4)], [torch.arange(-30, 4)]])


@pytest.mark.parametrize("function", [F.silu, F.relu, F.elu, F.hardtanh], ids=lambda f: f.__name__)
def test_in_place_on_demand(function: Callable[..., Any]) -> None:
    def program(x: torch.Tensor) -> Any:
        y = x * 2
        before = y + 1
        function(y, inplace=True)
        return y, before

    check(program, [[x] for x in floats(*SHAPES)])


def test_the_caller_sees_what_is_done_in_place() -> None:
    def program(x: torch.Tensor) -> Any:
        return F.silu(x, True) + 1, x

    check(program, [[x] for x in floats(*SHAPES)])


def test_called_out_in_place() -> None:
    def program(x: torch.Tensor) -> Any:
        y = x * 2
        before = y + 1
        F.rrelu(y, 0.25, 0.25, training=True, inplace=True)
        return y, before

    check(program, [[x] for x in floats(*SHAPES)], called=["rrelu"])
