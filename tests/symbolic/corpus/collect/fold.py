"""Folds what any engine folds when it builds a node: constants, x*1, x+0, x//1, `True and`."""

from __future__ import annotations

import ast


def folded(text: str) -> str:
    for _ in range(6):
        new = ast.unparse(ast.fix_missing_locations(_Fold().visit(ast.parse(text, mode="eval"))))
        if new == text:
            break
        text = new
    return text


class _Fold(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        a, b = _constant(node.left), _constant(node.right)
        divides = isinstance(node.op, ast.FloorDiv | ast.Mod)
        if a is not None and b is not None and (b or not divides):
            return _number(_value(node))
        adds, multiplies = isinstance(node.op, ast.Add), isinstance(node.op, ast.Mult)
        shifts = isinstance(node.op, ast.Add | ast.Sub)
        if (adds and a == 0) or (multiplies and a == 1):
            return node.right
        if (shifts and b == 0) or (isinstance(node.op, ast.Mult | ast.FloorDiv) and b == 1):
            return node.left
        if shifts and b is not None:
            return _shifted(node.left, b if adds else -b)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        value = _constant(node.operand) if isinstance(node.op, ast.USub) else None
        return node if value is None else _number(-value)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        sides = (node.left, *node.comparators)
        if len(sides) == 2 and all(_constant(side) is not None for side in sides):
            return ast.Constant(_value(node))
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        unit = isinstance(node.op, ast.And)
        values: list[ast.expr] = []
        for v in node.values:
            values += v.values if isinstance(v, ast.BoolOp) and type(v.op) is type(node.op) else [v]
        if any(isinstance(v, ast.Constant) and v.value is (not unit) for v in values):
            return ast.Constant(not unit)
        values = [v for v in values if not (isinstance(v, ast.Constant) and v.value is unit)]
        if len(values) < 2:
            return values[0] if values else ast.Constant(unit)
        return ast.BoolOp(node.op, values)


def _shifted(node: ast.expr, by: int) -> ast.expr:
    """`node + by`, joined with a constant that was added before."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        before = _constant(node.right)
        if before is not None:
            by += before if isinstance(node.op, ast.Add) else -before
            node = node.left
            if by == 0:
                return node
    return ast.BinOp(node, ast.Add() if by >= 0 else ast.Sub(), _number(abs(by)))


def _value(node: ast.expr) -> int:
    return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "fold", "eval"))


def _constant(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _constant(node.operand)
        return None if value is None else -value
    return None


def _number(value: int) -> ast.expr:
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))
