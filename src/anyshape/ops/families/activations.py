"""Activation functions: the dtype and the layout of their input."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from anyshape.loops.expr import FLOATS, Scalar
from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.elementwise import everywhere, pointwise_row, same, unary
from anyshape.ops.families.arithmetic import onnx_clamp
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term, whole
from anyshape.ops.lowering.pointwise_builder import Operand, elementwise
from anyshape.ops.lowering.scalars import Compute, constant_like, op, operation, test, where
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value, place
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, NotMapped, Writer, is_node, onnx_unary
from anyshape.ops.op import (
    DRAWS,
    FUNCTIONAL,
    PURE,
    Effects,
    Op,
    OpKind,
    Rule,
    gradient,
    lower,
    made_of,
    onnx,
    onnx_rows,
)
from anyshape.ops.promotion import floating
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, eq, ge, or_

#: What they take behind their input, as operators and in `torch.nn.functional` before `inplace`.
_PARAMETERS = {
    "celu": "alpha=1.0",
    "elu": "alpha=1.0, scale=1, input_scale=1",
    "gelu": "*, approximate='none'",
    "hardshrink": "lambd=0.5",
    "hardtanh": "min_val=-1.0, max_val=1.0",
    "leaky_relu": "negative_slope=0.01",
    "rrelu": "lower=0.125, upper=1 / 3, training=False, generator=None",
    "rrelu_with_noise": "noise, lower=0.125, upper=1 / 3, training=False, generator=None",
    "softplus": "beta=1.0, threshold=20.0",
    "softshrink": "lambd=0.5",
    "threshold": "threshold, value",
}

_FUNCTIONAL_PARAMETERS = {
    **_PARAMETERS,
    "_threshold": "threshold, value",
    "elu": "alpha=1.0",
    "rrelu": "lower=0.125, upper=1 / 3, training=False",
}

#: They draw their slopes.
#: What operators do that draw random numbers; one leaves them in an argument.
_EFFECTS = {
    "rrelu": DRAWS,
    "rrelu_with_noise": Effects(draws=True, writes=("noise",), given="training", untold=True),
}

#: Functions of `torch.nn.functional` that work in place on demand.
_ON_DEMAND = (
    "_threshold", "celu", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish",
    "relu", "relu6", "selu", "silu", "threshold",
)  # fmt: skip

#: The operators themselves; those that never work in place are among them.
_PLAIN = (
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "mish", "relu",
    "relu6", "rrelu_with_noise", "selu", "silu", "softplus", "softshrink", "threshold",
)  # fmt: skip


def _plain(name: str, rule: Rule) -> Op:
    row = pointwise_row(name, rule, signature=_signature(_PARAMETERS.get(name)))
    return replace(row, effects=_EFFECTS.get(name, PURE))


def _functional(name: str, rule: Rule) -> Op:
    signature = _signature(_FUNCTIONAL_PARAMETERS.get(name), "inplace=False")
    return Op(
        name,
        (FUNCTIONAL + name,),
        rule,
        OpKind.POINTWISE,
        signature=signature,
        effects=_EFFECTS.get(name, PURE),
    )


def _signature(*parameters: str | None) -> str:
    return ", ".join(("input", *filter(None, parameters)))


def _prelu(q: ShapeQuery, input: Meta, weight: Meta) -> Meta:
    if input.dtype != weight.dtype:
        raise q.fail(f"input and weight must have the same dtype: {input.dtype}, {weight.dtype}")
    if weight.rank > 1:
        raise q.fail(f"the weight must have at most one dimension, not {weight.rank}")
    if weight.rank:
        channels = input.shape[1] if input.rank > 1 else 1
        one = eq(weight.shape[0], 1)
        q.require(
            or_(one, eq(weight.shape[0], channels)) if input.rank else one,
            "the weight has one element, or one for each channel",
        )
    return unary(same)(q, input)


def _glu(q: ShapeQuery, input: Meta, dim: int = -1) -> Meta:
    if not input.shape:
        raise q.fail("a tensor without dimensions has no halves")
    dim = q.dim(dim, input.rank)
    size = input.shape[dim]
    q.require(eq(size % 2, 0), "the halved dimension must have an even size")
    shape = (*input.shape[:dim], size // 2, *input.shape[dim + 1 :])
    half = input.viewed(shape, input.strides)
    return input.like(shape, layout=pointwise_layout(q, shape, (half, half)))


def _contiguous(q: ShapeQuery, input: Meta) -> Meta:
    return input.like()


ROWS = (
    *(_functional(name, unary(same)) for name in _ON_DEMAND),
    *(_plain(name, unary(same)) for name in _PLAIN),
    *(
        Op(name, (FUNCTIONAL + name,), unary(floating), OpKind.POINTWISE)
        for name in ("softsign", "tanhshrink")
    ),
    _functional("rrelu", _contiguous),
    _plain("rrelu", _contiguous),
    Op("prelu", everywhere("prelu"), _prelu, OpKind.POINTWISE),
    Op("glu", everywhere("glu"), _glu, OpKind.POINTWISE),
    Op("log_sigmoid", everywhere("log_sigmoid", "logsigmoid"), _contiguous, OpKind.POINTWISE),
)


# -- native code ----------------------------------------------------------------------------------


def of_float(
    c: Lowering, compute: Compute, input: Value, *parameters: Operand, cost: int = 4
) -> Value:
    """A function of floats with numbers as parameters; only the result is rounded."""
    if input.dtype not in FLOATS:
        raise NotLowered("an activation of integers")
    dtype = input.dtype
    exact = range(1, 1 + len(parameters))
    return elementwise(c, compute, input, *parameters, takes=dtype, cost=cost, exact=exact)


# -- from a few comparisons ----------------------------------------------------------------------


@lower("relu")
def lower_relu(c: Lowering, input: Value) -> Value:
    if input.dtype == "b1":
        raise NotLowered("booleans have no sign")
    # Of two zeros it is the second one that stays.
    return elementwise(c, lambda x: op("maximum", constant_like(0, x), x), input)


def _between(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return op("minimum", high, op("maximum", low, x))


@lower("relu6")
def lower_relu6(c: Lowering, input: Value) -> Value:
    return of_float(c, _between, input, 0, 6, cost=2)


@lower("hardtanh")
def lower_hardtanh(c: Lowering, input: Value, min_val: Operand, max_val: Operand) -> Value:
    if not all(isinstance(bound, int | float) for bound in (min_val, max_val)):
        # A lower bound above the other is an error.
        raise NotLowered("a bound that is not a constant")
    return of_float(c, _between, input, min_val, max_val, cost=2)


@lower("leaky_relu")
def lower_leaky_relu(c: Lowering, input: Value, negative_slope: Operand) -> Value:
    return of_float(c, _leaky, input, negative_slope, cost=2)


def _leaky(x: Scalar, slope: Scalar) -> Scalar:
    return where(test("gt", x, constant_like(0, x)), x, op("mul", x, slope))


@lower("prelu")
def lower_prelu(c: Lowering, input: Value, weight: Value) -> Value:
    rank = len(input.sizes)
    if weight.sizes and weight.sizes[0] != 1 and rank > 1:
        # One slope a channel.
        slopes = weight
        sizes = (1, weight.sizes[0], *(1,) * (rank - 2))
        weight = c.values.new(sizes, weight.dtype, lambda index: slopes.at((index[1],)), (weight,))
    if input.dtype != weight.dtype or not c.same_sizes(c.result.shape, input.sizes):
        raise NotLowered("slopes of another dtype, or more of them than channels")
    return of_float(c, _leaky, input, weight, cost=2)


@lower("rrelu")
def lower_rrelu(
    c: Lowering,
    input: Value,
    lower: float,
    upper: float,
    training: bool,
    generator: Any = None,
) -> Value:
    if training is not False or not isinstance(lower, int | float):
        raise NotLowered("random slopes")
    if not isinstance(upper, int | float):
        raise NotLowered("a slope that is not a constant")
    return of_float(c, _leaky, input, (lower + upper) / 2, cost=2)


@lower("threshold", "_threshold")
def lower_threshold(c: Lowering, input: Value, threshold: Operand, value: Operand) -> Value:
    def compute(x: Scalar, least: Scalar, instead: Scalar) -> Scalar:
        return where(test("le", x, least), instead, x)

    return of_float(c, compute, input, threshold, value, cost=1)


@lower("hardshrink")
def lower_hardshrink(c: Lowering, input: Value, lambd: Operand) -> Value:
    def compute(x: Scalar, reach: Scalar) -> Scalar:
        near = test("and", test("ge", x, op("neg", reach)), test("le", x, reach))
        return where(near, constant_like(0, x), x)

    if input.dtype not in FLOATS:
        raise NotLowered("an activation of integers")
    # Here alone the number is rounded before.
    return elementwise(c, compute, input, lambd, takes=input.dtype, cost=2)


@lower("softshrink")
def lower_softshrink(c: Lowering, input: Value, lambd: Operand) -> Value:
    if isinstance(lambd, Expr):
        c.assume(ge(lambd, 0), "a negative number, which is an error")

    def compute(x: Scalar, reach: Scalar) -> Scalar:
        below = where(test("lt", x, op("neg", reach)), op("add", x, reach), _nothing(x))
        return where(test("gt", x, reach), op("sub", x, reach), below)

    return of_float(c, compute, input, lambd, cost=4)


def _nothing(x: Scalar) -> Scalar:
    """0, but NaN of a NaN."""
    return where(test("isnan", x), x, constant_like(0, x))


def _hard_step(x: Scalar) -> Scalar:
    return _between(op("add", x, constant_like(3, x)), constant_like(0, x), constant_like(6, x))


# -- from exponentials ---------------------------------------------------------------------------


def _exponential(c: Lowering, input: Value, below: Operand, above: Operand, inner: Operand):
    """`above * x` of positive numbers, `below * (exp(inner * x) - 1)` of others."""

    def compute(x: Scalar, low: Scalar, high: Scalar, scale: Scalar) -> Scalar:
        negative = op("mul", op("expm1", op("mul", x, scale)), low)
        return where(test("gt", x, constant_like(0, x)), op("mul", x, high), negative)

    return of_float(c, compute, input, below, above, inner, cost=6)


@lower("elu")
def lower_elu(c: Lowering, input: Value, alpha: Any, scale: Any = 1, input_scale: Any = 1) -> Value:
    if not all(isinstance(each, int | float) for each in (alpha, scale, input_scale)):
        raise NotLowered("a factor that is not a constant")
    return _exponential(c, input, alpha * scale, scale, input_scale)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@lower("selu")
def lower_selu(c: Lowering, input: Value) -> Value:
    return _exponential(c, input, _SELU_ALPHA * _SELU_SCALE, _SELU_SCALE, 1.0)


@lower("celu")
def lower_celu(c: Lowering, input: Value, alpha: Any) -> Value:
    if not isinstance(alpha, int | float) or alpha == 0:
        raise NotLowered("a factor that is not a constant, or 0")
    return _exponential(c, input, alpha, 1.0, 1.0 / alpha)


@lower("gelu")
def lower_gelu(c: Lowering, input: Value, *, approximate: str) -> Value:
    kind = {"none": "gelu", "tanh": "gelu_tanh"}.get(approximate)
    if kind is None:
        raise NotLowered("an approximation that torch does not know")
    return of_float(c, operation(kind), input, cost=6)


@lower("softplus")
def lower_softplus(c: Lowering, input: Value, beta: Operand, threshold: Operand) -> Value:
    def compute(x: Scalar, steepness: Scalar, most: Scalar) -> Scalar:
        steep = op("mul", x, steepness)
        soft = op("div", op("log1p", op("exp", steep)), steepness)
        return where(test("gt", steep, most), x, soft)

    return of_float(c, compute, input, beta, threshold, cost=8)


def log_of_sigmoid(x: Scalar) -> Scalar:
    below = op("minimum", constant_like(0, x), x)
    return op("sub", below, op("log1p", op("exp", op("neg", op("abs", x)))))


@lower("glu")
def lower_glu(c: Lowering, input: Value, dim: int) -> Value:
    if input.dtype not in FLOATS:
        raise NotLowered("an activation of integers")
    along = place(dim, len(input.sizes))
    half = c.result.shape[along]

    def part(begin: Any) -> Value:
        def at(index: Index) -> Scalar:
            return input.at((*index[:along], index[along] + begin, *index[along + 1 :]))

        return c.values.new(c.result.shape, input.dtype, at, (input,))

    return of_float(c, lambda a, b: op("mul", a, op("sigmoid", b)), part(0), part(half))


#: Functions of one float, and about how many operations they take.
_OF_ONE: dict[str, tuple[Compute, int]] = {
    "hardsigmoid": (lambda x: op("div", _hard_step(x), constant_like(6, x)), 4),
    "hardswish": (lambda x: op("div", op("mul", x, _hard_step(x)), constant_like(6, x)), 4),
    "log_sigmoid": (log_of_sigmoid, 8),
    "mish": (lambda x: op("mul", x, op("tanh", op("log1p", op("exp", x)))), 10),
    "silu": (operation("silu"), 4),
}


def lower_of_one(compute: Compute, cost: int, c: Lowering, input: Value) -> Value:
    return of_float(c, compute, input, cost=cost)


for _name, _how in _OF_ONE.items():
    lower(_name)(partial(lower_of_one, *_how))


# -- made of other operators: rounded after each --------------------------------------------------


@lower("softsign")
def lower_softsign(c: Lowering, input: Value) -> Value:
    size = of_float(c, operation("abs"), input, cost=1)
    more = of_float(c, lambda x: op("add", x, constant_like(1, x)), size, cost=1)
    return of_float(c, operation("div"), input, more)


@lower("tanhshrink")
def lower_tanhshrink(c: Lowering, input: Value) -> Value:
    return of_float(c, operation("sub"), input, of_float(c, operation("tanh"), input))


# -- gradients ------------------------------------------------------------------------------------


@gradient("relu")
def gradient_relu(grad: Term, result: Term) -> Gradients:
    return {"input": grad.masked_fill(result <= 0, 0.0)}


@gradient("leaky_relu")
def gradient_leaky_relu(grad: Term, input: Term, negative_slope: Any) -> Gradients:
    return {"input": grad.where(input > 0, grad * negative_slope)}


@gradient("elu", "selu", "celu")
def gradient_elu(
    grad: Term,
    input: Term,
    function: str,
    alpha: Any = 1.0,
    scale: Any = 1,
    input_scale: Any = 1,
) -> Gradients:
    if function == "selu":
        alpha, scale = _SELU_ALPHA, _SELU_SCALE
    if not all(isinstance(each, int | float) for each in (alpha, scale, input_scale)):
        raise NoGradient("a number that is not a constant")
    height = alpha * scale * input_scale
    if function == "celu":
        height, input_scale = 1, 1 / alpha
    below = grad * height * (whole(input) * input_scale).exp()
    return {"input": below.where(input <= 0, grad * scale)}


@gradient("relu6", "hardtanh")
def gradient_hardtanh(grad: Term, input: Term, min_val: Any = 0, max_val: Any = 6) -> Gradients:
    outside = (input <= min_val).logical_or(input >= max_val)
    return {"input": grad.masked_fill(outside, 0.0)}


@gradient("hardsigmoid")
def gradient_hardsigmoid(grad: Term, input: Term) -> Gradients:
    inside = (input > -3).logical_and(input < 3)
    return {"input": (grad * (1 / 6)).where(inside, 0.0)}


@gradient("hardswish")
def gradient_hardswish(grad: Term, input: Term) -> Gradients:
    inside = (grad * (input / 3 + 0.5)).where(input < 3, grad)
    return {"input": inside.masked_fill(input <= -3, 0.0)}


@gradient("hardshrink", "softshrink")
def gradient_hardshrink(grad: Term, input: Term, lambd: Any) -> Gradients:
    inside = (input >= -lambd).logical_and(input <= lambd)
    return {"input": grad.masked_fill(inside, 0.0)}


@gradient("threshold", "_threshold")
def gradient_threshold(grad: Term, input: Term, threshold: Any) -> Gradients:
    return {"input": grad.masked_fill(input <= threshold, 0.0)}


@gradient("softplus")
def gradient_softplus(grad: Term, input: Term, beta: Any, threshold: Any) -> Gradients:
    scaled = whole(input) * beta
    return {"input": grad.where(scaled > threshold, grad * scaled.sigmoid())}


@gradient("log_sigmoid")
def gradient_log_sigmoid(grad: Term, input: Term) -> Gradients:
    return {"input": grad * (-whole(input)).sigmoid()}


@gradient("mish")
def gradient_mish(grad: Term, input: Term) -> Gradients:
    x = whole(input)
    bent = x.call(torch.nn.functional.softplus).tanh()
    return {"input": grad * (bent + x * x.sigmoid() * (1 - bent * bent))}


@gradient("prelu")
def gradient_prelu(grad: Term, input: Term, weight: Term) -> Gradients:
    same = grad.records.is_same
    dims, slope = list(range(input.rank)), weight
    if weight.rank and not same(weight.shape[0], 1):
        if input.rank < 2 or not same(weight.shape[0], input.shape[1]):
            raise NoGradient("whether there is a slope for each channel is not known")
        dims.remove(1)
        slope = weight.reshape([weight.shape[0], *[1] * (input.rank - 2)])
    above = input > 0
    own = (grad * input).masked_fill(above, 0.0)
    total = own.sum(dims) if dims else own
    return {
        "input": grad.where(above, grad * slope),
        "weight": total.reshape(weight.shape) if total.rank != weight.rank else total,
    }


@gradient("glu")
def gradient_glu(grad: Term, input: Term, dim: Any) -> Gradients:
    half = grad.shape[dim]
    value, gate = input.narrow(dim, 0, half), input.narrow(dim, half, half).sigmoid()
    own = grad * gate
    parts = [own, own * (1 - gate) * value]
    return {"input": grad.records.record(torch.cat, parts, dim)}


@made_of("softsign")
def parts_of_softsign(records: Records, input: Term) -> Term:
    return input / (input.abs() + 1)


@made_of("tanhshrink")
def parts_of_tanhshrink(records: Records, input: Term) -> Term:
    return input - input.tanh()


@gradient("silu")
def gradient_silu(grad: Term, input: Term) -> Gradients:
    x = whole(input)
    half = x.sigmoid()
    return {"input": grad * half * (x * (1 - half) + 1)}


@gradient("gelu")
def gradient_gelu(grad: Term, input: Term, approximate: Any) -> Gradients:
    x = whole(input)
    if approximate == "none":
        below = ((x * math.sqrt(0.5)).erf() + 1) * 0.5
        density = (x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
        return {"input": grad * (below + x * density)}
    if approximate != "tanh":
        raise NoGradient("an approximation that is not known")
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    t = ((x + x * x * x * cubic) * scale).tanh()
    inner = (x * x * (3 * cubic) + 1) * scale
    return {"input": grad * ((t + 1) * 0.5 + x * 0.5 * (1 - t * t) * inner)}


# -- ONNX -----------------------------------------------------------------------------------------


def onnx_exponential(kind: str, w: Writer, node: Node, input: Any, alpha: Any) -> str:
    """An activation with one number."""
    return _with_number(w, node, kind, input, alpha)


@onnx("leaky_relu")
def onnx_leaky_relu(w: Writer, node: Node, input: Any, negative_slope: Any) -> str:
    return _with_number(w, node, "LeakyRelu", input, negative_slope)


def _with_number(w: Writer, node: Node, kind: str, x: Any, number: Any) -> str:
    if is_node(number):
        raise NotMapped(f"{kind} with computed numbers, or in place")
    return w.add(kind, [w.name(x, w.dtype(node))], alpha=float(number))


@onnx("gelu")
def onnx_gelu(w: Writer, node: Node, input: Any, approximate: str) -> str:
    dtype, name = w.dtype(node), w.name(input)

    def number(value: float) -> str:
        return w.name(value, dtype)

    if approximate == "none":
        inner = w.add("Erf", [w.add("Div", [name, number(math.sqrt(2.0))])])
    else:
        cube = w.add("Mul", [w.add("Mul", [name, name]), name])
        inner = w.add("Add", [name, w.add("Mul", [cube, number(0.044715)])])
        inner = w.add("Tanh", [w.add("Mul", [inner, number(math.sqrt(2.0 / math.pi))])])
    half = w.add("Mul", [name, number(0.5)])
    return w.add("Mul", [half, w.add("Add", [inner, number(1.0)])])


@onnx("softplus")
def onnx_softplus(w: Writer, node: Node, input: Any, beta: Any, threshold: Any) -> str:
    if beta != 1:
        raise NotMapped("softplus with a factor")
    # Beyond the threshold torch gives the number itself, which is what the formula rounds to.
    return w.add("Softplus", [w.name(input)])


@onnx("hardtanh")
def onnx_hardtanh(w: Writer, node: Node, input: Any, min_val: Any, max_val: Any) -> str:
    return onnx_clamp(w, node, input, min_val, max_val)


@onnx("relu6")
def onnx_relu6(w: Writer, node: Node, input: Any) -> str:
    return onnx_clamp(w, node, input, 0.0, 6.0)


onnx_rows({kind.lower(): onnx_unary(kind) for kind in ("Relu", "Softsign", "Mish", "Selu")})
onnx_rows(
    {
        "hardswish": onnx_unary("HardSwish"),
        "hardsigmoid": onnx_unary("HardSigmoid", alpha=1 / 6, beta=0.5),
    }
)

onnx_rows(
    {
        "elu": partial(onnx_exponential, "Elu"),
        "celu": partial(onnx_exponential, "Celu"),
    }
)
