"""Torch is called for what writes to a tensor: who reads the tensor before reads it as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import anyshape

Tensor = torch.Tensor

#: Each changes the tensor of six rows; the other has positions of rows.
WRITES: dict[str, Callable[[Tensor, Tensor], object]] = {
    "embedding": lambda x, i: functional.embedding(i, x, max_norm=1.0),
    "embedding by position": lambda x, i: functional.embedding(i, x, None, 1.0),
    "embedding of a part": lambda x, i: functional.embedding(i % 5, x[1:], max_norm=1.0),
    "embedding_bag": lambda x, i: functional.embedding_bag(i[None], x, max_norm=1.0),
    "several": lambda x, i: torch.ops.aten._foreach_add_.Scalar([x], 1.0),
    "renorm_": lambda x, i: x.renorm_(2, 0, 1.0),
    "put_": lambda x, i: x.put_(i, torch.ones(i.shape[0])),
    "masked_scatter_": lambda x, i: x.masked_scatter_(x > 0, x * 2),
    "fill_diagonal_": lambda x, i: x.fill_diagonal_(3),
    "scatter_reduce_": lambda x, i: x.scatter_reduce_(
        0, i[:, None].expand(-1, 4), torch.ones(i.shape[0], 4), "amax"
    ),
    "statistics": lambda x, i: functional.batch_norm(
        torch.ones(4, 4), x[0], x[1].abs(), training=True
    ),
    "aten": lambda x, i: torch.ops.aten.index_put_(x, [i], x[:1] * 2),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_was_read_before_stays(name: str) -> None:
    write = WRITES[name]

    def function(x: Tensor, i: Tensor) -> tuple[Any, ...]:
        before = x * 2
        write(x, i)
        return before, x * 3

    compiled = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        for count in (3, 3, 4, 1):
            here = torch.arange(1.0, 25.0).view(6, 4)
            there, positions = here.clone(), torch.arange(count)
            for wanted, found in zip(
                function(here, positions), compiled(there, positions), strict=True
            ):
                assert torch.allclose(wanted, found)
            assert torch.allclose(here, there)
