"""exp and what is made of it: exp(x) = 2^n exp(r), |r| <= ln(2) / 2."""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import FORMATS, Value
from anyshape.codegen.vector_math.coefficients import POLYNOMIALS, SPLIT
from anyshape.codegen.vector_math.operations import (
    absolute,
    at_least,
    at_most,
    copysign,
    either,
    fast_two_sum,
    fma,
    nearest_integer,
    polynomial,
    power_of_two,
    rarely,
    select,
    two_product,
    two_sum,
)

# Beyond these, exp is 0 or infinite, and n would leave the range of `scaled`.
EXP_RANGE = {"f32": (-104.5, 89.0), "f64": (-746.0, 710.0)}
EXP2_RANGE = {"f32": (-151.0, 128.5), "f64": (-1076.0, 1024.5)}


def scaled(x: Value, n: Value) -> Value:
    """`x * 2**n`, rounded once, for n twice as far as the exponents of normal floats.

    Two factors: neither overflows nor is denormal, also where the result is. The first product is
    exact. NaN passes, which adding to the bits of x would not let it.
    """
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


def reduced(x: Value) -> tuple[Value, Value, Value]:
    """(n, r, error of r): x = n ln(2) + r."""
    ln2 = SPLIT["ln2", x.kind]
    n, integer = nearest_integer(x, SPLIT["log2e", x.kind][0])
    exact = fma(n, -ln2[0], x)
    r = fma(n, -ln2[1], exact)
    return integer, r, fma(n, -ln2[1], exact - r)


def exp_parts(x: Value) -> tuple[Value, Value]:
    """(e, n): exp(x) = 2^n (1 + e)."""
    n, r, _ = reduced(x)
    return fma(r * r, polynomial(r, POLYNOMIALS["exp", x.kind]), r), n


def exp_of_sum(x: Value, low: Value) -> tuple[Value, Value, Value]:
    """(r, q, n): exp(x + low) = 2^n (1 + r + q), with |q| well below |r|."""
    ln2 = SPLIT["ln2", x.kind]
    multiple, n = nearest_integer(x, SPLIT["log2e", x.kind][0])
    r, error = fast_two_sum(fma(multiple, -ln2[0], x), fma(multiple, -ln2[1], low))
    return r, fma(r * r, polynomial(r, POLYNOMIALS["exp", x.kind]), error), n


def clamped(x: Value) -> Value:
    low, high = EXP_RANGE[x.kind]
    return at_least(at_most(x, high), low)


#: Below, the result of exp is denormal or 0; and where it is 0.
EXP_NORMAL = {"f32": -86.0, "f64": -707.0}
EXP_ZERO = {"f32": -104.0, "f64": -745.2}


def exp(x: Value) -> Value:
    """Denormal results take a way of their own: a processor needs a hundred cycles for one. 0 does
    not, since softmax of a masked row is full of zeros."""
    low, high = EXP_NORMAL[x.kind], EXP_RANGE[x.kind][1]
    e, n = exp_parts(at_least(at_most(x, high), low))
    # One factor less in the exponent: 2^128 is no float, though the result below it may be one.
    usual = fma(e, 2.0, 2.0) * power_of_two(n - 1)
    usual = select(x < EXP_ZERO[x.kind], 0.0, usual)
    tiny = (x < low) & ~(x < EXP_ZERO[x.kind])
    return rarely(tiny, usual, lambda: x.body.call("exp_tiny", x))


def exp_tiny(x: Value) -> Value:
    e, n = exp_parts(clamped(x))
    return scaled(1.0 + e, n)


def exp2(x: Value) -> Value:
    low, high = EXP2_RANGE[x.kind]
    x = at_least(at_most(x, high), low)
    n, integer = nearest_integer(x, 1.0)
    r = x - n
    return scaled(fma(r, polynomial(r, POLYNOMIALS["exp2", x.kind]), 1.0), integer)


def expm1_parts(x: Value) -> tuple[Value, Value, Value]:
    """(r, q, n): expm1(x) = 2^n (r + q) + (2^n - 1), with |q| well below |r|."""
    n, r, error = reduced(x)
    return r, fma(r * r, polynomial(r, POLYNOMIALS["expm1", x.kind]), error), n


