"""Modes, random numbers, modules, autograd, data-dependent code."""

# The functions below are what users write, not what we would.
# pyright: reportAttributeAccessIssue=false, reportOptionalSubscript=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportReturnType=false, reportUnboundVariable=false
# pyright: reportFunctionMemberAccess=false, reportUnusedExpression=false

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests import devices
from tests.api.features.registry import feature
from tests.api.twins import World


@feature
def gradient_modes() -> World:
    @torch.no_grad()
    def g(x: Tensor) -> Tensor:
        return x * 2

    @torch.inference_mode()
    def h(x: Tensor) -> Tensor:
        return x * 3

    def f(x: Tensor) -> Any:
        w = torch.ones(4, requires_grad=True)
        a = g(w)
        with torch.no_grad():
            b = x * w
        with torch.enable_grad():
            c = x * w
        with torch.set_grad_enabled(False):
            d = x * w
        return a, b, c, d, h(x), torch.is_grad_enabled()

    return World(f)


@feature
def gradient_mode_left_changed() -> World:
    def f(x: Tensor) -> Any:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        y = x * torch.ones(4, requires_grad=True)
        torch.set_grad_enabled(before)
        return y, before

    return World(f)


@feature
def autocast() -> World:
    def f(x: Tensor) -> Any:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            y = x @ x.T
            with torch.autocast(x.device.type, enabled=False):
                z = x @ x.T
        return y, z, y.dtype

    return World(f)


@feature
def default_dtype_inside() -> World:
    def f(x: Tensor) -> Any:
        torch.set_default_dtype(torch.float64)
        try:
            return torch.ones(2), x + torch.tensor(1.5)
        finally:
            torch.set_default_dtype(torch.float32)

    return World(f)


@feature
def default_dtype_outside() -> World:
    def around(x: Tensor, inner: Callable[[Tensor], Tensor], dtype: torch.dtype) -> Tensor:
        torch.set_default_dtype(dtype)
        try:
            return inner(x)
        finally:
            torch.set_default_dtype(torch.float32)

    kinds = itertools.cycle((torch.float32, torch.float64))
    return World(lambda x, k: around(x, lambda y: y + torch.ones(4), k), lambda x: (x, next(kinds)))


@feature
def random_numbers() -> World:
    return World(lambda x: (x + torch.rand_like(x), torch.randn(x.shape[0]), F.dropout(x, 0.5)))


@feature
def random_generator_given() -> World:
    generator = devices.generator(3)
    return World(
        lambda x: x + torch.rand(x.shape, generator=generator),
        watch=lambda: generator.get_state(),
    )


