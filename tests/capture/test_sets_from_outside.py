"""What programs ask of sets that others fill: a registry of classes, say."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

REGISTRY: set[Any] = set()


class Output:
    pass


class Other:
    pass


class Kind(enum.Enum):
    ONE = 1


class Equal:
    """Equal to whatever has its hash."""

    def __hash__(self) -> int:
        return hash("name")

    def __eq__(self, other: object) -> bool:
        return True


@pytest.fixture(autouse=True)
def _empty() -> None:
    REGISTRY.clear()


def _asks(member: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: x + 1 if member in REGISTRY else x - 1


@pytest.mark.parametrize("member", [Output, Kind.ONE, "name", 3, (Output, 1), len, None])
def test_only_what_is_asked_for_is_guarded(member: Any) -> None:
    program = _asks(member)
    compiled = anyshape.compile(program, dynamic=True, fullgraph=True)
    for others in ((), (Other,), (object(), Equal) if member != "name" else (object(),)):
        REGISTRY.update(others)
        for size in (3, 4):
            x = torch.ones(size)
            assert torch.equal(compiled(x), program(x))
    assert compiled.stats().captures == 1
    for change in (REGISTRY.add, REGISTRY.remove, REGISTRY.add):
        change(member)
        assert torch.equal(compiled(torch.ones(5)), program(torch.ones(5)))
    assert compiled.stats().captures == 2


def test_members_that_are_equal_by_code_of_their_own() -> None:
    program = _asks("name")
    compiled = anyshape.compile(program, dynamic=True)
    x = torch.ones(3)
    assert torch.equal(compiled(x), program(x))
    REGISTRY.add(Equal())
    assert torch.equal(program(x), x + 1)
    assert torch.equal(compiled(x), program(x))


@pytest.mark.parametrize("kind", [set, frozenset])
def test_other_kinds_of_sets(kind: Any) -> None:
    def program(x: Tensor, known: Any) -> Tensor:
        return x * 2 if Output in known else x * 3

    compiled = anyshape.compile(program, dynamic=True)
    for members in ([Output], [Output, Other], [], [Other], [object(), Output]):
        x = torch.ones(2 + len(members))
        assert torch.equal(compiled(x, kind(members)), program(x, kind(members)))
    assert compiled.stats().captures == 2


def test_a_set_that_the_program_fills() -> None:
    def program(x: Tensor) -> Tensor:
        if Output not in REGISTRY:
            REGISTRY.add(Output)
            x = x * 5
        return x + len(REGISTRY) + (Output in REGISTRY)

    compiled = anyshape.compile(program, dynamic=True)
    found, wanted = [], []
    for made, run in ((found, compiled), (wanted, program)):
        REGISTRY.clear()
        REGISTRY.add(Other)
        for size in (2, 3, 4):
            made.append(run(torch.ones(size)))
            assert {Output, Other} == REGISTRY
    assert all(map(torch.equal, found, wanted))


def test_a_loop_over_classes() -> None:
    def program(x: Tensor) -> Tensor:
        return x * sum(len(each.__name__) for each in REGISTRY)

    compiled = anyshape.compile(program, dynamic=True)
    for member in (Output, Other):
        REGISTRY.add(member)
        for size in (2, 3):
            assert torch.equal(compiled(torch.ones(size)), program(torch.ones(size)))
