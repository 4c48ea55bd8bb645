"""Floats that change are inputs of the graph from the second value on, where no flag was chosen."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape import config

pytestmark = pytest.mark.usefixtures("fresh")

#: Values of a schedule, with ends that programs ask for (0, 1) between others.
VALUES = (0.5, 0.25, 0.0, 0.125, 1.0, 0.75, 0.3, 0.5)

Program = Callable[[Tensor, float], Tensor]

#: One graph serves them all, after the first.
INPUTS: dict[str, Program] = {
    "weight": lambda x, f: x.pow(2).mean() + f * x.abs().mean(),
    "inverse": lambda x, f: x / (f + 0.5),
    "inverse_reflected": lambda x, f: (1 - f) / (x.abs() + 1),
    "temperature": lambda x, f: (x / (f + 0.1)).softmax(-1),
    "exponent": lambda x, f: x.abs() ** f,
    "base": lambda x, f: (f + 1) ** x,
    "bound": lambda x, f: x.clamp(-f, f),
    "fill": lambda x, f: x.masked_fill(x > 0, f),
    "lerp": lambda x, f: torch.lerp(x, x * 2, f),
    "alpha": lambda x, f: torch.add(x, x.exp(), alpha=f),
    "value": lambda x, f: torch.addcmul(x, x, x, value=f),
    "constant": lambda x, f: torch.full_like(x, f) * x,
    "compared": lambda x, f: torch.where(x > f, x, -x),
    "in_python": lambda x, f: x * math.exp(-f) + abs(f - 1),
    "stored": lambda x, f: x * {"rate": f}["rate"] + [f, 2.0][0],
}

#: More graphs where the program or an operator asks; the answers are eager's.
RIGHT: dict[str, Program] = {
    "larger": lambda x, f: x * max(f, 0.4),
    "branch": lambda x, f: x * f if f > 0.4 else x - f,
    "dropout": lambda x, f: F.dropout(x, f * 0.9),
    "slope": F.leaky_relu,
    "elu": lambda x, f: F.elu(x, f + 0.1),
    "softplus": lambda x, f: F.softplus(x, beta=f + 0.5),
    "smooth": lambda x, f: F.cross_entropy(x, torch.zeros(len(x)).long(), label_smoothing=f),
    "huber": lambda x, f: F.huber_loss(x, -x, delta=f + 0.1),
    "eps": lambda x, f: F.layer_norm(x, (6,), eps=f + 1e-3),
    "norm": lambda x, f: F.normalize(x, p=f + 1.0),
    "attention": lambda x, f: F.scaled_dot_product_attention(x, x, x, scale=f),
    "noise": lambda x, f: x + torch.randn_like(x) * f,
    "draw": lambda x, f: x * torch.bernoulli(torch.full_like(x.detach(), f)),
    "resize": lambda x, f: F.interpolate(x[None], scale_factor=f + 0.5),
    "kept": lambda x, f: x[:, : max(1, int(f * x.size(1)))],
    "topk": lambda x, f: x.flatten().topk(max(1, round(f * x.numel()))).values,
    "quantile": lambda x, f: x.quantile(f),
    "range": lambda x, f: x.sum() * torch.arange(0, f + 1, 0.25),
    "line": lambda x, f: x * torch.linspace(0, f, x.size(1)),
    "text": lambda x, f: x * len(f"{f:.3f}".rstrip("0")),
    "whole": lambda x, f: x * 2 if f.is_integer() else x,
    "key": lambda x, f: x * {0.5: 3, 0.25: 5}.get(f, 1),
}


def agree(compiled: Any, program: Program, columns: int = 6) -> None:
    for n, f in enumerate(VALUES):
        answers: list[Any] = []
        for each in (program, compiled):
            torch.manual_seed(n)
            x = torch.randn(2 + n, columns, requires_grad=True)
            y = each(x, f)
            y.sum().backward()
            answers.append((y.detach(), x.grad, torch.get_rng_state()))
        torch.testing.assert_close(answers[1], answers[0], equal_nan=True)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", INPUTS)
def test_one_graph_serves_all_values(name: str, dynamic: bool | None) -> None:
    compiled = anyshape.compile(INPUTS[name], dynamic=dynamic)
    agree(compiled, INPUTS[name])
    assert compiled.stats().graphs <= 2
    assert compiled.stats().eager_calls == 0


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", RIGHT)
def test_what_asks_for_the_value_is_right(name: str, dynamic: bool | None) -> None:
    agree(anyshape.compile(RIGHT[name], dynamic=dynamic), RIGHT[name])


TOO_LARGE: dict[str, Program] = {
    "tensor": lambda x, f: x.mul_(torch.tensor(f)),
    "tensor alone": lambda x, f: x * torch.tensor(f),
    "tensor of halves": lambda x, f: x.half().mul_(torch.tensor(f, dtype=torch.float16)),
    "of integers": lambda x, f: x.mul_(torch.tensor(f, dtype=torch.int32)),
    "element": lambda x, f: x.index_put_((torch.tensor([0]),), torch.tensor(f)),
    "full": lambda x, f: x.mul_(torch.full((), f)),
    "fill": lambda x, f: x.fill_(f),
    "number": lambda x, f: x.mul_(f),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_numbers_that_the_dtype_does_not_have(name: str) -> None:
    """Some operators refuse them, and `torch.tensor` makes them infinite."""
    program = TOO_LARGE[name]
    compiled = anyshape.compile(program)
    for value in (0.5, 0.25, 1e39, 2.0, -1e39, 70000.0, math.inf, math.nan):
        given, answers = [torch.ones(3), torch.ones(3)], []
        for call, x in zip((compiled, program), given, strict=True):
            try:
                answers.append(call(x, value))
            except RuntimeError as error:
                answers.append(error)
        ours, eager = answers
        if isinstance(eager, Tensor):
            torch.testing.assert_close(ours, eager, equal_nan=True)
        else:
            assert (type(ours), str(ours)) == (type(eager), str(eager))
        torch.testing.assert_close(*given, equal_nan=True)


def _too_large(count: Tensor, x: Tensor, f: float) -> Tensor:
    count.add_(1)
    try:
        return x.masked_fill(x > 0, f) + 1
    except RuntimeError:
        return x + count


def _of_no_number(count: Tensor, x: Tensor, f: float) -> Tensor:
    count.add_(1)
    try:
        return x * math.log(f)
    except ValueError:
        return x + count


def _written_inside(count: Tensor, x: Tensor, f: float) -> Tensor:
    try:
        count.mul_(2)
        y = x.clamp(max=f * 2)
    except (RuntimeError, ValueError):
        y = x + count
    return y * count.add_(1)


def _by_a_divisor(count: Tensor, x: Tensor, f: float) -> Tensor:
    count.add_(1)
    try:
        return x.clamp(max=1 / (f + 1))
    except ArithmeticError:
        return x + count


@pytest.mark.parametrize("program", [_too_large, _of_no_number, _written_inside, _by_a_divisor])
@pytest.mark.parametrize("size", [3, 100_000])
def test_what_numbers_cannot_be_is_caught(program: Any, size: int) -> None:
    """Behind writes, which are done once."""
    compiled = anyshape.compile(program)
    for number in (2.0, 3.0, 4.0, 1e39, 5.0, -1.0, 0.5):
        x, counts = torch.linspace(-1, 1, 4), [torch.ones(size, 1) for _ in "ab"]
        found, expected = (
            call(count, x, number) for call, count in zip((compiled, program), counts, strict=True)
        )
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(*counts)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        ctx.rate = rate
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] because torch's own has *args
        return -ctx.rate * grad, None


class Kept(torch.autograd.Function):
    """As many columns as the number says."""

    @staticmethod
    def forward(x: Tensor, rates: list[float]) -> Tensor:
        return x[:, : 1 + int(rates[0] * 4)] * rates[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.rates = inputs
        ctx.shape = x.shape

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] because torch's own has *args
        whole = grad.new_zeros(ctx.shape)
        whole[:, : grad.shape[1]] = grad * ctx.rates[0]
        return whole, None


#: A number that code of the program is given: what is around the call is compiled without it.
GIVEN_ON: dict[str, Program] = {
    "rate": lambda x, f: Reversed.apply(x.sin(), f).cos() * 2,
    "computed": lambda x, f: Reversed.apply(x.sin(), 1 / (f + 1)).cos() * 2,
    "of a size": lambda x, f: Reversed.apply(x.sin(), f / x.size(0)).cos() * 2,
    "in a list": lambda x, f: Kept.apply(x.sin(), [f]).cos() * 2,
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", GIVEN_ON)
def test_functions_with_gradients_of_their_own(name: str, dynamic: bool | None) -> None:
    compiled = anyshape.compile(GIVEN_ON[name], dynamic=dynamic)
    agree(compiled, GIVEN_ON[name])
    count = compiled.stats().graphs
    agree(compiled, lambda x, f: GIVEN_ON[name](x, f))
    assert compiled.stats().graphs == count <= 4
    assert "takes a float that changes" in str(compiled.explain())


def test_one_graph_is_one_graph_for_each_value() -> None:
    compiled = anyshape.compile(GIVEN_ON["rate"], fullgraph=True)
    agree(compiled, GIVEN_ON["rate"])
    assert compiled.stats().boundaries == 0


class Annealed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.1)
        self.beta = 0.0

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.norm(self.layer(x))) * (1 - self.beta) + self.beta * x


def anneal(module: Annealed, name: str, value: float) -> None:
    match name:
        case "beta":
            module.beta = value
        case "momentum":
            module.norm.momentum = value
        case _:
            module.drop.p = value * 0.9


@pytest.mark.parametrize("name", ["beta", "momentum", "p"])
def test_floats_that_modules_hold(name: str) -> None:
    eager = Annealed()
    twin = copy.deepcopy(eager)
    compiled: Any = anyshape.compile(twin)
    for n, value in enumerate(VALUES):
        answers: list[Any] = []
        for each, module in ((eager, eager), (compiled, twin)):
            anneal(module, name, value)
            torch.manual_seed(n)
            each(torch.randn(3 + n, 6)).pow(2).mean().backward()
            answers.append((dict(module.named_buffers()), [p.grad for p in module.parameters()]))
        torch.testing.assert_close(answers[1], answers[0], rtol=1e-4, atol=1e-5)
    if name == "beta":
        assert compiled.stats().graphs <= 2


@pytest.mark.parametrize("chosen", [{"specialize_float": True}, {"automatic_dynamic": False}])
def test_who_wants_them_static_has_them_so(chosen: dict[str, bool]) -> None:
    with config.patch(**chosen):
        compiled = anyshape.compile(INPUTS["weight"], dynamic=True)
        for f in (0.5, 0.25, 0.75):
            compiled(torch.ones(3), f)
    assert compiled.stats().graphs == 3


def test_dynamic_false_keeps_them_static() -> None:
    compiled = anyshape.compile(INPUTS["weight"], dynamic=False)
    for f in (0.5, 0.25, 0.75):
        compiled(torch.ones(3), f)
    assert compiled.stats().graphs == 3


def test_a_float_that_never_changes_is_part_of_the_program() -> None:
    compiled = anyshape.compile(INPUTS["weight"])
    for n in (3, 4, 5):
        compiled(torch.ones(n), 0.5)
    assert any("0.5" in guard.text for guard in compiled.entries[-1].guards)
