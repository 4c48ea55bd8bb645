"""Images of other sizes: the nearest element, or between neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.pointwise import constant_like, op, test, where
from anyshape.graph.lowerings.table import row
from anyshape.graph.pointwise_builder import cast, wide
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, Dtype, Scalar
from anyshape.symbolic import Expr, Size

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

_LINEAR = ("linear", "bilinear", "trilinear")


@row("interpolate")
def interpolate(
    c: Lowering,
    input: Value,
    size: Any,
    scale_factor: Any,
    mode: Any,
    align_corners: Any,
    recompute_scale_factor: Any,
    antialias: Any,
) -> Value:
    dims = len(input.sizes) - 2
    if antialias or input.dtype not in FLOATS or (mode != "nearest" and mode not in _LINEAR):
        raise NotLowered(f"interpolation by {mode}")
    factors: Sequence[Any] = [None] * dims
    if scale_factor is not None and not recompute_scale_factor:
        given = scale_factor
        factors = list(given) if isinstance(given, tuple | list) else [given] * dims
        if not all(type(each) in (int, float) and each > 0 for each in factors):
            raise NotLowered("a factor that is not known")
    # Eager looks for the nearest element in f32, whatever the dtype of the image.
    dtype: Dtype = "f32" if mode == "nearest" else wide(input.dtype)
    axes = [
        _Resized(input.sizes[2 + d], c.result.shape[2 + d], factors[d], dtype) for d in range(dims)
    ]
    if mode == "nearest":
        return _nearest(c, input, axes)
    if input.dtype not in ("f32", "f64"):
        raise NotLowered("weights of other dtypes")
    return _between(c, input, axes, bool(align_corners))


class _Resized:
    """A dimension of one size that is read for one of another."""

    def __init__(self, own: Size, new: Size, factor: float | None, dtype: Dtype) -> None:
        self.own, self.new, self._factor = own, new, factor
        self._dtype: Dtype = dtype

    def scale(self) -> Scalar:
        """How far apart neighbours of the result are; a float, rounded as in eager."""
        if self._factor is not None:
            return expr.constant(1.0 / self._factor, self._dtype)
        return op("div", self.number(self.own), self.number(self.new))

    def corner_scale(self) -> Scalar:
        """The same where first and last elements are kept."""
        steps = self.number(self.new - 1)
        several = test("gt", steps, constant_like(0, steps))
        scale = op("div", self.number(self.own - 1), where(several, steps, constant_like(1, steps)))
        return where(several, scale, constant_like(0, scale))

    def number(self, size: Size) -> Scalar:
        return cast(expr.index(size), self._dtype)

    def nearest(self, here: Size) -> Expr:
        """The element that stands for one of the result. Eager goes by the sizes where they are the
        same or twice as large, whatever the factor."""
        whole, new = expr.index(here), expr.index(self.new)
        scaled = cast(op("floor", op("mul", self.number(here), self.scale())), "i64")
        twice = test("eq", new, expr.index(self.own * 2))
        half = op("shr", whole, expr.constant(1, "i64"))
        same = test("eq", new, expr.index(self.own))
        return self.within(where(same, whole, where(twice, half, scaled)))

    def within(self, at: Scalar) -> Expr:
        """A whole number that is not negative, as a position."""
        last = expr.index(self.own - 1)
        return expr.position(op("minimum", cast(at, "i64"), last))


def _nearest(c: Lowering, input: Value, axes: Sequence[_Resized]) -> Value:
    def at(index: Index) -> Scalar:
        places = [axis.nearest(here) for axis, here in zip(axes, index[2:], strict=True)]
        return input.at((*index[:2], *places))

    return c.values.new(c.result.shape, input.dtype, at, (input,), cost=4)


def _between(c: Lowering, input: Value, axes: Sequence[_Resized], corners: bool) -> Value:
    c.materialize_if_expensive(input, 2 ** len(axes))

    def source(axis: _Resized, here: Size) -> Scalar:
        if corners:
            return op("mul", axis.corner_scale(), axis.number(here))
        half = expr.constant(0.5, axis.number(here).dtype)
        centre = op("sub", op("mul", axis.scale(), op("add", axis.number(here), half)), half)
        return op("maximum", centre, constant_like(0, centre))

    def at(index: Index) -> Scalar:
        pairs: list[tuple[Expr, Expr, Scalar]] = []
        for axis, here in zip(axes, index[2:], strict=True):
            # An image of the same size is itself, whatever the factor.
            same = test("eq", expr.index(axis.new), expr.index(axis.own))
            place = where(same, axis.number(here), source(axis, here))
            low = op("floor", place)
            near = axis.within(low)
            far = axis.within(op("add", low, constant_like(1, low)))
            pairs.append((near, far, op("sub", place, low)))
        return _mixed(input, index[:2], pairs)

    return c.values.new(c.result.shape, input.dtype, at, (input,), cost=12)


def _mixed(
    input: Value, chosen: tuple[Size, ...], pairs: Sequence[tuple[Expr, Expr, Scalar]]
) -> Scalar:
    """What lies between the neighbours in all dimensions, the first one last."""
    if not pairs:
        return input.at(chosen)
    (near, far, weight), *rest = pairs
    low, high = _mixed(input, (*chosen, near), rest), _mixed(input, (*chosen, far), rest)
    other = op("sub", constant_like(1, weight), weight)
    return op("add", op("mul", other, low), op("mul", weight, high))
