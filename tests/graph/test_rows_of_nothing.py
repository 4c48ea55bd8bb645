"""Tensors of no elements among others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.graph.comparing import check


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cat([torch.tensor([]), x], dim=-2),
        lambda x: torch.cat([torch.tensor([]), x * 2, x], dim=1) + 1,
        lambda x: torch.cat([torch.tensor([]), x[:, 0]]),
        lambda x: torch.cat([torch.tensor([]), torch.tensor([])]),
        lambda x: torch.cat([torch.tensor([]), x.long()], 0),
    ],
)
def test_a_vector_of_nothing_goes_with_anything(function: Callable[..., Any]) -> None:
    check(function, [(torch.randn(n, m),) for n, m in ((3, 4), (1, 1), (7, 3), (0, 2))])
