"""The truth of a question over all integers, by z3, with Python as a second opinion."""

from __future__ import annotations

import ast
import itertools
import operator
from typing import Any

import z3

from tests.symbolic.corpus.collect.rows import Row
from tests.symbolic.corpus.collect.small_integers import brute_force, python_function

SECONDS = 10.0

_COMPARE = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}

# Solvers in the order of trial, each with its share of the time.
_SOLVERS = (
    (z3.Solver, 0.4),
    (lambda: z3.SolverFor("QF_NIA"), 0.4),
    (lambda: z3.Then("simplify", "solve-eqs", "smt").solver(), 0.2),
)


def decide(row: Row) -> str:
    """The truth of a question: yes, no, contingent, undecided; or vacuous."""
    encoder = _Encoder(row["symbols"])
    given, ask = [encoder(fact) for fact in row["given"]], encoder(row["ask"])
    at = python_function(row)
    can: list[bool] = []
    never: list[bool] = []
    for wanted, goal, found in zip(
        (True, False), (ask, z3.Not(ask)), brute_force(row), strict=True
    ):
        model = _model(encoder, [*given, goal], SECONDS / 5 if found else SECONDS)
        if model:
            assert at(*model) == (True, wanted), ("z3's model fails in Python", row, model)
        assert not found or model != [], ("brute force has an example, z3 says none", wanted, row)
        can.append(found or bool(model))
        never.append(model == [])
    if all(never):
        return "vacuous"
    if all(can):
        return "contingent"
    if can[0] and never[1]:
        return "yes"
    return "no" if never[0] and can[1] else "undecided"


def _model(encoder: _Encoder, facts: list[Any], seconds: float) -> list[int] | None:
    """The symbols' values in a model, none where there is none, None where z3 gives up."""
    for make, share in _SOLVERS:
        solver = make()
        solver.set("timeout", int(seconds * 1000 * share))
        solver.add(*encoder.side, *facts)
        result = solver.check()
        if result == z3.unsat:
            return []
        if result == z3.sat:
            model = solver.model()
            found: list[Any] = [model.eval(v, model_completion=True) for v in encoder.vars.values()]
            return [value.as_long() for value in found]
    return None


class _Encoder:
    """Text to z3, Python's // and %: a division is two fresh integers, quotient and remainder."""

    def __init__(self, symbols: dict[str, Any]) -> None:
        self.vars = {name: z3.Int(name) for name in symbols}
        self.side: list[Any] = []
        self._divisions: dict[str, tuple[Any, Any]] = {}
        for name, (low, high) in symbols.items():
            self.side += [self.vars[name] >= low] if low is not None else []
            self.side += [self.vars[name] <= high] if high is not None else []

    def __call__(self, text: str) -> Any:
        return self._encode(ast.parse(text, mode="eval").body)

    def _encode(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(bool() as value):
                return z3.BoolVal(value)
            case ast.Constant(value):
                return z3.IntVal(value)
            case ast.Name(name):
                return self.vars[name]
            case ast.BoolOp(op, values):
                return (z3.And if isinstance(op, ast.And) else z3.Or)(*map(self._encode, values))
            case ast.UnaryOp(ast.Not(), operand):
                return z3.Not(self._encode(operand))
            case ast.UnaryOp(_, operand):
                return z3.simplify(-self._encode(operand))
            case ast.Compare(left, ops, comparators):
                pairs = itertools.pairwise(map(self._encode, [left, *comparators]))
                return z3.And(
                    *[_COMPARE[type(op)](a, b) for op, (a, b) in zip(ops, pairs, strict=True)]
                )
            case ast.BinOp():
                return self._arithmetic(node)
            case ast.Call(ast.Name("ceildiv"), [dividend, divisor]):
                return -self._divide(ast.UnaryOp(ast.USub(), dividend), divisor)[0]
            case ast.Call(ast.Name(name), args):
                out, *others = map(self._encode, args)
                for x in others:
                    out = z3.If((x <= out) if name == "min" else (x >= out), x, out)
                return out
        raise AssertionError(f"not in our text: {ast.dump(node)}")

    def _arithmetic(self, node: ast.BinOp) -> Any:
        if isinstance(node.op, ast.Pow):
            assert isinstance(node.right, ast.Constant)
            assert isinstance(node.right.value, int)
            power = [self._encode(node.left)] * node.right.value
            return z3.simplify(z3.Product(*power)) if power else z3.IntVal(1)
        if type(node.op) in _ARITHMETIC:
            a, b = self._encode(node.left), self._encode(node.right)
            out = _ARITHMETIC[type(node.op)](a, b)
            return z3.simplify(out) if z3.is_int_value(a) and z3.is_int_value(b) else out
        quotient, remainder = self._divide(node.left, node.right)
        return quotient if isinstance(node.op, ast.FloorDiv) else remainder

    def _divide(self, dividend: ast.expr, divisor: ast.expr) -> tuple[Any, Any]:
        a, b = self._encode(dividend), self._encode(divisor)
        key = f"{ast.dump(dividend)} / {ast.dump(divisor)}"
        if key not in self._divisions:
            n = len(self._divisions)
            q, r = z3.Int(f"q{n}"), z3.Int(f"r{n}")
            self._divisions[key] = (q, r)
            self.side += [a == b * q + r]
            if z3.is_int_value(b):
                c = b.as_long()
                self.side += [z3.BoolVal(c != 0), *([r >= 0, r < c] if c > 0 else [r <= 0, r > c])]
            else:
                self.side += [b != 0, z3.If(b > 0, z3.And(r >= 0, r < b), z3.And(r <= 0, r > b))]
        return self._divisions[key]
