"""One form for equal kernels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anyshape.loops.canonical import canonical
from anyshape.loops.expr import Axis, fresh_scope, load
from anyshape.loops.kernels import Kernel, Stage, Store
from anyshape.loops.text import kernel_text
from anyshape.symbolic import Size, as_symbol, symbol

ROW, COLUMN = symbol("row"), symbol("column")
A, B, C = symbol("a"), symbol("b"), symbol("c")


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def copied() -> Kernel:
    """From rows of `c` elements to rows of `b`."""
    store = Store("y", ROW * B + COLUMN, load("x", ROW * C + COLUMN, "f32"))
    axes = (Axis(as_symbol(ROW), A), Axis(as_symbol(COLUMN), B))
    return Kernel(axes, (Stage((), (store,)),), {}, {})


def test_sizes_that_are_always_equal_are_one() -> None:
    asked: list[frozenset[Size]] = []

    def same(one: Size, other: Size) -> bool:
        asked.append(frozenset([one, other]))
        return one == other or {one, other} == {B, C}

    seen: dict[Size, int] = {A: 3, B: 7, C: 7}
    bound = canonical(copied(), same, seen.get)
    # Rows follow each other on both sides: they run as one.
    assert len(bound.kernel.axes) == 1
    assert set(bound.sizes) == {A * B}
    # What was not equal once is not asked about.
    assert asked == [frozenset([B, C])]


def test_sizes_that_happen_to_be_equal_are_two() -> None:
    seen: dict[Size, int] = {A: 7, B: 7, C: 7}
    bound = canonical(copied(), lambda one, other: one == other, seen.get)
    assert len(bound.kernel.axes) == 2
    assert set(bound.sizes) == {A, B, C}
    assert "n2" in kernel_text(bound.kernel)
