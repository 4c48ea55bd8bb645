"""Reductions over dimensions: sums, logic, moments, extremes.

Torch allocates the result of a reduction contiguous, whatever the layout of its input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, Dtype, Scalar
from anyshape.ops.elementwise import DtypeRule, pointwise_meta, same
from anyshape.ops.families.arithmetic import gradient_maximum
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term, back_in
from anyshape.ops.lowering.pointwise_builder import as_dtype, elementwise
from anyshape.ops.lowering.scalars import (
    cast,
    constant_like,
    is_nonzero,
    op,
    operation,
    short,
    test,
    where,
    wide,
)
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value, place
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, NotMapped, Writer, is_node
from anyshape.ops.op import NATIVE, Op, OpKind, Rule, gradient, lower, made_of, onnx_rows, row_of
from anyshape.ops.promotion import Number, category, floating, real
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Answer, Expr, Size, eq, ge, minimum, ne, product

Dims = int | Sequence[int] | None


def reduced(shape: tuple[Size, ...], dims: Sequence[int], keepdim: bool) -> tuple[Size, ...]:
    """The shape with these dimensions gone, or 1."""
    if not shape:
        return ()
    if keepdim:
        return tuple(1 if dim in dims else size for dim, size in enumerate(shape))
    return tuple(size for dim, size in enumerate(shape) if dim not in dims)


def dims_or_all(q: ShapeQuery, dim: Dims, rank: int) -> tuple[int, ...]:
    """The dimensions to reduce; no dimension at all means every one, as for most reductions."""
    if dim is None or (not isinstance(dim, int) and not dim):
        return tuple(range(rank))
    return q.dims(dim, rank)


def require_elements(q: ShapeQuery, input: Meta, dims: Sequence[int]) -> None:
    """The operator has no value for nothing: none of these dimensions may be empty."""
    for dim in dims:
        if dim < input.rank:
            q.require(ne(input.shape[dim], 0), f"dimension {dim} is reduced, and may not be empty")


def whole(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a sum: integers are summed in 64 bits."""
    return dtype if category(dtype) >= 2 else torch.int64


def truth(dtype: torch.dtype) -> torch.dtype:
    """The dtype of `any` and `all`: bool, except that bytes stay bytes."""
    return torch.uint8 if dtype is torch.uint8 else torch.bool


def counted(dtype: torch.dtype) -> torch.dtype:
    return torch.int64


def require_float(q: ShapeQuery, dtype: torch.dtype) -> None:
    if category(dtype) < 2:
        raise q.fail(f"only floating point and complex tensors are accepted, not {dtype}")


def _fold(result: DtypeRule, floats: bool = False) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
    ) -> Meta:
        found = result(input.dtype) if dtype is None else dtype
        if floats:
            require_float(q, found)
        return input.like(reduced(input.shape, dims_or_all(q, dim, input.rank), keepdim), found)

    return rule


def any_all(q: ShapeQuery, input: Meta, dim: Dims = None, keepdim: bool = False) -> Meta:
    # Unlike the others, an empty tuple reduces nothing here.
    dims = q.dims(dim, input.rank)
    return input.like(reduced(input.shape, dims, keepdim), truth(input.dtype))


def logsumexp(q: ShapeQuery, input: Meta, dim: Dims, keepdim: bool = False) -> Meta:
    if input.rank and not isinstance(dim, int) and not dim:
        raise q.fail("the dimensions to reduce must be given")
    return input.like(reduced(input.shape, q.dims(dim, input.rank), keepdim), floating(input.dtype))


def extreme_values(q: ShapeQuery, input: Meta, dim: Dims = (), keepdim: bool = False) -> Meta:
    """amax, amin."""
    dims = dims_or_all(q, dim, input.rank)
    require_elements(q, input, dims)
    return input.like(reduced(input.shape, dims, keepdim))


def hash_tensor(
    q: ShapeQuery, input: Meta, dim: Dims = (), *, keepdim: bool = False, mode: int = 0
) -> Meta:
    return replace(extreme_values(q, input, dim, keepdim), dtype=torch.uint64)


