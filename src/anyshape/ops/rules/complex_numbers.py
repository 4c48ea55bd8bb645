"""Complex numbers: conjugation, angles, and building them from parts. Their parts are views."""

from __future__ import annotations

from dataclasses import replace

from anyshape.ops.meta import Meta
from anyshape.ops.op import Lowering, Op
from anyshape.ops.promotion import complex_of, floating, real
from anyshape.ops.questions import Questions
from anyshape.ops.rules.pointwise import elementwise, everywhere, fresh, same


def _angle(q: Questions, input: Meta) -> Meta:
    return elementwise(q, (input,), lambda dtype: floating(real(dtype)))


def _conj(q: Questions, input: Meta) -> Meta:
    """A view that is marked as conjugated, with the same strides."""
    return replace(input) if input.dtype.is_complex else input


def _conj_physical(q: Questions, input: Meta) -> Meta:
    return elementwise(q, (input,), same) if input.dtype.is_complex else input


def _resolved(q: Questions, input: Meta) -> Meta:
    return input


def _from_parts(q: Questions, real: Meta, imag: Meta) -> Meta:
    if real.dtype != imag.dtype or not real.dtype.is_floating_point:
        raise q.fail(f"both parts must be of one float dtype: {real.dtype}, {imag.dtype}")
    return fresh(q, [real, imag], complex_of(real.dtype))


def _polar(q: Questions, abs: Meta, angle: Meta) -> Meta:
    return _from_parts(q, abs, angle)


ROWS = (
    Op("angle", everywhere("angle"), _angle, Lowering.POINTWISE),
    Op("conj", everywhere("conj"), _conj, Lowering.POINTWISE),
    Op(
        "conj_physical",
        everywhere("conj_physical"),
        _conj_physical,
        Lowering.POINTWISE,
        in_place=everywhere("conj_physical_"),
    ),
    Op("resolve_conj", everywhere("resolve_conj", "resolve_neg"), _resolved, Lowering.NOTHING),
    Op("complex", ("torch.complex",), _from_parts, Lowering.POINTWISE),
    Op("polar", ("torch.polar",), _polar, Lowering.POINTWISE),
)
