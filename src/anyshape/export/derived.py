"""Sizes that follow from others: `2*dx + 1`, where the user declared it or the program ties it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from anyshape.symbolic import Expr, Fact, Facts, Range, Symbol
from anyshape.symbolic.expr import of_atom, symbols_of
from anyshape.symbolic.logic import Zero
from anyshape.symbolic.ranges import intersect

#: Names that are ours: a size that the user named is shown by that name.
_OURS: Final = re.compile(r"s\d+")


class Derived(NamedTuple):
    """What a size is, and the fact that says so."""

    size: Expr
    fact: Fact


def derived_sizes(facts: Sequence[Fact], ranges: Mapping[str, Range]) -> dict[str, Derived]:
    """By the names of the sizes that need not be named: `s0`, if `2*dx + 1 == s0`."""
    found: dict[str, Derived] = {}
    used: set[str] = set()
    for fact in facts:
        if not isinstance(fact, Zero) or any(each.name in found for each in fact.symbols):
            continue
        for each in sorted(fact.symbols, key=lambda each: each.name):
            size = None if each.name in used else _solved(fact, each, ranges)
            if size is not None:
                found[each.name] = Derived(size, fact)
                used |= {other.name for other in size.symbols}
                break
    return found


def _solved(fact: Zero, each: Symbol, ranges: Mapping[str, Range]) -> Expr | None:
    factor = dict(fact.size.terms).get((each.index,), 0)
    if not _OURS.fullmatch(each.name) or factor not in (1, -1):
        return None
    size = (fact.size - factor * of_atom(each)) * -factor
    if not isinstance(size, Expr) or each in symbols_of(size):
        return None
    # What is shown has to say it all: the range of the size follows from those of the others.
    allowed = ranges[each.name]
    return size if intersect(Facts().range(size), allowed) == Facts().range(size) else None
