"""Derive the constants of vector math: `python scripts/fit_vector_math.py` writes them anew.

Each row says which function a polynomial stands for, on which interval, with which weight (so that
`weight * error` is the relative error of the final result), and its degree in each format. The fit
is a weighted least-squares one on Chebyshev nodes, which is within a few tenths of the minimax
error. Coefficients are rounded to the format one after the other, the lowest first, each time
refitting those that remain: so the later ones make up for the rounding of the earlier ones.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp

mp.mp.dps = 60
OUTPUT = Path(__file__).parents[1] / "src/anyshape/codegen/vector_math/coefficients.py"
Real = Any  # a number of mpmath
Function = Callable[[Real], Real]


@dataclass(frozen=True)
class Fit:
    name: str
    function: Function
    low: Real | float
    high: Real | float
    degree: dict[str, int]
    weight: Function = lambda x: mp.mpf(1)
    # The constant term is two floats, a high and a low part.
    two_floats: bool = False


def rounded(kind: str, number: Real) -> Real:
    """To nearest, from the exact value: through a double where the format is float32."""
    return mp.mpf(
        struct.unpack("<f", struct.pack("<f", float(number)))[0] if kind == "f32" else float(number)
    )


def nodes(low: Real, high: Real, count: int) -> list[Real]:
    middle, radius = (low + high) / 2, (high - low) / 2
    return [middle + radius * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def fit(row: Fit, kind: str) -> tuple[list[Real], Real]:
    low, high, degree = mp.mpf(row.low), mp.mpf(row.high), row.degree[kind]
    points = nodes(low, high, 8 * (degree + 2))
    targets = [row.function(x) for x in points]
    weights = [row.weight(x) ** 2 for x in points]
    fixed: list[Real] = []
    for done in range(degree + 1):
        size = degree + 1 - done
        known = [
            target - mp.polyval(fixed[::-1], x) if fixed else target
            for x, target in zip(points, targets, strict=True)
        ]
        moments = [
            mp.fsum(w * x ** (2 * done + k) for x, w in zip(points, weights, strict=True))
            for k in range(2 * size - 1)
        ]
        matrix = mp.matrix(size, size)
        for i in range(size):
            for j in range(size):
                matrix[i, j] = moments[i + j]
        right = mp.matrix(
            [
                mp.fsum(
                    w * r * x ** (done + i) for x, w, r in zip(points, weights, known, strict=True)
                )
                for i in range(size)
            ]
        )
        exact = mp.lu_solve(matrix, right)[0]
        fixed.append(rounded(kind, exact) if done or not row.two_floats else exact)
    checks = nodes(low, high, 400)
    worst = max(abs(row.weight(x) * (mp.polyval(fixed[::-1], x) - row.function(x))) for x in checks)
    if row.two_floats:
        high = rounded(kind, fixed[0])
        fixed[:1] = [high, rounded(kind, fixed[0] - high)]
    return fixed, worst


LN2, PI = mp.log(2), mp.pi
HALF_LN2 = LN2 / 2 * mp.mpf("1.001")
# Rounding x / (pi / 2) may take the wrong neighbour near the middle.
QUARTER_PI = PI / 4 * mp.mpf("1.01")
# Beyond, the normal distribution at -x is taken for 0, as eager's rounds it.
NORMAL_TAIL_END = mp.mpf("5.625")
SQRT_HALF, SQRT_TWO = mp.sqrt(0.5), mp.sqrt(2)


def erfcx(x: Real) -> Real:
    return mp.exp(x * x) * mp.erfc(x)


def erfinv_by_w(w: Real) -> Real:
    """erfinv(x) / x, where w = -log(1 - x^2)."""
    if w < mp.mpf(10) ** -20:
        return mp.sqrt(PI) / 2
    x = mp.sqrt(-mp.expm1(-w))
    # From erfc, since x is near 1: Newton's steps from the leading term of the tail.
    rest = mp.exp(-w) / (1 + x)
    y = mp.sqrt(w) if w > 1 else x * mp.sqrt(PI) / 2
    for _ in range(40):
        step = (mp.erfc(y) - rest) * mp.exp(y * y) * mp.sqrt(PI) / 2
        y += step
        if abs(step) < mp.mpf(10) ** -45:
            break
    return y / x


# Poles that floats hold exactly; that of gelu is in units of x, not x / sqrt(2).
ERFCX_POLE, GELU_POLE = mp.mpf("1.5"), mp.mpf("2.125")


def by_t(function: Function, pole: Real) -> Function:
    """function(x) as a function of t = (x - pole) / (x + pole)."""
    return lambda t: function(pole * (1 + t) / (1 - t))


def tail(
    name: str, function: Function, pole: Real, low: str, high: str, degree: dict[str, int]
) -> Fit:
    """function(x) = P(t), t = (x - pole) / (x + pole)"""
    low_x, high_x = mp.mpf(low), mp.mpf(high)
    value = by_t(function, pole)
    interval = (low_x - pole) / (low_x + pole), (high_x - pole) / (high_x + pole)
    return Fit(name, value, *interval, degree, lambda t: 1 / value(t), two_floats=True)


FITS = [
    # exp(r) = 1 + r + r^2 P(r)
    Fit(
        "exp",
        lambda r: (mp.expm1(r) - r) / r**2,
        -HALF_LN2,
        HALF_LN2,
        {"f32": 4, "f64": 9},
        lambda r: r**2 / mp.exp(r),
    ),
    # expm1(r) = r + r^2 P(r): one degree more, since it is small where r is.
    Fit(
        "expm1",
        lambda r: (mp.expm1(r) - r) / r**2,
        -HALF_LN2,
        HALF_LN2,
        {"f32": 5, "f64": 10},
        lambda r: r**2 / mp.expm1(r),
    ),
    # expm1(2 h) / 2 = h + h^2 P(h)
    Fit(
        "half_expm1",
        lambda h: (mp.expm1(2 * h) / 2 - h) / h**2,
        -HALF_LN2 / 2,
        HALF_LN2 / 2,
        {"f32": 4, "f64": 10},
        lambda h: 2 * h**2 / mp.expm1(2 * h),
    ),
    # 2^r = 1 + r P(r)
    Fit("exp2", lambda r: mp.expm1(r * LN2) / r, -0.501, 0.501, {"f32": 5, "f64": 10}, abs),
    # log(1 + f) = f - f^2 / 2 + f^3 P(f)
    Fit(
        "log",
        lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3,
        SQRT_HALF - 1,
        SQRT_TWO - 1,
        {"f32": 7},
        lambda f: abs(f**3 / mp.log1p(f)),
    ),
    # log(1 + f) = f + f^2 P(f)
    Fit(
        "log_of_normal",
        lambda f: (mp.log1p(f) - f) / f**2,
        SQRT_HALF - 1,
        SQRT_TWO - 1,
        {"f32": 7},
        lambda f: abs(f**2 / mp.log1p(f)),
    ),
    # log2(1 + f) = f P(f)
    Fit(
        "log2_of_normal",
        lambda f: mp.log1p(f) / f / LN2,
        SQRT_HALF - 1,
        SQRT_TWO - 1,
        {"f32": 9},
        lambda f: f / mp.log1p(f) * LN2,
    ),
    # log10(1 + f) = f P(f)
    Fit(
        "log10_of_normal",
        lambda f: mp.log1p(f) / f / mp.log(10),
        SQRT_HALF - 1,
        SQRT_TWO - 1,
        {"f32": 9},
        lambda f: f / mp.log1p(f) * mp.log(10),
    ),
    # log(1 + f) = f - s (f - z P(z)),  s = f / (2 + f),  z = s^2
    Fit(
        "log_by_s",
        lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z,
        mp.mpf(10) ** -9,
        mp.mpf("0.02945"),
        {"f64": 6},
        lambda z: z,
    ),
    # log2(1 + f) = f P(f), in float64 but only as good as a power of float32 needs
    Fit(
        "log2_for_power",
        lambda f: mp.log1p(f) / f / LN2,
        SQRT_HALF - 1,
        SQRT_TWO - 1,
        {"f64": 13},
        lambda f: f / mp.log1p(f) * LN2,
    ),
    # log2(1 + f) = s (linear + z (cubic + z P(z))),  s = f / (2 + f),  z = s^2
    Fit(
        "log2_in_two",
        lambda z: (2 / LN2 * (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1 - z / 3)) / z**2,
        mp.mpf(10) ** -9,
        mp.mpf("0.02945"),
        {"f64": 6},
        lambda z: z**2 / 2 * LN2,
    ),
    # sin(r) = r + r z P(z),  z = r^2
    Fit(
        "sin",
        lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        mp.mpf(10) ** -9,
        QUARTER_PI**2,
        {"f32": 2, "f64": 5},
        lambda z: z,
    ),
    # sin(r) = r (1 + z P(z)),  |r| <= pi / 2
    Fit(
        "sin_of_half_turn",
        lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        mp.mpf(10) ** -9,
        (QUARTER_PI * 2) ** 2,
        {"f32": 3},
        lambda z: z * mp.sqrt(z) / mp.sin(mp.sqrt(z)),
    ),
    # cos(r) = 1 - z / 2 + z^2 P(z)
    Fit(
        "cos",
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        mp.mpf(10) ** -9,
        QUARTER_PI**2,
        {"f32": 2, "f64": 5},
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
    ),
    # tan(r) = r + r z P(z)
    Fit(
        "tan",
        lambda z: (mp.tan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        mp.mpf(10) ** -9,
        QUARTER_PI**2,
        {"f32": 6, "f64": 14},
        lambda z: z * mp.sqrt(z) / mp.tan(mp.sqrt(z)),
    ),
    # asin(x) = x + x z P(z),  |x| <= 1/2
    Fit(
        "asin",
        lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        mp.mpf(10) ** -9,
        mp.mpf("0.2501"),
        {"f32": 4, "f64": 12},
        lambda z: z,
    ),
    # atan(x) = x + x z P(z),  |x| <= tan(pi / 8)
    Fit(
        "atan",
        lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        mp.mpf(10) ** -9,
        mp.tan(PI / 8) ** 2 * mp.mpf("1.001"),
        {"f32": 4, "f64": 10},
        lambda z: z,
    ),
    # sinh(x) = x + x z P(z),  |x| <= 1
    Fit(
        "sinh",
        lambda z: (mp.sinh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        mp.mpf(10) ** -9,
        mp.mpf("1.001"),
        {"f32": 3, "f64": 7},
        lambda z: z,
    ),
    # atanh(x) = x + x z P(z),  |x| <= 1/2
    Fit(
        "atanh",
        lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        mp.mpf(10) ** -9,
        mp.mpf("0.2501"),
        {"f32": 6, "f64": 14},
        lambda z: z,
    ),
    # erf(x) = x + x P(z),  z = x^2,  |x| < 1
    Fit(
        "erf",
        lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
        mp.mpf(10) ** -12,
        mp.mpf("1.001"),
        {"f32": 6, "f64": 13},
    ),
    # erf(x) = 1 - 2^(x P(x)),  x >= 1, until it is 1
    Fit(
        "erf_tail",
        lambda x: mp.log(mp.erfc(x)) / LN2 / x,
        0.999,
        4.0,
        {"f32": 5},
        lambda x: x * mp.erfc(x) * LN2,
    ),
    Fit(
        "erf_tail",
        lambda x: mp.log(mp.erfc(x)) / LN2 / x,
        0.999,
        6.0,
        {"f64": 17},
        lambda x: x * mp.erfc(x) * LN2,
    ),
    # erfc(x) = exp(-x^2) P(t) / (x + pole),  x >= 0.8
    tail("erfcx", lambda x: erfcx(x) * (x + ERFCX_POLE), ERFCX_POLE, "0.79", "10.6", {"f32": 9}),
    tail("erfcx", lambda x: erfcx(x) * (x + ERFCX_POLE), ERFCX_POLE, "0.79", "27.5", {"f64": 23}),
    # gelu(-x) = -exp(-x^2 / 2) P(t),  x >= 0.8
    tail("gelu", lambda x: x * erfcx(x / mp.sqrt(2)) / 2, GELU_POLE, "0.79", "39", {"f64": 25}),
    # The normal distribution at -x is 2^(x P(x) - 1); the error is relative to the one at 0.
    Fit(
        "normal_tail",
        lambda x: mp.log(mp.erfc(x / mp.sqrt(2))) / LN2 / x,
        mp.mpf(10) ** -9,
        NORMAL_TAIL_END,
        {"f32": 7},
        lambda x: x * mp.erfc(x / mp.sqrt(2)) ** mp.mpf("1.25") * LN2,
    ),
    # erfinv(x) = x P(w - 2.5),  w = -log(1 - x^2) < 5
    Fit("erfinv", lambda v: erfinv_by_w(v + mp.mpf("2.5")), -2.5, 2.51, {"f32": 9}),
    # erfinv(x) = x P(sqrt(w) - 3),  w >= 5
    Fit(
        "erfinv_tail",
        lambda v: erfinv_by_w((v + 3) ** 2),
        mp.sqrt(5) - mp.mpf("3.01"),
        1.02,
        {"f32": 9},
        lambda v: 1 / (v + 3),
    ),
    # The normal distribution at x is 1/2 + x P(x^2),  |x| < 0.8
    Fit(
        "normal",
        lambda z: mp.erf(mp.sqrt(z / 2)) / mp.sqrt(z) / 2,
        mp.mpf(10) ** -12,
        mp.mpf("0.641"),
        {"f64": 11},
    ),
]


def lines_of(title: str, numbers: list[Real]) -> list[str]:
    return [f"    {title}: (", *(f"        {float(number)!r}," for number in numbers), "    ),"]


def main() -> None:
    text = ['"""Constants of vector math, derived by scripts/fit_vector_math.py."""', ""]
    text += ["# Coefficients, the constant term first.", "POLYNOMIALS = {"]
    for row in FITS:
        for kind in row.degree:
            numbers, worst = fit(row, kind)
            bits = float(mp.log(worst, 2))
            print(f"{row.name:14} {kind} degree {row.degree[kind]:2} error 2^{bits:.1f}")
            text += lines_of(f'("{row.name}", "{kind}")', numbers)
    text += ["}", ""]
    text += [f"ERFCX_POLE = {float(ERFCX_POLE)!r}", f"GELU_POLE = {float(GELU_POLE)!r}"]
    text += [f"NORMAL_TAIL_END = {float(NORMAL_TAIL_END)!r}", ""]
    OUTPUT.write_text("\n".join(text))


if __name__ == "__main__":
    sys.exit(main())
