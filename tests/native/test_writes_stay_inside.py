"""Nothing is written behind a result, whatever its sizes are multiples of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import anyshape

CANARY = -7.0
BEHIND = 256


def long_body(x: Tensor) -> Tensor:
    for _ in range(10):
        x = x.sin() + 1
    return x


def short_body(x: Tensor) -> Tensor:
    return x * 2 + 1


def one_function(x: Tensor) -> Tensor:
    return x.tanh()


def along_rows(x: Tensor) -> Tensor:
    return long_body(x - x.mean(0))


def of_rows(x: Tensor) -> Tensor:
    return long_body(x).softmax(-1)


PROGRAMS = [long_body, short_body, one_function, along_rows, of_rows]
LENGTHS = (16, 48, 80, 96, 17)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
def test_results(program: Callable[[Tensor], Tensor], dtype: torch.dtype, dynamic: bool) -> None:
    def f(x: Tensor, out: Tensor) -> None:
        out.copy_(program(x))

    compiled = anyshape.compile(f, dynamic=dynamic)
    rows = 3
    with torch.no_grad():
        for length in LENGTHS if dtype is torch.float32 else LENGTHS[:2]:
            x = torch.randn(rows, length).to(dtype)
            count = x.numel()
            memory = torch.full((count + BEHIND,), CANARY, dtype=dtype)
            for _ in range(2):
                compiled(x, memory[:count].view(rows, length))
            torch.testing.assert_close(memory[:count].view(rows, length), program(x))
            assert (memory[count:] == CANARY).all(), f"written behind {rows} x {length}"
    assert compiled.stats().eager_calls == 0
