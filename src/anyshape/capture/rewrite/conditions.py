"""Decisions: every truth test goes through a hook, as often as Python makes it.

    if a and not b:            ->   if H.truth(a) and not H.truth(b):
    x = a or b                 ->   x = H.test(a) or b
    a < b < c                  ->   H.test(H.compare("lt", a, b)) and H.compare("lt", b, c)

`H.test` returns its argument, so that the value of `and` and `or` is Python's own.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from anyshape.capture.rewrite.base import Rewriter
from anyshape.capture.rewrite.nodes import (
    bound_to,
    lambda_at,
    name_at,
    node_at,
    read_and_clear,
)
from anyshape.capture.rewrite.scopes import NameKind, Scope, walrus_targets

COMPARE_NAMES: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
# Comparisons whose result is a bool, whatever the operands are.
BOOL_COMPARISONS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


class ConditionRewriter(Rewriter):
    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        operands = flattened(node)
        node.values = [self.tested(operand, node.op) for operand in operands[:-1]]
        node.values.append(self.expression(operands[-1]))
        return node

    def tested(self, node: ast.expr, op: ast.boolop) -> ast.expr:
        """An operand that `op` tests, and whose value is the result if it decides.

        `(a and b) or c`: where `a` is false, its value is of no interest, and Python tests it once.
        `(a and (b or c)) or d`: where `b` is true, it is the result.
        """
        if isinstance(node, ast.BoolOp):
            *operands, last = flattened(node)
            if type(node.op) is type(op):
                node.values = [self.tested(operand, op) for operand in operands]
            else:
                node.values = [self.condition(operand) for operand in operands]
            node.values.append(self.tested(last, op))
            return node
        if isinstance(node, ast.Constant) or gives_bool(node):
            return self.expression(node)
        return self.hook("test", node, self.expression(node))

    def condition(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth matters, with every test that Python makes."""
        match node:
            case ast.Constant():
                return node
            case ast.BoolOp():
                node.values = [self.condition(value) for value in node.values]
                return node
            case ast.UnaryOp(op=ast.Not()):
                node.operand = self.condition(node.operand)
                return node
            case ast.IfExp():
                node.test = self.condition(node.test)
                node.body = self.condition(node.body)
                node.orelse = self.condition(node.orelse)
                return node
            case ast.Compare() if len(node.ops) > 1:
                return self.chain(node, as_condition=True)
            case _ if gives_bool(node):
                return self.expression(node)
            case _:
                return self.hook("truth", node, self.expression(node))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self.condition(node.test)
        node.body = self.expression(node.body)
        node.orelse = self.expression(node.orelse)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1:
            return self.chain(node, as_condition=False)
        left = self.expression(node.left)
        return self.comparison(node.ops[0], left, self.expression(node.comparators[0]), node)

    def comparison(self, op: ast.cmpop, left: ast.expr, right: ast.expr, at: ast.expr) -> ast.expr:
        name = COMPARE_NAMES.get(type(op))
        if name is not None:
            return self.hook("compare", at, self.constant(name, at), left, right)
        method = "same" if isinstance(op, ast.Is | ast.IsNot) else "contains"
        positive = self.hook(method, at, left, right)
        if isinstance(op, ast.Is | ast.In):
            return positive
        return node_at(ast.UnaryOp, at, op=ast.Not(), operand=positive)

    # Chained comparisons: `a < b < c` evaluates `b` once, and `c` only if `a < b` holds.

    def chain(self, node: ast.Compare, *, as_condition: bool) -> ast.expr:
        operands = [node.left, *node.comparators]
        if all(self.can_be_read_twice(operand) for operand in operands[1:-1]):
            return self.chain_of_names(node, operands, as_condition)
        if self.walrus_is_safe():
            first = self.expression(node.left)
            return self.chain_with_walrus(node, first, 0, as_condition)
        names = self.scope.kind is not NameKind.CLASS
        if names and not (self.has_walrus and any(True for _ in walrus_targets(node))):
            first, second = self.expression(operands[0]), self.expression(operands[1])
            return self.chain_with_lambda(node, first, second, 0, as_condition)
        plain: list[ast.expr] = [
            self.hook("plain", operand, self.expression(operand)) for operand in operands
        ]
        node.left, node.comparators = plain[0], plain[1:]
        return self.hook("truth", node, node) if as_condition else node

    def can_be_read_twice(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return True
        return isinstance(node, ast.Name) and self.is_stable(self.mangle(node.id))

    def walrus_is_safe(self) -> bool:
        """Whether `(t := x)` may be written here.

        Python forbids it in iterables of comprehensions, and in comprehensions of a class body.
        Two generators of one generator expression would share the variable.
        """
        scope = self.scope
        while scope.kind is NameKind.COMPREHENSION and scope.parent is not None:
            if scope.is_generator_expression:
                return False
            scope = scope.parent
        in_comprehension = scope is not self.scope
        return self.iterable_depth == 0 and not (in_comprehension and scope.kind is NameKind.CLASS)

    def linked(self, link: ast.expr, rest: ast.expr, at: ast.expr, as_condition: bool) -> ast.expr:
        """`link and rest`, where `link` is one comparison of a chain."""
        link = self.hook("truth" if as_condition else "test", at, link)
        return node_at(ast.BoolOp, at, op=ast.And(), values=[link, rest])

    def last_link(self, link: ast.expr, at: ast.expr, as_condition: bool) -> ast.expr:
        return self.hook("truth", at, link) if as_condition else link

    def chain_of_names(
        self, node: ast.Compare, operands: list[ast.expr], as_condition: bool
    ) -> ast.expr:
        """`a < b and b < c`."""
        lefts = [self.expression(node.left), *operands[1:-1]]
        rights = [*operands[1:-1], self.expression(operands[-1])]
        *links, last = map(self.comparison, node.ops, lefts, rights, [node] * len(node.ops))
        result = self.last_link(last, node, as_condition)
        for link in reversed(links):
            result = self.linked(link, result, node, as_condition)
        return result

    def chain_with_walrus(
        self, node: ast.Compare, left: ast.expr, index: int, as_condition: bool
    ) -> ast.expr:
        """`(t < c) if H.truth(v := a < (t := b)) else v`, where both variables are cleared."""
        right = self.expression(node.comparators[index])
        if index == len(node.ops) - 1:
            return self.last_link(
                self.comparison(node.ops[index], left, right, node), node, as_condition
            )
        middle, verdict = self.temporary(), self.temporary()
        link = self.comparison(node.ops[index], left, bound_to(middle, right), node)
        if as_condition:
            test = self.hook("truth", node, link)
            next_left = read_and_clear(node, middle)
            otherwise: ast.expr = bound_to(middle, self.constant(None, node))
        else:
            test = self.hook("truth", node, bound_to(verdict, link))
            next_left = read_and_clear(node, middle, verdict)
            otherwise = read_and_clear(node, verdict, middle)
        rest = self.chain_with_walrus(node, next_left, index + 1, as_condition)
        return node_at(ast.IfExp, node, test=test, body=rest, orelse=otherwise)

    def chain_with_lambda(
        self,
        node: ast.Compare,
        left: ast.expr,
        right: ast.expr,
        index: int,
        as_condition: bool,
    ) -> ast.expr:
        """`(lambda x, y: x < y and y < c)(a, b)`, where Python has no room for a variable."""
        if index == len(node.ops) - 1:
            return self.last_link(
                self.comparison(node.ops[index], left, right, node), node, as_condition
            )
        first, second = self.new_variable(), self.new_variable()
        around = self.scope
        self.scope = Scope(
            NameKind.FUNCTION, {first, second}, parent=around, class_name=around.class_name
        )
        following = self.expression(node.comparators[index + 1])
        link = self.comparison(node.ops[index], name_at(first, node), name_at(second, node), node)
        rest = self.chain_with_lambda(
            node, name_at(second, node), following, index + 1, as_condition
        )
        self.scope = around
        body = self.linked(link, rest, node, as_condition)
        function = lambda_at(node, [first, second], body)
        return node_at(ast.Call, node, func=function, args=[left, right], keywords=[])


def gives_bool(node: ast.expr) -> bool:
    """Python makes a plain bool there, and hooks do too."""
    match node:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[op]):
            return isinstance(op, BOOL_COMPARISONS)
        case _:
            return False


def flattened(node: ast.BoolOp) -> list[ast.expr]:
    """`(a or b) or c` is `a or b or c`; Python tests each operand once either way."""
    operands: list[ast.expr] = []
    for value in node.values:
        if isinstance(value, ast.BoolOp) and type(value.op) is type(node.op):
            operands += flattened(value)
        else:
            operands.append(value)
    return operands
