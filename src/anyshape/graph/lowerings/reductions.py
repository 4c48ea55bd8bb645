"""Reductions: sums, extrema, means and variances, over some dimensions or all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from anyshape.graph.lowerings.pointwise import constant_like, is_nonzero, op, test, where
from anyshape.graph.lowerings.table import ROWS, row
from anyshape.graph.lowerings.views import place
from anyshape.graph.pointwise_builder import elementwise, operation, short, wide
from anyshape.graph.values import NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, Dtype, Scalar
from anyshape.symbolic import Answer, Expr, Size, ge, product

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def dims_of(input: Value, dim: Any) -> list[int]:
    """The dimensions that are meant; all for None and ()."""
    rank = len(input.sizes)
    if not rank:
        # Torch takes a dimension for a single number too.
        return []
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return list(range(rank))
    return sorted(place(each, rank) for each in (dim if isinstance(dim, tuple | list) else [dim]))


def folded(
    c: Lowering, fold: str, input: Value, dims: list[int], keep: bool, dtype: Dtype
) -> Value:
    """A fold, accumulated in `dtype`; the value itself where there is nothing to fold."""
    source = as_dtype(c, input, dtype)
    if not dims:
        return from_zero(c, source) if fold == "sum" else source
    return c.values.reduction(fold, source, dims, dtype, keep=keep)


def from_zero(c: Lowering, input: Value) -> Value:
    """The sum of one element: it starts at 0, which takes the sign off a negative zero."""
    if input.dtype not in FLOATS:
        return input
    dtype = input.dtype
    return elementwise(
        c, lambda x: op("add", x, constant_like(0.0, x)), input, takes=dtype, gives=dtype
    )


def as_dtype(c: Lowering, input: Value, dtype: Dtype) -> Value:
    if input.dtype == dtype:
        return input
    return elementwise(c, lambda x: x, input, takes=dtype, gives=dtype)


def count(sizes: tuple[Size, ...], dims: list[int]) -> Size:
    return product([sizes[dim] for dim in dims])


def rounded(c: Lowering, value: Value, dtype: Dtype) -> Value:
    """What was accumulated, as the dtype of the result."""
    return as_dtype(c, value, dtype)


def total_dtype(dtype: Dtype, asked: torch.dtype | None) -> Dtype:
    """The dtype of a sum: integers are added as i64."""
    if asked is not None:
        return short(asked)
    return dtype if dtype in FLOATS else "i64"


@row("sum")
def sum_(c: Lowering, input: Value, dim: Any, keepdim: bool, *, dtype: Any) -> Value:
    gives = total_dtype(input.dtype, dtype)
    made = folded(c, "sum", as_dtype(c, input, gives), dims_of(input, dim), keepdim, wide(gives))
    return rounded(c, made, gives)


@row("prod")
def prod(c: Lowering, input: Value, dim: Any, keepdim: bool, *, dtype: Any) -> Value:
    gives = total_dtype(input.dtype, dtype)
    made = folded(c, "prod", as_dtype(c, input, gives), dims_of(input, dim), keepdim, wide(gives))
    return rounded(c, made, gives)


def divided_by(c: Lowering, value: Value, number: Size | Expr) -> Value:
    """A float divided by a size."""

    def compute(x: Scalar) -> Scalar:
        how_many = expr.index(number)
        divisor = expr.operation("cast", how_many, dtype=x.dtype)
        if how_many.op == "constant":
            divisor = constant_like(how_many.data, x)
        return op("div", x, divisor)

    return elementwise(c, compute, value, takes=value.dtype, gives=value.dtype)


def mean_of(c: Lowering, input: Value, dims: list[int], keep: bool) -> Value:
    """The mean in the dtype that sums are accumulated in."""
    inner = wide(input.dtype)
    made = folded(c, "sum", input, dims, keep, inner)
    return divided_by(c, made, count(input.sizes, dims))


@row("mean")
def mean(c: Lowering, input: Value, dim: Any, keepdim: bool, *, dtype: Any) -> Value:
    gives = input.dtype if dtype is None else short(dtype)
    if gives not in FLOATS:
        raise NotLowered("the mean of integers")
    made = mean_of(c, as_dtype(c, input, gives), dims_of(input, dim), keepdim)
    return rounded(c, made, gives)


def truth_row(name: str) -> None:
    @row(name)
    def lowered(c: Lowering, input: Value, dim: Any, keepdim: bool) -> Value:
        source = elementwise(c, is_nonzero, input, takes=input.dtype, gives="b1")
        made = folded(c, name, source, dims_of(input, dim), keepdim, "b1")
        return as_dtype(c, made, "u8") if input.dtype == "u8" else made


truth_row("any")
truth_row("all")


@row("count_nonzero")
def count_nonzero(c: Lowering, input: Value, dim: Any) -> Value:
    source = elementwise(c, is_nonzero, input, takes=input.dtype, gives="b1")
    return folded(c, "sum", source, dims_of(input, dim), False, "i64")


def must_have_elements(c: Lowering, input: Value, dims: list[int]) -> None:
    """Of nothing there is no largest: torch raises an error then."""
    for dim in dims:
        size = input.sizes[dim]
        if c.facts.prove(ge(size, 1)) is not Answer.YES:
            raise NotLowered(f"size {size} may be 0, which is an error")


def extremum(c: Lowering, fold: str, input: Value, dims: list[int], keep: bool) -> Value:
    if input.dtype == "b1":
        return folded(c, "any" if fold == "max" else "all", input, dims, keep, "b1")
    made = folded(c, fold, input, dims, keep, wide(input.dtype))
    return rounded(c, made, input.dtype)


def extremum_row(name: str, fold: str) -> None:
    @row(name)
    def lowered(c: Lowering, input: Value, dim: Any, keepdim: bool) -> Value:
        dims = dims_of(input, dim)
        must_have_elements(c, input, dims)
        return extremum(c, fold, input, dims, keepdim)


extremum_row("amax", "max")
extremum_row("amin", "min")


def position_of(c: Lowering, fold: str, input: Value, dims: list[int], keep: bool) -> Value:
    source = as_dtype(c, input, wide(input.dtype))
    return c.values.reduction(fold, source, dims, "i64", keep=keep)


def position_row(name: str) -> None:
    @row(name)
    def lowered(c: Lowering, input: Value, dim: Any, keepdim: bool) -> Value:
        dims = dims_of(input, dim)
        must_have_elements(c, input, dims)
        if input.dtype == "b1" or not dims:
            raise NotLowered("the position of a boolean, or in a single number")
        return position_of(c, name, input, dims, keepdim)


position_row("argmax")
position_row("argmin")


def maximum_row(name: str) -> None:
    """`max` and `min`: of all, of two tensors, or with positions along a dimension."""

    @row(name)
    def lowered(c: Lowering, input: Value, dim: Any, keepdim: bool, other: Any) -> Any:
        other = dim if other is None else other
        if isinstance(other, Value):
            return ROWS[f"{name}imum"](c, input, other)
        dims = dims_of(input, dim)
        must_have_elements(c, input, dims)
        if dim is None:
            return extremum(c, name, input, dims, False)
        if input.dtype == "b1" or not input.sizes:
            raise NotLowered("the position of a boolean, or in a single number")
        where_ = position_of(c, f"arg{name}", input, dims, keepdim)
        return (extremum(c, name, input, dims, keepdim), where_)


maximum_row("max")
maximum_row("min")


@row("aminmax")
def aminmax(c: Lowering, input: Value, *, dim: Any, keepdim: bool) -> Any:
    dims = dims_of(input, dim)
    must_have_elements(c, input, dims)
    return tuple(extremum(c, fold, input, dims, keepdim) for fold in ("min", "max"))


# -- spread ----------------------------------------------------------------------------------------


def deviations(c: Lowering, input: Value, dims: list[int]) -> tuple[Value, Value]:
    """The mean (dimensions kept) and the sum of squared distances to it, both in f32 or f64."""
    source = as_dtype(c, input, wide(input.dtype))
    middle = mean_of(c, source, dims, True)

    def squared(x: Scalar, m: Scalar) -> Scalar:
        away = op("sub", x, m)
        return op("mul", away, away)

    dtype = source.dtype
    away = elementwise(c, squared, source, middle, takes=dtype, gives=dtype, cost=2)
    return middle, c.values.reduction("sum", away, dims, dtype, keep=True)


def without_ones(c: Lowering, value: Value, dims: list[int], keep: bool) -> Value:
    """Drop dimensions of size 1 that a reduction has kept."""
    if keep:
        return value
    rest = [dim for dim in range(len(value.sizes)) if dim not in dims]
    sizes = [value.sizes[dim] for dim in rest]

    def at(index: tuple[Size, ...]) -> Scalar:
        given = dict(zip(rest, index, strict=True))
        return value.at(tuple(given.get(dim, 0) for dim in range(len(value.sizes))))

    return c.values.new(sizes, value.dtype, at, (value,))


def variance(
    c: Lowering, input: Value, dim: Any, correction: Any, keep: bool, root: bool
) -> tuple[Value, Value]:
    if input.dtype not in FLOATS:
        raise NotLowered("the spread of integers")
    if not input.sizes:
        raise NotLowered("the spread of a single number")
    dims = dims_of(input, dim)
    middle, squares = deviations(c, input, dims)
    if type(correction) not in (int, float):
        raise NotLowered("a correction that is computed")
    number = count(input.sizes, dims)

    def compute(x: Scalar) -> Scalar:
        many = expr.operation("cast", expr.index(number), dtype=x.dtype)
        free = op("sub", many, constant_like(correction, x))
        # Torch divides by 0 where there are too few.
        free = op("maximum", free, constant_like(0, x))
        found = op("div", x, free)
        return op("sqrt", found) if root else found

    made = elementwise(c, compute, squares, takes=squares.dtype, gives=squares.dtype, cost=4)
    return (
        rounded(c, without_ones(c, made, dims, keep), input.dtype),
        rounded(c, without_ones(c, middle, dims, keep), input.dtype),
    )


def spread_row(name: str, root: bool, with_mean: bool) -> None:
    @row(name)
    def lowered(
        c: Lowering,
        input: Value,
        dim: Any,
        unbiased: Any,
        keepdim: bool,
        *,
        correction: Any,
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None or unbiased else 0
        both = variance(c, input, dim, correction, keepdim, root)
        return both if with_mean else both[0]


spread_row("var", root=False, with_mean=False)
spread_row("std", root=True, with_mean=False)
spread_row("var_mean", root=False, with_mean=True)
spread_row("std_mean", root=True, with_mean=True)


# -- softmax ---------------------------------------------------------------------------------------


def exponentials(c: Lowering, input: Value, dims: list[int]) -> tuple[Value, Value, Value]:
    """`input - max`, its exponential, and the sum of that (dimensions kept), in f32 or f64."""
    source = as_dtype(c, input, wide(input.dtype))
    dtype = source.dtype
    largest = c.values.reduction("max", source, dims, dtype, keep=True)
    away = elementwise(c, operation("sub"), source, largest, takes=dtype, gives=dtype)
    powers = elementwise(c, operation("exp"), away, takes=dtype, gives=dtype, cost=4)
    return away, powers, c.values.reduction("sum", powers, dims, dtype, keep=True)


Share = Callable[[Scalar, Scalar, Scalar], Scalar]


def softmax_row(name: str, along_last: Share, along_other: Share) -> None:
    @row(name)
    def lowered(c: Lowering, input: Value, dim: Any, dtype: Any, **_: Any) -> Value:
        gives = input.dtype if dtype is None else short(dtype)
        if gives not in FLOATS or dim is None or not input.sizes:
            raise NotLowered("integers, or no dimension")
        # Torch rounds to the asked dtype first.
        source = as_dtype(c, input, gives)
        dims = dims_of(input, dim)
        compute = along_last if dims == [len(input.sizes) - 1] else along_other
        away, powers, whole = exponentials(c, source, dims)
        made = elementwise(
            c, compute, away, powers, whole, takes=away.dtype, gives=away.dtype, cost=2
        )
        return rounded(c, made, gives)


def _share(_: Scalar, power: Scalar, whole: Scalar) -> Scalar:
    return op("div", power, whole)


def _share_of_row(_: Scalar, power: Scalar, whole: Scalar) -> Scalar:
    """Eager, along the last dimension, divides once a row. So its results and ours agree in the
    last bit where the exponentials do."""
    return op("mul", power, op("div", expr.constant(1.0, whole.dtype), whole))


def _log_share(away: Scalar, _: Scalar, whole: Scalar) -> Scalar:
    return op("sub", away, op("log", whole))


for _name in ("softmax", "functional_softmax"):
    softmax_row(_name, _share_of_row, _share)
for _name in ("log_softmax", "functional_log_softmax"):
    softmax_row(_name, _log_share, _log_share)


@row("logsumexp")
def logsumexp(c: Lowering, input: Value, dim: Any, keepdim: bool) -> Value:
    if input.dtype not in FLOATS or not input.sizes:
        raise NotLowered("integers, or a single number")
    dims = dims_of(input, dim)
    source = as_dtype(c, input, wide(input.dtype))
    dtype = source.dtype
    number = count(input.sizes, dims)
    largest = c.values.reduction("max", source, dims, dtype, keep=True)

    def finite(x: Scalar) -> Scalar:
        # Of infinities the distance is no number: torch takes the distance to 0 then.
        is_inf = test("eq", op("abs", x), constant_like(math.inf, x))
        return where(is_inf, constant_like(0, x), x)

    base = elementwise(c, finite, largest, takes=dtype, gives=dtype, cost=2)
    powers = elementwise(
        c, lambda x, m: op("exp", op("sub", x, m)), source, base, takes=dtype, gives=dtype, cost=4
    )
    whole = c.values.reduction("sum", powers, dims, dtype, keep=True)

    def logarithm(total: Scalar, start: Scalar) -> Scalar:
        found = op("add", op("log", total), start)
        # Nothing has no largest, but a sum.
        many = expr.index(number)
        none = test("eq", many, constant_like(0, many))
        return where(none, constant_like(-math.inf, found), found)

    made = elementwise(c, logarithm, whole, base, takes=dtype, gives=dtype, cost=4)
    return rounded(c, without_ones(c, made, dims, keepdim), input.dtype)
