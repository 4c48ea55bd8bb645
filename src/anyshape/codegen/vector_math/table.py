"""Which functions there are: one row each."""

from __future__ import annotations

from collections.abc import Callable

from anyshape.codegen.vector_math import (
    division,
    error_function,
    exponential,
    hyperbolic,
    inverse_trigonometry,
    logarithm,
    power,
    trigonometry,
)
from anyshape.codegen.vector_math.builder import VectorValue
from anyshape.support.lazy_dataclass import dataclass

BOTH = ("f32", "f64")
F32 = ("f32",)


@dataclass(frozen=True)
class Row:
    """A function: how many vectors it takes, who writes its body, for which kinds it is good."""

    arity: int
    write: Callable[..., VectorValue]
    kinds: tuple[str, ...] = BOTH
    # Rare paths are functions of their own that are called, not inlined.
    is_rare: bool = False


ROWS: dict[str, Row] = {
    "exp": Row(1, exponential.exp),
    "exp2": Row(1, exponential.exp2),
    "expm1": Row(1, exponential.expm1),
    "sigmoid": Row(1, exponential.sigmoid),
    "silu": Row(1, exponential.silu),
    "tanh": Row(1, exponential.tanh),
    "gelu_tanh": Row(1, exponential.gelu_tanh),
    "log": Row(1, logarithm.log),
    "log2": Row(1, logarithm.log2),
    "log10": Row(1, logarithm.log10),
    "log1p": Row(1, logarithm.log1p),
    "sin": Row(1, trigonometry.sin),
    "cos": Row(1, trigonometry.cos),
    "tan": Row(1, trigonometry.tan),
    "exp_tiny": Row(1, exponential.exp_tiny, is_rare=True),
    "exp2_tiny": Row(1, exponential.exp2_tiny, is_rare=True),
    "silu_tiny": Row(1, exponential.silu_tiny, is_rare=True),
    "log_rare": Row(1, logarithm.log_rare, is_rare=True),
    "log2_rare": Row(1, logarithm.log2_rare, F32, is_rare=True),
    "log10_rare": Row(1, logarithm.log10_rare, F32, is_rare=True),
    "rsqrt_rare": Row(1, power.rsqrt_rare, F32, is_rare=True),
    "sin_huge": Row(1, trigonometry.sin_huge, F32, is_rare=True),
    "cos_huge": Row(1, trigonometry.cos_huge, F32, is_rare=True),
    "tan_huge": Row(1, trigonometry.tan_huge, F32, is_rare=True),
    "asin": Row(1, inverse_trigonometry.asin),
    "acos": Row(1, inverse_trigonometry.acos),
    "atan": Row(1, inverse_trigonometry.atan),
    "atan2": Row(2, inverse_trigonometry.atan2),
    "sinh": Row(1, hyperbolic.sinh),
    "cosh": Row(1, hyperbolic.cosh),
    "asinh": Row(1, hyperbolic.asinh, F32),
    "acosh": Row(1, hyperbolic.acosh, F32),
    "atanh": Row(1, hyperbolic.atanh),
    "erf": Row(1, error_function.erf),
    "erfc": Row(1, error_function.erfc),
    "gelu": Row(1, error_function.gelu),
    "erfinv": Row(1, error_function.erfinv, F32),
    "rsqrt": Row(1, power.rsqrt),
    "pow": Row(2, power.pow_),
    "fmod": Row(2, division.fmod),
    "fmod_rare": Row(2, division.fmod_rare, is_rare=True),
    "remainder": Row(2, division.remainder),
    "hypot": Row(2, division.hypot, F32),
}

FUNCTIONS = {name: row.arity for name, row in ROWS.items() if not row.is_rare}


def supports(name: str, kind: str) -> bool:
    """Whether `definitions` can be asked for this function of this kind of float."""
    return name in FUNCTIONS and kind in ROWS[name].kinds
