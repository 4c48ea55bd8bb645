"""Resampling of images: interpolation, sampling at a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, Dtype, Scalar
from anyshape.ops.families.matmul import require_one_dtype, require_same
from anyshape.ops.families.pooling import adaptive_avg, gradient_adaptive_avg_pool
from anyshape.ops.float_scale import scaled
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.lowering.scalars import cast, constant_like, op, test, where, wide
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value
from anyshape.ops.memory_format import kept_format
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.onnx import Node, NotMapped, Writer, is_node
from anyshape.ops.op import FUNCTIONAL, TOTAL, Op, OpKind, Rule, gradient, lower, onnx
from anyshape.ops.promotion import category
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Expr, Size, gt

#: Spatial dimensions that a mode is for.
_MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "area": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "lanczos": (2,),
    "trilinear": (3,),
}

_ANTIALIASED = ("bilinear", "bicubic", "lanczos")


def _interpolate(
    q: ShapeQuery,
    input: Meta,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Meta:
    dims = input.rank - 2
    if dims not in _MODES.get(mode, ()):
        raise q.fail(f"mode {mode!r} is not for {input.rank} dimensions")
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise q.fail(f"align_corners means nothing to mode {mode!r}")
    if (antialias and mode not in _ANTIALIASED) or (mode == "lanczos" and not antialias):
        raise q.fail(f"antialias={antialias} does not go with mode {mode!r}")
    if recompute_scale_factor and size is not None:
        raise q.fail("recompute_scale_factor goes with a scale_factor")
    targets = _targets(q, input, dims, size, scale_factor)
    if mode == "area":
        return adaptive_avg(dims)(q, input, targets)
    floating = category(input.dtype) == 2
    if not floating and (input.dtype is not torch.uint8 or mode in ("linear", "trilinear")):
        raise q.fail(f"there is no interpolation of {input.dtype}")
    for extent in (*input.shape[1:], *targets):
        q.require(gt(extent, 0), "only the batch may be empty")
    layout = contiguous(3) if dims == 1 else kept_format(q, input)
    return input.like((*input.shape[:2], *targets), layout=layout)


def _targets(
    q: ShapeQuery, input: Meta, dims: int, size: Any, scale_factor: Any
) -> tuple[Size, ...]:
    if (size is None) == (scale_factor is None):
        raise q.fail("either size or scale_factor is given")
    given = size if scale_factor is None else scale_factor
    values = tuple(given) if isinstance(given, Sequence) else (given,) * dims
    if len(values) != dims:
        raise q.fail(f"size or scale_factor must have {dims} entries, not {len(values)}")
    if scale_factor is None:
        return values
    return tuple(
        scaled(q, size, factor) for size, factor in zip(input.shape[2:], values, strict=True)
    )


def _upsample(mode: str, *, aligned: bool) -> Rule:
    """Torch's own functions, which take factors as a list or one by one."""

    def rule(q: ShapeQuery, input: Meta, output_size: Any, *more: Any, **named: Any) -> Meta:
        factors = named.get("scale_factors", next(iter(more[aligned:]), None))
        if output_size is not None:
            factors = None
        antialias = mode.endswith("_aa")
        return _interpolate(
            q, input, output_size, factors, mode.removesuffix("_aa"), antialias=antialias
        )

    return rule


def _grid_sample(
    q: ShapeQuery,
    input: Meta,
    grid: Meta,
    mode: str | int = "bilinear",
    padding_mode: str | int = "zeros",
    align_corners: bool | None = None,
) -> Meta:
    dims = input.rank - 2
    if dims not in (2, 3) or grid.rank != input.rank:
        raise q.fail("input and grid have four or five dimensions, the same number")
    if mode in ("bicubic", 2) and dims != 2:
        raise q.fail("mode 'bicubic' is for four dimensions")
    if category(require_one_dtype(q, input, grid)) != 2:
        raise q.fail(f"there is no sampling of {input.dtype}")
    require_same(q, input.shape[0], grid.shape[0], "the batch sizes of input and grid")
    require_same(q, grid.shape[-1], dims, "the coordinates of a point of the grid")
    for size in input.shape[2:]:
        q.require(gt(size, 0), "an image has elements")
    return input.like((*input.shape[:2], *grid.shape[1:-1]))


def _affine_grid(q: ShapeQuery, theta: Meta, size: Sequence[Size], *_: Any, **__: Any) -> Meta:
    dims = len(size) - 2
    if dims not in (2, 3) or theta.rank != 3:
        raise q.fail(f"a grid is for images of four or five dimensions, not {size}")
    if category(theta.dtype) != 2:
        raise q.fail(f"affine matrices are of floats, not {theta.dtype}")
    require_same(q, theta.shape[1], dims, "the rows of an affine matrix")
    require_same(q, theta.shape[2], dims + 1, "the columns of an affine matrix")
    require_same(q, theta.shape[0], size[0], "the number of affine matrices and the batch size")
    for extent in size:
        q.require(gt(extent, 0), "the sizes of a grid are positive")
    return theta.like((*size[:1], *size[2:], dims))


def gradient_of_resampled(
    grad: torch.Tensor, kernel: str, sizes: Any, corners: tuple[bool, ...], factors: Any
) -> torch.Tensor:
    """Of an input of these sizes. `factors`: those that were given, one for each dimension."""
    if not grad.numel():
        return grad.new_zeros(sizes)
    given = (grad.contiguous(), grad.shape[2:], sizes, *corners, *factors)
    return getattr(torch.ops.aten, kernel)(*given).contiguous()


