"""Fake quantization: floats rounded to those that a few integers stand for.

A number becomes the integer `round(x / scale) + zero_point`, which is kept between `quant_min` and
`quant_max`, and a float again. One scale is for the whole tensor or for an index of one dimension.
"""

from __future__ import annotations

from typing import Any

import torch

from anyshape.loops.expr import FLOATS, Scalar
from anyshape.ops.elementwise import pointwise_row, same, unary
from anyshape.ops.lowering.pointwise_builder import Operand, elementwise, mapped
from anyshape.ops.lowering.scalars import cast, constant_like, op, test, wide
from anyshape.ops.lowering.values import Lowering, NotLowered, Value, must_be_known
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, NotMapped, Writer, is_node, known
from anyshape.ops.op import Effects, lower, onnx
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, and_, eq, ge, le

_as_the_input = unary(same)


def fake_quantize_per_tensor(
    q: ShapeQuery,
    input: Meta,
    scale: Meta | float,
    zero_point: Meta | Size,
    quant_min: Size,
    quant_max: Size,
) -> Meta:
    q.require(le(quant_min, quant_max), "quant_min is at most quant_max")
    for parameter in (scale, zero_point):
        if isinstance(parameter, Meta):
            q.require(eq(parameter.numel, 1), "a scale and a zero point are single numbers")
    if not isinstance(zero_point, Meta):
        inside = and_(ge(zero_point, quant_min), le(zero_point, quant_max))
        q.require(inside, "the zero point is between quant_min and quant_max")
    return _result(q, input)


def fake_quantize_per_channel(
    q: ShapeQuery,
    input: Meta,
    scale: Meta,
    zero_point: Meta,
    axis: Size,
    quant_min: Size,
    quant_max: Size,
) -> Meta:
    q.require(le(quant_min, quant_max), "quant_min is at most quant_max")
    q.require(ge(axis, 0), "the axis is counted from the front")
    channels = input.shape[q.dim(axis, input.rank)]
    q.require(ge(channels, 1), "there is a channel")
    for parameter in (scale, zero_point):
        if parameter.rank != 1:
            raise q.fail("scales and zero points have one dimension")
        q.require(eq(parameter.shape[0], channels), "each channel has a scale and a zero point")
    return _result(q, input)


def _result(q: ShapeQuery, input: Meta) -> Meta:
    if not input.dtype.is_floating_point:
        raise q.fail(f"floats are quantized, and no {input.dtype}")
    return _as_the_input(q, input)


_PER_TENSOR = "fake_quantize_per_tensor_affine"
_PER_CHANNEL = "fake_quantize_per_channel_affine"

ROWS = (
    pointwise_row(_PER_TENSOR, fake_quantize_per_tensor),
    pointwise_row(_PER_CHANNEL, fake_quantize_per_channel, effects=Effects(indexes=True, waits=1)),
)


# -- native code ----------------------------------------------------------------------------------

#: Integers up to here are float32.
_EXACT = 2**24


def _range(quant_min: Any, quant_max: Any) -> tuple[float, float]:
    least, most = must_be_known(quant_min), must_be_known(quant_max)
    if max(abs(least), abs(most)) > _EXACT:
        raise NotLowered("integers that are no float32")
    return least, most


def _steps(x: Scalar, scale: Scalar) -> Scalar:
    """How often the scale is in x, as eager computes it: the reciprocal is of four bytes."""
    single = cast(scale, "f32")
    reciprocal = op("div", constant_like(1, single), single)
    return op("round", op("mul", x, cast(reciprocal, x.dtype)))


def _must_be_integers(zero_point: object) -> None:
    if isinstance(zero_point, Value) and zero_point.dtype in FLOATS:
        raise NotLowered("a zero point that is no integer")


@lower(_PER_TENSOR)
def lower_per_tensor(
    c: Lowering, input: Value, scale: Operand, zero_point: Operand, quant_min: Any, quant_max: Any
) -> Value:
    _must_be_integers(zero_point)
    if isinstance(zero_point, Value) and not isinstance(scale, Value):
        # Torch checks one that comes with a number as it does a number.
        raise NotLowered("a zero point in a tensor, and a scale that is a number")
    least, most = _range(quant_min, quant_max)

    def compute(x: Scalar, scale: Scalar, zero_point: Scalar) -> Scalar:
        found = op("add", _steps(x, scale), zero_point)
        # NaN becomes the least one.
        found = op("fmin", op("fmax", found, constant_like(least, x)), constant_like(most, x))
        steps = op("sub", cast(found, "f32"), cast(zero_point, "f32"))
        return op("mul", steps, cast(scale, "f32"))

    parameters = (_number(c, scale), _number(c, zero_point))
    return elementwise(
        c, compute, input, *parameters, takes=wide(input.dtype), gives=input.dtype, cost=8
    )


