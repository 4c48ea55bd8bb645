"""Python floats rounded to the float dtypes of kernels."""

from __future__ import annotations

import math
import struct
from typing import Final

from anyshape.loops.expr import Dtype

_FORMAT: Final = {"f32": "f", "f16": "e"}


def round_to(value: float, dtype: Dtype) -> float:
    """The nearest value of a float dtype, ties to even; f16 and bf16 by way of f32."""
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


def _round_bf16(value: float) -> float:
    if math.isinf(value):
        return value
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]
