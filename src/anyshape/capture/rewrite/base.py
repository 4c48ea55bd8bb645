"""What all parts of the rewriter share: where we are, hooks to call, and variables of our own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from anyshape.capture.rewrite.nodes import FRAME, TEMPORARY, CannotRewrite, Nodes, name_position
from anyshape.capture.rewrite.scopes import NameKind, NameScope, Scope, mangle

ExpressionHandler = Callable[[Any, Any], ast.expr]


class Rewriter:
    """The state of one rewriting. `rewrite_expressions` fills the table of handlers."""

    expressions: ClassVar[Mapping[type[ast.expr], ExpressionHandler]] = {}

    def __init__(self, scope: Scope, text: str, globals_: Mapping[str, object]) -> None:
        self.scope = scope
        self.nodes = Nodes()
        self.globals = globals_
        # Two cheap facts about the whole text that let most functions skip a walk.
        self.has_walrus = ":=" in text
        self.has_nonlocal = "nonlocal" in text
        self.temporaries = 0
        # How many iterables of comprehensions we are inside: no walrus may stand there.
        self.iterable_depth = 0

    def expression(self, node: ast.expr) -> ast.expr:
        handler = self.expressions.get(type(node))
        if handler is None:
            raise CannotRewrite(f"{type(node).__name__} expressions are not supported")
        return handler(self, node)

    def optional(self, node: ast.expr | None) -> ast.expr | None:
        return None if node is None else self.expression(node)

    def hook(self, method: str, at: Any, *arguments: ast.expr) -> ast.Call:
        return self.nodes.hook(method, at, list(arguments))

    def constant(self, value: str | int | None, at: Any) -> ast.Constant:
        return self.nodes.constant(value, at)

    def mangle(self, name: str) -> str:
        return mangle(name, self.scope.class_name)

    def new_variable(self) -> str:
        """A name that the user does not have."""
        self.temporaries += 1
        return TEMPORARY.format(self.temporaries)

    def temporary(self) -> str:
        """A new variable of the function. It is cleared after use: it must keep nothing alive."""
        name = self.new_variable()
        scope = self.scope.function()
        if scope.kind is NameKind.CLASS:
            scope.borrowed.append(name)
        return name

    def is_stable(self, name: str) -> bool:
        """A local variable that nothing can rebind while an expression is evaluated."""
        scope = self.scope
        if name not in scope.bound or scope.kind is NameKind.CLASS:
            return False
        return not self.has_nonlocal and name not in scope.unstable

    def stored(self, name: str, value: ast.expr, at: Any) -> ast.expr:
        """What to store under a (mangled) name, given what the user stores."""
        place = self.scope.place(name)
        if place is NameScope.LOCAL:
            return value
        method = "store_free" if place is NameScope.FREE else "store_global"
        return self.hook(method, at, self.nodes.name(FRAME, at), self.constant(name, at), value)

    def store(self, target: ast.Attribute | ast.Subscript, value: ast.expr) -> ast.Call:
        """The call that stores `value`, which Python has evaluated before the target's parts."""
        if isinstance(target, ast.Attribute):
            if target.attr == "__code__":
                # Functions that are made here have a cell of ours, which other code has not.
                raise CannotRewrite("it replaces the code of a function")
            at = name_position(target)
            name = self.constant(self.mangle(target.attr), at)
            return self.hook("set_attribute", at, self.expression(target.value), name, value)
        parts = self.expression(target.value), self.expression(target.slice)
        return self.hook("set_item", target, *parts, value)
