"""Graphs with gradients whose numbers are computed: of sizes, of data, or given anew by each call.
What is known of one run must not be part of the code. Operators that update what they are given do
so once, whoever does their gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape import config


class Statistics(nn.Module):
    """A layer, buffers that are updated, and a function of both and a number."""

    def __init__(self, body: Callable[[Any, Tensor, float], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))
        self.body = body

    def forward(self, x: Tensor, number: float) -> Tensor:
        return self.body(self, self.layer(x), number).tanh() * 2


def heads(x: Tensor) -> Tensor:
    return x.reshape(x.size(0), 1, -1, 2)


BODIES: dict[str, Callable[[Any, Tensor, float], Tensor]] = {
    "momentum": lambda m, x, f: F.batch_norm(x, m.mean, m.var, training=True, momentum=f),
    "eps": lambda m, x, f: F.batch_norm(x, m.mean, m.var, training=True, eps=f + 1e-3),
    "instance": lambda m, x, f: F.instance_norm(
        x.T[None], m.mean, m.var, use_input_stats=True, momentum=f
    ),
    "layer eps": lambda m, x, f: F.layer_norm(x, (4,), eps=f + 1e-3),
    "group eps": lambda m, x, f: F.group_norm(x, 2, eps=f + 1e-3),
    "scale": lambda m, x, f: F.scaled_dot_product_attention(
        heads(x), heads(x), heads(x), scale=f + 0.1
    ),
    "attention dropout": lambda m, x, f: F.scaled_dot_product_attention(
        heads(x), heads(x), heads(x), dropout_p=f
    ),
    "dropout": lambda m, x, f: F.dropout(x, f),
    "alpha dropout": lambda m, x, f: F.alpha_dropout(x, f, training=True),
    "rrelu": lambda m, x, f: F.rrelu(x, f, f + 0.5, training=True),
    "power": lambda m, x, f: x.abs() ** f,
    "lerp": lambda m, x, f: torch.lerp(x, x * x, f),
    "celu": lambda m, x, f: F.celu(x, f + 0.1),
    "huber": lambda m, x, f: F.huber_loss(x, -x, delta=f + 0.1, reduction="none"),
    "distance": lambda m, x, f: torch.cdist(x, x * 2, p=f + 1.5),
    "norm": lambda m, x, f: torch.linalg.vector_norm(x, f + 1.5, dim=-1),
    "smooth": lambda m, x, f: F.cross_entropy(x, x.argmax(-1), label_smoothing=f),
    "update": lambda m, x, f: x + m.mean.lerp_(x.detach().mean(0), f),
}

#: Where the number comes from: given, of a size, of data.
ORIGINS: dict[str, Callable[[Tensor, float], float]] = {
    "given": lambda x, f: f,
    "size": lambda x, f: 1 - 3 / x.size(0),
    "data": lambda x, f: float(x.detach().abs().mean().clamp(max=0.9)),
}
VALUES = (0.5, 0.0, 0.25, 0.75, 0.125)


def of(origin: str, body: Callable[[Any, Tensor, float], Tensor]) -> Any:
    number = ORIGINS[origin]
    return lambda module, x, f: body(module, x, number(x, f))


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("name", BODIES)
def test_numbers_are_those_of_the_call(name: str, origin: str) -> None:
    eager = Statistics(of(origin, BODIES[name]))
    twin = copy.deepcopy(eager)
    compiled = anyshape.compile(twin)
    for n, value in enumerate(VALUES):
        answers: list[Any] = []
        for each, module in ((eager, eager), (compiled, twin)):
            module.zero_grad()
            torch.manual_seed(n)
            result = each(torch.randn(3 + n, 4), value)
            result.pow(2).mean().backward()
            grads = [parameter.grad for parameter in module.parameters()]
            answers.append((result, grads, dict(module.named_buffers()), torch.get_rng_state()))
        torch.testing.assert_close(answers[1], answers[0], rtol=1e-4, atol=1e-5)


class Observed(nn.Module):
    """What quantization-aware training has: an operator that updates six of its arguments."""

    on: Tensor
    low: Tensor
    high: Tensor
    scale: Tensor
    zero: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("on", torch.tensor([1]))
        self.register_buffer("low", torch.tensor(0.0))
        self.register_buffer("high", torch.tensor(0.0))
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("zero", torch.zeros(1, dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.fused_moving_avg_obs_fake_quant(
            self.layer(x), self.on, self.on, self.low, self.high, self.scale, self.zero,
            0.1, 0, 255, 0,
        )  # fmt: skip
        return seen.tanh() * 2


class Renormed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 4, max_norm=0.5)
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.table((x[:, 0].abs() * 3).long().clamp(max=8))).tanh() * 2


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("make", [Observed, Renormed])
def test_updates_happen_once(make: Callable[[], nn.Module], native: bool) -> None:
    eager = make()
    twin = copy.deepcopy(eager)
    with config.patch(native_training=native):
        compiled = anyshape.compile(twin)
        for n in range(6):
            answers: list[Any] = []
            for each, module in ((eager, eager), (compiled, twin)):
                module.zero_grad()
                torch.manual_seed(n)
                each(torch.randn(3 + n, 4)).pow(2).mean().backward()
                grads = [parameter.grad for parameter in module.parameters()]
                answers.append((grads, module.state_dict()))
            torch.testing.assert_close(answers[1], answers[0])
