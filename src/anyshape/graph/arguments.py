"""Arguments as rows take them: torch's names, one spelling of each."""

from __future__ import annotations

from typing import Any, Final

from anyshape.ops.op import Op

#: Names that torch takes for the same parameter.
SYNONYMS: Final = {
    "axis": "dim",
    "keepdims": "keepdim",
    "axes": "dims",
    "x": "input",
    "x1": "input",
    "x2": "other",
    "self": "input",
}


def named_as_torch(
    op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not kwargs:
        return args, kwargs
    return args, {SYNONYMS.get(name, name): value for name, value in kwargs.items()}
