"""Tensors from nothing: what they are at an index is a number, or made of the index.

Sizes, dtype and layout are those that the capture has. What is empty comes from torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.casts import filled
from anyshape.graph.lowerings.pointwise import INTEGERS, constant_like, op, test, where
from anyshape.graph.lowerings.table import row
from anyshape.graph.plan import NumberRef
from anyshape.graph.pointwise_builder import Operand, cast, scalar_of, short, wide
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Dtype, Scalar
from anyshape.symbolic import Expr, Size

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

Number = int | float | Expr | NumberRef


def _everywhere(c: Lowering, value: Operand, options: dict[str, Any]) -> Value:
    """The same number everywhere."""
    if options.get("pin_memory"):
        raise NotLowered("pinned memory")
    return filled(c, c.result.shape, c.result.dtype, value)


@row("zeros", "zeros_like", "new_zeros")
def zeros(c: Lowering, **options: Any) -> Value:
    return _everywhere(c, 0, options)


@row("ones", "ones_like", "new_ones")
def ones(c: Lowering, **options: Any) -> Value:
    return _everywhere(c, 1, options)


@row("full", "full_like", "new_full")
def full(c: Lowering, fill_value: Any, **options: Any) -> Value:
    return _everywhere(c, fill_value, options)


@row("scalar_tensor")
def scalar_tensor(c: Lowering, s: Any, **options: Any) -> Value:
    return _everywhere(c, s, options)


@row("tensor")
def tensor(c: Lowering, data: Any, **options: Any) -> Value:
    if isinstance(data, Value):
        # A copy, as another dtype maybe.
        gives = short(c.result.dtype)
        return c.values.new(data.sizes, gives, lambda i: cast(data.at(i), gives), (data,))
    if isinstance(data, tuple | list):
        return _written_out(c, data, options)
    if not isinstance(data, int | float | Expr | NumberRef):
        raise NotLowered("a tensor of what are no numbers")
    return _everywhere(c, data, options)


#: Numbers of a tensor that are chosen from one by one; more of them are better off in memory.
_FEW = 8


def _written_out(c: Lowering, data: Any, options: dict[str, Any]) -> Value:
    """A few numbers, each where its place in the row is."""
    if options.get("pin_memory") or not all(type(each) in (int, float, bool) for each in data):
        raise NotLowered("a tensor of several numbers that are not all plain, or of more rows")
    if not data:
        return _everywhere(c, 0, options)
    if len(data) > _FEW:
        raise NotLowered("a tensor of many numbers")
    gives = short(c.result.dtype)
    if gives in INTEGERS and not all(_fits(each, gives) for each in data):
        raise NotLowered("numbers that the dtype does not have")
    numbers = [cast(expr.constant(each, wide(gives)), gives) for each in data]

    def at(index: Index) -> Scalar:
        if type(index[0]) is int:
            return numbers[index[0]]
        found = numbers[-1]
        for place, number in reversed(list(enumerate(numbers[:-1]))):
            here = test("eq", expr.index(index[0]), expr.constant(place, "i64"))
            found = where(here, number, found)
        return found

    return c.values.new(c.result.shape, gives, at, cost=len(numbers))


def _fits(number: float, dtype: Dtype) -> bool:
    low, high = INTEGERS[dtype]
    return isinstance(number, int) and low <= number <= high


@row("eye")
def eye(c: Lowering, **options: Any) -> Value:
    if options.get("pin_memory"):
        raise NotLowered("pinned memory")
    gives = short(c.result.dtype)

    def at(index: Index) -> Scalar:
        on_diagonal = test("eq", expr.index(index[0]), expr.index(index[1]))
        return on_diagonal if gives == "b1" else cast(on_diagonal, gives)

    return c.values.new(c.result.shape, gives, at, cost=1)


# -- evenly spaced numbers ------------------------------------------------------------------------


def _bounds(bounds: tuple[Any, ...], options: dict[str, Any]) -> tuple[Number, Number]:
    """Where a sequence starts, and its step."""
    names = ("start", "end", "step") if len(bounds) > 1 else ("end",)
    given = options | dict(zip(names, bounds, strict=False))
    found = given.get("start", 0), given.get("step", 1)
    for each in found:
        if isinstance(each, bool) or not isinstance(each, int | float | Expr | NumberRef):
            raise NotLowered("a bound that is no number")
    return found


@row("arange")
def arange(c: Lowering, bounds: tuple[Any, ...], **options: Any) -> Value:
    start, step = _bounds(bounds, options)
    gives = short(c.result.dtype)
    whole = all(isinstance(each, int | Expr) for each in (start, step))
    if gives in HALVES or (gives not in FLOATS and not whole):
        # Torch rounds the start of each vector of floats of two bytes.
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


@row("linspace")
def linspace(c: Lowering, start: Any, end: Any, steps: Size, **options: Any) -> Value:
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
