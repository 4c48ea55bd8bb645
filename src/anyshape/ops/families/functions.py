"""Mathematical functions, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch

from anyshape.loops.expr import FLOATS, Scalar
from anyshape.loops.operations import FUNCTIONS, OF_THE_C_LIBRARY, ONLY_F32
from anyshape.ops.elementwise import (
    DtypeRule,
    MetaOperand,
    binary,
    pointwise_meta,
    pointwise_row,
    same,
    unary,
)
from anyshape.ops.families.arithmetic import lower_mul, lower_power
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term, whole, zeros_like
from anyshape.ops.lowering.pointwise_builder import Operand, common_dtype, elementwise
from anyshape.ops.lowering.scalars import (
    TORCH_DTYPES,
    Compute,
    cast,
    constant_like,
    float_dtype,
    op,
    operation,
    test,
    where,
)
from anyshape.ops.lowering.values import Lowering, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, Rule, gradient, lower, made_of
from anyshape.ops.promotion import floating
from anyshape.ops.shape_query import ShapeQuery


def _heaviside(q: ShapeQuery, input: Meta, values: Meta) -> Meta:
    return pointwise_meta(q, (input, values), same)


def _polynomial(q: ShapeQuery, input: MetaOperand, n: MetaOperand) -> Meta:
    return pointwise_meta(q, (input, n), floating)


def _ldexp(q: ShapeQuery, input: Meta, other: MetaOperand) -> Meta:
    return pointwise_meta(q, (input, pointwise_meta(q, (2.0, other), same).like()), same)


def _frexp(q: ShapeQuery, input: Meta) -> tuple[Meta, Meta]:
    mantissa = pointwise_meta(q, (input,), same)
    return mantissa, mantissa.like(dtype=torch.int32, layout=mantissa.layout)


def _polygamma(q: ShapeQuery, n: int | Meta, input: Meta | int) -> Meta:
    """The method takes the tensor first, the function last."""
    tensor = input if isinstance(input, Meta) else n
    assert isinstance(tensor, Meta), "one of the two is the tensor"
    return pointwise_meta(q, (tensor,), floating)


def _mvlgamma(q: ShapeQuery, input: Meta, p: int) -> Meta:
    return input.like(dtype=floating(input.dtype))


#: name and aliases
_UNARY = (
    "acos arccos", "acosh arccosh", "airy_ai", "asin arcsin", "asinh arcsinh", "atan arctan",
    "atanh arctanh", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "cos", "cosh",
    "deg2rad",
    "digamma psi", "entr", "erf", "erfc", "erfcx", "erfinv", "exp", "exp2", "expm1", "i0",
    "i0e",
    "i1", "i1e", "lgamma gammaln", "log", "log10", "log1p", "log2", "log_ndtr",
    "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
    "ndtr", "ndtri", "rad2deg", "reciprocal", "rsqrt",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "sigmoid expit", "sin", "sinc",
    "sinh", "spherical_bessel_j0", "sqrt", "tan", "tanh",
)  # fmt: skip

_BINARY: dict[DtypeRule, tuple[str, ...]] = {
    floating: ("atan2 arctan2", "copysign", "xlog1py", "xlogy", "zeta"),
    same: ("hypot", "igamma gammainc", "igammac gammaincc", "logaddexp", "logaddexp2"),
}

_POLYNOMIALS = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
    "chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
    "laguerre_polynomial_l", "legendre_polynomial_p", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
)  # fmt: skip

#: In their names: torch has no derivatives of these functions.
_WITHOUT_GRADIENT = ("airy", "bessel", "polynomial")


def _row(names: str, rule: Rule, signature: str | None = None) -> Op:
    name, *aliases = names.split()
    differentiable = not any(kind in name for kind in _WITHOUT_GRADIENT)
    return pointwise_row(name, rule, *aliases, differentiable=differentiable, signature=signature)


ROWS = (
    *(_row(names, unary(floating)) for names in _UNARY),
    *(_row(names, binary(dtype)) for dtype, listed in _BINARY.items() for names in listed),
    _row("logit", unary(floating), "input, eps=None"),
    _row("heaviside", _heaviside),
    *(_row(name, _polynomial) for name in _POLYNOMIALS),
    _row("ldexp", _ldexp),
    _row("frexp", _frexp),
    _row("polygamma", _polygamma),
    _row("mvlgamma multigammaln", _mvlgamma),
)


# -- native code ----------------------------------------------------------------------------------


def x_times(x: Scalar, y: Scalar, found: Scalar) -> Scalar:
    """`x * found`, but 0 where x is 0, whatever y is but NaN."""
    zero = constant_like(0, x)
    product = where(test("eq", x, zero), zero, op("mul", x, found))
    return where(test("isnan", y), y, product)


def x_log_y(c: Lowering, x: Operand, y: Operand, log: str = "log") -> Value:
    """Integers count as floats of the default dtype. The logarithm is rounded to the dtype."""
    dtype = float_dtype(common_dtype((x, y)))

    def compute(a: Scalar, b: Scalar) -> Scalar:
        return x_times(a, b, cast(cast(op(log, b), dtype), a.dtype))

    return elementwise(c, compute, x, y, takes=dtype, cost=8)


@lower("xlogy")
def lower_xlogy(c: Lowering, input: Operand, other: Operand) -> Value:
    return x_log_y(c, input, other)


@lower("xlog1py")
def lower_xlog1py(c: Lowering, input: Operand, other: Operand) -> Value:
    return x_log_y(c, input, other, "log1p")


def _log_of_sum(exponential: str, scale: float) -> Compute:
    def compute(a: Scalar, b: Scalar) -> Scalar:
        largest = op("maximum", a, b)
        less = op("neg", op("abs", op("sub", a, b)))
        more = op("log1p", op(exponential, less))
        if scale != 1:
            more = op("mul", more, constant_like(scale, more))
        # Of equal infinities the difference is no number.
        infinite = test("and", test("eq", a, b), test("isinf", a))
        return where(infinite, a, op("add", largest, more))

    return compute


def lower_floats_only(
    compute: Compute, cost: int, c: Lowering, input: Value, other: Value
) -> Value:
    dtype = common_dtype((input, other))
    if dtype not in FLOATS:
        raise NotLowered("of integers")
    return elementwise(c, compute, input, other, cost=cost)


lower("logaddexp")(partial(lower_floats_only, _log_of_sum("exp", 1), 8))
lower("logaddexp2")(partial(lower_floats_only, _log_of_sum("exp2", 1 / math.log(2)), 8))


@lower("hypot")
def lower_hypot(c: Lowering, input: Value, other: Value) -> Value:
    dtype = common_dtype((input, other))
    if dtype not in FLOATS or dtype == "f64":
        raise NotLowered("squares that may be too large")

    def compute(a: Scalar, b: Scalar) -> Scalar:
        # In f64 no square of an f32 is too large or too small.
        x, y = cast(a, "f64"), cast(b, "f64")
        length = op("sqrt", op("add", op("mul", x, x), op("mul", y, y)))
        infinite = test("or", test("isinf", x), test("isinf", y))
        return cast(where(infinite, constant_like(math.inf, x), length), a.dtype)

    return elementwise(c, compute, input, other, cost=6)


@lower("heaviside")
def lower_heaviside(c: Lowering, input: Value, values: Value) -> Value:
    if input.dtype != values.dtype or input.dtype == "b1":
        raise NotLowered("two dtypes, or booleans")

    def compute(x: Scalar, at_zero: Scalar) -> Scalar:
        zero = constant_like(0, x)
        step = where(test("gt", x, zero), constant_like(1, x), zero)
        return where(test("eq", x, zero), at_zero, step)

    return elementwise(c, compute, input, values, cost=2)


@lower("sinc")
def lower_sinc(c: Lowering, input: Value) -> Value:
    dtype = float_dtype(input.dtype)
    if dtype == "f64":
        c.needs_library()  # for `sin`

    def compute(x: Scalar) -> Scalar:
        turned = op("mul", x, constant_like(math.pi, x))
        ratio = op("div", op("sin", turned), turned)
        return where(test("eq", x, constant_like(0, x)), constant_like(1, x), ratio)

    return elementwise(c, compute, input, takes=dtype, cost=6)


@lower("logit")
def lower_logit(c: Lowering, input: Value, eps: Any) -> Value:
    dtype = float_dtype(input.dtype)
    if eps is not None and not isinstance(eps, int | float):
        raise NotLowered("a number that is not a constant")
    bounds: tuple[float, float] | None = None
    if eps is not None:
        # Processors round the bounds to the dtype, GPUs do not.
        rounds = torch.float32 if c.on_gpu and dtype != "f64" else TORCH_DTYPES[dtype]
        least = torch.tensor(eps, dtype=rounds, device="cpu")
        bounds = least.item(), (1 - least).item()

    def compute(x: Scalar) -> Scalar:
        one = constant_like(1, x)
        if bounds is not None:
            low, high = (constant_like(each, x) for each in bounds)
            above = where(test("gt", x, high), high, x)
            x = where(test("lt", x, low), low, above)
        return op("log", op("div", x, op("sub", one, x)))

    return elementwise(c, compute, input, takes=dtype, cost=6)


@lower("entr")
def lower_entr(c: Lowering, input: Value) -> Value:
    dtype = float_dtype(input.dtype)

    def compute(x: Scalar) -> Scalar:
        zero = constant_like(0, x)
        inside = op("mul", op("neg", x), op("log", x))
        least = where(test("eq", x, zero), zero, constant_like(-math.inf, x))
        return where(test("isnan", x), x, where(test("gt", x, zero), inside, least))

    return elementwise(c, compute, input, takes=dtype, cost=6)


@lower("ldexp")
def lower_ldexp(c: Lowering, input: Value, other: Operand) -> Value:
    return lower_mul(c, input, lower_power(c, 2.0, other))


# -- one operand: floats ---------------------------------------------------------------------------


def lower_of_float(name: str, compute: Compute, cost: int, c: Lowering, input: Value) -> Value:
    """An operator that takes integers as floats of the default dtype."""
    dtype = float_dtype(input.dtype)
    if dtype == "f64" and name in OF_THE_C_LIBRARY:
        c.needs_library()
    if dtype == "f64" and name in ONLY_F32:
        raise NotLowered(f"no code for `{name}` of {dtype}")
    return elementwise(c, compute, input, takes=dtype, cost=cost)


#: Angles of any size take long: what is used twice is not computed twice.
_OF_ANGLES: Final = frozenset({"cos", "sin", "tan"})

for _name in (names.split()[0] for names in _UNARY):
    if _name in FUNCTIONS or _name == "sqrt":  # operations of kernels
        _cost = 8 if _name in _OF_ANGLES else 4
        lower(_name)(partial(lower_of_float, _name, operation(_name), _cost))
lower("reciprocal")(
    partial(lower_of_float, "reciprocal", lambda x: op("div", constant_like(1, x), x), 4)
)
lower("deg2rad")(
    partial(lower_of_float, "deg2rad", lambda x: op("mul", x, constant_like(math.pi / 180, x)), 1)
)
lower("rad2deg")(
    partial(lower_of_float, "rad2deg", lambda x: op("mul", x, constant_like(180 / math.pi, x)), 1)
)


@lower("atan2")
def lower_atan2(c: Lowering, input: Value, other: Value) -> Value:
    dtype = float_dtype(common_dtype((input, other)))
    return elementwise(c, operation("atan2"), input, other, takes=dtype, cost=8)


@lower("copysign")
def lower_copysign(c: Lowering, input: Value, other: Operand) -> Value:
    dtype = float_dtype(common_dtype((input, other)))
    return elementwise(c, operation("copysign"), input, other, takes=dtype)


# -- gradients ------------------------------------------------------------------------------------

#: of a function of one number: (gradient, result, argument) -> its gradient
_SLOPES: Final[dict[str, Callable[[Term, Term, Term], Term]]] = {
    "exp": lambda grad, result, x: grad * result,
    "exp2": lambda grad, result, x: grad * result * math.log(2),
    "expm1": lambda grad, result, x: grad * (result + 1),
    "log": lambda grad, result, x: grad / x,
    "log2": lambda grad, result, x: grad / (x * math.log(2)),
    "log10": lambda grad, result, x: grad / (x * math.log(10)),
    "log1p": lambda grad, result, x: grad / (x + 1),
    "sin": lambda grad, result, x: grad * x.cos(),
    "cos": lambda grad, result, x: grad * -x.sin(),
    "tan": lambda grad, result, x: grad * (result * result + 1),
    "tanh": lambda grad, result, x: grad * (1 - result * result),
    "sigmoid": lambda grad, result, x: grad * ((1 - result) * result),
    "sqrt": lambda grad, result, x: grad / (result * 2),
    "rsqrt": lambda grad, result, x: grad * -0.5 * (result * result * result),
    "reciprocal": lambda grad, result, x: -grad * (result * result),
    "erf": lambda grad, result, x: grad * (x * -x).exp() * (2 / math.sqrt(math.pi)),
    "atan": lambda grad, result, x: grad / (x * x + 1),
    "acos": lambda grad, result, x: grad * -(1 - x * x).rsqrt(),
    "asin": lambda grad, result, x: grad * (1 - x * x).rsqrt(),
    "acosh": lambda grad, result, x: grad * (x * x - 1).rsqrt(),
    "asinh": lambda grad, result, x: grad * (x * x + 1).rsqrt(),
    "atanh": lambda grad, result, x: grad / (1 - x * x),
    "cosh": lambda grad, result, x: grad * x.sinh(),
    "sinh": lambda grad, result, x: grad * x.cosh(),
    "deg2rad": lambda grad, result, x: grad * (math.pi / 180),
    "rad2deg": lambda grad, result, x: grad * (180 / math.pi),
    "digamma": lambda grad, result, x: grad * x.records.record(torch.polygamma, 1, x),
    "lgamma": lambda grad, result, x: grad * x.digamma(),
    "entr": lambda grad, result, x: grad * -(x.log() + 1),
    "erfc": lambda grad, result, x: grad * (x * -x).exp() * (-2 / math.sqrt(math.pi)),
    "erfcx": lambda grad, result, x: grad * (x * result * 2 - 2 / math.sqrt(math.pi)),
    "erfinv": lambda grad, result, x: grad * (result * result).exp() * (math.sqrt(math.pi) / 2),
    "ndtr": lambda grad, result, x: grad * (x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi)),
    "ndtri": lambda grad, result, x: grad * (result * result * 0.5).exp() * math.sqrt(2 * math.pi),
    "i0": lambda grad, result, x: grad * x.call(torch.special.i1),
    "i0e": lambda grad, result, x: grad * (x.call(torch.special.i1e) - x.sign() * result),
    "sinc": lambda grad, result, x: _slope_of_sinc(grad, x),
}


def _slope_of_sinc(grad: Term, x: Term) -> Term:
    turned, squared = x * math.pi, x * x * math.pi
    slope = (turned * turned.cos() - turned.sin()) / squared
    return (grad * slope).masked_fill(squared.eq(0), 0.0)


def _gradient(slope: Callable[[Term, Term, Term], Term]) -> Callable[..., Gradients]:
    def row(grad: Term, result: Term, input: Term) -> Gradients:
        return {"input": slope(whole(grad), whole(result), whole(input))}

    return row


for _name, _slope in _SLOPES.items():
    gradient(_name)(_gradient(_slope))


@gradient("logit")
def gradient_logit(grad: Term, input: Term, eps: Any) -> Gradients:
    input = whole(input)
    own = grad / (input * (1 - input))
    if eps is None:
        outside, beyond = math.nan, (0, 1)
    elif isinstance(eps, int | float) and eps >= 0:
        outside, beyond = 0.0, (eps, 1 - eps)
    else:
        raise NoGradient("a bound that is not a constant, or below zero")
    low, high = beyond
    return {"input": own.masked_fill(input < low, outside).masked_fill(input > high, outside)}


@gradient("polygamma")
def gradient_polygamma(grad: Term, n: Any, input: Any) -> Gradients:
    if type(n) is not int or not isinstance(input, Term):
        raise NoGradient("an order that is not known")
    return {"input": grad * grad.records.record(torch.polygamma, n + 1, input)}


@gradient("atan2")
def gradient_atan2(grad: Term, input: Term, other: Term) -> Gradients:
    square = input * input + other * other
    scale = square.reciprocal().masked_fill(square.eq(0), 0.0)
    return {"input": grad * other * scale, "other": grad * -input * scale}


@gradient("hypot")
def gradient_hypot(grad: Term, result: Term, input: Term, other: Term) -> Gradients:
    return {"input": grad * (input / result), "other": grad * (other / result)}


@gradient("copysign")
def gradient_copysign(grad: Term, result: Term, input: Any, other: Any) -> Gradients:
    if not isinstance(input, Term):
        raise NoGradient("a sign of a number")
    kept = (result / input).masked_fill(input.eq(0), 0.0)
    return {"input": grad * kept, "other": zeros_like(grad)}


def _of_logarithm(grad: Term, input: Any, other: Any, function: str, shift: int) -> Gradients:
    """Of `input * log(other + shift)`, which is 0 where the input is."""
    if isinstance(input, Term) and isinstance(other, Term):
        nothing = input.eq(0).logical_and(other <= -shift)
    elif isinstance(input, Term):
        nothing = input.eq(0) if other <= -shift else None
    else:
        nothing = None
    found: Gradients = {}
    if isinstance(input, Term):
        own = grad.call(getattr(torch.special, function), other)
        found["input"] = own if nothing is None else own.masked_fill(nothing, 0.0)
    if isinstance(other, Term):
        found["other"] = grad * input / (other + shift if shift else other)
    return found


@gradient("xlogy", "xlog1py")
def gradient_xlogy(grad: Term, input: Any, other: Any, function: str) -> Gradients:
    return _of_logarithm(grad, input, other, function, int(function == "xlog1py"))


@gradient("logaddexp", "logaddexp2")
def gradient_logaddexp(grad: Term, input: Term, other: Term, function: str) -> Gradients:
    def share(of: Term, beside: Term) -> Term:
        apart = beside - of
        return grad / ((apart.exp() if function == "logaddexp" else apart.exp2()) + 1)

    return {"input": share(input, other), "other": share(other, input)}


@made_of("ldexp")
def parts_of_ldexp(records: Records, input: Any, other: Any) -> Any:
    return input * records.record(torch.pow, 2.0, other)
