"""Operators without a row of gradients: torch's autograd records them where they are run."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from anyshape.graph.autograd_step import AutogradStep, RecordedOperator

SIZES = ((4, 6), (1, 2), (7, 3))


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module], **options: Any) -> None:
        super().__init__()
        self.layers = kind(5, 8, **options)

    def forward(self, x: Tensor) -> Tensor:
        found, last = self.layers(torch.tanh(x))
        states = last if isinstance(last, tuple) else (last,)
        return found.sin().sum() + sum(each.square().sum() for each in states)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "LSTM": lambda: Recurrent(nn.LSTM),
    "LSTM, both ways": lambda: Recurrent(nn.LSTM, bidirectional=True, num_layers=2),
    "GRU": lambda: Recurrent(nn.GRU, batch_first=True),
    "RNN": lambda: Recurrent(nn.RNN),
}


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    compiled: Any = anyshape.compile(model, dynamic=True)
    for size in (SIZES[0], *SIZES):
        x = torch.randn(*size, 5, requires_grad=True)
        wanted = [x, *model.parameters()]
        want = torch.autograd.grad(model(x), wanted)
        got = torch.autograd.grad(compiled(x), wanted)
        for a, b in zip(want, got, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
    assert compiled.stats().graphs == 1
    assert "autograd does" in str(compiled.explain())


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which steps ran, in order."""
    found: list[str] = []
    for kind in (RecordedOperator, AutogradStep):
        original = kind.__call__

        def counted(self: Any, *args: Any, call: Any = original) -> Any:
            found.append(type(self).__name__)
            return call(self, *args)

        monkeypatch.setattr(kind, "__call__", counted)
    return found


def compiled_for(function: Callable[..., Any], *inputs: Tensor) -> Any:
    """Called before: the first call is that of a capture."""
    compiled = anyshape.compile(function)
    compiled(*inputs)
    return compiled


def distances(x: Tensor, y: Tensor) -> Tensor:
    return torch.cdist(x.sin(), y * 2, p=1.5).exp()


def pair() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(4, 3, generator=generator, dtype=torch.float64, requires_grad=True),
        torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True),
    )


def test_it_runs_once(runs: list[str]) -> None:
    x, y = pair()
    compiled = compiled_for(distances, x, y)
    compiled(x, y).sum().backward()
    assert runs == ["RecordedOperator"]


def test_gradients_twice_and_of_some() -> None:
    x, y = pair()
    compiled = compiled_for(distances, x, y)
    want = torch.autograd.grad(distances(x, y).sum(), (x, y))
    result = compiled(x, y)
    for _ in range(2):
        got = torch.autograd.grad(result.sum(), (x, y), retain_graph=True)
        torch.testing.assert_close(got, want)
    (only,) = torch.autograd.grad(result.sum(), y)
    torch.testing.assert_close(only, want[1])
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(result.sum(), y)


def test_gradients_of_gradients() -> None:
    def squares(function: Any, x: Tensor, y: Tensor) -> Tensor:
        first = torch.autograd.grad(function(x, y).sum(), (x, y), create_graph=True)
        return sum((each.square().sum() for each in first), torch.zeros(()))

    def smooth(x: Tensor, y: Tensor) -> Tensor:
        return torch.logcumsumexp(x.sin(), 0).exp() @ y.t()

    x, y = pair()
    compiled = compiled_for(smooth, x, y)
    want = torch.autograd.grad(squares(smooth, x, y), (x, y))
    torch.testing.assert_close(torch.autograd.grad(squares(compiled, x, y), (x, y)), want)


def test_frozen_inputs_have_none() -> None:
    x, y = pair()
    y = y.detach()
    compiled = compiled_for(distances, x, y)
    want = torch.autograd.grad(distances(x, y).sum(), x)
    torch.testing.assert_close(torch.autograd.grad(compiled(x, y).sum(), x), want)


def test_one_tensor_twice() -> None:
    x, _ = pair()
    compiled = compiled_for(lambda x: torch.cdist(x, x, p=1.5).sin(), x)
    want = torch.autograd.grad(torch.cdist(x, x, p=1.5).sin().sum(), x)
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), want)


@pytest.mark.parametrize("changed", ["input", "result"])
def test_changes_are_seen_as_in_eager_code(changed: str) -> None:
    """Torch keeps inputs and results of a distance; of a sampled image it keeps no result."""

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return torch.cdist(x.sin(), y, p=1.5)

    def sampled(x: Tensor, y: Tensor) -> Tensor:
        return F.grid_sample(
            x.sin().view(1, 1, 4, 3), y.view(1, 5, 1, 3)[..., :2], align_corners=False
        )

    for function in (distance, sampled):
        outcomes: list[str] = []
        compiled = compiled_for(function, pair()[0], pair()[1].detach())
        for call in (function, compiled):
            x, y = pair()[0] * 1, pair()[1].detach()
            result = call(x, y)
            with torch.no_grad():
                (y if changed == "input" else result).mul_(2)
            try:
                result.sum().backward()
            except RuntimeError as error:
                outcomes.append(str(error)[:60])
            else:
                outcomes.append("")
        assert outcomes[0] == outcomes[1]
        assert "autograd does" in str(compiled.explain())


