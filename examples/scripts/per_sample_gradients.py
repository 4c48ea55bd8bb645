"""Gradients of each sample, and Jacobians, by the transforms of torch.func."""

import argparse
import random

import torch
from steps import steps
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap


def main(count: int) -> None:
    torch.manual_seed(10)
    chance = random.Random(10)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    weights = {name: each.detach() for name, each in model.named_parameters()}

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        found = functional_call(model, weights, (x[None],))
        return nn.functional.cross_entropy(found, y[None])

    @torch.compile
    def clipped(weights: dict[str, Tensor], x: Tensor, y: Tensor, most: float) -> dict[str, Tensor]:
        """The mean of gradients whose norms are bounded, as private training has it."""
        each = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
        scale = (most / (norms + 1e-6)).clamp(max=1.0)
        return {name: torch.einsum("n,n...->...", scale, g) / len(x) for name, g in each.items()}

    @torch.compile
    def sensitivity(x: Tensor) -> Tensor:
        return vmap(jacrev(lambda row: model(row).softmax(-1)))(x).pow(2).sum((1, 2))

    for step in steps(count):
        x = torch.randn(chance.randint(1, 8), 4)
        y = (x.sum(1) > 0).long()
        gradients = clipped(weights, x, y, 1.0)
        weights = {name: each - 0.5 * gradients[name] for name, each in weights.items()}
        found = sensitivity(x)
        if step % 20 == 0:
            total = sum(each.abs().sum().item() for each in weights.values())
            print(f"step {step}: weights {total:.3f}, sensitivity {found.mean().item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
