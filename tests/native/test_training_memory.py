"""`config.training_memory`: what is kept for the backward, and what is computed again."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import anyshape
from anyshape.backends.native import small_graphs
from anyshape.config import config
from benchmarks.native.memory import allocator_peak

WIDTH: Final = 32
ALL: Final = ("speed", "eager", "least")


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(config, "on_compile_error", "raise")


class Attending(nn.Module):
    """Queries, keys and values of one product, or of three; scores as they are written out."""

    def __init__(self, is_one: bool, is_fused: bool) -> None:
        super().__init__()
        self.is_fused = is_fused
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH) if is_one else None
        self.apart = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(0 if is_one else 3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        parts = (
            self.qkv(x).split(WIDTH, -1)
            if self.qkv is not None
            else [each(x) for each in self.apart]
        )
        q, k, v = (each.view(batch, length, 4, WIDTH // 4).transpose(1, 2) for each in parts)
        if self.is_fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = F.dropout((q @ k.mT / 3).softmax(-1), 0.1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Layer(nn.Module):
    def __init__(self, is_one: bool, is_fused: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attending(is_one, is_fused)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1)


def layers(is_one: bool = True, is_fused: bool = True) -> nn.Module:
    return nn.Sequential(*(Layer(is_one, is_fused) for _ in range(3)))


def convolved() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.SiLU(), nn.Flatten(1), nn.LazyLinear(4), nn.Tanh()
    )


def sequence(length: int) -> Tensor:
    return torch.randn(3, length, WIDTH)


def images(count: int) -> Tensor:
    return torch.randn(count, 3, 6, 6)


NETWORKS: Final[dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor]]]] = {
    "one product": (layers, sequence),
    "three products": (lambda: layers(is_one=False), sequence),
    "scores": (lambda: layers(is_fused=False), sequence),
    "batch norm": (convolved, images),
}


@pytest.mark.parametrize("memory", ALL)
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_and_buffers_are_eagers(name: str, memory: Any) -> None:
    """And random numbers: what is drawn is not drawn again."""
    make, inputs = NETWORKS[name]
    own = make().double()
    own(inputs(2).double())
    other = copy.deepcopy(own)
    with config.patch(training_memory=memory):
        compiled: Any = anyshape.compile(own, dynamic=True)
        for count in (5, 9, 1, 2, 17):
            x = inputs(max(count, 2)).double()
            found: list[Any] = []
            networks: tuple[Callable[[Tensor], Tensor], ...] = (compiled, other)
            for network in networks:
                torch.manual_seed(count)
                given = x.clone().requires_grad_()
                network(given).square().mean().backward()
                found.append((given.grad, torch.rand(3)))
            torch.testing.assert_close(*found)
        for each, wanted in zip(own.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(each.grad, wanted.grad)
        for each, wanted in zip(own.buffers(), other.buffers(), strict=True):
            torch.testing.assert_close(each, wanted)
    assert compiled.stats().graphs == 1


@pytest.mark.parametrize("is_one", [True, False])
def test_less_is_kept(is_one: bool) -> None:
    x = torch.randn(4, 256, WIDTH)
    peaks: dict[str, int] = {}
    for memory in ALL:
        network = layers(is_one)
        with config.patch(training_memory=memory):
            compiled = anyshape.compile(network, dynamic=True)
            for _ in range(2):
                compiled(x).sum().backward()
        network.zero_grad()
        peaks[memory] = allocator_peak(lambda run=compiled: run(x).sum().backward())
    network = layers(is_one)
    eager = allocator_peak(lambda: network(x).sum().backward())
    assert peaks["least"] < 0.7 * peaks["eager"] < 0.7 * eager, (peaks, eager)
    assert peaks["eager"] <= peaks["speed"], peaks


def test_what_is_kept_is_told() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        return (y * y.exp()).sum()

    lines: dict[str, str] = {}
    for memory in ALL:
        with config.patch(training_memory=memory):
            compiled = anyshape.compile(f, dynamic=True)
            w = torch.randn(4, 64, requires_grad=True)
            compiled(torch.randn(300, 4, requires_grad=True), w).backward()
        lines[memory] = next(e for e in str(compiled.explain()).splitlines() if "are saved" in e)
    assert re.search("2 results .* 0 operators are recomputed", lines["speed"])
    assert re.search("1 results .* 1 operators are recomputed", lines["eager"])
    assert re.search("0 results .* 2 operators are recomputed", lines["least"])


def test_only_its_words() -> None:
    with pytest.raises(anyshape.AnyshapeError, match="did you mean 'least'"):
        config.training_memory = "lest"  # pyright: ignore[reportAttributeAccessIssue] on purpose
