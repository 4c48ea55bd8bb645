"""Positions computed by a kernel and looked up with by another: the one comes before the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape


def used_twice(x: Tensor, w: Tensor) -> Any:
    i = ((x * 3 + 1) % 5 + (x % 3)) % 5
    return w[i], i + 1, i * 2


def written(x: Tensor, w: Tensor) -> Any:
    i = torch.empty_like(x)
    i.copy_((x * 7) % 5)
    return w[i] + w.index_select(0, i), i


def written_in_part(x: Tensor, w: Tensor) -> Any:
    i = x.clone()
    i[1:] = 3
    return w[i % 5], i


def written_outside(x: Tensor, w: Tensor) -> Any:
    x.mul_(3).remainder_(5)
    return w[x] + 1, x


@pytest.mark.parametrize("width", [(), (3,)])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [used_twice, written, written_in_part, written_outside])
def test_lookups(function: Callable[..., Any], dynamic: bool | None, width: tuple[int, ...]):
    compiled = anyshape.compile(function, dynamic=dynamic)
    with torch.no_grad():
        for size in (7, 33, 1, 0, 100, 5000):
            x, w = torch.randint(0, 50, (size,)), torch.randn(5, *width)
            expected = function(x.clone(), w)
            for _ in range(2):
                for ours, theirs in zip(compiled(x.clone(), w), expected, strict=True):
                    assert torch.equal(ours, theirs)
