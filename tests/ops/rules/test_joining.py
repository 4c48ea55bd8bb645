"""cat, stack and relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic

FIRST = {"b": 3, "s": 5, "t": 2}

#: Torch's stubs do not know all names of its parameters.
CONCATENATE: Any = torch.concatenate

#: Of x (b s 4) and y (b t 4), right for all sizes, without a need.
DYNAMIC: dict[str, Callable[..., Any]] = {
    "cat": lambda x, y: torch.cat([x, y], 1),
    "cat negative": lambda x, y: torch.cat((x, y), dim=-2),
    "cat by axis": lambda x, y: CONCATENATE((x, y), axis=1),
    "concat": lambda x, y: torch.concat([x, y, x], 1),
    "cat one": lambda x, y: torch.cat([x]),
    "cat transposed": lambda x, y: torch.cat([x.transpose(1, 2), y.transpose(1, 2)], 2),
    "cat parts": lambda x, y: torch.cat([x[:, 1:], y[:, :1]], 1),
    "cat vectors": lambda x, y: torch.cat([x.flatten(), y.flatten()]),
    "cat with an empty vector": lambda x, y: torch.cat([torch.empty(0), x, y], 1),
    "cat of dtypes": lambda x, y: torch.cat([x, y.double()], 1),
    "stack": lambda x, y: torch.stack([x, x]),
    "stack in the middle": lambda x, y: torch.stack([x, x, x], 1),
    "stack at the end": lambda x, y: torch.stack([y, y], -1),
    "stack of dtypes": lambda x, y: torch.stack([y, y.long()], 2),
    "stack transposed": lambda x, y: torch.stack([y.transpose(0, 1), y.transpose(0, 1)], 1),
    "hstack": lambda x, y: torch.hstack([x, y]),
    "hstack of vectors": lambda x, y: torch.hstack([x.flatten(), y.flatten()]),
    "vstack": lambda x, y: torch.vstack([x, x]),
    "vstack of vectors": lambda x, y: torch.vstack([x.flatten(), x.flatten()]),
    "row_stack": lambda x, y: torch.row_stack([x.flatten(1), x.flatten(1)]),
    "dstack": lambda x, y: torch.dstack([x, x]),
    "dstack of matrices": lambda x, y: torch.dstack([x.flatten(1), x.flatten(1)]),
    "column_stack": lambda x, y: torch.column_stack([x.flatten(1), y.flatten(1)]),
    "column_stack of vectors": lambda x, y: torch.column_stack([x.flatten(), x.flatten()]),
    "block_diag": lambda x, y: torch.block_diag(x.flatten(1), y.flatten(), y.flatten(1)),
    "atleast_1d": lambda x, y: torch.atleast_1d(x.sum()),
    "atleast_2d": lambda x, y: torch.atleast_2d(x.flatten(), y, y.sum()),
    "atleast_3d": lambda x, y: torch.atleast_3d([x.flatten(), y.flatten(1), y]),
}


@pytest.mark.parametrize("case", DYNAMIC)
def test_dynamic(case: str) -> None:
    outcome = check(DYNAMIC[case], "b s 4", "b t 4", first=FIRST)
    assert dynamic(outcome), outcome.needs
    assert outcome.needs == []


def test_sizes_that_must_agree_are_required() -> None:
    outcome = check(
        lambda x, y: torch.cat([x, y]), "a s", "b t", first={"a": 2, "b": 3, "s": 4, "t": 4}
    )
    assert [str(need.fact) for need in outcome.needs] == ["s == t"]
    outcome = check(lambda x, y: torch.stack([x, y]), "a s", "a t", first={"a": 2, "s": 4, "t": 4})
    assert [str(need.fact) for need in outcome.needs] == ["s == t"]


def test_a_vector_beside_a_matrix_must_be_empty() -> None:
    outcome = check(lambda x, y: torch.cat([x, y]), "a", "b s", first={"a": 0, "b": 3, "s": 4})
    assert [str(need.fact) for need in outcome.needs] == ["a == 0"]


#: Of channels-last images (n 3 h w); without needs only where no part can be empty.
CHANNELS_LAST: dict[str, Callable[..., Any]] = {
    "cat": lambda x: torch.cat([x, x], 1),
    "cat of images": lambda x: torch.cat([x, x], 0),
    "cat with contiguous": lambda x: torch.cat([x, x.contiguous()], 1),
    "cat of parts": lambda x: torch.cat([x[..., :2], x], 3),
    "stack": lambda x: torch.stack([x, x], 1),
    "stack at the end": lambda x: torch.stack([x, x], 4),
}


@pytest.mark.parametrize("case", CHANNELS_LAST)
def test_channels_last(case: str) -> None:
    def prepare(t: torch.Tensor) -> torch.Tensor:
        return t.to(memory_format=torch.channels_last)

    first = {"n": 2, "h": 4, "w": 5}
    outcome = check(CHANNELS_LAST[case], "n 3 h w", first=first, prepare=prepare)
    assert all(0 in sizes.values() for sizes in outcome.guarded), outcome.needs


def test_gradients_and_out() -> None:
    def rule(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], 1, out=torch.empty(0, dtype=torch.float64))

    assert check(rule, "b s", "b t", first=FIRST).served


REJECTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "cat nothing": lambda x: torch.cat([]) if x is None else torch.cat(x.unbind(0)[:0]),
    "cat scalars": lambda x: torch.cat([x[0, 0], x[0, 0]]),
    "cat other sizes": lambda x: torch.cat([x, x[:, :2]]),
    "cat other ranks": lambda x: torch.cat([x, x[None]]),
    "cat a vector to a matrix": lambda x: torch.cat([x, x[0]]),
    "cat out of range": lambda x: torch.cat([x, x], 2),
    "stack other sizes": lambda x: torch.stack([x, x[:, :2]]),
    "stack out of range": lambda x: torch.stack([x, x], 3),
    "block_diag of 3 dimensions": lambda x: torch.block_diag(x[None]),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)):
        REJECTED[case](torch.randn(3, 5))
    with pytest.raises(ShapeMismatch):
        check(REJECTED[case], "b s", first={"b": 3, "s": 5})
