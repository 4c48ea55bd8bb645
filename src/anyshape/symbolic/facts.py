"""Facts: what a compile knows about its sizes, and why.

    facts = Facts().declare(s0, hint=5)
    facts.prove(lt(s0, 10))                     UNKNOWN, and nothing has changed
    facts = facts.assume(lt(s0, 10), reason)    the only way to fix anything

`Facts` never changes; `declare` and `assume` return new ones, and an assumption is recorded with
its reason. A hint is the value of a symbol in the run at hand: it is used to choose what to assume
(`hint`, `holds_now`), never to prove.
"""

from __future__ import annotations

from itertools import count
from types import MappingProxyType
from typing import Final

from anyshape.errors import Contradiction, SymbolicTypeError
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic.evaluate import evaluate, holds
from anyshape.symbolic.expr import Expr, Size, Symbol, as_symbol, check_size, symbols_of
from anyshape.symbolic.knowledge import NOTHING, Knowledge
from anyshape.symbolic.learn import Inconsistent, learn
from anyshape.symbolic.linear import Budget
from anyshape.symbolic.logic import Fact, Truth, check_fact, zero
from anyshape.symbolic.prove import Answer, Prover
from anyshape.symbolic.ranges import Range, intersect, is_empty


@dataclass(frozen=True, slots=True)
class Assumption:
    """A fact that was not known and is taken to hold from here on; a guard is made of it."""

    fact: Fact
    #: why it was needed, in words
    reason: str
    #: where in the user's program, for whoever can tell
    origin: object | None = None

    def __str__(self) -> str:
        return f"{self.fact}  because {self.reason}"


#: How many generations back answers are looked up; older ones are proved again.
_MOST_INHERITED: Final = 4


