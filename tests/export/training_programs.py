"""Training steps that are exported, and runs of them: by eager code, and by a package in a process
that has none of this code.

    python -c "…" package runs results      see `RUN`
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anyshape import Dim

Batch = tuple[Tensor, Tensor]


class Step(nn.Module):
    """Forward, loss, backward and a step of an optimizer, as one module."""

    def __init__(self, net: nn.Module, optimizer: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.net = net
        self.optimizer = None if optimizer is None else optimizer(net.parameters())

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if self.optimizer is not None:
            self.optimizer.zero_grad()
        found = self.net(x)
        loss = F.cross_entropy(found.flatten(0, -2), y.flatten())
        loss.backward()
        if self.optimizer is not None:
            self.optimizer.step()
        return loss.detach()


class Clipped(Step):
    """The order in which others write it: gradients are forgotten in the end."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        assert self.optimizer is not None
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return torch.stack([loss.detach(), norm])


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # Behind a bias, batch norm leaves nothing but rounding of its gradient.
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.norm(self.conv(x))).mean((2, 3)))


class Attention(nn.Module):
    """Of operators that have rows, with weights that are used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48, bias=False)
        self.out = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        parts = self.qkv(self.norm(h)).chunk(3, dim=-1)
        q, k, v = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in parts)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(found.transpose(1, 2).flatten(2))
        return F.linear(F.gelu(h), self.embed.weight)


class Layer(nn.Module):
    """With an operator that torch's autograd has to do the gradient of."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 11)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.embed(x)))


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


def with_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))


def rows(n: int) -> Batch:
    return torch.randn(n, 8), torch.randint(0, 3, (n,))


def images(n: int) -> Batch:
    return torch.randn(n, 3, n + 2, 6), torch.randint(0, 5, (n,))


def tokens(n: int) -> Batch:
    return torch.randint(0, 11, (1 + n % 3, n)), torch.randint(0, 11, (1 + n % 3, n))


class Program(NamedTuple):
    make: Callable[[], Step]
    batch: Callable[[int], Batch]
    spec: dict[str, Any]
    sizes: tuple[int, ...] = (5, 1, 7, 2, 13)


_ROWS = {"x": ("n", None), "y": ("n",)}
_TOKENS = {"x": ("b", "n"), "y": ("b", "n")}
_IMAGES = {"x": (Dim("n", min=1), None, Dim("h", min=2), None), "y": ("n",)}


def _sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)


def _sgd_with_rate(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=torch.tensor(0.05))


def _adamw(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=0.01)


def _adam(parameters: Any) -> Any:
    return torch.optim.Adam(parameters, lr=0.01, amsgrad=True, foreach=True)


PROGRAMS: dict[str, Program] = {
    "gradients": Program(lambda: Step(mlp()), rows, _ROWS, (5, 1, 7, 2, 0)),
    "sgd": Program(lambda: Step(mlp(), _sgd), rows, _ROWS, (5, 1, 7, 2, 0)),
    "sgd with a rate": Program(lambda: Step(mlp(), _sgd_with_rate), rows, _ROWS),
    "adamw": Program(lambda: Step(mlp(), _adamw), rows, _ROWS),
    "adam on lists": Program(lambda: Step(mlp(), _adam), rows, _ROWS),
    "rmsprop": Program(lambda: Step(mlp(), torch.optim.RMSprop), rows, _ROWS),
    "adagrad": Program(lambda: Step(mlp(), torch.optim.Adagrad), rows, _ROWS),
    "clipped": Program(lambda: Clipped(mlp(), _sgd), rows, _ROWS),
    "dropout": Program(lambda: Step(with_dropout(), _sgd), rows, _ROWS),
    "conv and batch norm": Program(lambda: Step(ConvNet(), _adamw), images, _IMAGES),
    "attention": Program(lambda: Step(Attention(), _sgd), tokens, _TOKENS),
    "transformer layer": Program(lambda: Step(Layer(), _sgd), tokens, _TOKENS),
}

#: Gradients that torch's autograd computes, also in a package.
BY_AUTOGRAD = frozenset({"transformer layer"})


class After(NamedTuple):
    """What a call gave, and what there is then."""

    result: Tensor
    state: dict[str, Tensor]
    grads: dict[str, Tensor | None]


def run_eagerly(step: Step, batches: list[Batch]) -> Iterator[After]:
    step = copy.deepcopy(step)
    for number, batch in enumerate(batches):
        torch.manual_seed(number)
        yield after(step(*batch), step)


def after(result: Tensor, module: nn.Module) -> After:
    state = {name: value.detach().clone() for name, value in module.state_dict().items()}
    grads = {
        name: None if each.grad is None else each.grad.clone()
        for name, each in module.named_parameters()
    }
    return After(result, state, grads)


#: For a process that has nothing but the package: two of it are run one after the other.
RUN = """
import sys
import torch
import anyshape

names, folder, trust = sys.argv[1].split(","), sys.argv[2], sys.argv[3] or None
for name in names:
    batches = torch.load(f"{folder}/{name}.batches", weights_only=True)
    runs = []
    for _ in range(2):
        ep = anyshape.load(f"{folder}/{name}.zip", native_code=trust)
        run = []
        for number, batch in enumerate(batches):
            torch.manual_seed(number)
            result = ep(*batch)
            grads = {k: None if p.grad is None else p.grad.clone()
                     for k, p in ep.graph_module.named_parameters()}
            state = {k: v.clone() for k, v in ep.state_dict().items()}
            run.append((result.clone(), state, grads))
        runs.append(run)
    torch.save(runs, f"{folder}/{name}.results")
"""
