"""Named tuples from outside and from inside: fields by name, changed copies, results."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import pytest
import torch

import anyshape

Pair = namedtuple("Pair", "a b")


class Step(NamedTuple):
    value: Any
    times: int = 2

    def doubled(self) -> Any:
        return self.value * self.times


class Renamed(Pair):
    @property
    def a(self) -> Any:
        return self.b * 10


def made_inside(x: Any, *_: Any) -> Any:
    pair = Pair(x + 1, x * 2)
    step = Step(pair.a * pair.b, 3)
    return step._replace(times=step.times + 1), step.doubled(), pair._asdict()


def from_outside(x: Any, pair: Any) -> Any:
    return x * pair.a + pair.b, len(pair._fields)


def unpacked(x: Any, pair: Any) -> Any:
    first, second = pair
    return first * pair[1] + second + x + getattr(pair, "a")  # noqa: B009


CALLS: Any = [made_inside, from_outside, unpacked]


@pytest.mark.parametrize("function", CALLS)
@pytest.mark.parametrize("kind", [Pair, Renamed])
def test_as_eager(function: Any, kind: Any) -> None:
    compiled: Any = anyshape.compile(function, dynamic=True)
    for size in (3, 7, 0, 1):
        x = torch.arange(float(size))
        pair = kind(x + 0.5, x * 3)
        found, expected = compiled(x, pair), function(x, pair)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert str(type(found)) == str(type(expected))
    assert compiled.stats().graphs == 1


def test_a_number_in_a_field_is_guarded() -> None:
    def scaled(x: Any, step: Step) -> Any:
        return x * step.times

    compiled = anyshape.compile(scaled)
    x = torch.ones(3)
    assert [compiled(x, Step(x, count)).sum().item() for count in (2, 5, 7, 2)] == [6, 15, 21, 6]


def test_another_field_at_the_same_place_is_seen() -> None:
    other = namedtuple("other", "b a")

    def first(pair: Any) -> Any:
        return pair.a * 2

    compiled = anyshape.compile(first)
    x, y = torch.ones(2), torch.full((2,), 5.0)
    assert compiled(Pair(x, y)).sum().item() == 4
    assert compiled(other(x, y)).sum().item() == 20
