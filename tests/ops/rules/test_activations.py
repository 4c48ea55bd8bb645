"""Activation functions, in place and not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic
from tests.ops.laid_out import first_inside

ABC = {"a": 3, "b": 4, "c": 6}
EVEN = [{"a": 5, "b": 6, "c": 2}, {"a": 1, "b": 1, "c": 8}, {"a": 0, "b": 0, "c": 0}]


FUNCTIONS = [
    F.relu, F.relu6, F.elu, F.selu, F.celu, F.leaky_relu, F.hardtanh, F.hardswish, F.hardsigmoid,
    F.silu,
    F.mish, F.rrelu, F.gelu, F.softplus, F.softshrink, F.hardshrink, F.logsigmoid, F.softsign,
    F.tanhshrink,
    F.sigmoid, F.tanh, torch.relu, torch.selu, torch.celu, torch.rrelu, torch.Tensor.relu,
    torch.relu_, torch.celu_, F.elu_, F.leaky_relu_, F.hardtanh_, torch.Tensor.hardshrink,
    lambda x: F.gelu(x, approximate="tanh"),
    lambda x: F.elu(x, 2.0),
    lambda x: F.threshold(x, 0.5, 1.0),
    lambda x: torch.threshold_(x, 0.5, 1.0),
    lambda x: F.rrelu(x, training=True),
    lambda x: F.rrelu(x, 0.1, 0.3, True),
    lambda x: F.relu(x, True),
    lambda x: F.elu(x, 1.0, True),
    lambda x: F.rrelu(x, 0.1, 0.3, True, True),
    lambda x: F.hardtanh(x, inplace=True),
    lambda x: F.silu(x, inplace=True),
    lambda x: F.threshold(x, 0.5, 1.0, True),
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function: Any) -> None:
    assert dynamic(check(function, "a b c", first=ABC))
    assert dynamic(check(function, "a b c", first=ABC, prepare=first_inside))
    assert dynamic(check(function, "a b", first={"a": 3, "b": 4}, dtype=torch.bfloat16))


def test_dtypes() -> None:
    assert dynamic(check(F.relu, "a b", first={"a": 3, "b": 4}, dtype=torch.int64))
    assert dynamic(check(F.softsign, "a b", first={"a": 3, "b": 4}, dtype=torch.int64))
    assert dynamic(check(F.silu, "a b", first={"a": 3, "b": 4}, dtype=torch.complex64))


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("prepare", [None, first_inside])
def test_glu(dim: int, prepare: Any) -> None:
    first = {"a": 4, "b": 4, "c": 6}
    then = [{"a": 2, "b": 6, "c": 8}, {"a": 0, "b": 2, "c": 0}]
    outcome = check(lambda x: F.glu(x, dim), "a b c", first=first, then=then, prepare=prepare)
    assert dynamic(outcome)
    assert [str(need.fact) for need in outcome.needs] == [f"{'abc'[dim]} % 2 == 0"]


@pytest.mark.parametrize(
    ("specs", "needs"),
    [
        (("a b c", "1"), []),
        (("a b c", ""), []),
        (("a b c", "b"), []),
        (("a", "1"), []),
        (("", "1"), []),
        (("a b", "c"), ["c == 1 or b == c"]),
    ],
)
def test_prelu(specs: tuple[str, str], needs: list[str]) -> None:
    first = {"a": 3, "b": 4, "c": 4}
    outcome = check(F.prelu, *specs, first=first)
    assert [str(need.fact) for need in outcome.needs] == needs


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (lambda x: F.glu(x, 0), ("a b",)),
        (lambda x: F.glu(x, 2), ("a b",)),
        (F.glu, ("",)),
        (F.prelu, ("a b", "a")),
        (F.prelu, ("a b", "1 1")),
    ],
)
def test_rejected(function: Any, specs: tuple[str, ...]) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first={"a": 3, "b": 4})
