"""Functions of one number or two that are made of simpler ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from anyshape.graph.lowerings.pointwise import constant_like, mul, op, power, test, where
from anyshape.graph.lowerings.reductions import as_dtype
from anyshape.graph.lowerings.table import row
from anyshape.graph.lowerings.views import place
from anyshape.graph.pointwise_builder import (
    Compute,
    Operand,
    broadcast_index,
    cast,
    common_dtype,
    elementwise,
    float_dtype,
    operation,
)
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.ops.node_meta import CALL

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


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

    return elementwise(c, compute, x, y, takes=dtype, gives=dtype, cost=8)


@row("xlogy")
def xlogy(c: Lowering, input: Operand, other: Operand) -> Value:
    return x_log_y(c, input, other)


@row("xlog1py")
def xlog1py(c: Lowering, input: Operand, other: Operand) -> Value:
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


def _float_only(name: str, compute: Compute, cost: int = 8) -> None:
    @row(name)
    def lowered(c: Lowering, input: Value, other: Value) -> Value:
        dtype = common_dtype((input, other))
        if dtype not in FLOATS:
            raise NotLowered("of integers")
        return elementwise(c, compute, input, other, cost=cost)


_float_only("logaddexp", _log_of_sum("exp", 1))
_float_only("logaddexp2", _log_of_sum("exp2", 1 / math.log(2)))


@row("hypot")
def hypot(c: Lowering, input: Value, other: Value) -> Value:
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


@row("heaviside")
def heaviside(c: Lowering, input: Value, values: Value) -> Value:
    if input.dtype != values.dtype or input.dtype == "b1":
        raise NotLowered("two dtypes, or booleans")

    def compute(x: Scalar, at_zero: Scalar) -> Scalar:
        zero = constant_like(0, x)
        step = where(test("gt", x, zero), constant_like(1, x), zero)
        return where(test("eq", x, zero), at_zero, step)

    return elementwise(c, compute, input, values, cost=2)


@row("sinc")
def sinc(c: Lowering, input: Value) -> Value:
    dtype = float_dtype(input.dtype)

    def compute(x: Scalar) -> Scalar:
        turned = op("mul", x, constant_like(math.pi, x))
        ratio = op("div", op("sin", turned), turned)
        return where(test("eq", x, constant_like(0, x)), constant_like(1, x), ratio)

    return elementwise(c, compute, input, takes=dtype, gives=dtype, cost=6)


@row("logit")
def logit(c: Lowering, input: Value, eps: Any) -> Value:
    dtype = float_dtype(input.dtype)
    if eps is not None and not isinstance(eps, int | float):
        raise NotLowered("a number that is computed")

    def compute(x: Scalar) -> Scalar:
        one = constant_like(1, x)
        if eps is not None:
            low = constant_like(eps, x)
            high = op("sub", one, low)
            above = where(test("gt", x, high), high, x)
            x = where(test("lt", x, low), low, above)
        return op("log", op("div", x, op("sub", one, x)))

    return elementwise(c, compute, input, takes=dtype, gives=dtype, cost=6)


@row("entr")
def entr(c: Lowering, input: Value) -> Value:
    dtype = float_dtype(input.dtype)

    def compute(x: Scalar) -> Scalar:
        zero = constant_like(0, x)
        inside = op("mul", op("neg", x), op("log", x))
        least = where(test("eq", x, zero), zero, constant_like(-math.inf, x))
        return where(test("isnan", x), x, where(test("gt", x, zero), inside, least))

    return elementwise(c, compute, input, takes=dtype, gives=dtype, cost=6)


@row("ldexp")
def ldexp(c: Lowering, input: Value, other: Operand) -> Value:
    return mul(c, input, power(c, 2.0, other))


@row("float_power")
def float_power(c: Lowering, input: Operand, exponent: Operand) -> Value:
    def widest(operand: Operand) -> Operand:
        return as_dtype(c, operand, "f64") if isinstance(operand, Value) else operand

    return power(c, widest(input), widest(exponent))


@row("isreal")
def isreal(c: Lowering, input: Value) -> Value:
    yes = expr.constant(True, "b1")
    return elementwise(c, lambda _: yes, input, takes=input.dtype, gives="b1", cost=0)


def _shift_row(name: str, kind: str) -> None:
    @row(name)
    def lowered(c: Lowering, input: Operand, other: Operand) -> Value:
        if common_dtype((input, other)) in (*FLOATS, "b1"):
            raise NotLowered("only integers are shifted")
        return elementwise(c, operation(kind), input, other, wraps=True)


_shift_row("bitwise_left_shift", "shl")
_shift_row("bitwise_right_shift", "shr")


@row("isclose")
def isclose(
    c: Lowering,
    input: Value,
    other: Value,
    rtol: Any,
    atol: Any,
    equal_nan: bool,
) -> Value:
    if input.dtype not in FLOATS or input.dtype in HALVES or input.dtype != other.dtype:
        raise NotLowered("rounded distances")
    if not isinstance(rtol, int | float) or not isinstance(atol, int | float):
        raise NotLowered("a tolerance that is computed")

    def compute(a: Scalar, b: Scalar) -> Scalar:
        close = test("eq", a, b)
        if equal_nan:
            close = test("or", close, test("and", test("isnan", a), test("isnan", b)))
        if rtol == 0 and atol == 0:
            return close
        allowed = op("add", constant_like(atol, a), op("abs", op("mul", constant_like(rtol, b), b)))
        away = op("abs", op("sub", a, b))
        near = test("and", test("isfinite", away), test("le", away, allowed))
        return test("or", close, near)

    return elementwise(c, compute, input, other, takes=input.dtype, gives="b1", cost=6)


@row("linalg.cross")
def cross(c: Lowering, input: Value, other: Value, dim: Any) -> Value:
    """Along the last dimension, or in `torch.cross` along the first that has three elements."""
    rank, dtype = len(c.result.shape), common_dtype((input, other))
    if dtype in HALVES or dtype == "b1":
        raise NotLowered("of two bytes, which torch rounds on the way")
    if dim is None:
        if c.node.meta[CALL].function is not torch.linalg.cross:
            raise NotLowered("the dimension depends on the sizes")
        dim = -1
    along = place(dim, rank)
    whole = c.result.shape

    def component(number: int) -> Value:
        def at(index: Index) -> Scalar:
            def part(of: Value, ahead: int) -> Scalar:
                there = (*index[:along], (number + ahead) % 3, *index[along + 1 :])
                return cast(of.at(broadcast_index(of.sizes, whole, there)), dtype)

            forth = op("mul", part(input, 1), part(other, 2))
            return op("sub", forth, op("mul", part(input, 2), part(other, 1)))

        sizes = (*whole[:along], 1, *whole[along + 1 :])
        return c.values.new(sizes, dtype, at, (input, other), cost=3)

    for each in (input, other):
        c.materialize_if_expensive(each, 4)
    return c.joined([component(number) for number in range(3)], along, whole, c.result)


# -- each with each -------------------------------------------------------------------------------


def each_with_each(c: Lowering, first: Value, second: Value) -> tuple[Value, Value]:
    """Two vectors as a column and a row."""
    column = c.values.new(
        (first.sizes[0], 1), first.dtype, lambda index: first.at((index[0],)), (first,)
    )
    line = c.values.new(
        (1, second.sizes[0]), second.dtype, lambda index: second.at((index[1],)), (second,)
    )
    return column, line


@row("outer")
def outer(c: Lowering, input: Value, vec2: Value) -> Value:
    return mul(c, *each_with_each(c, input, vec2))


@row("addr")
def addr(c: Lowering, input: Value, vec1: Value, vec2: Value, *, beta: Any, alpha: Any) -> Value:
    dtype = common_dtype((input, vec1, vec2))
    if dtype not in FLOATS or dtype in HALVES or not isinstance(beta, int | float):
        # Torch rounds floats of two bytes on the way.
        raise NotLowered("of integers, of two bytes, or a factor that is computed")
    if not isinstance(alpha, int | float):
        raise NotLowered("a factor that is computed")

    def product(a: Scalar, b: Scalar) -> Scalar:
        return op("mul", op("mul", constant_like(alpha, a), a), b)

    def compute(x: Scalar, a: Scalar, b: Scalar) -> Scalar:
        return op("add", op("mul", constant_like(beta, x), x), product(a, b))

    column, line = each_with_each(c, vec1, vec2)
    if beta == 0:
        return elementwise(c, product, column, line, takes=dtype, gives=dtype, cost=2)
    return elementwise(c, compute, input, column, line, takes=dtype, gives=dtype, cost=4)