def test_the_record_is_let_go() -> None:
    x, y = pair()
    compiled = compiled_for(distances, x, y)
    for is_used in (True, False):
        given = x.detach().clone().requires_grad_()
        seen = weakref.ref(given)
        result = compiled(given, y)
        del given
        assert seen() is not None
        if is_used:
            result.sum().backward()
        del result
        gc.collect()
        assert seen() is None


def test_nothing_else_to_do() -> None:
    """Then calls are those of eager code."""
    layers = nn.LSTM(5, 8)
    compiled: Any = anyshape.compile(layers, dynamic=True)
    x = torch.randn(3, 2, 5, requires_grad=True)
    compiled(x)
    found, _ = compiled(x)
    assert "torch does all" in str(compiled.explain())
    want = torch.autograd.grad(layers(x)[0].sum(), x)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), x), want)


def test_nothing_else_to_do_in_a_stage() -> None:
    """Results that others are computed of are as in eager code; the others are native."""
    layers = nn.LSTM(5, 8)

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        found, _ = layers(x)
        return found, found.sin() * 2

    compiled = anyshape.compile(program, dynamic=True)
    for size in (3, 3, 4):
        x = torch.randn(size, 2, 5, requires_grad=True)
        outcomes: list[Any] = []
        for each in (program, compiled):
            first, second = each(x)
            weights = [*layers.parameters()]
            through = torch.autograd.grad(second.sum(), first, retain_graph=True)
            grads = torch.autograd.grad((first * second).sum(), [x, *weights])
            outcomes.append([first, second, *through, *grads])
        torch.testing.assert_close(outcomes[1], outcomes[0], rtol=1e-4, atol=1e-5)
    told = str(compiled.explain())
    assert "torch does all" in told
    assert "forward: native code" in told


LAYERS = nn.GRU(8, 8, num_layers=2, dropout=0.5)
DRAWING: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout between layers": lambda x: F.dropout(LAYERS(x.tanh())[0].sin(), 0.25),
    "of a distribution": lambda x: torch.normal(x.sin(), x.square() + 1) * 2,
    "of a choice": lambda x: torch.bernoulli(x.sigmoid()) * x,
    "between others": lambda x: (
        F.dropout(F.gumbel_softmax(x.sin(), dim=-1), 0.5) * torch.rand_like(x) + F.dropout(x, 0.3)
    ),
}


@pytest.mark.parametrize("name", DRAWING)
def test_random_numbers_are_those_of_eager_code(name: str) -> None:
    function = DRAWING[name]
    compiled = anyshape.compile(function, dynamic=True)
    for size in (3, 3, 4):
        x = torch.randn(size, 2, 8, requires_grad=True)
        outcomes: list[Any] = []
        for each in (function, compiled):
            torch.manual_seed(size)
            result = each(x)
            (grad,) = torch.autograd.grad(result.sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(grad.square().sum(), x)
            outcomes.append([result, grad, second, torch.rand(1)])
            result = each(x)
            outcomes[-1] += torch.autograd.grad(result.sum(), x)
        torch.testing.assert_close(outcomes[1], outcomes[0], rtol=1e-4, atol=1e-5)
    assert "autograd does" in str(compiled.explain())


@torch.library.custom_op("anyshape_tests::tripled", mutates_args=())
def tripled(x: Tensor) -> Tensor:
    return x * 3


tripled.register_fake(torch.empty_like)
torch.library.register_autograd(
    "anyshape_tests::tripled",
    lambda ctx, grad: grad * 3,
    setup_context=lambda ctx, inputs, output: None,
)


def test_operators_of_others() -> None:
    def program(x: Tensor) -> Tensor:
        return torch.ops.anyshape_tests.tripled(x.sin()).cos()

    compiled = anyshape.compile(program, dynamic=True)
    for size in (3, 3, 1, 5):
        x = torch.randn(size, requires_grad=True)
        want = torch.autograd.grad(program(x).sum(), x)
        torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), want)
    assert "forward: native code" in str(compiled.explain())


def test_what_depends_on_data() -> None:
    def chosen(x: Tensor, y: Tensor) -> Tensor:
        return torch.masked_select(x, x > 0).sin().sum() + y.sum()

    compiled = anyshape.compile(chosen)
    for seed in range(4):
        torch.manual_seed(seed)
        x, y = torch.randn(6, 3, requires_grad=True), torch.randn(2, requires_grad=True)
        want = torch.autograd.grad(chosen(x, y), (x, y))
        torch.testing.assert_close(torch.autograd.grad(compiled(x, y), (x, y)), want)