def extreme_index(
    q: ShapeQuery, input: Meta, dim: int | None = None, keepdim: bool = False
) -> Meta:
    """argmax, argmin."""
    dims = q.dims(dim, input.rank)
    require_elements(q, input, dims)
    return input.like(reduced(input.shape, dims, keepdim), torch.int64)


def aminmax(
    q: ShapeQuery, input: Meta, *, dim: int | None = None, keepdim: bool = False
) -> tuple[Meta, Meta]:
    dims = q.dims(dim, input.rank)
    require_elements(q, input, dims)
    result = input.like(reduced(input.shape, dims, keepdim))
    return result, result


def extremum(
    q: ShapeQuery,
    input: Meta | Number,
    dim: Meta | int | None = None,
    keepdim: bool = False,
    *,
    other: Meta | None = None,
) -> Meta | tuple[Meta, Meta]:
    """max, min: of all, along a dimension with the positions, or of two tensors."""
    other = dim if isinstance(dim, Meta) else other
    if other is not None or not isinstance(input, Meta):
        assert other is not None, "a number is compared with a tensor"
        return pointwise_meta(q, (input, other), same)
    if dim is None:
        require_elements(q, input, range(input.rank))
        return input.like(())
    assert isinstance(dim, int | Expr), "the other meanings are dealt with"
    return along(q, input, q.dim(dim, input.rank), keepdim)


def along(q: ShapeQuery, input: Meta, dim: int, keepdim: bool) -> tuple[Meta, Meta]:
    """Values along a dimension that may not be empty, with their positions."""
    dims = (q.dim(dim, input.rank),)
    require_elements(q, input, dims)
    shape = reduced(input.shape, dims, keepdim)
    return input.like(shape), input.like(shape, torch.int64)


def _moments(with_mean: bool) -> Rule:
    """var, std; with `with_mean` also the mean, which stays complex where the input is."""

    def rule(
        q: ShapeQuery,
        input: Meta,
        dim: Dims | bool = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: Number | None = None,
    ) -> Meta | tuple[Meta, Meta]:
        require_float(q, input.dtype)
        # var(input, True): a single flag is `unbiased`, not a dimension.
        dims = dims_or_all(q, None if isinstance(dim, bool) else dim, input.rank)
        shape = reduced(input.shape, dims, keepdim)
        spread = input.like(shape, real(input.dtype))
        return (spread, input.like(shape)) if with_mean else spread

    return rule


def trace(q: ShapeQuery, input: Meta) -> Meta:
    if input.rank != 2:
        raise q.fail(f"a matrix is needed, not a tensor of {input.rank} dimensions")
    return input.like((), whole(input.dtype))


def sum_to_size(q: ShapeQuery, input: Meta, *size: Any) -> Meta:
    listed = len(size) == 1 and isinstance(size[0], tuple | list)
    wanted: tuple[Size, ...] = tuple(size[0]) if listed else size
    missing = input.rank - len(wanted)
    if missing < 0:
        raise q.fail(f"{len(wanted)} sizes are too many for a tensor of {input.rank} dimensions")
    # Where nothing is summed the tensor itself comes back: in its own layout and its own dtype.
    alike = input.is_contiguous and whole(input.dtype) == input.dtype
    summed = missing > 0 or not wanted
    for have, want in zip(input.shape[missing:], wanted, strict=True):
        if have == want:
            continue
        if _is_one(q, have, want):
            summed = summed or alike or q.decide(ne(have, 1), "a size of 1 needs no sum")
        else:
            q.require(eq(have, want), "a size is summed to 1 or kept")
    return input.like(wanted, whole(input.dtype)) if summed else input


def _is_one(q: ShapeQuery, have: Size, want: Size) -> bool:
    """Whether a size is to become 1; one that is 1 now, where the other is not, must stay 1."""
    if want == 1 or q.facts.hint(want) != 1 or q.facts.hint(have) == 1:
        return want == 1
    return q.decide(eq(want, 1), "a size is summed to 1")


_row = partial(row_of, OpKind.REDUCTION)

