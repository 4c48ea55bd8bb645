"""Norms of tensors and distances between them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.pointwise import constant_like, op, test
from anyshape.graph.lowerings.reductions import as_dtype, dims_of, must_have_elements, rounded
from anyshape.graph.lowerings.table import row
from anyshape.graph.lowerings.views import place
from anyshape.graph.pointwise_builder import (
    broadcast_index,
    broadcast_sizes,
    cast,
    common_dtype,
    elementwise,
    operation,
    short,
    wide,
)
from anyshape.graph.values import NotLowered, Value
from anyshape.loops.expr import FLOATS, Dtype, Scalar

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def norm_of(
    c: Lowering, input: Value, order: Any, dims: list[int], keep: bool, gives: Dtype
) -> Value:
    """The norm of vectors along these dimensions."""
    if gives not in FLOATS or input.dtype not in FLOATS:
        raise NotLowered("the norm of integers")
    if not isinstance(order, int | float) or not dims:
        raise NotLowered("an order that is no number, or a norm of a single number")
    dtype = wide(gives)
    source = as_dtype(c, as_dtype(c, input, gives), dtype)

    def each(compute: Any, cost: int = 1) -> Value:
        return elementwise(c, compute, source, takes=dtype, gives=dtype, cost=cost)

    def fold(kind: str, value: Value) -> Value:
        return c.values.reduction(kind, value, dims, dtype, keep=keep)

    size = each(operation("abs"))
    if order in (math.inf, -math.inf):
        must_have_elements(c, input, dims)
        made = fold("max" if order > 0 else "min", size)
    elif order == 1:
        made = fold("sum", size)
    elif order == 2:
        made = fold("sum", each(lambda x: op("mul", x, x)))
        made = elementwise(c, operation("sqrt"), made, takes=dtype, gives=dtype)
    elif order == 0:
        made = fold("sum", each(_is_some))
    else:
        raise NotLowered(f"the norm of order {order}")
    return rounded(c, made, gives)


def _is_some(x: Scalar) -> Scalar:
    return cast(test("ne", x, constant_like(0, x)), x.dtype)


def _of_dtype(input: Value, dtype: Any) -> Dtype:
    return input.dtype if dtype is None else short(dtype)


@row("vector_norm")
def vector_norm(
    c: Lowering,
    input: Value,
    ord: Any,
    dim: Any,
    keepdim: bool,
    *,
    dtype: Any,
) -> Value:
    return norm_of(c, input, ord, dims_of(input, dim), keepdim, _of_dtype(input, dtype))


@row("norm")
def norm(
    c: Lowering,
    input: Value,
    p: Any,
    dim: Any,
    keepdim: bool,
    dtype: Any,
) -> Value:
    order = 2 if p in (None, "fro") else p
    return norm_of(c, input, order, dims_of(input, dim), keepdim, _of_dtype(input, dtype))


@row("linalg_norm")
def linalg_norm(
    c: Lowering,
    input: Value,
    ord: Any,
    dim: Any,
    keepdim: bool,
    *,
    dtype: Any,
) -> Value:
    if ord is not None and not (type(dim) is int or (dim is None and len(input.sizes) == 1)):
        raise NotLowered("the norm of a matrix")
    order = 2 if ord is None else ord
    return norm_of(c, input, order, dims_of(input, dim), keepdim, _of_dtype(input, dtype))


@row("frobenius_norm")
def frobenius_norm(c: Lowering, input: Value, dim: Any, keepdim: bool) -> Value:
    return norm_of(c, input, 2, dims_of(input, dim), keepdim, input.dtype)


def _at_least(c: Lowering, value: Value, eps: Any) -> Value:
    if not isinstance(eps, int | float):
        raise NotLowered("a number that is computed")
    return elementwise(c, lambda x: op("maximum", x, constant_like(eps, x)), value)


@row("normalize")
def normalize(c: Lowering, input: Value, p: Any, dim: Any, eps: Any) -> Value:
    length = norm_of(c, input, p, dims_of(input, dim), True, input.dtype)
    return elementwise(c, operation("div"), input, _at_least(c, length, eps), cost=2)


@row("dist")
def dist(c: Lowering, input: Value, other: Value, p: Any) -> Value:
    dtype = common_dtype((input, other))
    away = elementwise(c, operation("sub"), input, other, takes=dtype, gives=dtype)
    return norm_of(c, away, p, dims_of(away, None), False, dtype)


@row("pairwise_distance")
def pairwise_distance(
    c: Lowering,
    input: Value,
    other: Value,
    p: Any,
    eps: Any,
    keepdim: bool,
) -> Value:
    dtype = common_dtype((input, other))
    if dtype not in FLOATS or not isinstance(eps, int | float):
        raise NotLowered("of integers, or a number that is computed")
    away = elementwise(c, operation("sub"), input, other, takes=dtype, gives=dtype)
    more = elementwise(c, lambda x: op("add", x, constant_like(eps, x)), away)
    return norm_of(c, more, p, [len(more.sizes) - 1], keepdim, dtype)


@row("cosine_similarity")
def cosine_similarity(c: Lowering, input: Value, other: Value, dim: int, eps: Any) -> Value:
    dtype = common_dtype((input, other))
    if dtype not in FLOATS:
        raise NotLowered("of integers")
    sizes = broadcast_sizes(c, (input, other))
    along = place(dim, len(sizes))

    def direction(of: Value) -> Value:
        wide_ = c.values.new(
            sizes,
            of.dtype,
            lambda index: of.at(broadcast_index(of.sizes, sizes, index)),
            (of,),
        )
        source = as_dtype(c, wide_, dtype)
        length = _at_least(c, norm_of(c, source, 2, [along], True, dtype), eps)
        return elementwise(c, operation("div"), source, length, takes=dtype, gives=dtype, cost=2)

    product = elementwise(
        c, operation("mul"), direction(input), direction(other), takes=dtype, gives=dtype
    )
    whole = c.values.reduction(
        "sum", as_dtype(c, product, wide(dtype)), [along], wide(dtype), keep=False
    )
    return rounded(c, whole, dtype)
