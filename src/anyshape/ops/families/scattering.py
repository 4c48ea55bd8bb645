"""gather and scatter: one position for each element, along one dimension.

A position out of range is an error of the data, which the kernel finds; but where a dimension is
empty no position is in range, and that is a question of sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOAT8, FLOATS, HALVES, Dtype, Scalar
from anyshape.loops.kernels import Mode
from anyshape.ops.families.indexing import Positions, along_dim
from anyshape.ops.gradient import Gradients, NoGradient, Term, zeros_like
from anyshape.ops.lowering.pointwise_builder import Operand, broadcast_index, elementwise, scalar_of
from anyshape.ops.lowering.scalar_range_check import INTEGERS, must_fit
from anyshape.ops.lowering.scalars import cast, constant_like, op, test, where, wide
from anyshape.ops.lowering.values import (
    Index,
    IndexMap,
    Lowering,
    NotLowered,
    NumberRef,
    Target,
    Value,
    place,
)
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import (
    Op,
    OpKind,
    Rule,
    gradient,
    in_place_names,
    lower,
    lower_in_place,
    names_of,
    onnx,
)
from anyshape.ops.promotion import Number
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Expr, Fact, Size, and_, eq, gt, le, or_


def _at_least_one(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """A tensor without dimensions counts as a vector of one element."""
    return shape or (1,)


def _empty(meta: Meta) -> tuple[Fact, ...]:
    return tuple(eq(size, 0) for size in meta.shape)


def _require_positions(
    q: ShapeQuery, input: Meta, dim: int, index: Meta, source: Meta | None
) -> None:
    """What the shapes must be unless there are no positions."""
    along = q.dim(dim, input.rank)
    if index.dtype not in (torch.int64, torch.int32):
        detail = f"positions must be integers of 64 or 32 bits, not {index.dtype}"
        q.require(or_(*_empty(index)), detail)
        return
    have, wanted = _at_least_one(input.shape), _at_least_one(index.shape)
    given = wanted if source is None else _at_least_one(source.shape)
    if not len(have) == len(wanted) == len(given):
        q.require(or_(*_empty(index)), "all must have as many dimensions")
        return
    facts: list[Fact] = []
    for d, (size, positions, values) in enumerate(zip(have, wanted, given, strict=True)):
        if d == along:
            if size is not positions:
                facts.append(gt(size, 0))
        elif size is not positions:
            facts.append(le(positions, size))
        if values is not positions:
            facts.append(le(positions, values))
    if facts:
        q.require(or_(*_empty(index), and_(*facts)), "positions must fit into the other tensors")


def gather(q: ShapeQuery, input: Meta, dim: int, index: Meta, *, sparse_grad: bool = False) -> Meta:
    _require_positions(q, input, dim, index, None)
    return input.like(index.shape)


def scatter(
    q: ShapeQuery,
    input: Meta,
    dim: int,
    index: Meta,
    src: Meta | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Meta:
    _require_positions(q, input, dim, index, src if isinstance(src, Meta) else None)
    _require_dtype(q, input, src)
    return input.like()


def scatter_add(q: ShapeQuery, input: Meta, dim: int, index: Meta, src: Meta) -> Meta:
    return scatter(q, input, dim, index, src)


def scatter_reduce(
    q: ShapeQuery,
    input: Meta,
    dim: int,
    index: Meta,
    src: Meta,
    reduce: str,
    *,
    include_self: bool = True,
) -> Meta:
    return scatter(q, input, dim, index, src)


def _require_dtype(q: ShapeQuery, input: Meta, source: object) -> None:
    if isinstance(source, Meta) and source.dtype != input.dtype:
        raise q.fail(f"values of {source.dtype} do not go into a tensor of {input.dtype}")


def index_add(
    q: ShapeQuery, input: Meta, dim: int, index: Meta, source: Meta, *, alpha: Number = 1
) -> Meta:
    _require_slices(q, input, dim, index, source)
    return input.like()


def index_reduce(
    q: ShapeQuery,
    input: Meta,
    dim: int,
    index: Meta,
    source: Meta,
    reduce: str,
    *,
    include_self: bool = True,
) -> Meta:
    _require_slices(q, input, dim, index, source)
    return input.like()


def _require_slices(q: ShapeQuery, input: Meta, dim: int, index: Meta, source: Meta) -> None:
    """A slice of the source for each position, of the size of the input's slices."""
    _require_dtype(q, input, source)
    along = q.dim(dim, input.rank)
    if index.rank > 1 or index.dtype not in (torch.int64, torch.int32):
        raise q.fail("positions must be a vector of integers")
    have, given = _at_least_one(input.shape), _at_least_one(source.shape)
    if len(have) != len(given):
        raise q.fail(f"a source of {source.rank} dimensions for an input of {input.rank}")
    positions = _at_least_one(index.shape)[0]
    for d, (size, other) in enumerate(zip(have, given, strict=True)):
        wanted = positions if d == along else size
        if other is not wanted:
            q.require(eq(other, wanted), "the source has a slice for each position")
    if have[along] is not positions:
        q.require(or_(eq(positions, 0), gt(have[along], 0)), "an empty dimension has no position")


