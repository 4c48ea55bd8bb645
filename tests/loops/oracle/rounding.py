"""Python floats rounded to the float dtypes of kernels."""

from __future__ import annotations

import math
import struct
from typing import Final

from anyshape.loops.expr import Dtype

_FORMAT: Final = {"f32": "f", "f16": "e"}
#: bits of the mantissa, the exponent of the smallest normal number, the largest number, and what is
#: larger; there is no -0 where that has no sign
_FLOAT8: Final[dict[str, tuple[int, int, float, float]]] = {
    "f8e4m3fn": (3, -6, 448.0, math.nan),
    "f8e5m2": (2, -14, 57344.0, math.inf),
    "f8e4m3fnuz": (3, -7, 240.0, math.nan),
    "f8e5m2fnuz": (2, -15, 57344.0, math.nan),
}


def round_to(value: float, dtype: Dtype) -> float:
    """The nearest value of a float dtype, ties to even; narrow ones by way of f32."""
    if dtype in _FLOAT8:
        return _round_float8(round_to(value, "f32"), dtype)
    if dtype == "f64" or not math.isfinite(value):
        return value
    if dtype == "bf16":
        return _round_bf16(round_to(value, "f32"))
    if dtype == "f16":
        value = round_to(value, "f32")
        if not math.isfinite(value):
            return value
    try:
        return struct.unpack(_FORMAT[dtype], struct.pack(_FORMAT[dtype], value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _round_float8(value: float, dtype: Dtype) -> float:
    bits, smallest, largest, beyond = _FLOAT8[dtype]
    if not math.isfinite(value):
        return value if math.isnan(value) else math.copysign(beyond, value)
    unit = 2.0 ** (max(math.frexp(value)[1] - 1, smallest) - bits)
    rounded = math.copysign(round(value / unit) * unit, value)
    if abs(rounded) > largest:
        return math.copysign(beyond, value)
    return rounded + 0.0 if dtype.endswith("fnuz") else rounded


def _round_bf16(value: float) -> float:
    if math.isinf(value):
        return value
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]
