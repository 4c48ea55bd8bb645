"""Resampling of images: interpolation, sampling at a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.ops.float_scale import scaled
from anyshape.ops.memory_format import kept_format
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.op import Op, OpKind, Rule
from anyshape.ops.promotion import category
from anyshape.ops.rules.matmul import require_one_dtype, require_same
from anyshape.ops.rules.pooling import adaptive_avg
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, gt

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
_F = "torch.nn.functional."
ROWS: tuple[Op, ...] = (
    Op("interpolate", (_F + "interpolate",), _interpolate, OpKind.CALL_OUT),
    Op(
        "grid_sample",
        (
            _F + "grid_sample",
            "torch.grid_sampler",
            "torch.grid_sampler_2d",
            "torch.grid_sampler_3d",
        ),
        _grid_sample,
        OpKind.CALL_OUT,
    ),
    *(
        Op(name, (f"torch._C._nn.{name}", f"torch.ops.aten.{name}"), rule, OpKind.CALL_OUT)
        for name, rule in _UPSAMPLES.items()
    ),
    Op("affine_grid", (_F + "affine_grid",), _affine_grid, OpKind.CALL_OUT),
)
