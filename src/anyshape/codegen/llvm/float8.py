"""Floats of eight bits: from f32 to their codes and back, as torch converts.

    s eeee mmm      f8e4m3fn: bias 7      s eeeee mm      f8e5m2: bias 15

By integers: processors have no instructions for it, and those of newer GPUs saturate. Here what is
too large is NaN, or an infinity where the format has one; versions of torch that saturate are
followed by `ops/lowering/float8.py`. Numbers that are not normal are rounded by an addition whose
last bit is theirs, and made by a subtraction; neither has an operand or a result that matters and
is not normal in f32, so that it makes no difference whether these are flushed.
"""

from __future__ import annotations

from typing import Final

from anyshape.codegen.ir_builder import constant, vector
from anyshape.codegen.llvm.emitter import Emitter
from anyshape.loops.expr import Dtype
from anyshape.support.lazy_dataclass import dataclass

_SIGN: Final = -(2**31)
_INFINITY: Final = 0x7F800000
_QUIET: Final = 0x00400000
#: what torch makes of the only NaN of a format
_SIGNALLING: Final = 0x7F800001


@dataclass(frozen=True, slots=True)
class Float8Format:
    """A format by its bits; a code without its sign is `exponent << mantissa_bits | mantissa`."""

    mantissa_bits: int
    bias: int
    #: the bits of an f32 from which on nothing is left to round: 480, 65536 or 256
    limit: int
    #: the code of what is as large or larger
    beyond: int
    nan: int
    #: whether there is no -0: its code is the one of NaN, which has no sign
    unsigned_zero: bool = False

    @property
    def no_number(self) -> int:
        """The first code of infinities and NaN."""
        return min(self.beyond, self.nan)

    @property
    def dropped(self) -> int:
        """Bits of the mantissa of f32 that there is no room for."""
        return 23 - self.mantissa_bits

    @property
    def first_normal(self) -> int:
        """The bits of the smallest normal number in f32."""
        return (128 - self.bias) << 23

    @property
    def last_place(self) -> int:
        """The bits of the power of two in f32 whose last bit is worth the smallest number."""
        return (150 + 1 - self.bias - self.mantissa_bits) << 23


FORMATS: Final[dict[Dtype, Float8Format]] = {
    "f8e4m3fn": Float8Format(3, 7, limit=0x43F00000, beyond=0x7F, nan=0x7F),
    "f8e5m2": Float8Format(2, 15, limit=0x47800000, beyond=0x7C, nan=0x7F),
    "f8e4m3fnuz": Float8Format(3, 8, 0x43800000, 0x80, 0x80, unsigned_zero=True),
    "f8e5m2fnuz": Float8Format(2, 16, 0x47800000, 0x80, 0x80, unsigned_zero=True),
}


def encoded(e: Emitter, text: str, dtype: Dtype, lanes: int) -> str:
    """An f32 as the nearest one of eight bits, ties to even: its code, an i8."""
    f, b = FORMATS[dtype], _Bits(e, lanes)
    bits = b.from_floats(text)
    size = b("and", bits, ~_SIGN)
    shifted = b.from_floats(b.of_floats("fadd", size, f.last_place))
    small = b("sub", shifted, f.last_place)
    last = b("and", b("lshr", size, f.dropped), 1)
    half = b("add", size, (f.bias - 127 << 23) + (1 << f.dropped - 1) - 1)
    code = b("lshr", b("add", half, last), f.dropped)
    code = b.choose("ult", size, f.first_normal, small, code)
    code = b.choose("uge", size, f.limit, f.beyond, code)
    if f.nan != f.beyond:
        code = b.choose("ugt", size, _INFINITY, f.nan, code)
    sign = b("and", b("lshr", bits, 24), 0x80)
    if f.unsigned_zero:
        sign = b.choose("eq", code, 0, 0, sign)
    return e.let(f"trunc {b.type} {b('or', code, sign)} to {vector('i8', lanes)}")


def decoded(e: Emitter, text: str, dtype: Dtype, lanes: int) -> str:
    """The f32 that a code means."""
    f, b = FORMATS[dtype], _Bits(e, lanes)
    code = e.let(f"zext {vector('i8', lanes)} {text} to {b.type}")
    size = b("and", code, 0x7F)
    bits = b("add", b("shl", size, f.dropped), 127 - f.bias << 23)
    # With another exponent a number that is not normal is 1.mantissa times its own power of two.
    small = b.from_floats(b.of_floats("fsub", b("add", bits, 1 << 23), f.first_normal))
    bits = b.choose("ult", size, 1 << f.mantissa_bits, small, bits)
    sign = b("shl", b("and", code, 0x80), 24)
    if f.unsigned_zero:
        found = b.choose("eq", code, f.nan, _SIGNALLING, b("or", bits, sign))
    else:
        found = b("or", b.choose("uge", size, f.no_number, _no_number(b, f, size), bits), sign)
    return b.to_floats(found)


def _no_number(b: _Bits, f: Float8Format, size: str) -> str:
    """The bits of an infinity, or of a NaN of the same mantissa that is quiet."""
    bits = b("or", b("shl", size, f.dropped), _INFINITY)
    return b.choose("ugt", size, 0x7C, b("or", bits, _QUIET), bits)


class _Bits:
    """Arithmetic of words, in all lanes."""

    def __init__(self, e: Emitter, lanes: int) -> None:
        self._e, self._lanes = e, lanes
        self.type = vector("i32", lanes)
        self._floats = vector("float", lanes)

    def __call__(self, name: str, a: str, b: str | int) -> str:
        return self._e.let(f"{name} {self.type} {a}, {self._word(b)}")

    def choose(self, sign: str, a: str, b: int, then: str | int, otherwise: str) -> str:
        """`then` where the comparison holds."""
        test = self._e.let(f"icmp {sign} {self.type} {a}, {self._word(b)}")
        truth = vector("i1", self._lanes)
        return self._e.select(truth, test, self.type, self._word(then), otherwise)

    def of_floats(self, name: str, a: str, b: int) -> str:
        """Of two floats that are given by their bits."""
        other = self._e.let(f"bitcast {self.type} {self._word(b)} to {self._floats}")
        return self._e.let(f"{name} {self._floats} {self.to_floats(a)}, {other}")

    def to_floats(self, a: str) -> str:
        return self._e.let(f"bitcast {self.type} {a} to {self._floats}")

    def from_floats(self, a: str) -> str:
        return self._e.let(f"bitcast {self._floats} {a} to {self.type}")

    def _word(self, value: str | int) -> str:
        return value if isinstance(value, str) else constant(value, "i32", self._lanes)
