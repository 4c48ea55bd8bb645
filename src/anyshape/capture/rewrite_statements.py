"""Statements: stores, loops, `with`, nested functions and classes.

    self.count += 1   ->   H.set_attribute(self, "count", H.inplace("add", H.attribute(self, "count"), 1))

A handler appends what the statement becomes to a list. Python evaluates the value of an assignment
before the parts of its targets, and stores from left to right; where a hook takes them in another
order, temporaries keep Python's.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from anyshape.capture.rewrite_expressions import (
    BINARY_NAMES,
    ExpressionRewriter,
    first_argument,
    lambda_at,
    replaced,
)
from anyshape.capture.rewrite_nodes import (
    FRAME,
    STORE,
    CannotRewrite,
    assign_at,
    name_at,
    node_at,
)
from anyshape.capture.rewrite_scopes import Kind, Place, Scope, all_arguments, bindings, mangle

Statements = list[ast.stmt]
Handler = Callable[[Any, Any, Statements], None]

# Annotations are evaluated with the definition until 3.14, and then only when somebody asks.
LAZY_ANNOTATIONS = sys.version_info >= (3, 14)


class StatementRewriter(ExpressionRewriter):
    def __init__(
        self, scope: Scope, text: str, globals_: Mapping[str, object], *, text_annotations: bool
    ) -> None:
        """`text_annotations`: the module has `from __future__ import annotations`."""
        super().__init__(scope, text, globals_)
        self.keeps_annotations = text_annotations or LAZY_ANNOTATIONS

    def body(self, statements: Iterable[ast.stmt]) -> Statements:
        out: Statements = []
        for statement in statements:
            self.statement(statement, out)
        return out

    def statement(self, node: ast.stmt, out: Statements) -> None:
        handler = STATEMENTS.get(type(node))
        if handler is None:
            raise CannotRewrite(f"{type(node).__name__} statements are not supported")
        handler(self, node, out)

    def run(self, call: ast.expr, out: Statements) -> None:
        out.append(node_at(ast.Expr, call, value=call))

    def hold(self, value: ast.expr, at: ast.AST, out: Statements) -> str:
        """Put a value into a new temporary; the caller clears it."""
        name = self.temporary()
        out.append(assign_at(name, value, at))
        return name

    def clear(self, names: list[str], at: ast.AST, out: Statements) -> None:
        if names:
            targets = [name_at(name, at, STORE) for name in names]
            nothing = self.constant(None, at)
            out.append(node_at(ast.Assign, at, targets=targets, value=nothing, type_comment=None))

    # Assignment.

    def is_local_name(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self.scope.place(self.mangle(node.id)) is Place.LOCAL

    def is_parameter(self, node: ast.expr) -> bool:
        """A name that is bound from the start and that no expression changes."""
        if not isinstance(node, ast.Name):
            return False
        name = self.mangle(node.id)
        return name in self.scope.parameters and self.is_stable(name)

    def early(self, node: ast.expr) -> bool:
        """Whether nobody can tell if this is evaluated before or after its neighbours."""
        return isinstance(node, ast.Constant) or self.is_parameter(node)

    def assign(self, node: ast.Assign, out: Statements) -> None:
        original = node.value
        value = self.expression(original)
        target = node.targets[0]
        if all(map(self.is_local_name, node.targets)):
            node.value = value
            out.append(node)
        elif len(node.targets) > 1:
            name = self.hold(value, node, out)
            for each in node.targets:
                self.assign_to(each, name_at(name, node), node, out)
            self.clear([name], node, out)
        elif isinstance(target, ast.Tuple | ast.List):
            is_display = isinstance(original, ast.Tuple | ast.List) and not any(
                isinstance(element, ast.Starred) for element in original.elts
            )
            self.unpack_into(target, value, node, out, from_display=is_display)
        elif isinstance(target, ast.Name) or self.early(original) or self.parts_are_early(target):
            self.assign_to(target, value, node, out)
        else:
            name = self.hold(value, node, out)
            self.assign_to(target, name_at(name, node), node, out)
            self.clear([name], node, out)

    def parts_are_early(self, target: ast.expr) -> bool:
        match target:
            case ast.Attribute():
                return self.early(target.value)
            case ast.Subscript():
                return self.early(target.value) and self.early(target.slice)
            case _:
                return False

    def assign_to(self, target: ast.expr, value: ast.expr, at: ast.stmt, out: Statements) -> None:
        """`target = value`, where `value` may be evaluated in the middle."""
        match target:
            case ast.Name():
                name = self.mangle(target.id)
                value = self.stored(name, value, at)
                out.append(
                    node_at(ast.Assign, at, targets=[target], value=value, type_comment=None)
                )
            case ast.Attribute() | ast.Subscript():
                self.run(self.store(target, value), out)
            case ast.Tuple() | ast.List():
                self.unpack_into(target, value, at, out)
            case _:
                raise CannotRewrite(f"{type(target).__name__} as a target is not supported")

    def unpack_into(
        self,
        target: ast.Tuple | ast.List,
        value: ast.expr,
        at: ast.stmt,
        out: Statements,
        *,
        from_display: bool = False,
    ) -> None:
        """`a, b.c = v` -> `a, t = H.unpack(v); H.set_attribute(b, "c", t)`.

        From the first target that is not a local name on, all go through temporaries: a later name
        must not be bound before the parts of an earlier target are evaluated.
        """
        if not from_display:
            value = self.hook("unpack", target, value)
        elements = list(target.elts)
        waiting: list[tuple[ast.expr, str]] = []
        for index, element in enumerate(elements):
            inner = element.value if isinstance(element, ast.Starred) else element
            if waiting or not self.is_local_name(inner):
                name = self.temporary()
                waiting.append((inner, name))
                elements[index] = replaced(element, name)
        target.elts = elements
        out.append(node_at(ast.Assign, at, targets=[target], value=value, type_comment=None))
        for inner, name in waiting:
            self.assign_to(inner, name_at(name, inner), cast(ast.stmt, inner), out)
        self.clear([name for _, name in waiting], at, out)

    def annotated(self, node: ast.AnnAssign, out: Statements) -> None:
        if self.scope.kind is Kind.CLASS:
            node.annotation = self.annotation(node.annotation)
            if isinstance(node.target, ast.Name):
                node.value = self.optional(node.value)
                out.append(node)
                return
        if node.value is not None:
            assignment = node_at(
                ast.Assign, node, targets=[node.target], value=node.value, type_comment=None
            )
            self.assign(assignment, out)
        elif isinstance(node.target, ast.Name):
            # It makes the name local, and does nothing else.
            node.annotation = self.constant(None, node)
            out.append(node)
        elif isinstance(node.target, ast.Attribute):
            self.run(self.expression(node.target.value), out)
        else:
            self.run(self.expression(node.target.value), out)
            self.run(self.expression(node.target.slice), out)

    def annotation(self, node: ast.expr) -> ast.expr:
        return node if self.keeps_annotations else self.expression(node)

    def augmented(self, node: ast.AugAssign, out: Statements) -> None:
        op = self.constant(BINARY_NAMES[type(node.op)], node)
        target = node.target
        if isinstance(target, ast.Name):
            name = self.mangle(target.id)
            old = self.name(name_at(target.id, target))
            value = self.hook("inplace", node, op, old, self.expression(node.value))
            out.append(assign_at(target.id, self.stored(name, value, node), node))
            return
        held: list[str] = []
        owner = self.once(target.value, held, out)
        if isinstance(target, ast.Attribute):
            attribute = self.constant(self.mangle(target.attr), target)
            old = self.hook("attribute", target, owner, attribute)
            value = self.hook("inplace", node, op, old, self.expression(node.value))
            self.run(self.hook("set_attribute", target, owner, attribute, value), out)
        else:
            key = self.once(target.slice, held, out)
            old = self.hook("item", target, owner, key)
            value = self.hook("inplace", node, op, old, self.expression(node.value))
            self.run(self.hook("set_item", target, owner, key, value), out)
        self.clear(held, node, out)

    def once(self, node: ast.expr, held: list[str], out: Statements) -> ast.expr:
        """An expression that may stand twice in what follows, and is evaluated once, now."""
        if self.early(node):
            return node
        name = self.hold(self.expression(node), node, out)
        held.append(name)
        return name_at(name, node)

    def delete(self, node: ast.Delete, out: Statements) -> None:
        for target in node.targets:
            self.delete_target(target, out)

    def delete_target(self, target: ast.expr, out: Statements) -> None:
        match target:
            case ast.Attribute():
                name = self.constant(self.mangle(target.attr), target)
                owner = self.expression(target.value)
                self.run(self.hook("delete_attribute", target, owner, name), out)
            case ast.Subscript():
                parts = self.expression(target.value), self.expression(target.slice)
                self.run(self.hook("delete_item", target, *parts), out)
            case ast.Tuple() | ast.List():
                for element in target.elts:
                    self.delete_target(element, out)
            case ast.Name():
                name = self.mangle(target.id)
                place = self.scope.place(name)
                if place is Place.FREE:
                    raise CannotRewrite(f"it deletes `{name}`, a variable of a function around it")
                if place is Place.GLOBAL:
                    frame = self.nodes.name(FRAME, target)
                    text = self.constant(name, target)
                    self.run(self.hook("delete_global", target, frame, text), out)
                out.append(node_at(ast.Delete, target, targets=[target]))
            case _:
                raise CannotRewrite(f"{type(target).__name__} in `del` is not supported")

    def store_again(self, name: str, at: ast.AST, out: Statements) -> None:
        """After a statement that itself bound a name: a store outside must be seen."""
        if self.scope.place(self.mangle(name)) is not Place.LOCAL:
            value = self.stored(self.mangle(name), name_at(name, at), at)
            out.append(assign_at(name, value, at))

    # Control flow.

    def if_(self, node: ast.If, out: Statements) -> None:
        node.test = self.condition(node.test)
        node.body = self.body(node.body)
        node.orelse = self.body(node.orelse)
        out.append(node)

    def while_(self, node: ast.While, out: Statements) -> None:
        self.if_(cast(ast.If, node), out)

    def for_(self, node: ast.For, out: Statements) -> None:
        node.iter = self.hook("iterate", node.iter, self.expression(node.iter))
        node.target, first = self.bound_by_python(node.target)
        node.body = first + self.body(node.body)
        node.orelse = self.body(node.orelse)
        out.append(node)

    def bound_by_python(self, target: ast.expr) -> tuple[ast.expr, Statements]:
        """A target that `for` or `with` binds itself, and the statements that finish the job."""
        if self.is_local_name(target):
            return target, []
        name = self.temporary()
        after: Statements = []
        self.assign_to(target, name_at(name, target), cast(ast.stmt, target), after)
        self.clear([name], target, after)
        return name_at(name, target, STORE), after

    def with_(self, node: ast.With, out: Statements) -> None:
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
                self.with_(inner, node.body)
            else:
                node.body = first + self.body(node.body)
            out.append(node)
            return
        node.body = self.body(node.body)
        out.append(node)

    def try_(self, node: ast.Try, out: Statements) -> None:
        node.body = self.body(node.body)
        for handler in node.handlers:
            handler.type = self.optional(handler.type)
            name = handler.name
            if name is not None and self.scope.place(self.mangle(name)) is not Place.LOCAL:
                raise CannotRewrite(f"`except ... as {name}` binds a variable outside of it")
            handler.body = self.body(handler.body)
        node.orelse = self.body(node.orelse)
        node.finalbody = self.body(node.finalbody)
        out.append(node)

    def raise_(self, node: ast.Raise, out: Statements) -> None:
        if node.exc is not None:
            node.exc = self.hook("raising", node.exc, self.expression(node.exc))
            node.cause = self.optional(node.cause)
        out.append(node)

    def assert_(self, node: ast.Assert, out: Statements) -> None:
        node.test = self.condition(node.test)
        node.msg = self.optional(node.msg)
        out.append(node)

    def match(self, node: ast.Match, out: Statements) -> None:
        node.subject = self.hook("match", node.subject, self.expression(node.subject))
        for case in node.cases:
            captures = bindings([cast(ast.stmt, case.pattern)], self.scope.class_name).bound
            outside = [name for name in captures if self.scope.place(name) is not Place.LOCAL]
            if outside:
                raise CannotRewrite(f"a pattern binds `{outside[0]}`, a variable outside of it")
            if case.guard is not None:
                case.guard = self.condition(case.guard)
            case.body = self.body(case.body)
        out.append(node)

    def expression_statement(self, node: ast.Expr, out: Statements) -> None:
        node.value = self.expression(node.value)
        out.append(node)

    def return_(self, node: ast.Return, out: Statements) -> None:
        node.value = self.optional(node.value)
        out.append(node)

    def unchanged_statement(self, node: ast.stmt, out: Statements) -> None:
        out.append(node)

    def asynchronous_statement(self, node: ast.stmt, out: Statements) -> None:
        raise CannotRewrite("it has asynchronous code")

    # Imports.

    def import_(self, node: ast.Import, out: Statements) -> None:
        for alias in node.names:
            out.append(node_at(ast.Import, node, names=[alias]))
            bound = alias.asname or alias.name.partition(".")[0]
            module = alias.name if alias.asname else bound
            self.imported(
                bound, [self.constant(module, node), self.constant(None, node)], node, out
            )

    def import_from(self, node: ast.ImportFrom, out: Statements) -> None:
        out.append(node)
        for alias in node.names:
            what: list[ast.expr] = [
                self.constant(node.module or "", node),
                self.constant(alias.name, node),
            ]
            if node.level:
                what += [self.constant(node.level, node), self.nodes.name(FRAME, node)]
            self.imported(alias.asname or alias.name, what, node, out)

    def imported(self, bound: str, what: list[ast.expr], at: ast.stmt, out: Statements) -> None:
        value = self.hook("imported", at, name_at(bound, at), *what)
        if self.scope.kind is Kind.CLASS:
            # A second store could be seen by the namespace that a metaclass prepared.
            self.run(value, out)
        else:
            out.append(assign_at(bound, self.stored(self.mangle(bound), value, at), at))

    # Definitions.

    def function(self, node: ast.FunctionDef, out: Statements) -> None:
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

    def class_(self, node: ast.ClassDef, out: Statements) -> None:
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
            Kind.CLASS,
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
        if self.scope.kind is Kind.CLASS:
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
        Kind.FUNCTION,
        found.bound,
        parent=parent,
        declared_global=found.declared_global,
        unstable=found.unstable,
        parameters=parameters,
        free=free,
        class_name=class_name,
        first_argument=None if first is None else mangle(first, class_name),
    )


STATEMENTS: Mapping[type[ast.stmt], Handler] = {
    ast.AnnAssign: StatementRewriter.annotated,
    ast.Assert: StatementRewriter.assert_,
    ast.Assign: StatementRewriter.assign,
    ast.AsyncFor: StatementRewriter.asynchronous_statement,
    ast.AsyncFunctionDef: StatementRewriter.asynchronous_statement,
    ast.AsyncWith: StatementRewriter.asynchronous_statement,
    ast.AugAssign: StatementRewriter.augmented,
    ast.Break: StatementRewriter.unchanged_statement,
    ast.ClassDef: StatementRewriter.class_,
    ast.Continue: StatementRewriter.unchanged_statement,
    ast.Delete: StatementRewriter.delete,
    ast.Expr: StatementRewriter.expression_statement,
    ast.For: StatementRewriter.for_,
    ast.FunctionDef: StatementRewriter.function,
    ast.Global: StatementRewriter.unchanged_statement,
    ast.If: StatementRewriter.if_,
    ast.Import: StatementRewriter.import_,
    ast.ImportFrom: StatementRewriter.import_from,
    ast.Match: StatementRewriter.match,
    ast.Nonlocal: StatementRewriter.unchanged_statement,
    ast.Pass: StatementRewriter.unchanged_statement,
    ast.Raise: StatementRewriter.raise_,
    ast.Return: StatementRewriter.return_,
    ast.Try: StatementRewriter.try_,
    ast.TryStar: StatementRewriter.try_,
    ast.While: StatementRewriter.while_,
    ast.With: StatementRewriter.with_,
}
