"""The operations of scalars: what codegen must know, and what lowering may use.

Arguments of an operation have one dtype, that of the result but where it says otherwise. Values of
f16 and bf16 are computed in f32 and rounded after every operation. Those of eight bits are not
computed with at all: of them there are loads, stores, `where` and `cast`.

- `add sub mul div neg abs sign minimum maximum fmin fmax floor ceil trunc round sqrt copysign`:
  IEEE arithmetic, or arithmetic modulo 2**bits; minimum and maximum hand NaN on, fmin and fmax
  avoid it;
- `truncdiv truncmod floordiv floormod`, of integers: towards zero and towards minus infinity. The
  divisor may be 0 only where a check says it is not;
- `and or xor not`, of integers and bools; `shl shr` by as many bits as the width or more: 0, or the
  sign;
- `eq ne lt le gt ge isnan isinf isfinite signbit` give bools;
- `where`: (condition b1, then, else);
- `cast`, to `dtype`, as torch converts: floats to integers towards zero, to bool `!= 0`. What is
  too large for eight bits is NaN, or an infinity where there is one;
- the functions below, of floats.

Reductions are `sum prod max min any all argmax argmin`. argmax and argmin give the position (i64,
counted over all axes of the reduction) of the first largest or smallest; NaN counts as both. any
and all are of b1. Code generators have one more (`online_sums.py`).
"""

from __future__ import annotations

from typing import Final

#: codegen/vector_math has these
OF_TWO: Final = frozenset(["pow", "atan2", "fmod", "remainder"])
_OF_ONE: Final = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh"
    " atanh sigmoid erf erfc erfinv rsqrt silu gelu gelu_tanh"
)
FUNCTIONS: Final = OF_TWO.union(_OF_ONE.split())
_ARITHMETIC: Final = (
    "add sub mul div neg abs sign minimum maximum fmin fmax floor ceil trunc round sqrt copysign"
    " truncdiv truncmod floordiv floormod and or xor not shl shr eq ne lt le gt ge isnan isinf"
    " isfinite signbit where cast"
)
OPERATIONS: Final = FUNCTIONS.union(_ARITHMETIC.split())
FOLDS: Final = frozenset(["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"])
#: Functions of f64 that the C library computes, and functions without code for f64.
OF_THE_C_LIBRARY: Final = frozenset(["sin", "cos", "tan"])
ONLY_F32: Final = frozenset(["asinh", "acosh", "erfinv"])
