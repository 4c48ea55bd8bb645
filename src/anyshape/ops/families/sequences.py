"""Evenly spaced numbers: `arange`, `range`, `linspace`, `logspace`.

How many numbers there are torch works out in double precision, so a step that rounds may give one
more or one fewer than arithmetic would. Plain numbers are therefore counted by torch's own steps.
Symbols are counted in exact arithmetic, and only where it provably agrees: for bounds up to 2**50,
in units of their common denominator, no quotient rounds across an integer. Whatever cannot be
counted so is for the sizes of this run only.
"""

from __future__ import annotations

import math
from ctypes import c_float
from math import ceil, isfinite, lcm
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.ops.families.factories import (
    Number,
    dtype_of_value,
    factory_row,
    made,
    require_natural,
)
from anyshape.ops.lowering.pointwise_builder import scalar_of
from anyshape.ops.lowering.scalars import cast, constant_like, op, short, test, where
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, NumberRef, Value
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, Writer
from anyshape.ops.op import lower, onnx
from anyshape.ops.promotion import category, dtype_of_number
from anyshape.ops.shape_query import ShapeQuery
from anyshape.ops.versions import ARANGE_CUTS_TO_INTEGERS
from anyshape.symbolic import Expr, Size, and_, ceildiv, ge, gt, le, ne

Bound = int | float | Expr
Bounds = tuple[Bound, Bound, Bound]

#: Floats that go together with symbols are fractions of numbers up to this.
_SHORT = 2**20

#: Up to here quotients do not round across an integer.
_EXACT = 2**50

#: A step up to this, in units of the common denominator, takes more elements than a memory holds to
#: get beyond `_EXACT`.
_SMALL_STEP = 2**10
_MOST_SINGLE = torch.finfo(torch.float32).max

#: Torch's integers end before this, and overflow silently.
_TOO_MUCH = 2**63


def _arange(q: ShapeQuery, *bounds: Any, dtype: torch.dtype | None = None, **options: Any) -> Meta:
    given = _bounds(bounds, options)
    if any(isinstance(bound, Meta) for bound in given):
        dtypes = {dtype_of_value(bound) for bound in given}
        default = torch.int64 if dtypes <= {torch.int64, torch.bool} else torch.get_default_dtype()
        return made(q, (q.new_size(),), dtype, default=default, **options)
    whole = all(isinstance(bound, int | Expr) for bound in given)
    default = torch.int64 if whole else torch.get_default_dtype()
    in_integers = (dtype or default) is torch.int64 and (
        ARANGE_CUTS_TO_INTEGERS or (whole and not any(isinstance(b, bool) for b in given))
    )
    found = _in_exact_arithmetic(q, given, in_integers)
    if found is None:
        start, end, step = _numbers(q, given)
        _require_elements_fit(q, start, step, dtype or default)
        if in_integers:
            start, end, step = _cut(q, (start, end, step))
            count = _quotient(q, end - start + step - (1 if step > 0 else -1), step)
        else:
            count = ceil(_finite(q, (float(end) - float(start)) / float(step)))
    else:
        start, end, step, positive = found
        count = ceildiv(end - start, step) if positive else ceildiv(start - end, -step)
    return _of_length(q, made(q, (0,), dtype, default=default, **options), count)


