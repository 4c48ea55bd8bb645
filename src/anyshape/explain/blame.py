"""Which lines of the program left one value to a size that could have had many.

if n >= 8: ...      alone, each of them leaves many values;
if n <= 8: ...      together they leave 8, and both are to be named
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from linecache import getline
from typing import Final, cast

from anyshape.capture.dynamism_policy import DimDecision
from anyshape.capture.trace import Trace
from anyshape.errors import DynamicDimWasFixed
from anyshape.guards.guard import Guard, Kind, SymbolSource
from anyshape.guards.text import fact_text, names_of
from anyshape.policy.decide import Choice
from anyshape.symbolic import Expr, Fact, Facts


def expr_of(trace: Trace, source: SymbolSource) -> Expr:
    return trace.facts.symbols[source.symbol.name]


def fixed_by(trace: Trace, source: SymbolSource) -> Guard | None:
    """The guard that took the last other value from a symbol."""
    guards = _until_fixed(trace, source)
    return guards[-1] if guards else None


def fixed_together(trace: Trace, source: SymbolSource) -> list[Guard]:
    """The guards that leave one value to a symbol; without any of them it would have more."""
    needed = _until_fixed(trace, source)
    for guard in needed[-2::-1]:
        fewer = [each for each in needed if each is not guard]
        if _known(trace, fewer).value(expr_of(trace, source)) is not None:
            needed = fewer
    return needed


def _until_fixed(trace: Trace, source: SymbolSource) -> list[Guard]:
    """The guards on sizes, in order, up to the one that left a single value."""
    facts, wanted = _known(trace, ()), expr_of(trace, source)
    taken: list[Guard] = []
    for guard in trace.guards:
        if guard.kind is Kind.SIZES:
            if facts.value(wanted) is not None:
                break
            facts = facts.assume(cast("Fact", guard.value), guard.reason)
            taken.append(guard)
    return taken


def _known(trace: Trace, guards: Sequence[Guard]) -> Facts:
    facts = Facts()
    for each in trace.symbols:
        if each.symbol.name not in facts.symbols:
            facts = facts.declare(expr_of(trace, each), trace.facts.hints[each.symbol])
    for guard in guards:
        facts = facts.assume(cast("Fact", guard.value), guard.reason)
    return facts


# -- marks that the program does not keep -----------------------------------------------------


def check_marks(trace: Trace, rulings: Mapping[str, DimDecision]) -> None:
    """What the user asked to be dynamic must not have been fixed."""
    for source, (value, decision) in rulings.items():
        if decision.required and decision.choice is Choice.STATIC:
            raise DynamicDimWasFixed(source=source, value=value, reason=decision.reason)
    for source in trace.symbols:
        ruling = rulings.get(source.text)
        value = trace.facts.value(expr_of(trace, source))
        if ruling is None or not ruling.decision.required or value is None:
            continue
        guards = fixed_together(trace, source)
        where = guards[-1].user_frame if guards else None
        raise DynamicDimWasFixed(
            source=source.text,
            value=value,
            reason=_REASONS[min(len(guards), 2)],
            conditions=[_in_words(guard, trace) for guard in guards],
            where=str(where) if where else None,
        )


#: By the number of conditions: none, one, several.
_REASONS: Final = (
    "the range of the mark leaves no other value",
    "a line of the program leaves no other value:",
    "these lines together leave no other value:",
)

#: How symbols are named in reasons.
_SYMBOL: Final = re.compile(r"\bs\d+\b")


def _in_words(guard: Guard, trace: Trace) -> str:
    """The condition, why it was needed, and the line that needed it, in the program's names."""
    names = {each.symbol.name: each.text for each in reversed(trace.symbols)}
    reason = _SYMBOL.sub(lambda found: names.get(found[0], found[0]), guard.reason)
    text = f"{fact_text(cast('Fact', guard.value), names_of(trace.symbols))} ({reason})"
    frame = guard.user_frame
    if frame is None:
        return text
    code = getline(frame.filename, frame.line).strip()
    return f"{text} at {frame}" + (f": `{code}`" if code else "")