ROWS: tuple[Op, ...] = (
    _row("sum", _fold(whole)),
    _row("prod", _fold(whole)),
    _row("nansum", _fold(whole)),
    _row("count_nonzero", _fold(counted)),
    _row("hash_tensor", hash_tensor),
    _row("mean", _fold(same, floats=True)),
    _row("nanmean", _fold(same, floats=True)),
    _row("any", any_all),
    _row("all", any_all),
    _row("logsumexp", logsumexp, "torch.special.logsumexp"),
    _row("amax", extreme_values),
    _row("amin", extreme_values),
    _row("argmax", extreme_index),
    _row("argmin", extreme_index),
    _row("aminmax", aminmax),
    _row("max", extremum),
    _row("min", extremum),
    _row("var", _moments(with_mean=False)),
    _row("std", _moments(with_mean=False)),
    _row("var_mean", _moments(with_mean=True)),
    _row("std_mean", _moments(with_mean=True)),
    _row("trace", trace),
    Op("sum_to_size", ("torch.Tensor.sum_to_size",), sum_to_size, OpKind.REDUCTION),
)


# -- native code ----------------------------------------------------------------------------------


def dims_of(input: Value, dim: Any) -> list[int]:
    """The dimensions that are meant; all for None and ()."""
    rank = len(input.sizes)
    if not rank:
        # Torch takes a dimension for a 0-d tensor too.
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
    return elementwise(c, lambda x: op("add", x, constant_like(0.0, x)), input, takes=dtype)


def count(sizes: tuple[Size, ...], dims: list[int]) -> Size:
    return product([sizes[dim] for dim in dims])


def total_dtype(dtype: Dtype, asked: torch.dtype | None) -> Dtype:
    """The dtype of a sum: integers are added as i64."""
    if asked is not None:
        return short(asked)
    return dtype if dtype in FLOATS else "i64"


@lower("sum")
def lower_sum(c: Lowering, input: Value, dim: Any, keepdim: bool, *, dtype: Any) -> Value:
    gives = total_dtype(input.dtype, dtype)
    made = folded(c, "sum", as_dtype(c, input, gives), dims_of(input, dim), keepdim, wide(gives))
    return as_dtype(c, made, gives)


@lower("prod")
def lower_prod(c: Lowering, input: Value, dim: Any, keepdim: bool, *, dtype: Any) -> Value:
    gives = total_dtype(input.dtype, dtype)
    made = folded(c, "prod", as_dtype(c, input, gives), dims_of(input, dim), keepdim, wide(gives))
    return as_dtype(c, made, gives)


def divided_by(c: Lowering, value: Value, number: Size | Expr) -> Value:
    """A float divided by a size."""

    def compute(x: Scalar) -> Scalar:
        how_many = expr.index(number)
        divisor = expr.operation("cast", how_many, dtype=x.dtype)
        if how_many.op == "constant":
            divisor = constant_like(how_many.data, x)
        return op("div", x, divisor)

    return elementwise(c, compute, value, takes=value.dtype)


def mean_of(c: Lowering, input: Value, dims: list[int], keep: bool) -> Value:
    """The mean in the dtype that sums are accumulated in."""
    inner = wide(input.dtype)
    made = folded(c, "sum", input, dims, keep, inner)
    return divided_by(c, made, count(input.sizes, dims))


@lower("mean")
def lower_mean(c: Lowering, input: Value, dim: Any, keepdim: bool, *, dtype: Any) -> Value:
    gives = input.dtype if dtype is None else short(dtype)
    if gives not in FLOATS:
        raise NotLowered("the mean of integers")
    made = mean_of(c, as_dtype(c, input, gives), dims_of(input, dim), keepdim)
    return as_dtype(c, made, gives)


def lower_truth(name: str, c: Lowering, input: Value, dim: Any, keepdim: bool) -> Value:
    source = elementwise(c, is_nonzero, input, takes=input.dtype, gives="b1")
    made = folded(c, name, source, dims_of(input, dim), keepdim, "b1")
    return as_dtype(c, made, "u8") if input.dtype == "u8" else made


