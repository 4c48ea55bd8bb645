"""What eager users rely on beside gradients: the order of hooks, several backward calls, writes
between forward and backward, anomaly mode."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from tests import devices

WIDTH = 6
SIZES = (4, 5, 1, 3)


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


@pytest.fixture
def all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})


def _net(*, normed: nn.Module | None = None, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    norm = nn.LayerNorm(8) if normed is None else normed
    last = nn.Linear(8, WIDTH), nn.Tanh()
    return nn.Sequential(nn.Linear(WIDTH, 8), norm, nn.GELU(), nn.Dropout(dropout), *last)


def _input(size: int) -> Tensor:
    return torch.randn(size, WIDTH, generator=devices.generator(size)).requires_grad_()


def _same(program: Callable[[Callable[..., Any]], Any]) -> None:
    """A program that uses a function is given it as it is, and compiled."""
    torch.manual_seed(0)
    expected = program(lambda function: function)
    torch.manual_seed(0)
    torch.testing.assert_close(
        program(lambda function: anyshape.compile(function, dynamic=True)),
        expected,
        rtol=1e-4,
        atol=1e-5,
    )


def _hooks_in_order(compiled: Any) -> list[str]:
    model, log = _net(), []
    for name, each in model.named_parameters():
        each.register_hook(lambda _, name=name: log.append(name))
    run = compiled(model)
    for size in SIZES:
        run(_input(size)).sum().backward()
    return log


def test_hooks_are_called_in_the_order_of_operators(all_sizes: None) -> None:
    orders = [_hooks_in_order(lambda each: each), _hooks_in_order(anyshape.compile)]
    assert orders[0] == orders[1]


def test_one_hook_is_no_reason_to_run_eagerly(all_sizes: None) -> None:
    model, seen, found = _net(), [], torch.empty(0)
    model[4].weight.register_hook(seen.append)  # pyright: ignore[reportIndexIssue]
    compiled = anyshape.compile(model, dynamic=True)
    for size in SIZES:
        found = compiled(_input(size))
        found.sum().backward()
    assert type(found.grad_fn).__name__ == "CompiledBackward"
    assert len(seen) == len(SIZES)


_APART: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "only inputs in common": lambda x, y: tuple((x * k).sin() for k in range(6)),
    "an operator that keeps nothing": lambda x, y: (lambda h: (h.sin(), h.cos()))(x + y),
    "one that keeps nothing of several": lambda x, y: (x.sin() + y, (x + y).tanh(), x - y),
}


@pytest.mark.parametrize("name", _APART)
def test_results_one_after_the_other(name: str, all_sizes: None) -> None:
    def program(compiled: Any) -> Any:
        run, found = compiled(_APART[name]), []
        for size in SIZES:
            x, y = _input(size), _input(size)
            for each in run(x, y):
                each.sum().backward()
            found.append((x.grad, y.grad))
        return found

    _same(program)


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.BatchNorm1d])
def test_two_towers_with_effects(norm: Callable[[int], nn.Module], all_sizes: None) -> None:
    def program(compiled: Any) -> Any:
        model, found = _net(normed=norm(8), dropout=0.5), []
        run = compiled(lambda x, y: (model(x), model(y)))
        for size in (4, 5, 3):
            x, y = _input(size), _input(size)
            for each in run(x, y):
                each.sum().backward()
            found += [x.grad, y.grad, *(each.detach().clone() for each in model.buffers())]
        return found + [each.grad for each in model.parameters()]

    _same(program)


def test_results_that_share_what_is_kept(all_sizes: None) -> None:
    model = _net()
    run = anyshape.compile(lambda x: (lambda h: (h.sin(), h.cos()))(model(x)), dynamic=True)
    for size in SIZES:
        first, second = run(_input(size))
        first.sum().backward()
        with pytest.raises(RuntimeError, match="a second time"):
            second.sum().backward()


_W = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=devices.generator(0)))


def test_an_input_may_be_written_to_where_eager_keeps_a_result(all_sizes: None) -> None:
    def program(compiled: Any) -> Any:
        run, found = compiled(lambda x: F.relu(x + 1) @ _W), []
        for size in SIZES:
            x = _input(size)
            h = x * 1
            h += run(h)
            found += torch.autograd.grad(h.sum(), [x, _W])
        return found

    _same(program)


def _heads(x: Tensor) -> tuple[Tensor, Tensor]:
    h = x @ _W
    return h.relu(), h.tanh()


def test_another_result_may_be_written_to(all_sizes: None) -> None:
    def program(compiled: Any) -> Any:
        run, found = compiled(_heads), []
        for size in SIZES:
            x = _input(size)
            first, second = run(x)
            first.add_(1)
            found += torch.autograd.grad(second.sum(), [x, _W])
        return found

    _same(program)


def test_a_result_that_its_gradient_needs_may_not(all_sizes: None) -> None:
    run = anyshape.compile(_heads, dynamic=True)
    for size in SIZES:
        _, second = run(_input(size))
        second.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            second.sum().backward()


def test_what_a_later_call_needs_may_not(all_sizes: None) -> None:
    run = anyshape.compile(lambda x, y: (lambda h: (h.sin(), h.softmax(-1)))(x + y), dynamic=True)
    for size in SIZES:
        first, second = run(_input(size), _input(size))
        first.sum().backward()
        second.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            second.sum().backward()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomalies_are_told_of_by_operator(all_sizes: None) -> None:
    run = anyshape.compile(lambda x: (x.abs() * 0).sqrt() * x + x.sin(), dynamic=True)
    for size in SIZES:
        x = _input(size)
        with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="MulBackward0"):
            run(x).sum().backward()


def test_small_graphs_are_eager() -> None:
    alone = anyshape.compile(lambda x: x.sin(), dynamic=True)
    assert type(alone(_input(3)).grad_fn).__name__ == "SinBackward0"
    assert "there is one operator alone" in str(alone.explain())
    two = anyshape.compile(lambda x: x.sin() * 2, dynamic=True)
    for size in (3, 4, 5):
        assert type(two(_input(size)).grad_fn).__name__ == "MulBackward0"
    assert type(two(_input(1 << 14)).grad_fn).__name__ == "CompiledBackward"
    assert "few operators" in str(two.explain())


def test_a_stage_that_is_not_native_is_a_step() -> None:
    """What cannot be written down is run by torch between what can be."""

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x.sin() * 2 + x.cos()).exp().tanh()
        return y, F.rrelu(y, training=True)

    run = anyshape.compile(program, dynamic=True)
    for size in (3, 4, 5):
        x = _input(size)
        torch.manual_seed(0)
        first, second = run(x)
        (found,) = torch.autograd.grad(second.sum(), x)
        torch.manual_seed(0)
        expected, other = program(x)
        (gradient,) = torch.autograd.grad(other.sum(), x)
        torch.testing.assert_close([first, second, found], [expected, other, gradient])
    assert type(first.grad_fn).__name__ == "CompiledBackward"
    assert "numbers are drawn" in str(run.explain())


HALVES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "tanhshrink": F.tanhshrink,
    "silu": F.silu,
    "gelu": F.gelu,
    "mish": F.mish,
    "elu": F.elu,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "sin": torch.sin,
    "erf": torch.erf,
}


@pytest.mark.parametrize("name", HALVES)
def test_gradients_of_halves_are_as_exact_as_eagers(name: str) -> None:
    """What is computed on the way is rounded to two bytes nowhere, or where eager does it."""

    def function(x: Tensor) -> Tensor:
        return HALVES[name](x * 1) * 2

    compiled = anyshape.compile(function, dynamic=True)
    weights = torch.randn(64, 40, generator=devices.generator(1)).to(torch.bfloat16)
    for rows in (64, 33):
        x = torch.randn(rows, 40, generator=devices.generator(rows)).to(torch.bfloat16)
        errors: list[float] = []
        exact = x.double().requires_grad_()
        (wanted,) = torch.autograd.grad(function(exact), exact, weights[:rows].double())
        for each in (function, compiled, compiled):
            own = x.clone().requires_grad_()
            (grad,) = torch.autograd.grad(each(own), own, weights[:rows])
            errors.append((grad.double() - wanted).abs().mean().item())
        assert errors[-1] <= errors[0] * 1.05
    assert "forward: native code" in str(compiled.explain())


def test_a_loss_that_has_no_gradient_in_eager_code() -> None:
    def function(x: Tensor) -> Tensor:
        return F.huber_loss(x * 1, torch.zeros(x.shape[0])) * 2

    compiled = anyshape.compile(function, dynamic=True)
    for rows in (5, 6, 7):
        x = torch.randn(rows).to(torch.bfloat16).requires_grad_()
        with pytest.raises(RuntimeError, match="Found dtype"):
            compiled(x).backward()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_logits_are_bounded_in_their_dtype(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 1e-4, 0.5, 0.998, 1.0, 3.0, -2.0] * 5).to(dtype)
    for eps in (1e-3, 1e-6, 0.25):
        compiled = anyshape.compile(lambda x, eps=eps: torch.logit(x, eps) * 2 + 1, dynamic=True)
        compiled(x)
        torch.testing.assert_close(compiled(x[1:]), torch.logit(x[1:], eps) * 2 + 1)


def _switched(modes: tuple[bool | None, ...], x: Tensor) -> tuple[Tensor, ...]:
    results = [x]
    for mode in modes:
        if mode is not None:
            torch.set_grad_enabled(mode)
        results.append(results[-1].sin() * 2 + x)
    return tuple(results[1:])


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("modes", [*itertools.product((None, True, False), repeat=3)])
def test_gradients_switched_on_and_off(
    modes: tuple[bool | None, ...], before: bool, all_sizes: None
) -> None:
    """What is recorded, and whether recording is on behind the call."""

    def program(compiled: Any) -> Any:
        run, found = compiled(functools.partial(_switched, modes)), []
        for size in (4, 5, 3, 4):
            x = _input(size)
            with torch.set_grad_enabled(before):
                results = run(x)
                found.append(torch.is_grad_enabled())
            found += [(each.detach(), each.requires_grad) for each in results]
            if results[-1].requires_grad:
                found += torch.autograd.grad(results[-1].sum(), x)
        return found

    _same(program)


_BESIDE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "added twice": lambda x, p: torch.tanh(torch.sin(x @ _W + p).exp() + p),
    "normalized": lambda x, p: F.gelu(F.layer_norm(x, (WIDTH,)) + p) @ _W,
    "normalized by it": lambda x, p: F.gelu(F.layer_norm(x, (WIDTH,), bias=p.view(-1))) @ _W,
    "of a slice": lambda x, p: torch.cos(x.exp() + p.view(-1)[:1] - p.view(-1)[-1:]).sin(),
    "subtracted and gated": lambda x, p: torch.sigmoid(x - p) * torch.tanh(x + p * 2),
}


@pytest.mark.parametrize("behind", ["data", "no_grad"])
@pytest.mark.parametrize("shape", [(WIDTH,), (1, WIDTH)])
@pytest.mark.parametrize("name", _BESIDE)
def test_parameters_that_change_before_backward(
    name: str, shape: tuple[int, ...], behind: str, all_sizes: None
) -> None:
    """Eager code has saved what it has computed of them, and not the parameters."""

    def gradients(compiled: Any) -> list[Any]:
        own = nn.Parameter(torch.zeros(shape))
        run, found = compiled(lambda x: _BESIDE[name](x, own)), []
        for size in SIZES:
            x = _input(size)
            own.data.zero_()
            loss = run(x).square().sum()
            if behind == "data":
                own.data.add_(1)
            else:
                with torch.no_grad():
                    own.add_(1)
            try:
                found.append(torch.autograd.grad(loss, [x, own]))
            except RuntimeError as error:
                if "inplace operation" not in str(error):
                    raise
                found.append(None)
        return found

    expected = gradients(lambda function: function)
    found = gradients(lambda function: anyshape.compile(function, dynamic=True))
    for ours, theirs in zip(found, expected, strict=True):
        if theirs is not None:  # What eager refuses may go on here: it may be computed again.
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


class _Bounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * (x.abs() < 2)


class _Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, x + 1

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 3 + grads[1]


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("_Bounded", lambda x: _Bounded.apply((x * 3).sin() + x).cos() * 2),
        ("_Both", lambda x: _Both.apply(x.sin())[0] * x.cos() + 1),
    ],
)
def test_a_gradient_of_the_programs_own_is_named(
    name: str, program: Callable[[Tensor], Tensor]
) -> None:
    run = anyshape.compile(program, dynamic=True)
    for size in (3, 4, 5):
        x = _input(size)
        (found,) = torch.autograd.grad(run(x).sum(), x)
        (expected,) = torch.autograd.grad(program(x).sum(), x)
        torch.testing.assert_close(found, expected)
    told = str(run.explain())
    assert f"`{name}.apply` has a gradient of the program's own" in told, told
    assert "numbers are drawn" not in told
