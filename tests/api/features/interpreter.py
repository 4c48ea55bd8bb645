"""Names, order of evaluation, assignment in all its forms."""

# The functions below are what users write, not what we would.
# ruff: noqa: F821
# pyright: reportAttributeAccessIssue=false, reportOptionalSubscript=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportReturnType=false, reportUnboundVariable=false
# pyright: reportFunctionMemberAccess=false, reportUnusedExpression=false

from __future__ import annotations

import collections
import itertools
import sys
from typing import Any

import torch
from torch import Tensor

from tests.api.features.registry import feature
from tests.api.twins import World


@feature
def frames_and_names() -> World:
    def f(x: Tensor) -> Any:
        a = 1
        b = sorted(locals())
        return x + len(b), sys._getframe(0).f_code.co_name, b, f.__name__, f.__qualname__

    return World(f)


@feature
def imports_inside() -> World:
    def f(x: Tensor) -> Any:
        import math as mathematics
        from collections import OrderedDict

        return x * mathematics.pi, OrderedDict(a=x)

    return World(f)


@feature
def delete_names() -> World:
    def f(x: Tensor) -> Any:
        y = x * 2
        del x
        try:
            return x
        except UnboundLocalError as error:
            return y, type(error).__name__

    return World(f)


@feature
def undefined_name() -> World:
    def f(x: Tensor) -> Tensor:
        return x + undefined_anywhere  # pyright: ignore[reportUndefinedVariable] because that is the case

    return World(f)


@feature
def annotations_kept() -> World:
    def f(x: Tensor) -> Any:
        def g(y: int, z: str = "a") -> float:
            w: int = y
            return w * 1.0

        return x * g(2), sorted(g.__annotations__), g.__defaults__

    return World(f)


@feature
def ternaries_and_short_circuit() -> World:
    log: list[int] = []

    def noted(k: int) -> int:
        log.append(k)
        return k

    def f(x: Tensor) -> Any:
        a = noted(0) or noted(2) or noted(3)
        b = noted(1) and noted(0) and noted(5)
        c = noted(7) if x.shape[0] > 3 else noted(8)
        return x * a + b + c, noted(1) < noted(2) < noted(1) < noted(9)

    return World(f, watch=lambda: log)


@feature
def evaluation_order() -> World:
    log: list[str] = []

    def say(name: str, value: Any) -> Any:
        log.append(name)
        return value

    def f(x: Tensor) -> Any:
        table: dict[Any, Any] = {}
        table[say("key", 1)] = say("value", x)
        say("left", x)[say("from", 0) : say("to", 2)] = say("right", 3.0)
        return say("f", lambda *a, **k: a[0])(say("a", x), *say("star", [1]), k=say("k", 2))

    return World(f, watch=lambda: log)


@feature
def augmented_assignment_targets() -> World:
    class Holder:
        value = 1

    def f(x: Tensor) -> Any:
        holder, items, table = Holder(), [1, 2], {"a": 1}
        holder.value += 2
        items[0] -= 3
        items += [4]
        table["a"] **= 2
        table["b"] = table.get("b", 0) | 4
        x = x.clone()
        x *= 2
        x[:1] += 1
        x @= torch.eye(4)
        return x, holder.value, items, table

    return World(f)


@feature
def chained_comparisons_of_tensors() -> World:
    return World(lambda x: ((x > 0) & (x < 1), x == x, (x != 0).any(), ~(x > 0)))


@feature
def string_building() -> World:
    def f(x: Tensor) -> Any:
        name = f"{x.shape[0]}x{x.shape[1]}:{x.dtype!s:>15}{'' if x.shape[0] else 'empty'}"
        return x + len(name), name, "{}-{}".format(*x.shape), "%s" % (tuple(x.shape),)  # noqa: UP031

    return World(f)


@feature
def named_tuple_and_deque() -> World:
    Pair = collections.namedtuple("Pair", "a b")

    def f(x: Tensor) -> Any:
        window = collections.deque(maxlen=2)
        for i in range(3):
            window.append(x + i)
        return Pair(*window), Pair(a=1, b=x)._asdict(), collections.defaultdict(list, k=[x])

    return World(f)


@feature
def keyword_only_call_order() -> World:
    def f(*, b: Tensor, a: Tensor) -> Tensor:
        return a - b

    orders = itertools.cycle((("a", "b"), ("b", "a")))
    return World(f, lambda x: (), lambda x: {k: x * ord(k) for k in next(orders)})
