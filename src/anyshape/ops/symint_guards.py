"""Answers to what torch's functions want to know of sizes: from what is known, else by a guard, a
check or a default.
"""

from __future__ import annotations

import sys
from typing import Final

from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Answer, Fact, Size


@dataclass(frozen=True, slots=True)
class Real:
    """A float made of sizes: its value in this run, the sizes in it, and the ratio if it is one."""

    #: None where a size depends on data
    now: float | None
    of: tuple[Size, ...]
    ratio: tuple[Size, Size] | None = None


class SymIntGuards:
    """What is answered to one run of torch's functions, and what it has assumed so far."""

    __slots__ = ("defaulted", "hinted", "q")

    def __init__(self, q: ShapeQuery, hinted: bool = False) -> None:
        self.q = q
        #: whether `guard_or_*` decides by the sizes of this run, with a guard; else the default
        self.hinted = hinted
        #: whether a default was taken that nothing known supports
        self.defaulted = False

    def decide(self, fact: Fact, file: str = "", line: int = 0) -> bool:
        answer = self.q.facts.prove(fact)
        if answer is not Answer.UNKNOWN:
            return answer is Answer.YES
        return self.q.decide(fact, f"torch goes another way otherwise ({_where(file, line)})")

    def default(self, fact: Fact, default: bool, file: str = "", line: int = 0) -> bool:
        answer = self.q.facts.prove(fact)
        if answer is not Answer.UNKNOWN:
            return answer is Answer.YES
        if self.hinted and self.q.facts.holds_now(fact) is not None:
            return self.decide(fact, file, line)
        self.defaulted = True
        return default

    def expect(self, fact: Fact, file: str = "", line: int = 0) -> bool:
        """Whether a precondition holds; where it does not, torch raises with its own words."""
        answer = self.q.facts.prove(fact)
        if answer is not Answer.UNKNOWN:
            return answer is Answer.YES
        now = self.q.facts.holds_now(fact)
        if now is False:
            return False
        if self.defaulted and now:
            # A default chose this way: eager may well accept other sizes, on another one.
            return self.decide(fact, file, line)
        self.q.require(fact, f"torch checks it ({_where(file, line)})")
        return True

    def specialize(self, size: Size, file: str = "", line: int = 0) -> int:
        known = self.q.facts.value(size)
        if known is not None:
            return known
        return self.q.specialize(size, f"torch needs the number ({_where(file, line)})")

    def specialize_float(self, real: Real | float) -> float:
        """The value of a float, which fixes the sizes that it is made of."""
        if not isinstance(real, Real):
            return real
        for size in real.of:
            self.specialize(size)
        assert real.now is not None, "fixing a size that depends on data raises"
        return real.now


#: Files whose lines ask on behalf of another.
_RELAYS: Final = (
    "/symint_guards.py",
    "/symint.py",
    "/sym_node.py",
    "/symbolic_shapes.py",
    "torch/__init__.py",
)


def _where(file: str = "", line: int = 0) -> str:
    """The line of torch's source that asks: as given, or the first on the stack but for relays."""
    if not file or file.endswith(_RELAYS):
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.endswith(_RELAYS):
            frame = frame.f_back
        file, line = frame.f_code.co_filename, frame.f_lineno
    return f"{'/'.join(file.split('/')[-2:])}:{line}"