lower("any")(partial(lower_truth, "any"))
lower("all")(partial(lower_truth, "all"))


@lower("count_nonzero")
def lower_count_nonzero(c: Lowering, input: Value, dim: Any) -> Value:
    source = elementwise(c, is_nonzero, input, takes=input.dtype, gives="b1")
    return folded(c, "sum", source, dims_of(input, dim), False, "i64")


def must_have_elements(c: Lowering, input: Value, dims: list[int]) -> None:
    """Of nothing there is no largest: torch raises an error then."""
    for dim in dims:
        size = input.sizes[dim]
        if c.facts.prove(ge(size, 1)) is not Answer.YES:
            raise NotLowered(f"size {size} may be 0, which is an error")


def lower_extremum(c: Lowering, fold: str, input: Value, dims: list[int], keep: bool) -> Value:
    if input.dtype == "b1":
        return folded(c, "any" if fold == "max" else "all", input, dims, keep, "b1")
    made = folded(c, fold, input, dims, keep, wide(input.dtype))
    return as_dtype(c, made, input.dtype)


def lower_extremum_along(fold: str, c: Lowering, input: Value, dim: Any, keepdim: bool) -> Value:
    dims = dims_of(input, dim)
    must_have_elements(c, input, dims)
    return lower_extremum(c, fold, input, dims, keepdim)


lower("amax")(partial(lower_extremum_along, "max"))
lower("amin")(partial(lower_extremum_along, "min"))


def position_of(c: Lowering, fold: str, input: Value, dims: list[int], keep: bool) -> Value:
    source = as_dtype(c, input, wide(input.dtype))
    return c.values.reduction(fold, source, dims, "i64", keep=keep)


def lower_position(name: str, c: Lowering, input: Value, dim: Any, keepdim: bool) -> Value:
    dims = dims_of(input, dim)
    must_have_elements(c, input, dims)
    if input.dtype == "b1" or not dims:
        raise NotLowered("the position of a boolean, or in a 0-d tensor")
    return position_of(c, name, input, dims, keepdim)


lower("argmax")(partial(lower_position, "argmax"))
lower("argmin")(partial(lower_position, "argmin"))


def lower_maximum(name: str, c: Lowering, input: Value, dim: Any, keepdim: bool, other: Any) -> Any:
    """`max` and `min`: of all, of two tensors, or with positions along a dimension."""
    other = dim if other is None else other
    if isinstance(other, Value):
        return NATIVE[f"{name}imum"](c, input, other)
    dims = dims_of(input, dim)
    must_have_elements(c, input, dims)
    if dim is None:
        return lower_extremum(c, name, input, dims, False)
    if input.dtype == "b1" or not input.sizes:
        raise NotLowered("the position of a boolean, or in a 0-d tensor")
    where_ = position_of(c, f"arg{name}", input, dims, keepdim)
    return (lower_extremum(c, name, input, dims, keepdim), where_)


lower("max")(partial(lower_maximum, "max"))
lower("min")(partial(lower_maximum, "min"))


@lower("aminmax")
def lower_aminmax(c: Lowering, input: Value, *, dim: Any, keepdim: bool) -> Any:
    dims = dims_of(input, dim)
    must_have_elements(c, input, dims)
    return tuple(lower_extremum(c, fold, input, dims, keepdim) for fold in ("min", "max"))


# -- spread ----------------------------------------------------------------------------------------


