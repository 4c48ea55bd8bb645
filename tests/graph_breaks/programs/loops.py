"""Loops, comprehensions and iterators with calls that cannot be traced in them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tests.graph_breaks.opaque import (
    note,
    opaque,
    opaque_count,
    opaque_number,
    opaque_raise,
    opaque_true,
)
from tests.graph_breaks.table import leaf, program, rows_and_number, two


@program(rows_and_number)
def boundary_in_a_for_loop(x: Tensor, n: int) -> Tensor:
    y = x + 1
    for step in range(n):
        y = y * 2 - step
        opaque("step", step)
        y = y.clamp(-4, 4)
    return y.sum(0) * 2


@program()
def boundary_in_the_iterable(x: Tensor) -> Tensor:
    y = x * 2 + 1
    for number in range(opaque_count(y)):
        y = y - number
        y = y.relu() + 1
    return y.sum(1) * 2


@program()
def boundary_in_the_loop_test(x: Tensor) -> Tensor:
    y = x.abs() + 1
    steps = 0
    while opaque_number(y) > 4 and steps < 5:
        y = y / 2
        y = y - 0.25
        steps += 1
    return y.relu() * steps


@program()
def for_else_with_break(x: Tensor) -> Tensor:
    y = x * 2 + 1
    for step in range(3):
        y = y + step
        if opaque_true(y):
            y = y * 3
            break
    else:
        y = y - 10
        note("else", y)
    return y.relu().sum(0)


@program(rows_and_number)
def while_else_with_continue(x: Tensor, n: int) -> Tensor:
    y, step = x + 1, 0
    while step < n:
        step += 1
        if step % 2:
            y = y - 1
            continue
        opaque("even", step)
        y = y * 2
    else:
        y = y.abs() + 1
    return y.sum(1)


@program(rows_and_number)
def nested_loops(x: Tensor, n: int) -> Tensor:
    y = x * 1.0
    for i in range(2):
        y = y + i
        for j in range(n % 3 + 1):
            y = y * 2 - j
            if opaque("inner", i * j) == 1:
                break
        opaque("outer", i)
        y = y.clamp(-8, 8)
    return y.sum(0)


@program()
def loop_over_rows(x: Tensor) -> list[Any]:
    found: list[Any] = []
    for row in x * 2 + 1:
        z = (row - 1).relu()
        found.append(opaque_number(z))
        found.append(z * 3)
    return found


@program()
def comprehension_with_the_boundary(x: Tensor) -> Tensor:
    y = x * 2 + 1
    parts = [opaque("part", row * 2) for row in y]
    z = torch.stack(parts)
    return (z - y).relu().sum(0)


@program()
def comprehension_with_a_condition(x: Tensor) -> tuple[Tensor, int]:
    y = (x + 1) * 2
    kept = [row - 1 for row in y if opaque_true(row)]
    z = sum(kept, torch.zeros(4)) * 2
    return z + y.sum(0), len(kept)


@program()
def dict_and_set_comprehensions(x: Tensor) -> tuple[Any, Any, Tensor]:
    y = x * 2 + 1
    by_column = {name: opaque(name, y[:, i]) for i, name in enumerate("abcd")}
    sizes = {opaque("size", len(name) + i) for i, name in enumerate(by_column)}
    z = by_column["a"] * by_column["d"] - len(sizes)
    return sorted(by_column), sizes, z.relu()


@program()
def nested_comprehension(x: Tensor) -> list[list[float]]:
    y = x * 4 + 1
    z = y.relu() - 1
    return [[struct.unpack("<f", struct.pack("<f", v))[0] for v in row] for row in z.tolist()]


@program()
def generator_expression(x: Tensor) -> Tensor:
    y = x * 2 + 1
    total = sum(opaque_number(row) for row in y.unbind(0))
    z = y - total
    return z.relu().mean(0)


@program()
def any_stops_early(x: Tensor) -> tuple[bool, Tensor]:
    y = x * 2 - 1
    found = any(opaque_true(row) for row in y)
    z = y + 1 if found else y - 1
    return found, z.relu() * 2


@program()
def generator_consumed_in_between(x: Tensor) -> list[Tensor]:
    def halves(t: Tensor) -> Iterator[Tensor]:
        for number in range(3):
            t = t / 2 + number
            opaque("yields", number)
            yield t

    y = x * 8 + 1
    found: list[Tensor] = []
    for half in halves(y):
        note("consumed", half)
        found.append(half.relu() - 1)
    return found


@program(one_side="each resumption of a generator is a call of its own")
def is_a_generator(x: Tensor) -> Iterator[Any]:
    y = x * 2 + 1
    yield y.relu() - 1
    opaque("between", y)
    y = y * 3 - 1
    yield y
    yield opaque_number(y)
    yield (y + 1).sum(0)


@program()
def generator_that_is_sent_to(x: Tensor) -> tuple[list[float], Tensor]:
    def totals() -> Iterator[float]:
        total = 0.0
        while True:
            given = yield total
            total += opaque_number(given)

    y = x * 2 + 1
    running: Any = totals()
    next(running)
    found = [running.send(y), running.send(y.relu())]
    z = y * found[0] - found[1]
    running.close()
    return found, z.sum(0)


@program()
def generator_with_a_handler(x: Tensor) -> Tensor:
    def parts(t: Tensor) -> Iterator[Tensor]:
        try:
            yield t * 2
            opaque_raise("in the generator")
            yield t * 100
        except Exception:
            yield t - 1
        finally:
            note("closed")

    y = x + 1
    for part in parts(y):
        y = y + part
    return y.relu().sum(1)


@program()
def yields_from_another(x: Tensor) -> list[Any]:
    def inner(t: Tensor) -> Iterator[Any]:
        yield opaque("inner", t + 1)
        return t * 2

    def outer(t: Tensor) -> Iterator[Any]:
        result = yield from inner(t)
        yield result - 1

    y = x * 2 + 1
    return [each.relu() * 2 for each in outer(y)]


@program(two)
def zip_and_enumerate(x: Tensor, y: Tensor) -> Tensor:
    z = x * y
    for index, (a, b) in enumerate(zip(x, y, strict=True)):
        z = z + a * 2 - b
        opaque("pair", index)
        z = z.clamp(-9, 9)
    return z.sum(0)


@program(rows_and_number)
def iterator_tools(x: Tensor, n: int) -> Tensor:
    y = x + 1
    for i, j in itertools.islice(itertools.product(range(n), "ab"), 4):
        y = y * 2 - i
        opaque(j, i)
        y = y.clamp(-5, 5)
    return y.sum(0)


@program()
def loop_until_an_iterator_ends(x: Tensor) -> Tensor:
    y = x * 2 + 1
    for number in iter(iter([3, 2, 1, 0]).__next__, 0):
        y = y - number
        opaque("number", number)
        y = y.abs() + 1
    return y.sum(0)


@program(rows_and_number)
def return_inside_a_loop(x: Tensor, n: int) -> Tensor:
    y = x * 2 + 1
    for step in range(6):
        y = y + step
        if opaque("step", step) == n:
            return y.relu() * 2
        y = y - 1
    return y * 100


@program(rows_and_number)
def break_out_of_two(x: Tensor, n: int) -> Tensor:
    y = x + 1
    done = False
    for i in range(3):
        for j in range(3):
            y = y * 2 - 1
            if opaque("place", i + j) == n - 2:
                done = True
                break
            y = y.clamp(-6, 6)
        if done:
            break
        y = y + 1
    return y.sum(0)


@program(leaf)
def gradients_through_a_loop(x: Tensor) -> Tensor:
    y = x * 2
    for step in range(3):
        y = (y * x).clamp(-3, 3) + 1
        opaque("step", step)
        y = y - x
    return y.pow(2).sum()


@program()
def list_grows_in_a_loop(x: Tensor) -> Tensor:
    kept: list[Tensor] = []
    y = x + 1
    for step in range(3):
        y = y * 2 - step
        kept.append(y)
        opaque("kept", len(kept))
    z = torch.cat(kept)
    return z.relu().sum(1)


@program()
def loop_variable_after_the_loop(x: Tensor) -> Tensor:
    y = x * 2 + 1
    for number in (3, 5, 7):
        y = y - number
        opaque("n", number)
    y = y.relu() + number
    return y * number


@program()
def loop_over_a_changed_list(x: Tensor) -> Tensor:
    y = x * 2 + 1
    work = [1, 2]
    for each in work:
        y = y * each - 1
        if opaque("work", each) == 2:
            work.append(3)
        y = y.clamp(-9, 9)
    return y.sum(0) + len(work)


@program()
def walk_over_a_dict(x: Tensor) -> dict[str, Any]:
    state: dict[str, Any] = {"a": x * 2, "b": x - 1}
    for name, value in list(state.items()):
        state[name] = value.relu() + 1
        state[name + "_sum"] = opaque_number(state[name])
    state["all"] = state["a"] * state["b"] - 1
    return state


@program()
def unrolled_while_with_data(x: Tensor) -> tuple[Tensor, int]:
    y = x.abs() + 1
    steps = 0
    while y.sum() > 8:
        y = y / 2
        opaque("halved", steps)
        y = y - 0.125
        steps += 1
    return y.relu(), steps


def _raised(x: Tensor) -> Tensor:
    x.add_(1)
    return x


@program()
def headers_are_evaluated_in_order(x: Tensor) -> list[Any]:
    found: list[Any] = []
    for one, other in zip(_raised(x), x * 2, strict=True):
        opaque("first", one)
        found.append(one + other)
    for one, other in zip(x * 2, _raised(x), strict=True):
        opaque("second", one)
        found.append(one - other)
    for index, (one, other) in enumerate(zip(-x, _raised(x), strict=True)):
        opaque("third", index)
        found.append(one * 2 + other)
    return found
