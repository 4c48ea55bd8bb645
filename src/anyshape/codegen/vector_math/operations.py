"""The operations that bodies are written with: one instruction each, or a few."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyshape.codegen.vector_math.builder import (
    BITS_OF,
    FORMATS,
    Operand,
    Value,
    bits_of,
    body_of,
    kind_of,
)


def _intrinsic(name: str, *operands: Operand) -> Value:
    body, kind = body_of(*operands), kind_of(*operands)
    return body.intrinsic(name, *(body.value(operand, kind) for operand in operands))


def fma(a: Operand, b: Operand, c: Operand) -> Value:
    """`a * b + c`, rounded once."""
    return _intrinsic("fma", a, b, c)


def sqrt(x: Value) -> Value:
    return _intrinsic("sqrt", x)


def absolute(x: Value) -> Value:
    return _intrinsic("fabs", x)


def floor(x: Value) -> Value:
    return _intrinsic("floor", x)


def truncate(x: Value) -> Value:
    return _intrinsic("trunc", x)


def round_even(x: Value) -> Value:
    return _intrinsic("roundeven", x)


def copysign(magnitude: Operand, sign: Operand) -> Value:
    return _intrinsic("copysign", magnitude, sign)


def select(condition: Value, yes: Operand, no: Operand) -> Value:
    body, kind = condition.body, kind_of(yes, no)
    yes, no = body.value(yes, kind), body.value(no, kind)
    assert yes.kind == no.kind, f"select of {yes.kind} and {no.kind}"
    choice = f"select {body.typed(condition)}, {body.typed(yes)}, {body.typed(no)}"
    return body.line(yes.kind, choice)


def either(condition: Value, yes: float, no: float, like: Value) -> Value:
    """One of two constants."""
    return select(condition, like.body.number(like.kind, yes), no)


def at_most(x: Value, bound: float) -> Value:
    """`min(x, bound)`; NaN stays NaN."""
    return select(x > bound, bound, x)


def at_least(x: Value, bound: float) -> Value:
    """`max(x, bound)`; NaN stays NaN."""
    return select(x < bound, bound, x)


def is_nan(x: Value) -> Value:
    return x.differs(x)


def bits(x: Value) -> Value:
    """The bit pattern of a float."""
    return x.body.convert("bitcast", x, BITS_OF[x.kind])


def from_bits(pattern: Value) -> Value:
    """The float of a bit pattern."""
    return pattern.body.convert("bitcast", pattern, {"i32": "f32", "i64": "f64"}[pattern.kind])


def sign_bit(x: Value) -> Value:
    """The bit pattern of `x` with all but the sign cleared."""
    return bits(x) & bits_of(x.kind, -0.0)


def flip_sign(x: Value, sign: Value) -> Value:
    """`x`, negated where the top bit of the pattern `sign` (no other is set) is set."""
    return from_bits(bits(x) ^ sign)


def to_float(integer: Value) -> Value:
    kind = {"i32": "f32", "i64": "f64"}[integer.kind]
    return integer.body.convert("sitofp", integer, kind)


def widen(x: Value) -> Value:
    """float32 as float64, exactly."""
    return x.body.convert("fpext", x, "f64")


def narrow(x: Value) -> Value:
    return x.body.convert("fptrunc", x, "f32")


def narrow_integer(integer: Value) -> Value:
    """The low half of an i64."""
    return integer.body.convert("trunc", integer, "i32")


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
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


def horner(x: Value, coefficients: Sequence[float]) -> Value:
    """The same by Horner's rule: for |x| above 1, whose powers would magnify rounding."""
    *lower, last = coefficients
    total = x.body.number(x.kind, last)
    for coefficient in reversed(lower):
        total = fma(total, x, coefficient)
    return total


def power_of_two(exponent: Value) -> Value:
    """`2 ** exponent` of an integer between those of the smallest and the largest normal float."""
    layout = FORMATS["f32" if exponent.kind == "i32" else "f64"]
    return from_bits((exponent + layout.bias) << layout.mantissa)


def nearest_integer(x: Value, scale: float) -> tuple[Value, Value]:
    """`round(x * scale)` as a float and as an integer, for results below 2**22 (2**51).

    Adding 1.5 * 2**mantissa leaves the integer in the low bits of the sum: two instructions,
    where a rounding and a conversion would cost more on every machine.
    """
    magic = 1.5 * 2.0 ** FORMATS[x.kind].mantissa
    sum_ = fma(x, scale, magic)
    return sum_ - magic, bits(sum_) - bits_of(x.kind, magic)


def two_sum(a: Value, b: Operand) -> tuple[Value, Value]:
    """`a + b` and its rounding error, for any a and b."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def fast_two_sum(a: Value | float, b: Value) -> tuple[Value, Value]:
    """`a + b` and its rounding error, for |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Value, b: Operand) -> tuple[Value, Value]:
    """`a * b` and its rounding error."""
    product = a * b
    return product, fma(a, b, -product)


def rarely(condition: Value, usual: Value, rare: Callable[[], Value]) -> Value:
    """`select(condition, rare(), usual)`, where `rare` costs nothing if no lane needs it."""
    body = usual.body
    body.count += 1
    here, there, after = body.block, f"rare{body.count}", f"join{body.count}"
    body.lines.append(f"  br i1 {body.any_lane(condition).text}, label %{there}, label %{after}")
    outside = dict(body.emitted)
    body.label(there)
    mended = select(condition, rare(), usual)
    last = body.block
    body.lines.append(f"  br label %{after}")
    body.emitted = outside  # What the rare block computed is not defined after it.
    body.label(after)
    joined = f"phi {body.type(usual.kind)} [ {usual.text}, %{here} ], [ {mended.text}, %{last} ]"
    return body.line(usual.kind, joined)
