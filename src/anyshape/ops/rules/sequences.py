"""Evenly spaced numbers: `arange`, `range`, `linspace`, `logspace`."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, lcm
from typing import Any

import torch

from anyshape.ops.meta import Meta
from anyshape.ops.promotion import category, dtype_of_number
from anyshape.ops.questions import Questions
from anyshape.ops.rules.factories import dtype_of_value, factory_row, made, require_natural
from anyshape.symbolic import Expr, Size, ceildiv, ge, gt, le, ne

Bound = int | float | Expr

#: Quotients of numbers of at most so many bits do not round across an integer in torch's double
#: precision.
_EXACT = 2**20


def _step_is_positive(q: Questions, start: Size, end: Size, step: Size) -> bool:
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


def _in_integers(
    q: Questions, start: Bound, end: Bound, step: Bound
) -> tuple[Size, Size, Size] | None:
    """The three times a common denominator, which takes as many steps; None if there is none."""
    given = [start, end, step]
    scale = 1
    for number in given:
        if isinstance(number, float):
            exact = Fraction(number)
            if max(abs(exact.numerator), exact.denominator) > _EXACT:
                return None
            scale = lcm(scale, exact.denominator)
    scaled: list[Size] = []
    for number in given:
        if isinstance(number, float):
            exact = Fraction(number) * scale
            scaled.append(exact.numerator)
        else:
            scaled.append(number * scale)
    return scaled[0], scaled[1], scaled[2]


def _numbers(q: Questions, bounds: tuple[Bound, Bound, Bound]) -> list[float]:
    """The bounds as plain numbers, and fit for a sequence."""
    reason = "how a float step rounds depends on the number"
    start, end, step = (q.fix(b, reason) if isinstance(b, Expr) else b for b in bounds)
    if step == 0 or (end < start if step > 0 else end > start):
        raise q.fail(f"a step of {step} does not lead from {start} to {end}")
    return [start, end, step]


def _arange(q: Questions, *bounds: Any, dtype: torch.dtype | None = None, **options: Any) -> Meta:
    start, end, step = _bounds(bounds, options)
    if any(isinstance(bound, Meta) for bound in (start, end, step)):
        dtypes = {dtype_of_value(bound) for bound in (start, end, step)}
        default = torch.int64 if dtypes <= {torch.int64, torch.bool} else torch.get_default_dtype()
        return made(q, (q.new_size(),), dtype, default=default, **options)
    whole = all(isinstance(bound, int | Expr) for bound in (start, end, step))
    default = torch.int64 if whole else torch.get_default_dtype()
    if (dtype or default) is torch.int64:  # cut to integers first, unlike all other dtypes
        start, end, step = (
            int(b) if isinstance(b, bool | float) else b for b in (start, end, step)
        )
    integers = _in_integers(q, start, end, step)
    if integers is not None:
        count = _steps(q, *integers)
    else:
        begin, stop, by = _numbers(q, (start, end, step))
        count = ceil((stop - begin) / by)
    empty = made(q, (0,), dtype, default=default, **options)
    return _of_length(empty, count)


def _steps(q: Questions, start: Size, end: Size, step: Size) -> Size:
    """How many of start, start + step, … come before the end."""
    positive = _step_is_positive(q, start, end, step)
    return ceildiv(end - start, step) if positive else ceildiv(start - end, -step)


def _of_length(empty: Meta, count: Size) -> Meta:
    """The tensor with its length, which needs no check: the bounds have been checked."""
    return Meta((count,), empty.dtype, empty.layout, empty.device, 0, empty.requires_grad)


def _bounds(given: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Start, end and step of `arange(end)`, `arange(start, end)` and `arange(start, end, step)`."""
    named = {name: options.pop(name) for name in ("start", "end", "step") if name in options}
    names = ("end",) if len(given) == 1 and "end" not in named else ("start", "end", "step")
    named.update(zip(names, given, strict=False))
    return named.get("start", 0), named["end"], named.get("step", 1)


def _range(q: Questions, *bounds: Any, dtype: torch.dtype | None = None, **options: Any) -> Meta:
    """Like `arange`, with the end, and of floats by default."""
    start, end, step = _bounds(bounds, options)
    if dtype is torch.int64:
        start, end, step = (
            int(b) if isinstance(b, bool | float) else b for b in (start, end, step)
        )
    integers = _in_integers(q, start, end, step)
    if integers is not None:
        start, end, step = integers
        positive = _step_is_positive(q, start, end, step)
        count = ((end - start) // step if positive else (start - end) // -step) + 1
    else:
        begin, stop, by = _numbers(q, (start, end, step))
        count = floor((stop - begin) / by) + 1
    return _of_length(made(q, (0,), dtype, **options), count)


def _linspace(
    q: Questions,
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
