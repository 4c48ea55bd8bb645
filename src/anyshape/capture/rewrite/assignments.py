"""Stores: to names outside, attributes, items, and several targets at once.

    self.count += 1
    H.set_attribute(self, "count", H.inplace("add", H.attribute(self, "count"), 1))

Python evaluates the value of an assignment before the parts of its targets, and stores from left to
right; where a hook takes them in another order, temporaries keep Python's.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping

from anyshape.capture.rewrite.expressions import BINARY_NAMES, ExpressionRewriter
from anyshape.capture.rewrite.nodes import (
    FRAME,
    STORE,
    CannotRewrite,
    Placed,
    assign_at,
    clear_at,
    name_at,
    name_position,
    node_at,
    store_at,
    through_variables,
)
from anyshape.capture.rewrite.scopes import NameKind, NameScope, Scope

Statements = list[ast.stmt]

# Annotations are evaluated with the definition until 3.14, and then only when somebody asks.
LAZY_ANNOTATIONS = sys.version_info >= (3, 14)


class AssignmentRewriter(ExpressionRewriter):
    def __init__(
        self, scope: Scope, text: str, globals_: Mapping[str, object], *, text_annotations: bool
    ) -> None:
        """`text_annotations`: the module has `from __future__ import annotations`."""
        super().__init__(scope, text, globals_)
        self.keeps_annotations = text_annotations or LAZY_ANNOTATIONS

    def run(self, call: ast.expr, out: Statements) -> None:
        out.append(node_at(ast.Expr, call, value=call))

    def hold(self, value: ast.expr, at: Placed, out: Statements) -> str:
        """Put a value into a new temporary; the caller clears it."""
        name = self.temporary()
        out.append(assign_at(name, value, at))
        return name

    def clear(self, names: list[str], at: Placed, out: Statements) -> None:
        if names:
            out.append(clear_at(names, at))

    def is_local_name(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Name) and self.scope.place(self.mangle(node.id)) is NameScope.LOCAL
        )

    def is_parameter(self, node: ast.expr) -> bool:
        """A name that is bound from the start and that no expression changes."""
        if not isinstance(node, ast.Name):
            return False
        name = self.mangle(node.id)
        return name in self.scope.parameters and self.is_stable(name)

    def early(self, node: ast.expr) -> bool:
        """Whether nobody can tell if this is evaluated before or after its neighbours."""
        return isinstance(node, ast.Constant) or self.is_parameter(node)

    def visit_Assign(self, node: ast.Assign, out: Statements) -> None:
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

    def assign_to(self, target: ast.expr, value: ast.expr, at: Placed, out: Statements) -> None:
        """`target = value`, where `value` may be evaluated in the middle."""
        match target:
            case ast.Name():
                out.append(store_at([target], self.stored(self.mangle(target.id), value, at), at))
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
        at: Placed,
        out: Statements,
        *,
        from_display: bool = False,
    ) -> None:
        """`a, b.c = v` -> `a, t = H.unpack(v); H.set_attribute(b, "c", t)`."""
        if not from_display:
            value = self.hook("unpack", target, value)
        waiting = through_variables(target, self.is_local_name, self.temporary)
        out.append(store_at([target], value, at))
        for inner, name in waiting:
            self.assign_to(inner, name_at(name, inner), inner, out)
        self.clear([name for _, name in waiting], at, out)

    def visit_AnnAssign(self, node: ast.AnnAssign, out: Statements) -> None:
        if self.scope.kind is NameKind.CLASS:
            node.annotation = self.annotation(node.annotation)
            if isinstance(node.target, ast.Name):
                node.value = self.optional(node.value)
                out.append(node)
                return
        if node.value is not None:
            self.visit_Assign(store_at([node.target], node.value, node), out)
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

    def visit_AugAssign(self, node: ast.AugAssign, out: Statements) -> None:
        op = self.constant(BINARY_NAMES[type(node.op)], node)
        target = node.target
        if isinstance(target, ast.Name):
            name = self.mangle(target.id)
            old = self.visit_Name(name_at(target.id, target))
            value = self.hook("inplace", node, op, old, self.expression(node.value))
            out.append(assign_at(target.id, self.stored(name, value, node), node))
            return
        held: list[str] = []
        owner = self.once(target.value, held, out)
        if isinstance(target, ast.Attribute):
            part, at = "attribute", name_position(target)
            key: ast.expr = self.constant(self.mangle(target.attr), at)
        else:
            part, at, key = "item", target, self.once(target.slice, held, out)
        old = self.hook(part, at, owner, key)
        value = self.hook("inplace", node, op, old, self.expression(node.value))
        self.run(self.hook(f"set_{part}", at, owner, key, value), out)
        self.clear(held, node, out)

    def once(self, node: ast.expr, held: list[str], out: Statements) -> ast.expr:
        """An expression that may stand twice in what follows, and is evaluated once, now."""
        if self.early(node):
            return node
        name = self.hold(self.expression(node), node, out)
        held.append(name)
        return name_at(name, node)

    def visit_Delete(self, node: ast.Delete, out: Statements) -> None:
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
                if place is NameScope.FREE:
                    raise CannotRewrite(f"it deletes `{name}`, a variable of a function around it")
                if place is NameScope.GLOBAL:
                    frame = self.own_name(FRAME, target)
                    text = self.constant(name, target)
                    self.run(self.hook("delete_global", target, frame, text), out)
                out.append(node_at(ast.Delete, target, targets=[target]))
            case _:
                raise CannotRewrite(f"{type(target).__name__} in `del` is not supported")

    def store_again(self, name: str, at: Placed, out: Statements) -> None:
        """After a statement that itself bound a name: a store outside must be seen."""
        if self.scope.place(self.mangle(name)) is not NameScope.LOCAL:
            value = self.stored(self.mangle(name), name_at(name, at), at)
            out.append(assign_at(name, value, at))

    def bound_by_python(self, target: ast.expr) -> tuple[ast.expr, Statements]:
        """A target that `for` or `with` binds itself, and the statements that finish the job."""
        if self.is_local_name(target):
            return target, []
        name = self.temporary()
        after: Statements = []
        self.assign_to(target, name_at(name, target), target, after)
        self.clear([name], target, after)
        return name_at(name, target, STORE), after