@feature
def seeded_inside() -> World:
    def f(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return x + torch.rand(4)

    return World(f)


@feature
def dropout_module() -> World:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    with torch.no_grad():
        net[0].weight.fill_(0.5)
        net[0].bias.fill_(0.1)
    return World(net, before=lambda step: net.train(step % 3 != 2) and None)


@feature
def module_hooks() -> World:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    seen: list[tuple[int, ...]] = []
    with torch.no_grad():
        net[0].weight.fill_(0.5)
        net[0].bias.fill_(0.1)
    net[0].register_forward_hook(lambda module, args, result: result * 2)
    net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    net[1].register_forward_hook(lambda module, args, result: seen.append(tuple(result.shape)))

    def before(step: int) -> None:
        if step == 3:
            net[1].register_forward_hook(lambda module, args, result: result + 10)

    return World(net, before=before, watch=lambda: seen)


@feature
def module_containers() -> World:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            self.d = nn.ModuleDict({"p": nn.ReLU(), "q": nn.Tanh()})
            self.s = nn.Sequential(*[nn.Linear(4, 4)] * 2)
            self.p = nn.ParameterList([nn.Parameter(torch.ones(4))])
            self.t = nn.ParameterDict({"w": nn.Parameter(torch.ones(4))})

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.a[1:]:
                x = layer(x)
            for (name, module), layer in zip(self.d.items(), self.a, strict=False):
                x = module(layer(x)) + len(name)
            for _, parameter in self.named_parameters():
                x = x + parameter.sum()
            for parameter in self.p:
                x = x * parameter
            x = x * self.t["w"] + len(self.a) + self.a[-1](x)
            return self.s(x) + next(self.parameters()).sum() + len(list(self.modules()))

    devices.seed(0)
    return World(Many())


@feature
def custom_autograd_function() -> World:
    class Doubling(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Tensor:
            return grads[0] * 2

    def f(x: Tensor) -> Any:
        w = torch.ones(4, requires_grad=True)
        y = Doubling.apply(x * w)
        return y, torch.autograd.grad(y.sum(), w)[0]

    return World(f)


@feature
def backward_inside() -> World:
    def f(x: Tensor) -> Any:
        w = torch.ones(4, requires_grad=True)
        (x * w).sum().backward()
        return w.grad, torch.autograd.grad((w * x).sum(), w)[0]

    return World(f)


@feature
def gradients_of_inputs() -> World:
    def f(x: Tensor) -> Any:
        y = (x * 2).sin()
        return y, y.requires_grad

    def called(x: Tensor) -> Any:
        x.requires_grad_(x.shape[0] % 2 == 1)
        y, flag = f(x)
        if flag:
            y.sum().backward()
        return x.grad, flag

    return World(called)


@feature
def detach_and_requires_grad() -> World:
    def f(x: Tensor) -> Any:
        y = x.detach().requires_grad_()
        z = (y * 3).sum()
        return y, z, z.detach(), y.is_leaf

    return World(f)


@feature
def functional_transforms() -> World:
    def f(x: Tensor) -> Any:
        rows = torch.func.vmap(lambda row: row.sum() * row)(x) if x.shape[0] else x
        return rows, torch.func.grad(lambda z: (z**2).sum())(x)

    return World(f)


@feature
def tensors_made_by_hand() -> World:
    def f(x: Tensor) -> Any:
        array = np.ones(4, dtype=np.float32)
        y = x + torch.Tensor([1.0, 2.0]).sum() + torch.tensor(x.shape).sum()
        return y + torch.from_numpy(array) + nn.Parameter(x).sum(), torch.as_tensor(x.tolist())

    return World(f)


@feature
def tensors_in_globals_and_closures() -> World:
    weights = {"w": torch.ones(4)}
    bias = torch.zeros(4)

    def before(step: int) -> None:
        weights["w"] = torch.full((4,), float(step))
        bias.add_(1)

    return World(lambda x: x * weights["w"] + bias, before=before, watch=lambda: (weights, bias))


@feature
def data_dependent_branch() -> World:
    def f(x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        if x.numel() and x.max().item() > 1:
            return x * 3
        return x - 1

    return World(f)


@feature
def data_dependent_loop() -> World:
    def f(x: Tensor) -> Tensor:
        total = x.abs().sum()
        while total > 1:
            total = total / 2
            x = x + 1
        return x

    return World(f)


@feature
def data_dependent_shape() -> World:
    return World(lambda x: (x[x > 0], x.nonzero(), x.round().unique(), torch.where(x > 0)))


@feature
def data_dependent_item() -> World:
    def f(x: Tensor) -> Any:
        n = int((x > 0).sum())
        return torch.zeros(n), x[:, : n % 3], n, float(x.sum()), bool((x > 5).any())

    return World(f)


@feature
def python_of_tensors() -> World:
    def f(x: Tensor) -> Any:
        largest = max([float(v) for v in x.flatten()], default=0.0)
        return [1.0 in x, len(x), list(x.shape), x.tolist(), largest, f"{x.sum():.2f}", repr(x)]

    return World(f)


@feature
def tensor_attributes_of_users() -> World:
    def f(x: Tensor) -> Any:
        x.note = x.shape[0]
        y = x * 2
        y.label = "a"
        return y, getattr(x, "note", None), hasattr(x, "other")

    return World(f, watch=lambda: None)


@feature
def tensor_subclass() -> World:
    class Tagged(Tensor):
        pass

    return World(lambda x: (x * 2, type(x).__name__), lambda x: (x.as_subclass(Tagged),))


@feature
def numpy_round_trip() -> World:
    return World(lambda x: torch.from_numpy(np.sin(x.numpy())) + x)


@feature
def mixed_views_and_writes() -> World:
    def f(x: Tensor, out: Tensor) -> Any:
        rows = x.unbind(1)
        rows[0].zero_()
        out[: x.shape[0]].copy_(rows[1])
        torch.add(rows[2], 1, out=rows[3])
        return x.sum(0), out

    return World(f, lambda x: (x, torch.zeros(x.shape[0] + 2)))


@feature
def resizing_in_place() -> World:
    def f(x: Tensor) -> Any:
        y = torch.empty(0)
        y.resize_(x.shape).copy_(x)
        y.t_()
        x.unsqueeze_(0)
        return y, x.shape

    return World(f)


@feature
def set_data_and_swap() -> World:
    def f(x: Tensor, w: Tensor) -> Any:
        w.data = x * 2
        return w + 1, w.shape

    return World(f, lambda x: (x, torch.zeros(2)))


@feature
def optimizer_step_inside() -> World:
    net = nn.Linear(4, 2)
    with torch.no_grad():
        net.weight.fill_(0.5)
        net.bias.fill_(0.1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def f(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return World(f, watch=lambda: (net.weight, net.bias, net.weight.grad))


@feature
def calls_compiled_function() -> World:
    import anyshape

    @anyshape.compile(dynamic=True)
    def inner(x: Tensor, k: int) -> Tensor:
        return x * k

    def f(x: Tensor) -> Tensor:
        return inner(x, 2) + inner(x[:1], x.shape[0]).sum()

    return World(f)


@feature
def is_compiling_is_read() -> World:
    def f(x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return x + 1
        return x + 1.0

    return World(f)


@feature
def torch_check() -> World:
    def f(x: Tensor) -> Tensor:
        torch._check(x.shape[0] != 5, lambda: f"not {x.shape[0]}")
        return x * 2

    return World(f)
