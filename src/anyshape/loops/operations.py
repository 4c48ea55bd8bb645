"""The operations of scalars: what codegen must know, and what lowering may use.

Arguments of an operation have one dtype, that of the result but where the row says otherwise.
Values of f16 and bf16 are computed in f32 and rounded after every operation.
"""

from __future__ import annotations

from typing import Final, Literal

from anyshape.support.lazy_dataclass import dataclass

Kind = Literal["float", "int", "any", "bool"]


@dataclass(frozen=True, slots=True)
class Operation:
    """`takes`: the dtypes of the arguments it is for (bool is no int here)."""

    name: str
    arity: int
    takes: frozenset[str]
    gives_bool: bool = False


def _rows(names: str, arity: int, *takes: Kind, gives_bool: bool = False) -> list[Operation]:
    return [Operation(name, arity, frozenset(takes), gives_bool) for name in names.split()]


#: codegen/vector_math has these
_OF_ONE: Final = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh"
    " asinh acosh atanh sigmoid erf erfc erfinv rsqrt silu gelu gelu_tanh"
)
_OF_TWO: Final = "pow atan2 fmod remainder"
FUNCTIONS: Final = frozenset(f"{_OF_ONE} {_OF_TWO}".split())

OPERATIONS: Final[dict[str, Operation]] = {
    row.name: row
    for row in [
        # IEEE arithmetic, or arithmetic modulo 2**bits. minimum/maximum hand NaN on, fmin/fmax
        # avoid it.
        *_rows("add sub mul minimum maximum", 2, "float", "int"),
        *_rows("fmin fmax div", 2, "float"),
        *_rows("neg abs sign", 1, "float", "int"),
        *_rows("floor ceil trunc round sqrt", 1, "float"),
        # Of integers: towards zero (truncdiv, truncmod) and towards minus infinity. The divisor
        # may be 0 only where a check says it is not.
        *_rows("truncdiv truncmod floordiv floormod", 2, "int"),
        *_rows("and or xor", 2, "int", "bool"),
        *_rows("not", 1, "int", "bool"),
        # By as many bits as the width or more: 0, or the sign.
        *_rows("shl shr", 2, "int"),
        *_rows("eq ne lt le gt ge", 2, "float", "int", "bool", gives_bool=True),
        *_rows("isnan isinf isfinite signbit", 1, "float", gives_bool=True),
        *_rows("copysign", 2, "float"),
        # (condition b1, then, else)
        *_rows("where", 3, "float", "int", "bool"),
        # To `dtype`, as torch converts: floats to integers towards zero, to bool `!= 0`.
        *_rows("cast", 1, "float", "int", "bool"),
        *_rows(_OF_ONE, 1, "float"),
        *_rows(_OF_TWO, 2, "float"),
    ]
}

#: Functions without code for f64.
ONLY_F32: Final = frozenset(["asinh", "acosh", "erfinv"])

#: Reductions. argmax and argmin give the position (i64, counted over all axes of the reduction) of
#: the first largest or smallest; NaN counts as both. any and all are of b1.
FOLDS: Final = frozenset(["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"])
