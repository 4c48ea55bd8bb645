"""Named tuples from outside and from inside: fields by name, changed copies, results."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn

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


class Sorted(Pair):
    """Made by a `__new__` of its own, as `PackedSequence` is."""

    def __new__(cls, a: Any, b: Any, factor: int = 2) -> Any:
        if isinstance(b, torch.Tensor) and b.shape != a.shape:
            raise ValueError("two shapes")
        return super().__new__(cls, a * factor, b)

    @property
    def both(self) -> Any:
        return self.a + self.b


class Marked(Sorted):
    """With attributes, too."""

    def __new__(cls, a: Any, b: Any) -> Any:
        made = super().__new__(cls, a, b, factor=3)
        made.mark = a - 1
        return made


@pytest.mark.parametrize("kind", [Sorted, Marked])
def test_with_a_constructor_of_its_own(kind: Any) -> None:
    def function(x: Any) -> Any:
        made = kind(x + 1, x * 2)
        again = made._replace(a=made.both)
        return made, again.both, kind(*again), [getattr(made, "mark", None)], Sorted(1, 2).both

    compiled: Any = anyshape.compile(function, dynamic=True)
    for size in (3, 7, 0, 1):
        x = torch.arange(float(size))
        found, expected = compiled(x), function(x)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert list(map(type, found)) == list(map(type, expected))
        assert getattr(found[0], "__dict__", {}).keys() == expected[0].__dict__.keys()


def test_attributes_that_are_set_are_there() -> None:
    def function(x: Any) -> Any:
        made: Any = Renamed(x + 1, x * 2)
        made.mark = x - 1
        return made, made.mark * made.a

    compiled: Any = anyshape.compile(function, dynamic=True)
    for size in (3, 4, 1):
        x = torch.arange(float(size))
        (found, _), (expected, _) = compiled(x), function(x)
        torch.testing.assert_close(vars(found), vars(expected))


def test_its_errors_are_the_programs() -> None:
    def function(x: Any, y: Any) -> Any:
        try:
            return Sorted(x, y).both
        except ValueError as error:
            return x * len(str(error))

    compiled = anyshape.compile(function, dynamic=True)
    for one, two in ((3, 3), (3, 2), (4, 4), (1, 2)):
        x, y = torch.ones(one), torch.ones(two)
        assert torch.equal(compiled(x, y), function(x, y))


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_packed_sequences_are_one_entry(kind: Any, sort: bool) -> None:
    torch.manual_seed(0)
    layer = kind(3, 4, batch_first=True, bidirectional=True)

    def function(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=not sort)
        doubled = rnn.PackedSequence(packed.data * 2, *packed[1:])
        out, _ = layer(doubled)
        padded, counts = rnn.pad_packed_sequence(out, batch_first=True, total_length=x.size(1))
        return padded.sin(), counts, packed

    compiled: Any = anyshape.compile(function, dynamic=True)
    for lengths in ([5, 3, 1], [4, 4], [2], [6, 5, 2, 1]):
        given = torch.tensor(lengths[::-1] if sort else lengths, device="cpu")
        x = torch.randn(len(lengths), max(lengths) + 1, 3)
        grads: list[Any] = []
        found: list[Any] = []
        for each in (compiled, function):
            layer.zero_grad()
            found.append(each(x, given))
            found[-1][0].sum().backward()
            grads.append([p.grad for p in layer.parameters()])
        assert type(found[0][2]) is rnn.PackedSequence
        torch.testing.assert_close([*found[0][:2], *found[0][2]], [*found[1][:2], *found[1][2]])
        torch.testing.assert_close(*grads)
    stats = compiled.stats()
    assert (stats.boundaries, stats.captures) == (0, 1)


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
