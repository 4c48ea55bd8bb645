"""Calls that lead to functions in parts: they are made through a function that finds the parts."""

from __future__ import annotations

import ast
from typing import Any, Final

from anyshape.capture.rewrite.nodes import name_at, node_at
from anyshape.capture.rewrite.scopes import OwnScope

#: The function through which calls are made that lead to functions in parts.
ROUTE: Final = "__anyshape_route__"

#: Functions that look at the frame that calls them.
FRAME_READERS: Final = frozenset(
    {"super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__", "breakpoint"}
)


def routed_call(node: ast.Call) -> ast.Call:
    """`route(f, *args)`. Not of functions that look at the frame that calls them."""
    if isinstance(node.func, ast.Name) and node.func.id in FRAME_READERS | {ROUTE}:
        return node
    arguments = [node.func, *node.args]
    return node_at(
        ast.Call, node, func=name_at(ROUTE, node), args=arguments, keywords=node.keywords
    )


class _Routing(OwnScope):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return routed_call(node)


def routed(node: Any) -> Any:
    """A node with all calls in it routed."""
    return _Routing().visit(node)


def has_jump(body: list[ast.stmt]) -> bool:
    """Whether a `break` or `continue` in these statements belongs to a loop around them."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Break | ast.Continue):
            return True
        if isinstance(node, ast.For | ast.While | ast.AsyncFor):
            todo += node.orelse
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            todo += ast.iter_child_nodes(node)
    return False
