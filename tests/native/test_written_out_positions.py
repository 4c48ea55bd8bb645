"""Subscripts with lists of positions in them: a list is not a tuple there."""

from __future__ import annotations

import pytest
import torch

import anyshape
from tests.native.view_programs import function

#: of a tensor of six rows and four columns
KEYS = [
    "[0, 1]",
    "..., [0, 1]",
    ":, [1, 0]",
    "[0, 1], [1, 2]",
    "1:, [1, 0]",
    "[0, 1], 1:",
    "[True, False, True, False, False, True]",
    "None, [0, 1]",
    "0, [1, 2]",
    "[-1, -6]",
    "[0, x.shape[0] - 1]",
    "..., [0, x.shape[1] - 1]",
    "(0, 1)",
]


@pytest.mark.parametrize("key", KEYS)
def test_lists_in_subscripts(key: str) -> None:
    source = f"def f(x):\n    read = x[{key}] * 2\n    x[{key}] = 7\n    return read, x * 3\n"
    eager = function(source, f"{key} eager")
    compiled = anyshape.compile(function(source, key), dynamic=True)
    with torch.no_grad():
        for _ in range(2):
            here = torch.arange(24.0).view(6, 4)
            there = here.clone()
            for wanted, found in zip(eager(here), compiled(there), strict=True):
                assert torch.equal(wanted, found)
            assert torch.equal(here, there)
