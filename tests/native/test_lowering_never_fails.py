"""Programs whose lowering failed, which only `config.on_compile_error = "raise"` shows, and their
kin: no compile of these fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape
from tests import devices


def _where_largest(x: torch.Tensor) -> torch.Tensor:
    return x.max(0, keepdim=True)[1]


def _count(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(1, x.shape[0] * 2 + 1, 2)


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    # positions that are computed from reductions
    "scatter": lambda x: (i := _where_largest(x)).scatter(0, i * 0, i),
    "scatter_add": lambda x: (i := _where_largest(x)).scatter_add(0, i * 0, i),
    "scatter into x": lambda x: x.scatter(0, _where_largest(x), 1.0),
    "scatter of sums": lambda x: x.scatter(0, _where_largest(x), x.sum(0, keepdim=True)),
    "index_add": lambda x: x.index_add(0, x.argmax(0)[:1], x[:1]),
    "index_copy": lambda x: x.index_copy(0, x.argmin(0)[:1], x[:1]),
    "gather": lambda x: x.gather(0, _where_largest(x)),
    "getitem": lambda x: x[x.argmax(0)],
    "setitem": lambda x: x.clone().index_put_((x.argmax(0),), x[:1]),
    "take_along_dim": lambda x: x.take_along_dim(_where_largest(x), 0),
    # what a row knows of its own result is not known when somebody reads it
    "sort": lambda x: _count(x).sort(),
    "split": lambda x: _count(x).split(2),
    "kthvalue": lambda x: _count(x).kthvalue(1),
    "topk": lambda x: _count(x).topk(1),
    "unbind": lambda x: _count(x).unbind(),
    "max": lambda x: _count(x).max(0),
    "aminmax": lambda x: (_count(x) * 0.5).aminmax(),
    # a dimension known to be 0
    "nothing": lambda x: x[:, :0] + 1,
    "sum of nothing": lambda x: (x[:, :0].reshape(-1) + 1).sum(),
    "nothing joined": lambda x: torch.cat([x[:, :0] * 2, x], 1),
    "softmax of nothing": lambda x: x[:, :0].softmax(-1),
    "product of nothing": lambda x: (x[:, :0] + 1) @ (x[:, :0] + 1).t(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str) -> None:
    program = PROGRAMS[name]
    compiled = anyshape.compile(program, dynamic=True)
    with torch.no_grad(), anyshape.config.patch(on_compile_error="raise"):
        for size in (4, 4, 5):
            x = torch.randn(size, size - 1, generator=devices.generator(size))
            torch.testing.assert_close(compiled(x.clone()), program(x.clone()))


_BY_NUMBER: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "movedim": lambda x, n: x.movedim(n, 0),
    "moveaxis": lambda x, n: x.moveaxis(0, n) + 1,
    "sum": lambda x, n: x.sum(n),
    "flip": lambda x, n: x.flip(n),
    "squeeze": lambda x, n: x.squeeze(n),
    "unsqueeze": lambda x, n: x.unsqueeze(n),
    "amax": lambda x, n: x.amax(n),
    "roll": lambda x, n: x.roll(1, n),
    "max": lambda x, n: x.max(n),
    "norm": lambda x, n: torch.linalg.norm(x, dim=n),
    "cat": lambda x, n: torch.cat([x, x], n),
    "softmax": lambda x, n: x.softmax(n),
}


@pytest.mark.parametrize("name", _BY_NUMBER)
def test_a_dimension_by_a_dynamic_integer(name: str) -> None:
    program = _BY_NUMBER[name]
    compiled = anyshape.compile(program, dynamic=True)
    with torch.no_grad(), anyshape.config.patch(on_compile_error="raise"):
        for dim in (1, 1, 0, 2):
            x = torch.randn(2, 3, 4)
            torch.testing.assert_close(compiled(x, dim), program(x, dim))