def deviations(c: Lowering, input: Value, dims: list[int]) -> tuple[Value, Value]:
    """The mean (dimensions kept) and the sum of squared distances to it, both in f32 or f64."""
    source = as_dtype(c, input, wide(input.dtype))
    middle = mean_of(c, source, dims, True)

    def squared(x: Scalar, m: Scalar) -> Scalar:
        away = op("sub", x, m)
        return op("mul", away, away)

    dtype = source.dtype
    away = elementwise(c, squared, source, middle, takes=dtype, cost=2)
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
        raise NotLowered("the variance of integers")
    if not input.sizes:
        raise NotLowered("the variance of a 0-d tensor")
    dims = dims_of(input, dim)
    # As eager does it: squares of f32 may be too large for it, though their mean has a root.
    exact = input if c.on_gpu else as_dtype(c, input, "f64")
    middle, squares = deviations(c, exact, dims)
    if type(correction) not in (int, float):
        raise NotLowered("a correction that is not a constant")
    number = count(input.sizes, dims)

    def compute(x: Scalar) -> Scalar:
        many = expr.operation("cast", expr.index(number), dtype=x.dtype)
        free = op("sub", many, constant_like(correction, x))
        # Torch divides by 0 where there are too few.
        free = op("maximum", free, constant_like(0, x))
        found = op("div", x, free)
        return op("sqrt", found) if root else found

    made = elementwise(c, compute, squares, takes=squares.dtype, cost=4)
    return (
        as_dtype(c, without_ones(c, made, dims, keep), input.dtype),
        as_dtype(c, without_ones(c, middle, dims, keep), input.dtype),
    )