def _row(name: str, rule: Rule, in_place: bool = True) -> Op:
    places = in_place_names(name) if in_place else ()
    return Op(name, names_of(name), rule, OpKind.CALL_OUT, in_place=places)


ROWS: tuple[Op, ...] = (
    _row("gather", gather, in_place=False),
    _row("scatter", scatter),
    _row("scatter_add", scatter_add),
    _row("scatter_reduce", scatter_reduce),
    _row("index_add", index_add),
    _row("index_reduce", index_reduce),
)


# -- native code ----------------------------------------------------------------------------------


def filled(c: Lowering, value: Any, sizes: Sequence[Size], dtype: Dtype) -> Value:
    """A value stretched to these sizes, in this dtype."""
    if isinstance(value, Value):
        own = list(value.sizes)
        while len(own) > len(sizes) and own[0] == 1:
            own.pop(0)
        skip = len(value.sizes) - len(own)
        if len(own) > len(sizes) or not _stretches(c, own, sizes):
            raise NotLowered("a value of other sizes")
        factors = value.factors if not skip and c.same_sizes(own, sizes) else None

        def read(index: Index) -> Scalar:
            there = broadcast_index(own, sizes, index)
            return cast(value.at((0,) * skip + there), dtype)

        return c.values.new(sizes, dtype, read, (value,), cost=0, factors=factors)
    number = _fitting(value, dtype)
    must_fit(c, number, dtype)

    def constant(index: Index) -> Scalar:
        return cast(scalar_of(number, index, sizes, wide(dtype)), dtype)

    return c.values.new(sizes, dtype, constant)


def _stretches(c: Lowering, own: Sequence[Size], sizes: Sequence[Size]) -> bool:
    skip = len(sizes) - len(own)
    return all(
        size == 1 or c.same(size, wanted) for size, wanted in zip(own, sizes[skip:], strict=True)
    )


def _fitting(value: Any, dtype: Dtype) -> Operand:
    """A number that the dtype has."""
    if isinstance(value, NumberRef | Expr | bool | int | float):
        if dtype in FLOATS or dtype in FLOAT8 or dtype == "b1":
            return value
        if isinstance(value, float) and not math.isfinite(value):
            raise NotLowered("a number that the dtype does not have")
        if isinstance(value, Expr | NumberRef):
            raise NotLowered("a number that the dtype may not have")
        low, high = INTEGERS[dtype]
        if low <= value <= high:
            return value
    raise NotLowered("a number that the dtype does not have")


# -- operators -------------------------------------------------------------------------------------


def along(
    c: Lowering, dim: int, size: Size, index: Value, value: Value, *, wraps: bool, per_element: bool
) -> IndexMap:
    """Where an element of the value goes: elsewhere in one dimension only."""
    positions = Positions(c, index, size, wraps=wraps, found=value.sizes)

    def index_map(here: Index) -> Index:
        own = here if per_element else (here[dim],) if index.sizes else ()
        return (*here[:dim], positions.at(own), *here[dim + 1 :])

    return index_map


def scatter_row(name: str, plan: Any, otherwise: Any = None) -> None:
    """`plan(c, sizes, dtype, ...)` gives (value, index map, lookups, mode): both for the operator
    and for its in-place form. `otherwise`: what the operator does where there is no such plan."""

    @lower(name)
    def lowered(c: Lowering, input: Value, **arguments: Any) -> Value:
        try:
            value, index_map, _, mode = plan(c, input.sizes, input.dtype, **arguments)
        except NotLowered:
            if otherwise is None:
                raise
            return otherwise(c, input, **arguments)
        adds_exactly(mode, input.dtype)
        return c.scattered(input, value, index_map, mode, c.result)

    @lower_in_place(name)
    def written(c: Lowering, target: Target, **arguments: Any) -> None:
        value, index_map, lookups, mode = plan(
            c, target.meta.shape, c.dtype_of(target), **arguments
        )
        adds_exactly(mode, c.dtype_of(target))
        c.scatter(target, value, index_map, lookups, mode)


def adds_exactly(mode: str, dtype: Dtype) -> None:
    """Sums of 16-bit floats would be rounded after each addition; torch rounds less often."""
    if mode in ("add", "mul") and dtype in HALVES:
        raise NotLowered("sums of 16-bit floats")


