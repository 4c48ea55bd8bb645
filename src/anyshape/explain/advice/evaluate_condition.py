"""Whether a condition on sizes holds for a call: `L['x'].size()[0] != 8` for what it had.

The text is Python, but comes from a file: only arithmetic and comparisons are followed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

_ARITHMETIC: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: operator.mod,
}
_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CHOICES: Final[dict[str, Callable[..., int]]] = {"min": min, "max": max, "Min": min, "Max": max}


class _Unknown(Exception):
    """Not a condition on these values."""


def holds(condition: str, values: Mapping[str, int]) -> bool | None:
    """None where it cannot be told."""
    # Longer names first: one may be the beginning of another.
    names: dict[str, int] = {}
    for number, source in enumerate(sorted(values, key=len, reverse=True)):
        if source in condition:
            condition = condition.replace(source, f"v{number}_")
            names[f"v{number}_"] = values[source]
    try:
        return bool(_value(ast.parse(condition, mode="eval").body, names))
    except (_Unknown, SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_value(left, names), _value(right, names))
        case ast.BoolOp(op=op, values=parts):
            join = all if isinstance(op, ast.And) else any
            return join([_value(part, names) for part in parts])
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return _COMPARISONS[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _CHOICES:
            return _CHOICES[name](*(_value(part, names) for part in parts))
        case _:
            raise _Unknown
