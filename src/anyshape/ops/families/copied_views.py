"""Fresh tensors where a view would do: copies of views, and matrices of their diagonals."""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.ops.families.complex_numbers import view_as_complex, view_as_real
from anyshape.ops.families.reshaping import lower_reshape, view
from anyshape.ops.families.slicing import (
    as_strided,
    diagonal_view,
    narrow,
    select,
    slice_,
    unbind,
    unfold,
)
from anyshape.ops.families.splitting import split_evenly, split_with_sizes
from anyshape.ops.families.views import expand, permute, squeeze, t, transpose, unsqueeze
from anyshape.ops.gradient import Gradients, Records, Term
from anyshape.ops.lowering.masked_load import guardable, guarded
from anyshape.ops.lowering.pointwise_builder import in_shape, mapped
from anyshape.ops.lowering.scalars import constant_like, test, where
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Rearranged, Value, place
from anyshape.ops.meta import Meta
from anyshape.ops.meta import contiguous as contiguous_layout
from anyshape.ops.op import GRADIENT, VIEWS, Op, OpKind, Rule, gradient, lower, made_of, names_of
from anyshape.ops.shape_query import ShapeQuery
from anyshape.ops.signature import taken_by
from anyshape.symbolic import Size, absolute, product


def _copied(rule: Rule) -> Rule:
    """The rule of a view, its result fresh and contiguous."""

    @functools.wraps(rule)
    def fresh(q: ShapeQuery, *args: Any, **kwargs: Any) -> Any:
        seen = rule(q, *args, **kwargs)
        return seen.like() if isinstance(seen, Meta) else tuple(part.like() for part in seen)

    return fresh


_COPIES: dict[str, Rule] = {
    "as_strided_copy": as_strided,
    "diagonal_copy": diagonal_view,
    "expand_copy": expand,
    "narrow_copy": narrow,
    "permute_copy": permute,
    "select_copy": select,
    "slice_copy": slice_,
    "split_copy": split_evenly,
    "split_with_sizes_copy": split_with_sizes,
    "squeeze_copy": squeeze,
    "t_copy": t,
    "transpose_copy": transpose,
    "unbind_copy": unbind,
    "unfold_copy": unfold,
    "unsqueeze_copy": unsqueeze,
    "view_as_complex_copy": view_as_complex,
    "view_as_real_copy": view_as_real,
    "view_copy": view,
}


# ---- diagonals -----------------------------------------------------------------------------------


def diag(q: ShapeQuery, input: Meta, diagonal: Size = 0) -> Meta:
    if input.rank == 1:
        return diag_embed(q, input, diagonal)
    if input.rank != 2:
        raise q.fail(f"diag is for 1 or 2 dimensions, not {input.rank}")
    return diagonal_view(q, input, diagonal).like()


def diag_embed(
    q: ShapeQuery, input: Meta, offset: Size = 0, dim1: int = -2, dim2: int = -1
) -> Meta:
    if not input.shape:
        raise q.fail("a tensor without dimensions is no diagonal")
    rank = input.rank + 1
    a, b = sorted((q.dim(dim1, rank), q.dim(dim2, rank)))
    if a == b:
        raise q.fail(f"a diagonal needs two dimensions, not {dim1} twice")
    shape = list(input.shape[:-1])
    side = input.shape[-1] + absolute(offset)
    shape.insert(a, side)
    shape.insert(b, side)
    return input.like(tuple(shape))


def diagflat(q: ShapeQuery, input: Meta, offset: Size = 0) -> Meta:
    return diag_embed(q, input.like((input.numel,)), offset)


_DIAGONAL: dict[str, Rule] = {
    "diag": diag,
    "diag_embed": diag_embed,
    "diagflat": diagflat,
}

ROWS: tuple[Op, ...] = (
    *(Op(name, names_of(name), _copied(rule), OpKind.INDEX_MAP) for name, rule in _COPIES.items()),
    *(Op(name, names_of(name), rule, OpKind.INDEX_MAP) for name, rule in _DIAGONAL.items()),
)


# -- native code ----------------------------------------------------------------------------------


@lower("diag_embed")
def lower_diag_embed(c: Lowering, input: Value, offset: Any, dim1: Any, dim2: Any) -> Value:
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


@lower("diagflat")
def lower_diagflat(c: Lowering, input: Value, offset: Any) -> Value:
    return lower_diag_embed(c, in_shape(c, input, (product(input.sizes),)), offset, -2, -1)


@lower("diag")
def lower_diag(c: Lowering, input: Value, diagonal: Any) -> Value:
    if len(input.sizes) == 1:
        return lower_diag_embed(c, input, diagonal, -2, -1)
    if type(diagonal) is not int:
        raise NotLowered("a diagonal that is not known")
    down, right = max(-diagonal, 0), max(diagonal, 0)
    return mapped(c, input, c.result.shape, lambda index: (index[0] + down, index[0] + right))


# -- copies of views -------------------------------------------------------------------------------


def lower_copy(name: str, c: Lowering, input: Value, **named: Any) -> Value:
    """A fresh tensor where the view of that name would do; one that is told by its sizes."""
    rank = len(input.sizes)
    base = Meta(input.sizes, c.result.dtype, contiguous_layout(rank), c.result.device)
    index_map = VIEWS[name](c, base, **taken_by(VIEWS[name], named))
    factors = None
    if isinstance(index_map, Rearranged):
        factors = index_map.factors(input.split_sizes())
        if factors is None:
            raise NotLowered("sizes that would have to be divided")
    return mapped(c, input, c.result.shape, index_map, factors=factors)


for _name in ["expand", "permute", "squeeze", "t", "transpose", "unsqueeze"]:
    lower(f"{_name}_copy")(partial(lower_copy, _name))

lower("view_copy")(lower_reshape)


# -- gradients ------------------------------------------------------------------------------------


@gradient("diag_embed")
def gradient_diag_embed(grad: Term, offset: Any, dim1: Any, dim2: Any) -> Gradients:
    return {"input": grad.diagonal(offset, dim1, dim2)}


@made_of("diag")
def parts_of_diag(records: Records, input: Term, diagonal: Any) -> Term:
    return input.diag_embed(diagonal) if input.rank == 1 else input.diagonal(diagonal).clone()


@made_of("diagflat")
def parts_of_diagflat(records: Records, input: Term, offset: Any) -> Term:
    return input.reshape([product(list(input.shape))]).diag_embed(offset)


for _name in ["expand", "permute", "squeeze", "t", "transpose", "unsqueeze"]:
    gradient(f"{_name}_copy")(GRADIENT[_name])

gradient("view_copy")(GRADIENT["view"])
