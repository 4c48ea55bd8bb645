"""Members of sets and keys: their own code hashes and compares them, and where they lie in memory
is the order of a set. Neither is baked in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape


class ByValue:
    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: Any) -> bool:
        return self.number == other.number


class Plain:
    def __init__(self, number: int) -> None:
        self.number = number


class ByIdentity(Plain):
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@pytest.fixture(autouse=True)
def _fresh() -> None:
    anyshape.reset()


def updated(x: torch.Tensor, given: list[Any]) -> torch.Tensor:
    found: set[Any] = set()
    found.update(given)
    return x * len(found)


def in_steps(x: torch.Tensor, given: list[Any]) -> torch.Tensor:
    found: set[Any] = set()
    for each in given:
        found.update([each])
    return x * len(found)


def initialized(x: torch.Tensor, given: list[Any]) -> torch.Tensor:
    found: set[Any] = set()
    found.__init__(given)
    return x * len(found)


#: sizes of sets made in all ways
WAYS: list[Callable[[torch.Tensor, list[Any]], torch.Tensor]] = [
    updated,
    in_steps,
    initialized,
    lambda x, given: x * len({*given}),
    lambda x, given: x * len(set(given)),
    lambda x, given: x * len({each for each in given}),  # noqa: C416
    lambda x, given: x * len(set().union(given)),
    lambda x, given: x * len(frozenset().union(given)),
    lambda x, given: x * len({given[0]}.symmetric_difference(given[1:])),
    lambda x, given: x * len({given[0]}.difference(given[1:])),
    lambda x, given: x * int({given[0]}.isdisjoint(given[1:])),
    lambda x, given: x * int({given[0]}.issuperset(given[1:])),
    lambda x, given: x * len(dict.fromkeys(given)),
    lambda x, given: x * len({*[(each, 1) for each in given]}),
]


@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
@pytest.mark.parametrize("kind", [ByValue, ByIdentity, Plain])
def test_what_is_equal(kind: Any, way: Callable[..., torch.Tensor]) -> None:
    given, x = [kind(1), kind(1)], torch.ones(2)
    compiled = anyshape.compile(way, backend="eager")
    assert torch.equal(compiled(x, given), way(x, given))
    given[0].number = 5
    assert torch.equal(compiled(x, given), way(x, given))
    given[0] = given[1]
    assert torch.equal(compiled(x, given), way(x, given))


def listed(x: torch.Tensor, given: list[Any]) -> Any:
    return x * 1, [each.number for each in set(given)]


def first(x: torch.Tensor, given: list[Any]) -> Any:
    return x * next(iter({*given})).number


def popped(x: torch.Tensor, given: list[Any]) -> Any:
    found: set[Any] = set()
    found.update(given)
    return x * found.pop().number


@pytest.mark.parametrize("way", [listed, first, popped])
@pytest.mark.parametrize("kind", [ByIdentity, Plain])
def test_the_order_of_a_set(kind: Any, way: Callable[..., Any]) -> None:
    compiled = anyshape.compile(way, backend="eager")
    x, kept = torch.ones(1), []
    for turn in range(12):
        kept.append([kind(1), kind(2), kind(3)][:: -1 if turn % 2 else 1])
        for number, each in enumerate(kept[-1]):
            each.number = number
        assert str(compiled(x, kept[-1])) == str(way(x, kept[-1]))


def test_classes_that_tell_by_identity_are_captured() -> None:
    """As if they had left it to `object`, as long as they do."""

    class Mine(ByIdentity):
        pass

    given, x = [Mine(1), Mine(2)], torch.ones(2)
    compiled = anyshape.compile(updated, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(x, given), x * 2)
    assert (compiled.stats().graphs, compiled.stats().eager_calls) == (1, 0)
    Mine.__hash__ = lambda self: 1
    Mine.__eq__ = lambda self, other: True
    assert torch.equal(compiled(x, given), x)
