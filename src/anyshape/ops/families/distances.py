"""Norms of tensors and distances between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import inf
from typing import Any

import torch

from anyshape.loops.expr import FLOATS, Dtype, Scalar
from anyshape.ops.broadcast import broadcast, pointwise_layout
from anyshape.ops.elementwise import pointwise_meta, same
from anyshape.ops.families.reductions import (
    Dims,
    dims_of,
    dims_or_all,
    must_have_elements,
    onnx_axes,
    reduced,
    require_elements,
    require_float,
)
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term, back_in
from anyshape.ops.lowering.pointwise_builder import (
    as_dtype,
    broadcast_index,
    broadcast_sizes,
    common_dtype,
    elementwise,
)
from anyshape.ops.lowering.scalars import cast, constant_like, op, operation, short, test, wide
from anyshape.ops.lowering.values import Lowering, NotLowered, Value, place
from anyshape.ops.meta import Meta, strided
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import (
    FUNCTIONAL,
    Effects,
    Op,
    OpKind,
    Rule,
    gradient,
    in_place_names,
    lower,
    made_of,
    names_of,
    onnx,
)
from anyshape.ops.promotion import Number, category, floating, real, result_type
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Expr, Size, eq

Order = Number | str | None


def vector_norm(
    q: ShapeQuery,
    input: Meta,
    ord: Number = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Meta:
    require_float(q, input.dtype)
    dims = dims_or_all(q, dim, input.rank)
    # These orders take an extreme, which nothing has.
    if isinstance(ord, int | float) and (ord < 0 or ord == inf):
        require_elements(q, input, dims)
    return input.like(
        reduced(input.shape, dims, keepdim), real(input.dtype if dtype is None else dtype)
    )


def matrix_norm(
    q: ShapeQuery,
    input: Meta,
    ord: Order = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Meta:
    require_float(q, input.dtype)
    dims = q.dims(tuple(dim), input.rank)
    if input.rank < 2 or len(dims) != 2:
        raise q.fail("a matrix norm is over two dimensions")
    return input.like(
        reduced(input.shape, dims, keepdim), real(input.dtype if dtype is None else dtype)
    )


def linalg_norm(
    q: ShapeQuery,
    input: Meta,
    ord: Order = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Meta:
    two = dim is not None and not isinstance(dim, int | Expr) and len(dim) == 2
    if isinstance(ord, str) or (ord is not None and (two or (dim is None and input.rank == 2))):
        over = (-2, -1) if dim is None else (dim,) if isinstance(dim, int | Expr) else tuple(dim)
        return matrix_norm(q, input, ord, over, keepdim, dtype=dtype)
    if ord is not None and dim is None and input.rank != 1:
        raise q.fail("an order without dimensions is for a vector or a matrix")
    return vector_norm(q, input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def norm(
    q: ShapeQuery,
    input: Meta,
    p: Order = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Meta:
    if p == "nuc":
        over = (-2, -1) if dim is None else (dim,) if isinstance(dim, int | Expr) else tuple(dim)
        return matrix_norm(q, input, p, over, keepdim, dtype=dtype)
    order = 2 if p is None or isinstance(p, str) else p
    return vector_norm(q, input, order, dim, keepdim, dtype=dtype)


def frobenius_norm(q: ShapeQuery, input: Meta, dim: Dims, keepdim: bool = False) -> Meta:
    return vector_norm(q, input, 2, dim, keepdim)


def nuclear_norm(
    q: ShapeQuery, input: Meta, dim: Sequence[int] | bool = (-2, -1), keepdim: bool = False
) -> Meta:
    if isinstance(dim, bool):  # nuclear_norm(input, keepdim)
        dim, keepdim = (-2, -1), dim
    return matrix_norm(q, input, "nuc", dim, keepdim)


def norm_except_dim(q: ShapeQuery, v: Meta, pow: int = 2, dim: int = 0) -> Meta:
    require_float(q, v.dtype)
    if dim == -1:  # here it means: over everything
        return v.like((), real(v.dtype))
    kept = q.dim(dim, v.rank)
    require_elements(q, v, (kept,))
    shape = tuple(size if d == kept else 1 for d, size in enumerate(v.shape))
    return v.like(shape, real(v.dtype))


def normalize(
    q: ShapeQuery, input: Meta, p: float = 2.0, dim: Dims = 1, eps: float = 1e-12
) -> Meta:
    length = norm(q, input, p, dim, True)
    # The divisor is the length expanded over the reduced dimensions.
    dims = dims_or_all(q, dim, input.rank)
    strides = tuple(0 if d in dims else s for d, s in enumerate(length.strides))
    divisor = input.like(layout=strided(input.shape, strides))
    return input.like(layout=pointwise_layout(q, input.shape, (input, divisor)))


def renorm(q: ShapeQuery, input: Meta, p: Number, dim: int, maxnorm: Number) -> Meta:
    require_float(q, input.dtype)
    if input.rank < 2:
        raise q.fail(f"two dimensions are needed, not {input.rank}")
    kept = q.dim(dim, input.rank)
    if p == inf:
        require_elements(q, input, [d for d in range(input.rank) if d != kept])
    return input.like()


def dist(q: ShapeQuery, input: Meta, other: Meta, p: Number = 2) -> Meta:
    return vector_norm(q, pointwise_meta(q, (input, other), same), p)


def pairwise_distance(
    q: ShapeQuery,
    input: Meta,
    other: Meta,
    p: Number = 2.0,
    eps: float = 1e-6,
    keepdim: bool = False,
) -> Meta:
    difference = pointwise_meta(q, (input, other), floating)
    return vector_norm(q, difference, p, -1, keepdim)


def cosine_similarity(
    q: ShapeQuery, input: Meta, other: Meta, dim: int = 1, eps: float = 1e-8
) -> Meta:
    dtype = result_type((input, other))
    require_float(q, dtype)
    shape = broadcast(q, (input.shape, other.shape))
    return input.like(reduced(shape, (q.dim(dim, len(shape)),), False), dtype)


def cdist(
    q: ShapeQuery, x1: Meta, x2: Meta, p: float = 2.0, compute_mode: str | None = None
) -> Meta:
    if x1.rank < 2 or x2.rank < 2:
        raise q.fail("both must have at least two dimensions")
    if category(x1.dtype) != 2 or x1.dtype != x2.dtype:
        raise q.fail("both must have the same floating dtype")
    q.require(eq(x1.shape[-1], x2.shape[-1]), "both must have the same number of columns")
    batch = broadcast(q, (x1.shape[:-2], x2.shape[:-2]))
    return x1.like((*batch, x1.shape[-2], x2.shape[-2]))


def pdist(q: ShapeQuery, input: Meta, p: float = 2.0) -> Meta:
    if input.rank != 2 or category(input.dtype) != 2:
        raise q.fail("a matrix of floating point numbers is needed")
    rows: Size = input.shape[0]
    return input.like((rows * (rows - 1) // 2,))


def _row(name: str, answers_to: tuple[str, ...], rule: Rule, in_place: tuple[str, ...] = ()) -> Op:
    return Op(name, answers_to, rule, OpKind.CALL_OUT, in_place=in_place)


#: The nuclear norm sums up singular values, and not every matrix has them.
_DECOMPOSES = Effects(fails_with=("p", "nuc"))

ROWS: tuple[Op, ...] = (
    Op("vector_norm", ("torch.linalg.vector_norm",), vector_norm, OpKind.REDUCTION),
    Op("norm", names_of("norm"), norm, OpKind.REDUCTION, effects=_DECOMPOSES),
    Op("frobenius_norm", ("torch.frobenius_norm",), frobenius_norm, OpKind.REDUCTION),
    Op("norm_except_dim", ("torch.norm_except_dim",), norm_except_dim, OpKind.REDUCTION),
    _row("matrix_norm", ("torch.linalg.matrix_norm",), matrix_norm),
    _row("linalg_norm", ("torch.linalg.norm",), linalg_norm),
    _row("nuclear_norm", ("torch.nuclear_norm",), nuclear_norm),
    _row("normalize", (FUNCTIONAL + "normalize",), normalize),
    _row("renorm", names_of("renorm"), renorm, in_place_names("renorm")),
    _row("dist", names_of("dist"), dist),
    _row(
        "pairwise_distance",
        ("torch.pairwise_distance", FUNCTIONAL + "pairwise_distance"),
        pairwise_distance,
    ),
    _row(
        "cosine_similarity",
        ("torch.cosine_similarity", FUNCTIONAL + "cosine_similarity"),
        cosine_similarity,
    ),
    _row("cdist", ("torch.cdist",), cdist),
    _row("pdist", ("torch.pdist", FUNCTIONAL + "pdist"), pdist),
)


# -- native code ----------------------------------------------------------------------------------


def norm_of(
    c: Lowering, input: Value, order: Any, dims: list[int], keep: bool, gives: Dtype
) -> Value:
    """The norm of vectors along these dimensions."""
    if gives not in FLOATS or input.dtype not in FLOATS:
        raise NotLowered("the norm of integers")
    if not isinstance(order, int | float) or not dims:
        raise NotLowered("an order that is no number, or a norm of a 0-d tensor")
    dtype = wide(gives)
    source = as_dtype(c, as_dtype(c, input, gives), dtype)

    def each(compute: Any, cost: int = 1) -> Value:
        return elementwise(c, compute, source, takes=dtype, cost=cost)

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
        made = elementwise(c, operation("sqrt"), made, takes=dtype)
    elif order == 0:
        made = fold("sum", each(_is_some))
    else:
        raise NotLowered(f"the norm of order {order}")
    return as_dtype(c, made, gives)


def _is_some(x: Scalar) -> Scalar:
    return cast(test("ne", x, constant_like(0, x)), x.dtype)


def _of_dtype(input: Value, dtype: Any) -> Dtype:
    return input.dtype if dtype is None else short(dtype)


@lower("vector_norm")
def lower_vector_norm(
    c: Lowering,
    input: Value,
    ord: Any,
    dim: Any,
    keepdim: bool,
    *,
    dtype: Any,
) -> Value:
    return norm_of(c, input, ord, dims_of(input, dim), keepdim, _of_dtype(input, dtype))


@lower("norm")
def lower_norm(
    c: Lowering,
    input: Value,
    p: Any,
    dim: Any,
    keepdim: bool,
    dtype: Any,
) -> Value:
    order = 2 if p in (None, "fro") else p
    return norm_of(c, input, order, dims_of(input, dim), keepdim, _of_dtype(input, dtype))


@lower("linalg_norm")
def lower_linalg_norm(
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


@lower("frobenius_norm")
def lower_frobenius_norm(c: Lowering, input: Value, dim: Any, keepdim: bool) -> Value:
    return norm_of(c, input, 2, dims_of(input, dim), keepdim, input.dtype)


def _at_least(c: Lowering, value: Value, eps: Any) -> Value:
    if not isinstance(eps, int | float):
        raise NotLowered("a number that is not a constant")
    return elementwise(c, lambda x: op("maximum", x, constant_like(eps, x)), value)


@lower("normalize")
def lower_normalize(c: Lowering, input: Value, p: Any, dim: Any, eps: Any) -> Value:
    length = norm_of(c, input, p, dims_of(input, dim), True, input.dtype)
    return elementwise(c, operation("div"), input, _at_least(c, length, eps), cost=2)


@lower("dist")
def lower_dist(c: Lowering, input: Value, other: Value, p: Any) -> Value:
    dtype = common_dtype((input, other))
    away = elementwise(c, operation("sub"), input, other, takes=dtype)
    return norm_of(c, away, p, dims_of(away, None), False, dtype)


@lower("pairwise_distance")
def lower_pairwise_distance(
    c: Lowering,
    input: Value,
    other: Value,
    p: Any,
    eps: Any,
    keepdim: bool,
) -> Value:
    dtype = common_dtype((input, other))
    if dtype not in FLOATS or not isinstance(eps, int | float):
        raise NotLowered("of integers, or a number that is not a constant")
    away = elementwise(c, operation("sub"), input, other, takes=dtype)
    more = elementwise(c, lambda x: op("add", x, constant_like(eps, x)), away)
    return norm_of(c, more, p, [len(more.sizes) - 1], keepdim, dtype)


@lower("cosine_similarity")
def lower_cosine_similarity(c: Lowering, input: Value, other: Value, dim: int, eps: Any) -> Value:
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
        return elementwise(c, operation("div"), source, length, takes=dtype, cost=2)

    product = elementwise(c, operation("mul"), direction(input), direction(other), takes=dtype)
    whole = c.values.reduction(
        "sum", as_dtype(c, product, wide(dtype)), [along], wide(dtype), keep=False
    )
    return as_dtype(c, whole, dtype)


# -- gradients ------------------------------------------------------------------------------------


@gradient("vector_norm", "frobenius_norm")
def gradient_vector_norm(
    grad: Term,
    result: Term,
    input: Term,
    dim: Any,
    keepdim: bool,
    ord: Any = 2,
    dtype: Any = None,
) -> Gradients:
    if dtype is not None or type(ord) not in (int, float) or ord != ord or ord < 1:
        raise NoGradient("a norm of another dtype, or less usual than most")
    length, grad = (back_in(each, dim, keepdim, input.rank) for each in (result, grad))
    if ord == 1:
        return {"input": input.sign() * grad}
    if ord == 2:
        return {"input": grad * (input / length).masked_fill(length.eq(0), 0.0)}
    if ord == inf:
        dims = list(range(input.rank)) if dim is None or dim in ((), []) else dim
        greatest = input.abs().eq(length).logical_or(input.isnan().logical_and(length.isnan()))
        number = greatest.sum(dims, True) if input.rank else greatest
        return {"input": input.sign() * (grad / number * greatest)}
    # Where it is infinite at 0, the sign is taken first.
    first, power = (input.sign(), ord - 1) if ord < 2 else (input, ord - 2)
    slope = first * input.abs().pow(power)
    scale = (grad / length.pow(ord - 1)).masked_fill(length.eq(0), 0.0)
    return {"input": slope * scale}


@gradient("norm")
def gradient_norm(
    grad: Term, result: Term, input: Term, p: Any, dim: Any, keepdim: bool, dtype: Any
) -> Gradients:
    if p == "nuc":
        raise NoGradient("a norm of singular values")
    order = 2 if p is None or isinstance(p, str) else p
    return gradient_vector_norm(grad, result, input, dim, keepdim, order, dtype)


@gradient("linalg_norm")
def gradient_linalg_norm(
    grad: Term, result: Term, input: Term, ord: Any, dim: Any, keepdim: bool, dtype: Any
) -> Gradients:
    two = isinstance(dim, tuple | list) and len(dim) == 2
    if isinstance(ord, str) or (ord is not None and (two or (dim is None and input.rank == 2))):
        raise NoGradient("a norm of matrices")
    return gradient_vector_norm(grad, result, input, dim, keepdim, 2 if ord is None else ord, dtype)


@made_of("normalize")
def parts_of_normalize(records: Records, input: Term, p: Any, dim: Any, eps: Any) -> Term:
    length = input.norm(p, dim, True)
    return input / length.clamp_min(eps).expand_as(input)


@made_of("dist")
def parts_of_dist(records: Records, input: Term, other: Term, p: Any) -> Term:
    return (input - other).norm(p)


@made_of("pairwise_distance")
def parts_of_pairwise_distance(
    records: Records, input: Term, other: Term, p: Any, eps: Any, keepdim: bool
) -> Term:
    return (input - other + eps).norm(p, -1, keepdim)


@gradient("cosine_similarity")
def gradient_cosine_similarity(
    grad: Term, input: Term, other: Term, dim: Any, eps: Any
) -> Gradients:
    """Lengths change with their vectors also where the bound stands for them."""
    grad = grad.unsqueeze(dim)
    input, other = grad.records.record(torch.broadcast_tensors, input, other)
    lengths = [each.norm(2, dim, True) for each in (input, other)]
    bounded = [each.clamp_min(eps) for each in lengths]
    first, second = input / bounded[0], other / bounded[1]

    def own(vector: Term, unit: Term, beside: Term, number: int) -> Term:
        slope = grad * beside
        direction = (vector / lengths[number]).masked_fill(lengths[number].eq(0), 0.0)
        return (slope - direction * (slope * unit).sum(dim, True)) / bounded[number]

    return {"input": own(input, first, second, 0), "other": own(other, second, first, 1)}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("norm")
def onnx_norm(w: Writer, node: Node, input: Any, p: Any, dim: Any, keepdim: bool, **_: Any) -> str:
    kinds = {1: "ReduceL1", 2: "ReduceL2", "fro": "ReduceL2"}
    if p not in kinds:
        raise NotMapped(f"a norm of order {p}")
    inputs = [w.name(input, w.dtype(node)), *onnx_axes(w, dim)]
    return w.add(kinds[p], inputs, keepdims=int(bool(keepdim)))


@onnx("linalg_norm")
def onnx_linalg_norm(
    w: Writer, node: Node, input: Any, ord: Any, dim: Any, keepdim: bool, **_: Any
) -> str:
    """Of a vector, or of all elements: numbers mean something else for matrices."""
    count = w.rank(input) if dim is None else 1 if isinstance(dim, int) else len(dim)
    if ord is not None and ord != "fro" and count != 1:
        raise NotMapped(f"a norm of order {ord}")
    return onnx_norm(w, node, input, 2 if ord is None else ord, dim, keepdim)
