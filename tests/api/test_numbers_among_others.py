"""Integers and floats from outside that change, beside numbers of other kinds: native code that
compares containers reads digits; and what only a plain number says of itself."""

# The programs ask what nobody should.
# ruff: noqa: B010, SIM300

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

Program = Callable[[Tensor, Any], Any]

MIXED: Sequence[Program] = (
    lambda x, n: (x, n in (0.0, 5.0)),
    lambda x, n: (x, n in [True, 2]),
    lambda x, n: (x, n in (5 + 0j,)),
    lambda x, n: (x, (n, 1) in [(5.0, 1), (True, 1)]),
    lambda x, n: (x, [5.0] == [n], (True,) == (n,), [[5.0]] != [[n]]),
    lambda x, n: (x, [2.5, 0] < [n, 0], (True, 0) >= (n, 0), ((5.0,),) <= ((n,),)),
    lambda x, n: (x, deque([5.0]) == deque([n]), [deque([5.0])] == [deque([n])]),
    lambda x, n: (x, sorted([(True, 0), (n, 1), (2.5, 2)]), max((2.5, 0), (n, 0))),
    lambda x, n: (x, (float(x.size(0)),) == x.shape, x.size(0) in (float(n), 4.0)),
    lambda x, n: (x, n in (float("inf"), 0.5, 5)),
    lambda x, n: (x, {0: n}.items() == {0: 5.0}.items()),
    lambda x, n: (x, (0, n) in {0: 5.0}.items()),
    lambda x, n: (x, {0: 5.0}.items() & {0: n}.items()),
    lambda x, n: (x, {0: n}.items() < {0: 5.0, 1: 1}.items()),
    lambda x, n: (x, [OrderedDict({0: n}).items()] == [OrderedDict({0: 5.0}).items()]),
)

VALUES: Sequence[Any] = (2, 3, 5, 0, 1, 7, 5.0, 0.5, True, 1.0, float("inf"), float("nan"))

GIVEN = 1000.5
MANY = 70_000


def _said(x: Tensor, n: object) -> tuple[object, ...]:
    return n is GIVEN, GIVEN is n, n is MANY, n is n, n is not n, x + 1


def _behind_a_break(x: Tensor, n: object) -> tuple[object, ...]:
    other = [x.size(0)]
    assert str(type(x.dtype)) is not str(other)
    return n is GIVEN, n is MANY, n is n, x.size(0) is x.size(0)


def _set(x: Tensor, _: object) -> Tensor:
    n: Any = x.size(0)
    n.name = 3
    return x


def _deleted(x: Tensor, _: object) -> Tensor:
    n: Any = x.size(0)
    del n.name
    return x


def _set_by_function(x: Tensor, _: object) -> Tensor:
    setattr(x.size(0), "name", 3)
    return x


def _set_plainly(x: Tensor, n: object) -> Tensor:
    object.__setattr__(n, "name", 3)
    return x


def _set_behind_a_break(x: Tensor, n: Any) -> Tensor:
    assert str(type(x.dtype)) is not str(x.device)
    n.name = 3
    return x


def _its_dictionary(x: Tensor, _: object) -> object:
    return vars(x.size(0))


ASKED: Sequence[Program] = (_said, _behind_a_break)
REFUSED: Sequence[Program] = (
    *(_set, _deleted, _set_by_function, _set_plainly, _set_behind_a_break, _its_dictionary),
)


def _told(program: Program, size: int, value: object) -> object:
    try:
        found = program(torch.arange(float(size)), value)
    except (AttributeError, TypeError) as error:
        return type(error), str(error)
    return repr(found)


def _check(program: Program, dynamic: bool | None, values: Sequence[object]) -> None:
    compiled = anyshape.compile(program, dynamic=dynamic)
    for size, value in enumerate((*values, *values), 3):
        assert _told(compiled, size % 5, value) == _told(program, size % 5, value), value


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", MIXED, ids=lambda _: "")
def test_equal_numbers_of_other_kinds_are_seen(program: Program, dynamic: bool | None) -> None:
    _check(program, dynamic, VALUES)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", ASKED)
def test_a_number_is_the_object_that_the_caller_gave(program: Program, dynamic: bool) -> None:
    _check(program, dynamic, (0.25, GIVEN, 7, 70, MANY, 0.5, MANY, GIVEN, 3))


@pytest.mark.parametrize("program", REFUSED)
def test_a_number_has_no_attributes_of_its_own(program: Program) -> None:
    _check(program, True, (3, 4, 0.5))


@anyshape.compile
def weighted(x: Tensor, a: float) -> Tensor:
    return x * a if a in (0.0, 1.0) else x + a


@anyshape.compile(dynamic=True)
def as_long(x: Tensor, n: int) -> Tensor:
    return x * n if x.shape == (n,) else x


@anyshape.compile(dynamic=True)
def as_described(x: Tensor, n: int) -> Tensor:
    return x * n if {"n": n}.items() == {"n": x.size(0)}.items() else x


@anyshape.compile(dynamic=True)
def as_queued(x: Tensor, n: int) -> Tensor:
    return x * n if deque([n, 1]) == deque([x.size(0), 1]) else x


def test_questions_by_kind_fix_nothing() -> None:
    """Floats that change are asked one by one, and sizes are compared with sizes."""
    for value in (0.25, 0.5, 0.75, 0.125):
        weighted(torch.ones(2), value)
    for size in (3, 4, 5):
        as_long(torch.ones(size), size)
        as_described(torch.ones(size), size)
        as_queued(torch.ones(size), size)
    assert weighted.stats().graphs == 2
    for compiled in (as_long, as_described, as_queued):
        assert compiled.stats().graphs == 1
