"""Floats of eight bits as this torch has them.

Versions of torch differ in what becomes of numbers that are too large: NaN or an infinity, or the
largest number of the dtype. It is tried once.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOAT8, FULL_NAMES, Dtype, Scalar

_OF_NAMES: Final[dict[str, torch.dtype]] = {
    name: getattr(torch, FULL_NAMES[name]) for name in FULL_NAMES if name in FLOAT8
}
FLOAT8_DTYPES: Final = frozenset(_OF_NAMES.values())


@cache
def saturates(dtype: torch.dtype, device: str) -> bool | None:
    """Whether numbers beyond the largest one become that one, on such devices; None if that is so
    for some of them only."""
    largest = torch.finfo(dtype).max
    numbers = torch.tensor([2 * largest, 1e30, math.inf], dtype=torch.float32, device=device)
    codes = torch.cat([numbers, -numbers]).to(dtype)
    found = codes.float().abs().tolist()
    if all(each == largest for each in found):
        return True
    return None if any(each <= largest for each in found) else False


def is_as_on_processors(dtype: torch.dtype, device: str) -> bool:
    """Whether casts to a dtype are on these devices what native code takes them to be."""
    found = saturates(dtype, device)
    return found is not None and found is saturates(dtype, "cpu")


def encoded(number: Scalar, dtype: Dtype) -> Scalar:
    """An f32 as one of eight bits."""
    if saturates(_OF_NAMES[dtype], "cpu"):
        number = _at_most(torch.finfo(_OF_NAMES[dtype]).max, number)
    return expr.operation("cast", number, dtype=dtype)


def _at_most(largest: float, x: Scalar) -> Scalar:
    """Not by `minimum`: a NaN keeps its sign."""
    most = expr.constant(largest, "f32")
    beyond = expr.operation("gt", expr.operation("abs", x, dtype="f32"), most, dtype="b1")
    signed = expr.operation("copysign", most, x, dtype="f32")
    return expr.operation("where", beyond, signed, x, dtype="f32")
