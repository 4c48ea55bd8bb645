"""Programs of equal layers, and of layers that are equal but for one thing."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

WIDTH = 8

Tensor = torch.Tensor
Layer = Callable[[Tensor, Sequence[Tensor], Tensor], Tensor]


def post_norm(x: Tensor, w: Sequence[Tensor], mask: Tensor) -> Tensor:
    x = F.layer_norm(x + F.linear(x, w[0], w[1]) * mask, (WIDTH,), w[2], w[3])
    return F.layer_norm(x + F.linear(F.gelu(F.linear(x, w[4])), w[5]), (WIDTH,), w[2])


def pre_norm(x: Tensor, w: Sequence[Tensor], mask: Tensor) -> Tensor:
    """The sum runs through all layers."""
    x = x + F.linear(F.layer_norm(x, (WIDTH,), w[2], w[3]), w[0], w[1])
    return x + F.linear(F.silu(F.linear(F.rms_norm(x, (WIDTH,), w[2]), w[4])), w[5]) * mask


def attention(x: Tensor, w: Sequence[Tensor], mask: Tensor) -> Tensor:
    q, k, v = (
        F.linear(x, each).view(*x.shape[:-1], 2, WIDTH // 2).transpose(-2, -3)
        for each in (w[0], w[4], w[5])
    )
    scores = torch.softmax(q @ k.transpose(-1, -2) / 2 + mask.mean(), -1) @ v
    return x + F.linear(scores.transpose(-2, -3).reshape(x.shape), w[5])


def viewed(x: Tensor, w: Sequence[Tensor], mask: Tensor) -> Tensor:
    """A layer gives a view of what it computes, and adds up what it is given."""
    flat = x.reshape(-1, WIDTH)
    hidden = F.linear(F.relu(F.linear(F.layer_norm(flat, (WIDTH,), w[2], w[3]), w[0])), w[4])
    flat = flat + F.linear(torch.softmax(hidden, -1), w[5], w[1])
    return flat.view(x.shape)


def causal(x: Tensor, w: Sequence[Tensor], mask: Tensor) -> Tensor:
    """What all layers read is made of positions, and never stored."""
    q, k, v = (F.linear(F.rms_norm(x, (WIDTH,), w[2]), each) for each in (w[0], w[4], w[5]))
    places = torch.arange(x.shape[1])
    scores = torch.where(places[:, None] >= places, q @ k.transpose(-1, -2), -1e4)
    return x + torch.softmax(scores, -1) @ v * mask


def pointwise(x: Tensor, w: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Joined over several layers until that is too much."""
    return torch.tanh(x * w[1] + w[2]) * 0.5 + x


