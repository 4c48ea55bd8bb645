"""The cause of each compile but the first of a function: what stood between it and the nearest of
the entries that were there.

This is the step-by-step guide as a program: find graphs that are similar, look whether sizes are
all that differs, then whether the size was static and why, or dynamic and fixed by which line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from anyshape.events.kinds import Decided, Frame, GuardFailure, GuardSaid
from anyshape.explain.advice.history import Compile, FunctionHistory
from anyshape.explain.advice.similar import are_similar, differences, nearest
from anyshape.explain.advice.source_lines import Listing
from anyshape.explain.guard_texts import setting_of
from anyshape.explain.source_names import holds, pattern_of


class Finding(NamedTuple):
    """Why one compile happened."""

    #: the row of the table in `kinds.py`
    kind: str
    #: what changed: sizes, integers, an attribute
    sources: tuple[str, ...]
    place: Frame | None
    failure: GuardFailure
    compiled: Compile
    entry: Compile
    #: the setting, the operator, the function that is to blame
    detail: str = ""
    #: what the program relied on, where that is not what failed
    condition: str = ""


def findings_of(function: FunctionHistory, listing: Listing) -> Iterator[Finding]:
    """One for each compile that has a cause which can be told."""
    for compiled in function.compiles:
        near = nearest(function, compiled)
        if near is None:
            continue
        entry, sizes_only = near
        failure = compiled.reasons[entry.id]
        tried = [failure]
        if failure.kind in _ON_SIZES and not sizes_only:
            # Something else differs as well, be it that the size failed first. Of similar graphs
            # it is the cause: a dynamic size would not have spared the compile.
            tried += islice(differences(entry, compiled), 1)
            if are_similar(entry, compiled):
                tried.reverse()
        found = (_finding(each, entry, compiled, listing) for each in tried)
        yield from islice((each for each in found if each is not None), 1)


_ON_SIZES: Final = ("size", "condition", "range", "one_symbol")


def _finding(
    failure: GuardFailure, entry: Compile, compiled: Compile, listing: Listing
) -> Finding | None:
    is_number = failure.kind == "size" or failure.source in entry.decisions
    if failure.kind == "condition":
        return _condition(failure, entry, compiled)
    if is_number and failure.kind in ("size", "equals"):
        return _static(failure, entry, compiled, listing)
    kind = _number_kind(failure)
    return Finding(kind, (failure.source,), failure.user_frame, failure, compiled, entry)


def _number_kind(failure: GuardFailure) -> str:
    """A kind of its own for values that there is more to say of."""
    if failure.kind == "range" and failure.expected.startswith("[2,"):
        return "zero_one"
    if failure.kind != "equals":
        return failure.kind
    if failure.source.endswith(".training"):
        return "training"
    return "float" if _FLOAT.fullmatch(failure.expected) else "value"


_FLOAT: Final = re.compile(r"-?(\d+\.\d*(e[-+]?\d+)?|\d+e[-+]?\d+|inf|nan)")


# -- a size that was static in the entry ---------------------------------------------------------


def _static(
    failure: GuardFailure, entry: Compile, compiled: Compile, listing: Listing
) -> Finding | None:
    source = failure.source
    decision = entry.decisions.get(source, Decided("static", ""))
    made = Finding("static_first", (source,), failure.user_frame, failure, compiled, entry)
    if not are_similar(entry, compiled) or source in compiled.specialised:
        return _other_program(made, listing)
    if (guard := _tied(source, entry)) is not None:
        return made._replace(kind="tied", place=guard.user_frame or made.place, detail=guard.reason)
    flag = setting_of(decision)
    made = made._replace(sources=_changed_alike(source, decision, entry, compiled))
    if flag == "specialize_zero_one":
        return made._replace(kind="zero_one")
    if flag in _FORCE:
        return made._replace(kind="held_static", detail=flag)
    if "dynamic=False" in decision.reason:
        return made._replace(kind="dynamic_false")
    if "mark_static" in decision.reason or "contract" in decision.reason:
        return made._replace(kind="marked_static", detail=decision.reason)
    now = compiled.decisions.get(source)
    if now is not None and now.choice == "static" and now.reason == decision.reason:
        return made._replace(kind="automatic_off")
    if now is not None and "specialize_zero_one" in now.reason:
        return made._replace(kind="zero_one")
    return made


_FORCE: Final = {
    "force_parameter_static_shapes",
    "force_nn_module_property_static_shapes",
    "allow_unspec_int_on_nn_module",
    "specialize_int",
}


def _changed_alike(
    source: str, decision: Decided, entry: Compile, compiled: Compile
) -> tuple[str, ...]:
    """The guard that failed names one: those that changed with it, and were static for the same
    reason, would fail next."""
    before, now = entry.values, compiled.values
    alike = [
        each
        for each, said in entry.decisions.items()
        if said == decision and each in now and before.get(each) != now[each]
    ]
    return tuple(dict.fromkeys([source, *alike]))


def _tied(source: str, entry: Compile) -> GuardSaid | None:
    """The guard by which a static size has fixed a dynamic one."""
    value = entry.values.get(source)
    for guard in entry.guards:
        if guard.kind == "SHAPE_GUARD" and guard.text.endswith(f" == {value}"):
            kind = _kind_of(guard)
            if kind == "equality" and source not in guard.text:
                return guard
    return None


def _other_program(made: Finding, listing: Listing) -> Finding | None:
    """The size chose another graph: which line asked for it?"""
    source, place = made.sources[0], made.failure.user_frame
    guard = _telling_apart(made.entry, made.compiled, source)
    if guard is not None:
        return _by_reason(made, guard)
    if place is not None and _asks(listing.line(place.filename, place.line), source):
        return made._replace(kind="branch", detail="it was compared")
    return None


def _telling_apart(entry: Compile, compiled: Compile, source: str) -> GuardSaid | None:
    """A condition on the size that holds for the call of one of them only."""
    for one, other in ((compiled, entry), (entry, compiled)):
        values = other.values
        for guard in one.guards:
            if guard.kind != "SHAPE_GUARD" or guard.user_frame is None or source not in guard.text:
                continue
            if holds(guard.text, values) is False:
                return guard
    return None


#: A line that chooses by what it reads.
_CHOICE: Final = re.compile(r"^(if|elif|while|assert|match)\b|\bif\b.*\belse\b")


def _asks(line: str, source: str) -> bool:
    return _CHOICE.search(line) is not None and pattern_of(source).search(line) is not None


# -- a size that was dynamic, and that the program fixed or restricted ---------------------------

#: How the reason of a guard is worded, and what that is a case of; the first that fits.
_REASONS: Final = (
    (re.compile(r"compared|as a condition|truth|asked"), "branch"),
    (re.compile(r"the loop runs"), "loop"),
    (re.compile(r"same size|broadcast|stretched|equal"), "equality"),
    (re.compile(r"range of the mark|contract"), "range"),
    (re.compile(r"takes it|used as|was |reads strides|layout"), "constant"),
)


def _condition(failure: GuardFailure, entry: Compile, compiled: Compile) -> Finding:
    sources = tuple(source for source in entry.decisions if source in failure.text)
    made = Finding("branch", sources, failure.user_frame, failure, compiled, entry)
    guard = next((g for g in entry.guards if failure.text.startswith(g.text)), None)
    if guard is None:
        return made
    made = _by_reason(made, guard)
    if made.kind != "equality":
        return made
    # A static size may have fixed it: that one is to be dynamic as well.
    partners = _static_partners(entry, compiled)
    return made._replace(kind="tied", sources=partners) if partners else made


def _static_partners(entry: Compile, compiled: Compile) -> tuple[str, ...]:
    before, now = entry.values, compiled.values
    return tuple(
        each
        for each, said in entry.decisions.items()
        if said.choice == "static" and each in now and before.get(each) != now[each]
    )


def _by_reason(made: Finding, guard: GuardSaid) -> Finding:
    made = made._replace(kind=_kind_of(guard), place=guard.user_frame or made.place)
    return made._replace(detail=guard.reason, condition=guard.text)


def _kind_of(guard: GuardSaid) -> str:
    return next((kind for words, kind in _REASONS if words.search(guard.reason)), "operator")
