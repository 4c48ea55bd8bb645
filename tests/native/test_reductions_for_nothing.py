"""Results that are known to have no elements, of reductions of something that has none either:
nothing is read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: (x * 1.5).sum(0),
    "mean": lambda x: (x * 1.5).mean(0).exp(),
    "greatest": lambda x: x.amax(0) + 1,
    "variance": lambda x: x.var(0, correction=0) * 2,
    "softmax": lambda x: x.softmax(0) * 2,
    "norm": lambda x: F.layer_norm(x, x.shape[-1:]) * 2,
    "running sum": lambda x: x.cumsum(0) * 2,
    "product": lambda x: (x * 2).transpose(0, 1) @ (x + 1).transpose(0, 1).mT,
    "distances": lambda x: (x[:, None] - x[None]).abs().sum(0),
    "of all": lambda x: x.sum() + x.sum(0),
}


@pytest.mark.filterwarnings("ignore:var")  # torch warns of nothing, in eager code too
@pytest.mark.parametrize("name", PROGRAMS)
def test_static(name: str) -> None:
    compiled = anyshape.compile(PROGRAMS[name], dynamic=False)
    for _ in range(3):
        x = torch.randn(2, 0, 3)
        torch.testing.assert_close(compiled(x), PROGRAMS[name](x), equal_nan=True)


FOLDS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum([0], True),
    "mean": lambda x: x.mean(0, True),
    "greatest": lambda x: x.amax(0, True),
    "product": lambda x: x.prod(0, True),
    "logsumexp": lambda x: x.logsumexp(0, True),
    "any": lambda x: (x > 0).any(0, True).float(),
}


@pytest.mark.parametrize("name", FOLDS)
def test_by_what_is_known(name: str) -> None:
    """One more than the size is 1: it is 0."""

    def program(x: Tensor) -> Tensor:
        folded = FOLDS[name](x * 1.5).squeeze(0)
        return F.pad(folded, (0, 0, 0, 0, 0, 0, 1, 0)).squeeze(0)

    compiled = anyshape.compile(program, dynamic=True)
    for shape in ((3, 4, 2), (1, 1, 1), (5, 5, 5), (0, 1, 2)):
        x = torch.randn(2, 0, *shape)
        torch.testing.assert_close(compiled(x), program(x), equal_nan=True)
    assert "native code" in str(compiled.explain())
