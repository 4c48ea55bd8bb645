"""A tensor that stands for a size is read at each call, wherever an operator takes sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils._pytree import tree_leaves

import anyshape

CASES: dict[str, Callable[[Any], Any]] = {
    "last": lambda n: torch.zeros(2, n[0]),
    "first": lambda n: torch.zeros(n[0], 3),
    "only": lambda n: torch.zeros(n[0]),
    "one element": lambda n: torch.zeros(2, n[:1]),
    "tuple": lambda n: torch.zeros((n[0], 3)),
    "list": lambda n: torch.zeros([n[0], 3]),
    "named": lambda n: torch.zeros(size=(n[0], 2)),
    "star": lambda n: torch.zeros(*n),
    "tuple of all": lambda n: torch.zeros(tuple(n)),
    "computed": lambda n: torch.zeros(n.max(), 2),
    "product": lambda n: torch.zeros(n[0] * 2),
    "ones": lambda n: torch.ones(2, n[0]),
    "empty": lambda n: torch.empty(2, n[0]).shape,
    "full": lambda n: torch.full((2, n[0]), 3.0),
    "eye": lambda n: torch.eye(n[0]),
    "eye of two": lambda n: torch.eye(2, n[0]),
    "rand": lambda n: torch.rand(n[0], 2).shape,
    "randn": lambda n: torch.randn(2, n[0]).shape,
    "randperm": lambda n: torch.randperm(n[0]).shape,
    "new_zeros": lambda n: n.new_zeros(2, n[0]),
    "new_ones": lambda n: n.new_ones(2, n[0], 1),
    "new_full": lambda n: n.new_full((2, n[0]), 7),
    "new_empty": lambda n: n.new_empty(2, n[0]).shape,
    "arange": lambda n: torch.arange(n[0]),
    "linspace": lambda n: torch.linspace(0, 1, n[0]),
    "window": lambda n: torch.hann_window(n[0]),
    "triangle": lambda n: torch.tril_indices(n[0], 3),
    "interpolate": lambda n: F.interpolate(torch.ones(1, 1, 4), size=n[0]),
    "pad": lambda n: F.pad(torch.ones(3), (0, n[0])),
    "pool": lambda n: F.adaptive_avg_pool1d(torch.ones(1, 1, 8), n[0]),
    "one_hot": lambda n: F.one_hot(torch.tensor([0, 1]), n[0] + 2),
    "expand": lambda n: torch.ones(1, 3).expand(n[0], 3),
    "view": lambda n: torch.arange(60).view(n[0], -1),
    "unflatten": lambda n: torch.ones(60).unflatten(0, (n[0], -1)),
    "repeat": lambda n: torch.ones(2).repeat(n[0]),
    "repeat_interleave": lambda n: torch.ones(2).repeat_interleave(n[0]),
    "narrow": lambda n: torch.arange(9).narrow(0, 0, n[0]),
    "split": lambda n: torch.arange(9).split(n[0]),
    "chunk": lambda n: torch.arange(9).chunk(n[0]),
    "topk": lambda n: torch.arange(9.0).topk(n[0]).values,
    "unfold": lambda n: torch.arange(9).unfold(0, n[0], 1),
    "sum": lambda n: torch.ones(2, 3, 4, 5, 6, 7).sum(n[0]),
    "select": lambda n: torch.arange(9).select(0, n[0]),
    "roll": lambda n: torch.arange(6).roll(n[0]),
    # These take tensors.
    "add": lambda n: torch.ones(3) + n[0],
    "where": lambda n: torch.where(n[0] > 3, n[0], n[1]),
    "stack": lambda n: torch.stack([n[0], n[1]]),
    "index": lambda n: torch.arange(9)[n[0]],
    "clamp": lambda n: torch.arange(9).clamp(max=n[0]),
    "meshgrid": lambda n: torch.meshgrid(n[0], n[1:], indexing="xy"),
    "meshgrid of a list": lambda n: torch.meshgrid([n[0], n[1]], indexing="ij"),
    "broadcast_tensors": lambda n: torch.broadcast_tensors(n[:1], n[1]),
    "cartesian_prod": lambda n: torch.cartesian_prod(n[:1], n[1:]),
    "block_diag": lambda n: torch.block_diag(n[0], n[1]),
    "atleast_2d": lambda n: torch.atleast_2d(n[0], n[1]),
    "einsum": lambda n: torch.einsum("i,i->i", n[:1], n[1:]),
    "embedding": lambda n: F.embedding(n[0], torch.arange(20.0).view(10, 2)),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", CASES)
def test_each_call_reads_it(name: str, dynamic: bool | None) -> None:
    function = CASES[name]
    compiled = anyshape.compile(function, dynamic=dynamic)
    for values in ([2, 3], [5, 4], [3, 3], [4, 2], [5, 5], [1, 1]):
        n = torch.tensor(values)
        wanted, given = tree_leaves(function(n)), tree_leaves(compiled(n))
        assert len(wanted) == len(given)
        for a, b in zip(wanted, given, strict=True):
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_packed_sequences() -> None:
    lstm = torch.nn.LSTM(4, 5, batch_first=True)

    def function(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(lstm(packed)[0], batch_first=True)

    compiled = anyshape.compile(function)
    for batch in (2, 4, 3, 5, 2, 4, 7, 1):
        x, lengths = torch.randn(batch, 6, 4), torch.randint(1, 7, (batch,))
        wanted, given = function(x, lengths), compiled(x, lengths)
        torch.testing.assert_close(given[0], wanted[0])
        assert torch.equal(given[1], wanted[1])
