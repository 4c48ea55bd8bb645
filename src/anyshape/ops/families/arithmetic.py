"""Arithmetic, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from anyshape.loops.expr import FLOATS, HALVES, Dtype, Scalar
from anyshape.ops.elementwise import (
    DtypeRule,
    MetaOperand,
    binary,
    everywhere,
    fresh,
    integer,
    pointwise_meta,
    pointwise_row,
    same,
    unary,
    widest,
)
from anyshape.ops.families.casts import lower_itself, onnx_same
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term, zeros_like
from anyshape.ops.lowering.pointwise_builder import (
    Operand,
    as_dtype,
    common_dtype,
    elementwise,
    in_full_on_gpus,
)
from anyshape.ops.lowering.scalar_range_check import INTEGERS, must_fit, value_must_fit_f32
from anyshape.ops.lowering.scalars import (
    TORCH_DTYPES,
    Compute,
    constant_like,
    float_dtype,
    op,
    operation,
    test,
    where,
)
from anyshape.ops.lowering.values import Lowering, NotLowered, NumberRef, Value
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, Row, Writer, onnx_binary, onnx_of_two, onnx_unary
from anyshape.ops.op import (
    DIVIDES,
    NATIVE,
    PURE,
    Effects,
    Op,
    OpKind,
    Rule,
    gradient,
    lower,
    lower_view,
    made_of,
    onnx,
    onnx_rows,
)
from anyshape.ops.promotion import Number, category, floating, real
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Expr, ge


def reflected(rule: Rule) -> Rule:
    """The rule of `other - input` from that of `input - other`."""

    def swapped(q: ShapeQuery, input: Meta, other: MetaOperand) -> Meta:
        return rule(q, other, input)

    return swapped


def _add(
    q: ShapeQuery, input: MetaOperand, other: MetaOperand, *old: MetaOperand, alpha: Number = 1
) -> Meta:
    """`input + alpha * other`; an old form has alpha in second place."""
    return pointwise_meta(q, (input, *(old or (other,))), same)


def _divide(
    q: ShapeQuery, input: MetaOperand, other: MetaOperand, *, rounding_mode: str | None = None
) -> Meta:
    if rounding_mode not in (None, "floor", "trunc"):
        raise q.fail(f"no rounding mode {rounding_mode!r}")
    return pointwise_meta(q, (input, other), floating if rounding_mode is None else same)


def _power(dtype: DtypeRule) -> Rule:
    def rule(q: ShapeQuery, input: MetaOperand, exponent: MetaOperand) -> Meta:
        power = pointwise_meta(q, (input, exponent), dtype)
        # A number to the power of a tensor does not look at the tensor's layout.
        return power if isinstance(input, Meta) else power.like()

    return rule


def _lerp(q: ShapeQuery, input: Meta, end: Meta, weight: MetaOperand) -> Meta:
    tensors = [operand for operand in (input, end, weight) if isinstance(operand, Meta)]
    return fresh(q, tensors, input.dtype)


def _fused(
    q: ShapeQuery, input: Meta, tensor1: Any, tensor2: Any = None, *old: Any, value: Number = 1
) -> Meta:
    """`input + value * tensor1 ∘ tensor2`; an old form has the value in second place."""
    if not isinstance(tensor1, Meta):
        (tensor1, tensor2) = (tensor2, *old)
    return pointwise_meta(q, (input, tensor1, tensor2), same)


def _clamp(
    q: ShapeQuery, input: Meta, min: MetaOperand | None = None, max: MetaOperand | None = None
) -> Meta:
    bounds = [bound for bound in (min, max) if bound is not None]
    if not bounds:
        raise q.fail("at least one of `min` and `max` must be given")
    return pointwise_meta(q, (input, *bounds), same)


def _clamp_min(q: ShapeQuery, input: Meta, min: MetaOperand) -> Meta:
    return pointwise_meta(q, (input, min), same)


def _clamp_max(q: ShapeQuery, input: Meta, max: MetaOperand) -> Meta:
    return pointwise_meta(q, (input, max), same)


def _positive(q: ShapeQuery, input: Meta) -> Meta:
    if category(input.dtype) == 0:
        raise q.fail("`+` is not defined for booleans")
    return input


#: name and aliases, by the dtype of the result
_UNARY: dict[DtypeRule, tuple[str, ...]] = {
    same: (
        "bitwise_not", "ceil", "floor", "frac", "nan_to_num", "neg negative", "round", "sgn",
        "sign", "trunc fix",
    ),
    integer: ("square",),
    real: ("abs absolute",),
}  # fmt: skip

_BINARY = (
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "fmax",
    "fmin", "floor_divide", "fmod", "gcd", "lcm", "maximum", "minimum", "mul multiply", "nextafter",
    "remainder",
)  # fmt: skip

#: Python's own methods for an operator; those with `__i` work in place.
_METHODS = {
    "abs": "__abs__",
    "add": "__add__ __radd__ __iadd__",
    "bitwise_and": "__and__ __rand__ __iand__",
    "bitwise_left_shift": "__lshift__ __ilshift__",
    "bitwise_not": "__invert__",
    "bitwise_or": "__or__ __ror__ __ior__",
    "bitwise_right_shift": "__rshift__ __irshift__",
    "bitwise_xor": "__xor__ __rxor__ __ixor__",
    "div": "__div__ __truediv__ __idiv__ __itruediv__",
    "floor_divide": "__floordiv__ __ifloordiv__",
    "mul": "__mul__ __rmul__ __imul__",
    "neg": "__neg__",
    "pow": "__pow__ __ipow__",
    "remainder": "__mod__ __imod__",
    "sub": "__sub__ __isub__",
}

#: The parameters of those whose result does not depend on all of them.
_SIGNATURES = {
    "nan_to_num": "input, nan=None, posinf=None, neginf=None",
    "round": "input, *, decimals=0",
}

_EFFECTS = {
    **dict.fromkeys(("floor_divide", "fmod", "remainder", "__rfloordiv__", "__rmod__"), DIVIDES),
    "div": Effects(divides=True, given="rounding_mode"),
}

#: Methods that take their operands in the other order.
_REFLECTED: dict[str, Rule] = {
    "__rtruediv__ __rdiv__": _divide,
    "__rfloordiv__": binary(same),
    "__rmod__": binary(same),
    "__rlshift__ __rrshift__": binary(same),
    "__rpow__": _power(same),
    "__rsub__": binary(same),
}


def _row(names: str, rule: Rule) -> Op:
    name, *aliases = names.split()
    return pointwise_row(
        name,
        rule,
        *aliases,
        methods=_METHODS.get(name, "").split(),
        signature=_SIGNATURES.get(name),
        effects=_EFFECTS.get(name, PURE),
    )


ROWS = (
    *(_row(names, unary(dtype)) for dtype, listed in _UNARY.items() for names in listed),
    *(_row(names, binary(same)) for names in _BINARY),
    _row("true_divide", binary(floating)),
    _row("add", _add),
    _row("sub subtract", _add),
    _row("div divide", _divide),
    _row("pow", _power(same)),
    _row("float_power", _power(widest)),
    _row("lerp", _lerp),
    _row("addcmul", _fused),
    _row("addcdiv", _fused),
    _row("clamp clip", _clamp),
    _row("clamp_min", _clamp_min),
    _row("clamp_max", _clamp_max),
    Op(
        "rsub",
        everywhere("rsub"),
        reflected(binary(same)),
        OpKind.POINTWISE,
        signature="input, other, alpha=1",
    ),
    Op("positive", (*everywhere("positive"), "torch.Tensor.__pos__"), _positive, OpKind.NOTHING),
    *(
        Op(
            methods.split()[0],
            tuple(f"torch.Tensor.{method}" for method in methods.split()),
            reflected(rule),
            OpKind.POINTWISE,
            effects=_EFFECTS.get(methods, PURE),
        )
        for methods, rule in _REFLECTED.items()
    ),
)


# -- native code ----------------------------------------------------------------------------------


@lower("float_power")
def lower_float_power(c: Lowering, input: Operand, exponent: Operand) -> Value:
    def widest(operand: Operand) -> Operand:
        return as_dtype(c, operand, "f64") if isinstance(operand, Value) else operand

    return lower_power(c, widest(input), widest(exponent))


def lower_shift(kind: str, c: Lowering, input: Operand, other: Operand) -> Value:
    if common_dtype((input, other)) in (*FLOATS, "b1"):
        raise NotLowered("only integers are shifted")
    return elementwise(c, operation(kind), input, other, wraps=True)


lower("bitwise_left_shift")(partial(lower_shift, "shl"))
lower("bitwise_right_shift")(partial(lower_shift, "shr"))


# -- one operand: the same dtype -------------------------------------------------------------------


@lower("neg")
def lower_neg(c: Lowering, input: Value) -> Value:
    if input.dtype == "b1":
        raise NotLowered("booleans have no sign")
    return elementwise(c, operation("neg"), input)


@lower("abs")
def lower_absolute(c: Lowering, input: Value) -> Value:
    return input if input.dtype in ("b1", "u8") else elementwise(c, operation("abs"), input)


@lower("square")
def lower_square(c: Lowering, input: Value) -> Value:
    dtype: Dtype = "i64" if input.dtype == "b1" else input.dtype
    return elementwise(c, lambda x: op("mul", x, x), input, takes=dtype)


@lower("sign", "sgn")
def lower_sign(c: Lowering, input: Value) -> Value:
    if input.dtype == "b1":
        return input
    return elementwise(c, operation("sign"), input)


def lower_rounding(name: str, c: Lowering, input: Value) -> Value:
    """Integers are whole already."""
    return _rounded(c, name, input)


for _name in ["floor", "ceil", "trunc"]:
    lower(_name)(partial(lower_rounding, _name))


@lower("round")
def lower_round(c: Lowering, input: Value, *, decimals: int) -> Value:
    if type(decimals) is int and decimals == 0:
        return _rounded(c, "round", input)
    return _to_decimals(c, input, decimals)


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


@lower("frac")
def lower_frac(c: Lowering, input: Value) -> Value:
    if input.dtype not in FLOATS:
        raise NotLowered("integers have no fraction")
    return elementwise(c, lambda x: op("sub", x, op("trunc", x)), input)


@lower("bitwise_not")
def lower_bitwise_not(c: Lowering, input: Value) -> Value:
    if input.dtype in FLOATS:
        raise NotLowered("floats have no bits here")
    return elementwise(c, operation("not"), input)


def _factor(c: Lowering, factor: Any, dtype: Dtype) -> Operand:
    """A factor that torch takes as a number: it may be one that is computed, or a tensor that
    torch reads the number of."""
    if isinstance(factor, int | float):
        return factor
    if dtype not in ("f32", "f64"):
        raise NotLowered("a factor that is not a constant, of no floats or of 16-bit floats")
    if isinstance(factor, NumberRef | Expr):
        must_fit(c, factor, dtype)
        return factor
    if not isinstance(factor, Value) or factor.sizes or factor.dtype not in ("f32", "f64"):
        raise NotLowered("a factor that the dtype may not have")
    if factor.dtype != dtype and dtype == "f32":
        value_must_fit_f32(c, factor)
    return factor


def _scaled(factor: Sequence[Scalar], alpha: Any, other: Scalar) -> Scalar:
    if factor:
        return op("mul", other, factor[0])
    return other if alpha == 1 else op("mul", other, constant_like(alpha, other))


def additive_row(name: str, swapped: bool = False) -> None:
    """`input ± alpha * other`."""
    kind = "sub" if name != "add" else "add"

    @lower(name)
    def lowered(c: Lowering, input: Operand, other: Operand, *, alpha: Any) -> Value:
        dtype = common_dtype((input, other))
        alpha = _factor(c, alpha, dtype)
        if dtype == "b1":
            if name != "add" or alpha != 1:
                raise NotLowered("a difference of booleans")
            return elementwise(c, operation("or"), input, other, wraps=True)
        if dtype not in FLOATS and isinstance(alpha, float):
            raise NotLowered("a fractional factor of integers")
        if dtype in HALVES and alpha != 1:
            raise NotLowered("a factor of 16-bit floats, which torch rounds on the way")

        def compute(a: Scalar, b: Scalar, *factor: Scalar) -> Scalar:
            if swapped:
                a, b = b, a
            return op(kind, a, _scaled(factor, alpha, b))

        factor = () if isinstance(alpha, int | float) else (alpha,)
        exact = in_full_on_gpus(c)
        return elementwise(c, compute, input, other, *factor, takes=dtype, wraps=True, exact=exact)


additive_row("add")
additive_row("sub")
additive_row("rsub", swapped=True)


@lower("__rsub__")
def lower_rsub(c: Lowering, input: Value, other: Operand) -> Value:
    return NATIVE["rsub"](c, input, other, alpha=1)


@lower("mul")
def lower_mul(c: Lowering, input: Operand, other: Operand) -> Value:
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
            cost=2,
            wraps=True,
            exact=(1,),
        )
    if dtype not in FLOATS:
        # By zero it is an error, which has to be the one that torch raises.
        raise NotLowered("division of integers")
    if dtype in HALVES and isinstance(input, Value) and isinstance(other, Value):
        # Torch rounds on the way, though not with a number.
        raise NotLowered("whole quotients of 16-bit floats")
    if mode == "trunc":
        return elementwise(
            *(c, lambda a, b: op("trunc", op("div", a, b)), input, other),
            cost=3,
            wraps=True,
            exact=(1,),
        )
    return elementwise(c, floor_quotient, input, other, cost=8, wraps=True, exact=(1,))


@lower("div")
def lower_div(c: Lowering, input: Operand, other: Operand, *, rounding_mode: str | None) -> Value:
    whole = {"trunc": "truncdiv", "floor": "floordiv"}.get(rounding_mode or "")
    made = None if whole is None else integer_by_number(c, whole, input, other)
    return made or _quotient(c, input, other, rounding_mode)


@lower("true_divide")
def lower_true_divide(c: Lowering, input: Operand, other: Operand) -> Value:
    return _quotient(c, input, other, None)


@lower("__rtruediv__")
def lower_rtruediv(c: Lowering, input: Value, other: Operand) -> Value:
    """Two operations, as torch does it: what is below one part of the largest number has an inverse
    that is infinite."""
    inverse = NATIVE["reciprocal"](c, input)
    return lower_mul(c, inverse, other)


@lower("floor_divide")
def lower_floor_divide(c: Lowering, input: Operand, other: Operand) -> Value:
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


@lower("__rfloordiv__")
def lower_reflected_floor_divide(c: Lowering, input: Value, other: Operand) -> Value:
    return lower_floor_divide(c, other, input)


@lower("__rmod__")
def lower_reflected_remainder(c: Lowering, input: Value, other: Operand) -> Value:
    return lower_remainder(c, other, input)


@lower("remainder")
def lower_remainder(c: Lowering, input: Operand, other: Operand) -> Value:
    return integer_by_number(c, "floormod", input, other) or _float_only(
        c, "remainder", input, other
    )


@lower("fmod")
def lower_fmod(c: Lowering, input: Operand, other: Operand) -> Value:
    return integer_by_number(c, "truncmod", input, other) or _float_only(c, "fmod", input, other)


def _float_only(c: Lowering, name: str, input: Operand, other: Operand) -> Value:
    if common_dtype((input, other)) not in FLOATS:
        raise NotLowered("division of integers")
    return elementwise(c, operation(name), input, other, cost=8, wraps=True)


def lower_extremum(name: str, of_bools: str, c: Lowering, input: Value, other: Value) -> Value:
    dtype = common_dtype((input, other))
    kind = of_bools if dtype == "b1" else name
    if kind in ("fmin", "fmax") and dtype not in FLOATS:
        kind = "minimum" if kind == "fmin" else "maximum"
    return elementwise(c, operation(kind), input, other)


lower("maximum")(partial(lower_extremum, "maximum", "or"))
lower("minimum")(partial(lower_extremum, "minimum", "and"))
lower("fmax")(partial(lower_extremum, "fmax", "or"))
lower("fmin")(partial(lower_extremum, "fmin", "and"))


def lower_bitwise(name: str, c: Lowering, input: Operand, other: Operand) -> Value:
    if common_dtype((input, other)) in FLOATS:
        raise NotLowered("floats have no bits here")
    return elementwise(c, operation(name), input, other, wraps=True)


for _name in ["and", "or", "xor"]:
    lower(f"bitwise_{_name}")(partial(lower_bitwise, _name))


@lower("pow")
def lower_power(c: Lowering, input: Operand, exponent: Operand) -> Value:
    dtype = common_dtype((input, exponent))
    if type(exponent) in (int, float) and isinstance(input, Value):
        found = _POWERS.get(exponent)  # pyright: ignore[reportArgumentType] a number
        if dtype == "f16" and exponent in (0.5, -0.5):
            # Only here eager takes no root: -inf to the power of 0.5 is inf.
            found = None
        if dtype == "bf16" and exponent in (3, -2):
            # Rounded after each step, unlike those of f16.
            twice = elementwise(c, _POWERS[2], input, takes=dtype)
            return lower_mul(c, twice, input) if exponent == 3 else NATIVE["reciprocal"](c, twice)
        if found is not None and (dtype in FLOATS or exponent in (1, 2, 3)) and dtype != "b1":
            return elementwise(c, found, input, takes=dtype, cost=2)
    if dtype not in FLOATS:
        raise NotLowered("powers of integers")
    wraps = dtype not in HALVES
    compute = operation("pow")
    return elementwise(c, compute, input, exponent, takes=dtype, cost=12, wraps=wraps)


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


@lower("__rpow__")
def lower_rpow(c: Lowering, input: Operand, other: Operand) -> Value:
    return lower_power(c, other, input)


# -- several operands ------------------------------------------------------------------------------


@lower("lerp")
def lower_lerp(c: Lowering, input: Value, end: Value, weight: Operand) -> Value:
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
    return elementwise(c, compute, input, end, weight, takes=dtype, cost=6, exact=exact)


def lower_fused(
    inner: str, c: Lowering, input: Value, tensor1: Value, tensor2: Value, *, value: Any
) -> Value:
    """`input + value * (tensor1 ∘ tensor2)`."""
    dtype = common_dtype((input, tensor1, tensor2))
    if dtype not in FLOATS:
        raise NotLowered("no floats")
    value = _factor(c, value, dtype)

    def compute(a: Scalar, b: Scalar, d: Scalar, *factor: Scalar) -> Scalar:
        by = factor[0] if factor else constant_like(value, a)
        if inner == "div":
            return op("add", a, op("mul", by, op("div", b, d)))
        scaled = b if not factor and value == 1 else op("mul", by, b)
        return op("add", a, op("mul", scaled, d))

    factor = () if isinstance(value, int | float) else (value,)
    return elementwise(c, compute, input, tensor1, tensor2, *factor, takes=dtype, cost=3)


lower("addcmul")(partial(lower_fused, "mul"))
lower("addcdiv")(partial(lower_fused, "div"))


def _clamped(c: Lowering, input: Value, low: Operand | None, high: Operand | None) -> Value:
    bounds = [bound for bound in (low, high) if bound is not None]
    dtype = common_dtype((input, *bounds))
    if dtype == "b1":
        raise NotLowered("booleans between bounds")
    if any(isinstance(bound, float) and math.isnan(bound) for bound in bounds):
        raise NotLowered("a bound that is no number")

    def compute(x: Scalar, *limits: Scalar) -> Scalar:
        left = list(limits)
        # Of two zeros it is the second one that stays, and with it the sign of the element.
        if low is not None:
            x = op("maximum", left.pop(0), x)
        if high is not None:
            x = op("minimum", left.pop(0), x)
        return x

    return elementwise(c, compute, input, *bounds, cost=2)


@lower("clamp")
def lower_clamp(c: Lowering, input: Value, min: Operand | None, max: Operand | None) -> Value:
    return _clamped(c, input, min, max)


@lower("clamp_min")
def lower_clamp_min(c: Lowering, input: Value, min: Operand) -> Value:
    return _clamped(c, input, min, None)


@lower("clamp_max")
def lower_clamp_max(c: Lowering, input: Value, max: Operand) -> Value:
    return _clamped(c, input, None, max)


@lower("nan_to_num")
def lower_nan_to_num(c: Lowering, input: Value, nan: Any, posinf: Any, neginf: Any) -> Value:
    if input.dtype not in FLOATS:
        return input
    largest = torch.finfo(TORCH_DTYPES[input.dtype]).max
    values = (
        0.0 if nan is None else nan,
        largest if posinf is None else posinf,
        -largest if neginf is None else neginf,
    )
    if not all(isinstance(value, int | float) for value in values):
        raise NotLowered("a number that is not a constant")

    def compute(x: Scalar) -> Scalar:
        nan_, high, low = (constant_like(value, x) for value in values)
        x_high = test("eq", x, constant_like(math.inf, x))
        x_low = test("eq", x, constant_like(-math.inf, x))
        return where(test("isnan", x), nan_, where(x_high, high, where(x_low, low, x)))

    return elementwise(c, compute, input, cost=4)


lower_view("positive")(lower_itself)


# -- gradients ------------------------------------------------------------------------------------


@gradient("add", "sub")
def gradient_of_sum(grad: Term, result: Term, old: Any, alpha: Any, function: Any) -> Gradients:
    if old:
        raise NoGradient("a deprecated form")
    scaled = grad if type(alpha) is int and alpha == 1 else grad * alpha
    return {"input": grad, "other": -scaled if function == "sub" else scaled}


@gradient("rsub")
def gradient_rsub(grad: Term, alpha: Any) -> Gradients:
    scaled = grad if type(alpha) is int and alpha == 1 else grad * alpha
    return {"input": -scaled, "other": grad}


@gradient("mul")
def gradient_mul(grad: Term, input: Any, other: Any) -> Gradients:
    return {"input": grad * other, "other": grad * input}


@gradient("__rsub__")
def gradient_reflected_sub(grad: Term) -> Gradients:
    return {"input": -grad, "other": grad}


@gradient("div", "true_divide")
def gradient_div(grad: Term, result: Term, other: Any, rounding_mode: Any = None) -> Gradients:
    if rounding_mode is not None:
        return {"input": zeros_like(grad), "other": zeros_like(grad)}
    own = grad / other
    return {"input": own, "other": -own * result if isinstance(other, Term) else None}


@gradient("neg")
def gradient_neg(grad: Term) -> Gradients:
    return {"input": -grad}


@gradient("pow")
def gradient_pow(grad: Term, result: Term, input: Any, exponent: Any) -> Gradients:
    if isinstance(exponent, Term):
        return _of_power(grad, result, input, exponent)
    if not isinstance(exponent, int | float):
        raise NoGradient("an exponent that is not a constant")
    if exponent == 0:
        return {"input": zeros_like(grad)}
    if exponent == 2:
        return {"input": grad * (input * 2.0)}
    return {"input": grad * (input ** (exponent - 1) * float(exponent))}


def _of_power(grad: Term, result: Term, input: Any, exponent: Term) -> Gradients:
    """A power of 0 does not change with its exponent, unless that is negative."""
    if isinstance(input, Term):
        own = grad * (exponent * input.pow(exponent - 1))
        slope = grad * (result * input.log())
        constant = input.eq(0).logical_and(exponent >= 0)
        return {
            "input": own.masked_fill(exponent.eq(0), 0.0),
            "exponent": slope.masked_fill(constant, 0.0),
        }
    if not isinstance(input, int | float):
        raise NoGradient("a base that is not a constant")
    if input == 0:
        slope = (grad * (result * -math.inf)).masked_fill(exponent >= 0, 0.0)
    else:
        slope = grad * (result * (math.log(input) if input > 0 else math.nan))
    return {"exponent": slope}


@made_of("float_power")
def parts_of_float_power(records: Records, input: Any, exponent: Any) -> Term:
    base, power = (each.double() if isinstance(each, Term) else each for each in (input, exponent))
    return records.record(torch.pow, base, power)


@made_of("__rpow__")
def parts_of_reflected_power(records: Records, input: Any, other: Any) -> Term:
    return records.record(torch.pow, other, input)


@made_of("__rtruediv__")
def parts_of_reflected_quotient(records: Records, input: Term, other: Any) -> Term:
    return input.reciprocal() * other


@gradient("fmod", "remainder")
def gradient_remainder(grad: Term, input: Any, other: Any, function: str) -> Gradients:
    if not isinstance(input, Term):
        raise NoGradient("what is left of a number, which torch has no gradient of")
    found: Gradients = {"input": grad}
    if isinstance(other, Term):
        mode = "trunc" if function == "fmod" else "floor"
        times = grad.records.record(torch.div, input, other, rounding_mode=mode)
        found["other"] = -grad * times
    return found


@gradient("ceil", "floor", "round", "sgn", "sign", "trunc")
def gradient_of_steps(grad: Term) -> Gradients:
    return {"input": zeros_like(grad)}


@gradient("frac", "positive")
def gradient_frac(grad: Term) -> Gradients:
    return {"input": grad}


@gradient("nan_to_num")
def gradient_nan_to_num(grad: Term, input: Term) -> Gradients:
    return {"input": grad * input.isfinite()}


@gradient("maximum", "minimum")
def gradient_maximum(grad: Term, input: Term, other: Term, function: str) -> Gradients:
    """Equal ones share it."""
    shared = (grad * 0.5).where(input.eq(other), grad)
    if function == "minimum":
        input, other = other, input
    found = shared.masked_fill(input < other, 0.0), shared.masked_fill(input > other, 0.0)
    return dict(zip(("input", "other"), found, strict=True))


@gradient("fmax", "fmin")
def gradient_fmax(grad: Term, input: Term, other: Term, function: str) -> Gradients:
    first = (input >= other if function == "fmax" else input <= other).logical_or(other.isnan())
    return {"input": grad.where(first, 0.0), "other": grad.masked_fill(first, 0.0)}


@gradient("lerp")
def gradient_lerp(grad: Term, input: Term, end: Term, weight: Any) -> Gradients:
    return {
        "input": grad * (1 - weight),
        "end": grad * weight,
        "weight": grad * (end - input) if isinstance(weight, Term) else None,
    }


@gradient("addcmul", "addcdiv")
def gradient_of_fused(
    grad: Term, tensor1: Any, tensor2: Any, old: Any, value: Any, function: str
) -> Gradients:
    if old or not isinstance(tensor1, Term) or not isinstance(tensor2, Term):
        raise NoGradient("a deprecated form")
    scaled = grad if type(value) is int and value == 1 else grad * value
    if function == "addcmul":
        return {"input": grad, "tensor1": scaled * tensor2, "tensor2": scaled * tensor1}
    square = tensor2 * tensor2
    return {
        "input": grad,
        "tensor1": scaled / tensor2,
        "tensor2": -scaled * (tensor1 / square),
    }


@gradient("square")
def gradient_square(grad: Term, input: Term) -> Gradients:
    return {"input": grad * (input * 2.0)}


@gradient("abs")
def gradient_abs(grad: Term, input: Term) -> Gradients:
    return {"input": grad * input.sign()}


@gradient("clamp")
def gradient_clamp(grad: Term, input: Term, min: Any, max: Any) -> Gradients:
    own, found = grad, Gradients()
    if min is not None:
        own = own.where(input >= min, 0.0)
    if max is not None:
        own = own.where(input <= max, 0.0)
    if isinstance(min, Term):
        below = input < min
        if max is not None:
            below = below.logical_and(min < max)
        found["min"] = grad.where(below, 0.0)
    if isinstance(max, Term):
        above = input > max
        if min is not None:
            above = above.logical_or(max < min)
        found["max"] = grad.where(above, 0.0)
    return {"input": own, **found}


@gradient("clamp_min")
def gradient_clamp_min(grad: Term, input: Term, min: Any) -> Gradients:
    return gradient_clamp(grad, input, min, None)


@gradient("clamp_max")
def gradient_clamp_max(grad: Term, input: Term, max: Any) -> Gradients:
    return gradient_clamp(grad, input, None, max)


# -- ONNX -----------------------------------------------------------------------------------------


def onnx_with_factor(kind: str, w: Writer, node: Node, input: Any, other: Any, alpha: Any) -> str:
    """`add` and `sub`."""
    return onnx_of_two(w, node, kind, input, other, alpha)


@onnx("rsub")
def onnx_subtracted_from(w: Writer, node: Node, input: Any, other: Any, alpha: Any) -> str:
    return onnx_of_two(w, node, "Sub", other, input, alpha)


def onnx_swap_operands(row: Row, w: Writer, node: Node, input: Any, other: Any) -> str:
    return row(w, node, other, input)


@onnx("true_divide")
def onnx_true_divide(w: Writer, node: Node, input: Any, other: Any) -> str:
    return onnx_divide(w, node, input, other, None)


@onnx("div")
def onnx_divide(w: Writer, node: Node, input: Any, other: Any, rounding_mode: str | None) -> str:
    if rounding_mode == "floor":
        return onnx_floor_divide(w, node, input, other)
    dtype = w.dtype(node)
    found = w.add("Div", [w.name(input, dtype), w.name(other, dtype)])
    if rounding_mode is None or not dtype.is_floating_point:
        return found  # integers are divided towards zero there
    # Towards zero: the sign, times the floor of what is left.
    floor = w.add("Floor", [w.add("Abs", [found])])
    return w.add("Mul", [w.add("Sign", [found]), floor])


@onnx("floor_divide")
def onnx_floor_divide(w: Writer, node: Node, input: Any, other: Any) -> str:
    dtype = w.dtype(node)
    left, right = w.name(input, dtype), w.name(other, dtype)
    if dtype.is_floating_point:
        return w.add("Floor", [w.add("Div", [left, right])])
    # Integers are divided towards zero there: only what divides is taken.
    rest = w.add("Mod", [left, right])
    return w.add("Div", [w.add("Sub", [left, rest]), right])


@onnx("remainder")
def onnx_remainder(w: Writer, node: Node, input: Any, other: Any) -> str:
    dtype = w.dtype(node)
    left, right = w.name(input, dtype), w.name(other, dtype)
    if not dtype.is_floating_point:
        return w.add("Mod", [left, right])
    whole = w.add("Floor", [w.add("Div", [left, right])])
    return w.add("Sub", [left, w.add("Mul", [whole, right])])


@onnx("pow")
def onnx_power(w: Writer, node: Node, input: Any, exponent: Any) -> str:
    return onnx_of_two(w, node, "Pow", input, exponent)


def onnx_logic(kind: str, w: Writer, node: Node, input: Any, other: Any) -> str:
    """Of truth values, or of the bits of integers."""
    name = kind if w.dtype(node) is torch.bool else f"Bitwise{kind}"
    return onnx_of_two(w, node, name, input, other)


@onnx("bitwise_not")
def onnx_invert(w: Writer, node: Node, input: Any) -> str:
    return w.add("Not" if w.dtype(input) is torch.bool else "BitwiseNot", [w.name(input)])


@onnx("clamp")
def onnx_clamp(w: Writer, node: Node, input: Any, min: Any, max: Any) -> str:
    dtype = w.dtype(node)
    found = w.name(input, dtype)
    if min is not None:
        found = w.add("Max", [found, w.name(min, dtype)])
    return found if max is None else w.add("Min", [found, w.name(max, dtype)])


@onnx("clamp_min")
def onnx_clamp_min(w: Writer, node: Node, input: Any, min: Any) -> str:
    return onnx_clamp(w, node, input, min, None)


@onnx("clamp_max")
def onnx_clamp_max(w: Writer, node: Node, input: Any, max: Any) -> str:
    return onnx_clamp(w, node, input, None, max)


onnx_rows(
    {kind.lower(): onnx_unary(kind) for kind in ("Abs", "Neg", "Floor", "Ceil", "Round", "Sign")}
)

onnx_rows(
    {
        "add": partial(onnx_with_factor, "Add"),
        "sub": partial(onnx_with_factor, "Sub"),
        "mul": partial(onnx_binary, "Mul"),
        "maximum": partial(onnx_binary, "Max"),
        "minimum": partial(onnx_binary, "Min"),
        "__rsub__": partial(onnx_swap_operands, partial(onnx_binary, "Sub")),
        "__rtruediv__": partial(onnx_swap_operands, onnx_true_divide),
        "__rpow__": partial(onnx_swap_operands, onnx_power),
        "__rfloordiv__": partial(onnx_swap_operands, onnx_floor_divide),
        "bitwise_and": partial(onnx_logic, "And"),
        "bitwise_or": partial(onnx_logic, "Or"),
        "bitwise_xor": partial(onnx_logic, "Xor"),
        "positive": onnx_same,
    }
)
