"""Type promotion as torch does it.

Tensors with dimensions outrank tensors without, which outrank Python numbers. Within a rank dtypes
join by `torch.promote_types`; a lower rank only matters if its category (bool < integer < float <
complex) is higher.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import torch

from anyshape.ops.meta import Meta
from anyshape.symbolic import Expr

Number = int | float | complex | bool | Expr


@cache
def category(dtype: torch.dtype) -> int:
    """0 bool, 1 integer, 2 float, 3 complex."""
    if dtype is torch.bool:
        return 0
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1


def dtype_of_number(number: Number) -> torch.dtype:
    """The dtype a Python number would have as a tensor."""
    if isinstance(number, bool):
        return torch.bool
    if isinstance(number, int | Expr):
        return torch.int64
    if isinstance(number, float):
        return torch.get_default_dtype()
    return _complex_number(torch.get_default_dtype())


@cache
def _complex_number(default: torch.dtype) -> torch.dtype:
    """The dtype of a complex number where floats are of the default dtype.

    Not `complex_of`: torch chooses among the complex dtypes that numbers have always had, so next
    to bfloat16 it is complex64, also in versions with a complex dtype of bfloat16 parts.
    """
    return complex_of(torch.float32 if default is torch.bfloat16 else default)


@cache
def complex_of(dtype: torch.dtype) -> torch.dtype:
    """The complex dtype whose parts have this dtype, or the next wider one if there is none."""
    return dtype if dtype.is_complex else dtype.to_complex()


@cache
def join(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    return torch.promote_types(a, b)


def result_type(operands: Iterable[Meta | Number]) -> torch.dtype:
    """The dtype that an operator on these computes in, as `torch.result_type` for two."""
    with_dims: torch.dtype | None = None
    without_dims: torch.dtype | None = None
    numbers: torch.dtype | None = None
    for operand in operands:
        if isinstance(operand, Meta):
            dtype = operand.dtype
            if operand.shape:
                with_dims = dtype if with_dims in (None, dtype) else join(with_dims, dtype)
            else:
                without_dims = dtype if without_dims is None else join(without_dims, dtype)
        else:
            dtype = dtype_of_number(operand)
            numbers = dtype if numbers is None else join(numbers, dtype)
    # The order matters: an integer tensor without dimensions and a float number make a float before
    # they meet the rest.
    found = _raised(with_dims, _raised(without_dims, numbers))
    assert found is not None, "an operator has operands"
    return found


def _raised(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    """The dtype of a higher rank, raised to the category of a lower one."""
    if higher is None or lower is None:
        return higher or lower
    if category(lower) <= category(higher):
        return higher
    if lower.is_complex:  # it takes on a float's precision
        return complex_of(higher) if higher.is_floating_point else lower
    return join(higher, lower)


def floating(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a function whose result is never an integer (sin, mean, division)."""
    return dtype if category(dtype) >= 2 else torch.get_default_dtype()


def real(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the parts of a complex number; other dtypes as they are."""
    return dtype.to_real() if dtype.is_complex else dtype
