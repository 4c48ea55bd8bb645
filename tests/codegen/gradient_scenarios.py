"""Modules with gradients, and every way to ask for these: eagerly, and by CUDA graphs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import anyshape
from anyshape.runtime.cuda.graph_pool import MOST_LEASES

#: Where all of it is; tests on a GPU set it.
DEVICE = "cpu"
ATOL: Final = {"cpu": 1e-6, "cuda": 1e-5}


class Network(nn.Module):
    def __init__(self, drop: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 16)
        self.norm, self.last = nn.LayerNorm(16), nn.Linear(16, 3)
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).exp().tanh()
        y = F.dropout(self.norm(y + F.gelu(self.second(y))), self.drop, self.training)
        return self.last(y.softmax(-1))


class Loss(nn.Module):
    def __init__(self, network: nn.Module | None = None) -> None:
        super().__init__()
        self.network = Network() if network is None else network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).square().mean()


class Both:
    """A module, and a copy of it that runs eagerly."""

    def __init__(self, module: nn.Module) -> None:
        self.eager = copy.deepcopy(module)
        self.module = module
        self.compiled: Any = anyshape.compile(module, dynamic=True, mode="reduce-overhead")

    def sides(self) -> list[tuple[Any, nn.Module]]:
        return [(self.eager, self.eager), (self.compiled, self.module)]

    def check(self, scenario: Callable[[Any, nn.Module, int], Any], steps: int = 8) -> None:
        for step in range(steps):
            found: list[Any] = []
            for call, module in self.sides():
                torch.manual_seed(step)
                module.zero_grad()
                said = scenario(call, module, step)
                grads = [each.grad for each in module.parameters()]
                found.append((said, grads, _random_state()))
            torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=ATOL[DEVICE])


def both(module: nn.Module | None = None) -> Both:
    torch.manual_seed(0)
    return Both((Loss() if module is None else module).to(DEVICE))


def _random_state() -> Tensor:
    return torch.get_rng_state() if DEVICE == "cpu" else torch.cuda.get_rng_state()


def replays(pair: Both) -> tuple[int, int]:
    """Of the first graph, forward and backward."""
    line = next(line for line in said(pair) if "CUDA graphs" in line)
    words = line.split()
    return int(words[words.index("replayed") + 1]), int(words[-3])


def said(pair: Both) -> list[str]:
    return str(pair.compiled.explain()).splitlines()


def grad_of(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def x(n: int = 4) -> Tensor:
    return torch.randn(n, 6, device=DEVICE)


class Normed(nn.Module):
    """Writes to its statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(6, 5, 1, bias=False), nn.BatchNorm1d(5)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x.t().unsqueeze(0))).tanh()


class Several(nn.Module):
    """Results that share operators, and one that is no tensor with gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.other, self.frozen = nn.Linear(6, 5), nn.Linear(6, 3), nn.Linear(5, 5)
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.frozen(self.layer(x).sin())
        return (y * y).exp().sum(), (y * 2).cos().sum(), y.argmax(-1), self.other(x).tanh()


class Staged(nn.Module):
    """A result that another one is computed of."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.last(self.layer(x).tanh().softmax(-1))
        return logits.exp().log_softmax(-1).square().sum(), logits


