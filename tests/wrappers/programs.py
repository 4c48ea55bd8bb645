"""Training programs, one a row: what wraps a model or a step, and what of it is compiled.

A row is a function of `compile` that trains for some steps and tells what came of it. Run once with
the identity, and once with a compiler, it must tell the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import parametrizations, parametrize

#: Batch sizes of the steps; one comes twice.
SIZES = (4, 7, 3, 12, 7, 1, 9)

Compile = Callable[[Any], Any]
Told = list[Any]
Program = Callable[[Compile], Told]

ROWS: dict[str, Program] = {}


def row(program: Program) -> Program:
    ROWS[program.__name__] = program
    return program


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.outer(torch.nn.functional.gelu(self.inner(x)))


class Net(nn.Module):
    """Some layers, a buffer that counts, and a statistic in a buffer."""

    def __init__(self, width: int = 6, depth: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 3)
        self.seen = nn.Buffer(torch.zeros((), dtype=torch.int64))
        self.mean = nn.Buffer(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        with torch.no_grad():
            self.seen.add_(x.shape[0])
            self.mean.lerp_(x.mean(0), 0.1)
        return self.head(x)


def data(sizes: tuple[int, ...] = SIZES, width: int = 6, seed: int = 0) -> Iterator[Any]:
    made = torch.Generator().manual_seed(seed)
    for size in sizes:
        yield (
            torch.randn(size, width, generator=made),
            torch.randint(0, 3, (size,), generator=made),
        )


def state(*holders: Any) -> list[Any]:
    """A copy of parameters, gradients, buffers and of the state of optimizers."""
    found: list[Any] = []
    for holder in holders:
        if isinstance(holder, nn.Module):
            for name, value in holder.named_parameters():
                grad = value.grad
                found.append((name, copied(value), None if grad is None else copied(grad)))
            found += [(name, copied(value)) for name, value in holder.named_buffers()]
        else:
            found.append(_copied_in(holder.state_dict()))
    return found


def copied(x: torch.Tensor) -> torch.Tensor:
    return x.detach().clone()


def _copied_in(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return copied(x)
    if isinstance(x, dict):
        return {key: _copied_in(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [_copied_in(value) for value in x]
    return x


def difference(expected: Any, found: Any, where: str = "") -> str | None:
    """Where two accounts differ; tensors may differ by rounding, since graphs fuse operations."""
    if isinstance(expected, DTensor):
        if not isinstance(found, DTensor) or expected.placements != found.placements:
            return f"{where}: another placement"
        expected, found = expected.to_local(), found.to_local()
    if isinstance(expected, torch.Tensor):
        if type(found) is not type(expected) or found.dtype is not expected.dtype:
            return f"{where}: another type or dtype"
        if found.shape != expected.shape:
            return f"{where}: shape {tuple(found.shape)}, not {tuple(expected.shape)}"
        if torch.allclose(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True):
            return None
        return f"{where}: off by {(found - expected).abs().max().item()}"
    if isinstance(expected, list | tuple):
        if len(expected) != len(found):
            return f"{where}: {len(found)} items, not {len(expected)}"
        pairs = enumerate(zip(expected, found, strict=True))
        return next(filter(None, (difference(a, b, f"{where}.{i}") for i, (a, b) in pairs)), None)
    if isinstance(expected, dict):
        if list(expected) != list(found):
            return f"{where}: other keys"
        each = (difference(expected[key], found[key], f"{where}.{key}") for key in expected)
        return next(filter(None, each), None)
    if isinstance(expected, float):
        return None if math.isclose(expected, found, rel_tol=1e-4) else f"{where}: {found}"
    return None if expected == found else f"{where}: {found}, not {expected}"


def train(
    model: Any,
    whole: nn.Module,
    make: Callable[[Any], Any] = lambda p: torch.optim.SGD(p, lr=0.1),
    sizes: tuple[int, ...] = SIZES,
) -> Told:
    """Steps of a model as it is called; `whole` has its parameters."""
    optimizer = make(whole.parameters())
    told: Told = []
    for x, y in data(sizes):
        optimizer.zero_grad()
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        told.append((copied(out), copied(loss), state(whole, optimizer)))
    return told


# -- optimizers ------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "sgd_decay": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adam_capturable_lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.05),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
}
FOREACH: dict[str, Callable[[Any], Any]] = {
    "sgd_foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "adam_foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "rmsprop_foreach": lambda p: torch.optim.RMSprop(p, lr=0.01, foreach=True),
    "adagrad_foreach": lambda p: torch.optim.Adagrad(p, lr=0.01, foreach=True),
    "nadam_foreach": lambda p: torch.optim.NAdam(p, lr=0.01, foreach=True),
}


def _optimizer_row(name: str, make: Callable[[Any], Any]) -> None:
    def program(compile: Compile) -> Told:
        net = Net()
        optimizer = make(net.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        step = compile(optimizer.step)
        told: Told = []
        for index, (x, y) in enumerate(data((*SIZES, 5, 6, 8, 2, 3, 4))):
            optimizer.zero_grad(set_to_none=index % 3 != 1)
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            step()
            scheduler.step()
            told.append((copied(loss), state(net, optimizer), scheduler.get_last_lr()))
        return told

    ROWS[f"optimizer_{name}"] = program


for _name, _make in (OPTIMIZERS | FOREACH).items():
    _optimizer_row(_name, _make)


@row
def step_with_closure(compile: Compile) -> Told:
    """An optimizer that calls the program back."""
    net = Net()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    step = compile(optimizer.step)
    told: Told = []
    for x, y in data():

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            return loss

        told.append((copied(step(closure)), state(net)))
    return told


@row
def clip_compiled(compile: Compile) -> Told:
    net = Net()
    clip = compile(lambda most: nn.utils.clip_grad_norm_(net.parameters(), most))
    told: Told = []
    for x, y in data():
        net.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        told.append((copied(clip(0.5)), state(net)))
    return told


# -- whole steps -----------------------------------------------------------------------------------


def _step_row(name: str, make: Callable[[Any], Any]) -> None:
    def program(compile: Compile) -> Told:
        net = Net()
        optimizer = make(net.parameters())

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = compile(step)
        told: Told = []
        for x, y in data():
            told.append((copied(step(x, y)), state(net, optimizer)))
        return told

    ROWS[f"whole_step_{name}"] = program


for _name in ("sgd_momentum", "adam", "adamw_foreach"):
    _step_row(_name, (OPTIMIZERS | FOREACH)[_name])


@row
def whole_step_accumulated(compile: Compile) -> Told:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor, last: bool) -> float:
        loss = nn.functional.cross_entropy(net(x), y) / 2
        loss.backward()
        if last:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return [(step(x, y, i % 2 == 1), state(net, optimizer)) for i, (x, y) in enumerate(data())]


@row
def whole_step_autocast(compile: Compile) -> Told:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return [(copied(step(x, y)), state(net, optimizer)) for x, y in data()]


@row
def scaled(compile: Compile) -> Told:
    """Losses are scaled, and a step with gradients that are not finite is left out."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    forward = compile(lambda x, y: nn.functional.cross_entropy(net(x), y))
    step = compile(lambda: scaler.step(optimizer))
    told: Told = []
    for index, (x, y) in enumerate(data()):
        optimizer.zero_grad()
        loss = forward(x, y)
        scaler.scale(loss).backward()
        if index == 3:
            net.head.bias.grad.fill_(float("inf"))  # pyright: ignore[reportOptionalMemberAccess]
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        step()
        scaler.update()
        told.append((copied(loss), state(net), scaler.get_scale()))
    return told


