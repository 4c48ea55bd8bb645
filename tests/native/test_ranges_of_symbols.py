"""Kernels that read alike, of a size and of an integer that may be negative."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.native.checks import check, floats

Tensor = torch.Tensor


def quotients(x: Tensor, y: Tensor, z: Tensor, k: int) -> tuple[Tensor, ...]:
    return y * (z.shape[0] // 3 + 1), x * (k // 3 + 1), z * 2


def remainders(x: Tensor, y: Tensor, z: Tensor, k: int) -> tuple[Tensor, ...]:
    return y * (z.shape[0] % 3 + 1), x * (k % 3 + 1), z * 2


@pytest.mark.parametrize("function", [quotients, remainders])
def test_a_size_is_not_taken_for_an_integer(function: Callable[..., object]) -> None:
    x, y, z = floats((5,), (7,), (9,))
    check(function, [(x, y, z, 4), (x, y, z, -7), (x[:2], y, z, -100), (x, y, z[:4], 5)])
