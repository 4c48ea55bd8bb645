"""Tensors that look like those a program was compiled for, and are of another kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

import anyshape
from anyshape.backends.native import small_graphs

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Pair = tuple[Function, Function]


_no_memory: Any = vars(torch)["_efficientzerotensor"]


def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * 2 + y).sin()


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x * 2


@pytest.fixture(params=[scaled, added])
def pair(request: pytest.FixtureRequest) -> Pair:
    """A function, and the same compiled, which has native code already."""
    compiled: Any = anyshape.compile(request.param, dynamic=True)
    with torch.no_grad():
        for size in (4, 5):
            compiled(torch.ones(size, 3), torch.ones(size, 3))
    return request.param, compiled


def test_zeros_that_have_no_memory_yet(pair: Pair) -> None:
    function, compiled = pair
    zeros, nothing = (_no_memory(n, 3, device=torch.get_default_device()) for n in (7, 0))
    with torch.no_grad():
        wanted = function(torch.ones(7, 3), zeros)
        assert torch.equal(compiled(torch.ones(7, 3), zeros), wanted)
        assert compiled(torch.ones(0, 3), nothing).shape == (0, 3)


def test_negative_bits(pair: Pair) -> None:
    function, compiled = pair
    negative = torch.full((7, 3), 1 + 2j).conj().imag
    assert negative.is_neg()
    with torch.no_grad():
        wanted = function(torch.ones(7, 3), negative)
        assert torch.equal(compiled(torch.ones(7, 3), negative), wanted)


_LAZY: dict[str, tuple[Callable[[int], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "steps": (lambda n: torch.randn(n, 2)[:, 1], lambda x: torch.view_as_complex(x).conj().imag),
    "dense": (torch.randn, lambda x: _negated(-x)),
    "a number": (lambda n: torch.randn(n)[0], lambda x: torch.complex(x, x).conj().imag),
    "complex": (
        lambda n: torch.randn(n, dtype=torch.complex64),
        lambda x: x.conj_physical().conj(),
    ),
    "conjugated": (lambda n: torch.randn(n, dtype=torch.complex64), lambda x: x.conj()),
}
_negated: Any = vars(torch)["_neg_view"]


@pytest.mark.parametrize("name", _LAZY)
def test_values_that_are_not_those_in_memory(name: str) -> None:
    """Whatever has served a tensor of these sizes and strides that is as its memory says."""
    plain, lazy = _LAZY[name]

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.imag if x.is_complex() else x).sin() * 2 + 1

    compiled: Any = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        for size in (4, 5):
            compiled(plain(size))
        for size in (3, 4, 1, 4):
            base = plain(size)
            given = lazy(torch.randn(size, 2)) if name == "steps" else lazy(base)
            assert given.is_neg() or given.is_conj()
            for x in (given, base):
                torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize("size", [1, 3, 4])
def test_gradients_that_are_not_those_in_memory(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * 2).exp()

    compiled: Any = anyshape.compile(function, dynamic=True)
    compiled(torch.ones(2, requires_grad=True))
    strided = torch.complex(torch.ones(size), torch.ones(size)).conj().imag
    for grad in (strided, _negated(torch.ones(size))):
        x = torch.randn(size, requires_grad=True)
        found, wanted = (torch.autograd.grad(f(x), x, grad) for f in (compiled, function))
        torch.testing.assert_close(found, wanted)


# Torch imports parts of its own that it has deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("records", [True, False])
def test_tangents_are_kept(pair: Pair, records: bool) -> None:
    with torch.set_grad_enabled(records), forward_ad.dual_level():
        given = [
            (torch.ones(7, 3), forward_ad.make_dual(torch.ones(7, 3), torch.full((7, 3), 2.0)))
            for _ in range(2)
        ]
        wanted, found = (
            forward_ad.unpack_dual(f(*args)) for f, args in zip(pair, given, strict=True)
        )
        assert torch.allclose(wanted.primal, found.primal)
        assert wanted.tangent is not None
        assert found.tangent is not None
        assert torch.allclose(wanted.tangent, found.tangent)
