"""Real questions of shape code. See README.md."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path

from anyshape.symbolic import Expr, Facts, Range, parse_fact, symbol


@dataclass(frozen=True)
class CorpusQuestion:
    """A question with the truth that z3 found: yes, no, contingent, or undecided."""

    id: str
    family: str
    symbols: dict[str, list[int | None]]
    given: list[str]
    ask: str
    truth: str
    origin: str

    def table(self) -> dict[str, Expr]:
        return {
            name: symbol(name, Range(*bounds), backed=not name.startswith("u"))
            for name, bounds in self.symbols.items()
        }

    def premises(self) -> list[str]:
        """What is given, after what every division takes for granted: its divisor is not 0. Whoever
        divides has assumed that first."""
        divisors = [
            f"{text} != 0" for source in (*self.given, self.ask) for text in _divisors(source)
        ]
        return [*dict.fromkeys(divisors), *self.given]

    def facts(self) -> Facts:
        facts, table = Facts(), self.table()
        for text in self.premises():
            facts = facts.assume(parse_fact(text, table), "given")
        return facts


def questions() -> list[CorpusQuestion]:
    lines = (Path(__file__).parent / "questions.jsonl").read_text().splitlines()
    return [CorpusQuestion(**json.loads(line)) for line in lines]


def _divisors(text: str) -> list[str]:
    """The divisors in a text that are not numbers, the innermost first."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text, mode="eval")):
        divisor: ast.expr | None = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod):
            divisor = node.right
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ceildiv":
            divisor = node.args[1]
        if divisor is not None and not isinstance(divisor, ast.Constant):
            found.append(ast.unparse(divisor))
    return found[::-1]
