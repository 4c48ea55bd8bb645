"""Put low-rank adapters into a model, train them, fold them in, and quantize what results."""

import argparse
import random
import warnings

import torch
from steps import steps
from torch import Tensor, nn

warnings.filterwarnings("ignore", category=DeprecationWarning)
warnings.filterwarnings("ignore", message=".*quantiz.*|.*TypedStorage.*")


class Adapted(nn.Module):
    """A frozen layer, and a product of two thin matrices beside it."""

    def __init__(self, layer: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, layer.in_features) * 0.1)
        self.b = nn.Parameter(torch.zeros(layer.out_features, rank))
        self.enabled = True

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y + x @ self.a.t() @ self.b.t() if self.enabled else y

    def folded(self) -> nn.Linear:
        with torch.no_grad():
            self.layer.weight += self.b @ self.a
        return self.layer


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


def adapt(module: nn.Module) -> None:
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear):
            setattr(module, name, Adapted(child))
        else:
            adapt(child)


def fold(module: nn.Module) -> None:
    for name, child in list(module.named_children()):
        if isinstance(child, Adapted):
            setattr(module, name, child.folded())
        else:
            fold(child)


def main(count: int) -> None:
    torch.manual_seed(8)
    chance = random.Random(8)
    model = nn.Sequential(Block(16), Block(16), nn.Linear(16, 4))
    compiled = torch.compile(model)
    print(f"before: {compiled(torch.ones(3, 16)).sum().item():.4f}")
    adapt(model)
    wanted = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW([each for each in wanted if each.dim() == 2], lr=1e-2)
    for step in steps(count):
        x = torch.randn(chance.randint(1, 9), 16)
        loss = (compiled(x) - x[:, :4].tanh()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    for each in model.modules():
        if isinstance(each, Adapted):
            each.enabled = False
    print(f"without: {compiled(torch.ones(3, 16)).sum().item():.3f}")
    fold(model)
    model.eval()
    print(f"folded: {compiled(torch.ones(3, 16)).sum().item():.3f}")
    # Where torch has it in every build; others are for one kind of processor.
    torch.backends.quantized.engine = "qnnpack"
    small = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    quick = torch.compile(small)
    with torch.no_grad():
        for step in steps(count):
            y = quick(torch.randn(chance.randint(1, 9), 16))
            if step % 20 == 0:
                print(f"eight bits {step}: {y.abs().mean().item():.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