class Kept(nn.Module):
    """A result that is kept itself, and the input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return (self.layer(x) * x[1:2].view(-1)).logsumexp(-1)


class Checkpointed(nn.Module):
    def __init__(self, drop: float) -> None:
        super().__init__()
        self.drop = drop
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        def inner(y: Tensor) -> Tensor:
            return F.dropout(self.second(y).exp().tanh(), self.drop, self.training)

        y: Any = checkpoint(inner, self.first(x).sin(), use_reentrant=False)
        return (y * y).sum()


# -- every way that gradients are asked for --------------------------------------------------------


def plain(call: Any, module: nn.Module, step: int) -> Any:
    loss = call(x())
    loss.backward()
    return loss.detach()


def shapes_by_turns(call: Any, module: nn.Module, step: int) -> Any:
    for n in (1, 4, 7):
        call(x(n)).backward()


def two_pending(call: Any, module: nn.Module, step: int) -> Any:
    losses = [call(x()), call(x(5)), call(x())]
    for loss in losses:
        loss.backward()


def last_in_first_out(call: Any, module: nn.Module, step: int) -> Any:
    losses = [call(x()), call(x()), call(x(5))]
    for loss in reversed(losses):
        loss.backward()


def summed(call: Any, module: nn.Module, step: int) -> Any:
    (call(x()) * 2 + call(x())).backward()


def retained(call: Any, module: nn.Module, step: int) -> Any:
    loss = call(x())
    loss.backward(retain_graph=True)
    call(x()).backward()
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def input_gradients(call: Any, module: nn.Module, step: int) -> Any:
    given = x().requires_grad_()
    call(given).backward()
    return given.grad


def of_parts(call: Any, module: nn.Module, step: int) -> Any:
    parameters = list(module.parameters())
    return torch.autograd.grad(call(x()), parameters[:2])


def of_the_gradient(call: Any, module: nn.Module, step: int) -> Any:
    given = x().requires_grad_()
    loss = call(given)
    if step % 2:
        loss.backward()
        return given.grad
    (grad,) = torch.autograd.grad(loss, [given], create_graph=True)
    grad.square().sum().backward()
    return grad.detach()


def hooks(call: Any, module: nn.Module, step: int) -> Any:
    parameter = next(module.parameters())
    seen: list[Tensor] = []
    handles = [
        parameter.register_hook(lambda grad: seen.append(grad.clone()) or grad * 2),
        parameter.register_post_accumulate_grad_hook(lambda own: seen.append(own.detach().clone())),
    ][: 1 + step % 2]
    loss = call(x())
    loss.register_hook(lambda grad: grad * 3)
    loss.backward()
    for each in handles:
        each.remove()
    return seen


def saved_tensors_hooks(call: Any, module: nn.Module, step: int) -> Any:
    packed: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: packed.append(1) or tensor.clone(), lambda tensor: tensor
    ):
        loss = call(x())
    loss.backward()
    assert packed


def anomaly(call: Any, module: nn.Module, step: int) -> Any:
    with torch.autograd.set_detect_anomaly(mode=True, check_nan=False):
        call(x()).backward()


def checkpointed(call: Any, module: nn.Module, step: int) -> Any:
    for reentrant in (False, True):
        checkpoint(call, x().requires_grad_(), use_reentrant=reentrant).backward()


def no_backward(call: Any, module: nn.Module, step: int) -> Any:
    if step % 3 == 2:
        call(x()).backward()
    return call(x()).detach()


def values_of_parameters(call: Any, module: nn.Module, step: int) -> Any:
    call(x()).backward()
    with torch.no_grad():
        for each in module.parameters():
            each.add_(grad_of(each), alpha=-0.1)
    return [each.detach().clone() for each in module.parameters()]


def memory_of_parameters(call: Any, module: nn.Module, step: int) -> Any:
    if step % 4 == 3:
        for each in module.parameters():
            each.data = each.data * 1.5
    call(x()).backward()


def a_changed_parameter(call: Any, module: Any, step: int) -> Any:
    loss = call(x())
    weight = module.network.last.weight
    with torch.no_grad():
        weight.add_(1)
    try:
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            loss.backward()
    finally:
        with torch.no_grad():
            weight.sub_(1)
    module.zero_grad()
    call(x()).backward()


def leaked(call: Any, module: nn.Module, step: int) -> Any:
    losses = [call(x()) for _ in range(MOST_LEASES + 3)]
    for loss in losses[1:]:
        loss.backward()


def unscaled(call: Any, module: nn.Module, step: int) -> Any:
    scaler = torch.amp.GradScaler(DEVICE, init_scale=8.0)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    with torch.autocast(DEVICE, torch.bfloat16):
        loss = call(x())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()


def one_result(call: Any, module: nn.Module, step: int) -> Any:
    found = call(x())
    found[step % 2].sum().backward()


def all_results(call: Any, module: nn.Module, step: int) -> Any:
    found = call(x())
    (found[0].sum() + found[1].sum() + found[-1].sum()).backward()


def one_after_the_other(call: Any, module: nn.Module, step: int) -> Any:
    found = call(x())
    found[0].sum().backward(retain_graph=True)
    found[1].sum().backward(retain_graph=step % 2 == 0)
    if step % 2 == 0:
        found[-1].sum().backward()


def changed_result(call: Any, module: nn.Module, step: int) -> Any:
    y = call(x())
    if step % 2:
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            y.sum().backward()
    else:
        y.sum().backward()


def changed_input(call: Any, module: nn.Module, step: int) -> Any:
    given = x()
    y = call(given)
    if step % 2:
        given.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            y.sum().backward()
    else:
        y.sum().backward()


SCENARIOS = {
    each.__name__: each
    for each in (
        *(plain, shapes_by_turns, two_pending, last_in_first_out, summed, retained),
        *(input_gradients, of_parts, of_the_gradient, hooks, saved_tensors_hooks, anomaly),
        *(checkpointed, no_backward, values_of_parameters, memory_of_parameters),
        *(a_changed_parameter, leaked),
    )
}
