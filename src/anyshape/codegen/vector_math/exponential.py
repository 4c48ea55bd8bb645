"""exp and what is made of it: exp(x) = 2^n exp(r), |r| <= ln(2) / 2."""

from __future__ import annotations

import math

from anyshape.codegen.vector_math.builder import FORMATS, VectorValue
from anyshape.codegen.vector_math.coefficients import POLYNOMIALS
from anyshape.codegen.vector_math.constants import SPLIT
from anyshape.codegen.vector_math.operations import (
    absolute,
    at_least,
    at_most,
    between,
    cold_branch,
    copysign,
    either,
    estimated_inverse,
    even_and_odd,
    fast_two_sum,
    fma,
    inverse,
    nearest_integer,
    polynomial,
    power_of_product,
    power_of_two,
    quotient,
    select,
    two_product,
    two_sum,
)

# Beyond these, exp is 0 or infinite, and n would leave the range of `scaled`.
EXP_RANGE = {"f32": (-104.5, 89.0), "f64": (-746.0, 710.0)}
EXP2_RANGE = {"f32": (-151.0, 128.5), "f64": (-1076.0, 1024.5)}


def scaled(x: VectorValue, n: VectorValue) -> VectorValue:
    """`x * 2**n`, rounded once, for n twice as far as the exponents of normal floats.

    Two factors: neither overflows nor is denormal, also where the result is. The first product is
    exact. NaN passes, which adding to the bits of x would not let it.
    """
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


def reduced(x: VectorValue) -> tuple[VectorValue, VectorValue, VectorValue]:
    """(n, r, error of r): x = n ln(2) + r."""
    ln2 = SPLIT["ln2", x.kind]
    n, integer = nearest_integer(x, SPLIT["log2e", x.kind][0])
    exact = fma(n, -ln2[0], x)
    r = fma(n, -ln2[1], exact)
    return integer, r, fma(n, -ln2[1], exact - r)


def reduced_with_power(
    x: VectorValue, sign: float, more: int = 0
) -> tuple[VectorValue, VectorValue]:
    """(r, 2^(n + more)): sign x = n ln(2) + r, for powers that are normal floats."""
    ln2 = SPLIT["ln2", x.kind]
    n, _, power = power_of_product(x, sign * SPLIT["log2e", x.kind][0], more)
    signed = x if sign > 0 else -x
    return fma(n, -ln2[1], fma(n, -ln2[0], signed)), power


def exp_minus_one(r: VectorValue) -> VectorValue:
    """exp(r) - 1, only as good as exp(r) needs."""
    return fma(r * r, even_and_odd(r, POLYNOMIALS["exp", r.kind]), r)


def exp_parts(x: VectorValue) -> tuple[VectorValue, VectorValue]:
    """(e, n): exp(x) = 2^n (1 + e)."""
    n, r, _ = reduced(x)
    return exp_minus_one(r), n


def exp_of_sum(x: VectorValue, low: VectorValue) -> tuple[VectorValue, VectorValue, VectorValue]:
    """(r, q, n): exp(x + low) = 2^n (1 + r + q), with |q| well below |r|."""
    ln2 = SPLIT["ln2", x.kind]
    multiple, n = nearest_integer(x, SPLIT["log2e", x.kind][0])
    r, error = fast_two_sum(fma(multiple, -ln2[0], x), fma(multiple, -ln2[1], low))
    return r, fma(r * r, polynomial(r, POLYNOMIALS["exp", x.kind]), error), n


#: Where 2^n and the result are normal floats; and below which the result is 0.
EXP_NORMAL = {"f32": 86.98, "f64": 708.0}
EXP_ZERO = {"f32": -104.0, "f64": -745.2}


def exp(x: VectorValue) -> VectorValue:
    """One comparison says of all lanes that 2^n is a normal float. The rest is seldom: first zeros,
    since softmax of a masked row is full of them, then what is denormal or nearly infinite."""
    r, power = reduced_with_power(x, 1.0)
    usual = fma(exp_minus_one(r), power, power)
    beyond = absolute(x) > EXP_NORMAL[x.kind]

    def mended() -> VectorValue:
        zero = x < EXP_ZERO[x.kind]
        return cold_branch(
            beyond & ~zero, select(zero, 0.0, usual), lambda: x.body.call("exp_tiny", x)
        )

    return cold_branch(beyond, usual, mended)


def exp_tiny(x: VectorValue) -> VectorValue:
    e, n = exp_parts(between(x, *EXP_RANGE[x.kind]))
    return scaled(1.0 + e, n)


def exp2(x: VectorValue) -> VectorValue:
    """Denormal results and zeros take a way of their own."""
    low, high = {"f32": (-125.0, 128.0), "f64": (-1021.0, 1024.0)}[x.kind]
    _, r, half_power = power_of_product(between(x, low, high), 1.0, -1)
    # Half of 2^n may be a float where 2^n is not.
    double = fma(r, even_and_odd(r, [c * 2.0 for c in POLYNOMIALS["exp2", x.kind]]), 2.0)
    return cold_branch(x < low, double * half_power, lambda: x.body.call("exp2_tiny", x))


def exp2_tiny(x: VectorValue) -> VectorValue:
    x = between(x, *EXP2_RANGE[x.kind])
    n, integer = nearest_integer(x, 1.0)
    r = x - n
    return scaled(fma(r, polynomial(r, POLYNOMIALS["exp2", x.kind]), 1.0), integer)


