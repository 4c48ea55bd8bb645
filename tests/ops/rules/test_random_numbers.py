"""Random factories and random operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic
from tests.ops.laid_out import inside_out

N, M = Sym("n"), Sym("m")
NM = {"n": 4, "m": 3}
AB = {"a": 3, "b": 4}


@pytest.mark.parametrize(
    "function",
    [
        lambda n, m: torch.rand(n, m),
        lambda n, m: torch.randn((n, m), dtype=torch.float64, requires_grad=True),
        lambda n, m: torch.rand(size=(n,), generator=torch.Generator()),
        lambda n, m: torch.randint(5, (n, m)),
        lambda n, m: torch.randint(2, 5, (n,), dtype=torch.float32),
        lambda n, m: torch.randint(high=5, size=(n,)),
        lambda n, m: torch.randint(low=1, high=5, size=(n,)),
        lambda n, m: torch.randperm(n),
        lambda n, m: torch.randperm(n, dtype=torch.int32),
        lambda n, m: torch.normal(0.0, 1.0, (n, m)),
        lambda n, m: torch.normal(0.0, 1.0, size=(n, m), dtype=torch.float64),
    ],
)
def test_factories(function: Any) -> None:
    assert dynamic(check(function, N, M, first=NM))


@pytest.mark.parametrize("prepare", [None, inside_out])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.bernoulli(x.abs().clamp(0, 1)),
        lambda x: torch.bernoulli(x, 0.3),
        lambda x: x.bernoulli(0.3),
        lambda x: torch.poisson(x.abs()),
        lambda x: torch.binomial(x.abs().floor(), x.sigmoid()),
        lambda x: torch.normal(x, 1.0),
        lambda x: torch.normal(0.0, x.abs()),
        lambda x: torch.normal(x.requires_grad_(), 1.0),
        lambda x: x.bernoulli_(0.3),
        lambda x: x.bernoulli_(x.sigmoid()),
        lambda x: x.uniform_(0, 1),
        lambda x: x.normal_().exponential_().cauchy_(),
        lambda x: x.geometric_(0.5),
        lambda x: x.log_normal_(),
        lambda x: x.random_(5),
        lambda x: x.random_(2, 5),
    ],
)
def test_operators(function: Any, prepare: Any) -> None:
    assert dynamic(check(function, "a b", first=AB, prepare=prepare))


def test_two_tensors_broadcast() -> None:
    for function in (torch.normal, torch.binomial):
        outcome = check(
            lambda x, y, f=function: f(x.abs().floor(), y.sigmoid()), "a b", "a 1", first=AB
        )
        assert dynamic(outcome)


@pytest.mark.parametrize(
    ("function", "specs", "then"),
    [
        (lambda x: torch.multinomial(x.abs(), 2), ("a b",), [{"a": 0, "b": 2}, {"a": 9, "b": 7}]),
        (lambda x: x.abs().multinomial(2), ("b",), [{"a": 1, "b": 2}]),
        (
            lambda x: torch.multinomial(x.abs(), 5, True),
            ("a b",),
            [{"a": 0, "b": 0}, {"a": 2, "b": 1}],
        ),
    ],
)
def test_multinomial(function: Any, specs: tuple[str, ...], then: Any) -> None:
    assert dynamic(check(function, *specs, first=AB, then=then))
    assert check(function, *specs, first=AB).guarded


def test_samples_are_counted_by_symbols() -> None:
    outcome = check(lambda x, n: torch.multinomial(x.abs(), n), "b", N, first={"b": 5, "n": 2})
    assert "n <= b" in {str(need.fact) for need in outcome.needs}


def test_bounds_may_be_symbols() -> None:
    outcome = check(lambda n, m: torch.randint(m, n, (2,)), N, M, first=NM)
    assert [str(need.fact) for need in outcome.needs] == ["m + 1 <= n"]


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (lambda x: torch.randint(3, 3, (2,)), ("a b",)),
        (lambda x: torch.rand(-1), ("a b",)),
        (lambda x: torch.multinomial(x, 5), ("a b",)),
        (lambda x: torch.multinomial(x, 0), ("a b",)),
        (lambda x: torch.multinomial(x, 1), ("a b 2",)),
        (lambda x: torch.binomial(x, x.double()), ("a b",)),
        (lambda x: x.random_(3, 3), ("a b",)),
    ],
)
def test_rejected(function: Any, specs: tuple[str, ...]) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first=AB)