# -- hooks -----------------------------------------------------------------------------------------


@row
def forward_hooks(compile: Compile) -> Told:
    log: list[Any] = []
    net = Net()

    def before(module: Any, args: Any, kwargs: Any) -> Any:
        log.append(("before", tuple(args[0].shape)))
        return (args[0] * 1.5,), kwargs

    def after(module: Any, args: Any, result: Any) -> Any:
        log.append(("after", tuple(result.shape)))
        return result * 0.5

    net.layers[0].register_forward_pre_hook(before, with_kwargs=True)
    net.layers[1].register_forward_hook(after)
    net.register_forward_hook(after)
    return [*train(compile(net), net), log]


@row
def forward_hook_that_keeps(compile: Compile) -> Told:
    """Activations are kept by a hook, as feature extractors do."""
    kept: dict[str, Any] = {}
    net = Net()

    def keep(name: str) -> Any:
        def hook(module: Any, args: Any, result: torch.Tensor) -> None:
            kept[name] = result.detach()

        return hook

    for name, layer in net.layers.named_children():
        layer.register_forward_hook(keep(name))
    model = compile(net)
    told: Told = []
    for x, _ in data():
        told.append((copied(model(x)), [(name, copied(value)) for name, value in kept.items()]))
    return told


def _backward_hooks(compile: Compile, whole: bool) -> Told:
    log: list[Any] = []
    net = Net()

    def hook(module: Any, grad_input: Any, grad_output: Any) -> Any:
        log.append((type(module).__name__, [copied(g) for g in grad_output if g is not None]))

    def before(module: Any, grad_output: Any) -> Any:
        log.append(("before", tuple(grad_output[0].shape)))
        return (grad_output[0] * 2,)

    net.layers[0].register_full_backward_hook(hook)
    net.layers[1].register_full_backward_pre_hook(before)
    if whole:
        net.register_full_backward_hook(hook)
    return [*train(compile(net), net), log]


