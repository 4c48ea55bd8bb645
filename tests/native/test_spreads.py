"""Variances as exact as eager's: of numbers whose squares are too large for their dtype, and of
numbers that are far from zero and close to each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import anyshape


def spreads(x: torch.Tensor) -> list[Any]:
    x = x * 1
    return [
        *(x.var(-1), x.std(-1), x.std(0), x.var((0, 1)), x.std(), x.var(-1, correction=0)),
        *(torch.var_mean(x, dim=-1)[0], torch.std_mean(x, dim=0, keepdim=True)[0]),
    ]


@pytest.mark.parametrize("has_grad", [False, True], ids=["plain", "gradients"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("scale", "offset"), [(2e19, 0.0), (1.0, 1e6), (1.0, 0.0), (1e-25, 0.0)])
def test_spreads(scale: float, offset: float, dtype: torch.dtype, has_grad: bool) -> None:
    compiled = anyshape.compile(spreads, dynamic=True)
    for size in (3, 8, 2, 65):
        x = torch.linspace(-scale, scale, 4 * size).reshape(4, size).add(offset).to(dtype)
        exact = [each.to(dtype) for each in spreads(x.double())]
        x.requires_grad_(has_grad)
        compiled(x)  # The first call of all is eager's, which is less exact where it folds all.
        found = [each.detach() for each in compiled(x)]
        close = 1e-2 if dtype != torch.float32 else 1e-5
        torch.testing.assert_close(found, exact, rtol=close, atol=1e-44)


def test_whole_numbers_of_all_sizes() -> None:
    compiled = anyshape.compile(lambda x: x.float().std(), dynamic=True)
    for size in (5, 9, 4):
        x = torch.linspace(-(2.0**62), 2.0**62, size).long()
        for _ in range(2):
            torch.testing.assert_close(compiled(x), x.double().std().float())
