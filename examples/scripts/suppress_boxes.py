"""Non-maximum suppression as a loop over boxes, behind a small detector."""

import argparse
import random

import torch
from steps import steps
from torch import Tensor, nn


def overlap(box: Tensor, others: Tensor) -> Tensor:
    low = torch.maximum(box[:2], others[:, :2])
    high = torch.minimum(box[2:], others[:, 2:])
    common = (high - low).clamp(min=0).prod(-1)
    area = (box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(-1)
    return common / (area - common)


def suppress(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    order = scores.argsort(descending=True)
    kept = []
    while order.numel() > 0:
        best = order[0]
        kept.append(best)
        if order.numel() == 1:
            break
        rest = order[1:]
        order = rest[overlap(boxes[best], boxes[rest]) <= threshold]
    return torch.stack(kept) if kept else order


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 1)
        )

    def forward(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        found = self.body(images)
        rows, columns = found.shape[-2:]
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        results = []
        for each in found:
            scores = each[0].sigmoid().flatten()
            sizes = each[3:].exp().clamp(max=6).flatten(1)
            center = torch.stack([x.flatten(), y.flatten()]) + each[1:3].flatten(1)
            boxes = torch.cat([center - sizes, center + sizes]).t()
            chosen = scores > scores.mean()
            boxes, scores = boxes[chosen], scores[chosen]
            kept = suppress(boxes, scores, 0.4)
            results.append((boxes[kept], scores[kept]))
        return results


def main(count: int) -> None:
    torch.manual_seed(7)
    chance = random.Random(7)
    model = torch.compile(Detector().eval())
    for step in steps(count):
        shape = chance.randint(1, 3), 3, chance.randint(4, 12), chance.randint(4, 12)
        with torch.inference_mode():
            results = model(torch.randn(shape))
        if step % 20 == 0:
            best = [round(scores[0].item(), 3) for _, scores in results]
            print(f"image {step}: {[len(boxes) for boxes, _ in results]} boxes, best {best}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