@row
def backward_hooks_inside(compile: Compile) -> Told:
    return _backward_hooks(compile, False)


@row
def backward_hooks(compile: Compile) -> Told:
    return _backward_hooks(compile, True)


@row
def tensor_hooks(compile: Compile) -> Told:
    """Hooks of parameters and of gradients that are accumulated, as DDP and FSDP use them."""
    log: list[Any] = []
    net = Net()
    for name, parameter in net.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: log.append(name))
    net.head.weight.register_hook(lambda grad: grad * 2)
    return [*train(compile(net), net), log]


@row
def global_hooks(compile: Compile) -> Told:
    log: list[str] = []
    net = Net()
    model = compile(net)
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, result: log.append(type(module).__name__)
    )
    try:
        return [*train(model, net), log]
    finally:
        handle.remove()


@row
def hooks_come_and_go(compile: Compile) -> Told:
    log: list[Any] = []
    net = Net()
    model = compile(net)
    told: Told = []
    handle: Any = None
    for step, (x, _) in enumerate(data()):
        if step == 2:
            handle = net.layers[0].register_forward_hook(lambda m, a, r: log.append(r.shape[0]))
        if step == 5:
            handle.remove()
        told.append((copied(model(x)), len(log)))
    return [*told, log]


# -- parametrizations ------------------------------------------------------------------------------


class Symmetric(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).transpose(-1, -2)


@row
def parametrized(compile: Compile) -> Told:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    parametrize.register_parametrization(net[0], "weight", Symmetric())
    return train(compile(net), net)


@row
def parametrized_cached(compile: Compile) -> Told:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    parametrize.register_parametrization(net[0], "weight", Symmetric())
    model = compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    told: Told = []
    for x, y in data():
        optimizer.zero_grad()
        with parametrize.cached():
            loss = nn.functional.cross_entropy(model(x) + model(-x), y)
        loss.backward()
        optimizer.step()
        told.append((copied(loss), state(net)))
    return told


@row
def weight_normed(compile: Compile) -> Told:
    net = nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))
    return train(compile(net), net)


@row
def weight_normed_by_hook(compile: Compile) -> Told:
    net = nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))
    return train(compile(net), net)


@row
def spectral_normed(compile: Compile) -> Told:
    net = nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))
    return train(compile(net), net)


@row
def spectral_normed_by_hook(compile: Compile) -> Told:
    net = nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))
    return train(compile(net), net)


@row
def orthogonal(compile: Compile) -> Told:
    net = nn.Sequential(parametrizations.orthogonal(nn.Linear(6, 6)), nn.ReLU(), nn.Linear(6, 3))
    return train(compile(net), net)


# -- wrappers of modules ---------------------------------------------------------------------------


@row
def data_parallel(compile: Compile) -> Told:
    net = Net()
    return train(compile(nn.DataParallel(net)), net)


@row
def data_parallel_around(compile: Compile) -> Told:
    net = Net()
    return train(nn.DataParallel(compile(net)), net)


@row
def forward_only(compile: Compile) -> Told:
    net = Net()
    net.forward = compile(net.forward)
    return train(net, net)


@row
def averaged(compile: Compile) -> Told:
    """A moving average of the parameters, updated by a compiled function."""
    net = Net()
    average = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    update = compile(average.update_parameters)
    model = compile(average)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    told: Told = []
    for x, y in data():
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        update(net)
        told.append((copied(model(x)), state(net, average)))
    return told


@row
def functional(compile: Compile) -> Told:
    net = Net()
    held = dict(net.named_parameters()) | dict(net.named_buffers())
    call = compile(lambda held, x: torch.func.functional_call(net, held, (x,)))
    told: Told = []
    for x, y in data():
        net.zero_grad()
        out = call(held, x)
        nn.functional.cross_entropy(out, y).backward()
        told.append((copied(out), state(net)))
    return told
