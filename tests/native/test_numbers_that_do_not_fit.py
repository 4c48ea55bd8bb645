"""Integers that vary, in the place of a number that the dtype may not have: eager's own error where
it is one, and eager's answer where it is cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import anyshape

Tensor = torch.Tensor

FUNCTIONS: dict[str, Callable[[Tensor, int], Any]] = {
    "full": lambda x, k: torch.full((x.shape[0],), k, dtype=x.dtype),
    "full_like": lambda x, k: torch.full_like(x, k),
    "fill_": lambda x, k: x.clone().fill_(k),
    "masked_fill": lambda x, k: x.masked_fill(x > 2, k),
    "clamp": lambda x, k: (x.clamp(max=k), x.clamp(k, 100)),
    "where": lambda x, k: torch.where(x > 2, x, k),
    "pad": lambda x, k: functional.pad(x, (1, 2), value=k),
    "index_fill": lambda x, k: x.index_fill(0, torch.tensor([0]), k),
    "arithmetic": lambda x, k: (x + k, x * k, k - x),
    "compared": lambda x, k: (x == k, x < k, k >= x),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float16, torch.int64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_in_eager(name: str, dtype: torch.dtype) -> None:
    function = FUNCTIONS[name]

    def program(x: Tensor, k: int) -> Any:
        return function(x, k)

    compiled = anyshape.compile(program, dynamic=True)
    x = torch.arange(6).to(dtype)
    with torch.no_grad():
        for k in (3, 3, 2, -1, 300, 70000, 2**40, 2**62 + 1):
            try:
                wanted = function(x, k)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=str(error)[:20]):
                    compiled(x, k)
                continue
            torch.testing.assert_close(compiled(x, k), wanted, rtol=0, atol=0, equal_nan=True)