def summed(x: Tensor, w: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Never stored before the sum has grown long."""
    return x + w[1]


def reduced(x: Tensor, w: Sequence[Tensor], mask: Tensor) -> Tensor:
    return x * w[1] - (x * w[2]).sum(-1, keepdim=True)


LAYERS: dict[str, Layer] = {
    each.__name__: each
    for each in (post_norm, pre_norm, attention, viewed, causal, pointwise, summed, reduced)
}


def weights(layers: int, seed: int = 0) -> list[list[Tensor]]:
    maker = torch.Generator().manual_seed(seed)
    square, line = (WIDTH, WIDTH), (WIDTH,)
    shapes = (square, line, line, line, square, square)
    # No two of them are alike: a wrong one shows.
    return [[torch.randn(s, generator=maker) / 3 for s in shapes] for _ in range(layers)]


def inputs(rows: int = 5) -> Tensor:
    return torch.randn(2, rows, WIDTH, generator=torch.Generator().manual_seed(rows))


class _Weights(torch.nn.Module):
    def __init__(self, weights: Sequence[Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d, self.e, self.f = (
            each
            if isinstance(each, torch.nn.Parameter)
            else torch.nn.Parameter(each, requires_grad=False)
            for each in weights
        )


class Network(torch.nn.Module):
    """A program whose weights are parameters: their sizes are numbers."""

    def __init__(self, program: Callable[..., Any], layers: Sequence[Sequence[Tensor]]) -> None:
        super().__init__()
        self.program = program
        self.layers = torch.nn.ModuleList(map(_Weights, layers))

    def forward(self, x: Tensor) -> Any:
        return self.program(x, [[w.a, w.b, w.c, w.d, w.e, w.f] for w in self.layers])


def stacked(layer: Layer) -> Callable[..., Any]:
    def program(x: Tensor, layers: list[list[Tensor]]) -> Any:
        mask = (x > 0).to(x.dtype)
        for w in layers:
            x = layer(x, w, mask)
        return torch.relu(x)

    return program


# -- one layer is another --------------------------------------------------------------------------


def _longer(x: Tensor, w: Sequence[Tensor]) -> Tensor:
    """A layer of some steps."""
    hidden = torch.softmax(F.linear(x, w[0], w[1]), -1)
    hidden = F.linear(F.gelu(F.linear(hidden, w[4])), w[5]) - x
    hidden = F.layer_norm(F.linear(hidden, w[0]), (WIDTH,), w[2], w[3])
    return torch.tanh(F.linear(F.relu(F.linear(hidden, w[4])), w[5]))


def another_constant(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    for number, w in enumerate(layers):
        x = F.layer_norm(x + _longer(x, w), (WIDTH,), eps=1e-4 if number == at else 1e-5)
    return x


def number_or_flag(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    for number, w in enumerate(layers):
        x = torch.tanh(_longer(x, w) * (1.0 if number == at else 1) + (0.0, -0.0)[number == at])
    return x


def also_returned(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    found = []
    for number, w in enumerate(layers):
        hidden = F.gelu(_longer(x, w))
        x = x + F.linear(hidden, w[4])
        if number == at:
            found.append(hidden)
    return x, found


def all_returned(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    found = []
    for w in layers:
        x = x + F.gelu(_longer(x, w))
        found.append(x)
    return found


def used_much_later(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    kept = x
    for number, w in enumerate(layers):
        x = torch.tanh(_longer(x, w) + w[1])
        if number == at:
            kept = x
    return x - kept


def written_to(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    x = x * 1
    for number, w in enumerate(layers):
        x = _longer(x, w)
        if number == at:
            x.add_(w[1])
    return x


def all_written_to(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    total = x * 0
    for w in layers:
        x = _longer(x, w)
        total += x
    return x, total


def two_back(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    before = x
    for w in layers:
        before, x = x, _longer(x, w) + before
    return x


def in_turn(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    for number, w in enumerate(layers):
        x = _longer(x, w) if number % 2 else F.layer_norm(x + w[1], (WIDTH,), w[2])
    return x


def shared_weights(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    """All have the same, but for one of them."""
    for number, w in enumerate(layers):
        own = layers[at] if number != at + 1 else w
        x = x + _longer(x, [own[0], *w[1:]])
    return x


def neighbours_weights(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    for number, w in enumerate(layers[:-1]):
        x = _longer(x, w) + layers[number + 1][1]
    return x


def tied(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    """Within one layer two weights are one."""
    for number, w in enumerate(layers):
        x = torch.tanh(_longer(x, w) * w[1] + (w[1] if number == at else w[2]))
    return x


def growing(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    """A sum that each layer adds to, and nobody reads before the end."""
    total = x
    for w in layers:
        x = _longer(x, w)
        total = total + x * w[1]
    return total


def looked_up(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    places = (x[..., 0] > 0).long()
    for w in layers:
        x = _longer(x, w) + F.embedding(places, w[4])
    return x


def by_size(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    for w in layers:
        x = _longer(x, w) / x.shape[1] + torch.arange(x.shape[1])[:, None]
    return x


def in_vain(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    """What only the last layer is asked for, all compute."""
    scores = x
    for w in layers:
        scores = torch.softmax(F.linear(x, w[4]), -1)
        x = _longer(x, w)
    return x, scores


def by_torch(x: Tensor, layers: list[list[Tensor]], at: int) -> Any:
    """Torch is called in each layer."""
    for w in layers:
        x = _longer(x, w).sort(-1)[0]
    return x


ODD = (
    another_constant,
    number_or_flag,
    also_returned,
    all_returned,
    used_much_later,
    written_to,
    all_written_to,
    two_back,
    in_turn,
    shared_weights,
    neighbours_weights,
    tied,
    growing,
    looked_up,
    by_size,
    in_vain,
    by_torch,
)


# -- made at random --------------------------------------------------------------------------------


@dataclass
class RandomLayers:
    """A layer of random operators, and perhaps one that differs in a place."""

    seed: int
    steps: list[tuple[str, int, int, float]] = field(init=False)
    odd: tuple[int, int] | None = field(init=False)

    def __post_init__(self) -> None:
        maker = random.Random(self.seed)
        names = (
            "linear",
            "linear",
            "norm",
            "add",
            "mul",
            "tanh",
            "softmax",
            "sum",
            "scale",
            "turn",
            "keep",
        )
        self.steps = [
            (maker.choice(names), maker.randrange(6), maker.randrange(3), maker.random())
            for _ in range(maker.randrange(5, 16))
        ]
        self.odd = None
        if maker.random() < 0.6:
            self.odd = maker.randrange(10), maker.randrange(len(self.steps))

    def __call__(self, x: Tensor, layers: list[list[Tensor]]) -> Any:
        values = [x, torch.tanh(x), x * 2]
        kept: list[Tensor] = []
        for number, w in enumerate(layers):
            for place, (name, weight, back, constant) in enumerate(self.steps):
                x, other = values[-1], values[-1 - back]
                if self.odd == (number, place):
                    name, constant = "scale", 0.25
                match name:
                    case "linear":
                        x = F.linear(x, w[(0, 4, 5)[weight % 3]])
                    case "norm":
                        x = F.layer_norm(x, (WIDTH,), w[1 + weight % 3])
                    case "add":
                        x = x + other
                    case "mul":
                        x = x * w[1 + weight % 3]
                    case "tanh":
                        x = torch.tanh(x)
                    case "softmax":
                        x = torch.softmax(x, -1)
                    case "sum":
                        x = x - x.sum((-1, 1)[weight % 2], keepdim=True)
                    case "scale":
                        x = x * constant
                    case "turn":
                        x = x.transpose(0, 1).contiguous().transpose(0, 1)
                    case _:
                        kept = [other]
                values = [*values[-2:], x]
        return values[-1], kept
