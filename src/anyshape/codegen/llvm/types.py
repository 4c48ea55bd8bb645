"""How a dtype looks in registers and in memory, and values as LLVM writes them."""

from __future__ import annotations

import math
import struct
from typing import Final

from anyshape.loops.expr import FLOATS, Dtype
from anyshape.support.lazy_dataclass import dataclass

#: f16 and bf16 are computed in f32.
REGISTER: Final[dict[str, str]] = {
    "f32": "float",
    "f64": "double",
    "f16": "float",
    "bf16": "float",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "u8": "i8",
    "b1": "i1",
}
MEMORY: Final[dict[str, str]] = {**REGISTER, "f16": "half", "bf16": "i16", "b1": "i8"}
BITS: Final[dict[str, int]] = {
    "float": 32,
    "double": 64,
    "half": 16,
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
}
UNSIGNED: Final = frozenset({"u8", "b1"})
#: what intrinsics call a type
_SUFFIX: Final = {"float": "f32", "double": "f64", "half": "f16"}


@dataclass(frozen=True, slots=True)
class IrValue:
    """A register or a literal. `wide`: one for each lane; else the same for all of them."""

    text: str
    dtype: Dtype
    wide: bool

    @property
    def is_literal(self) -> bool:
        return not self.text.startswith("%")


def vector(element: str, lanes: int) -> str:
    return f"<{lanes} x {element}>" if lanes else element


def suffix(element: str, lanes: int) -> str:
    """The type in an intrinsic's name: `v16f32`, or `f32` for no lanes."""
    name = _SUFFIX.get(element, element)
    return f"v{lanes}{name}" if lanes else name


def literal(value: float | int | bool, dtype: str) -> str:
    """A constant of that dtype in registers."""
    if dtype == "b1":
        return "true" if value else "false"
    if dtype in FLOATS:
        return float_literal(round_to(float(value), dtype))
    return str(int(value))


def float_literal(value: float) -> str:
    """LLVM writes the bits of the double that equals the constant, whatever its type."""
    if math.isnan(value):
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def round_to(value: float, dtype: str) -> float:
    """The nearest value of a float dtype, ties to even."""
    if dtype == "f64" or math.isnan(value) or math.isinf(value):
        return value
    if dtype == "bf16":
        return _round_bf16(round_to(value, "f32"))
    code = {"f32": "f", "f16": "e"}[dtype]
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _round_bf16(value: float) -> float:
    if math.isinf(value):
        return value
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]