def _range(q: ShapeQuery, *bounds: Any, dtype: torch.dtype | None = None, **options: Any) -> Meta:
    """Like `arange`, with the end, and of floats by default."""
    given = _bounds(bounds, options)
    empty = made(q, (0,), dtype, **options)
    in_integers = category(empty.dtype) <= 1
    # Else in single precision: only the CPU has the patience to count float32 in double.
    in_double = empty.dtype is torch.float64 or (
        empty.dtype is torch.float32 and empty.device.type in ("cpu", "meta")
    )
    exact = in_integers or in_double
    found = _in_exact_arithmetic(q, given, in_integers) if exact else None
    if found is None:
        start, end, step = _numbers(q, given)
        _require_elements_fit(q, start, step, empty.dtype)
        if in_integers:
            start, end, step = _cut(q, (start, end, step))
            count = _quotient(q, end - start, step) + 1
        else:
            rounded = float if in_double else _single
            distance, by = rounded(rounded(end) - rounded(start)), rounded(step)
            if by == 0:
                raise q.fail(f"a step of {step} is 0 in single precision")
            count = int(_finite(q, rounded(rounded(distance / by) + 1)))
    else:
        start, end, step, positive = found
        count = ((end - start) // step if positive else (start - end) // -step) + 1
    return _of_length(q, empty, count)


def _bounds(given: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Start, end and step of `arange(end)`, `arange(start, end)` and `arange(start, end, step)`."""
    named = {name: options.pop(name) for name in ("start", "end", "step") if name in options}
    names = ("end",) if len(given) == 1 and "end" not in named else ("start", "end", "step")
    named.update(zip(names, given, strict=False))
    return named.get("start", 0), named["end"], named.get("step", 1)


def _of_length(q: ShapeQuery, empty: Meta, count: Size) -> Meta:
    """The tensor with its length; in symbols it needs no check, since the bounds were checked."""
    if isinstance(count, int) and count < 0:  # of large bounds that are equal as doubles
        raise q.fail(f"there are no sequences of {count} numbers")
    return Meta((count,), empty.dtype, empty.layout, empty.device, 0, empty.requires_grad)


def _in_exact_arithmetic(
    q: ShapeQuery, bounds: Bounds, in_integers: bool
) -> tuple[Size, Size, Size, bool] | None:
    """Integers that take as many steps, and whether upwards; None where torch's own steps tell.

    `in_integers` says that torch counts in integers, of bounds that are cut to integers.
    """
    if not any(isinstance(bound, Expr) for bound in bounds):
        return None
    scaled = _over_common_denominator(bounds)
    if scaled is None:
        return None
    start, end, step = scaled
    positive = _step_is_positive(q, start, end, step)  # of the numbers as they are given
    if in_integers:
        start, end, step = _cut(q, bounds)
        guarded = [step]
    else:
        close = isinstance(start, int) and isinstance(step, int) and abs(step) <= _SMALL_STEP
        guarded = [] if close else [start, end, step]
    for size in guarded:
        if isinstance(size, Expr) and not q.decide_or(
            and_(ge(size, -_EXACT), le(size, _EXACT)), True, "larger numbers round or overflow"
        ):
            return None
    return start, end, step, positive


def _scaled(ratio: tuple[int, int], scale: int) -> int:
    """The product, an integer: the scale is a multiple of the denominator."""
    return ratio[0] * (scale // ratio[1])


def _over_common_denominator(bounds: Bounds) -> tuple[Size, Size, Size] | None:
    """The three times a common denominator; None where their own digits would round."""
    scale = 1
    for number in bounds:
        if isinstance(number, float):
            if not isfinite(number):
                return None
            numerator, denominator = number.as_integer_ratio()
            if max(abs(numerator), denominator) > _SHORT:
                return None
            scale = lcm(scale, denominator)
    start, end, step = (
        _scaled(b.as_integer_ratio(), scale) if isinstance(b, float) else b * scale for b in bounds
    )
    large = any(isinstance(b, int) and abs(b) > _EXACT for b in (start, end, step))
    return None if large else (start, end, step)


def _step_is_positive(q: ShapeQuery, start: Size, end: Size, step: Size) -> bool:
    """The direction of a sequence of integers, which has to lead from the start to the end."""
    if isinstance(step, Expr):
        q.require(ne(step, 0), "the step must not be 0")
    elif step == 0:
        raise q.fail("the step must not be 0")
    positive = (
        step > 0 if isinstance(step, int) else q.decide(gt(step, 0), "the direction of the steps")
    )
    fits = le(start, end) if positive else ge(start, end)
    q.require(fits, "the step must lead from the start to the end")
    return positive


def _numbers(q: ShapeQuery, bounds: Bounds) -> tuple[float, float, float]:
    """The bounds as plain numbers, and fit for a sequence."""
    reason = "how a float step rounds depends on the number"
    start, end, step = (q.specialize(b, reason) if isinstance(b, Expr) else b for b in bounds)
    if any(
        isinstance(number, int) and not -_TOO_MUCH <= number < _TOO_MUCH
        for number in (start, end, step)
    ):
        raise q.fail(f"an integer is too large among {start}, {end} and {step}")
    # Torch compares doubles.
    low, high, by = (float(number) for number in (start, end, step))
    if not (isfinite(low) and isfinite(high)):
        raise q.fail(f"a sequence from {start} to {end} never ends")
    if not ((by > 0 and high >= low) or (by < 0 and high <= low)):
        raise q.fail(f"a step of {step} does not lead from {start} to {end}")
    return start, end, step


def _require_elements_fit(q: ShapeQuery, start: float, step: float, dtype: torch.dtype) -> None:
    """Elements are computed from the start and the step, in int64 or in single precision at
    least."""
    for number in (start, step):
        if category(dtype) <= 1:
            fits = -_TOO_MUCH <= number < _TOO_MUCH
        else:
            fits = dtype.itemsize > 2 or not isfinite(number) or abs(number) <= _MOST_SINGLE
        if not fits:
            raise q.fail(f"{number} does not go into elements of {dtype}")


def _cut(q: ShapeQuery, bounds: Bounds) -> tuple[Any, Any, Any]:
    """The bounds as integers."""
    if any(isinstance(b, float) and not -_TOO_MUCH <= b < _TOO_MUCH for b in bounds):
        raise q.fail(f"no integers are {bounds[0]}, {bounds[1]} and {bounds[2]}")
    start, end, step = (b if isinstance(b, Expr) else int(b) for b in bounds)
    if isinstance(step, int) and step == 0:
        raise q.fail(f"a step of {bounds[2]} is 0 as an integer")
    return start, end, step


def _quotient(q: ShapeQuery, distance: int, step: int) -> int:
    """How often the step goes into a distance, as integers are divided in C++."""
    if not -_TOO_MUCH <= distance < _TOO_MUCH:
        raise q.fail(f"{distance} overflows")  # What torch makes of it is anybody's guess.
    count = abs(distance) // abs(step)
    return count if (distance > 0) == (step > 0) else -count


def _finite(q: ShapeQuery, count: float) -> float:
    if not 0 <= count < _TOO_MUCH:
        raise q.fail(f"{count} steps are too many")
    return count


def _single(number: float) -> float:
    """Rounded to single precision. So rounded, results in double precision of single ones are those
    of single precision."""
    return c_float(number).value


def _linspace(
    q: ShapeQuery,
    start: Any,
    end: Any,
    steps: Size,
    base: float = 10.0,
    *,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Meta:
    require_natural(q, steps, "the number of steps")
    complex_ = any(category(dtype_of_value(bound)) == 3 for bound in (start, end))
    default = dtype_of_number(0j) if complex_ else None
    return made(q, (steps,), dtype, default=default, **options)


ROWS = (
    factory_row("arange", _arange),
    factory_row("range", _range),
    factory_row("linspace", _linspace),
    factory_row("logspace", _linspace),
)


# -- native code ----------------------------------------------------------------------------------


def _start_and_step(bounds: tuple[Any, ...], options: dict[str, Any]) -> tuple[Number, Number]:
    """Where a sequence starts, and its step."""
    names = ("start", "end", "step") if len(bounds) > 1 else ("end",)
    given = options | dict(zip(names, bounds, strict=False))
    found = given.get("start", 0), given.get("step", 1)
    for each in found:
        if isinstance(each, bool) or not isinstance(each, int | float | Expr | NumberRef):
            raise NotLowered("a bound that is no number")
    return found


@lower("arange")
def lower_arange(c: Lowering, bounds: tuple[Any, ...], **options: Any) -> Value:
    start, step = _start_and_step(bounds, options)
    gives = short(c.result.dtype)
    whole = all(isinstance(each, int | Expr) for each in (start, step))
    if gives in HALVES or (gives not in FLOATS and not whole):
        # Torch rounds the start of each vector of 16-bit floats.
        raise NotLowered("rounded bounds")
    inner: expr.Dtype = "i64" if whole else "f64"
    shape = c.result.shape

    def at(index: Index) -> Scalar:
        place: Scalar = cast(expr.index(index[0]), inner)
        if step != 1:
            place = op("mul", place, scalar_of(step, index, shape, inner))
        if start != 0:
            place = op("add", scalar_of(start, index, shape, inner), place)
        return cast(place, gives)

    return c.values.new(shape, gives, at, cost=2)


@lower("linspace")
def lower_linspace(c: Lowering, start: Any, end: Any, steps: Size, **options: Any) -> Value:
    """From both ends to the middle, as torch does it, so that the end is exact."""
    gives = short(c.result.dtype)
    if gives not in ("f32", "f64") or options.get("pin_memory"):
        raise NotLowered("numbers that are rounded on the way")
    for bound in (start, end):
        if not isinstance(bound, int | float) or not math.isfinite(bound):
            raise NotLowered("a bound that is no plain number")

    def at(index: Index) -> Scalar:
        first, last = expr.constant(start, gives), expr.constant(end, gives)
        number, many = expr.index(index[0]), expr.index(steps)
        one = constant_like(1, many)
        gaps = op("maximum", op("sub", many, one), one)
        step = op("div", op("sub", last, first), cast(gaps, gives))
        rest = op("sub", op("sub", many, number), one)
        up = op("add", first, op("mul", step, cast(number, gives)))
        down = op("sub", last, op("mul", step, cast(rest, gives)))
        in_first_half = test("lt", op("add", number, number), op("sub", many, _odd(many)))
        return where(test("or", in_first_half, test("eq", many, one)), up, down)

    return c.values.new(c.result.shape, gives, at, cost=8)


def _odd(many: Scalar) -> Scalar:
    """1 of odd numbers: half of them is rounded down."""
    return op("and", many, constant_like(1, many))


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("arange")
def onnx_arange(w: Writer, node: Node, bounds: Any, **options: Any) -> str:
    """Up to three numbers, of which the last ones may have names."""
    names = ("end",) if len(bounds) == 1 and "end" not in options else ("start", "end", "step")
    given = {"start": 0, "step": 1} | dict(zip(names, bounds, strict=False)) | options
    ends = [w.name(given[each], w.dtype(node)) for each in ("start", "end", "step")]
    return w.add("Range", ends)
