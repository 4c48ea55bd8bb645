"""A tensor in its place among zeros: what the gradient of a slice is, whatever the sizes are."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term
from anyshape.ops.lowering.masked_load import guardable, guarded
from anyshape.ops.lowering.scalars import all_of, constant_like, test, where
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, gradient, lower
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Answer, Expr, Size, floordiv, ge, le, lt, maximum, modulo


def among_zeros(input: torch.Tensor, dim: int, start: int, step: int, size: int) -> torch.Tensor:
    """Zeros of this size in a dimension, with the input from `start` on at each `step`."""
    sizes = list(input.shape)
    sizes[dim] = size
    made = input.new_zeros(sizes)
    count = input.shape[dim]
    # Of nothing as well: the result is one that has a gradient.
    part = slice(start, start + (count - 1) * step + 1, step) if count else slice(0, 0)
    made[(slice(None),) * dim + (part,)] = input
    return made


def _shape(q: ShapeQuery, input: Meta, dim: int, start: Size, step: int, size: Size) -> Meta:
    return input.like((*input.shape[:dim], size, *input.shape[dim + 1 :]))


ROWS: tuple[Op, ...] = (Op("among_zeros", (f"{__name__}.among_zeros",), _shape, OpKind.INDEX_MAP),)


@lower("among_zeros")
def lower_among_zeros(c: Lowering, input: Value, dim: Any, start: Any, step: Any, size: Any) -> Any:
    if type(dim) is not int or type(step) is not int:
        raise NotLowered("a dimension or a step that is not known")
    return lower_placed(c, guardable(c, input), dim, start, step, size)


def lower_placed(
    c: Lowering,
    input: Value,
    dim: int,
    start: Size,
    step: int,
    size: Size,
    around: Value | None = None,
) -> Value:
    """A value from `start` on at each `step` of a dimension of this size, and elsewhere the
    elements of `around`, or zeros."""
    count = input.sizes[dim]
    fits = c.facts.prove(le(size, start + count * step)) is Answer.YES
    begins = c.facts.prove(le(start, 0)) is Answer.YES

    def at(index: Index) -> Scalar:
        here = index[dim] - start
        inside: list[Scalar] = []
        if not begins:
            inside.append(test("ge", expr.index(here), expr.constant(0, "i64")))
        if step > 1:
            rest = expr.index(modulo(here, step))
            inside.append(test("eq", rest, expr.constant(0, "i64")))
        place = here if step == 1 else floordiv(here, step)
        if not fits:
            inside.append(test("lt", expr.index(place), expr.index(count)))
        there = (*index[:dim], place, *index[dim + 1 :])
        if not inside:
            return input.at(there)
        condition = all_of(inside)
        value = guarded(input, there, condition)
        return where(
            condition, value, constant_like(0, value) if around is None else around.at(index)
        )

    sizes = (*input.sizes[:dim], size, *input.sizes[dim + 1 :])
    parents = (input,) if around is None else (input, around)
    return c.values.new(sizes, input.dtype, at, parents, cost=3)


@gradient("among_zeros")
def gradient_among_zeros(grad: Term, input: Term, dim: Any, start: Any, step: Any) -> Gradients:
    if step != 1:
        raise NoGradient("gaps")
    return {"input": grad.narrow(dim, start, input.shape[dim])}


def widened(grad: Term, dim: int, start: Size, size: Size) -> Term:
    """The gradient of a tensor of which a part was taken: zeros before and after it."""
    if grad.records.is_same(grad.shape[dim], size):
        return grad
    after = size - start - grad.shape[dim]
    if any(grad.records.prove(ge(each, 0)) is not Answer.YES for each in (start, after)):
        return grad.call(among_zeros, dim, start, 1, size)
    behind = [0, 0] * (grad.rank - 1 - dim)
    return grad.call(torch.nn.functional.pad, [*behind, start, after])


def spread(grad: Term, dim: int, start: Size, step: int, size: Size) -> Term:
    """The gradient of a tensor of which one in so many was taken."""
    return grad.call(among_zeros, dim, start, step, size)


def slice_start(records: Records, start: Any, size: Size) -> Size:
    """Where a slice begins; one that begins behind the end has nothing, wherever that is."""
    if start is None:
        return 0
    if not isinstance(start, int | Expr):
        raise NoGradient("a place that is a tensor")
    if records.prove(ge(start, 0)) is Answer.YES:
        return start
    if records.prove(lt(start, 0)) is Answer.YES:
        return maximum(start + size, 0)
    raise NoGradient("from which end it is counted is not known")
