"""Numbers that are not known yet, for operators that fail where the dtype does not have them.

Arithmetic and comparisons take any number and wrap it; `fill_`, `clamp`, `where` and most others do
not. A size in the place of a number is taken for one that fits, which every call then checks first.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Dtype, Scalar
from anyshape.ops.lowering.scalars import constant_like, op, test
from anyshape.ops.lowering.values import HostScalar, Lowering, NotLowered, NumberRef, Value
from anyshape.symbolic import Expr, ge, le

#: The numbers of an integer dtype.
INTEGERS: Final = {
    "u8": (0, 255),
    "i8": (-128, 127),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
}

#: Whole numbers that a dtype has; others have all of 64 bits, or are as near as rounding gets.
LIMITS: Final = INTEGERS | {
    "f16": (-65504, 65504),
    "f8e4m3fn": (-448, 448),
    "f8e5m2": (-57344, 57344),
    "f8e4m3fnuz": (-240, 240),
    "f8e5m2fnuz": (-57344, 57344),
}

LARGEST_F32: Final = (2 - 2**-23) * 2.0**127
_TOO_LARGE: Final = "value cannot be converted to type float without overflow"

#: Up to here a float has all whole numbers.
EXACT: Final = 2**53


def must_fit(c: Lowering, number: Any, dtype: Dtype) -> None:
    """Go on for numbers that the dtype has."""
    if isinstance(number, NumberRef) and dtype == "f32":
        must_fit_f32(c, number)
    elif isinstance(number, NumberRef) and dtype != "f64":
        raise NotLowered("a number that the dtype may not have")
    if isinstance(number, Expr) and dtype != "i64" and dtype in LIMITS:
        must_be_within(c, number, *LIMITS[dtype])


def must_fit_f32(c: Lowering, number: NumberRef) -> None:
    """Fail where torch does: at a number that is finite and becomes infinite. Before anything is
    written, and on the host: a kernel of a GPU that fails takes the program's memory with it."""
    if c.check_first(number, as_f32):
        return
    scalar = expr.number(number.name)
    value = c.made_once(("number", number.name), lambda: c.values.new((), "f64", lambda _: scalar))
    c.require(value, "f32", _fits_f32, _TOO_LARGE)


def value_must_fit_f32(c: Lowering, value: Value) -> None:
    """The same of a tensor of one element that torch reads as a number."""
    if isinstance(value, HostScalar):
        c.read_by(value, _read_f32)
    elif c.on_gpu:
        raise NotLowered("a factor that torch reads on the GPU")
    else:
        c.require(value, "f32", _fits_f32, _TOO_LARGE)


def _read_f32(tensor: torch.Tensor) -> float:
    return as_f32(tensor.item())


def as_f32(number: float) -> float:
    """A number that torch makes a float32 of."""
    if math.isfinite(number) and abs(number) > LARGEST_F32:
        raise RuntimeError(_TOO_LARGE)
    return number


def _fits_f32(x: Scalar) -> Scalar:
    within = test("le", op("abs", x), constant_like(LARGEST_F32, x))
    return test("or", within, test("not", test("isfinite", x)))


def must_be_within(c: Lowering, size: Expr, low: int, high: int) -> None:
    c.assume(ge(size, low), "a number that the dtype may not have")
    c.assume(le(size, high), "a number that the dtype may not have")
