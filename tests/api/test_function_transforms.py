"""`torch.func` in compiled functions: gradients are in the graph, the rest is torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)
from torch.utils._pytree import tree_leaves

import anyshape

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
weights = {name: each.detach().clone() for name, each in net.named_parameters()}
scale = torch.randn(3)
seen: list[int] = []


def loss(p: dict[str, Tensor], x: Tensor) -> Tensor:
    return functional_call(net, p, (x,)).square().mean() + x.size(0)


def number(x: Tensor) -> Tensor:
    return (x.sin().pow(2) * scale).sum()


def with_more(x: Tensor, k: float = 2.0) -> tuple[Tensor, Any]:
    y = x * k
    return y.exp().sum(), {"y": y, "pair": (y.sum(), [x * x.size(0)])}


def noted(x: Tensor) -> Tensor:
    seen.append(x.size(0))
    return number(x)


def dropped(x: Tensor) -> Tensor:
    return nn.functional.dropout(x, 0.5).sum()


Program = Callable[[Tensor], Any]
ONE_GRAPH: Final[dict[str, Program]] = {
    "grad": lambda x: grad(number)(x * 2) + x,
    "value": lambda x: grad_and_value(number)(x),
    "of weights": lambda x: grad(loss)(weights, x),
    "of both": lambda x: grad(loss, argnums=(0, 1))(weights, x),
    "aux": lambda x: grad(with_more, has_aux=True)(x, 3.0),
    "value and aux": lambda x: grad_and_value(with_more, has_aux=True)(x, k=0.5),
    "unreached": lambda x: grad(lambda a, b: a.sum() * 2, argnums=(0, 1))(x, x * 2),
    "constant": lambda x: grad(lambda a: torch.ones(()))(x),
    "around": lambda x: (grad(number)(x.cos()) * x).sum(0) / (x.size(0) + 1),
    "drawn": lambda x: grad(dropped)(x),
    "no_grad inside": lambda x: grad(lambda a: (a * _frozen(a)).sum())(x),
    "functional_call": lambda x: functional_call(net, weights, (x,)).detach(),
}


def _frozen(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x.exp()


def _check(run: Program, rows: tuple[int, ...] = (4, 5, 1, 7, 0, 4)) -> Any:
    compiled: Any = anyshape.compile(run, dynamic=True)
    for n in rows:
        x = torch.randn(n, 3)
        torch.manual_seed(n)
        found = compiled(x)
        state = torch.get_rng_state()
        torch.manual_seed(n)
        torch.testing.assert_close(found, run(x), equal_nan=True)
        assert torch.equal(state, torch.get_rng_state())
        for each in tree_leaves(found):
            assert not isinstance(each, Tensor) or not each.requires_grad
    return compiled


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name: str, enabled: bool) -> None:
    with torch.set_grad_enabled(enabled):
        compiled = _check(ONE_GRAPH[name])
    stats = compiled.stats()
    assert not stats.eager_calls
    assert not stats.graph_breaks
    # Of nothing, dropout gives what it is given.
    assert stats.graphs <= 2


def test_gradients_are_native() -> None:
    compiled = _check(ONE_GRAPH["of both"])
    assert "native code" in str(compiled.explain())
    assert "no native code" not in str(compiled.explain())


FUNCTIONS: Final[tuple[Any, ...]] = (number, torch.sum)
OTHERS: Final[dict[str, Program]] = {
    "vmap": lambda x: vmap(lambda y: y.sin().sum())(x),
    "of each": lambda x: vmap(grad(loss), in_dims=(None, 0))(weights, x[:, None]),
    "vjp": lambda x: vjp(torch.sin, x)[1](torch.ones_like(x))[0],
    "jvp": lambda x: jvp(torch.sin, (x,), (torch.ones_like(x),)),
    "jacrev": lambda x: jacrev(lambda y: y.sin().sum(0))(x),
    "jacfwd": lambda x: jacfwd(lambda y: y.sin().sum(0))(x),
    "hessian": lambda x: hessian(number)(x),
    "twice": lambda x: grad(lambda a: grad(number)(a).square().sum())(x),
    "in a list": lambda x: [grad(f)(x) for f in FUNCTIONS],
}


@pytest.mark.filterwarnings("ignore:.torch.jit")
@pytest.mark.parametrize("name", OTHERS)
def test_as_eager(name: str) -> None:
    _check(OTHERS[name], (4, 5, 1, 7, 4))


def test_effects_happen_once() -> None:
    compiled = anyshape.compile(lambda x: grad(noted)(x), dynamic=True)
    for n in (2, 3, 4):
        seen.clear()
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), grad(number)(x))
        assert seen == [n]


def test_gradients_that_have_gradients() -> None:
    """Of what is closed over, or given."""
    w = torch.randn(3, requires_grad=True)

    def run(x: Tensor) -> Tensor:
        return grad(lambda a: ((a * w).sin()).sum())(x).square().sum()

    compiled = anyshape.compile(run, dynamic=True)
    for n in (2, 3, 4):
        for needs in (False, True):
            found: list[Any] = []
            for call in (compiled, run):
                x = torch.linspace(0, 1, n * 3).reshape(n, 3).requires_grad_(needs)
                w.grad = None
                call(x).backward()
                found.append((w.grad, x.grad))
            torch.testing.assert_close(*found)


def test_errors_are_torchs() -> None:
    x = torch.randn(3)
    for function, given in (
        (lambda a: a * 2, x),
        (lambda a: "text", x),
        (lambda a: a.sum(), torch.arange(3)),
        (lambda a: (a.sum(), 1, 2), x),
        (lambda a: (a.sum(), 1), x),
        (lambda a: (a.sum(), {"n": (a, None)}), x),
    ):
        errors: list[Any] = []
        aux = function(x)[1:] if given is x and type(function(x)) is tuple else ()
        own = grad(function, has_aux=bool(aux))
        inner: Any = anyshape.compile(lambda a, f=function, m=bool(aux): grad(f, has_aux=m)(a))
        for call in (own, inner):
            with pytest.raises((RuntimeError, ValueError, TypeError)) as error:
                call(given)
            errors.append((type(error.value), str(error.value)))
        assert errors[0] == errors[1]
