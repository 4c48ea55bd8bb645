"""Integer ranges with infinities, and the arithmetic of ranges.

`None` stands for the infinity on that side, so that integers of any length are exact (a float
infinity would not add to an integer beyond 2**1024). A range is never empty: an empty one is a
contradiction, and the caller has to say so.
"""

from __future__ import annotations

from typing import NamedTuple


class Range(NamedTuple):
    """The integers from `lower` to `upper`, both included; `None` is minus or plus infinity."""

    lower: int | None
    upper: int | None

    def __str__(self) -> str:
        low = "-int_oo" if self.lower is None else str(self.lower)
        high = "int_oo" if self.upper is None else str(self.upper)
        return f"[{low}, {high}]"

    def said_of(self, name: str, value: int = 0) -> str:
        """As people write it: `n >= 2`, `2 <= n <= 9`, `any n`. That a size is at least 0 is said
        only to a `value` that is less."""
        is_less = self.lower is not None and value < self.lower
        has_lower = self.lower is not None and (self.lower > 0 or is_less)
        if self.lower == self.upper and self.lower is not None:
            return f"{name} == {self.lower}"
        if self.upper is None:
            return f"{name} >= {self.lower}" if has_lower else f"any {name}"
        low = f"{self.lower} <= " if self.lower or is_less else ""
        return f"{low}{name} <= {self.upper}"

    def contains(self, value: int) -> bool:
        return (self.lower is None or self.lower <= value) and (
            self.upper is None or value <= self.upper
        )


EVERYTHING = Range(None, None)
NATURAL = Range(0, None)


def is_empty(r: Range) -> bool:
    return r.lower is not None and r.upper is not None and r.lower > r.upper


def intersect(a: Range, b: Range) -> Range:
    """What both hold. May be empty: ask `is_empty` before use."""
    al, ah = a
    bl, bh = b
    low = bl if al is None else al if bl is None else max(al, bl)
    high = bh if ah is None else ah if bh is None else min(ah, bh)
    return Range(low, high)


def add(a: Range, b: Range) -> Range:
    al, ah = a
    bl, bh = b
    return Range(
        None if al is None or bl is None else al + bl,
        None if ah is None or bh is None else ah + bh,
    )


def negate(a: Range) -> Range:
    al, ah = a
    return Range(None if ah is None else -ah, None if al is None else -al)


def scale(a: Range, factor: int) -> Range:
    if factor == 0:
        return Range(0, 0)
    al, ah = a
    low = None if al is None else al * factor
    high = None if ah is None else ah * factor
    return Range(low, high) if factor > 0 else Range(high, low)


def multiply(a: Range, b: Range) -> Range:
    al, ah = a
    bl, bh = b
    if al is not None and bl is not None and al >= 0 and bl >= 0:
        high = 0 if ah == 0 or bh == 0 else None if ah is None or bh is None else ah * bh
        return Range(al * bl, high)
    # The extremes of a product lie at the corners; a corner is (sign of infinity, value).
    corners = [_corner(x, y) for x in ((-1, al), (1, ah)) for y in ((-1, bl), (1, bh))]
    low, high = min(corners), max(corners)
    return Range(low[1] if low[0] == 0 else None, high[1] if high[0] == 0 else None)


def _corner(x: tuple[int, int | None], y: tuple[int, int | None]) -> tuple[int, int]:
    """The product of two ends, each (side, value or infinite): ordered as (-1, 0) < (0, value) <
    (1, 0)."""
    (x_side, x_value), (y_side, y_value) = x, y
    if x_value is not None and y_value is not None:
        return 0, x_value * y_value
    x_sign = x_side if x_value is None else (x_value > 0) - (x_value < 0)
    y_sign = y_side if y_value is None else (y_value > 0) - (y_value < 0)
    return x_sign * y_sign, 0


def power(a: Range, exponent: int) -> Range:
    """The range of x**exponent for x in `a`; tighter than repeated `multiply` for even powers."""
    if exponent == 1:
        return a
    al, ah = a
    if exponent % 2 or (al is not None and al >= 0):
        return Range(None if al is None else al**exponent, None if ah is None else ah**exponent)
    if ah is not None and ah <= 0:
        return Range(ah**exponent, None if al is None else al**exponent)
    if al is None or ah is None:
        return NATURAL
    return Range(0, max(al**exponent, ah**exponent))


def floordiv(a: Range, b: Range) -> Range:
    """The range of x // y for x in `a` and y in `b`, y not 0."""
    bl, bh = b
    if bl is not None and bl >= 0:
        # Zero is left out of the divisor; if it is all there is, nothing has a value and any range
        # is right.
        return _floordiv_by_positive(a, max(bl, 1), None if bh is None else max(bh, 1))
    if bh is not None and bh <= 0:
        return floordiv(negate(a), negate(b))
    # The divisor may have either sign: |x // y| <= max(|x|, 1) holds for every y.
    al, ah = a
    if al is None or ah is None:
        return EVERYTHING
    size = max(abs(al), abs(ah))
    return Range(-size if size else 0, size)


def _floordiv_by_positive(a: Range, low: int, high: int | None) -> Range:
    al, ah = a
    # A quotient grows with the numerator; for a numerator >= 0 it shrinks with the divisor, for one
    # < 0 it grows.
    if al is None:
        lower = None
    elif al >= 0:
        lower = 0 if high is None else al // high
    else:
        lower = al // low
    if ah is None:
        upper = None
    elif ah >= 0:
        upper = ah // low
    else:
        upper = -1 if high is None else ah // high
    return Range(lower, upper)


def modulo(a: Range, b: Range) -> Range:
    """The range of x % y for x in `a` and y in `b`, y not 0."""
    al, ah = a
    bl, bh = b
    if bl is not None and bl >= 0:
        if al is not None and al >= 0:
            if ah is not None and ah < max(bl, 1):
                return a
            if bh is None:
                return Range(0, ah)
            most = max(bh - 1, 0)
            return Range(0, most if ah is None else min(ah, most))
        return Range(0, None if bh is None else max(bh - 1, 0))
    if bh is not None and bh <= 0:
        return negate(modulo(negate(a), negate(b)))
    return Range(None if bl is None else min(bl + 1, 0), None if bh is None else max(bh - 1, 0))


def minimum(a: Range, b: Range) -> Range:
    al, ah = a
    bl, bh = b
    return Range(
        None if al is None or bl is None else min(al, bl),
        bh if ah is None else ah if bh is None else min(ah, bh),
    )


def maximum(a: Range, b: Range) -> Range:
    return negate(minimum(negate(a), negate(b)))
