"""Between which numbers the values of a scalar are: what code can do without.

    value_range(sin(x) * 3)     (-3, 3)
    value_range(x)              (-inf, inf)

NaN is in no range. Rounding is not counted: whoever asks leaves room for it.

Of integers `Magnitudes` says how far from zero they are in arithmetic: if that is less than their
dtype has, none has begun anew behind the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from anyshape.loops.expr import Dtype, Scalar
from anyshape.symbolic import Size

Range = tuple[float, float]
_Rule = Callable[..., Range]

ANYTHING: Final[Range] = (-math.inf, math.inf)
#: How far arguments are followed.
_DEPTH: Final = 8
#: Beyond, rounding may make infinity of a number; of other floats nothing is known.
_ROOM: Final[dict[str, float]] = {
    "f16": 2.0**15,
    "bf16": 2.0**127,
    "f32": 2.0**127,
    "f64": 2.0**1023,
}
#: What integers can be. (The floats hold infinities.)
_OF_DTYPE: Final[dict[Dtype, Range]] = {
    "b1": (0.0, 1.0),
    "u8": (0.0, 255.0),
    "i8": (-128.0, 127.0),
    "i16": (-(2.0**15), 2.0**15),
    "i32": (-(2.0**31), 2.0**31),
    "i64": (-(2.0**63), 2.0**63),
}
#: Of functions that are bounded, whatever they are given.
_OF_RESULT: Final[dict[str, Range]] = {
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
    "tanh": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "sign": (-1.0, 1.0),
    "sigmoid": (0.0, 1.0),
    "erfc": (0.0, 2.0),
    "atan": (-2.0, 2.0),
    "asin": (-2.0, 2.0),
    "acos": (0.0, 4.0),
    "atan2": (-4.0, 4.0),
}


def _magnitude(a: Range) -> float:
    return max(abs(a[0]), abs(a[1]))


def _product(a: Range, b: Range) -> Range:
    most = _magnitude(a) * _magnitude(b)  # NaN, if one is 0 and of the other nothing is known
    return -most, most


def _absolute(a: Range) -> Range:
    return max(a[0], -a[1], 0.0), _magnitude(a)


def _of_one_sign(a: Range, _: Range) -> Range:
    most = _magnitude(a)
    return -most, most


def _either(*ranges: Range) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _least(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), min(a[1], b[1])


def _most(a: Range, b: Range) -> Range:
    return max(a[0], b[0]), max(a[1], b[1])


#: Of operations on floats, by the ranges of their arguments.
_RULES: Final[dict[str, _Rule]] = {
    "neg": lambda a: (-a[1], -a[0]),
    "abs": _absolute,
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _product,
    "minimum": _least,
    "maximum": _most,
    "copysign": _of_one_sign,
    "where": lambda _, a, b: _either(a, b),
    "cast": lambda a: a,
}


def value_range(scalar: Scalar, depth: int = _DEPTH) -> Range:
    """The least and the largest number that it can be."""
    if scalar.dtype in _OF_DTYPE:
        return _OF_DTYPE[scalar.dtype]
    low, high = _of_float(scalar, depth)
    room = _ROOM.get(scalar.dtype, 0.0)
    return low if abs(low) <= room else -math.inf, high if abs(high) <= room else math.inf


def _of_float(scalar: Scalar, depth: int) -> Range:
    if scalar.op == "constant":
        return scalar.data, scalar.data
    rule = _RULES.get(scalar.op)
    if rule is None or not depth:
        return _OF_RESULT.get(scalar.op, ANYTHING)
    return rule(*(value_range(arg, depth - 1) for arg in scalar.args))


# -- integers --------------------------------------------------------------------------------------

#: More than any tensor has elements.
MOST_ELEMENTS: Final = 1 << 40


class Magnitudes:
    """Absolute values of integers, or more than these. `of_size` says it of sizes."""

    def __init__(self, of_size: Callable[[Size], float]) -> None:
        self._of_size = of_size
        self._known: dict[Scalar, float] = {}

    def of(self, scalar: Scalar) -> float:
        found = self._known.get(scalar)
        if found is None:
            found = self._known[scalar] = self._of(scalar)
        return found

    def _of(self, scalar: Scalar) -> float:
        match scalar.op:
            case "constant":
                return abs(scalar.data)
            case "index":
                return self._of_size(scalar.data)
            case "add" | "sub":
                return sum(map(self.of, scalar.args))
            case "mul":
                first, second = map(self.of, scalar.args)
                return first * second if first and second else 0
            case "neg" | "abs":
                return self.of(scalar.args[0])
            case "minimum" | "maximum":
                return max(map(self.of, scalar.args))
            case "where":
                return max(map(self.of, scalar.args[1:]))
            case _:
                own = _magnitude(_OF_DTYPE.get(scalar.dtype, ANYTHING))
                # A number below zero is a large one of a dtype without a sign.
                is_kept = scalar.op == "cast" and scalar.dtype != "u8"
                return min(own, self.of(scalar.args[0])) if is_kept else own
