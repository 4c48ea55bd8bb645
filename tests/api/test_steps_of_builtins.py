"""Built-in functions that walk an iterable of the program, or ask its objects: the program's code
runs as often as in eager, in the same order, up to the same error, and what it reads is guarded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

LOG: list[Any] = []


class Thing:
    """Says what it was asked."""

    limit = 1

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        LOG.append(("eq", self.value))
        return self.value == (other.value if isinstance(other, Thing) else other)

    def __hash__(self) -> int:
        LOG.append(("hash", self.value))
        return self.value

    def __lt__(self, other: Thing) -> bool:
        LOG.append(("lt", self.value))
        return self.value < other.value

    def __gt__(self, other: Thing) -> bool:
        LOG.append(("gt", self.value))
        return self.value > other.value

    def __bool__(self) -> bool:
        LOG.append(("bool", self.value))
        return self.value > self.limit

    def __str__(self) -> str:
        LOG.append(("str", self.value))
        return f"thing {self.value}"

    def __format__(self, spec: str) -> str:
        LOG.append(("format", self.value))
        return f"{self.limit} {self.value} {spec}"


def noted(value: Any) -> Any:
    LOG.append(value if isinstance(value, int) else None)
    return value


def numbers(error_at: int = 9) -> Iterator[Any]:
    for each in range(3):
        LOG.append(("step", each))
        if each == error_at:
            raise KeyError("no more")
        yield each


def things() -> Iterator[Any]:
    yield from map(Thing, numbers())


def lists() -> Iterator[Any]:
    for each in numbers():
        yield [each]


def pairs(of: Callable[[], Iterator[Any]] = things) -> Iterator[tuple[Any, int]]:
    for number, each in enumerate(of()):
        yield each, number


def _as_any(value: Any) -> Any:
    return value


def _noted_pairs() -> Iterator[Any]:
    for each in numbers():
        yield noted(each), noted(each + 5)


def _filled(template: str, *args: Any, **named: Any) -> str:
    return template.format(*args, **named)


def _sought(x: Tensor, last: Any) -> Any:
    given = numbers()
    return list(iter(lambda: noted(next(given)), last))


STEPS: dict[str, Callable[[Tensor], Any]] = {
    "max of what is made": lambda x: max(numbers(), key=noted),
    "min of what is made": lambda x: min(numbers(), key=lambda each: -noted(each)),
    "max of things": lambda x: max(things()).value,
    "min of things": lambda x: min(things()).value,
    "max of what is not compared": lambda x: max(each or "a" for each in numbers()),
    "max up to an error": lambda x: max(numbers(2), key=noted),
    "max of nothing": lambda x: max((each for each in numbers() if each > 5), default=noted(4)),
    "max of sizes": lambda x: max(x.size(0) + each for each in numbers()),
    "min of kinds": lambda x: min(2.5, x.size(0), True),
    "a dictionary": lambda x: len(dict(pairs())),
    "a dictionary of pairs": lambda x: dict(_noted_pairs()),
    "a dictionary up to an error": lambda x: dict(pairs(lists)),
    "a dictionary of no pairs": lambda x: dict(lists()),
    "a dictionary of numbers": lambda x: dict(numbers()),
    "a dictionary and names": lambda x: dict(_as_any([(1, x.size(0)), "ab"]), c=3),
    "an ordered one": lambda x: OrderedDict(((noted(each), 1) for each in numbers()), a=1),
    "an ordered one up to an error": lambda x: OrderedDict(pairs(lists)),
    "keys": lambda x: len(dict.fromkeys(things())),
    "keys up to an error": lambda x: dict.fromkeys(lists()),
    "a set": lambda x: len(set(things())),
    "a set up to an error": lambda x: set(lists()),
    "a set display": lambda x: len({*things()}),
    "a frozen set": lambda x: len(frozenset(things())),
    "a union": lambda x: len(set().union(things())),
    "until a thing": lambda x: _sought(x, Thing(2)),
    "until a number": lambda x: _sought(x, 2),
    "in what is made": lambda x: 1 in things(),
    "a thing in what is made": lambda x: Thing(1) in numbers(),
    "in values": lambda x: Thing(1) in {"a": 0, "b": 1}.values(),
    "a size in what is made": lambda x: x.size(0) in (each + 3 for each in numbers()),
    "any": lambda x: any(things()),
    "filter": lambda x: len(list(filter(None, things()))),
    "sorted": lambda x: [each.value for each in sorted(things())],
    "format": lambda x: _filled("{} {:>3}", Thing(1), Thing(2)),
    "format by number": lambda x: _filled("{0} {0} {1}", Thing(1), x.size(0)),
    "format by name": lambda x: _filled("{a!s} {a!r}", a=str(Thing(1)), b=Thing(2)),
    "format of parts": lambda x: _filled("{0.value} {0.limit}", Thing(1)),
    "format in a format": lambda x: _filled("{:{}}", Thing(1), x.size(0)),
    "format of too little": lambda x: _filled("{} {}", Thing(1)),
    "format of numbers and not": lambda x: _filled("{0} {}", 1, Thing(2)),
    "f-string": lambda x: f"{Thing(1)} {Thing(2)!s} {x.size(0)}",
}


@pytest.mark.parametrize("name", STEPS)
def test_the_programs_code_runs_as_in_eager(name: str) -> None:
    def program(x: Tensor) -> Any:
        LOG.append("begun")
        found = STEPS[name](x * 2)
        LOG.append("done")
        return found, x + 1

    def outcome(function: Callable[[Tensor], Any], x: Tensor) -> Any:
        LOG.clear()
        try:
            found, result = function(x)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            return type(error), str(error), list(LOG)
        return found, result.tolist(), list(LOG)

    compiled = anyshape.compile(program, dynamic=True, backend="eager")
    try:
        for rows, limit in ((3, 1), (3, 1), (4, 1), (4, 0), (4, 0)):
            Thing.limit = limit
            assert outcome(compiled, torch.ones(rows)) == outcome(program, torch.ones(rows))
    finally:
        Thing.limit = 1
