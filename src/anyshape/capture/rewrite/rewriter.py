"""A function's tree, rewritten so that the hooks object sees every operation.

In: the tree of one function, the code object that it was compiled to, and the function's globals.
Out: a module that, compiled, holds the code of the rewritten function:

    class Model:                                               # for private names, if in a class
        def __anyshape_factory__(__anyshape_hooks__, __anyshape_frame__, <free variables>):
            def __anyshape_function__(self, x):
                return H.call(H.attribute(self, "linear"), x)

The module is never run. What is wanted is the inner code object, whose cells are then filled by
hand, so that defaults and decorators are not evaluated again. `hooks/reference.py` says what each
hook means.
"""

from __future__ import annotations
import __future__

import ast
from collections.abc import Iterable, Mapping
from types import CodeType

from anyshape.capture.rewrite.expressions import first_argument
from anyshape.capture.rewrite.nodes import (
    FRAME,
    HOOKS,
    Position,
    arguments_at,
    function_at,
    node_at,
    plain_node,
)
from anyshape.capture.rewrite.scopes import all_arguments, mangle
from anyshape.capture.rewrite.source import FunctionNode
from anyshape.capture.rewrite.statements import StatementRewriter, function_scope

FACTORY = "__anyshape_factory__"
FUNCTION = "__anyshape_function__"


def strip(node: FunctionNode) -> None:
    """Take away what is evaluated around a function: its code does not depend on it."""
    arguments = node.args
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    for argument in all_arguments(arguments):
        argument.annotation = None
    if isinstance(node, ast.FunctionDef):
        # A code object starts on the line of the first decorator.
        node.lineno = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        node.decorator_list = []
        node.returns = None
        node.name = FUNCTION
        node.__dict__["type_params"] = []


def wrapped(
    node: FunctionNode,
    free: tuple[str, ...],
    class_name: str | None,
    imports: Iterable[str] = (),
) -> ast.Module:
    """A module around a stripped function that makes the compiler see the same names."""
    at = Position(node.lineno, 0, node.lineno, 0)
    is_function = isinstance(node, ast.FunctionDef)
    statement: ast.stmt = node if is_function else node_at(ast.Return, at, value=node)
    statement = function_at(at, FACTORY, arguments_at(at, [HOOKS, FRAME, *free]), [statement])
    if class_name is not None:
        statement = node_at(
            ast.ClassDef,
            at,
            name=class_name,
            bases=[],
            keywords=[],
            body=[statement],
            decorator_list=[],
            type_params=[],
        )
    body: list[ast.stmt] = [statement]
    names = [node_at(ast.alias, at, name=name, asname=None) for name in imports]
    if names:
        body.append(node_at(ast.Import, at, names=names))
    return plain_node(ast.Module, body=body, type_ignores=[])


def name_prefix(node: FunctionNode, class_name: str | None) -> str:
    """The qualified name that the compiler gives to the function in the wrapper."""
    inner = FUNCTION if isinstance(node, ast.FunctionDef) else "<lambda>"
    around = f"{class_name}." if class_name is not None else ""
    return f"{around}{FACTORY}.<locals>.{inner}"


def rewrite(
    node: FunctionNode,
    code: CodeType,
    text: str,
    class_name: str | None,
    globals_: Mapping[str, object],
) -> None:
    """Rewrite a stripped function in place; raises `CannotRewrite`."""
    body: list[ast.stmt] = node.body if isinstance(node.body, list) else [ast.Expr(node.body)]
    scope = function_scope(
        body,
        frozenset(mangle(argument.arg, class_name) for argument in all_arguments(node.args)),
        class_name,
        ":=" in text,
        first_argument(node.args),
        None,
        frozenset(code.co_freevars),
    )
    text_annotations = bool(code.co_flags & __future__.annotations.compiler_flag)
    rewriter = StatementRewriter(scope, text, globals_, text_annotations=text_annotations)
    if isinstance(node, ast.FunctionDef):
        node.body = rewriter.body(node.body)
    else:
        node.body = rewriter.expression(node.body)
