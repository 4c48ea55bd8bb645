from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.native.checks import check, floats

FACTORIES: dict[str, Callable[..., Any]] = {
    "zeros": lambda x: x + torch.zeros(x.shape),
    "ones": lambda x: torch.ones(x.shape[1], x.shape[0], dtype=torch.int32),
    "zeros_like": lambda x: torch.zeros_like(x),
    "ones_like of a view": lambda x: torch.ones_like(x.t()),
    "full": lambda x: torch.full(x.shape, 2.5),
    "full of integers": lambda x: torch.full((x.shape[0],), 7),
    "full of a size": lambda x: torch.full((3,), x.shape[0]),
    "full_like": lambda x: torch.full_like(x, 3, dtype=torch.bool),
    "new_full": lambda x: x.new_full((x.shape[0], 2), -1.0),
    "new_zeros": lambda x: x.new_zeros(x.shape[0]),
    "new_ones": lambda x: x.new_ones(x.shape),
    "scalar_tensor": lambda x: x * torch.scalar_tensor(2.0),
    "tensor": lambda x: x * torch.tensor(2.0),
    "tensor of several": lambda x: x[:, :1] * torch.tensor([0.5, -2.0, 3.0]),
    "tensor of integers": lambda x: x[:, :1] * torch.tensor([2, -1]),
    "tensor of booleans": lambda x: torch.where(torch.tensor([True, False]), x[:, :1], 0.0),
    "tensor of bf16": lambda x: torch.tensor([1, -2.005, float("nan"), -0.0], dtype=torch.bfloat16),
    "tensor taken apart": lambda x: x * torch.tensor([3.0, 4.0])[1],
    "arange": lambda x: torch.arange(x.shape[0]),
    "arange from": lambda x: torch.arange(2, x.shape[0] + 4),
    "arange by": lambda x: torch.arange(0, x.shape[0] * 3, 2),
    "arange down": lambda x: torch.arange(x.shape[0], 0, -1),
    "arange of floats": lambda x: torch.arange(x.shape[0], dtype=torch.float32),
    "arange by fractions": lambda x: torch.arange(0, x.shape[0], 0.5),
    "eye": lambda x: torch.eye(x.shape[0], x.shape[1]),
    "eye of booleans": lambda x: torch.eye(x.shape[0], dtype=torch.bool),
    "linspace": lambda x: torch.linspace(-1, 3, x.shape[0]),
    "linspace in f64": lambda x: torch.linspace(0.1, 0.7, x.shape[1], dtype=torch.float64),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_as_eager(name: str) -> None:
    check(FACTORIES[name], [[x] for x in floats((4, 6), (7, 17), (2, 1), (1, 3), (20, 31))])


def test_what_is_empty_is_filled_in_place() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.zeros(x.shape).add_(x), torch.zeros_like(x)

    check(program, [[x] for x in floats((4, 6), (7, 17))])