def per_element(
    c: Lowering, sizes: Sequence[Size], dtype: Dtype, dim: Any, index: Value, source: Any, mode: str
) -> Any:
    if not sizes or len(index.sizes) != len(sizes):
        raise NotLowered("tensors of other numbers of dimensions")
    at = place(dim, len(sizes))
    if isinstance(source, Value):
        if source.dtype != dtype or len(source.sizes) != len(sizes):
            raise NotLowered("a source of another kind")
        # The source may be larger than the positions.
        value = c.values.new(index.sizes, dtype, source.at, (source,))
    else:
        value = filled(c, source, index.sizes, dtype)
    return (
        value,
        along(c, at, sizes[at], index, value, wraps=False, per_element=True),
        [index],
        mode,
    )


def plan_scatter(
    c: Lowering,
    sizes: Sequence[Size],
    dtype: Dtype,
    dim: Any,
    index: Value,
    src: Any = None,
    *,
    value: Any = None,
    reduce: Any = None,
) -> Any:
    if reduce is not None:
        raise NotLowered("a scatter that reduces")
    return per_element(c, sizes, dtype, dim, index, value if src is None else src, "set")


def plan_scatter_add(
    c: Lowering, sizes: Sequence[Size], dtype: Dtype, dim: Any, index: Value, src: Any
) -> Any:
    return per_element(c, sizes, dtype, dim, index, src, "add")


def slices_along(
    c: Lowering,
    sizes: Sequence[Size],
    dtype: Dtype,
    dim: Any,
    index: Value,
    source: Any,
    mode: str,
    wraps: bool,
) -> Any:
    """A slice of the source for each position."""
    if not sizes or len(index.sizes) > 1:
        raise NotLowered("a tensor without dimensions")
    at = place(dim, len(sizes))
    count = index.sizes[0] if index.sizes else 1
    shape = (*sizes[:at], count, *sizes[at + 1 :])
    if isinstance(source, Value) and source.sizes and not c.same_sizes(source.sizes, shape):
        raise NotLowered("a source of other sizes")
    value = filled(c, source, shape, dtype)
    return (
        value,
        along(c, at, sizes[at], index, value, wraps=wraps, per_element=False),
        [index],
        mode,
    )


def plan_index_add(
    c: Lowering,
    sizes: Sequence[Size],
    dtype: Dtype,
    dim: Any,
    index: Value,
    source: Value,
    *,
    alpha: Any = 1,
) -> Any:
    if type(alpha) is not int or alpha != 1 or source.dtype != dtype:
        raise NotLowered("a scaled source")
    return slices_along(c, sizes, dtype, dim, index, source, "add", False)


scatter_row("scatter", plan_scatter)
scatter_row("scatter_add", plan_scatter_add)
scatter_row("index_add", plan_index_add)

#: by name: how to combine, and what counts for nothing
_REDUCTIONS: dict[str, tuple[Mode, float]] = {
    "sum": ("add", 0),
    "mean": ("add", 0),
    "prod": ("mul", 1),
    "amax": ("maximum", -math.inf),
    "amin": ("minimum", math.inf),
}


