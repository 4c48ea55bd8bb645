"""Arithmetic, comparisons and mathematics, element by element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from anyshape.graph.lowerings.table import ROWS, row
from anyshape.graph.pointwise_builder import (
    TORCH_DTYPES,
    Compute,
    Operand,
    broadcast_sizes,
    cast,
    common_dtype,
    elementwise,
    float_dtype,
    operation,
    scalar_of,
    wide,
)
from anyshape.graph.scalar_range_check import must_fit
from anyshape.graph.values import NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Dtype, Scalar
from anyshape.loops.operations import ONLY_F32
from anyshape.symbolic import Expr, ge

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

#: what whole numbers there are
INTEGERS = {"u8": (0, 255), "i8": (-128, 127), "i16": (-(2**15), 2**15 - 1)}
INTEGERS |= {"i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1)}


def constant_like(value: float, like: Scalar) -> Scalar:
    return expr.constant(value, like.dtype)


def op(name: str, *args: Scalar) -> Scalar:
    """An operation whose result has the dtype of its last argument."""
    return expr.operation(name, *args, dtype=args[-1].dtype)


def test(name: str, *args: Scalar) -> Scalar:
    """An operation that gives a bool."""
    return expr.operation(name, *args, dtype="b1")


def where(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    return expr.operation("where", condition, then, otherwise, dtype=then.dtype)


# -- one operand: floats ---------------------------------------------------------------------------


def float_row(name: str, compute: Compute, cost: int = 4) -> None:
    """An operator that takes integers as floats of the default dtype."""

    @row(name)
    def lowered(c: Lowering, input: Value) -> Value:
        dtype = float_dtype(input.dtype)
        if dtype == "f64" and name in ONLY_F32:
            raise NotLowered(f"no code for `{name}` of {dtype}")
        return elementwise(c, compute, input, takes=dtype, gives=dtype, cost=cost)


for _name in [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "tan",
    "tanh",
]:
    float_row(_name, operation(_name))
float_row("sqrt", operation("sqrt"))
float_row("reciprocal", lambda x: op("div", constant_like(1, x), x))
float_row("deg2rad", lambda x: op("mul", x, constant_like(math.pi / 180, x)), 1)
float_row("rad2deg", lambda x: op("mul", x, constant_like(180 / math.pi, x)), 1)


# -- one operand: the same dtype -------------------------------------------------------------------


@row("neg")
def neg(c: Lowering, input: Value) -> Value:
    if input.dtype == "b1":
        raise NotLowered("booleans have no sign")
    return elementwise(c, operation("neg"), input)


@row("abs")
def absolute(c: Lowering, input: Value) -> Value:
    return input if input.dtype in ("b1", "u8") else elementwise(c, operation("abs"), input)


@row("square")
def square(c: Lowering, input: Value) -> Value:
    dtype: Dtype = "i64" if input.dtype == "b1" else input.dtype
    return elementwise(c, lambda x: op("mul", x, x), input, takes=dtype, gives=dtype)


@row("sign", "sgn")
def sign(c: Lowering, input: Value) -> Value:
    if input.dtype == "b1":
        return input
    return elementwise(c, operation("sign"), input)


def rounding_row(name: str) -> None:
    """Integers are whole already."""

    @row(name)
    def lowered(c: Lowering, input: Value) -> Value:
        return _rounded(c, name, input)


for _name in ["floor", "ceil", "trunc"]:
    rounding_row(_name)


@row("round")
def round_(c: Lowering, input: Value, *, decimals: int) -> Value:
    return _to_decimals(c, input, decimals) if decimals else _rounded(c, "round", input)


def _rounded(c: Lowering, name: str, input: Value) -> Value:
    if input.dtype == "b1":
        raise NotLowered("booleans are not rounded")
    return elementwise(c, operation(name), input) if input.dtype in FLOATS else input


def _to_decimals(c: Lowering, input: Value, decimals: Any) -> Value:
    """Scaled by a power of ten that the dtype has, rounded, scaled back."""
    if input.dtype not in ("f32", "f64") or type(decimals) is not int or abs(decimals) > 10:
        raise NotLowered("rounding to decimals of this dtype, or to so many")
    to, back = ("mul", "div") if decimals > 0 else ("div", "mul")

    def compute(x: Scalar) -> Scalar:
        scale = constant_like(10.0 ** abs(decimals), x)
        return op(back, op("round", op(to, x, scale)), scale)

    return elementwise(c, compute, input, cost=4)


@row("frac")
def frac(c: Lowering, input: Value) -> Value:
    if input.dtype not in FLOATS:
        raise NotLowered("integers have no fraction")
    return elementwise(c, lambda x: op("sub", x, op("trunc", x)), input)


@row("bitwise_not")
def bitwise_not(c: Lowering, input: Value) -> Value:
    if input.dtype in FLOATS:
        raise NotLowered("floats have no bits here")
    return elementwise(c, operation("not"), input)


# -- one operand: bool -----------------------------------------------------------------------------


def is_nonzero(x: Scalar) -> Scalar:
    return x if x.dtype == "b1" else test("ne", x, constant_like(0, x))


@row("logical_not")
def logical_not(c: Lowering, input: Value) -> Value:
    return elementwise(
        c, lambda x: test("not", is_nonzero(x)), input, takes=input.dtype, gives="b1"
    )


def float_test_row(name: str, compute: Compute, of_integers: bool) -> None:
    """A question about floats, with the answer for integers."""

    @row(name)
    def lowered(c: Lowering, input: Value) -> Value:
        if input.dtype not in FLOATS:
            answer = expr.constant(of_integers, "b1")
            return elementwise(c, lambda _: answer, input, takes=input.dtype, gives="b1", cost=0)
        return elementwise(c, compute, input, takes=input.dtype, gives="b1")


float_test_row("isnan", lambda x: test("isnan", x), False)
float_test_row("isinf", lambda x: test("isinf", x), False)
float_test_row("isfinite", lambda x: test("isfinite", x), True)
float_test_row("isposinf", lambda x: test("eq", x, constant_like(math.inf, x)), False)
float_test_row("isneginf", lambda x: test("eq", x, constant_like(-math.inf, x)), False)


@row("signbit")
def signbit(c: Lowering, input: Value) -> Value:
    if input.dtype in ("b1", "u8"):
        none = expr.constant(False, "b1")
        return elementwise(c, lambda _: none, input, takes=input.dtype, gives="b1", cost=0)
    if input.dtype in FLOATS:
        return elementwise(c, lambda x: test("signbit", x), input, takes=input.dtype, gives="b1")
    return elementwise(
        c, lambda x: test("lt", x, constant_like(0, x)), input, takes=input.dtype, gives="b1"
    )


# -- two operands ----------------------------------------------------------------------------------


def comparison_row(name: str) -> None:
    @row(name)
    def lowered(c: Lowering, input: Operand, other: Operand) -> Value:
        takes = common_dtype((input, other))
        return elementwise(
            c, lambda a, b: test(name, a, b), input, other, takes=takes, gives="b1", wraps=True
        )


for _name in ["eq", "ne", "lt", "le", "gt", "ge"]:
    comparison_row(_name)


def logical_row(name: str, bits: str) -> None:
    @row(name)
    def lowered(c: Lowering, input: Value, other: Value) -> Value:
        takes = common_dtype((input, other))

        def compute(a: Scalar, b: Scalar) -> Scalar:
            return test(bits, is_nonzero(a), is_nonzero(b))

        return elementwise(c, compute, input, other, takes=takes, gives="b1")


for _name in ["and", "or", "xor"]:
    logical_row(f"logical_{_name}", _name)


def _scaled(alpha: Any, other: Scalar) -> Scalar:
    if alpha == 1:
        return other
    return op("mul", other, constant_like(alpha, other))


def additive_row(name: str, swapped: bool = False) -> None:
    """`input ± alpha * other`."""
    kind = "sub" if name != "add" else "add"

    @row(name)
    def lowered(c: Lowering, input: Operand, other: Operand, *, alpha: Any) -> Value:
        dtype = common_dtype((input, other))
        if not isinstance(alpha, int | float):
            raise NotLowered("a factor that is computed")
        if dtype == "b1":
            if name != "add" or alpha != 1:
                raise NotLowered("a difference of booleans")
            return elementwise(c, operation("or"), input, other, wraps=True)
        if dtype not in FLOATS and isinstance(alpha, float):
            raise NotLowered("a fractional factor of integers")
        if dtype in HALVES and alpha != 1:
            raise NotLowered("a factor of floats of two bytes, which torch rounds on the way")

        def compute(a: Scalar, b: Scalar) -> Scalar:
            return op(kind, b, _scaled(alpha, a)) if swapped else op(kind, a, _scaled(alpha, b))

        return elementwise(c, compute, input, other, wraps=True)


additive_row("add")
additive_row("sub")
additive_row("rsub", swapped=True)


@row("__rsub__")
def rsub(c: Lowering, input: Value, other: Operand) -> Value:
    return ROWS["rsub"](c, input, other, alpha=1)


@row("mul")
def mul(c: Lowering, input: Operand, other: Operand) -> Value:
    name = "and" if common_dtype((input, other)) == "b1" else "mul"
    # A number is the second operand, also where it stands first.
    exact = (1,) if isinstance(input, Value) else (0,)
    return elementwise(c, operation(name), input, other, wraps=True, exact=exact)


def floor_quotient(a: Scalar, b: Scalar) -> Scalar:
    """`a // b` of floats as torch computes it: exact where the quotient is not."""
    mod = op("fmod", a, b)
    div = op("div", op("sub", a, mod), b)
    zero = constant_like(0, a)
    other_sign = test("ne", test("lt", b, zero), test("lt", mod, zero))
    lower = test("and", test("ne", mod, zero), other_sign)
    div = where(lower, op("sub", div, constant_like(1, a)), div)
    floor = op("floor", div)
    up = test("gt", op("sub", div, floor), constant_like(0.5, a))
    whole = where(up, op("add", floor, constant_like(1, a)), floor)
    signed_zero = op("copysign", zero, op("div", a, b))
    result = where(test("ne", div, zero), whole, signed_zero)
    return where(test("eq", b, zero), op("div", a, b), result)


def _quotient(c: Lowering, input: Operand, other: Operand, mode: str | None) -> Value:
    dtype = common_dtype((input, other))
    if mode is None:
        dtype = float_dtype(dtype)
        return elementwise(
            *(c, operation("div"), input, other),
            takes=dtype,
            gives=dtype,
            cost=2,
            wraps=True,
            exact=(1,),
        )
    if dtype not in FLOATS:
        # By zero it is an error, which has to be the one that torch raises.
        raise NotLowered("division of integers")
    if dtype in HALVES and isinstance(input, Value) and isinstance(other, Value):
        # Torch rounds on the way, though not with a number.
        raise NotLowered("whole quotients of floats of two bytes")
    if mode == "trunc":
        return elementwise(
            *(c, lambda a, b: op("trunc", op("div", a, b)), input, other),
            cost=3,
            wraps=True,
            exact=(1,),
        )
    return elementwise(c, floor_quotient, input, other, cost=8, wraps=True, exact=(1,))


@row("div")
def div(c: Lowering, input: Operand, other: Operand, *, rounding_mode: str | None) -> Value:
    whole = {"trunc": "truncdiv", "floor": "floordiv"}.get(rounding_mode or "")
    made = None if whole is None else integer_by_number(c, whole, input, other)
    return made or _quotient(c, input, other, rounding_mode)


@row("true_divide")
def true_divide(c: Lowering, input: Operand, other: Operand) -> Value:
    return _quotient(c, input, other, None)


@row("__rtruediv__")
def rtruediv(c: Lowering, input: Value, other: Operand) -> Value:
    """Two operations, as torch does it: what is below one part of the largest number has an inverse
    that is infinite."""
    inverse = ROWS["reciprocal"](c, input)
    return mul(c, inverse, other)


@row("floor_divide")
def floor_divide(c: Lowering, input: Operand, other: Operand) -> Value:
    return integer_by_number(c, "floordiv", input, other) or _quotient(c, input, other, "floor")


def integer_by_number(c: Lowering, name: str, input: Operand, other: Operand) -> Value | None:
    """Integers divided by a number that is not zero, or by a size where it is not."""
    dtype = common_dtype((input, other))
    if dtype in FLOATS or dtype == "b1" or isinstance(other, bool):
        return None
    if isinstance(other, Expr):
        if dtype != "i64":
            return None  # It may be too large for others.
        c.assume(ge(other, 1), "a divisor may be zero")
    elif not isinstance(other, int) or not _divides(other, dtype):
        return None
    return elementwise(c, operation(name), input, other, cost=6)


def _divides(number: int, dtype: Dtype) -> bool:
    """Whether the dtype has the number, and nothing divided by it is too large."""
    low, high = INTEGERS[dtype]
    return low <= number <= high and number not in (0, -1)


@row("__rfloordiv__")
def reflected_floor_divide(c: Lowering, input: Value, other: Operand) -> Value:
    return floor_divide(c, other, input)


@row("__rmod__")
def reflected_remainder(c: Lowering, input: Value, other: Operand) -> Value:
    return remainder(c, other, input)


@row("remainder")
def remainder(c: Lowering, input: Operand, other: Operand) -> Value:
    return integer_by_number(c, "floormod", input, other) or _float_only(
        c, "remainder", input, other
    )


@row("fmod")
def fmod(c: Lowering, input: Operand, other: Operand) -> Value:
    return integer_by_number(c, "truncmod", input, other) or _float_only(c, "fmod", input, other)


def _float_only(c: Lowering, name: str, input: Operand, other: Operand) -> Value:
    if common_dtype((input, other)) not in FLOATS:
        raise NotLowered("division of integers")
    return elementwise(c, operation(name), input, other, cost=8, wraps=True)


def extremum_row(name: str, of_bools: str) -> None:
    @row(name)
    def lowered(c: Lowering, input: Value, other: Value) -> Value:
        dtype = common_dtype((input, other))
        kind = of_bools if dtype == "b1" else name
        if kind in ("fmin", "fmax") and dtype not in FLOATS:
            kind = "minimum" if kind == "fmin" else "maximum"
        return elementwise(c, operation(kind), input, other)


extremum_row("maximum", "or")
extremum_row("minimum", "and")
extremum_row("fmax", "or")
extremum_row("fmin", "and")


def bitwise_row(name: str) -> None:
    @row(f"bitwise_{name}")
    def lowered(c: Lowering, input: Operand, other: Operand) -> Value:
        if common_dtype((input, other)) in FLOATS:
            raise NotLowered("floats have no bits here")
        return elementwise(c, operation(name), input, other, wraps=True)


for _name in ["and", "or", "xor"]:
    bitwise_row(_name)


@row("atan2")
def atan2(c: Lowering, input: Value, other: Value) -> Value:
    dtype = float_dtype(common_dtype((input, other)))
    return elementwise(c, operation("atan2"), input, other, takes=dtype, gives=dtype, cost=8)


@row("copysign")
def copysign(c: Lowering, input: Value, other: Operand) -> Value:
    dtype = float_dtype(common_dtype((input, other)))
    return elementwise(c, operation("copysign"), input, other, takes=dtype, gives=dtype)


@row("pow")
def power(c: Lowering, input: Operand, exponent: Operand) -> Value:
    dtype = common_dtype((input, exponent))
    if type(exponent) in (int, float) and isinstance(input, Value):
        found = _POWERS.get(exponent)  # pyright: ignore[reportArgumentType] a number
        if dtype == "f16" and exponent in (0.5, -0.5):
            # Only here eager takes no root: -inf to the power of 0.5 is inf.
            found = None
        if dtype == "bf16" and exponent in (3, -2):
            # Rounded after each step, unlike those of f16.
            twice = elementwise(c, _POWERS[2], input, takes=dtype, gives=dtype)
            return mul(c, twice, input) if exponent == 3 else ROWS["reciprocal"](c, twice)
        if found is not None and (dtype in FLOATS or exponent in (1, 2, 3)) and dtype != "b1":
            return elementwise(c, found, input, takes=dtype, gives=dtype, cost=2)
    if dtype not in FLOATS:
        raise NotLowered("powers of integers")
    wraps = dtype not in HALVES
    compute = operation("pow")
    return elementwise(c, compute, input, exponent, takes=dtype, gives=dtype, cost=12, wraps=wraps)


#: as eager computes them
_POWERS: dict[float, Compute] = {
    0.5: lambda x: op("sqrt", x),
    1: lambda x: x,
    2: lambda x: op("mul", x, x),
    3: lambda x: op("mul", op("mul", x, x), x),
    -0.5: lambda x: op("rsqrt", x),
    -1: lambda x: op("div", constant_like(1, x), x),
    -2: lambda x: op("div", constant_like(1, x), op("mul", x, x)),
}


@row("__rpow__")
def rpow(c: Lowering, input: Operand, other: Operand) -> Value:
    return power(c, other, input)


# -- several operands ------------------------------------------------------------------------------


@row("lerp")
def lerp(c: Lowering, input: Value, end: Value, weight: Operand) -> Value:
    if input.dtype not in FLOATS:
        raise NotLowered("integers between two integers")

    def compute(a: Scalar, b: Scalar, w: Scalar) -> Scalar:
        difference = op("sub", b, a)
        near = op("add", a, op("mul", w, difference))
        far = op("sub", b, op("mul", difference, op("sub", constant_like(1, w), w)))
        is_near = test("lt", op("abs", w), constant_like(0.5, w))
        return where(is_near, near, far)

    exact = () if isinstance(weight, Value) else (2,)
    dtype = input.dtype
    return elementwise(
        c, compute, input, end, weight, takes=dtype, gives=dtype, cost=6, exact=exact
    )


def fused_row(name: str, inner: str) -> None:
    """`input + value * (tensor1 ∘ tensor2)`."""

    @row(name)
    def lowered(c: Lowering, input: Value, tensor1: Value, tensor2: Value, *, value: Any) -> Value:
        dtype = common_dtype((input, tensor1, tensor2))
        if dtype not in FLOATS or not isinstance(value, int | float):
            raise NotLowered("no floats, or a factor that is computed")

        def compute(a: Scalar, b: Scalar, d: Scalar) -> Scalar:
            if inner == "div":
                return op("add", a, op("mul", constant_like(value, a), op("div", b, d)))
            scaled = b if value == 1 else op("mul", constant_like(value, b), b)
            return op("add", a, op("mul", scaled, d))

        return elementwise(c, compute, input, tensor1, tensor2, cost=3)


fused_row("addcmul", "mul")
fused_row("addcdiv", "div")


def _clamped(c: Lowering, input: Value, low: Operand | None, high: Operand | None) -> Value:
    bounds = [bound for bound in (low, high) if bound is not None]
    dtype = common_dtype((input, *bounds))
    if dtype == "b1":
        raise NotLowered("booleans between bounds")
    if any(isinstance(bound, float) and math.isnan(bound) for bound in bounds):
        raise NotLowered("a bound that is no number")

    def compute(x: Scalar, *limits: Scalar) -> Scalar:
        left = list(limits)
        if low is not None:
            x = op("maximum", x, left.pop(0))
        if high is not None:
            x = op("minimum", x, left.pop(0))
        return x

    return elementwise(c, compute, input, *bounds, cost=2)


@row("clamp")
def clamp(c: Lowering, input: Value, min: Operand | None, max: Operand | None) -> Value:
    return _clamped(c, input, min, max)


@row("clamp_min")
def clamp_min(c: Lowering, input: Value, min: Operand) -> Value:
    return _clamped(c, input, min, None)


@row("clamp_max")
def clamp_max(c: Lowering, input: Value, max: Operand) -> Value:
    return _clamped(c, input, None, max)


@row("where")
def where_row(c: Lowering, condition: Value, input: Operand, other: Operand) -> Value:
    if not isinstance(condition, Value) or condition.dtype not in ("b1", "u8"):
        raise NotLowered("the condition is no tensor of booleans")
    return chosen(c, condition, input, other, common_dtype((input, other)))


def chosen(c: Lowering, condition: Value, then: Operand, other: Operand, dtype: Dtype) -> Value:
    """`then` where the condition holds, else `other`."""
    sizes = broadcast_sizes(c, (condition, then, other))
    for each in (then, other):
        must_fit(c, each, dtype)

    def at(index: Any) -> Scalar:
        test_now = is_nonzero(scalar_of(condition, index, sizes, condition.dtype))
        inner = wide(dtype)
        a, b = (scalar_of(each, index, sizes, inner) for each in (then, other))
        return cast(where(test_now, a, b), dtype)

    parents = [each for each in (condition, then, other) if isinstance(each, Value)]
    return c.values.new(sizes, dtype, at, parents, cost=1)


@row("masked_fill")
def masked_fill(c: Lowering, input: Value, mask: Value, value: Operand) -> Value:
    if mask.dtype != "b1":
        raise NotLowered("the mask is no tensor of booleans")
    return chosen(c, mask, value, input, input.dtype)


@row("nan_to_num")
def nan_to_num(c: Lowering, input: Value, nan: Any, posinf: Any, neginf: Any) -> Value:
    if input.dtype not in FLOATS:
        return input
    largest = torch.finfo(TORCH_DTYPES[input.dtype]).max
    values = (
        0.0 if nan is None else nan,
        largest if posinf is None else posinf,
        -largest if neginf is None else neginf,
    )
    if not all(isinstance(value, int | float) for value in values):
        raise NotLowered("a number that is computed")

    def compute(x: Scalar) -> Scalar:
        nan_, high, low = (constant_like(value, x) for value in values)
        x_high = test("eq", x, constant_like(math.inf, x))
        x_low = test("eq", x, constant_like(-math.inf, x))
        return where(test("isnan", x), nan_, where(x_high, high, where(x_low, low, x)))

    return elementwise(c, compute, input, cost=4)
