"""Elements around a tensor, and tensors with zeros in their place: pad, triangles, diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.permute import in_shape, mapped
from anyshape.graph.lowerings.pointwise import constant_like, test, where
from anyshape.graph.lowerings.table import row
from anyshape.graph.lowerings.views import place
from anyshape.graph.masked_load import guardable, guarded
from anyshape.graph.pointwise_builder import Operand, cast, scalar_of, wide
from anyshape.graph.scalar_range_check import EXACT, must_be_within, must_fit
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, Scalar
from anyshape.symbolic import (
    Answer,
    Expr,
    Size,
    absolute,
    le,
    maximum,
    minimum,
    modulo,
    product,
)

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

#: (dimension, in front, behind)
Pads = list[tuple[int, Size, Size]]


def pads_of(input: Value, pad: Any) -> Pads:
    """The padding by dimension: it is given in pairs, from the last dimension on."""
    if not isinstance(pad, tuple | list) or not all(
        type(each) is int or isinstance(each, Expr) for each in pad
    ):
        raise NotLowered("padding that is no size")
    last = len(input.sizes) - 1
    return [(last - i, pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]


def grown(input: Value, pads: Pads) -> list[Size]:
    sizes = list(input.sizes)
    for dim, front, behind in pads:
        sizes[dim] = sizes[dim] + front + behind
    return sizes


def all_of(conditions: Sequence[Scalar]) -> Scalar:
    found = conditions[0]
    for each in conditions[1:]:
        found = test("and", found, each)
    return found


@row("constant_pad_nd")
def constant_pad(c: Lowering, input: Value, pad: Any, value: Operand | None) -> Value:
    pads, fill = pads_of(input, pad), 0 if value is None else value
    if isinstance(fill, Value) or (isinstance(fill, float) and input.dtype not in FLOATS):
        raise NotLowered("a fill that is no number of the dtype")
    must_fit(c, fill, input.dtype)
    # Torch makes a float of it first.
    if isinstance(fill, Expr):
        must_be_within(c, fill, -EXACT, EXACT)
    elif type(fill) is int and abs(fill) > EXACT:
        raise NotLowered("a fill that is no float")
    guardable(c, input)

    def at(index: Index) -> Scalar:
        inside: list[Scalar] = []
        there = list(index)
        for dim, front, behind in pads:
            there[dim] = here = index[dim] - front
            if c.facts.prove(le(front, 0)) is not Answer.YES:
                inside.append(test("ge", expr.index(here), expr.constant(0, "i64")))
            if c.facts.prove(le(behind, 0)) is not Answer.YES:
                extent = expr.index(input.sizes[dim])
                inside.append(test("lt", expr.index(here), extent))
        if not inside:
            return input.at(tuple(there))
        condition = all_of(inside)
        other = cast(scalar_of(fill, index, (), wide(input.dtype)), input.dtype)
        return where(condition, guarded(input, tuple(there), condition), other)

    return c.values.new(grown(input, pads), input.dtype, at, (input,), cost=3)


def _reflected(at: Size, size: Size) -> Size:
    return (size - 1) - absolute((size - 1) - absolute(at))


def _replicated(at: Size, size: Size) -> Size:
    return minimum(maximum(at, 0), size - 1)


def _wrapped(at: Size, size: Size) -> Size:
    return modulo(at + size, size)


_MODES = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}


@row("pad")
def pad(c: Lowering, input: Value, pad: Any, mode: Any, value: Operand | None) -> Value:
    if mode == "constant":
        return constant_pad(c, input, pad, value)
    pads, source = pads_of(input, pad), _MODES.get(mode)
    if source is None:
        raise NotLowered(f"padding by {mode}")

    def index_map(index: Index) -> Index:
        there = list(index)
        for dim, front, _ in pads:
            there[dim] = source(index[dim] - front, input.sizes[dim])
        return tuple(there)

    return mapped(c, input, grown(input, pads), index_map, cost=4)


# -- triangles and diagonals -----------------------------------------------------------------------


def triangle_row(name: str, comparison: str) -> None:
    """Of each matrix, the elements whose column compares to their row so."""

    @row(name)
    def lowered(c: Lowering, input: Value, diagonal: Any) -> Value:
        if not (type(diagonal) is int or isinstance(diagonal, Expr)):
            raise NotLowered("a diagonal that is no integer")

        def at(index: Index) -> Scalar:
            column, limit = expr.index(index[-1]), expr.index(index[-2] + diagonal)
            found = input.at(index)
            return where(test(comparison, column, limit), found, constant_like(0, found))

        return c.values.new(input.sizes, input.dtype, at, (input,), cost=2, factors=input.factors)


triangle_row("tril", "le")
triangle_row("triu", "ge")


@row("diag_embed")
def diag_embed(c: Lowering, input: Value, offset: Any, dim1: Any, dim2: Any) -> Value:
    rank = len(input.sizes) + 1
    if type(offset) is not int:
        raise NotLowered("a diagonal that is not known")
    first, second = place(dim1, rank), place(dim2, rank)
    # With the dimensions exchanged, the diagonal is the one on the other side.
    if first > second:
        first, second, offset = second, first, -offset
    guardable(c, input)

    def at(index: Index) -> Scalar:
        row_, column = index[first], index[second]
        on = test("eq", expr.index(row_ + offset), expr.index(column))
        others = [here for dim, here in enumerate(index) if dim not in (first, second)]
        found = guarded(input, (*others, row_ if offset >= 0 else column), on)
        return where(on, found, constant_like(0, found))

    return c.values.new(c.result.shape, input.dtype, at, (input,), cost=2)


@row("diagflat")
def diagflat(c: Lowering, input: Value, offset: Any) -> Value:
    return diag_embed(c, in_shape(c, input, (product(input.sizes),)), offset, -2, -1)


@row("diag")
def diag(c: Lowering, input: Value, diagonal: Any) -> Value:
    if len(input.sizes) == 1:
        return diag_embed(c, input, diagonal, -2, -1)
    if type(diagonal) is not int:
        raise NotLowered("a diagonal that is not known")
    down, right = max(-diagonal, 0), max(diagonal, 0)
    return mapped(c, input, c.result.shape, lambda index: (index[0] + down, index[0] + right))