def expm1_parts(x: VectorValue) -> tuple[VectorValue, VectorValue, VectorValue]:
    """(r, q, n): expm1(x) = 2^n (r + q) + (2^n - 1), with |q| well below |r|."""
    n, r, error = reduced(x)
    return r, fma(r * r, polynomial(r, POLYNOMIALS["expm1", x.kind]), error), n


def expm1(x: VectorValue) -> VectorValue:
    # Below, the result is -1; above, exp overflows.
    low, high = {"f32": (-18.0, 89.0), "f64": (-40.0, 710.0)}[x.kind]
    r, q, n = expm1_parts(between(x, low, high))
    # Half of 2^n, which may not be a float, while half of it is.
    power = power_of_two(n - 1)
    half = fma(power, q, fma(power, r, power - 0.5))
    # Half of a denormal would lose a bit, and a zero its sign.
    tiny = absolute(x) < 2.0 ** -(FORMATS[x.kind].mantissa + 2)
    return select(tiny, x, half + half)


def refined_quotient(
    top: VectorValue, top_low: VectorValue | None, bottom: VectorValue, bottom_low: VectorValue
) -> VectorValue:
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


def negative_power(n: VectorValue) -> tuple[VectorValue, float]:
    """Two factors of 2^n, n <= 0, down to where floats vanish: the first is normal.

    The product of the second, a constant, may be denormal, so it comes last in a computation.
    """
    shift = SMALL_POWER["f32" if n.kind == "i32" else "f64"]
    return power_of_two(n + shift), 2.0**-shift


# Between, exp(-x) and one more than it are normal, and so are their reciprocals.
SIGMOID_RANGE = {"f32": 87.0, "f64": 708.0}


def inverse_of_sigmoid(x: VectorValue) -> VectorValue:
    """1 + exp(-x), for x in the range above; 1 / sigmoid(x)."""
    r, power = reduced_with_power(x, -1.0)
    # power + 1 is exact where it matters.
    return fma(exp_minus_one(r), power, power + 1.0)


def clamped_for_sigmoid(x: VectorValue) -> VectorValue:
    bound = SIGMOID_RANGE[x.kind]
    return between(x, -bound, bound)


def sigmoid(x: VectorValue) -> VectorValue:
    """Where its result may be denormal, it is exp."""
    usual = inverse(inverse_of_sigmoid(clamped_for_sigmoid(x)))
    return cold_branch(x < -SIGMOID_RANGE[x.kind], usual, lambda: x.body.call("exp_tiny", x))


def times_sigmoid(x: VectorValue, u: VectorValue) -> VectorValue:
    """x sigmoid(u), where u is above the lower end of the range above."""
    result = quotient(x, inverse_of_sigmoid(clamped_for_sigmoid(u)))
    # Infinity stays what it is; the zeros, too.
    return select(u < SIGMOID_RANGE[x.kind], copysign(result, x), x)


def silu(x: VectorValue) -> VectorValue:
    tiny = x < -SIGMOID_RANGE[x.kind]
    return cold_branch(tiny, times_sigmoid(x, x), lambda: x.body.call("silu_tiny", x))


def silu_tiny(x: VectorValue) -> VectorValue:
    """x exp(x). The exponential may be denormal where the product is not: scale the product."""
    low = {"f32": -112.0, "f64": -760.0}[x.kind]
    e, n = exp_parts(at_least(x, low))
    # As in eager, minus infinity gives NaN.
    return select(x < low, x * 0.0, scaled(fma(x, e, x), n))


def tanh(x: VectorValue) -> VectorValue:
    """w / (w + 1),  w = expm1(2|x|) / 2, which is as good near zero."""
    a = at_most(absolute(x), {"f32": 9.1, "f64": 20.0}[x.kind])
    log2e, ln2 = SPLIT["log2e", x.kind][0], SPLIT["ln2", x.kind][0]
    n, _, power = power_of_product(a, 2.0 * log2e)
    h = fma(n, -0.5 * ln2, a)
    e = fma(h * h, even_and_odd(h, POLYNOMIALS["half_expm1", x.kind]), h)
    w = fma(power, e, fma(power, 0.5, -0.5))
    # `quotient`, but for the rest, which is that of w + 1 before rounding.
    estimate = estimated_inverse(w + 1.0)
    result = w * estimate
    return copysign(fma(fma(-result, w, w - result), estimate, result), x)


def gelu_tanh_f32(x: VectorValue) -> VectorValue:
    """x sigmoid(u),  u = x (linear + cubic x^2). As good as eager, whose tail loses more digits."""
    linear, cubic = SPLIT["gelu_linear", x.kind][0], SPLIT["gelu_cubic", x.kind][0]
    u = x * fma(x * x, cubic, linear)
    return select(u < -SIGMOID_RANGE[x.kind], x * 0.0, times_sigmoid(x, u))


def gelu_tanh_f64(x: VectorValue) -> VectorValue:
    """x / 2 (1 + tanh(u / 2)) = x sigmoid(u),  u = x (linear + cubic x^2), as two floats."""
    linear, linear_low, *_ = SPLIT["gelu_linear", x.kind]
    cubic, cubic_low, *_ = SPLIT["gelu_cubic", x.kind]
    bound = 22.0
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
