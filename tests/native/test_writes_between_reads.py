"""A tensor is read, written to and read again, all of it in one kernel: what is computed of it
before is not what is computed of it afterwards, though it reads alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.native.checks import check, floats

Tensor = torch.Tensor


def halved(x: Tensor) -> tuple[Tensor, ...]:
    before = x.exp().sum(1)
    x.mul_(0.5)
    total = x.sum(1)
    return before, total, x.exp() * total[:, None]


def twice(x: Tensor) -> tuple[Tensor, ...]:
    before = x.sin().sum(1)
    x.mul_(0.5)
    total = x.sum(1)
    after = (x.sin() * total[:, None]).sum(1)
    x.mul_(0.5)
    return before, after, x.sin().sum(1) + total


def of_a_new_tensor(x: Tensor) -> tuple[Tensor, ...]:
    y = x + 1
    before = y.tanh().sum(1, keepdim=True)
    y.mul_(before)
    most = y.sum(1, keepdim=True)
    y.sub_(y.tanh() * most)
    return y.tanh().sum(1), before, most


def normalised(x: Tensor) -> tuple[Tensor, ...]:
    first = torch.softmax(x, 1)
    x.copy_(first)
    second = torch.softmax(x, 1)
    x.add_(second)
    return first, second, torch.softmax(x, 1)


def centred(x: Tensor) -> tuple[Tensor, ...]:
    middles: list[Tensor] = []
    for _ in range(3):
        middle = x.exp().mean(1, keepdim=True)
        x.sub_(middle)
        middles.append(middle)
    return (*middles, x.exp().sum(1))


def of_rows(x: Tensor) -> tuple[Tensor, ...]:
    row = x[:, 0].contiguous()
    first = (x * row[:, None]).sum(1)
    row.add_(first)
    second = (x - row[:, None]).sigmoid().sum(1)
    row.mul_(second)
    return row, first, second, (x + row[:, None]).sigmoid().sum(1)


@pytest.mark.parametrize("function", [halved, twice, of_a_new_tensor, normalised, centred, of_rows])
def test_what_is_read_after_a_write_is_new(function: Callable[[Tensor], object]) -> None:
    shapes = ((4, 3), (5, 7), (1, 1), (17, 33), (40, 130))
    check(function, [(each * 0.1,) for each in floats(*shapes)])
