"""Results have eager strides where sizes are 1: torch then sorts dimensions by strides that no
element has; compiled where none is."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import anyshape
from anyshape.events import kinds
from anyshape.events.stream import stream

Program = Callable[[Tensor, Tensor], Tensor]

#: Unary operators and `cat` read formats of tensors of four dimensions.
PROGRAMS: dict[str, Program] = {
    "sum": lambda a, b: a + b,
    "the other way": lambda a, b: b * 2 + a,
    "joined": lambda a, b: torch.cat([-a, (a + b).abs()], 0),
    "three": lambda a, b: torch.where(a > 0, b, a.flip(0)),
}


def _laid_out(shape: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
    """Dense, its dimensions in this order from the outermost in."""
    places = [order.index(dim) for dim in range(len(order))]
    return torch.randn([shape[dim] for dim in order]).permute(places)


def _cases(rank: int) -> list[tuple[str, tuple[int, ...], tuple[bool, ...]]]:
    orders = itertools.permutations(range(rank))
    stretched = itertools.product((False, True), repeat=rank)
    return list(itertools.product(PROGRAMS, orders, stretched))


def _check(program: Program, order: tuple[int, ...], stretched: tuple[bool, ...]) -> None:
    compiled = anyshape.compile(program, dynamic=True)
    rank = len(order)
    generic = (4, 3, 6, 5)[:rank]
    for ones in itertools.product((False, True), repeat=rank):
        shape = tuple(1 if one else size for one, size in zip(ones, generic, strict=True))
        a = _laid_out(shape, order)
        b = torch.randn([1 if s else size for s, size in zip(stretched, shape, strict=True)])
        want, got = program(a, b), compiled(a, b)
        assert torch.equal(want, got)
        pairs = zip(want.shape, want.stride(), got.stride(), strict=True)
        assert all(x == y for size, x, y in pairs if size > 1), (shape, want.stride(), got.stride())
    assert not compiled.stats().eager_calls


@pytest.mark.parametrize("case", random.Random(0).sample([*_cases(3), *_cases(4)], 40), ids=str)
def test_strides(case: tuple[str, tuple[int, ...], tuple[bool, ...]]) -> None:
    name, order, stretched = case
    _check(PROGRAMS[name], order, stretched)


@pytest.mark.slow
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_of_three_dimensions(name: str, order: tuple[int, ...]) -> None:
    for stretched in itertools.product((False, True), repeat=3):
        _check(PROGRAMS[name], order, stretched)


@pytest.mark.slow
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_of_four_dimensions(name: str, order: tuple[int, ...]) -> None:
    for stretched in random.Random(str(order)).sample(
        list(itertools.product((False, True), repeat=4)), 4
    ):
        _check(PROGRAMS[name], order, stretched)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5], ids=str)
def test_padding_to_a_multiple(order: tuple[int, ...]) -> None:
    """Where nothing is missing, the result is a clone, which keeps the strides."""

    def padded(x: Tensor) -> Tensor:
        return torch.nn.functional.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % 4))

    compiled = anyshape.compile(padded, dynamic=True)
    for batch, length in itertools.product((1, 2, 3), (12, 9, 16, 5, 4)):
        x = _laid_out((batch, length, 6, 8), order)
        want, got = padded(x), compiled(x)
        assert torch.equal(want, got)
        pairs = zip(want.shape, want.stride(), got.stride(), strict=True)
        assert all(x == y for size, x, y in pairs if size > 1), (x.shape, x.stride())


@pytest.mark.parametrize("narrowed", [None, 0, 1, 2])
def test_padding_a_view_of_a_part(narrowed: int | None) -> None:
    """A view says the stride of a batch of 1 by what lies inside of it, also where the tensor that
    is viewed is part of another one: no rule is surprised by it."""

    def padded(x: Tensor) -> Tensor:
        y = x.transpose(1, 2)
        if narrowed is not None:
            y = y.narrow(narrowed, 0, y.shape[narrowed] // 2)
        heads = y.view(*y.shape[:2], -1, 2)
        return torch.nn.functional.pad(heads, (0, 0, 0, 0, 0, 3))

    compiled = anyshape.compile(padded, dynamic=True)
    defects: list[kinds.Event] = []
    stop = stream.subscribe(defects.append, (kinds.Defect,))
    try:
        for batch, channels, length in itertools.product((4, 2, 1), (8, 16), (6, 2, 8)):
            x = torch.randn(2 * batch if narrowed == 0 else batch, channels, length)
            want, got = padded(x), compiled(x)
            assert torch.equal(want, got)
            pairs = zip(want.shape, want.stride(), got.stride(), strict=True)
            assert all(x == y for size, x, y in pairs if size > 1), x.shape
    finally:
        stop()
    assert not defects
    assert not compiled.stats().eager_calls
