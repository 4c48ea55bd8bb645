"""Type promotion as torch does it: tensors with dimensions outrank tensors without, which outrank Python numbers.

Within a rank dtypes join by `torch.promote_types`; a lower rank only matters if its category (bool < integer < float < complex) is higher.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import torch

from anyshape.ops.meta import Meta
from anyshape.symbolic import Expr

Number = int | float | complex | bool | Expr


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
    return complex_of(torch.get_default_dtype())


@lru_cache(maxsize=None)
def complex_of(dtype: torch.dtype) -> torch.dtype:
    return {torch.float16: torch.complex32, torch.float64: torch.complex128}.get(dtype, torch.complex64)


@lru_cache(maxsize=None)
def join(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    return torch.promote_types(a, b)


def result_type(operands: Iterable[Meta | Number]) -> torch.dtype:
    """The dtype that an operator on these computes in."""
    with_dims: torch.dtype | None = None
    without_dims: torch.dtype | None = None
    numbers: torch.dtype | None = None
    for operand in operands:
        if isinstance(operand, Meta):
            if operand.shape:
                with_dims = operand.dtype if with_dims is None else join(with_dims, operand.dtype)
            else:
                zero = operand.dtype
                without_dims = zero if without_dims is None else join(without_dims, zero)
        else:
            found = dtype_of_number(operand)
            numbers = found if numbers is None else join(numbers, found)
    result = with_dims
    for lower in (without_dims, numbers):
        if result is None:
            result = lower
        elif lower is not None and category(lower) > category(result):
            result = join(result, _of_category(lower, result))
    assert result is not None, "an operator has operands"
    return result


def _of_category(lower: torch.dtype, higher: torch.dtype) -> torch.dtype:
    """What a lower rank contributes: its dtype; a complex number joins a float at the float's precision."""
    if lower.is_complex and higher.is_floating_point:
        return complex_of(higher)
    return lower


def floating(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a function whose result is never an integer (sin, mean, division)."""
    return dtype if category(dtype) >= 2 else torch.get_default_dtype()


def real(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the parts of a complex number; other dtypes as they are."""
    if not dtype.is_complex:
        return dtype
    return dtype.to_real()
