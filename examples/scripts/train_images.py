"""Train a small U-Net on images of any size."""

import argparse
import random

import torch
from steps import steps
from torch import Tensor, nn
from torch.nn import functional


class Twice(nn.Sequential):
    def __init__(self, given: int, made: int) -> None:
        super().__init__(
            nn.Conv2d(given, made, 3, padding=1, bias=False),
            nn.BatchNorm2d(made),
            nn.ReLU(inplace=True),
            nn.Conv2d(made, made, 3, padding=1, bias=False),
            nn.BatchNorm2d(made),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([Twice(3, 8), Twice(8, 16)])
        self.middle = Twice(16, 16)
        self.up = nn.ModuleList([Twice(32, 8), Twice(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.middle(x)
        for block, other in zip(self.up, reversed(kept), strict=True):
            x = functional.interpolate(x, size=other.shape[-2:], mode="nearest")
            x = block(torch.cat([x, other], dim=1))
        return self.head(x)


def flipped(image: Tensor, chance: random.Random) -> Tensor:
    return image.flip(-1) if chance.random() < 0.5 else image


def main(count: int) -> None:
    torch.manual_seed(3)
    chance = random.Random(3)
    model = UNet()
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.5)
    for step in steps(count):
        height, width = chance.randint(8, 20), chance.randint(8, 20)
        images = flipped(torch.randn(chance.randint(1, 3), 3, height, width), chance)
        labels = (images.mean(1) > 0).long()
        optimizer.zero_grad()
        loss = functional.cross_entropy(compiled(images), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        for size in (9, 12, 19):
            found = compiled(torch.ones(1, 3, size, size)).softmax(1)
            print(f"size {size}: {found.mean(dim=(0, 2, 3))[0].item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
