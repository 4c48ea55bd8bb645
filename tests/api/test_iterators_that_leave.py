"""Native iterators that a program makes, returns or stores: what they have yet to give are plain
numbers, and a program that holds one twice has one."""

# pyright: basic
# ruff: noqa: B905, C416
from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

MAKES: dict[str, Callable[[Any], Any]] = {
    "iter": lambda n: iter([n]),
    "reversed": lambda n: reversed([n]),
    "zip": lambda n: zip([n], [2]),
    "zip of a chain": lambda n: zip(itertools.chain([n]), [1]),
    "filter": lambda n: filter(None, [n, 1]),
    "enumerate": lambda n: enumerate([n]),
    "values": lambda n: iter({1: n}.values()),
    "items": lambda n: iter({1: n}.items()),
    "ordered items": lambda n: iter(OrderedDict({1: n}).items()),
    "deque": lambda n: iter(deque([n])),
    "chain": lambda n: itertools.chain([n], [1]),
    "chain of lists": lambda n: itertools.chain.from_iterable([[n]]),
    "islice": lambda n: itertools.islice([n, 2], 2),
    "cycle": lambda n: itertools.islice(itertools.cycle([n]), 3),
    "zip_longest": lambda n: itertools.zip_longest([n], [1, 2]),
    "pairwise": lambda n: itertools.pairwise([n, 1]),
    "generator": lambda n: (each for each in [n]),
}
MAKES["step"] = lambda n: iter([n]).__next__
MAKES["in a list"] = lambda n: [{"a": itertools.chain([n])}]


def _numbers(value: Any) -> list[int]:
    if isinstance(value, int):
        return [value]
    if isinstance(value, dict):
        return _numbers(list(value.values()))
    if callable(value):
        return _numbers(value())
    return [number for each in value or () for number in _numbers(each)]


@pytest.mark.parametrize("name", MAKES)
def test_numbers_are_plain(name: str) -> None:
    make = MAKES[name]

    def returns(x: Tensor) -> Any:
        return make(x.shape[0])

    def stores(x: Tensor, box: list[Any]) -> Tensor:
        box.append(make(x.shape[0]))
        return x + 1

    def after_a_break(x: Tensor) -> Any:
        made = make(x.shape[0])
        x.cpu().numpy()
        return made

    functions: list[Any] = [returns, stores, after_a_break]
    compiled = [anyshape.compile(f, dynamic=True) for f in functions]
    for size in (3, 4, 5, 6):
        box: list[Any] = []
        compiled[1](torch.ones(size), box)
        for found in (compiled[0](torch.ones(size)), box, compiled[2](torch.ones(size))):
            numbers = _numbers([each for each in found] if isinstance(found, list) else found)
            assert numbers == _numbers(make(size))
            assert {type(each) for each in numbers} == {int}


@pytest.mark.parametrize("name", ["iter", "zip", "chain"])
def test_one_iterator_stays_one(name: str) -> None:
    make = MAKES[name]

    def program(x: Tensor, box: list[Any]) -> Any:
        made = make(x.shape[0])
        box.append(made)
        return made

    compiled = anyshape.compile(program, dynamic=True)
    for size in (3, 4, 5):
        box: list[Any] = []
        assert compiled(torch.ones(size), box) is box[0]


KEPT: Any = torch.ones(1)


def _set_item(x: Tensor) -> None:
    KEPT.__dict__["n"] = x.shape[0]


def _set_attribute(x: Tensor) -> None:
    KEPT.__dict__["own"].n = x.shape[0]


def _set_in_a_list(x: Tensor) -> None:
    KEPT.__dict__["list"][0] = (x.shape[0],)


@pytest.mark.parametrize("do", [_set_item, _set_attribute, _set_in_a_list])
def test_an_object_that_ends_the_capture_gets_plain_numbers(do: Callable[[Tensor], None]) -> None:
    class Own:
        n: Any = 0

    def program(x: Tensor) -> Tensor:
        do(x)
        return x + 1

    KEPT.__dict__.update(own=Own(), list=[0])
    compiled = anyshape.compile(program, dynamic=True)
    for size in (3, 4, 5, 6):
        compiled(torch.ones(size))
        found = [KEPT.__dict__.get("n", size), KEPT.own.n or size, *(KEPT.list[0] or (size,))]
        assert found == [size, size, size]
        assert {type(each) for each in found} == {int}
    KEPT.__dict__.clear()