def plan_scatter_reduce(
    c: Lowering,
    sizes: Sequence[Size],
    dtype: Dtype,
    dim: Any,
    index: Value,
    src: Any,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """What one pass does."""
    if reduce == "mean" or reduce not in _REDUCTIONS or not include_self or dtype == "b1":
        raise NotLowered(f"a scatter by `{reduce}`")
    return per_element(c, sizes, dtype, dim, index, src, _REDUCTIONS[reduce][0])


def scatter_reduce_in_passes(
    c: Lowering,
    input: Value,
    dim: Any,
    index: Value,
    src: Any,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """Places are emptied first if what was there does not count; a mean counts what it adds."""
    dtype = input.dtype
    if reduce not in _REDUCTIONS or dtype not in FLOATS:
        raise NotLowered(f"a scatter of {dtype} by `{reduce}`")
    mode, nothing = _REDUCTIONS[reduce]
    value, index_map, _, _ = per_element(c, input.sizes, dtype, dim, index, src, mode)
    adds_exactly(mode, dtype)

    def filled_with(number: float, shape: Sequence[Size]) -> Value:
        return c.values.new(shape, dtype, lambda _: expr.constant(number, dtype))

    base = input
    if not include_self:
        empty = filled_with(nothing, value.sizes)
        base = c.scattered(base, empty, index_map, "set", c.result)
    made = c.scattered(base, value, index_map, mode, c.result)
    if reduce != "mean":
        return made
    ones, before = filled_with(1, value.sizes), filled_with(float(include_self), input.sizes)
    counts = c.scattered(before, ones, index_map, "add", c.result)

    def mean(total: Scalar, count: Scalar) -> Scalar:
        one = expr.constant(1, count.dtype)
        return op("div", total, where(test("eq", count, constant_like(0, count)), one, count))

    return elementwise(c, mean, made, counts)


scatter_row("scatter_reduce", plan_scatter_reduce, scatter_reduce_in_passes)


@lower("gather")
def lower_gather(c: Lowering, input: Value, dim: Any, index: Value, *, sparse_grad: Any) -> Value:
    return along_dim(c, input, dim, index, index.sizes, wraps=False)


# -- gradients ------------------------------------------------------------------------------------


def _is_alike(a: Term, b: Term) -> bool:
    same = a.records.is_same
    return a.rank == b.rank and all(map(same, a.shape, b.shape))


@gradient("gather")
def gradient_gather(grad: Term, input: Term, dim: Any, index: Term, sparse_grad: Any) -> Gradients:
    if sparse_grad or input.rank != index.rank or input.rank == 0:
        raise NoGradient("a gradient that is sparse, or of a 0-d tensor")
    return {"input": zeros_like(input).scatter_add(dim, index, grad)}


@gradient("scatter")
def gradient_scatter(grad: Term, dim: Any, index: Term, src: Any, reduce: Any) -> Gradients:
    if reduce is not None or index.rank != grad.rank or index.rank == 0:
        raise NoGradient("what is written is not all that counts")
    found: Gradients = {"input": grad.scatter(dim, index, 0.0)}
    if isinstance(src, Term):
        if not _is_alike(src, index):
            raise NoGradient("more to write than places")
        found["src"] = grad.gather(dim, index)
    return found


@gradient("scatter_add")
def gradient_scatter_add(grad: Term, dim: Any, index: Term, src: Term) -> Gradients:
    if not _is_alike(src, index) or index.rank == 0:
        raise NoGradient("more to add than places")
    return {"input": grad, "src": grad.gather(dim, index)}


@gradient("scatter_reduce")
def gradient_scatter_reduce(
    grad: Term,
    result: Term,
    input: Term,
    dim: Any,
    index: Term,
    src: Term,
    reduce: Any,
    include_self: Any,
) -> Gradients:
    if type(include_self) is not bool or not _is_alike(src, index) or index.rank == 0:
        raise NoGradient("more to add than places")
    if reduce == "sum":
        found = grad, grad.gather(dim, index)
    elif reduce == "mean":
        start = grad.call(torch.ones_like if include_self else torch.zeros_like)
        count = start.scatter_add(dim, index, src.call(torch.ones_like))
        own = grad / count.clamp_min(1.0)
        found = own, own.gather(dim, index)
    elif reduce in ("amax", "amin"):
        found = _of_extremes(grad, result, input, dim, index, src)
    else:
        raise NoGradient("a product")
    before, after = found
    return {"input": before if include_self else before.scatter(dim, index, 0.0), "src": after}


def _of_extremes(
    grad: Term, result: Term, input: Term, dim: Any, index: Term, src: Term
) -> tuple[Term, Term]:
    """Those that are equal have equal parts; torch counts what was there before in any case."""
    is_kept = input.eq(result).to(grad.dtype)
    is_chosen = src.eq(result.gather(dim, index)).to(grad.dtype)
    own = grad / is_kept.scatter_add(dim, index, is_chosen)
    return is_kept * own, is_chosen * own.gather(dim, index)


@gradient("index_add")
def gradient_index_add(grad: Term, dim: Any, index: Term, source: Term, alpha: Any) -> Gradients:
    if source.rank != grad.rank or index.rank != 1:
        raise NoGradient("a 0-d tensor")
    own = grad.index_select(dim, index)
    return {"input": grad, "source": own if alpha == 1 else own * alpha}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("gather")
def onnx_gather(w: Writer, node: Node, input: Any, dim: int, index: Any, **_: Any) -> str:
    return w.add("GatherElements", [w.name(input), w.name(index)], axis=dim)


@onnx("scatter_add")
def onnx_scatter_add(w: Writer, node: Node, input: Any, dim: int, index: Any, src: Any) -> str:
    if w.rank(index) == 0:
        raise NotMapped("a scatter into a tensor without dimensions")
    # The source may be larger than the index, and what is beyond is not added.
    places = w.name(index)
    first = w.constant([0] * w.rank(index))
    added = w.add("Slice", [w.name(src), first, w.add("Shape", [places])])
    return w.add("ScatterElements", [w.name(input), places, added], axis=dim, reduction="add")
