"""Random questions about sizes, as shape code asks them: symbols with ranges, facts that are given,
a fact to prove."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from anyshape.errors import Contradiction, ExpressionTooLarge, ParseError
from anyshape.symbolic import EVERYTHING, Expr, Fact, Facts, Range, parse_fact, symbol

#: Sizes mostly; integers that may be negative; something unbacked.
SYMBOLS: dict[str, Expr] = {
    "s0": symbol("s0"),
    "s1": symbol("s1"),
    "s2": symbol("s2"),
    "t0": symbol("t0", Range(1, None)),
    "t1": symbol("t1", Range(2, 9)),
    "i0": symbol("i0", EVERYTHING),
    "i1": symbol("i1", Range(-4, 6)),
    "u0": symbol("u0", backed=False),
}


@dataclass(frozen=True)
class Question:
    """Facts that are given, and a fact to prove; as text, so that a failure can be kept as a
    test."""

    given: tuple[str, ...]
    ask: str

    def facts(self) -> Facts:
        facts = Facts()
        for text in self.given:
            facts = facts.assume(parse_fact(text, SYMBOLS), "given")
        return facts

    @property
    def fact(self) -> Fact:
        return parse_fact(self.ask, SYMBOLS)


class QuestionMaker:
    """Makes questions from a seed, the same ones every time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def question(self) -> Question:
        """A question whose facts can hold together, and that is not decided by its form alone."""
        while True:
            names = self.random.sample(sorted(SYMBOLS), self.random.choice((1, 2, 2, 3)))
            given = tuple(self._fact(names, 2) for _ in range(self.random.choice((0, 1, 1, 2, 3))))
            question = Question(given, self._fact(names, 3))
            try:
                question.facts()
                if question.fact.symbols:
                    return question
            except (Contradiction, ParseError, ExpressionTooLarge):
                continue

    def _fact(self, names: list[str], depth: int) -> str:
        kind = self.random.random()
        if depth > 2 and kind < 0.2:
            joined = self.random.choice(("and", "or"))
            return f"({self._fact(names, 2)}) {joined} ({self._fact(names, 2)})"
        if depth > 2 and kind < 0.25:
            return f"not ({self._fact(names, 2)})"
        compare = self.random.choice(("==", "==", "!=", "<", "<=", ">", ">="))
        if kind < 0.4:
            return f"{self._size(names, 1)} % {self._number(2, 8)} == 0"
        return f"{self._size(names, depth)} {compare} {self._size(names, depth - 1)}"

    def _size(self, names: list[str], depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.2:
            return self.random.choice((*names, *names, self._number(-3, 12)))
        operator = self.random.choice(
            ("+", "-", "*", "*", "//", "//", "%", "min", "max", "ceildiv")
        )
        left, right = self._size(names, depth - 1), self._size(names, depth - 1)
        if operator in ("//", "%", "ceildiv") and self.random.random() < 0.7:
            right = self._number(2, 16)
        if operator in ("min", "max", "ceildiv"):
            return f"{operator}({left}, {right})"
        return f"({left} {operator} {right})"

    def _number(self, low: int, high: int) -> str:
        return str(self.random.randint(low, high))
