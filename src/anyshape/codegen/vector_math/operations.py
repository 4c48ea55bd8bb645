"""The operations that bodies are written with: one instruction each, or a few."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from anyshape.codegen.vector_math.builder import (
    BITS_OF,
    FORMATS,
    Operand,
    VectorValue,
    bits_of,
    first_of,
)


def _intrinsic(name: str, *operands: Operand) -> VectorValue:
    first = first_of(*operands)
    values = (first.body.value(operand, first.kind) for operand in operands)
    return first.body.intrinsic(name, *values)


def fma(a: Operand, b: Operand, c: Operand) -> VectorValue:
    """`a * b + c`, rounded once."""
    return _intrinsic("fma", a, b, c)


sqrt = partial(_intrinsic, "sqrt")
absolute = partial(_intrinsic, "fabs")
floor = partial(_intrinsic, "floor")
truncate = partial(_intrinsic, "trunc")
round_even = partial(_intrinsic, "roundeven")
#: (magnitude, sign)
copysign = partial(_intrinsic, "copysign")
#: The other one, of NaN.
lesser = partial(_intrinsic, "minnum")


def select(condition: VectorValue, yes: Operand, no: Operand) -> VectorValue:
    body, kind = condition.body, first_of(yes, no).kind
    yes, no = body.value(yes, kind), body.value(no, kind)
    assert yes.kind == no.kind, f"select of {yes.kind} and {no.kind}"
    choice = f"select {body.typed(condition)}, {body.typed(yes)}, {body.typed(no)}"
    return body.line(yes.kind, choice)


def either(condition: VectorValue, yes: float, no: float, like: VectorValue) -> VectorValue:
    """One of two constants."""
    return select(condition, like.body.number(like.kind, yes), no)


def at_most(x: VectorValue, bound: float) -> VectorValue:
    """`min(x, bound)`; NaN stays NaN."""
    return select(x > bound, bound, x)


def at_least(x: VectorValue, bound: float) -> VectorValue:
    """`max(x, bound)`; NaN stays NaN."""
    return select(x < bound, bound, x)


def between(x: VectorValue, low: float, high: float) -> VectorValue:
    return at_least(at_most(x, high), low)


def bits(x: VectorValue) -> VectorValue:
    """The bit pattern of a float."""
    return x.body.convert("bitcast", x, BITS_OF[x.kind])


def from_bits(pattern: VectorValue) -> VectorValue:
    """The float of a bit pattern."""
    return pattern.body.convert("bitcast", pattern, {"i32": "f32", "i64": "f64"}[pattern.kind])


def sign_bit(x: VectorValue) -> VectorValue:
    """The bit pattern of `x` with all but the sign cleared."""
    return bits(x) & bits_of(x.kind, -0.0)


def flip_sign(x: VectorValue, sign: VectorValue) -> VectorValue:
    """`x`, negated where the top bit of the pattern `sign` (no other is set) is set."""
    return from_bits(bits(x) ^ sign)


def to_float(integer: VectorValue) -> VectorValue:
    kind = {"i32": "f32", "i64": "f64"}[integer.kind]
    return integer.body.convert("sitofp", integer, kind)


def widen(x: VectorValue) -> VectorValue:
    """float32 as float64, exactly."""
    return x.body.convert("fpext", x, "f64")


def narrow(x: VectorValue) -> VectorValue:
    return x.body.convert("fptrunc", x, "f32")


def narrow_integer(integer: VectorValue) -> VectorValue:
    """The low half of an i64."""
    return integer.body.convert("trunc", integer, "i32")


def polynomial(x: VectorValue, coefficients: Sequence[float]) -> VectorValue:
    """The constant term comes first.

    By Estrin's scheme: neighbours are paired until one is left. Horner's rule needs a few products
    less, but is one long chain of dependent instructions, behind which a processor cannot see the
    next vector. The constant comes in last, so that the sum is rounded but once.
    """
    constant, *rest = coefficients
    terms: list[Operand] = list(rest)
    power = x
    while len(terms) > 1:
        pairs = [fma(power, terms[i + 1], terms[i]) for i in range(0, len(terms) - 1, 2)]
        terms = [*pairs, *terms[len(pairs) * 2 :]]
        power = power * power if len(terms) > 1 else power
    return fma(x, terms[0], constant)


def horner(x: VectorValue, coefficients: Sequence[float]) -> VectorValue:
    """The same by Horner's rule: for |x| above 1, whose powers would magnify rounding."""
    *lower, last = coefficients
    total = x.body.number(x.kind, last)
    for coefficient in reversed(lower):
        total = fma(total, x, coefficient)
    return total


def even_and_odd(x: VectorValue, coefficients: Sequence[float]) -> VectorValue:
    """The same by Horner's rule for the even and the odd terms: two chains, one product more."""
    square = x * x
    even = horner(square, coefficients[::2])
    return fma(x, horner(square, coefficients[1::2]), even)


def power_of_two(exponent: VectorValue) -> VectorValue:
    """`2 ** exponent` of an integer between those of the smallest and the largest normal float."""
    layout = FORMATS["f32" if exponent.kind == "i32" else "f64"]
    return from_bits((exponent + layout.bias) << layout.mantissa)


