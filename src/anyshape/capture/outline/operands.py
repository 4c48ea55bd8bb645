"""The operands of an expression, in the order in which Python evaluates them."""

from __future__ import annotations

import ast
from typing import Final


class Operand:
    """A place in a node that holds an operand; `**mapping` in a call is spread."""

    __slots__ = ("_index", "_name", "_node", "is_spread")

    def __init__(self, node: ast.AST, name: str, index: int | None = None) -> None:
        self._node = node
        self._name = name
        self._index = index
        self.is_spread = isinstance(node, ast.keyword) and node.arg is None

    def get(self) -> ast.expr:
        held = getattr(self._node, self._name)
        return held if self._index is None else held[self._index]

    def set(self, value: ast.expr) -> None:
        if self._index is None:
            setattr(self._node, self._name, value)
        else:
            getattr(self._node, self._name)[self._index] = value


def has_slices(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple) and any(isinstance(x, ast.Slice) for x in node.elts)


def operands_of(node: ast.expr) -> list[Operand]:
    """The operands of an expression in the order in which they are evaluated."""
    match node:
        case ast.Dict():
            return [
                operand
                for i, key in enumerate(node.keys)
                for operand in (
                    *([Operand(node, "keys", i)] if key is not None else ()),
                    Operand(node, "values", i),
                )
            ]
        case ast.Tuple() | ast.List() | ast.Set():
            return [Operand(node, "elts", i) for i in range(len(node.elts))]
        case ast.Slice():
            return [
                Operand(node, name)
                for name in ("lower", "upper", "step")
                if getattr(node, name) is not None
            ]
    return [Operand(node, name) for name in _FIELDS[type(node)]]


def arguments_of(node: ast.Call) -> list[Operand]:
    args = [Operand(node, "args", i) for i in range(len(node.args))]
    return args + [Operand(keyword, "value") for keyword in node.keywords]


_FIELDS: Final[dict[type[ast.expr], tuple[str, ...]]] = {
    ast.BinOp: ("left", "right"),
    ast.UnaryOp: ("operand",),
    ast.Attribute: ("value",),
    ast.Subscript: ("value", "slice"),
    ast.Starred: ("value",),
    ast.Name: (),
}
TAKEN_APART: Final = (*_FIELDS, ast.Dict, ast.Tuple, ast.List, ast.Set, ast.Slice)
