"""Attention with gradients and masks that are made of sizes alone: what is known of them is true at
all sizes, and nothing is computed of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import anyshape
from anyshape.backends.native import backend, small_graphs
from anyshape.graph.backward_graph import TrainingGraphs
from anyshape.ops.node_meta import KNOWN_MASK
from tests.native import test_index_cases as cases

Marks = list[bool | None]

WEIGHT = nn.Parameter(torch.linspace(-1, 1, 8 * 24).reshape(24, 8))


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> Marks:
    """What was found out of the masks of attention with gradients, one after the other."""
    found: Marks = []
    own = backend.mark_known_masks

    def mark(graph: torch.fx.Graph, facts: Any) -> None:
        own(graph, facts)
        calls = [node for node in graph.nodes if node.name.startswith("scaled_dot_product")]
        found.extend(node.meta.get(KNOWN_MASK) for node in calls)

    monkeypatch.setattr(backend, "mark_known_masks", mark)
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    return found


def _attention(x: Tensor, mask: Tensor | None, **named: Any) -> Tensor:
    query, key, value = F.linear(x, WEIGHT).chunk(3, -1)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, **named).sin()


def _of(mask: Callable[[int], Tensor], **named: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: _attention(x, mask(x.shape[2]), **named)


def _gradients(call: Callable[..., Any], x: Tensor, *rest: Any) -> list[Tensor]:
    x = x.detach().requires_grad_()
    torch.manual_seed(0)
    result = call(x, *rest)
    grads = torch.autograd.grad(result.square().sum(), [x, WEIGHT])
    return [result.detach(), *grads]


def _check(program: Callable[..., Any], *rest: Any, sizes: tuple[int, ...] = (5, 1, 9, 0)) -> Any:
    compiled = anyshape.compile(program, dynamic=True)
    for size in sizes:
        x = torch.randn(2, 3, size, 8)
        own, other = _gradients(compiled, x, *rest), _gradients(program, x, *rest)
        torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-4, equal_nan=True)
    return compiled


@pytest.mark.parametrize("name", cases.CAUSAL)
def test_causal_masks(name: str, marks: Marks) -> None:
    said = str(_check(_of(cases.CAUSAL[name])).explain())
    assert marks == [True]
    assert "autograd does" not in said
    assert "torch is called for" not in said


@pytest.mark.parametrize("name", cases.NOTHING_HIDDEN)
def test_masks_that_hide_nothing(name: str, marks: Marks) -> None:
    said = str(_check(_of(cases.NOTHING_HIDDEN[name])).explain())
    assert marks == [False]
    assert "autograd does" not in said


@pytest.mark.parametrize("name", cases.OTHERS)
def test_other_masks(name: str, marks: Marks) -> None:
    _check(_of(cases.OTHERS[name]))
    assert marks == [None]


@pytest.mark.parametrize("name", cases.GIVEN)
def test_integers_that_are_given_may_be_any(name: str, marks: Marks) -> None:
    def program(x: Tensor, s: int) -> Tensor:
        return _attention(x, cases.GIVEN[name](x.shape[2], s))

    compiled = anyshape.compile(program, dynamic=True)
    for size, s in ((5, 3), (17, 7), (6, 2**63 - 3), (9, 2**62), (5, -(2**63) + 2), (1, 0)):
        x = torch.randn(2, 3, size, 8)
        own, other = _gradients(compiled, x, s), _gradients(program, x, s)
        torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-4, equal_nan=True)
    assert set(marks) <= {None}


TRIL = cases.CAUSAL["tril"]


def _no_square(x: Tensor) -> Tensor:
    query, key, value = F.linear(x, WEIGHT).chunk(3, -1)
    key, value = (F.pad(each, (0, 0, 1, 2)) for each in (key, value))
    mask = torch.ones(x.shape[2], x.shape[2] + 3, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def _data(x: Tensor) -> Tensor:
    return _attention(x, TRIL(x.shape[2]) | (x[0, 0, :, :1] > 0))


def _with_gradient(x: Tensor) -> Tensor:
    n = x.shape[2]
    return _attention(x, torch.zeros(n, n) + WEIGHT.sum() * 0.1)


def _written(x: Tensor) -> Tensor:
    mask = torch.ones(x.shape[2], x.shape[2], dtype=torch.bool)
    mask[:, 1:] = False
    return _attention(x, mask)


def _written_later(x: Tensor) -> Tensor:
    mask = torch.ones(x.shape[2], x.shape[2])
    first = _attention(x, mask - 1)
    mask.triu_()
    return first + _attention(x, mask)


def _checked(x: Tensor) -> Tensor:
    """An error where a position is out of range."""
    n = x.shape[2]
    shown = torch.ones(5, dtype=torch.bool)[torch.arange(n)]
    return _attention(x, shown.expand(n, n) | torch.ones(n, n, dtype=torch.bool))


UNKNOWN: dict[str, Callable[[Tensor], Any]] = {
    "no square": _no_square,
    "data": _data,
    "a gradient": _with_gradient,
    "written": _written,
    "random": _of(lambda n: torch.rand(n, n) >= 0),
    "three dimensions": _of(lambda n: torch.ones(3, n, n, dtype=torch.bool)),
    "a negative scale": _of(TRIL, scale=-0.7),
    "a scale of zero": _of(TRIL, scale=0.0),
    "no mask": lambda x: _attention(x, None),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_left_as_they_are(name: str, marks: Marks) -> None:
    _check(UNKNOWN[name])
    assert set(marks) == {None}


def test_written_between(marks: Marks) -> None:
    _check(_written_later)
    assert marks[-1:] == [None]


def test_checks_stay(marks: Marks) -> None:
    compiled = _check(_checked, sizes=(5, 3))
    with pytest.raises(IndexError):
        _gradients(compiled, torch.randn(2, 3, 6, 8))


def _twice(x: Tensor) -> Tensor:
    mask = TRIL(x.shape[2])
    return _attention(_attention(x, mask), mask)


def _also_read(x: Tensor) -> Tensor:
    mask = TRIL(x.shape[2])
    return _attention(x, mask) * mask.sum(-1, keepdim=True)


def _without_gradients_first(x: Tensor) -> Tensor:
    mask = TRIL(x.shape[2])
    with torch.no_grad():
        y = _attention(x, mask)
    return _attention(x + y, mask)


def _of_a_tensor(x: Tensor) -> Tensor:
    return _attention(x, torch.ones_like(WEIGHT[:1, :1] * x[0, 0, :, :1]).bool())


def _in_a_region(x: Tensor) -> Tensor:
    found: Any = checkpoint(lambda y: _attention(y, TRIL(y.shape[2])), x, use_reentrant=False)
    return found * 2


def _in_stages(x: Tensor) -> Tensor:
    """The middle is a result, too."""
    mask = TRIL(x.shape[2])
    first = _attention(x, mask)
    return torch.cat([first, _attention(first, mask)])


KNOWN: dict[str, tuple[Callable[[Tensor], Any], Marks]] = {
    "several layers": (_twice, [True, True]),
    "read by others": (_also_read, [True]),
    "also without gradients": (_without_gradients_first, [None, True]),
    "of a tensor with a gradient": (_of_a_tensor, [False]),
    "checkpoint": (_in_a_region, [True]),
    "stages": (_in_stages, [True, True]),
    "dropout": (_of(TRIL, dropout_p=0.4), [True]),
    "a scale": (_of(TRIL, scale=0.7), [True]),
}


@pytest.mark.parametrize(("program", "is_left"), [(_twice, False), (_also_read, True)])
def test_nothing_is_computed_of_them(
    program: Callable[[Tensor], Tensor],
    is_left: bool,
    marks: Marks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[TrainingGraphs] = []
    own = backend.training_graphs

    def kept(*args: Any, **named: Any) -> TrainingGraphs:
        made.append(own(*args, **named))
        return made[-1]

    monkeypatch.setattr(backend, "training_graphs", kept)
    # Attention of no elements is torch's on a GPU, which is given the mask.
    _check(program, sizes=(5, 1, 9))
    names = {name for graphs in made for name in _names(graphs.forward)}
    assert ("tril" in names) is is_left
    assert not any(name.startswith("tril") for g in made for name in _names(g.backward))


def _names(graph: torch.fx.GraphModule) -> list[str]:
    return [node.name for node in graph.graph.nodes]


@pytest.mark.parametrize("name", KNOWN)
def test_known_anyway(name: str, marks: Marks) -> None:
    program, wanted = KNOWN[name]
    _check(program)
    assert marks == wanted


def test_results_of_several_stages(marks: Marks) -> None:
    """The mask is made in the first, and read in the second."""

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        mask = TRIL(x.shape[2])
        first = _attention(x, mask)
        return first, _attention(first, mask)

    compiled = anyshape.compile(program, dynamic=True)
    for size in (5, 1, 9):
        x = torch.randn(2, 3, size, 8)
        for which in (0, 1):
            own = _gradients(lambda y, which=which: compiled(y)[which], x)
            other = _gradients(lambda y, which=which: program(y)[which], x)
            torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-4)
    assert marks == [True, True]


def test_gradients_of_gradients(marks: Marks) -> None:
    def penalty(call: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), x)[0]

    program = _of(TRIL)
    compiled = anyshape.compile(program, dynamic=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for size in (4, 7):
            x = torch.randn(1, 2, size, 8, requires_grad=True)
            own, other = penalty(compiled, x), penalty(program, x)
            torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-3)
    assert marks == [True]
