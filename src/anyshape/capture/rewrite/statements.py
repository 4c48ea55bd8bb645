"""Statements: loops, `with`, `try`, `match`, imports, nested functions and classes.

Most are kept, with the expressions in them rewritten.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from anyshape.capture.rewrite.assignments import AssignmentRewriter, Statements
from anyshape.capture.rewrite.expressions import first_argument
from anyshape.capture.rewrite.nodes import (
    FRAME,
    CannotRewrite,
    Placed,
    assign_at,
    lambda_at,
    name_at,
    node_at,
)
from anyshape.capture.rewrite.scopes import (
    NameKind,
    NameScope,
    Scope,
    all_arguments,
    bindings,
    mangle,
)


class StatementRewriter(AssignmentRewriter):
    def body(self, statements: Iterable[ast.stmt]) -> Statements:
        out: Statements = []
        for statement in statements:
            self.statement(statement, out)
        return out

    def statement(self, node: ast.stmt, out: Statements) -> None:
        handler = self.handlers.get(type(node))
        if handler is None:
            raise CannotRewrite(f"{type(node).__name__} statements are not supported")
        handler(self, node, out)

    # Control flow.

    def visit_If(self, node: ast.If | ast.While, out: Statements) -> None:
        node.test = self.condition(node.test)
        node.body = self.body(node.body)
        node.orelse = self.body(node.orelse)
        out.append(node)

    visit_While = visit_If

    def visit_For(self, node: ast.For, out: Statements) -> None:
        node.iter = self.hook("iterate", node.iter, self.expression(node.iter))
        node.target, first = self.bound_by_python(node.target)
        node.body = first + self.body(node.body)
        node.orelse = self.body(node.orelse)
        out.append(node)

    def visit_With(self, node: ast.With, out: Statements) -> None:
        for index, item in enumerate(node.items):
            manager = item.context_expr
            item.context_expr = self.hook("context", manager, self.expression(manager))
            if item.optional_vars is None or self.is_local_name(item.optional_vars):
                continue
            item.optional_vars, first = self.bound_by_python(item.optional_vars)
            rest = node.items[index + 1 :]
            if rest:
                # `with a as t, b: ...` is `with a as t: with b: ...`.
                inner = node_at(
                    ast.With, rest[0].context_expr, items=rest, body=node.body, type_comment=None
                )
                node.items = node.items[: index + 1]
                node.body = first
                self.visit_With(inner, node.body)
            else:
                node.body = first + self.body(node.body)
            out.append(node)
            return
        node.body = self.body(node.body)
        out.append(node)

    def visit_Try(self, node: ast.Try | ast.TryStar, out: Statements) -> None:
        node.body = self.body(node.body)
        for handler in node.handlers:
            handler.type = self.optional(handler.type)
            name = handler.name
            if name is not None and self.scope.place(self.mangle(name)) is not NameScope.LOCAL:
                raise CannotRewrite(f"`except ... as {name}` binds a variable outside of it")
            handler.body = [self._caught(handler), *self.body(handler.body)]
        node.orelse = self.body(node.orelse)
        if node.finalbody:
            # A `return` in it takes the place of an error.
            node.finalbody = [self._caught(node.finalbody[0]), *self.body(node.finalbody)]
        out.append(node)

    visit_TryStar = visit_Try

    def _caught(self, at: Placed) -> ast.stmt:
        caught = self.hook("caught", at)
        return node_at(ast.Expr, caught, value=caught)

    def visit_Raise(self, node: ast.Raise, out: Statements) -> None:
        if node.exc is not None:
            node.exc = self.hook("raising", node.exc, self.expression(node.exc))
            node.cause = self.optional(node.cause)
        out.append(node)

    def visit_Assert(self, node: ast.Assert, out: Statements) -> None:
        # What an assertion asks is expected to be so: no branch of the program.
        test = self.hook("asserted", node.test, self.condition(node.test))
        begin = self.hook("asserting", node.test)
        node.test = node_at(ast.BoolOp, node.test, op=ast.And(), values=[begin, test])
        node.msg = self.optional(node.msg)
        out.append(node)

    def visit_Match(self, node: ast.Match, out: Statements) -> None:
        node.subject = self.hook("match", node.subject, self.expression(node.subject))
        for case in node.cases:
            captures = bindings([case.pattern], self.scope.class_name).bound
            outside = [name for name in captures if self.scope.place(name) is not NameScope.LOCAL]
            if outside:
                raise CannotRewrite(f"a pattern binds `{outside[0]}`, a variable outside of it")
            if case.guard is not None:
                case.guard = self.condition(case.guard)
            case.body = self.body(case.body)
        out.append(node)

    def visit_Expr(self, node: ast.Expr, out: Statements) -> None:
        node.value = self.expression(node.value)
        out.append(node)

    def visit_Return(self, node: ast.Return, out: Statements) -> None:
        node.value = self.optional(node.value)
        out.append(node)

    def visit_Pass(self, node: ast.stmt, out: Statements) -> None:
        out.append(node)

    visit_Break = visit_Continue = visit_Global = visit_Nonlocal = visit_Pass

    def visit_AsyncFor(self, node: ast.stmt, out: Statements) -> None:
        raise CannotRewrite("it has asynchronous code")

    visit_AsyncFunctionDef = visit_AsyncWith = visit_AsyncFor

    # Imports.

    def visit_Import(self, node: ast.Import, out: Statements) -> None:
        for alias in node.names:
            out.append(node_at(ast.Import, node, names=[alias]))
            bound = alias.asname or alias.name.partition(".")[0]
            module = alias.name if alias.asname else bound
            self.imported(
                bound, [self.constant(module, node), self.constant(None, node)], node, out
            )

    def visit_ImportFrom(self, node: ast.ImportFrom, out: Statements) -> None:
        out.append(node)
        for alias in node.names:
            what: list[ast.expr] = [
                self.constant(node.module or "", node),
                self.constant(alias.name, node),
            ]
            if node.level:
                what += [self.constant(node.level, node), self.own_name(FRAME, node)]
            self.imported(alias.asname or alias.name, what, node, out)

    def imported(self, bound: str, what: list[ast.expr], at: Placed, out: Statements) -> None:
        value = self.hook("imported", at, name_at(bound, at), *what)
        if self.scope.kind is NameKind.CLASS:
            # A second store could be seen by the namespace that a metaclass prepared.
            self.run(value, out)
        else:
            out.append(assign_at(bound, self.stored(self.mangle(bound), value, at), at))

    # Definitions.

    def visit_FunctionDef(self, node: ast.FunctionDef, out: Statements) -> None:
        if getattr(node, "type_params", None):
            raise CannotRewrite("a function in it has type parameters")
        node.decorator_list = [self.decorator(each) for each in node.decorator_list]
        self.defaults(node.args)
        for argument in all_arguments(node.args):
            if argument.annotation is not None:
                argument.annotation = self.annotation(argument.annotation)
        if node.returns is not None:
            node.returns = self.annotation(node.returns)
        around = self.scope
        names = frozenset(self.mangle(argument.arg) for argument in all_arguments(node.args))
        self.scope = function_scope(
            node.body, names, around.class_name, self.has_walrus, first_argument(node.args), around
        )
        node.body = self.body(node.body)
        self.scope = around
        out.append(node)
        self.store_again(node.name, node, out)

    def decorator(self, node: ast.expr) -> ast.expr:
        """`(lambda d: lambda f: H.call(d, f))(decorator)`.

        The decorator is evaluated where Python evaluates it, called through the hook when Python
        calls it, and the name stays unbound in the meantime.
        """
        names = [self.new_variable(), self.new_variable()]
        call = self.hook("call", node, *(name_at(name, node) for name in names))
        factory = lambda_at(node, names[:1], lambda_at(node, names[1:], call))
        value = self.expression(node)
        return node_at(ast.Call, node, func=factory, args=[value], keywords=[])

    def visit_ClassDef(self, node: ast.ClassDef, out: Statements) -> None:
        if getattr(node, "type_params", None):
            raise CannotRewrite("a class in it has type parameters")
        self.run(self.hook("making_class", node_start(node), self.constant(node.name, node)), out)
        node.decorator_list = [self.decorator(each) for each in node.decorator_list]
        node.bases = [self.expression(base) for base in node.bases]
        for keyword in node.keywords:
            value = self.expression(keyword.value)
            keyword.value = value if keyword.arg else self.hook("mapping", keyword.value, value)
        around = self.scope
        found = bindings(node.body, node.name)
        self.scope = inner = Scope(
            NameKind.CLASS,
            found.bound,
            parent=around,
            declared_global=found.declared_global,
            class_name=node.name,
        )
        body = self.body(node.body)
        self.scope = around
        if inner.borrowed:
            self.lend(inner.borrowed, body, node, out)
        node.body = body
        out.append(node)
        self.store_again(node.name, node, out)

    def lend(self, names: list[str], body: Statements, node: ast.ClassDef, out: Statements) -> None:
        """Temporaries of a class body are variables of the function around it."""
        place = 1 if ast.get_docstring(node, clean=False) is not None else 0
        body.insert(place, node_at(ast.Nonlocal, node_start(node), names=names))
        if self.scope.kind is NameKind.CLASS:
            self.scope.borrowed += names
        else:
            for name in names:
                out.append(assign_at(name, self.constant(None, node), node_start(node)))


def node_start(node: ast.ClassDef) -> ast.stmt:
    """The line on which a class statement begins, for what comes before it."""
    first = node.decorator_list[0] if node.decorator_list else node
    line, column = first.lineno, first.col_offset
    return ast.Pass(lineno=line, col_offset=column, end_lineno=line, end_col_offset=column)


def function_scope(
    body: list[ast.stmt],
    parameters: frozenset[str],
    class_name: str | None,
    has_walrus: bool,
    first: str | None,
    parent: Scope | None,
    free: frozenset[str] = frozenset(),
) -> Scope:
    found = bindings(body, class_name, parameters, with_expressions=has_walrus)
    return Scope(
        NameKind.FUNCTION,
        found.bound,
        parent=parent,
        declared_global=found.declared_global,
        unstable=found.unstable,
        parameters=parameters,
        free=free,
        class_name=class_name,
        first_argument=None if first is None else mangle(first, class_name),
    )
