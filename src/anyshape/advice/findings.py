"""The cause of each compile but the first of a function: what stood between it and the nearest of
the entries that were there.

This is the step-by-step guide as a program: find graphs that are similar, look whether sizes are
all that differs, then whether the size was static and why, or dynamic and fixed by which line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from anyshape.advice.failures import Failure, differences, failure_of
from anyshape.advice.history import Compile, Decision, Function, Guard
from anyshape.advice.listing import Listing
from anyshape.advice.naming import pattern_of
from anyshape.advice.reading import Place
from anyshape.advice.similar import are_similar, nearest


class Finding(NamedTuple):
    """Why one compile happened."""

    #: the row of the table in `kinds.py`
    kind: str
    #: what changed: sizes, integers, an attribute
    sources: tuple[str, ...]
    place: Place | None
    failure: Failure
    compiled: Compile
    entry: Compile
    #: the setting, the operator, the function that is to blame
    detail: str = ""
    #: whether both graphs are of the same operators: then a compile can be spared for certain
    is_similar: bool = True


def findings_of(function: Function, listing: Listing) -> Iterator[Finding]:
    """One for each compile that has a cause which can be told."""
    for compiled in function.compiles:
        near = nearest(function, compiled)
        if near is None:
            continue
        entry, sizes_only = near
        reason = next(each for each in compiled.reasons if each.entry_id == entry.id)
        failure = failure_of(reason, entry)
        if failure.kind in _ON_SIZES and not sizes_only:
            # Sizes come first among the guards: something else may differ as well, and then a
            # dynamic size would not have spared the compile.
            failure = next(differences(entry, compiled), failure)
        found = _finding(failure, entry, compiled, listing)
        if found is not None:
            yield found


_ON_SIZES: Final = ("size", "condition", "range", "one_symbol")


def _finding(
    failure: Failure, entry: Compile, compiled: Compile, listing: Listing
) -> Finding | None:
    similar = are_similar(entry, compiled)
    is_number = failure.kind == "size" or failure.source in entry.decisions
    if failure.kind == "condition":
        return _condition(failure, entry, compiled, similar)
    if is_number and failure.kind in ("size", "equals"):
        return _static(failure, entry, compiled, similar, listing)
    kind = _number_kind(failure)
    made = Finding(kind, (failure.source,), failure.place, failure, compiled, entry)
    return made._replace(is_similar=similar)


def _number_kind(failure: Failure) -> str:
    """A kind of its own for values that there is more to say of."""
    if failure.kind != "equals":
        return failure.kind
    if failure.source.endswith(".training"):
        return "training"
    return "float" if _FLOAT.fullmatch(failure.expected) else "value"


_FLOAT: Final = re.compile(r"-?(\d+\.\d*(e[-+]?\d+)?|\d+e[-+]?\d+|inf|nan)")


# -- a size that was static in the entry ---------------------------------------------------------

_FLAG: Final = re.compile(r"config\.(?P<flag>\w+) is (?P<state>on|off)")


def _static(
    failure: Failure, entry: Compile, compiled: Compile, similar: bool, listing: Listing
) -> Finding | None:
    source = failure.source
    decision = entry.decisions.get(source, Decision("static", ""))
    made = Finding("static_first", (source,), failure.place, failure, compiled, entry)
    made = made._replace(is_similar=similar)
    if not similar or source in compiled.specialised:
        return _other_program(made, listing)
    flag = _FLAG.search(decision.reason)
    if flag is not None:
        return made._replace(kind="held_static", detail=flag["flag"])
    if "dynamic=False" in decision.reason:
        return made._replace(kind="dynamic_false")
    if "mark_static" in decision.reason or "contract" in decision.reason:
        return made._replace(kind="marked_static", detail=decision.reason)
    became = [
        each
        for each, now in compiled.decisions.items()
        if not now.is_static and entry.decisions.get(each, now).is_static
    ]
    return made._replace(sources=tuple(dict.fromkeys([source, *became])))


def _other_program(made: Finding, listing: Listing) -> Finding | None:
    """The size chose another graph: which line asked for it?"""
    source = made.sources[0]
    for guard in (*made.compiled.guards, *made.entry.guards):
        if guard.kind == "SHAPE_GUARD" and source in guard.text and guard.place is not None:
            return _by_reason(made, guard)
    place = made.failure.place
    if place is not None and _asks(listing.line(place.file, place.line), source):
        return made._replace(kind="branch", detail="it was compared")
    return None


#: A line that chooses by what it reads.
_CHOICE: Final = re.compile(r"^(if|elif|while|assert|match)\b|\bif\b.*\belse\b")


def _asks(line: str, source: str) -> bool:
    return _CHOICE.search(line) is not None and pattern_of(source).search(line) is not None


# -- a size that was dynamic, and that the program fixed or restricted ---------------------------

#: How the reason of a guard is worded, and what that is a case of; the first that fits.
_REASONS: Final = (
    (re.compile(r"compared|truth|asked"), "branch"),
    (re.compile(r"the loop runs"), "loop"),
    (re.compile(r"same size|stretched|equal"), "equality"),
    (re.compile(r"range of the mark|contract"), "range"),
    (re.compile(r"takes it|used as|made a|made bytes|was |reads strides|layout"), "constant"),
)


def _condition(failure: Failure, entry: Compile, compiled: Compile, similar: bool) -> Finding:
    sources = tuple(source for source in entry.decisions if source in failure.text)
    made = Finding("branch", sources, failure.place, failure, compiled, entry)
    guard = next((g for g in entry.guards if failure.text.startswith(g.text)), None)
    made = made._replace(is_similar=similar)
    return made if guard is None else _by_reason(made, guard)


def _by_reason(made: Finding, guard: Guard) -> Finding:
    kind = next((kind for words, kind in _REASONS if words.search(guard.reason)), "operator")
    return made._replace(kind=kind, place=guard.place or made.place, detail=guard.reason)
