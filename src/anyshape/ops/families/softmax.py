"""Softmax and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, Scalar
from anyshape.ops.families.activations import of_float
from anyshape.ops.families.normalization import reduction_row
from anyshape.ops.families.reductions import dims_of, require_elements, require_float
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term, whole
from anyshape.ops.lowering.pointwise_builder import as_dtype, elementwise
from anyshape.ops.lowering.scalars import op, operation, short, wide
from anyshape.ops.lowering.values import Lowering, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, Writer
from anyshape.ops.op import DRAWS, FUNCTIONAL, NATIVE, Op, gradient, lower, made_of, onnx_rows
from anyshape.ops.shape_query import ShapeQuery


def softmax(q: ShapeQuery, input: Meta, dim: int, dtype: torch.dtype | None = None) -> Meta:
    found = input.dtype if dtype is None else dtype
    require_float(q, found)
    q.dim(dim, input.rank)
    return input.like(dtype=found)


def softmax_functional(
    q: ShapeQuery,
    input: Meta,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: torch.dtype | None = None,
) -> Meta:
    if dim is None:
        dim = 0 if input.rank in (0, 1, 3) else 1
    return softmax(q, input, dim, dtype)


def gumbel_softmax(
    q: ShapeQuery,
    logits: Meta,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
) -> Meta:
    if hard:
        require_elements(q, logits, (q.dim(dim, logits.rank),))
    return softmax(q, logits, dim)


def _softmax_names(name: str) -> tuple[str, ...]:
    return (f"torch.{name}", f"torch.Tensor.{name}", f"torch.special.{name}")


ROWS: tuple[Op, ...] = (
    reduction_row("softmax", _softmax_names("softmax"), softmax),
    reduction_row("log_softmax", _softmax_names("log_softmax"), softmax),
    *(
        reduction_row(f"functional_{name}", (FUNCTIONAL + name,), softmax_functional)
        for name in ("softmax", "log_softmax", "softmin")
    ),
    reduction_row(
        "gumbel_softmax", (FUNCTIONAL + "gumbel_softmax",), gumbel_softmax, effects=DRAWS
    ),
)


# -- native code ----------------------------------------------------------------------------------


@lower("functional_softmin")
def lower_softmin(c: Lowering, input: Value, dim: Any, _stacklevel: int, dtype: Any) -> Value:
    if dtype is not None or input.dtype not in FLOATS:
        raise NotLowered("softmin of another dtype")
    if dim is None:
        dim = 0 if len(input.sizes) in (0, 1, 3) else 1
    return NATIVE["softmax"](c, of_float(c, operation("neg"), input, cost=1), dim, None)


# -- softmax ---------------------------------------------------------------------------------------


def exponentials(c: Lowering, input: Value, dims: list[int]) -> tuple[Value, Value, Value]:
    """`input - max`, its exponential, and the sum of that (dimensions kept), in f32 or f64."""
    source = as_dtype(c, input, wide(input.dtype))
    dtype = source.dtype
    largest = c.values.reduction("max", source, dims, dtype, keep=True)
    away = elementwise(c, operation("sub"), source, largest, takes=dtype)
    powers = elementwise(c, operation("exp"), away, takes=dtype, cost=4)
    return away, powers, c.values.reduction("sum", powers, dims, dtype, keep=True)


Share = Callable[[Scalar, Scalar, Scalar], Scalar]


def lower_softmax(
    along_last: Share, along_other: Share, c: Lowering, input: Value, dim: Any, dtype: Any, **_: Any
) -> Value:
    gives = input.dtype if dtype is None else short(dtype)
    if gives not in FLOATS or dim is None or not input.sizes:
        raise NotLowered("integers, or no dimension")
    # Torch rounds to the asked dtype first.
    source = as_dtype(c, input, gives)
    dims = dims_of(input, dim)
    compute = along_last if dims == [len(input.sizes) - 1] else along_other
    away, powers, whole = exponentials(c, source, dims)
    made = elementwise(c, compute, away, powers, whole, takes=away.dtype, cost=2)
    return as_dtype(c, made, gives)


def _share(_: Scalar, power: Scalar, whole: Scalar) -> Scalar:
    return op("div", power, whole)


def _share_of_row(_: Scalar, power: Scalar, whole: Scalar) -> Scalar:
    """Eager, along the last dimension, divides once a row. So its results and ours agree in the
    last bit where the exponentials do."""
    return op("mul", power, op("div", expr.constant(1.0, whole.dtype), whole))


def _log_share(away: Scalar, _: Scalar, whole: Scalar) -> Scalar:
    return op("sub", away, op("log", whole))


for _name in ("softmax", "functional_softmax"):
    lower(_name)(partial(lower_softmax, _share_of_row, _share))
for _name in ("log_softmax", "functional_log_softmax"):
    lower(_name)(partial(lower_softmax, _log_share, _log_share))


# -- gradients ------------------------------------------------------------------------------------


@gradient("softmax")
def gradient_softmax(grad: Term, result: Term, dim: Any) -> Gradients:
    grad, result = whole(grad), whole(result)
    product = grad * result
    return {"input": product - result * product.sum(dim, True)}


@gradient("log_softmax")
def gradient_log_softmax(grad: Term, result: Term, dim: Any) -> Gradients:
    grad, result = whole(grad), whole(result)
    return {"input": grad - result.exp() * grad.sum(dim, True)}


@made_of("functional_softmax", "functional_log_softmax", "functional_softmin")
def parts_of_softmax(records: Records, input: Term, dim: Any, dtype: Any, function: str) -> Term:
    if dim is None:
        raise NoGradient("a dimension that torch guesses")
    if function == "functional_softmin":
        return (-input).softmax(dim, dtype=dtype)
    own = input.softmax if function == "functional_softmax" else input.log_softmax
    return own(dim, dtype=dtype)


# -- ONNX -----------------------------------------------------------------------------------------


def onnx_softmax(kind: str, w: Writer, node: Node, input: Any, dim: Any, **_: Any) -> str:
    """A softmax."""
    if dim is None:  # which torch then guesses
        dim = 0 if w.rank(input) in (0, 1, 3) else 1
    return w.add(kind, [w.name(input, w.dtype(node))], axis=dim)


onnx_rows(
    {
        "softmax": partial(onnx_softmax, "Softmax"),
        "functional_softmax": partial(onnx_softmax, "Softmax"),
        "log_softmax": partial(onnx_softmax, "LogSoftmax"),
        "functional_log_softmax": partial(onnx_softmax, "LogSoftmax"),
    }
)
