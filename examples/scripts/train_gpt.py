"""Train a small GPT on sequences of any length, then sample from it."""

import argparse
import math
import random

import torch
from steps import steps
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 31, 32, 4, 2, 64


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.joint = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.size()
        q, k, v = self.joint(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, width))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.wide = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.wide(self.second(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor, targets: Tensor | None = None):
        _, length = tokens.size()
        assert length <= LONGEST, f"{length} tokens are more than {LONGEST}"
        x = self.tokens(tokens) + self.places(torch.arange(length, device=tokens.device))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if targets is None:
            return self.head(x[:, [-1], :]), None
        logits = self.head(x)
        return logits, functional.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))

    @torch.no_grad()
    def generate(self, tokens: Tensor, count: int, temperature: float = 1.0) -> Tensor:
        for _ in range(count):
            logits, _ = self(tokens[:, -LONGEST:])
            shares = functional.softmax(logits[:, -1, :] / temperature, dim=-1)
            tokens = torch.cat((tokens, torch.multinomial(shares, num_samples=1)), dim=1)
        return tokens


def rate(step: int, count: int) -> float:
    """A warm-up, then half a cosine."""
    if step < 10:
        return 1e-3 * (step + 1) / 10
    return 1e-4 + 0.5 * (1 + math.cos(math.pi * step / count)) * 9e-4


def main(count: int) -> None:
    torch.manual_seed(1)
    lengths = random.Random(1)
    raw = GPT()
    model = torch.compile(raw)
    optimizer = torch.optim.AdamW(raw.parameters(), lr=1e-3, weight_decay=0.1)
    for step in steps(count):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, count)
        batch, length = lengths.randint(1, 6), lengths.randint(4, 40)
        start = torch.randint(0, VOCABULARY, (batch, 1))
        tokens = (start + 3 * torch.arange(length + 1)) % VOCABULARY
        _, loss = model(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(raw.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    raw.eval()
    compiled = torch.compile(raw.generate)
    print("logits", [round(v, 2) for v in model(torch.arange(9)[None])[0][0, 0, :4].tolist()])
    print("sampled", tuple(compiled(torch.tensor([[1, 4]]), 12).shape))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
