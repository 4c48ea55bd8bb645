"""Functions that are made anew for each call, of the same code: no compile for each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import anyshape

Function = Callable[..., Any]


def _closed(t: Tensor, n: int) -> Function:
    return lambda x: x + t * n


def _defaults(t: Tensor, n: int) -> Function:
    def function(x: Tensor, t: Tensor = t, *, n: int = n) -> Tensor:
        return x + t * n

    return function


def _nested(t: Tensor, n: int) -> Function:
    def function(x: Tensor) -> Tensor:
        def inner(y: Tensor) -> Tensor:
            return y + t * n

        return inner(x) - inner(-x)

    return function


def _of_functions(t: Tensor, n: int) -> Function:
    inner = _closed(t, n)
    return lambda x: inner(x) * 2


def _partial(t: Tensor, n: int) -> Function:
    return functools.partial(_added, t, n=n)


def _added(t: Tensor, x: Tensor, n: int) -> Tensor:
    return x + t * n


class Holder:
    def __init__(self, function: Function) -> None:
        self.function = function


MAKERS = (_closed, _defaults, _nested, _of_functions, _partial)


@pytest.mark.parametrize("make", MAKERS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("way", ["argument", "attribute", "item", "keyword"])
def test_few_graphs(make: Callable[[Tensor, int], Function], way: str) -> None:
    def run(x: Tensor, held: Any = None, **named: Any) -> Tensor:
        if way == "keyword":
            function = named["function"]
        elif way == "argument":
            function = held
        else:
            function = held.function if way == "attribute" else held[0]
        return function(x).sin()

    compiled: Any = anyshape.compile(run, dynamic=True)
    counts: list[int] = []
    for n in (4, 5, 3, 0, 1, 7, 6, 4):
        function = make(torch.randn(n), n + 2)
        held: Any = {"attribute": Holder(function), "item": [function]}.get(way, function)
        x = torch.randn(n)
        given: Any = ((x,), {"function": function}) if way == "keyword" else ((x, held), {})
        expected = run(*given[0], **given[1])
        torch.testing.assert_close(compiled(*given[0], **given[1]), expected)
        counts.append(compiled.stats().graphs)
    assert counts[-1] <= 3
    assert not compiled.stats().eager_calls


def test_other_code_is_another_function() -> None:
    compiled = anyshape.compile(lambda f, x: f(x), dynamic=True)
    x = torch.randn(4)
    for k in range(4):
        one, other = (lambda x, k=k: x + k), (lambda x, k=k: x * k)
        torch.testing.assert_close(compiled(one, x), x + k)
        torch.testing.assert_close(compiled(other, x), x * k)


def _check(run: Function, *calls: tuple[Any, ...]) -> None:
    """Each call as eager code has it."""
    compiled = anyshape.compile(run, dynamic=True)
    for each in calls:
        found, expected = compiled(*each), run(*each)
        assert type(found) is type(expected)
        if isinstance(found, tuple):
            assert found[1] is expected[1]
            found, expected = found[0], expected[0]
        torch.testing.assert_close(found, expected)


def _made(count: int = 6) -> list[Function]:
    return [_closed(torch.randn(3), k) for k in range(count)]


def test_results_and_stores_are_the_function_at_hand() -> None:
    x = torch.randn(3)
    _check(lambda f, x: (f(x), f), *((f, x) for f in _made()))
    holder = Holder(torch.sin)

    def store(f: Function, x: Tensor) -> Tensor:
        holder.function = f
        return f(x)

    compiled = anyshape.compile(store, dynamic=True)
    for f in _made():
        torch.testing.assert_close(compiled(f, x), f(x))
        assert holder.function is f


def test_functions_that_are_told_apart() -> None:
    x = torch.randn(3)
    f, g, *others = _made()
    pairs = [(a, b, x) for a in (f, g, *others) for b in (f, a, others[0])]
    _check(lambda a, b, x: a(x) if a is b else b(x) * 2, *pairs)
    _check(lambda a, b, x: a(x) if a == b else b(x) * 2, *pairs)
    _check(lambda a, b, x: a(x) if a in [b] else b(x) * 2, *pairs)
    _check(lambda a, b, x: x * {a: 1, b: 2}[a], *pairs)
    _check(lambda a, b, x: x * len({a, b}), *pairs)
    _check(lambda a, b, x: x * [b, a].index(a), *pairs)
    _check(lambda a, b, x: x * (id(a) == id(b)), *pairs)
    _check(lambda a, b, x: x * len(f"{a}") * (str(a) == str(b)), *pairs)


def test_one_function_at_two_places() -> None:
    x = torch.randn(3)
    f, g, h, *_ = _made()
    pairs = ((f, f), (g, g), (h, h), (f, g), (g, h), (h, f))
    _check(lambda a, b, x: a(x) * b(x), *((*pair, x) for pair in pairs))


def test_what_a_function_changes() -> None:
    def make(start: int) -> tuple[Function, Function]:
        count = start

        def step(x: Tensor) -> Tensor:
            nonlocal count
            count += 1
            return x * count

        return step, lambda: count

    def run(step: Function, get: Function, x: Tensor) -> Tensor:
        return step(x) + get() * 100 + step(x) + get()

    compiled = anyshape.compile(run, dynamic=True)
    x = torch.ones(3)
    for start in range(6):
        for _ in range(2):
            (one, one_of), (two, two_of) = make(start), make(start)
            torch.testing.assert_close(compiled(one, one_of, x), run(two, two_of, x))
            assert one_of() == two_of()
            # Cells of one maker, and functions of another.
            torch.testing.assert_close(compiled(one, two_of, x), run(*_again(make, start), x))


def _again(make: Any, start: int) -> tuple[Function, Function]:
    one, two = make(start), make(start)
    for each in (one, two):
        each[0](torch.ones(1))
        each[0](torch.ones(1))
    return one[0], two[1]


def test_defaults_and_attributes_that_change() -> None:
    x = torch.randn(3)
    compiled = anyshape.compile(lambda f, x: f(x) + getattr(f, "more", 0), dynamic=True)
    for k in range(6):
        f: Any = _defaults(torch.randn(3), k)
        torch.testing.assert_close(compiled(f, x), f(x))
        f.__defaults__ = (torch.ones(3),)
        torch.testing.assert_close(compiled(f, x), f(x))
        f.__kwdefaults__ = {"n": 10}
        torch.testing.assert_close(compiled(f, x), f(x))
        f.more = 5
        torch.testing.assert_close(compiled(f, x), f(x) + 5)


def test_cells_that_are_filled_later() -> None:
    def make(n: int) -> tuple[Function, Function]:
        value: Any = n

        def fill(other: Any) -> None:
            nonlocal value
            value = other

        return (lambda x: x * value), fill

    x = torch.randn(3)
    compiled = anyshape.compile(lambda f, x: f(x), dynamic=True)
    for n in range(4):
        f, fill = make(n)
        for value in (n, n + 0.5, torch.ones(3), True):
            fill(value)
            torch.testing.assert_close(compiled(f, x), f(x))


def test_masks_made_for_each_batch() -> None:
    compiled = anyshape.compile(
        lambda q, k, v, mask: flex_attention(q, k, v, block_mask=mask), dynamic=True
    )

    def make(ids: Tensor, reach: int) -> Function:
        return lambda b, h, i, j: (ids[i] == ids[j]) & (i >= j) & (i - j <= reach)

    for n, reach in ((8, 3), (16, 4), (33, 5), (8, 100), (130, 7), (1, 2)):
        ids = torch.randint(0, 3, (n,)).sort().values
        mask = create_block_mask(make(ids, reach), None, None, n, n, device=ids.device)
        q = torch.randn(1, 2, n, 8)
        i = torch.arange(n)
        far = i[:, None] - i
        allowed = (ids[:, None] == ids) & (far >= 0) & (far <= reach)
        expected = nn.functional.scaled_dot_product_attention(q, q, q, allowed)
        torch.testing.assert_close(compiled(q, q, q, mask), expected)
    assert compiled.stats().graphs <= 3
    assert not compiled.stats().eager_calls
