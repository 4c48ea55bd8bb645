"""Generators, comprehensions, loops, unpacking."""

# The functions below are what users write, not what we would.
# ruff: noqa: C416, PIE800
# pyright: reportAttributeAccessIssue=false, reportOptionalSubscript=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportReturnType=false, reportUnboundVariable=false
# pyright: reportFunctionMemberAccess=false, reportUnusedExpression=false

from __future__ import annotations

import itertools
import operator
from typing import Any

from torch import Tensor

from tests.api.features.registry import feature
from tests.api.twins import World


@feature
def generators() -> World:
    def numbers(x: Tensor) -> Any:
        for i in range(3):
            sent = yield x * i
            x = x + (sent or 0)

    def f(x: Tensor) -> Any:
        g = numbers(x)
        a = next(g)
        b = g.send(1.0)
        return a + b + sum(t for t in numbers(x)), [*numbers(x)]

    return World(f)


@feature
def yield_from_and_return() -> World:
    def inner(x: Tensor) -> Any:
        yield x
        return x * 2

    def outer(x: Tensor) -> Any:
        last = yield from inner(x)
        yield last + 1

    return World(lambda x: list(outer(x)))


@feature
def generator_closed_and_thrown() -> World:
    log: list[str] = []

    def g(x: Tensor) -> Any:
        try:
            yield x
            yield x * 2
        except ValueError:
            log.append("value")
            yield x * 3
        finally:
            log.append("closed")

    def f(x: Tensor) -> Any:
        one, two = g(x), g(x)
        a, b = next(one), next(two)
        one.close()
        c = two.throw(ValueError())
        two.close()
        return a, b, c

    return World(f, watch=lambda: len(log))


@feature
def comprehensions() -> World:
    def f(x: Tensor, values: list[int]) -> Any:
        doubled = [y for v in values if (y := v * 2) > 2]
        table = {k: x * k for k in doubled}
        nested = [[i * j for j in range(i)] for i in values]
        return table, {a for a in doubled}, nested, [row for row in x.unbind(1) if len(values) > 1]

    return World(f, lambda x: (x, [1, 2, 3]))


@feature
def own_iterator() -> World:
    class Countdown:
        def __init__(self, n: int) -> None:
            self.n = n

        def __iter__(self) -> Countdown:
            return self

        def __next__(self) -> int:
            if self.n <= 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def f(x: Tensor) -> Tensor:
        for k in Countdown(x.shape[0]):
            x = x + k
        return x

    return World(f)


@feature
def zip_enumerate_reversed() -> World:
    def f(x: Tensor, names: dict[str, int]) -> Any:
        out = {}
        for i, (name, value) in enumerate(zip(names, reversed([*names.values()]), strict=True)):
            out[name] = x * value + i
        return out, [*map(operator.mul, names.values(), itertools.count(1))]

    return World(f, lambda x: (x, {"a": 1, "b": 2}))


@feature
def loops_with_break_and_else() -> World:
    def f(x: Tensor, limit: int) -> Tensor:
        k = 0
        while True:
            k += 1
            if k == 2:
                continue
            if k > limit:
                break
            x = x + k
        else:
            x = x * 100
        for i in range(3):
            if i == limit:
                break
        else:
            x = x * 2
        return x

    limits = itertools.cycle((2, 5, 1))
    return World(f, lambda x: (x, next(limits)))


@feature
def unpacking() -> World:
    def f(x: Tensor) -> Any:
        a, (b, *c), d = x, [1, 2, 3], x * 2
        e = f2 = x + 1
        [g, h] = a, d
        first, *_ = {**{"p": a}, "q": b}.items()
        return a, b, c, d, e is f2, g, h, first

    return World(f)
