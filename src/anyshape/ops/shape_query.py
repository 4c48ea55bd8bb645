"""What a shape rule may ask, and what it has to say when it needs more than is known.

A rule gets a `ShapeQuery` as its first argument. `known` and `same` only ask. `decide` and
`require` also answer from the run at hand where nothing is known, and then record what they assumed
as a `Need`:

    decide    both answers are possible, and lead to different results: a guard
    require   the operator fails in eager too unless it holds: a check when the program runs, which
              is also what a question about something unbacked becomes (`decide_or`)
    fix       the rule cannot say the result for any value: a specialisation
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from anyshape.errors import NeedsDecision, ShapeMismatch
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import (
    NATURAL,
    Answer,
    Expr,
    Fact,
    Facts,
    Range,
    Size,
    and_,
    eq,
    ge,
    lt,
    not_,
    symbol,
)


class NeedKind(Enum):
    """Why a fact is needed: see the module's text."""

    GUARD = "guard"
    #: a guard on how many results there are
    COUNT = "count"
    CHECK = "check"
    SPECIALISED = "specialised"


@dataclass(frozen=True, slots=True)
class Need:
    """A fact that a result relies on and that was not known."""

    fact: Fact
    reason: str
    kind: NeedKind
    #: of a count: the size that it is
    size: Size | None = None

    def __str__(self) -> str:
        return f"{self.kind.value} {self.fact}: {self.reason}"


class ShapeQuery:
    """The questions of one operator call. Collects what the rule needed."""

    __slots__ = ("facts", "needs", "op", "unbacked")

    def __init__(self, facts: Facts, op: str) -> None:
        self.facts = facts
        self.op = op
        self.needs: list[Need] = []
        #: symbols made for sizes that depend on data, in the order of the outputs
        self.unbacked: list[Expr] = []

    def known(self, fact: Fact) -> bool:
        """True if the fact holds whatever the sizes; assumes nothing."""
        return self.facts.prove(fact) is Answer.YES

    def same(self, a: Size, b: Size) -> bool:
        """True if the two are equal whatever the sizes; assumes nothing."""
        return a is b or self.facts.equal(a, b)

    def same_all(self, a: Sequence[Size], b: Sequence[Size]) -> bool:
        return len(a) == len(b) and all(map(self.same, a, b))

    def decide(self, fact: Fact, reason: str) -> bool:
        """Whether the fact holds; where both are possible, what holds in this run becomes a
        guard."""
        answer = self.facts.prove(fact)
        if answer is not Answer.UNKNOWN:
            return answer is Answer.YES
        now = self.facts.holds_now(fact)
        if now is None:
            raise NeedsDecision(op=self.op, fact=str(fact), reason=reason)
        self._assume(fact if now else not_(fact), reason, NeedKind.GUARD)
        return now

    def decide_or(self, fact: Fact, default: bool, reason: str) -> bool:
        """Like `decide`, but a question about something unbacked takes `default`, to be checked
        when it runs."""
        answer = self.facts.prove(fact)
        if answer is Answer.UNKNOWN and self.facts.holds_now(fact) is None:
            self._assume(fact if default else not_(fact), reason, NeedKind.CHECK)
            return default
        return self.decide(fact, reason)

    def require(self, fact: Fact, detail: str) -> None:
        """The operator only accepts sizes for which the fact holds; `detail` says so in the words
        of an error."""
        answer = self.facts.prove(fact)
        if answer is Answer.YES:
            return
        if answer is Answer.NO or self.facts.holds_now(fact) is False:
            raise ShapeMismatch(op=self.op, detail=f"{detail} (`{fact}` does not hold)")
        self._assume(fact, detail, NeedKind.CHECK)

    def fail(self, detail: str) -> ShapeMismatch:
        """The error for arguments that eager rejects too: `raise q.fail("…")`."""
        return ShapeMismatch(op=self.op, detail=detail)

    def specialize(self, size: Size, reason: str) -> int:
        """The value of a size in this run, which becomes the only one that the result is for."""
        return self._specialized(size, reason, NeedKind.SPECIALISED)

    def count(self, size: Size, reason: str) -> int:
        """The value of a size that decides how many outputs there are: a guard, since the program
        sees the number.
        """
        return self._specialized(size, reason, NeedKind.COUNT)

    def _specialized(self, size: Size, reason: str, kind: NeedKind) -> int:
        value = self.facts.value(size)
        if value is not None:
            return value
        hint = self.facts.hint(size)
        if hint is None:
            raise NeedsDecision(op=self.op, fact=f"{size} == ?", reason=reason)
        self.facts = self.facts.assume(eq(size, hint), reason)
        self.needs.append(Need(eq(size, hint), reason, kind, size))
        return hint

    def _assume(self, fact: Fact, reason: str, kind: NeedKind) -> None:
        self.facts = self.facts.assume(fact, reason)
        self.needs.append(Need(fact, reason, kind))

    def new_size(self, declared: Range = NATURAL) -> Expr:
        """A size that depends on data: an unbacked symbol."""
        made = symbol(self.facts.new_name("u"), declared, backed=False)
        self.facts = self.facts.declare(made)
        self.unbacked.append(made)
        return made

    def given(self, fact: Fact) -> None:
        """What the operator makes true of a size it has just made (`new_size`): nothing to
        check."""
        self.facts = self.facts.assume(fact, f"{self.op} makes it so")

    def dim(self, dim: Size, rank: int) -> int:
        """A dimension counted from the front; a scalar is taken to have one dimension, as torch
        does."""
        most = max(rank, 1)
        if isinstance(dim, Expr):
            dim = self.count(dim, "which dimension is meant decides the form of the result")
        if type(dim) is not int:
            raise self.fail(f"a dimension must be an integer, not {dim!r}")
        if not -most <= dim < most:
            raise self.fail(f"dimension {dim} is out of range for a tensor of {rank} dimensions")
        return dim % most

    def dims(self, dims: Size | Sequence[int] | None, rank: int) -> tuple[int, ...]:
        """Dimensions counted from the front, each once; all of them for None."""
        if dims is None:
            return tuple(range(rank))
        found = tuple(
            self.dim(d, rank) for d in ((dims,) if isinstance(dims, int | Expr) else dims)
        )
        if len(set(found)) != len(found):
            raise self.fail(f"a dimension appears twice in {dims}")
        return found

    def index(self, index: Size, size: Size, what: str = "index") -> Size:
        """A position counted from the front; the operator requires that it lies within the size."""
        inside = and_(ge(index, -size), lt(index, size))
        if not self.known(inside):  # Texts of sizes cost more than answers.
            self.require(inside, f"{what} {index} is out of range for size {size}")
        if isinstance(index, int):
            return index + size if index < 0 else index
        negative = self.decide(lt(index, 0), f"a negative {what} counts from the end")
        return index + size if negative else index
