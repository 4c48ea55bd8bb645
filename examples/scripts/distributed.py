"""Data parallel training: `torchrun --nproc-per-node 2 -m anyshape run distributed.py`."""

import argparse
import random

import torch
import torch.distributed as dist
from steps import steps
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.head = nn.Linear(16, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + layer(x).relu()
        return self.head(x.mean(1))


def train(wrap_first: bool, count: int) -> None:
    torch.manual_seed(6)
    raw = Model()
    if wrap_first:
        model = torch.compile(DistributedDataParallel(raw))
    else:
        model = DistributedDataParallel(torch.compile(raw))
    optimizer = torch.optim.SGD(raw.parameters(), lr=0.05)
    # Each rank has batches of its own sizes.
    chance = random.Random(dist.get_rank())
    torch.manual_seed(10 + dist.get_rank())
    for step in steps(count):
        tokens = torch.randint(0, 20, (chance.randint(2, 6), chance.randint(3, 12)))
        loss = nn.functional.cross_entropy(model(tokens), tokens[:, 0] % 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if dist.get_rank() == 0:
                print(f"{'around' if wrap_first else 'inside'} {step}: {mean.item() / 2:.4f}")
    weights = torch.cat([each.detach().flatten() for each in raw.parameters()])
    others = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(others, weights)
    assert all(torch.equal(each, weights) for each in others), "ranks have other weights"
    if dist.get_rank() == 0:
        print(f"sum {weights.sum().item():.3f}")


def main(count: int) -> None:
    dist.init_process_group("gloo")
    for wrap_first in (True, False):
        train(wrap_first, count)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    main(parser.parse_args().steps)
