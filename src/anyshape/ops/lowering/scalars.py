"""Scalars of kernels, and the dtypes that they are computed in.

16-bit floats are computed in f32 and rounded by a cast, as eager does operator by operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOAT8, HALVES, Dtype, Scalar
from anyshape.ops.lowering.float8 import encoded
from anyshape.ops.lowering.values import DTYPES, NotLowered
from anyshape.ops.promotion import floating

Compute = Callable[..., Scalar]

TORCH_DTYPES: Final[dict[str, torch.dtype]] = {short: dtype for dtype, short in DTYPES.items()}


def short(dtype: torch.dtype) -> Dtype:
    """The name of a dtype in kernels."""
    found = DTYPES.get(dtype)
    if found is None:
        raise NotLowered(f"no native code for {dtype}")
    return found


def float_dtype(dtype: Dtype) -> Dtype:
    """The dtype in which an operator of floats takes this one: integers become the default."""
    return short(floating(TORCH_DTYPES[dtype]))


def wide(dtype: Dtype) -> Dtype:
    """The dtype to compute in for results of this one."""
    return "f32" if dtype in HALVES else dtype


def cast(scalar: Scalar, dtype: Dtype) -> Scalar:
    if scalar.dtype == dtype:
        return scalar
    if dtype in FLOAT8:
        return encoded(cast(scalar, "f32"), dtype)
    if scalar.op == "constant" and dtype not in HALVES and scalar.dtype not in HALVES:
        value = scalar.data
        if scalar.dtype == dtype or not isinstance(value, float) or dtype in ("f32", "f64"):
            return expr.constant(value, dtype)
    return expr.operation("cast", scalar, dtype=dtype)


def constant_like(value: float, like: Scalar) -> Scalar:
    return expr.constant(value, like.dtype)


def op(name: str, *args: Scalar) -> Scalar:
    """An operation whose result has the dtype of its last argument."""
    return expr.operation(name, *args, dtype=args[-1].dtype)


def test(name: str, *args: Scalar) -> Scalar:
    """An operation that gives a bool."""
    return expr.operation(name, *args, dtype="b1")


def where(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    return expr.operation("where", condition, then, otherwise, dtype=then.dtype)


def operation(name: str, *, gives: Dtype | None = None) -> Compute:
    """An operation as a function of scalars."""

    def compute(*args: Scalar) -> Scalar:
        return expr.operation(name, *args, dtype=gives or args[-1].dtype)

    return compute


def is_nonzero(x: Scalar) -> Scalar:
    return x if x.dtype == "b1" else test("ne", x, constant_like(0, x))


def all_of(conditions: Sequence[Scalar]) -> Scalar:
    found = conditions[0]
    for each in conditions[1:]:
        found = test("and", found, each)
    return found
