"""Workloads that are a small module, with parameters of its own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.native.workload import Workload, sizes

_VOCABULARY, _WIDTH = 20_000, 64
_INPUT, _HIDDEN, _STEPS = 64, 128, 8


class BagAndMLP(nn.Module):
    """Scores of bags of tokens, as a recommender computes them."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(_VOCABULARY, _WIDTH, mode="mean")
        self.mlp = nn.Sequential(
            nn.Linear(_WIDTH, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, tokens: Tensor, offsets: Tensor) -> Tensor:
        return torch.sigmoid(self.mlp(self.bag(tokens, offsets)))


class UNetStep(nn.Module):
    """One step down and up: the small image grows back to the size of the one that was kept."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 2 * channels)
        self.up = nn.Conv2d(3 * channels, channels, 3, padding=1)
        self.leave = nn.Conv2d(channels, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = F.silu(self.enter(x))
        low = F.silu(self.norm(self.down(kept)))
        high = F.interpolate(low, size=kept.shape[-2:], mode="bilinear", align_corners=False)
        return x + self.leave(F.silu(self.up(torch.cat([kept, high], dim=1))))


class CellLoop(nn.Module):
    """A cell with the gates of an LSTM, in a Python loop over a fixed number of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(_INPUT + _HIDDEN, 4 * _HIDDEN)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        state = x.new_zeros(x.shape[1], _HIDDEN)
        memory = torch.zeros_like(state)
        for step in range(_STEPS):
            gates = self.gates(torch.cat([x[step], state], dim=-1))
            enter, forget, leave, new = gates.chunk(4, dim=-1)
            memory = forget.sigmoid() * memory + enter.sigmoid() * new.tanh()
            state = leave.sigmoid() * memory.tanh()
        return state, memory


def _bags(bags: int, tokens: int) -> tuple[Any, ...]:
    starts = torch.randint(0, tokens + 1, (bags,)).sort().values
    starts[0] = 0
    return torch.randint(0, _VOCABULARY, (tokens,)), starts


NETWORKS = (
    Workload(
        "embedding bag MLP",
        lambda: BagAndMLP().eval(),
        _bags,
        sizes((2, 6), (256, 5000), (4096, 200_000), (37, 1009)),
    ),
    Workload(
        "U-Net step",
        lambda: UNetStep().eval(),
        lambda batch, height, width: (torch.randn(batch, 3, height, width),),
        sizes((1, 8, 8), (2, 64, 64), (4, 256, 256), (3, 45, 37)),
    ),
    Workload(
        "LSTM-like loop",
        lambda: CellLoop().eval(),
        lambda batch: (torch.randn(_STEPS, batch, _INPUT),),
        sizes((2,), (64,), (4096,), (37,)),
    ),
)
