"""Message passing over graphs of any size, with scatter operations."""

import argparse
import random

import torch
from steps import steps
from torch import Tensor, nn
from torch.nn import functional


class Convolution(nn.Module):
    """Means of the neighbours, by scattered sums."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(given, made), nn.Linear(given, made, bias=False)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        total = torch.zeros_like(x).index_add_(0, target, x[source])
        count = torch.zeros(x.shape[0]).scatter_add_(0, target, torch.ones(target.shape[0]))
        return self.own(x) + self.others(total / count.clamp(min=1)[:, None])


class Attention(nn.Module):
    """Neighbours weighted by a softmax over the edges of each node."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(2 * width, 1)
        self.value = nn.Linear(width, width)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        score = self.score(torch.cat([x[source], x[target]], -1)).squeeze(-1)
        score = functional.leaky_relu(score, 0.2)
        most = torch.full((x.shape[0],), -1e9).scatter_reduce(0, target, score, "amax")
        weight = (score - most[target]).exp()
        total = torch.zeros(x.shape[0]).index_add(0, target, weight)
        weight = weight / (total[target] + 1e-9)
        return torch.zeros_like(x).index_add(0, target, self.value(x)[source] * weight[:, None])


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Convolution(5, 16)
        self.second = Attention(16)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor, edges: Tensor, graph: Tensor, graphs: int) -> Tensor:
        x = self.first(x, edges).relu()
        x = x + self.second(x, edges)
        pooled = torch.zeros(graphs, x.shape[1]).index_add(0, graph, x)
        count = torch.bincount(graph, minlength=graphs).clamp(min=1)
        return self.head(pooled / count[:, None])


def batch(chance: random.Random) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
    nodes, edges, graph = [], [], []
    graphs, start = chance.randint(2, 5), 0
    for number in range(graphs):
        count = chance.randint(3, 9)
        nodes.append(torch.randn(count, 5) + number % 3)
        edges.append(torch.randint(0, count, (2, chance.randint(2, 20))) + start)
        graph += [number] * count
        start += count
    labels = torch.arange(graphs) % 3
    return torch.cat(nodes), torch.cat(edges, 1), torch.tensor(graph), graphs, labels


def main(count: int) -> None:
    torch.manual_seed(4)
    chance = random.Random(4)
    model = Network()
    compiled = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    right = total = 0
    for step in steps(count):
        x, edges, graph, graphs, labels = batch(chance)
        logits = compiled(x, edges, graph, graphs)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += int((logits.argmax(-1) == labels).sum())
        total += graphs
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"right: {right / total:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