class Facts:
    """Immutable: declared symbols with hints, assumptions in order, and what follows from them."""

    __slots__ = (
        "_answers",
        "_inherited",
        "_known",
        "_prover",
        "assumptions",
        "hints",
        "symbols",
    )

    def __init__(self) -> None:
        self._known: Knowledge = NOTHING
        self._prover = Prover(NOTHING)
        self._answers: dict[Fact, Answer] = {}
        #: answers of the facts that these were made from: what followed there follows here
        self._inherited: tuple[dict[Fact, Answer], ...] = ()
        self.assumptions: tuple[Assumption, ...] = ()
        #: the value of each backed symbol in the run at hand, and of unbacked ones once observed
        self.hints: MappingProxyType[Symbol, int] = MappingProxyType({})
        #: every declared symbol by name
        self.symbols: MappingProxyType[str, Expr] = MappingProxyType({})

    def _copy(self) -> Facts:
        made = Facts()
        made._known, made._prover, made.assumptions = self._known, self._prover, self.assumptions
        made.hints, made.symbols = self.hints, self.symbols
        made._inherited = (self._answers, *self._inherited[: _MOST_INHERITED - 1])
        return made

    def declare(self, symbol: Expr, hint: int | None = None) -> Facts:
        """Make a symbol known: a backed one with its hint, an unbacked one without."""
        node = as_symbol(symbol)
        if self.symbols.get(node.name, symbol) is not symbol:
            raise SymbolicTypeError(detail=f"two different symbols are named {node.name}")
        if self.hints.get(node, hint) != hint:
            raise SymbolicTypeError(
                detail=f"symbol {node.name} has the hint {self.hints[node]}, and now {hint!r}"
            )
        if node.backed != (hint is not None):
            kind = "backed: it needs a hint" if node.backed else "unbacked: it has no hint"
            raise SymbolicTypeError(detail=f"symbol {node.name} is {kind}")
        if hint is not None and (type(hint) is not int or not node.declared.contains(hint)):
            raise SymbolicTypeError(
                detail=f"the hint {hint!r} of {node.name} is not in its range {node.declared}"
            )
        made = self._copy()
        made.symbols = MappingProxyType({**self.symbols, node.name: symbol})
        if hint is not None:
            made.hints = MappingProxyType({**self.hints, node: hint})
        return made

    def new_name(self, letter: str) -> str:
        """The first of u0, u1, … that is not taken."""
        return next(
            name for name in map(f"{letter}{{}}".format, count()) if name not in self.symbols
        )

    def observe(self, symbol: Expr, value: int) -> Facts:
        """Tell what an unbacked symbol is in the run at hand. Nothing follows from it: it answers
        `hint` and `holds_now`."""
        node = as_symbol(symbol)
        made = self._copy()
        made.hints = MappingProxyType({**self.hints, node: value})
        return made

    def prove(self, fact: Fact) -> Answer:
        """Whether the fact follows. Changes nothing."""
        if type(fact) is Truth:
            return Answer.YES if fact.value else Answer.NO
        try:
            found = self._answers.get(fact)
        except TypeError:  # not hashable, hence no fact
            check_fact(fact)
            raise
        if found is None:
            found = self._answers[fact] = self._inherit(fact) or self._prover.prove(
                check_fact(fact)
            )
        return found

    def _inherit(self, fact: Fact) -> Answer | None:
        for answers in self._inherited:
            found = answers.get(fact)
            if found is not None and found is not Answer.UNKNOWN:
                return found
        return None

    def holds(self, fact: Fact) -> bool:
        """True if the fact follows; False says nothing."""
        return self.prove(fact) is Answer.YES

    def equal(self, a: Size, b: Size) -> bool:
        """True if a == b follows; False says nothing."""
        if a is b or (type(a) is int and type(b) is int):
            return a == b
        difference = self._known.normal(check_size(a) - check_size(b))
        if type(difference) is int:
            return difference == 0
        return self.prove(zero(difference)) is Answer.YES

    def assume(self, fact: Fact, reason: str, origin: object | None = None) -> Facts:
        """These facts and one more. What follows already changes nothing, and no assumption is
        recorded."""
        answer = self.prove(fact)
        if answer is Answer.YES:
            return self
        if answer is Answer.NO:
            raise self._contradiction(fact, reason)
        made = self._copy()
        try:
            made._known = Knowledge(learn(self._known, (fact,), Budget()).solved)
        except Inconsistent:
            raise self._contradiction(fact, reason) from None
        made._prover = Prover(made._known)
        made.assumptions = (*self.assumptions, Assumption(fact, reason, origin))
        return made

    def _contradiction(self, fact: Fact, reason: str) -> Contradiction:
        known = tuple(str(assumption.fact) for assumption in self.assumptions)
        return Contradiction(fact=str(fact), reason=reason, known=known)

    def simplify(self, size: Size) -> Size:
        """An expression equal to `size` where the facts hold, with what is known put in; never a
        longer one."""
        size = check_size(size)
        found = self._known.original(self._known.normal(size))
        return found if _length(found) <= _length(size) else size

    def value(self, size: Size) -> int | None:
        """The integer that `size` must be, if the facts leave only one."""
        found = self._known.normal(check_size(size))
        if type(found) is int:
            return found
        low, high = self._known.bounds.of(found)
        return low if low is not None and low == high else None

    def range(self, size: Size) -> Range:
        """A range that holds every value `size` can take."""
        known, bounds = self._known.normal(check_size(size)), self._known.bounds
        found = bounds.of(known)
        if known is size:
            return found
        # Both are `size`: written in others it may say less of itself than its own range does.
        both = intersect(found, bounds.of(size))
        return found if is_empty(both) else both

    def hint(self, size: Size) -> int | None:
        """The value of `size` in the run at hand; None if it depends on something unbacked that
        was not observed."""
        if type(size) is int:
            return size
        size = check_size(size)
        if any(not s.backed and s not in self.hints for s in symbols_of(size)):
            return None
        return evaluate(size, self.hints)

    def holds_now(self, fact: Fact) -> bool | None:
        """Whether the fact is true in the run at hand; None if it depends on something unbacked
        that was not observed."""
        if any(not s.backed and s not in self.hints for s in check_fact(fact).symbols):
            return None
        return holds(fact, self.hints)


def _length(size: Size) -> int:
    return len(str(size))
