"""Sizes times a factor, as torch computes them: the product in double precision, cut off to an
integer."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Expr, Size

if TYPE_CHECKING:
    from fractions import Fraction


def scaled(q: ShapeQuery, size: Size, factor: float | Size) -> Size:
    """`int(size * factor)`: a division where that is the same for all sizes, else for the size at
    hand only. A factor that is computed of sizes, or is given as an integer, is exact."""
    if isinstance(factor, Expr):
        return size * factor
    if isinstance(size, int):
        return int(size * factor)
    ratio = exact_ratio(factor)
    if ratio is None:
        return int(q.specialize(size, f"its product with the float {factor} is rounded") * factor)
    return size * ratio.numerator // ratio.denominator


@lru_cache(maxsize=256)
def exact_ratio(factor: float) -> Fraction | None:
    """The ratio a/b for which `int(n * factor) == n * a // b` for every size n (below 2**40).

    Let the factor be a/b * (1 + e). Between integers the product stays more than 1/(2*b) from the
    next one, far more than rounding moves it. Where n * a/b is an integer k the product must not
    round below k: it is at least k if e >= 0, and within half a unit in the last place of k if -e
    <= 2**-54.
    """
    from fractions import Fraction

    ratio = Fraction(factor).limit_denominator(1024)
    if ratio <= 0 or float(ratio) != factor:
        return None
    error = Fraction(factor) / ratio - 1
    return ratio if error >= 0 or -error <= Fraction(1, 2**54) else None
