"""New syntax nodes, each at the place in the user's source that it stands for.

Tracebacks, warnings and debuggers show the user's own lines because the nodes made here carry the
position of the node that they replace. Nodes are built without their constructors, which check
what the compiler checks again and take several times as long. Nodes that do not raise (the hooks
object, its methods, constants) are shared within a line.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar, cast

HOOKS = "__anyshape_hooks__"
FRAME = "__anyshape_frame__"
TEMPORARY = "__anyshape_{}__"

LOAD = ast.Load()
STORE = ast.Store()

N = TypeVar("N", bound=ast.AST)


class Placed(Protocol):
    """A node of the user's, or a position."""

    lineno: int
    col_offset: int
    end_lineno: int | None
    end_col_offset: int | None


class CannotRewrite(Exception):
    """The function has to run as it is; the message says why."""


def node_at(cls: type[N], at: Placed, **fields: object) -> N:
    """A node with the position of `at`."""
    node = cls.__new__(cls)
    fields["lineno"] = at.lineno
    fields["col_offset"] = at.col_offset
    fields["end_lineno"] = at.end_lineno
    fields["end_col_offset"] = at.end_col_offset
    node.__dict__ = fields
    return node


def plain_node(cls: type[N], **fields: object) -> N:
    """A node of a kind that has no position."""
    node = cls.__new__(cls)
    node.__dict__ = fields
    return node


def name_at(name: str, at: Placed, context: ast.expr_context = LOAD) -> ast.Name:
    return node_at(ast.Name, at, id=name, ctx=context)


def constant_at(value: object, at: Placed) -> ast.Constant:
    return node_at(ast.Constant, at, value=value, kind=None)


def store_at(targets: list[ast.expr], value: ast.expr, at: Placed) -> ast.Assign:
    return node_at(ast.Assign, at, targets=targets, value=value, type_comment=None)


def assign_at(name: str, value: ast.expr, at: Placed) -> ast.Assign:
    return store_at([name_at(name, at, STORE)], value, at)


def clear_at(names: Iterable[str], at: Placed) -> ast.Assign:
    """`a = b = None`: nothing is kept alive by these variables."""
    return store_at([name_at(name, at, STORE) for name in names], constant_at(None, at), at)


class Position:
    """A place on one line, for nodes that stand for no node of the user's."""

    __slots__ = ("col_offset", "end_col_offset", "end_lineno", "lineno")

    def __init__(self, lineno: int, col_offset: int, end_lineno: int, end_col_offset: int) -> None:
        self.lineno = lineno
        self.col_offset = col_offset
        self.end_lineno: int | None = end_lineno
        self.end_col_offset: int | None = end_col_offset


def start_of(node: ast.stmt) -> Position:
    """The first character of a statement."""
    return Position(node.lineno, node.col_offset, node.lineno, node.col_offset)


def parsed_at(text: str, at: Placed) -> list[ast.stmt]:
    """Statements of our own, given as text, all at one position."""
    body = ast.parse(text).body
    for node in (inner for each in body for inner in ast.walk(each)):
        if node._attributes:
            node.__dict__.update({name: getattr(at, name) for name in Position.__slots__})
    return body


def bound_to(name: str, value: ast.expr) -> ast.NamedExpr:
    return node_at(ast.NamedExpr, value, target=name_at(name, value, STORE), value=value)


def read_and_clear(at: ast.expr, name: str, *others: str) -> ast.expr:
    """`(t, t := None)[0]`: the variable's value, after which nothing holds it."""
    nothing = constant_at(None, at)
    elements = [name_at(name, at), *(bound_to(each, nothing) for each in (name, *others))]
    return node_at(
        ast.Subscript,
        at,
        value=node_at(ast.Tuple, at, elts=elements, ctx=LOAD),
        slice=constant_at(0, at),
        ctx=LOAD,
    )


def lambda_at(at: Placed, names: list[str], body: ast.expr) -> ast.Lambda:
    return node_at(ast.Lambda, at, args=arguments_at(at, names), body=body)


def arguments_at(at: Placed, names: list[str]) -> ast.arguments:
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


def function_at(
    at: Placed, name: str, arguments: ast.arguments, body: list[ast.stmt]
) -> ast.FunctionDef:
    return node_at(
        ast.FunctionDef,
        at,
        name=name,
        args=arguments,
        body=body,
        decorator_list=[],
        returns=None,
        type_comment=None,
        type_params=[],
    )


def _replaced(node: ast.expr, name: str) -> ast.expr:
    """An element of an unpacking, with a variable in place of its own target."""
    variable = name_at(name, node, STORE)
    if isinstance(node, ast.Starred):
        return node_at(ast.Starred, node, value=variable, ctx=STORE)
    return variable


def through_variables(
    target: ast.Tuple | ast.List, is_plain: Callable[[ast.expr], bool], new: Callable[[], str]
) -> list[tuple[ast.expr, str]]:
    """Put variables in place of the elements of an unpacking, from the first one on that is not
    plain: a later name must not be bound before the parts of an earlier target are evaluated. Gives
    those elements, with their variables."""
    waiting: list[tuple[ast.expr, str]] = []
    elements = list(target.elts)
    for index, element in enumerate(elements):
        inner = element.value if isinstance(element, ast.Starred) else element
        if waiting or not is_plain(inner):
            waiting.append((inner, new()))
            elements[index] = _replaced(element, waiting[-1][1])
    target.elts = elements
    return waiting


def name_position(node: ast.Attribute) -> Position:
    """Python blames a missing attribute on the line that names it, if the expression spans more."""
    end_lineno, end_col_offset = cast(int, node.end_lineno), cast(int, node.end_col_offset)
    if node.lineno == end_lineno:
        return Position(node.lineno, node.col_offset, end_lineno, end_col_offset)
    start = max(end_col_offset - len(node.attr), 0)
    return Position(end_lineno, start, end_lineno, end_col_offset)
