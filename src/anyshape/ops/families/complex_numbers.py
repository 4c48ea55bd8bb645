"""Complex numbers: their parts as views, conjugation, and building them from parts."""

from __future__ import annotations

from functools import partial

import torch

from anyshape.ops.elementwise import everywhere, fresh, pointwise_meta, same
from anyshape.ops.families.casts import lower_itself
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, lower_view, row_of
from anyshape.ops.promotion import complex_of, floating, real
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import and_, eq


def _part(input: Meta, which: int) -> Meta:
    """The real (0) or imaginary (1) parts: every second number of the storage."""
    strides = tuple(stride * 2 for stride in input.strides)
    view = input.viewed(input.shape, strides, input.offset * 2 + which)
    return replace(view, dtype=real(input.dtype))


def _real(q: ShapeQuery, input: Meta) -> Meta:
    return _part(input, 0) if input.dtype.is_complex else input


def _imag(q: ShapeQuery, input: Meta) -> Meta:
    if not input.dtype.is_complex:
        raise q.fail(f"a tensor of {input.dtype} has no imaginary part")
    return _part(input, 1)


def _angle(q: ShapeQuery, input: Meta) -> Meta:
    if input.dtype.is_complex:
        return input.like(dtype=real(input.dtype))
    return pointwise_meta(q, (input,), floating)


def _conj(q: ShapeQuery, input: Meta) -> Meta:
    """A view that is marked as conjugated, with the same strides."""
    return replace(input) if input.dtype.is_complex else input


def _conj_physical(q: ShapeQuery, input: Meta) -> Meta:
    return pointwise_meta(q, (input,), same) if input.dtype.is_complex else input


def _resolved(q: ShapeQuery, input: Meta) -> Meta:
    """Of what is marked as conjugated it is a copy."""
    return replace(input) if input.dtype.is_complex else input


def _from_parts(q: ShapeQuery, real: Meta, imag: Meta) -> Meta:
    if real.dtype != imag.dtype or not real.dtype.is_floating_point:
        raise q.fail(f"both parts must be of one float dtype: {real.dtype}, {imag.dtype}")
    return fresh(q, [real, imag], complex_of(real.dtype))


def _polar(q: ShapeQuery, abs: Meta, angle: Meta) -> Meta:
    return _from_parts(q, abs, angle)


# ---- numbers seen as other numbers ---------------------------------------------------------------


def view_as_real(q: ShapeQuery, input: Meta) -> Meta:
    if not input.dtype.is_complex:
        raise q.fail(f"{input.dtype} is not complex")
    seen = _in_halves(input)
    return seen.viewed((*seen.shape, 2), (*seen.strides, 1))


def _in_halves(input: Meta) -> Meta:
    """The real parts of complex numbers: every second number."""
    doubled = tuple(2 * stride for stride in input.strides)
    return replace(input.viewed(input.shape, doubled, 2 * input.offset), dtype=real(input.dtype))


def view_as_complex(q: ShapeQuery, input: Meta) -> Meta:
    if input.dtype not in (torch.float16, torch.float32, torch.float64):
        raise q.fail(f"{input.dtype} is not half of a complex number")
    if not input.shape:
        raise q.fail("a last dimension of size 2 is needed")
    *strides, last = input.strides
    q.require(eq(input.shape[-1], 2), "the last dimension has the two parts of a number")
    q.require(eq(last, 1), "the two parts of a number lie side by side")
    evens = [eq(stride % 2, 0) for stride in (*strides, input.offset)]
    q.require(and_(*evens), "numbers begin at even places")
    seen = input.viewed(
        input.shape[:-1], tuple(stride // 2 for stride in strides), input.offset // 2
    )
    return replace(seen, dtype=complex_of(input.dtype))


_row = partial(row_of, OpKind.VIEW)

ROWS: tuple[Op, ...] = (
    Op("real", ("torch.real", "torch.Tensor.real.__get__"), _real, OpKind.VIEW),
    Op("imag", ("torch.imag", "torch.Tensor.imag.__get__"), _imag, OpKind.VIEW),
    Op("angle", everywhere("angle"), _angle, OpKind.POINTWISE),
    Op("conj", everywhere("conj"), _conj, OpKind.VIEW),
    Op(
        "conj_physical",
        everywhere("conj_physical"),
        _conj_physical,
        OpKind.POINTWISE,
        in_place=everywhere("conj_physical_"),
    ),
    Op("resolve_conj", everywhere("resolve_conj", "resolve_neg"), _resolved, OpKind.NOTHING),
    Op("complex", ("torch.complex",), _from_parts, OpKind.POINTWISE),
    Op("polar", ("torch.polar",), _polar, OpKind.POINTWISE),
    _row("view_as_real", view_as_real),
    _row("view_as_complex", view_as_complex),
)


# -- native code ----------------------------------------------------------------------------------


lower_view("resolve_conj")(lower_itself)
