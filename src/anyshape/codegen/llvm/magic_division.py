"""Small integers divided by a constant, without dividing.

    x / d == fma(x, high, x * low)        high + low is 1 / d, nearly

Processors divide slowly: a byte of an image by 255 takes longer than to fetch it from memory. The
result is the same bit by bit: there are 256 dividends, and all are tried when the code is made.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from anyshape.codegen.ir_builder import round_to
from anyshape.loops.expr import Scalar

if TYPE_CHECKING:
    from anyshape.codegen.llvm.arithmetic import OperationCall

_DIVIDENDS: Final = {"u8": range(256), "i8": range(-128, 128)}
#: Exponents that keep all of this far from what is too large or too small.
_FAR: Final = 60


def factors(scalar: Scalar) -> tuple[float, float] | None:
    """(high, low), if the scalar is a quotient that they give."""
    if scalar.op != "div" or scalar.dtype != "f32":
        return None
    dividend, divisor = scalar.args
    if divisor.op != "constant" or dividend.op != "cast":
        return None
    source = dividend.args[0].dtype
    return _factors(source, divisor.data) if source in _DIVIDENDS else None


def quotient(c: OperationCall, high: float, low: float) -> str:
    a, b = c.constant(high), c.constant(low)
    return c.intrinsic("fma", c.args[0], a, c.op("fmul", c.args[0], b))


@lru_cache(256)
def _factors(source: str, divisor: float) -> tuple[float, float] | None:
    divisor = round_to(divisor, "f32")
    # By a negative one, 0 would have the wrong sign.
    if not 2.0**-_FAR < divisor < 2.0**_FAR:
        return None
    high = round_to(1.0 / divisor, "f32")
    # Exact but for the division: both factors have 24 bits.
    low = round_to((1.0 - high * divisor) / divisor, "f32")
    rounds = all(_is_nearest(x, divisor, high, low) for x in _DIVIDENDS[source] if x)
    return (high, low) if rounds else None


def _is_nearest(x: int, divisor: float, high: float, low: float) -> bool:
    """Whether what is rounded in the end is less than half a unit away from the quotient. None of
    these differences needs more than the 53 bits of a double."""
    wanted = round_to(x / divisor, "f32")
    rest = (x * high - wanted) + round_to(x * low, "f32")
    fraction, exponent = math.frexp(wanted)
    # Below a power of two, units are half as large.
    half = 2.0 ** (exponent - 25 - (abs(fraction) == 0.5))
    return abs(rest) < half
