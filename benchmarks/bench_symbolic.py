"""The integer engine against sympy, on the corpus of real questions: building the expressions of
each question, cold and warm.

Both sides walk the same syntax trees, so that only the algebra is measured. A pass in a fresh
process is cold; the next passes are warm. Ours also answers the question (`prove`), which sympy
does only as far as its relations evaluate themselves.
"""

from __future__ import annotations

import ast
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.symbolic.corpus import CorpusQuestion, questions

_WARM_PASSES = 5


class Builder:
    """Builds an expression from a syntax tree with one library's operators."""

    def __init__(
        self, binary: dict[str, Any], compare: dict[str, Any], functions: dict[str, Any]
    ) -> None:
        self.binary, self.compare, self.functions = binary, compare, functions

    def build(self, node: ast.expr, symbols: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return self.functions["constant"](value)
            case ast.Name(id=name):
                return symbols[name]
            case ast.BinOp(left=left, op=op, right=right):
                combine = self.binary[type(op).__name__]
                return combine(self.build(left, symbols), self.build(right, symbols))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.build(operand, symbols)
            case ast.UnaryOp(operand=operand):
                return self.functions["not"](self.build(operand, symbols))
            case ast.BoolOp(op=op, values=values):
                return self.functions[type(op).__name__](*(self.build(v, symbols) for v in values))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                operands = [self.build(part, symbols) for part in (left, *comparators)]
                facts = [
                    self.compare[type(op).__name__](x, y)
                    for op, x, y in zip(ops, operands, operands[1:], strict=False)
                ]
                return self.functions["And"](*facts)
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.functions[name](*(self.build(a, symbols) for a in args))
            case _:
                raise TypeError(ast.dump(node))


def our_side() -> tuple[Builder, Callable[[CorpusQuestion], dict[str, Any]]]:
    from anyshape import symbolic as s

    builder = Builder(
        {
            "Add": lambda a, b: a + b,
            "Sub": lambda a, b: a - b,
            "Mult": lambda a, b: a * b,
            "FloorDiv": s.floordiv,
            "Mod": s.modulo,
            "Pow": s.power,
        },
        {"Eq": s.eq, "NotEq": s.ne, "Lt": s.lt, "LtE": s.le, "Gt": s.gt, "GtE": s.ge},
        {
            "min": s.minimum,
            "max": s.maximum,
            "ceildiv": s.ceildiv,
            "And": s.and_,
            "Or": s.or_,
            "not": s.not_,
            "constant": lambda value: value,
        },
    )
    return builder, lambda question: question.table()


def sympy_side() -> tuple[Builder, Callable[[CorpusQuestion], dict[str, Any]]]:
    import sympy

    builder = Builder(
        {
            "Add": lambda a, b: a + b,
            "Sub": lambda a, b: a - b,
            "Mult": lambda a, b: a * b,
            "FloorDiv": lambda a, b: sympy.floor(a / b),
            "Mod": sympy.Mod,
            "Pow": lambda a, b: a**b,
        },
        {
            "Eq": sympy.Eq,
            "NotEq": sympy.Ne,
            "Lt": sympy.Lt,
            "LtE": sympy.Le,
            "Gt": sympy.Gt,
            "GtE": sympy.Ge,
        },
        {
            "min": sympy.Min,
            "max": sympy.Max,
            "ceildiv": lambda a, b: sympy.ceiling(a / b),
            "And": sympy.And,
            "Or": sympy.Or,
            "not": sympy.Not,
            "constant": sympy.Integer,
        },
    )

    def table(question: CorpusQuestion) -> dict[str, Any]:
        return {
            name: sympy.Symbol(name, integer=True, nonnegative=True, positive=low >= 1 or None)
            if low is not None and low >= 0
            else sympy.Symbol(name, integer=True)
            for name, (low, _) in question.symbols.items()
        }

    return builder, table


def one_pass(side: str) -> dict[str, float]:
    """Microseconds a question in a cold pass and in warm ones; for us also with the answer. Runs in
    a process of its own."""
    builder, table = our_side() if side == "anyshape" else sympy_side()
    prepared = [
        (q, table(q), [ast.parse(text, mode="eval").body for text in (*q.premises(), q.ask)])
        for q in questions()
    ]

    def build_all() -> float:
        start = time.perf_counter()
        for _, symbols, trees in prepared:
            for tree in trees:
                builder.build(tree, symbols)
        return (time.perf_counter() - start) / len(prepared) * 1e6

    found = {
        "cold": build_all(),
        "warm": statistics.median(build_all() for _ in range(_WARM_PASSES)),
    }
    if side == "anyshape":
        found["decide"] = _decide_all(prepared, builder)
    return found


def _decide_all(prepared: list[Any], builder: Builder) -> float:
    from anyshape.symbolic import Facts

    start = time.perf_counter()
    for _, symbols, trees in prepared:
        facts = Facts()
        *given, ask = (builder.build(tree, symbols) for tree in trees)
        for fact in given:
            facts = facts.assume(fact, "given")
        facts.prove(ask)
    return (time.perf_counter() - start) / len(prepared) * 1e6


def _in_fresh_process(side: str) -> dict[str, float]:
    code = (
        "import json; from benchmarks.bench_symbolic import one_pass;"
        f"print(json.dumps(one_pass({side!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def run() -> dict[str, Any]:
    """Medians over interleaved processes, and the ratios that the issue asks for."""
    runs: dict[str, list[dict[str, float]]] = {"anyshape": [], "sympy": []}
    for _ in range(3):
        for side, found in runs.items():
            found.append(_in_fresh_process(side))

    def median(side: str, key: str) -> float:
        return statistics.median(found[key] for found in runs[side])

    return {
        "questions": len(questions()),
        "anyshape cold us/question": median("anyshape", "cold"),
        "sympy cold us/question": median("sympy", "cold"),
        "cold: times faster than sympy": median("sympy", "cold") / median("anyshape", "cold"),
        "anyshape warm us/question": median("anyshape", "warm"),
        "sympy warm us/question": median("sympy", "warm"),
        "warm: times faster than sympy": median("sympy", "warm") / median("anyshape", "warm"),
        "anyshape assume and prove us/question": median("anyshape", "decide"),
    }
