"""What all parts of the rewriter share: where we are, hooks to call, and variables of our own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from anyshape.capture.rewrite.nodes import (
    FRAME,
    HOOKS,
    LOAD,
    TEMPORARY,
    CannotRewrite,
    Placed,
    Position,
    constant_at,
    name_at,
    name_position,
    node_at,
)
from anyshape.capture.rewrite.scopes import NameKind, NameScope, Scope, mangle

_NEW_CALL = ast.Call.__new__


class Rewriter:
    """The state of one rewriting. A method `visit_X` rewrites nodes of the class `ast.X`: of an
    expression it gives what it becomes, of a statement it appends that to a list."""

    handlers: ClassVar[Mapping[type[ast.AST], Callable[..., Any]]] = {}

    def __init_subclass__(cls) -> None:
        visits = (name for name in dir(cls) if name.startswith("visit_"))
        cls.handlers = {getattr(ast, name[6:]): getattr(cls, name) for name in visits}

    def __init__(self, scope: Scope, text: str, globals_: Mapping[str, object]) -> None:
        self.scope = scope
        # Nodes that can be shared within a line.
        self._methods: dict[tuple[str, int], ast.Attribute] = {}
        self._constants: dict[tuple[str | int | None, int], ast.Constant] = {}
        self._names: dict[tuple[str, int], ast.Name] = {}
        self.globals = globals_
        # Two cheap facts about the whole text that let most functions skip a walk.
        self.has_walrus = ":=" in text
        self.has_nonlocal = "nonlocal" in text
        self.temporaries = 0
        # How many iterables of comprehensions we are inside: no walrus may stand there.
        self.iterable_depth = 0

    def expression(self, node: ast.expr) -> ast.expr:
        handler = self.handlers.get(type(node))
        if handler is None:
            raise CannotRewrite(f"{type(node).__name__} expressions are not supported")
        return handler(self, node)

    def optional(self, node: ast.expr | None) -> ast.expr | None:
        return None if node is None else self.expression(node)

    def constant(self, value: str | int | None, at: Placed) -> ast.Constant:
        line = at.lineno
        key = (value, line)
        node = self._constants.get(key)
        if node is None:
            place = Position(line, at.col_offset, line, at.col_offset)
            node = self._constants[key] = constant_at(value, place)
        return node

    def own_name(self, name: str, at: Placed) -> ast.Name:
        """A load of one of our own names."""
        line = at.lineno
        node = self._names.get((name, line))
        if node is None:
            place = Position(line, at.col_offset, line, at.col_offset)
            node = self._names[name, line] = name_at(name, place)
        return node

    def hook(self, method: str, at: Placed, *arguments: ast.expr) -> ast.Call:
        """`H.method(*arguments)`, at the position of `at`.

        The method's node covers one line only: the compiler moves the position of a method call
        to the line on which the method's name ends.
        """
        line = at.lineno
        function = self._methods.get((method, line))
        if function is None:
            hooks = self.own_name(HOOKS, at)
            function = node_at(ast.Attribute, hooks, value=hooks, attr=method, ctx=LOAD)
            self._methods[method, line] = function
        call = _NEW_CALL(ast.Call)
        call.__dict__ = {
            "func": function,
            "args": list(arguments),
            "keywords": [],
            "lineno": line,
            "col_offset": at.col_offset,
            "end_lineno": at.end_lineno,
            "end_col_offset": at.end_col_offset,
        }
        return call

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

    def stored(self, name: str, value: ast.expr, at: Placed) -> ast.expr:
        """What to store under a (mangled) name, given what the user stores."""
        place = self.scope.place(name)
        if place is NameScope.LOCAL:
            return value
        method = "store_free" if place is NameScope.FREE else "store_global"
        return self.hook(method, at, self.own_name(FRAME, at), self.constant(name, at), value)

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
