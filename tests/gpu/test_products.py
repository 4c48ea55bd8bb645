"""Products that are asked of the library itself, on a GPU: torch's results, at any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from tests.gpu.device import DEVICE, needs_gpu

pytestmark = needs_gpu

SIZES = [(64, 64), (72, 40), (1024, 256), (1000, 33), (17, 24)]
ROWS = (4, 1, 2, 3, 7, 16, 33, 64, 100, 257, 0, 1000)


class Products(nn.Module):
    """Alone, in groups that may be one product and that may not, in batches."""

    def __init__(self, depth: int, columns: int) -> None:
        super().__init__()
        self.several = nn.ModuleList(nn.Linear(depth, columns) for _ in range(3))
        self.plain = nn.ModuleList(nn.Linear(depth, columns, bias=False) for _ in range(2))
        self.wide = nn.Linear(depth, 2 * columns, bias=False)
        self.weight = nn.Parameter(torch.randn(depth, columns))

    def forward(self, x: Tensor) -> list[Tensor]:
        made = [each(x) for each in (*self.several, *self.plain, self.wide)]
        pairs = x.unsqueeze(0).expand(3, -1, -1).contiguous()
        made += [x @ self.weight, x[:, 1:] @ self.weight[1:], pairs @ pairs.mT]
        return [each.relu() for each in made]


def _compared(function: Callable[..., Any], compiled: Callable[..., Any], x: Tensor) -> None:
    for got, want in zip(compiled(x), function(x), strict=True):
        largest = float(want.float().abs().max()) if want.numel() else 1.0
        torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2 * largest)


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("depth", "columns"), SIZES)
def test_products(depth: int, columns: int, dtype: torch.dtype, mode: Any) -> None:
    torch.manual_seed(0)
    model: Any = Products(depth, columns).to(DEVICE, dtype)
    compiled = anyshape.compile(model, dynamic=True, mode=mode)
    with torch.no_grad():
        for rows in ROWS:
            x = torch.randn(rows, depth, device=DEVICE, dtype=dtype)
            for _ in range(1 if mode is None else 4):
                _compared(model, compiled, x)
    assert compiled.stats().graphs == 1


def test_accumulation_in_float16_is_torchs() -> None:
    """Where a user asks for it, it is not what we do."""
    weight = torch.randn(64, 64, device=DEVICE, dtype=torch.float16)
    compiled = anyshape.compile(lambda x: (x @ weight).relu(), dynamic=True)
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_fp16_accumulation
    matmul.allow_fp16_accumulation = True
    try:
        with torch.no_grad():
            for rows in (5, 9):
                x = torch.randn(rows, 64, device=DEVICE, dtype=torch.float16)
                torch.testing.assert_close(compiled(x), (x @ weight).relu(), rtol=2e-2, atol=1e-1)
    finally:
        matmul.allow_fp16_accumulation = before
