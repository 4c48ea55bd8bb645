"""What a kernel may be made of: the operations of scalars (`anyshape.loops.operations` says what
they do), what each takes and gives, and folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from anyshape.loops.expr import FLOAT8, FLOATS
from anyshape.loops.operations import FUNCTIONS, OF_TWO
from anyshape.loops.operations import OPERATIONS as NAMES

Kind = Literal["float", "int", "any", "bool", "stored"]


@dataclass(frozen=True, slots=True)
class Operation:
    """`takes`: the dtypes of the arguments it is for (bool is no int here)."""

    name: str
    arity: int
    takes: frozenset[str]
    gives_bool: bool = False


def _rows(names: str, arity: int, *takes: Kind, gives_bool: bool = False) -> list[Operation]:
    return [Operation(name, arity, frozenset(takes), gives_bool) for name in names.split()]


OPERATIONS: Final[dict[str, Operation]] = {
    row.name: row
    for row in [
        *_rows("add sub mul minimum maximum", 2, "float", "int"),
        *_rows("fmin fmax div", 2, "float"),
        *_rows("neg abs sign", 1, "float", "int"),
        *_rows("floor ceil trunc round sqrt", 1, "float"),
        *_rows("truncdiv truncmod floordiv floormod", 2, "int"),
        *_rows("and or xor", 2, "int", "bool"),
        *_rows("not", 1, "int", "bool"),
        *_rows("shl shr", 2, "int"),
        *_rows("eq ne lt le gt ge", 2, "float", "int", "bool", gives_bool=True),
        *_rows("isnan isinf isfinite signbit", 1, "float", gives_bool=True),
        *_rows("copysign", 2, "float"),
        *_rows("where", 3, "float", "int", "bool", "stored"),
        *_rows("cast", 1, "float", "int", "bool", "stored"),
        *_rows(" ".join(FUNCTIONS - OF_TWO), 1, "float"),
        *_rows(" ".join(OF_TWO), 2, "float"),
    ]
}

assert OPERATIONS.keys() == NAMES


def kind_of(dtype: str) -> Kind:
    if dtype in FLOAT8:
        return "stored"
    return "float" if dtype in FLOATS else "bool" if dtype == "b1" else "int"
