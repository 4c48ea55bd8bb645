"""Running sums and extremes, and their kin: differences, gradients, the trapezoidal rule."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch

from anyshape.errors import UnknownOperator
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, Scalar
from anyshape.ops.broadcast import broadcast, pointwise_layout
from anyshape.ops.families.backward_kernels import by_kernel
from anyshape.ops.families.casts import returns_itself
from anyshape.ops.families.concat import joined
from anyshape.ops.families.reductions import (
    Dims,
    dims_or_all,
    from_zero,
    reduced,
    require_float,
    total_dtype,
    whole,
)
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term, zeros_like
from anyshape.ops.lowering.pointwise_builder import as_dtype, elementwise, mapped, shifted
from anyshape.ops.lowering.scalars import op, test, where
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value, place
from anyshape.ops.memory_format import kept_format
from anyshape.ops.meta import Layout, Meta
from anyshape.ops.onnx import END, Node, NotMapped, Writer
from anyshape.ops.op import TOTAL, Op, OpKind, lower, made_of, onnx, row_of
from anyshape.ops.op import gradient as gradient_row
from anyshape.ops.promotion import Number, category, floating, join, result_type
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, eq, ge, maximum, ne


def running(q: ShapeQuery, input: Meta, dim: int, *, dtype: torch.dtype | None = None) -> Meta:
    """cumsum, cumprod."""
    q.dim(dim, input.rank)
    return input.like(dtype=whole(input.dtype) if dtype is None else dtype)


def logcumsumexp(q: ShapeQuery, input: Meta, dim: int) -> Meta:
    require_float(q, input.dtype)
    q.dim(dim, input.rank)
    return input.like()


def running_extreme(q: ShapeQuery, input: Meta, dim: int) -> tuple[Meta, Meta]:
    """cummax, cummin."""
    q.dim(dim, input.rank)
    return input.like(), input.like(dtype=torch.int64)


def diff(
    q: ShapeQuery,
    input: Meta,
    n: Size = 1,
    dim: int = -1,
    prepend: Meta | None = None,
    append: Meta | None = None,
) -> Meta:
    if not input.rank:
        raise q.fail("a tensor without dimensions has no differences")
    along = q.dim(dim, input.rank)
    q.require(ge(n, 0), "differences are taken 0 times or more")
    parts = [part for part in (prepend, input, append) if part is not None]
    size: Size = 0
    dtype = input.dtype
    for part in parts:
        if part is not input:
            _require_joinable(q, input, part, along)
        size = size + part.shape[along]
        dtype = join(dtype, part.dtype)
    if n == 0:  # the input itself, without what is to be joined to it
        return input.like(layout=_own_order(q, input))
    if len(parts) == 1 and returns_itself(q, eq(size, 0), "nothing is its own difference"):
        return input
    shape = (*input.shape[:along], maximum(size - n, 0), *input.shape[along + 1 :])
    # A joined tensor is contiguous unless all parts agree on something else.
    layout = _own_order(q, input) if len(parts) == 1 else None
    if layout is None and not all(part.is_contiguous for part in parts):
        layout = _common_layout(q, parts)
    return input.like(shape, dtype, layout)


def _own_order(q: ShapeQuery, input: Meta) -> Layout:
    return pointwise_layout(q, input.shape, (input,))


def _common_layout(q: ShapeQuery, parts: Sequence[Meta]) -> Layout | None:
    formats = {kept_format(q, part) for part in parts}
    return formats.pop() if len(formats) == 1 else None


def _require_joinable(q: ShapeQuery, input: Meta, other: Meta, along: int) -> None:
    if other.rank != input.rank:
        raise q.fail(f"{other.rank} dimensions do not join {input.rank}")
    for d, (size, wanted) in enumerate(zip(other.shape, input.shape, strict=True)):
        if d != along:
            q.require(eq(size, wanted), "sizes must be equal except along the joined dimension")


def gradient(
    q: ShapeQuery,
    input: Meta,
    *,
    spacing: Number | Sequence[Any] | None = None,
    dim: Dims = None,
    edge_order: int = 1,
) -> list[Meta]:
    dims = dims_or_all(q, dim, input.rank)
    operands: list[Meta | Number] = [input]
    if isinstance(spacing, tuple | list):
        if len(spacing) != len(dims):
            raise q.fail(f"{len(spacing)} spacings for {len(dims)} dimensions")
        for d, steps in zip(dims, spacing, strict=True):
            if isinstance(steps, Meta):
                q.require(
                    eq(steps.shape[0], input.shape[d]), "there must be a coordinate for each point"
                )
                operands.append(steps)
    for d in dims:
        q.require(
            ge(input.shape[d], edge_order + 1), "a gradient needs a point more than its order"
        )
    return [input.like(dtype=floating(result_type(operands))) for _ in dims]


def _samples(q: ShapeQuery, y: Meta, x: Meta | Number | None, dim: int) -> tuple[int, Meta]:
    """The dimension to integrate over, and `y` as it is with the steps of `x` broadcast to it."""
    if not y.rank:
        raise q.fail("a tensor without dimensions has no integral")
    along = q.dim(dim, y.rank)
    if not isinstance(x, Meta):
        return along, y.like(dtype=floating(y.dtype))
    dtype = floating(join(y.dtype, x.dtype))
    if x.rank == 1:
        q.require(eq(x.shape[0], y.shape[along]), "there must be one x for each sample")
        return along, y.like(dtype=dtype)
    if x.rank < 1:
        raise q.fail("x must have dimensions")
    if x.rank > y.rank and dim >= 0:
        raise UnknownOperator(op="an integral whose dimension is another one in x than in y")
    # Steps of x are multiplied with pairs of y: what is broadcast is one shorter.
    ones = (1,) * (y.rank - x.rank)
    full = (*ones, *x.shape)
    steps = (
        *full[: along - y.rank],
        full[along - y.rank] - 1,
        *full[len(full) + along - y.rank + 1 :],
    )
    pairs = (*y.shape[:along], y.shape[along] - 1, *y.shape[along + 1 :])
    shape = broadcast(q, (steps, pairs))
    if not q.same_all(shape, pairs):
        # An integral over nothing has the shape of y, and never looks at x.
        q.require(ne(y.shape[along], 0), "an integral is over at least one sample")
    along += len(shape) - y.rank
    return along, y.like((*shape[:along], shape[along] + 1, *shape[along + 1 :]), dtype)


def trapezoid(
    q: ShapeQuery, y: Meta, x: Meta | Number | None = None, *, dx: Number = 1, dim: int = -1
) -> Meta:
    along, samples = _samples(q, y, x, dim)
    if category(y.dtype) < 2:
        # An integral over nothing is a zero of the integers' own dtype.
        q.require(
            ne(y.shape[q.dim(dim, y.rank)], 0),
            "an integral of integers is over at least one sample",
        )
    return samples.like(reduced(samples.shape, (along,), False))


def cumulative_trapezoid(
    q: ShapeQuery, y: Meta, x: Meta | Number | None = None, *, dx: Number = 1, dim: int = -1
) -> Meta:
    along, samples = _samples(q, y, x, dim)
    shape = samples.shape
    return samples.like((*shape[:along], maximum(shape[along] - 1, 0), *shape[along + 1 :]))


_row = partial(row_of, OpKind.CALL_OUT, in_place=True, effects=TOTAL)

ROWS: tuple[Op, ...] = (
    _row("cumsum", running),
    _row("cumprod", running),
    _row("logcumsumexp", logcumsumexp),
    _row("cummax", running_extreme),
    _row("cummin", running_extreme),
    _row("diff", diff),
    Op("gradient", ("torch.gradient",), gradient, OpKind.CALL_OUT),
    Op("trapezoid", ("torch.trapezoid", "torch.trapz"), trapezoid, OpKind.CALL_OUT),
    Op(
        "cumulative_trapezoid",
        ("torch.cumulative_trapezoid",),
        cumulative_trapezoid,
        OpKind.CALL_OUT,
    ),
)


# -- native code ----------------------------------------------------------------------------------


_NEUTRAL: Final = {"sum": 0, "prod": 1}


def lower_running(fold: str, c: Lowering, input: Value, dim: Any, *, dtype: Any) -> Value:
    source = as_dtype(c, input, total_dtype(input.dtype, dtype))
    if not input.sizes:
        return source
    if source.dtype not in FLOATS and c.outcomes(input) == {_NEUTRAL[fold]}:
        same = expr.constant(_NEUTRAL[fold], source.dtype)
        return c.values.new(source.sizes, source.dtype, lambda index: same)
    along = place(dim, len(input.sizes))
    if input.sizes[along] == 1:
        return from_zero(c, source) if fold == "sum" else source
    if source.factors is not None and len(source.factors[along]) != 1:
        # Merged dimensions are run through one by one elsewhere; here they are one.
        memory = c.materialize(source)
        source = c.values.new(source.sizes, source.dtype, None, memory=memory)
    return c.scan(fold, source, along, c.result)


lower("cumsum")(partial(lower_running, "sum"))
lower("cumprod")(partial(lower_running, "prod"))


def lower_running_extreme(fold: str, c: Lowering, input: Value, dim: Any) -> tuple[Value, Value]:
    """The largest so far, and where it was met last."""
    if not input.sizes or input.dtype == "b1":
        raise NotLowered("cummax or cummin of a 0-d tensor, or of booleans")
    along = place(dim, len(input.sizes))
    if input.sizes[along] == 1:
        raise NotLowered("cummax or cummin along a dimension of size 1")
    # Read twice, and by itself: merged dimensions are one here.
    memory = c.materialize(input)
    source = c.values.new(input.sizes, input.dtype, None, memory=memory)
    extremes = c.scan(fold, source, along, c.result[0])

    def met(index: Index) -> Scalar:
        x, extreme = source.at(index), extremes.at(index)
        is_new = test("eq", x, extreme)
        if x.dtype in FLOATS:
            # Not a number is the extreme of all, each time anew.
            is_new = test("or", is_new, test("ne", x, x))
        here = expr.index(index[along])
        return where(is_new, here, expr.constant(0, "i64"))

    places = c.values.new(input.sizes, "i64", met, (source, extremes), cost=3)
    return extremes, c.scan("max", places, along, c.result[1])


lower("cummax")(partial(lower_running_extreme, "max"))
lower("cummin")(partial(lower_running_extreme, "min"))

#: Each doubles the work.
_MOST_DIFFERENCES: Final = 2


@lower("diff")
def lower_diff(c: Lowering, input: Value, n: Any, dim: Any, prepend: Any, append: Any) -> Value:
    if type(n) is not int or not 1 <= n <= _MOST_DIFFERENCES:
        raise NotLowered("many differences of differences")
    along = place(dim, len(input.sizes))
    ends = [each for each in (prepend, append) if each is not None]
    if any(not isinstance(each, Value) or each.dtype != input.dtype for each in ends):
        raise NotLowered("ends of another kind")
    if ends:
        parts = [each for each in (prepend, input, append) if each is not None]
        input = joined(c, parts, along, within=True)
    for left in reversed(range(n)):
        input = _differences(c, input, along, c.result.shape[along] + left)
    return input


def _differences(c: Lowering, input: Value, along: int, count: Size) -> Value:
    sizes = (*input.sizes[:along], count, *input.sizes[along + 1 :])
    before = mapped(c, input, sizes, lambda index: index)
    after = mapped(c, input, sizes, shifted(along, 1))
    if input.dtype == "b1":
        return elementwise(c, lambda a, b: test("ne", a, b), after, before, gives="b1")
    return elementwise(c, lambda a, b: op("sub", a, b), after, before)


# -- gradients ------------------------------------------------------------------------------------


@gradient_row("cumsum")
def gradient_cumsum(grad: Term, dim: Any) -> Gradients:
    """Each goes into all sums behind it."""
    if grad.rank == 0:
        return {"input": grad}
    return {"input": grad.flip([dim]).cumsum(dim).flip([dim])}


@made_of("diff")
def parts_of_diff(
    records: Records, input: Term, n: Any, dim: Any, prepend: Any, append: Any
) -> Term:
    if type(n) is not int or not 1 <= n <= _MOST_DIFFERENCES or input.dtype is torch.bool:
        raise NoGradient("many differences of differences")
    parts = [each for each in (prepend, input, append) if each is not None]
    if len(parts) > 1:
        input = records.record(torch.cat, parts, dim)
    for _ in range(n):
        less = input.shape[dim] - 1
        input = input.narrow(dim, 1, less) - input.narrow(dim, 0, less)
    return input


@gradient_row("cumprod")
def gradient_cumprod(grad: Term, result: Term, input: Term, dim: Any, dtype: Any) -> Gradients:
    if dtype is not None:
        raise NoGradient("products of another dtype")
    return {"input": by_kernel("cumprod_backward", grad, input, dim, result)}


@gradient_row("cummax", "cummin")
def gradient_cummax(
    grad: dict[int, Term], parts: dict[int, Term], input: Term, dim: Any
) -> Gradients:
    if input.rank == 0:
        return {"input": grad[0]}
    return {"input": zeros_like(input).scatter_add(dim, parts[1], grad[0])}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("cumsum")
def onnx_cumulated(w: Writer, node: Node, input: Any, dim: Any, **_: Any) -> str:
    return w.add("CumSum", [w.name(input, w.dtype(node)), w.constant(dim)])


@onnx("diff")
def onnx_differences(
    w: Writer, node: Node, input: Any, n: int, dim: int, prepend: Any, append: Any
) -> str:
    if n != 1:
        raise NotMapped("differences of differences")
    dtype = w.dtype(node)
    parts = [w.name(each, dtype) for each in (prepend, input, append) if each is not None]
    whole = parts[0] if len(parts) == 1 else w.add("Concat", parts, axis=dim)
    axis = w.constant([dim])
    later = w.add("Slice", [whole, w.constant([1]), w.constant([END]), axis])
    earlier = w.add("Slice", [whole, w.constant([0]), w.constant([-1]), axis])
    return w.add("Xor" if dtype is torch.bool else "Sub", [later, earlier])
