"""New syntax nodes, each at the place in the user's source that it stands for.

Tracebacks, warnings and debuggers show the user's own lines because the nodes made here carry the
position of the node that they replace. Nodes are built without their constructors, which check
what the compiler checks again and take several times as long. Nodes that do not raise (the hooks
object, its methods, constants) are shared within a line.
"""

from __future__ import annotations

import ast
from typing import Any, TypeVar, cast

HOOKS = "__anyshape_hooks__"
FRAME = "__anyshape_frame__"
TEMPORARY = "__anyshape_{}__"

LOAD = ast.Load()
STORE = ast.Store()
DELETE = ast.Del()

N = TypeVar("N", bound=ast.AST)

_NEW_CALL = ast.Call.__new__


class CannotRewrite(Exception):
    """The function has to run as it is; the message says why."""


def node_at(cls: type[N], at: Any, **fields: Any) -> N:
    """A node with the position of `at`."""
    node = cls.__new__(cls)
    fields["lineno"] = at.lineno
    fields["col_offset"] = at.col_offset
    fields["end_lineno"] = at.end_lineno
    fields["end_col_offset"] = at.end_col_offset
    node.__dict__ = fields
    return node


def plain_node(cls: type[N], **fields: Any) -> N:
    """A node of a kind that has no position."""
    node = cls.__new__(cls)
    node.__dict__ = fields
    return node


def name_at(name: str, at: Any, context: ast.expr_context = LOAD) -> ast.Name:
    return node_at(ast.Name, at, id=name, ctx=context)


def assign_at(name: str, value: ast.expr, at: Any) -> ast.Assign:
    return node_at(
        ast.Assign, at, targets=[name_at(name, at, STORE)], value=value, type_comment=None
    )


class Position:
    """A place on one line, for nodes that stand for no node of the user's."""

    __slots__ = ("col_offset", "end_col_offset", "end_lineno", "lineno")

    def __init__(self, lineno: int, col_offset: int, end_lineno: int, end_col_offset: int) -> None:
        self.lineno = lineno
        self.col_offset = col_offset
        self.end_lineno = end_lineno
        self.end_col_offset = end_col_offset


def bound_to(name: str, value: ast.expr) -> ast.NamedExpr:
    return node_at(ast.NamedExpr, value, target=name_at(name, value, STORE), value=value)


def read_and_clear(at: ast.expr, name: str, *others: str) -> ast.expr:
    """`(t, t := None)[0]`: the variable's value, after which nothing holds it."""
    nothing = node_at(ast.Constant, at, value=None, kind=None)
    elements = [name_at(name, at), *(bound_to(each, nothing) for each in (name, *others))]
    return node_at(
        ast.Subscript,
        at,
        value=node_at(ast.Tuple, at, elts=elements, ctx=LOAD),
        slice=node_at(ast.Constant, at, value=0, kind=None),
        ctx=LOAD,
    )


def lambda_at(at: Any, names: list[str], body: ast.expr) -> ast.Lambda:
    return node_at(ast.Lambda, at, args=arguments_at(at, names), body=body)


def arguments_at(at: Any, names: list[str]) -> ast.arguments:
    return plain_node(
        ast.arguments,
        posonlyargs=[],
        args=[node_at(ast.arg, at, arg=n, annotation=None, type_comment=None) for n in names],
        vararg=None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=[],
    )


def replaced(node: ast.expr, name: str) -> ast.expr:
    """An element of an unpacking, with a variable in place of its own target."""
    variable = name_at(name, node, STORE)
    if isinstance(node, ast.Starred):
        return node_at(ast.Starred, node, value=variable, ctx=STORE)
    return variable


def name_position(node: ast.Attribute) -> Position:
    """Python blames a missing attribute on the line that names it, if the expression spans more."""
    end_lineno, end_col_offset = cast(int, node.end_lineno), cast(int, node.end_col_offset)
    if node.lineno == end_lineno:
        return Position(node.lineno, node.col_offset, end_lineno, end_col_offset)
    start = max(end_col_offset - len(node.attr), 0)
    return Position(end_lineno, start, end_lineno, end_col_offset)


class Nodes:
    """The nodes of one rewritten function that can be shared."""

    def __init__(self) -> None:
        self._methods: dict[tuple[str, int], ast.Attribute] = {}
        self._constants: dict[tuple[str | int | None, int], ast.Constant] = {}
        self._names: dict[tuple[str, int], ast.Name] = {}

    def constant(self, value: str | int | None, at: Any) -> ast.Constant:
        line = at.lineno
        key = (value, line)
        node = self._constants.get(key)
        if node is None:
            place = Position(line, at.col_offset, line, at.col_offset)
            node = self._constants[key] = node_at(ast.Constant, place, value=value, kind=None)
        return node

    def name(self, name: str, at: Any) -> ast.Name:
        """A load of one of our own names."""
        line = at.lineno
        node = self._names.get((name, line))
        if node is None:
            place = Position(line, at.col_offset, line, at.col_offset)
            node = self._names[name, line] = name_at(name, place)
        return node

    def hook(self, method: str, at: Any, arguments: list[ast.expr]) -> ast.Call:
        """`H.method(*arguments)`, at the position of `at`.

        The method's node covers one line only: the compiler moves the position of a method call
        to the line on which the method's name ends.
        """
        line = at.lineno
        function = self._methods.get((method, line))
        if function is None:
            hooks = self.name(HOOKS, at)
            function = node_at(ast.Attribute, hooks, value=hooks, attr=method, ctx=LOAD)
            self._methods[method, line] = function
        call = _NEW_CALL(ast.Call)
        call.__dict__ = {
            "func": function,
            "args": arguments,
            "keywords": [],
            "lineno": line,
            "col_offset": at.col_offset,
            "end_lineno": at.end_lineno,
            "end_col_offset": at.end_col_offset,
        }
        return call
