"""Modules: layers, transformer blocks, convolutions, recurrent networks, modes and buffers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshape import Dim
from tests.golden.program import Program, floats, integers, program

BATCH = {0: Dim("batch", min=1)}


@program
def perceptron() -> Program:
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2)).eval()
    calls = [(floats(k, 4),) for k in (3, 5)]
    return Program(model, calls, export={"dynamic_shapes": (BATCH,)}, llvm=True)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.into(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.after = nn.LayerNorm(width)
        self.mix = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before(x))
        return x + self.mix(self.after(x))


@program
def language_model() -> Program:
    """Layers that repeat: three equal blocks, behind an embedding."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(10, 8), nn.Embedding(32, 8)
            self.blocks = nn.ModuleList(Block(8, 2) for _ in range(3))
            self.last = nn.LayerNorm(8)

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.words(tokens) + self.places(torch.arange(tokens.size(1)))
            for block in self.blocks:
                x = block(x)
            return self.last(x) @ self.words.weight.T

    calls = [(integers(2, 5),), (integers(3, 7),)]
    shapes = ({0: Dim("batch", min=1), 1: Dim("length", min=2, max=32)},)
    return Program(Model().eval(), calls, {"dynamic": True}, export={"dynamic_shapes": shapes})


@program
def masked_attention() -> Program:
    calls = [(floats(2, n, 8), torch.ones(n, n).tril().bool()) for n in (3, 5)]
    n = Dim("n", min=2)
    shapes = ({1: n}, {0: n, 1: n})
    return Program(Attention(8, 2).eval(), calls, export={"dynamic_shapes": shapes})


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(F.relu(self.norm(self.first(x)))))


def pictures() -> nn.Module:
    layers = (nn.Conv2d(3, 4, 3, stride=2), Residual(4), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4, 5))


@program
def convolutions() -> Program:
    calls = [(floats(2, 3, n, n),) for n in (9, 13)]
    shapes = ({0: Dim("batch"), 2: Dim("height", min=8), 3: Dim("width", min=8)},)
    return Program(pictures().eval(), calls, export={"dynamic_shapes": shapes})


@program
def channels_last() -> Program:
    model: Any = pictures().eval()
    model.to(memory_format=torch.channels_last)
    calls = [(floats(2, 3, n, n).to(memory_format=torch.channels_last),) for n in (9, 13)]
    return Program(model, calls, export=None)


@program
def batch_norm_in_training() -> Program:
    """Buffers that a call writes to."""
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.AvgPool1d(2)).train()
    calls = [(floats(2, 2, n),) for n in (7, 9)]
    return Program(model, calls, export={"dynamic_shapes": ({2: Dim("n", min=6)},)})


@program
def recurrent() -> Program:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 6, num_layers=2, batch_first=True)
            self.head = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            states, (last, _) = self.lstm(x)
            return self.head(states), last[-1]

    calls = [(floats(2, n, 4),) for n in (3, 5)]
    shapes = ({0: Dim("batch"), 1: Dim("length", min=1)},)
    return Program(Model().eval(), calls, export={"dynamic_shapes": shapes})


@program
def mode_and_hook() -> Program:
    """A module whose way depends on its mode, with a buffer that counts and a hook."""

    class Model(nn.Module):
        seen: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.register_buffer("seen", torch.zeros((), dtype=torch.long))

        def forward(self, x: Tensor) -> Tensor:
            self.seen += 1
            x = self.layer(x)
            return F.dropout(x, 0.25) if self.training else x * 2

    model = Model().eval()

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        return output + 1

    model.layer.register_forward_hook(hook)
    return Program(model, [(floats(k, 4),) for k in (3, 5)], export={"dynamic_shapes": (BATCH,)})


@program
def resampling() -> Program:
    class Model(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            large = F.interpolate(x, scale_factor=2.0, mode="nearest")
            smooth = F.interpolate(x, size=(7, 7), mode="bilinear", align_corners=False)
            return (
                large,
                smooth,
                F.avg_pool2d(large, 2) + x,
                F.grid_sample(x, y, align_corners=True),
            )

    calls = [(floats(1, 2, n, n), floats(1, 3, 3, 2) / 4) for n in (4, 6)]
    n = Dim("n", min=2)
    return Program(Model(), calls, export={"dynamic_shapes": ({2: n, 3: n}, None)})
