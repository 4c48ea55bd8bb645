"""What makes a list asks an object for its length first: `__len__`, then `__length_hint__`. That is
the program's code, which has effects and raises."""

# pyright: basic
from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape


class Sized:
    """Walked by a generator."""

    says: Any = 2

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __iter__(self) -> Iterator[int]:
        self.log.append("iter")
        yield 1
        yield 2

    def __len__(self) -> int:
        self.log.append("len")
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class Negative(Sized):
    says = -1


class Failing(Sized):
    says = ValueError("no length")


class Refusing(Sized):
    says = TypeError("no length")

    def __length_hint__(self) -> Any:
        self.log.append("hint")
        return NotImplemented


class Hinting:
    """An iterator of its own."""

    says: Any = 2

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.at = 0

    def __iter__(self) -> Hinting:
        return self

    def __next__(self) -> int:
        self.log.append("next")
        self.at += 1
        if self.at > 2:
            raise StopIteration
        return self.at

    def __length_hint__(self) -> Any:
        self.log.append("hint")
        return self.says


class Unhelpful(Hinting):
    says = NotImplemented


class Wrong(Hinting):
    says = "two"


class WronglyNegative(Hinting):
    says = -1


class GivesHinting(Sized):
    def __iter__(self) -> Any:
        return Hinting(self.log)


class Sequence:
    """Walked by position."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __len__(self) -> int:
        self.log.append("len")
        return 2

    def __getitem__(self, index: int) -> int:
        if index > 1:
            raise IndexError
        return index


class OwnList(list):
    def __init__(self, log: list[Any]) -> None:
        super().__init__((1, 2))
        self.log = log

    def __len__(self) -> int:
        self.log.append("len")
        return super().__len__()


class OwnTuple(tuple):
    pass


class OwnFrozenSet(frozenset):
    pass


def _unpacked(o: Any) -> Any:
    a, *b = o
    return a, b


def _two(o: Any) -> Any:
    a, b = o
    return a, b


KINDS = (
    *(Sized, Negative, Failing, Refusing, Hinting, Unhelpful, Wrong, WronglyNegative, GivesHinting),
    *(Sequence, OwnList),
)
WALKS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuple": tuple,
    "sorted": sorted,
    "extend": lambda o: [0].extend(o),
    "iadd": lambda o: [0].__iadd__(o),
    "slice": lambda o: [0].__setitem__(slice(0, 1), o),
    "star": lambda o: [0, *o],
    "star in a call": lambda o: max(*o),
    "unpacked": _unpacked,
    "two": _two,
    "own tuple": OwnTuple,
    "own frozen set": OwnFrozenSet,
    "set": set,
    "deque": deque,
    "deque.extend": lambda o: deque().extend(o),
    "set.update": lambda o: {9}.update(o),
    "sum": sum,
    "max": max,
    "fromkeys": dict.fromkeys,
    "counter": Counter,
    "enumerate": lambda o: list(enumerate(o)),
    "zip": lambda o: list(zip(o, strict=True)),
    "join": lambda o: ",".join(map(str, o)),
    "in": lambda o: 7 in o,
    "loop": lambda o: [i for i in o],  # noqa: C416 a loop of the program
}


@pytest.mark.parametrize("is_made_inside", [False, True])
@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("kind", KINDS)
def test_as_eager(kind: Any, walk: str, is_made_inside: bool) -> None:
    do = WALKS[walk]

    def inside(x: Tensor, log: list[Any]) -> Any:
        return x + 1, do(kind(log)), list(log)

    def outside(x: Tensor, log: list[Any], made: Any) -> Any:
        return x + 1, do(made), list(log)

    program = inside if is_made_inside else outside
    compiled = anyshape.compile(program, backend="eager")
    for _ in range(3):
        found = []
        for function in (program, compiled):
            log: list[Any] = []
            made = () if is_made_inside else (kind(log),)
            try:
                result = repr(function(torch.ones(1), log, *made))
            except (TypeError, ValueError) as error:
                result = repr(error)
            found.append((result, log))
        assert found[0] == found[1]


@pytest.mark.parametrize("name", ["extend", "__iadd__"])
@pytest.mark.parametrize("owner", [list, deque])
def test_lists_from_outside_ask_and_deques_do_not(name: str, owner: Any) -> None:
    def program(x: Tensor, taken: Any, given: Any) -> Tensor:
        getattr(taken, name)(given)
        return x + 1

    compiled = anyshape.compile(program)
    for _ in range(3):
        found = []
        for function in (program, compiled):
            log: list[Any] = []
            taken = owner([0])
            function(torch.ones(1), taken, Sized(log))
            found.append((list(taken), log))
        assert found[0] == found[1]


def test_an_answer_is_part_of_the_graph() -> None:
    @anyshape.compile(dynamic=True)
    def program(x: Tensor) -> Any:
        log: list[Any] = []
        return x + len(list(Sized(log))), log

    for size in (3, 4, 5):
        assert program(torch.ones(size))[1] == ["len", "iter"]
    assert program.stats().graphs == 1