def lower_spread(
    root: bool,
    with_mean: bool,
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


lower("var")(partial(lower_spread, False, False))
lower("std")(partial(lower_spread, True, False))
lower("var_mean")(partial(lower_spread, False, True))
lower("std_mean")(partial(lower_spread, True, True))


@lower("logsumexp")
def lower_logsumexp(c: Lowering, input: Value, dim: Any, keepdim: bool) -> Value:
    if input.dtype not in FLOATS or not input.sizes:
        raise NotLowered("integers, or a 0-d tensor")
    dims = dims_of(input, dim)
    source = as_dtype(c, input, wide(input.dtype))
    dtype = source.dtype
    number = count(input.sizes, dims)
    largest = c.values.reduction("max", source, dims, dtype, keep=True)

    def finite(x: Scalar) -> Scalar:
        # Of infinities the distance is no number: torch takes the distance to 0 then.
        is_inf = test("eq", op("abs", x), constant_like(math.inf, x))
        return where(is_inf, constant_like(0, x), x)

    base = elementwise(c, finite, largest, takes=dtype, cost=2)
    powers = elementwise(
        c, lambda x, m: op("exp", op("sub", x, m)), source, base, takes=dtype, cost=4
    )
    whole = c.values.reduction("sum", powers, dims, dtype, keep=True)

    def logarithm(total: Scalar, start: Scalar) -> Scalar:
        found = op("add", op("log", total), start)
        # Nothing has no largest, but a sum.
        many = expr.index(number)
        none = test("eq", many, constant_like(0, many))
        return where(none, constant_like(-math.inf, found), found)

    made = elementwise(c, logarithm, whole, base, takes=dtype, cost=4)
    return as_dtype(c, without_ones(c, made, dims, keepdim), input.dtype)


def numbers_only(c: Lowering, input: Value) -> Value:
    """0 in place of NaN."""
    if input.dtype not in FLOATS:
        return input

    def compute(x: Scalar) -> Scalar:
        return where(test("isnan", x), constant_like(0, x), x)

    return elementwise(c, compute, input)


@lower("nansum")
def lower_nansum(c: Lowering, input: Value, dim: Any, keepdim: bool, *, dtype: Any) -> Value:
    source = input if dtype is None else as_dtype(c, input, short(dtype))
    return lower_sum(c, numbers_only(c, source), dim, keepdim, dtype=dtype)


@lower("nanmean")
def lower_nanmean(c: Lowering, input: Value, dim: Any, keepdim: bool, *, dtype: Any) -> Value:
    if input.dtype not in FLOATS or dtype is not None:
        raise NotLowered("the mean of integers, or of another dtype")
    total = lower_sum(c, numbers_only(c, input), dim, keepdim, dtype=None)
    there = elementwise(
        c,
        lambda x: test("not", test("isnan", x)),
        input,
        takes=input.dtype,
        gives="b1",
    )
    number = folded(c, "sum", there, dims_of(input, dim), keepdim, "i64")
    dtype_ = input.dtype
    return elementwise(c, operation("div"), total, number, takes=dtype_)


@lower("trace")
def lower_trace(c: Lowering, input: Value) -> Value:
    rows, columns = input.sizes
    length = minimum(rows, columns)
    gives = input.dtype if input.dtype in FLOATS else "i64"

    def at(index: Index) -> Scalar:
        return cast(input.at((index[0], index[0])), gives)

    return lower_sum(c, c.values.new((length,), gives, at, (input,)), 0, False, dtype=None)


# -- gradients ------------------------------------------------------------------------------------


def _count(input: Term, dim: Any) -> Size:
    """How many elements become one."""
    rank = input.rank
    if dim is None or dim in ((), []):
        return product(list(input.shape))
    dims = dim if isinstance(dim, tuple | list) else (dim,)
    return product([input.shape[each % rank] for each in dims]) if rank else 1


@gradient("sum")
def gradient_sum(grad: Term, input: Term, dim: Any, keepdim: bool) -> Gradients:
    return {"input": back_in(grad, dim, keepdim, input.rank).expand(input.shape)}


@gradient("mean")
def gradient_mean(grad: Term, input: Term, dim: Any, keepdim: bool) -> Gradients:
    own = back_in(grad, dim, keepdim, input.rank) / _count(input, dim)
    return {"input": own.expand(input.shape)}


@gradient("amax", "amin")
def gradient_amax(grad: Term, result: Term, input: Term, dim: Any, keepdim: bool) -> Gradients:
    """The greatest share it, if there are several."""
    if input.rank == 0:
        return {"input": grad}
    dims = list(range(input.rank)) if dim in ((), [], None) else dim
    where = input.eq(back_in(result, dims, keepdim, input.rank))
    share = back_in(grad, dims, keepdim, input.rank) / where.sum(dims, True)
    return {"input": share * where.to(share.dtype)}


@gradient("nansum")
def gradient_nansum(grad: Term, input: Term, dim: Any, keepdim: bool) -> Gradients:
    return {"input": back_in(grad, dim, keepdim, input.rank) * input.isnan().logical_not()}


@made_of("nanmean")
def parts_of_nanmean(records: Records, input: Term, dim: Any, keepdim: bool, dtype: Any) -> Term:
    if dim in ((), []):
        raise NoGradient("no dimensions, or all of them")
    dims = list(range(input.rank)) if dim is None else dim
    there = input.isnan().logical_not().sum(dims, keepdim)
    return input.nansum(dims, keepdim, dtype=dtype) / there


@gradient("logsumexp")
def gradient_logsumexp(grad: Term, result: Term, input: Term, dim: Any, keepdim: bool) -> Gradients:
    total = back_in(result, dim, keepdim, input.rank)
    return {"input": back_in(grad, dim, keepdim, input.rank) * (input - total).exp()}


@gradient("prod")
def gradient_prod(
    grad: Term, result: Term, input: Term, dim: Any, keepdim: bool, dtype: Any
) -> Gradients:
    """The product of all others: a quotient, unless there are zeros."""
    if dtype is not None or not (dim is None or type(dim) is int):
        raise NoGradient("a product of another dtype, or along a dimension that is not known")
    if input.rank == 0:
        return {"input": grad}
    is_zero = input.eq(0)
    if dim is None:
        flat = input.reshape([product(list(input.shape))])
        others = _of_others(flat, 0).reshape(input.shape).masked_fill(is_zero.sum() > 1, 0.0)
    else:
        grad, result = (back_in(each, dim, keepdim, input.rank) for each in (grad, result))
        others = _of_others(input, dim % input.rank)
    return {"input": (grad * others).where(is_zero.any(), grad * result / input)}


def _of_others(input: Term, dim: int) -> Term:
    """The product of all other elements of a row: of those in front and of those behind."""
    behind = [0, 0] * (input.rank - 1 - dim)

    def in_front(of: Term) -> Term:
        shifted = of.call(torch.nn.functional.pad, [*behind, 1, 0], value=1.0)
        return shifted.narrow(dim, 0, of.shape[dim]).cumprod(dim)

    return in_front(input) * in_front(input.flip([dim])).flip([dim])


@gradient("max", "min")
def gradient_max(
    grad: Any,
    result: Any,
    parts: dict[int, Term],
    input: Term,
    dim: Any,
    keepdim: bool,
    other: Any,
    function: str,
) -> Gradients:
    if isinstance(other, Term) or isinstance(dim, Term):
        beside, name = (dim, "dim") if isinstance(dim, Term) else (other, "other")
        found = gradient_maximum(grad, input, beside, f"{function}imum")
        return {"input": found["input"], name: found["other"]}
    if not isinstance(grad, dict):
        return {"input": shared(grad, input, result)}
    place = parts[1] if 1 in parts else _place(input, dim, keepdim, function)
    return {"input": to_place(grad[0], place, input, dim, keepdim)}


def _place(input: Term, dim: Any, keepdim: bool, function: str) -> Term:
    if input.meta.device.type != "cpu":
        raise NoGradient("which of equal ones it is, is not known")
    return (input.argmax if function == "max" else input.argmin)(dim, keepdim)


def shared(grad: Term, input: Term, result: Term) -> Term:
    """Of one number of all: those that are equal share it."""
    where = input.eq(result).logical_or(input.isnan().logical_and(result.isnan()))
    return (grad / where.sum()).where(where, 0.0)


def to_place(grad: Term, place: Term, input: Term, dim: Any, keepdim: bool) -> Term:
    """Of one element of each row: zeros but for its place."""
    if input.rank == 0:
        return grad
    dim %= input.rank
    grad, place = (back_in(each, dim, keepdim, input.rank) for each in (grad, place))
    places = input.records.record(torch.arange, input.shape[dim], device=input.meta.device)
    places = places.reshape([input.shape[dim], *[1] * (input.rank - 1 - dim)])
    return grad.where(place.eq(places), 0.0)


@gradient("aminmax")
def gradient_aminmax(grad: dict[int, Term], input: Term, dim: Any, keepdim: bool) -> Gradients:
    found: Any = None
    for number, extreme in enumerate((torch.amin, torch.amax)):
        if number in grad:
            dims = [] if dim is None else [dim]
            result = input.call(extreme, dims, keepdim)
            own = gradient_amax(grad[number], result, input, dims, keepdim)["input"]
            found = own if found is None else found + own
    return {"input": found}


def _of_variance(grad: Term, input: Term, dim: Any, correction: Any, keepdim: bool) -> Term:
    if dim in ((), []) or (dim is None and correction not in (0, 1)):
        raise NoGradient("fewer elements than what is taken from their number")
    dims = list(range(input.rank)) if dim is None else dim
    centered = input - input.mean(dims, True) if input.rank else input - input
    own = back_in(grad, dim, keepdim, input.rank) * 2.0
    return own * centered / (_count(input, dim) - correction)


@gradient("var", "std", "var_mean", "std_mean")
def gradient_of_spread(
    grad: Any,
    result: Any,
    parts: dict[int, Term],
    input: Term,
    dim: Any,
    unbiased: Any,
    keepdim: bool,
    correction: Any,
    function: str,
) -> Gradients:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    if not isinstance(correction, int | float) or correction != int(correction):
        raise NoGradient("a correction that is no integer")
    own, middle = (grad.get(0), grad.get(1)) if isinstance(grad, dict) else (grad, None)
    if own is not None and function.startswith("std"):
        spread = parts[0] if isinstance(grad, dict) else result
        own = (own / (spread * 2.0)).masked_fill(spread.eq(0), 0.0)
    found = None
    if own is not None:
        found = _of_variance(own, input, dim, int(correction), keepdim)
    if middle is not None:
        mean = gradient_mean(middle, input, dim, keepdim)["input"]
        found = mean if found is None else found + mean
    return {"input": found}


@made_of("trace")
def parts_of_trace(records: Records, input: Term) -> Term:
    return input.diagonal().sum()


# -- ONNX -----------------------------------------------------------------------------------------


def onnx_axes(w: Writer, dim: Any) -> list[str]:
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return [w.constant(dims)] if dims else []


def onnx_reduce(
    kind: str, w: Writer, node: Node, input: Any, dim: Any, keepdim: bool, **_: Any
) -> str:
    return w.add(
        kind, [w.name(input, w.dtype(node)), *onnx_axes(w, dim)], keepdims=int(bool(keepdim))
    )


def onnx_truth(kind: str, w: Writer, node: Node, input: Any, dim: Any, keepdim: bool) -> str:
    """`all` and `any`: the least and the most of zeros and ones."""
    numbers = w.cast(w.name(input, torch.bool), torch.int32)
    found = w.add(kind, [numbers, *onnx_axes(w, dim)], keepdims=int(bool(keepdim)))
    return w.cast(found, torch.bool)


def onnx_extreme(
    kind: str, w: Writer, node: Node, input: Any, dim: Any, keepdim: bool, other: Any
) -> Any:
    """`max` and `min`: of everything, along a dimension (with places), or of two tensors."""
    if is_node(dim) and isinstance(w.example(dim), torch.Tensor):
        other = dim
    if other is not None:
        return w.add(kind, [w.name(input, w.dtype(node)), w.name(other, w.dtype(node))])
    if dim is None:
        return w.add(f"Reduce{kind}", [w.name(input)], keepdims=0)
    keep = int(keepdim)
    values = w.add(f"Reduce{kind}", [w.name(input), w.constant([dim])], keepdims=keep)
    return [values, w.add(f"Arg{kind}", [w.name(input)], axis=dim, keepdims=keep)]


def onnx_place_of_extreme(
    kind: str, w: Writer, node: Node, input: Any, dim: Any, keepdim: bool
) -> str:
    if dim is None:
        if keepdim:
            raise NotMapped(f"{kind} over all dimensions that keeps them")
        flat = w.add("Reshape", [w.name(input), w.constant([-1])])
        return w.add(kind, [flat], axis=0, keepdims=0)
    return w.add(kind, [w.name(input)], axis=dim, keepdims=int(keepdim))


def onnx_variance(
    root: bool,
    w: Writer,
    node: Node,
    input: Any,
    dim: Any,
    unbiased: bool,
    keepdim: bool,
    correction: Any,
) -> str:
    """`var` and `std`."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    less = int(unbiased) if correction is None else correction
    dtype, axes, keep = w.dtype(node), onnx_axes(w, dim), int(bool(keepdim))
    mean = w.add("ReduceMean", [w.name(input), *axes], keepdims=1)
    apart = w.add("Sub", [w.name(input), mean])
    total = w.add("ReduceSum", [w.add("Mul", [apart, apart]), *axes], keepdims=keep)
    ones = w.add("Expand", [w.name(1, dtype), w.add("Shape", [w.name(input)])])
    count = w.add("ReduceSum", [ones, *axes], keepdims=keep)
    # torch divides by 0 at least.
    divisor = w.add("Max", [w.add("Sub", [count, w.name(less, dtype)]), w.name(0, dtype)])
    found = w.add("Div", [total, divisor])
    return w.add("Sqrt", [found]) if root else found


onnx_rows(
    {
        "sum": partial(onnx_reduce, "ReduceSum"),
        "mean": partial(onnx_reduce, "ReduceMean"),
        "amax": partial(onnx_reduce, "ReduceMax"),
        "amin": partial(onnx_reduce, "ReduceMin"),
        "prod": partial(onnx_reduce, "ReduceProd"),
        "logsumexp": partial(onnx_reduce, "ReduceLogSumExp"),
        "all": partial(onnx_truth, "ReduceMin"),
        "any": partial(onnx_truth, "ReduceMax"),
        "max": partial(onnx_extreme, "Max"),
        "min": partial(onnx_extreme, "Min"),
        "argmax": partial(onnx_place_of_extreme, "ArgMax"),
        "argmin": partial(onnx_place_of_extreme, "ArgMin"),
        "var": partial(onnx_variance, False),
        "std": partial(onnx_variance, True),
    }
)
