"""Boundaries that the program names itself: disabled functions, graph breaks, and their kin."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn

import anyshape
from tests.graph_breaks.opaque import LOG, note, opaque_number, seen
from tests.graph_breaks.table import leaf, module, program, rows_and_number

#: Its type is too clever for what decorates.
disable: Any = torch.compiler.disable


@disable
def disabled(tag: str, value: Any) -> Any:
    LOG.append((tag, seen(value)))
    return value


@disable(recursive=False)
def disabled_alone(value: Tensor) -> Tensor:
    return helper(value) + 1


def helper(value: Tensor) -> Tensor:
    note("helper", value)
    return value * 2 - 1


@program()
def disabled_function(x: Tensor) -> Tensor:
    y = x * 2 + 1
    z = disabled("middle", y - 1)
    return z.relu() + y


@program()
def disabled_function_alone(x: Tensor) -> Tensor:
    y = x * 2 + 1
    z = disabled_alone(y)
    return z.relu() - y


@program()
def disabled_inside(x: Tensor) -> Tensor:
    y = x * 2 + 1
    z = disable(lambda t: t * 3)(y)
    return z.relu() - 1


@program()
def disabled_in_a_loop(x: Tensor) -> Tensor:
    y = x + 1
    for step in range(3):
        y = y * 2 - step
        disabled("step", step)
        y = y.clamp(-5, 5)
    return y.sum(0)


@program(leaf)
def disabled_with_gradients(x: Tensor) -> Tensor:
    y = (x * 2 + 1).relu()
    z = disabled("middle", y) * x
    return (z - 1).pow(2).sum()


@program()
def graph_break(x: Tensor) -> Tensor:
    y = x * 2 + 1
    torch._dynamo.graph_break()
    z = y.relu() - 1
    return z * y


@program(rows_and_number)
def graph_break_in_a_branch(x: Tensor, n: int) -> Tensor:
    y = x * n + 1
    if n % 2:
        y = y - 1
        torch._dynamo.graph_break()
        y = y.relu()
    return y.sum(0) * 2


@program()
def graph_break_in_a_helper(x: Tensor) -> Tensor:
    def inner(t: Tensor) -> Tensor:
        t = t * 2 + 1
        torch._dynamo.graph_break()
        return t - 1

    y = inner(x).relu()
    return inner(y) * 2


class DisabledForward(nn.Module):
    @disable
    def forward(self, x: Tensor) -> Tensor:
        note("disabled forward", x)
        return x * 2 - 1


@module()
class HasADisabledBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.block = DisabledForward()
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).relu()
        z = self.block(y)
        return self.last(z + y) * 2


@program()
def disabled_method(x: Tensor) -> Tensor:
    y = x * 2 + 1
    holder = WithDisabled(3)
    z = holder.scaled(y)
    return z.relu() - holder.scale


class WithDisabled:
    def __init__(self, scale: int) -> None:
        self.scale = scale

    @disable
    def scaled(self, t: Tensor) -> Tensor:
        self.scale += 1
        return t * self.scale


@program()
def asks_whether_it_is_compiled(x: Tensor) -> Tensor:
    y = x * 2 + 1
    number = opaque_number(y)
    if anyshape.__name__ != "anyshape":
        y = y * 100
    return (y - number).relu()


if hasattr(anyshape, "disable"):
    ours = anyshape.disable(seen)

    @program()
    def disabled_by_us(x: Tensor) -> tuple[Any, Tensor]:
        y = x * 2 + 1
        text = ours(y - 1)
        return text, y.relu() * 2


if hasattr(anyshape, "graph_break"):

    @program()
    def graph_break_of_ours(x: Tensor) -> Tensor:
        y = x * 2 + 1
        anyshape.graph_break()
        z = y.relu() - 1
        return z * y
