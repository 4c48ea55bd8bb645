"""Whether a result is the one that eager gives: to rounding in values, exactly in all else."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.native.workload import CLOSE
from tests.zoo.compare import tensors


def disagreement(
    found: Any,
    expected: Any,
    *,
    strides: bool,
    close: tuple[float, float] = CLOSE,
    least: float = 0.0,
) -> str:
    """The first difference, in words; empty if there is none. `least`: differences that say
    nothing."""
    if type(found) is not type(expected):
        return f"a {type(found).__name__}, not a {type(expected).__name__}"
    ours, theirs = list(tensors(found)), list(tensors(expected))
    if len(ours) != len(theirs):
        return f"{len(ours)} tensors, not {len(theirs)}"
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        difference = _of_tensors(mine, other, strides, close, least)
        if difference:
            return f"tensor {number}: {difference}"
    return ""


def _of_tensors(
    found: Tensor, expected: Tensor, strides: bool, close: tuple[float, float], least: float
) -> str:
    for name in ("dtype", "shape", "device"):
        if getattr(found, name) != getattr(expected, name):
            return f"{name} is {getattr(found, name)}, not {getattr(expected, name)}"
    if strides and found.numel() and found.stride() != expected.stride():
        return f"strides are {found.stride()}, not {expected.stride()}"
    if not expected.is_floating_point():
        return "" if torch.equal(found, expected) else "values differ"
    finite = expected[expected.isfinite()]
    largest = finite.abs().max().item() if finite.numel() else 0.0
    relative, of_largest = close
    far = max(of_largest * largest, least)
    if torch.allclose(found, expected, relative, far, equal_nan=True):
        return ""
    worst = (found - expected).abs().nan_to_num().max().item()
    return f"values differ by up to {worst:.3g}, where the largest is {largest:.3g}"
