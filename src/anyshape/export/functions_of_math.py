"""Functions of Python's `math`, and those of tensors that give the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

OF_TENSORS: Final[dict[Callable[..., Any], Callable[..., torch.Tensor]]] = {
    **{
        getattr(math, name): getattr(torch, name)
        for name in (
            *("sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "hypot"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
            *("asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "copysign", "fmod"),
        )
    },
    math.fabs: torch.abs,
    math.degrees: torch.rad2deg,
    math.radians: torch.deg2rad,
}
