"""Causal, windowed, grouped, biased and cross attention, written by hand and by torch."""

import argparse
import math
import random
from collections.abc import Callable

import torch
from steps import steps
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, WIDTH = 4, 8


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1) @ v


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    length = q.shape[-2]
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    scores = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v


def windowed(q: Tensor, k: Tensor, v: Tensor, window: int = 3) -> Tensor:
    places = torch.arange(q.shape[-2])
    near = (places[:, None] - places[None, :]).abs() < window
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=near)


def with_linear_bias(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    slopes = torch.tensor([2.0 ** -(i + 1) for i in range(HEADS)])[:, None, None]
    places = torch.arange(k.shape[-2])
    bias = -(places[None, :] - places[:, None]).abs() * slopes
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = k[:, ::2], v[:, ::2]
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def by_the_math_kernel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return functional.scaled_dot_product_attention(q, k, v)


def rotated(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    half = q.shape[-1] // 2
    angles = torch.arange(q.shape[-2])[:, None] / 100 ** (torch.arange(half) / half)

    def turn(t: Tensor) -> Tensor:
        a, b = t.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    return functional.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)


def linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = functional.elu(q) + 1, functional.elu(k) + 1
    state = torch.einsum("bhnd,bhne->bhde", k, v)
    return torch.einsum("bhnd,bhde->bhne", q, state) / (q @ k.sum(-2)[..., None])


VARIANTS: tuple[Callable[..., Tensor], ...] = (
    *(plain, causal, windowed, with_linear_bias, grouped, by_the_math_kernel, rotated, linear),
)


class Cross(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(HEADS * WIDTH, HEADS, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(
            HEADS * WIDTH, HEADS, 48, dropout=0.0, batch_first=True
        )

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        padded = torch.arange(memory.shape[1])[None] >= lengths[:, None]
        y, _ = self.attention(x, memory, memory, key_padding_mask=padded, need_weights=False)
        return self.layer(x + y)


def main(count: int) -> None:
    torch.manual_seed(9)
    chance = random.Random(9)
    compiled = {each.__name__: torch.compile(each) for each in VARIANTS}
    cross = torch.compile(Cross())
    for step in steps(count):
        batch, length = chance.randint(1, 3), chance.randint(2, 17)
        q, k, v = (torch.randn(batch, HEADS, length, WIDTH, requires_grad=True) for _ in range(3))
        for name, function in compiled.items():
            total = function(q, k, v).pow(2).sum()
            (gradient,) = torch.autograd.grad(total, q)
            if step % 50 == 0:
                print(f"{name} {step}: {total.item():.3f} {gradient.abs().sum().item():.3f}")
        memory = torch.randn(batch, chance.randint(3, 9), HEADS * WIDTH)
        lengths = torch.randint(1, 4, (batch,))
        found = cross(q.detach().transpose(1, 2).flatten(2), memory, lengths)
        if step % 20 == 0:
            print(f"cross {step}: {found.abs().mean().item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    main(parser.parse_args().steps)
