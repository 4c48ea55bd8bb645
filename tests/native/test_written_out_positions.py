"""Subscripts with lists of positions in them: a list is not a tuple there."""

from __future__ import annotations

import pytest
import torch

import anyshape

#: of a tensor of six rows and four columns
KEYS = {
    "rows": ([0, 1],),
    "columns": (..., [0, 1]),
    "columns in order": (slice(None), [1, 0]),
    "pairs": ([0, 1], [1, 2]),
    "part": (slice(1, None), [1, 0]),
    "rows, part": ([0, 1], slice(1, None)),
    "flags": ([True, False, True, False, False, True],),
    "new dimension": (None, [0, 1]),
    "one row": (0, [1, 2]),
    "from the end": ([-1, -6],),
    "tuple": (0, 1),
}


@pytest.mark.parametrize("name", KEYS)
def test_lists_in_subscripts(name: str) -> None:
    key = KEYS[name] if len(KEYS[name]) > 1 else KEYS[name][0]

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        read = x[key] * 2
        x[key] = 7
        return read, x * 3

    compiled = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        for rows in (6, 6, 6):
            here = torch.arange(1.0, 1 + 4 * rows).view(rows, 4)
            there = here.clone()
            for wanted, found in zip(function(here), compiled(there), strict=True):
                assert torch.equal(wanted, found)
            assert torch.equal(here, there)
