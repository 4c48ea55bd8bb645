"""Whether a line above a statement is run just before what the statement evaluates, and as often.

A patch puts an argument there, or a mark of it. In a loop's condition, on one side of an `and` or
in a body on the same line, it would be run at other times than the call, and change the program.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import Any, Final, cast

#: What stands in these is run later, several times or perhaps never.
_AT_OTHER_TIMES: Final = (
    *(ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try, ast.TryStar),
    *(ast.Match, ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_BODIES: Final = ("body", "orelse", "finalbody", "handlers")
#: What may have effects, or see those of others.
_EFFECTS: Final = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def is_run_once(statement: ast.stmt, call: ast.Call) -> bool:
    """Whether the statement evaluates the call once, whenever it is run."""
    way = _way(statement, call)
    for above, below in pairwise(way):
        if isinstance(above, _AT_OTHER_TIMES):
            return False
        if isinstance(above, ast.Compare) and len(above.ops) > 1:
            return False
        if any(name in _BODIES and _has(part, below) for name, part in ast.iter_fields(above)):
            return False
    return True


def evaluated_before(statement: ast.AST, node: ast.expr) -> list[ast.AST]:
    """What the statement evaluates to the left of an expression, and may have effects."""
    around = _way(statement, node)
    where = (node.lineno, node.col_offset)
    return [
        each
        for each in ast.walk(statement)
        if isinstance(each, _EFFECTS)
        and not any(each is one for one in around)
        and (each.lineno, each.col_offset) < where
    ]


def _way(root: ast.AST, node: ast.AST) -> list[ast.AST]:
    """From the root down to the node."""
    if root is node:
        return [root]
    for child in ast.iter_child_nodes(root):
        below = _way(child, node)
        if below:
            return [root, *below]
    return []


def _has(part: Any, node: ast.AST) -> bool:
    return type(part) is list and any(each is node for each in cast("list[Any]", part))