def _number(c: Lowering, parameter: Operand) -> Operand:
    """A tensor with one element has no dimensions, so that the result has those of the input."""
    if not isinstance(parameter, Value):
        return parameter
    return mapped(c, parameter, (), lambda _: (0,) * len(parameter.sizes))


@lower(_PER_CHANNEL)
def lower_per_channel(
    c: Lowering,
    input: Value,
    scale: Value,
    zero_point: Value,
    axis: int,
    quant_min: Any,
    quant_max: Any,
) -> Value:
    _must_be_integers(zero_point)
    if c.on_gpu:
        raise NotLowered("torch looks at zero points before it starts")
    inner = wide(input.dtype)
    least, most = _range(quant_min, quant_max)

    def compute(x: Scalar, scale: Scalar, zero_point: Scalar) -> Scalar:
        # Eager keeps integers in the range, not floats: NaN becomes what the processor makes of it.
        found = cast(op("add", _steps(x, scale), zero_point), "i64")
        found = op("maximum", found, constant_like(least, found))
        found = cast(op("minimum", found, constant_like(most, found)), x.dtype)
        return op("mul", op("sub", found, zero_point), scale)

    def is_inside(x: Scalar) -> Scalar:
        above, below = test("ge", x, constant_like(least, x)), test("le", x, constant_like(most, x))
        return test("and", above, below)

    message = "`zero_point` must be between `quant_min` and `quant_max`"
    c.require(zero_point, (_PER_CHANNEL, quant_min, quant_max), is_inside, message)
    sizes = tuple(size if dim == axis else 1 for dim, size in enumerate(input.sizes))
    parameters = (
        mapped(c, each, sizes, lambda index: (index[axis],)) for each in (scale, zero_point)
    )
    return elementwise(c, compute, input, *parameters, takes=inner, gives=input.dtype, cost=8)


# -- ONNX -----------------------------------------------------------------------------------------


def _onnx_quantized(
    w: Writer, node: Node, input: Any, scale: str, zero_point: str, quant_min: Any, quant_max: Any
) -> str:
    """Not `QuantizeLinear`: that divides by the scale, and has only the ranges of its dtypes."""
    dtype = w.dtype(node)
    if dtype is not torch.float32:
        raise NotMapped(f"fake quantization of {dtype}")
    least, most = w.name(known(quant_min), dtype), w.name(known(quant_max), dtype)
    steps = w.add("Round", [w.add("Mul", [w.name(input), w.add("Reciprocal", [scale])])])
    found = w.add("Add", [steps, zero_point])
    inside = w.add("Min", [w.add("Max", [found, least]), most])
    # In ONNX, NaN stays what it is.
    inside = w.add("Where", [w.add("IsNaN", [found]), least, inside])
    return w.add("Mul", [w.add("Sub", [inside, zero_point]), scale])


def _onnx_parameter(w: Writer, parameter: Any, sizes: list[int]) -> str:
    """A scale or a zero point as floats in this shape."""
    name = w.name(parameter, torch.float32)
    if not is_node(parameter):
        return name
    return w.add("Reshape", [name, w.constant(torch.tensor(sizes, dtype=torch.int64))])


def _onnx_zero_point(w: Writer, zero_point: Any, sizes: list[int]) -> str:
    if is_node(zero_point) and w.dtype(zero_point).is_floating_point:
        raise NotMapped("a zero point that is no integer")
    return _onnx_parameter(w, zero_point, sizes)


@onnx(_PER_TENSOR)
def onnx_per_tensor(
    w: Writer, node: Node, input: Any, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any
) -> str:
    parameters = (_onnx_parameter(w, scale, []), _onnx_zero_point(w, zero_point, []))
    return _onnx_quantized(w, node, input, *parameters, quant_min, quant_max)


@onnx(_PER_CHANNEL)
def onnx_per_channel(
    w: Writer,
    node: Node,
    input: Any,
    scale: Any,
    zero_point: Any,
    axis: int,
    quant_min: Any,
    quant_max: Any,
) -> str:
    sizes = [-1 if dim == axis else 1 for dim in range(w.rank(input))]
    parameters = (_onnx_parameter(w, scale, sizes), _onnx_zero_point(w, zero_point, sizes))
    return _onnx_quantized(w, node, input, *parameters, quant_min, quant_max)