def expm1(x: Value) -> Value:
    # Below, the result is -1; above, exp overflows.
    low, high = {"f32": (-18.0, 89.0), "f64": (-40.0, 710.0)}[x.kind]
    r, q, n = expm1_parts(at_least(at_most(x, high), low))
    # Half of 2^n, which may not be a float, while half of it is.
    power = power_of_two(n - 1)
    half = fma(power, q, fma(power, r, power - 0.5))
    # Half of a denormal would lose a bit, and a zero its sign.
    tiny = absolute(x) < 2.0 ** -(FORMATS[x.kind].mantissa + 2)
    return select(tiny, x, half + half)


def refined_quotient(top: Value, top_low: Value | None, bottom: Value, bottom_low: Value) -> Value:
    """(top + top_low) / (bottom + bottom_low), within little more than half an ulp."""
    inverse = 1.0 / bottom
    quotient = top * inverse
    rest = fma(-quotient, bottom, top)
    rest = fma(-quotient, bottom_low, rest)
    if top_low is not None:
        rest = rest + top_low
    return fma(rest, inverse, quotient)


# The second factor of a power of two whose exponent is not positive.
SMALL_POWER = {"f32": 64, "f64": 512}


def negative_power(n: Value) -> tuple[Value, float]:
    """Two factors of 2^n, n <= 0, down to where floats vanish: the first is normal.

    The product of the second, a constant, may be denormal, so it comes last in a computation.
    """
    shift = SMALL_POWER["f32" if n.kind == "i32" else "f64"]
    return power_of_two(n + shift), 2.0**-shift


def sigmoid(x: Value) -> Value:
    """With the exponential of -|x|, nothing overflows and the small side keeps its digits."""
    e, n = exp_parts(at_least(-absolute(x), EXP_RANGE[x.kind][0]))
    first, second = negative_power(n)
    power = fma(e, first, first) * second
    bottom, bottom_low = fast_two_sum(1.0, power)
    return refined_quotient(select(x < 0.0, power, 1.0), None, bottom, bottom_low)


# Below, silu rounds to -0.
SILU_LOW = {"f32": -112.0, "f64": -760.0}


def silu(x: Value) -> Value:
    """x * sigmoid(x). A denormal exponential times x may be normal: scale after multiplying."""
    low = SILU_LOW[x.kind]
    e, n = exp_parts(at_least(-absolute(x), low))
    first, second = negative_power(n)
    partial = fma(e, first, first)
    bottom, bottom_low = fast_two_sum(1.0, partial * second)
    negative = x < 0.0
    top, top_low = two_product(at_least(x, low), select(negative, partial, 1.0))
    result = refined_quotient(top, top_low, bottom, bottom_low) * either(negative, second, 1.0, x)
    result = select(x > -low, x, copysign(result, x))
    # As in eager: infinity times zero.
    return select(x.equals(-math.inf), math.nan, result)


def tanh(x: Value) -> Value:
    """A polynomial near zero, then 1 - 2 / (exp(2|x|) + 1)."""
    a = at_most(absolute(x), {"f32": 9.2, "f64": 20.0}[x.kind])
    z = a * a
    near = fma(a * z, polynomial(z, POLYNOMIALS["tanh", x.kind]), a)
    e, n = exp_parts(a + a)
    power = power_of_two(n)
    far = 1.0 - 2.0 / fma(power, e, power + 1.0)
    return copysign(select(a < 0.625, near, far), x)


def gelu_tanh(x: Value) -> Value:
    """x / 2 (1 + tanh(u / 2)) = x sigmoid(u),  u = x (linear + cubic x^2), as two floats."""
    linear, linear_low, *_ = SPLIT["gelu_linear", x.kind]
    cubic, cubic_low, *_ = SPLIT["gelu_cubic", x.kind]
    bound = {"f32": 10.85, "f64": 22.0}[x.kind]
    a = at_most(absolute(x), bound)
    square, square_low = two_product(a, a)
    term, term_low = two_product(square, cubic)
    term_low = term_low + fma(square_low, cubic, square * cubic_low)
    # The larger of the two depends on x.
    factor, factor_low = two_sum(term, linear)
    factor_low = factor_low + (term_low + linear_low)
    u, u_low = two_product(a, factor)
    u_low = fma(a, factor_low, u_low)
    r, q, n = exp_of_sum(-u, -u_low)
    first, second = negative_power(n)
    partial = fma(r + q, first, first)
    bottom, bottom_low = fast_two_sum(1.0, partial * second)
    negative = x < 0.0
    top, top_low = two_product(a, select(negative, partial, 1.0))
    result = refined_quotient(top, top_low, bottom, bottom_low) * either(negative, second, 1.0, x)
    result = select(x > bound, x, copysign(result, x))
    # As in eager: infinity times zero.
    return select(x.equals(-math.inf), math.nan, result)