def _of_resampled(
    q: ShapeQuery, grad: Meta, kernel: str, sizes: Any, corners: Any, factors: Any
) -> Meta:
    return grad.like(tuple(sizes))


_UPSAMPLES = {
    **{f"upsample_nearest{dims}d": _upsample("nearest", aligned=False) for dims in (1, 2, 3)},
    **{
        f"_upsample_nearest_exact{dims}d": _upsample("nearest-exact", aligned=False)
        for dims in (1, 2, 3)
    },
    "upsample_linear1d": _upsample("linear", aligned=True),
    "upsample_bilinear2d": _upsample("bilinear", aligned=True),
    "upsample_bicubic2d": _upsample("bicubic", aligned=True),
    "upsample_trilinear3d": _upsample("trilinear", aligned=True),
    "_upsample_bilinear2d_aa": _upsample("bilinear_aa", aligned=True),
    "_upsample_bicubic2d_aa": _upsample("bicubic_aa", aligned=True),
}

ROWS: tuple[Op, ...] = (
    Op("interpolate", (FUNCTIONAL + "interpolate",), _interpolate, OpKind.CALL_OUT, effects=TOTAL),
    Op(
        "grid_sample",
        (
            FUNCTIONAL + "grid_sample",
            "torch.grid_sampler",
            "torch.grid_sampler_2d",
            "torch.grid_sampler_3d",
        ),
        _grid_sample,
        OpKind.CALL_OUT,
        effects=TOTAL,
    ),
    *(
        Op(
            name,
            (f"torch._C._nn.{name}", f"torch.ops.aten.{name}"),
            rule,
            OpKind.CALL_OUT,
            effects=TOTAL,
        )
        for name, rule in _UPSAMPLES.items()
    ),
    Op(
        "gradient_of_resampled",
        (f"{__name__}.gradient_of_resampled",),
        _of_resampled,
        OpKind.CALL_OUT,
    ),
    Op("affine_grid", (FUNCTIONAL + "affine_grid",), _affine_grid, OpKind.CALL_OUT, effects=TOTAL),
)


# -- native code ----------------------------------------------------------------------------------


_LINEAR = ("linear", "bilinear", "trilinear")


@lower("interpolate")
def lower_interpolate(
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


# -- gradients ------------------------------------------------------------------------------------

#: Torch's kernels for gradients, and whether they are told of corners.
_BACKWARD: Final = {
    "nearest": ("upsample_nearest{}d_backward", False),
    "nearest-exact": ("_upsample_nearest_exact{}d_backward", False),
    "linear": ("upsample_linear1d_backward", True),
    "bilinear": ("upsample_bilinear2d_backward", True),
    "bicubic": ("upsample_bicubic2d_backward", True),
    "trilinear": ("upsample_trilinear3d_backward", True),
}


@gradient("interpolate")
def gradient_interpolate(
    grad: Term,
    input: Term,
    scale_factor: Any,
    mode: Any,
    align_corners: Any,
    recompute_scale_factor: Any,
    antialias: Any,
) -> Gradients:
    if mode == "area":
        return gradient_adaptive_avg_pool(grad, input, f"adaptive_avg_pool{input.rank - 2}d")
    if antialias or mode not in _BACKWARD:
        raise NoGradient(f"resampling by {mode}, or without aliases")
    dims = input.rank - 2
    factors: list[float | None] = [None] * dims
    if scale_factor is not None and not recompute_scale_factor:
        several = isinstance(scale_factor, tuple | list)
        factors = list(scale_factor) if several else [scale_factor] * dims
        if not all(isinstance(each, int | float) for each in factors):
            raise NoGradient("a factor that is not a constant")
    kernel, takes_corners = _BACKWARD[mode]
    corners = (bool(align_corners),) if takes_corners else ()
    given = (kernel.format(dims), list(input.shape), corners, factors)
    return {"input": grad.call(gradient_of_resampled, *given)}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("interpolate")
def onnx_interpolate(
    w: Writer,
    node: Node,
    input: Any,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: Any,
    antialias: bool,
) -> str:
    ways = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear"}
    if mode not in ways or antialias or (size is None) is (scale_factor is None):
        raise NotMapped(f"interpolation of mode {mode}")
    dims, name = w.rank(input) - 2, w.name(input)
    corners = "align_corners" if align_corners else "half_pixel"
    how = {
        "mode": ways[mode],
        "nearest_mode": "floor",
        "coordinate_transformation_mode": "asymmetric" if mode == "nearest" else corners,
    }
    if size is None:
        factors = [scale_factor] * dims if isinstance(scale_factor, int | float) else scale_factor
        if any(is_node(each) for each in factors):
            raise NotMapped("interpolation by a computed factor")
        scales = w.constant(torch.tensor([1.0, 1.0, *map(float, factors)]))
        return w.add("Resize", [name, "", scales], **how)
    wanted = list(size) if isinstance(size, tuple | list) else [size] * dims
    head = w.add("Slice", [w.add("Shape", [name]), w.constant([0]), w.constant([2])])
    sizes = w.add("Concat", [head, w.shape(wanted)], axis=0)
    return w.add("Resize", [name, "", "", sizes], **how)
