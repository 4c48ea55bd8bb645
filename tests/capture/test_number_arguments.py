"""A tensor where an operator takes an integer is read on every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "chunk": lambda x, t: x.chunk(t),
    "split": lambda x, t: torch.split(x, t),
    "narrow": lambda x, t: x.narrow(0, 0, t),
    "sum": lambda x, t: x.sum(dim=t - 2),
    "view": lambda x, t: x[: 2 * int(t)].view(t, -1),
    "a list of sizes": lambda x, t: x.new_zeros([t, 2]),
    "unsqueeze": lambda x, t: x.unsqueeze(t - 2),
    "topk": lambda x, t: x.topk(t, 0),
    "repeat": lambda x, t: x.repeat(t, 1),
    "transpose": lambda x, t: x.transpose(0, t - 2),
    "a scalar, which is data": lambda x, t: x * t + torch.clamp(x, max=t),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_values(name: str) -> None:
    function = PROGRAMS[name]
    compiled = anyshape.compile(function)
    for number in (2, 2, 3, 3, 2):
        x = torch.arange(24.0).reshape(8, 3)
        t = torch.tensor(number)
        torch.testing.assert_close(compiled(x, t), function(x, t))
