"""Dictionaries from outside with keys that are told by their identity: tensors, modules, objects.

What is read is what is at the key now; the object is found by where it is, and is not baked in."""

from __future__ import annotations

import gc
import weakref
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape


class Plain:
    """An object without an equality of its own."""


class ByValue:
    """Equal to all of its kind."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByValue)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    anyshape.reset()


def read(x: Tensor, table: dict[Any, Any], key: Any) -> Tensor:
    return x * table[key]


def read_if_there(x: Tensor, table: dict[Any, Any], key: Any) -> Tensor:
    return x * table[key] if key in table else x - 1


def got(x: Tensor, table: dict[Any, Any], key: Any) -> Tensor:
    return x * table.get(key, 3.0)


def put(x: Tensor, table: dict[Any, Any], key: Any) -> Tensor:
    table[key] = x.sum()
    return x + table[key]


def taken(x: Tensor, table: dict[Any, Any], key: Any) -> Tensor:
    return x * table.pop(key, 3.0)


def deleted(x: Tensor, table: dict[Any, Any], key: Any) -> Tensor:
    is_there = key in table
    if is_there:
        del table[key]
    return x * len(table)


def grown(x: Tensor, table: dict[Any, Any], key: Any) -> Tensor:
    table["other"] = x.sum()
    return x * table.get(key, 2.0) + len(table)


PROGRAMS = (read_if_there, got, put, taken, deleted, grown)
KEYS = {
    "tensors": lambda: torch.randn(3),
    "parameters": lambda: nn.Parameter(torch.randn(3)),
    "modules": lambda: nn.Linear(2, 2),
    "objects": Plain,
    "by value": ByValue,
}


def _told(program: Any, keys: list[Any], call: Any) -> list[Any]:
    """Tables that change between the calls: a new value, another kind of value, nothing."""
    table: dict[Any, Any] = {keys[0]: 2.0, keys[1]: torch.full((4,), 5.0)}
    told: list[Any] = []
    for step in range(12):
        x = torch.arange(4.0) + step
        key = keys[step % 3]
        if step == 4:
            table[keys[0]] = 7.0
        if step == 6:
            table[keys[1]], table[keys[2]] = 1.5, torch.ones(4)
        if step == 9:
            table.clear()
        told.append((call(x, table, key), len(table)))
    return told


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program: Any, kind: str) -> None:
    keys = [KEYS[kind]() for _ in range(3)]
    expected = _told(program, keys, program)
    found = _told(program, keys, anyshape.compile(program))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", ["tensors", "parameters", "modules", "objects"])
def test_one_graph_serves_all_keys(kind: str) -> None:
    compiled = anyshape.compile(read, dynamic=True)
    keys = [KEYS[kind]() for _ in range(4)]
    table = {key: torch.full((3,), float(n)) for n, key in enumerate(keys)}
    x = torch.ones(3)
    for _ in range(2):
        for n, key in enumerate(keys):
            assert torch.equal(compiled(x, table, key), x * n)
    stats = compiled.stats()
    assert stats.eager_calls == 0
    assert stats.graphs <= 2, "modules are told apart, two at first"


def test_what_is_there_twice_is_one() -> None:
    """One state behind two keys, and behind one."""

    def program(table: dict[Any, Tensor], a: Tensor, b: Tensor) -> Tensor:
        table[a].add_(1)
        return table[b] * 2

    compiled = anyshape.compile(program, dynamic=True)
    a, b = torch.zeros(1), torch.zeros(1)
    shared = torch.zeros(3)
    for table, first, second in (
        ({a: torch.zeros(3), b: torch.ones(3)}, a, b),
        ({a: shared, b: shared}, a, b),
        ({a: torch.zeros(3), b: torch.ones(3)}, a, a),
        ({a: torch.zeros(3), b: torch.ones(3)}, b, a),
    ):
        twin = {key: value.clone() for key, value in table.items()}
        if table[a] is table[b]:
            twin[b] = twin[a]
        for _ in range(2):
            assert torch.equal(compiled(table, first, second), program(twin, first, second))
        for key, value in twin.items():
            assert torch.equal(table[key], value)


def test_state_that_the_first_call_makes() -> None:
    """The first call runs eagerly, and the second one is captured: it finds what the first made."""
    parameters = [nn.Parameter(torch.ones(n)) for n in (2, 3)]
    averages: dict[Any, Tensor] = {}
    sums: defaultdict[Any, list[Tensor]] = defaultdict(list)

    def follow() -> None:
        for each in parameters:
            if each not in averages:
                averages[each] = each.detach().clone()
            averages[each].lerp_(each.detach(), 0.25)

    def collect() -> Tensor:
        found = [sums[each] for each in parameters]
        return parameters[0].detach() * len(found)

    followed, collected = anyshape.compile(follow), anyshape.compile(collect, fullgraph=True)
    for step in range(5):
        with torch.no_grad():
            for each in parameters:
                each.add_(1)
        followed()
        assert torch.equal(collected(), parameters[0].detach() * 2)
        assert torch.allclose(averages[parameters[0]] - averages[parameters[1]][:2], torch.zeros(2))
        if step == 0:
            assert len(sums) == 2
    for stats in (followed.stats(), collected.stats()):
        assert (stats.graphs, stats.graph_breaks, stats.eager_calls) == (1, 0, 1)


def test_keys_that_are_never_there_are_given_up() -> None:
    """A program that misses in every call is not captured anew in every one."""
    found: list[Any] = []

    def count(x: Tensor, table: Any, key: Any) -> Tensor:
        return x if key in table else x + 1

    compiled = anyshape.compile(count)
    for _ in range(40):
        x = torch.ones(2)
        found.append(compiled(x, {}, torch.ones(1)))
    assert all(torch.equal(each, torch.full((2,), 2.0)) for each in found)
    assert compiled.stats().captures < 16


def test_new_state_now_and_then_is_no_reason_to_give_up() -> None:
    parameter, holder = nn.Parameter(torch.ones(3)), SimpleNamespace()

    def step() -> None:
        holder.optimizer.step()

    compiled = anyshape.compile(step)
    for _ in range(12):
        holder.optimizer = torch.optim.AdamW([parameter])
        for _ in range(18):
            parameter.grad = torch.ones(3)
            compiled()
    stats = compiled.stats()
    assert (stats.graphs, stats.eager_calls, stats.in_parts) == (1, 12, False)


@pytest.mark.parametrize("kind", ["another state", "another dictionary"])
def test_what_was_replaced_is_let_go(kind: str) -> None:
    parameter = nn.Parameter(torch.ones(3))
    holder, gone = SimpleNamespace(), list[Any]()

    def step() -> Tensor:
        return holder.table[holder.key]["mean"] * 2

    compiled = anyshape.compile(step)
    for _ in range(6):
        own = {"mean": torch.ones(3)}
        holder.key = parameter if kind == "another state" else nn.Parameter(torch.ones(3))
        holder.table = {holder.key: own}
        gone.append(weakref.ref(own["mean"]))
        for _ in range(12):
            compiled()
        del own
    compiled()
    gc.collect()
    assert [each() is None for each in gone] == [True] * 5 + [False]
