"""Activation functions: one operation an element, in f32 for floats of two bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.pointwise import constant_like, op, test, where
from anyshape.graph.lowerings.table import ROWS, row
from anyshape.graph.lowerings.views import place
from anyshape.graph.pointwise_builder import Compute, Operand, elementwise, operation
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops.expr import FLOATS, Scalar

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def of_float(
    c: Lowering, compute: Compute, input: Value, *parameters: Operand, cost: int = 4
) -> Value:
    """A function of floats with numbers as parameters; only the result is rounded."""
    if input.dtype not in FLOATS:
        raise NotLowered("an activation of integers")
    dtype = input.dtype
    exact = range(1, 1 + len(parameters))
    return elementwise(
        c, compute, input, *parameters, takes=dtype, gives=dtype, cost=cost, exact=exact
    )


# -- from a few comparisons ----------------------------------------------------------------------


@row("relu")
def relu(c: Lowering, input: Value) -> Value:
    if input.dtype == "b1":
        raise NotLowered("booleans have no sign")
    return elementwise(c, lambda x: op("maximum", x, constant_like(0, x)), input)


def _between(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return op("minimum", op("maximum", x, low), high)


@row("relu6")
def relu6(c: Lowering, input: Value) -> Value:
    return of_float(c, _between, input, 0, 6, cost=2)


@row("hardtanh")
def hardtanh(c: Lowering, input: Value, min_val: Operand, max_val: Operand) -> Value:
    if not all(isinstance(bound, int | float) for bound in (min_val, max_val)):
        # A lower bound above the other is an error.
        raise NotLowered("a bound that is computed")
    return of_float(c, _between, input, min_val, max_val, cost=2)


@row("leaky_relu")
def leaky_relu(c: Lowering, input: Value, negative_slope: Operand) -> Value:
    return of_float(c, _leaky, input, negative_slope, cost=2)


def _leaky(x: Scalar, slope: Scalar) -> Scalar:
    return where(test("gt", x, constant_like(0, x)), x, op("mul", x, slope))


@row("prelu")
def prelu(c: Lowering, input: Value, weight: Value) -> Value:
    rank = len(input.sizes)
    if weight.sizes and weight.sizes[0] != 1 and rank > 1:
        # One slope a channel.
        slopes = weight
        sizes = (1, weight.sizes[0], *(1,) * (rank - 2))
        weight = c.values.new(sizes, weight.dtype, lambda index: slopes.at((index[1],)), (weight,))
    if input.dtype != weight.dtype or not c.same_sizes(c.result.shape, input.sizes):
        raise NotLowered("slopes of another dtype, or more of them than channels")
    return of_float(c, _leaky, input, weight, cost=2)


@row("rrelu")
def rrelu(
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
        raise NotLowered("a slope that is computed")
    return of_float(c, _leaky, input, (lower + upper) / 2, cost=2)


@row("threshold", "_threshold")
def threshold(c: Lowering, input: Value, threshold: Operand, value: Operand) -> Value:
    def compute(x: Scalar, least: Scalar, instead: Scalar) -> Scalar:
        return where(test("le", x, least), instead, x)

    return of_float(c, compute, input, threshold, value, cost=1)


@row("hardshrink")
def hardshrink(c: Lowering, input: Value, lambd: Operand) -> Value:
    def compute(x: Scalar, reach: Scalar) -> Scalar:
        near = test("and", test("ge", x, op("neg", reach)), test("le", x, reach))
        return where(near, constant_like(0, x), x)

    if input.dtype not in FLOATS:
        raise NotLowered("an activation of integers")
    # Here alone the number is rounded before.
    return elementwise(c, compute, input, lambd, takes=input.dtype, gives=input.dtype, cost=2)


@row("softshrink")
def softshrink(c: Lowering, input: Value, lambd: Operand) -> Value:
    def compute(x: Scalar, reach: Scalar) -> Scalar:
        below = where(test("lt", x, op("neg", reach)), op("add", x, reach), _nothing(x))
        return where(test("gt", x, reach), op("sub", x, reach), below)

    return of_float(c, compute, input, lambd, cost=4)


def _nothing(x: Scalar) -> Scalar:
    """0, but NaN of a NaN."""
    return where(test("isnan", x), x, constant_like(0, x))


def _hard_step(x: Scalar) -> Scalar:
    return _between(op("add", x, constant_like(3, x)), constant_like(0, x), constant_like(6, x))


@row("hardsigmoid")
def hardsigmoid(c: Lowering, input: Value) -> Value:
    return of_float(c, lambda x: op("div", _hard_step(x), constant_like(6, x)), input)


@row("hardswish")
def hardswish(c: Lowering, input: Value) -> Value:
    return of_float(c, lambda x: op("div", op("mul", x, _hard_step(x)), constant_like(6, x)), input)


# -- from exponentials ---------------------------------------------------------------------------


def _exponential(c: Lowering, input: Value, below: Operand, above: Operand, inner: Operand):
    """`above * x` of positive numbers, `below * (exp(inner * x) - 1)` of others."""

    def compute(x: Scalar, low: Scalar, high: Scalar, scale: Scalar) -> Scalar:
        negative = op("mul", op("expm1", op("mul", x, scale)), low)
        return where(test("gt", x, constant_like(0, x)), op("mul", x, high), negative)

    return of_float(c, compute, input, below, above, inner, cost=6)


@row("elu")
def elu(c: Lowering, input: Value, alpha: Any, scale: Any = 1, input_scale: Any = 1) -> Value:
    if not all(isinstance(each, int | float) for each in (alpha, scale, input_scale)):
        raise NotLowered("a factor that is computed")
    return _exponential(c, input, alpha * scale, scale, input_scale)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@row("selu")
def selu(c: Lowering, input: Value) -> Value:
    return _exponential(c, input, _SELU_ALPHA * _SELU_SCALE, _SELU_SCALE, 1.0)


@row("celu")
def celu(c: Lowering, input: Value, alpha: Any) -> Value:
    if not isinstance(alpha, int | float) or alpha == 0:
        raise NotLowered("a factor that is computed, or 0")
    return _exponential(c, input, alpha, 1.0, 1.0 / alpha)


@row("silu")
def silu(c: Lowering, input: Value) -> Value:
    return of_float(c, operation("silu"), input)


@row("gelu")
def gelu(c: Lowering, input: Value, *, approximate: str) -> Value:
    kind = {"none": "gelu", "tanh": "gelu_tanh"}.get(approximate)
    if kind is None:
        raise NotLowered("an approximation that torch does not know")
    return of_float(c, operation(kind), input, cost=6)


@row("mish")
def mish(c: Lowering, input: Value) -> Value:
    return of_float(
        c, lambda x: op("mul", x, op("tanh", op("log1p", op("exp", x)))), input, cost=10
    )


@row("softplus")
def softplus(c: Lowering, input: Value, beta: Operand, threshold: Operand) -> Value:
    def compute(x: Scalar, steepness: Scalar, most: Scalar) -> Scalar:
        steep = op("mul", x, steepness)
        soft = op("div", op("log1p", op("exp", steep)), steepness)
        return where(test("gt", steep, most), x, soft)

    return of_float(c, compute, input, beta, threshold, cost=8)


@row("log_sigmoid")
def log_sigmoid(c: Lowering, input: Value) -> Value:
    return of_float(c, log_of_sigmoid, input, cost=8)


def log_of_sigmoid(x: Scalar) -> Scalar:
    below = op("minimum", constant_like(0, x), x)
    return op("sub", below, op("log1p", op("exp", op("neg", op("abs", x)))))


@row("glu")
def glu(c: Lowering, input: Value, dim: int) -> Value:
    if input.dtype not in FLOATS:
        raise NotLowered("an activation of integers")
    along = place(dim, len(input.sizes))
    half = c.result.shape[along]

    def part(begin: Any) -> Value:
        def at(index: Index) -> Scalar:
            return input.at((*index[:along], index[along] + begin, *index[along + 1 :]))

        return c.values.new(c.result.shape, input.dtype, at, (input,))

    return of_float(c, lambda a, b: op("mul", a, op("sigmoid", b)), part(0), part(half))


# -- made of other operators: rounded after each --------------------------------------------------


@row("softsign")
def softsign(c: Lowering, input: Value) -> Value:
    size = of_float(c, operation("abs"), input, cost=1)
    more = of_float(c, lambda x: op("add", x, constant_like(1, x)), size, cost=1)
    return of_float(c, operation("div"), input, more)


@row("tanhshrink")
def tanhshrink(c: Lowering, input: Value) -> Value:
    return of_float(c, operation("sub"), input, of_float(c, operation("tanh"), input))


@row("functional_softmin")
def softmin(c: Lowering, input: Value, dim: Any, _stacklevel: int, dtype: Any) -> Value:
    if dtype is not None or input.dtype not in FLOATS:
        raise NotLowered("softmin of another dtype")
    if dim is None:
        dim = 0 if len(input.sizes) in (0, 1, 3) else 1
    return ROWS["softmax"](c, of_float(c, operation("neg"), input, cost=1), dim, None)