def nearest_integer(x: VectorValue, scale: float) -> tuple[VectorValue, VectorValue]:
    """`round(x * scale)` as a float and as an integer, for results below 2**22 (2**51).

    Adding 1.5 * 2**mantissa leaves the integer in the low bits of the sum: two instructions,
    where a rounding and a conversion would cost more on every machine.
    """
    magic = 1.5 * 2.0 ** FORMATS[x.kind].mantissa
    sum_ = fma(x, scale, magic)
    return sum_ - magic, bits(sum_) - bits_of(x.kind, magic)


def power_of_product(
    x: VectorValue, factor: Operand, more: int = 0
) -> tuple[VectorValue, VectorValue, VectorValue]:
    """(n, r, power): x * factor = n + r with n whole and |r| <= 1/2; power = 2**(n + more).

    The product is not rounded. With the bias in the added number as well, the low bits of the sum
    are the exponent of the power: one shift makes it. One less than the exponent of the least
    normal float makes 0.
    """
    layout = FORMATS[x.kind]
    magic = 1.5 * 2.0**layout.mantissa + layout.bias + more
    sum_ = fma(x, factor, magic)
    n = sum_ - magic
    return n, fma(x, factor, -n), from_bits(bits(sum_) << layout.mantissa)


def estimated_inverse(x: VectorValue) -> VectorValue:
    """1 / x, where the machine has an estimate of it: that, after one step of Newton's by LLVM.

    The estimate may have but 11 bits, so one more step is up to the caller. x may be NaN, but not
    infinite, and neither x nor the result 0 or denormal.
    """
    if x.body.on_gpu and x.kind == "f32":
        return x.body.by_lanes("rcp.approx.ftz.f32", x)
    one = x.body.number(x.kind, 1.0)
    return x.body.line(x.kind, f"fdiv arcp ninf contract {x.body.typed(one)}, {x.text}")


def inverse(x: VectorValue) -> VectorValue:
    """1 / x, as good as a division but faster; the limits are those of `estimated_inverse`."""
    if x.kind == "f64":
        return 1.0 / x
    estimate = estimated_inverse(x)
    return fma(fma(-x, estimate, 1.0), estimate, estimate)


def quotient(top: VectorValue, bottom: VectorValue) -> VectorValue:
    """top / bottom, likewise."""
    if top.kind == "f64":
        return top / bottom
    estimate = estimated_inverse(bottom)
    result = top * estimate
    return fma(fma(-result, bottom, top), estimate, result)


def is_usual(x: VectorValue) -> VectorValue:
    """Neither 0 nor denormal, negative, infinite or NaN."""
    return (x >= FORMATS[x.kind].smallest_normal) & (x < math.inf)


def two_sum(a: VectorValue, b: Operand) -> tuple[VectorValue, VectorValue]:
    """`a + b` and its rounding error, for any a and b."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def fast_two_sum(a: VectorValue | float, b: VectorValue) -> tuple[VectorValue, VectorValue]:
    """`a + b` and its rounding error, for |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


def two_product(a: VectorValue, b: Operand) -> tuple[VectorValue, VectorValue]:
    """`a * b` and its rounding error."""
    product = a * b
    return product, fma(a, b, -product)


def cold_branch(
    condition: VectorValue, usual: VectorValue, rare: Callable[[], VectorValue]
) -> VectorValue:
    """`select(condition, rare(), usual)`, where `rare` costs nothing if no lane needs it."""
    body = usual.body
    here, there = body.here, body.new("rare")
    after = there.replace("rare", "join")
    body.do(f"br i1 {body.any_lane(condition).text}, label {there}, label {after}")
    outside = dict(body.emitted)
    body.label(there)
    mended = select(condition, rare(), usual)
    last = body.here
    body.do(f"br label {after}")
    body.emitted = outside  # What the rare block computed is not defined after it.
    body.label(after)
    joined = f"phi {body.type(usual.kind)} [ {usual.text}, {here} ], [ {mended.text}, {last} ]"
    return body.line(usual.kind, joined)


def repeated(
    states: Sequence[VectorValue],
    step: Callable[[Sequence[VectorValue]], tuple[Sequence[VectorValue], VectorValue]],
) -> Sequence[VectorValue]:
    """The states after a first step, and as long as its condition holds in some lane."""
    body = states[0].body
    before, again = body.here, body.new("again")
    after = again.replace("again", "after")
    body.do(f"br label {again}")
    body.label(again)
    heads: list[str] = []
    body.blocks.append(heads)
    inside = [VectorValue(body, state.kind, body.new()) for state in states]
    results, condition = step(inside)
    for own, first, result in zip(inside, states, results, strict=True):
        ways = f"[ {first.text}, {before} ], [ {result.text}, {body.here} ]"
        heads.append(f"  {own.text} = phi {body.type(own.kind)} {ways}")
    body.do(f"br i1 {body.any_lane(condition).text}, label {again}, label {after}")
    body.label(after)
    return results
