"""What is served: an encoder of sequences of tokens, one vector for each."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY, WIDTH, HEADS, LAYERS = 1000, 64, 4, 2
MOST_SEQUENCES, MOST_TOKENS = 32, 128
PADDING = 0


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, is_token: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, width // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.mT * (width // HEADS) ** -0.5
        scores = scores.masked_fill(~is_token[:, None, None, :], float("-inf"))
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    """The mean over the tokens of each sequence, padding left out."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.randn(MOST_TOKENS, WIDTH) * 0.1)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        is_token = tokens != PADDING
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, is_token)
        kept = self.norm(x) * is_token[..., None]
        return F.normalize(kept.sum(1) / is_token.sum(1, keepdim=True), dim=-1)


def encoder() -> Encoder:
    """Without training, but always the same."""
    torch.manual_seed(0)
    return Encoder().eval()
