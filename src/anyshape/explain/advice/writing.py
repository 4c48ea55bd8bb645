"""Findings of the same kind and place as one piece of advice."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from anyshape.events.kinds import Frame, GraphBreak, GuardFailure, Place, RunsEagerly
from anyshape.explain.advice.advice import Advice, Setting
from anyshape.explain.advice.findings import Finding
from anyshape.explain.advice.history import Compile, FunctionHistory, call_place
from anyshape.explain.advice.kinds import KINDS, STATE, Row
from anyshape.explain.advice.patches import propose
from anyshape.explain.advice.source_lines import Listing
from anyshape.explain.guard_texts import state_parts
from anyshape.explain.library_lines import in_library, own_line
from anyshape.explain.source_names import (
    in_words,
    kind_in_words,
    named_together,
    parameter_of,
    text_in_words,
)
from anyshape.support.lazy_dataclass import replace

#: So many values, or names, are listed before the rest is counted.
_MOST: Final = 6

#: One piece of advice for the whole function: these have one list of sources as their remedy.
_TOGETHER: Final = frozenset({"static_first", "dynamic_false"})


def advice_of(
    function: FunctionHistory, found: Iterable[Finding], listing: Listing
) -> Iterator[Advice]:
    groups: defaultdict[object, list[Finding]] = defaultdict(list)
    for each in found:
        key = (each.kind, each.place, each.sources, _mode(each)[0], each.detail)
        groups[each.kind if each.kind in _TOGETHER else key].append(each)
    for group in groups.values():
        yield _advice(function, group, listing)


def _advice(function: FunctionHistory, group: Sequence[Finding], listing: Listing) -> Advice:
    first = group[0]
    row = KINDS.get(first.kind, KINDS["unknown"])
    sources = tuple(dict.fromkeys(s for each in group for s in each.sources if s))
    place = first.place or _call_of(first) or _first_use(function, sources, listing)
    words = _words(group, sources, listing.line(place.filename, place.line))
    patch = propose(row.patch, function, group, sources, listing) if row.patch else ""
    made = _written(first.kind, function, place, words, listing)
    made = _of_library(made, first.compiled.stack, _MARKED if sources else "")
    if row.settings or row.lists_sources:
        made = replace(made, remedy=row.remedy.format_map(words))  # a setting reaches a library too
    return replace(
        made,
        patch=patch,
        settings=_settings(row, sources),
        saves=len(group),
        compile_ids=tuple(each.compiled.id for each in group),
    )


def _written(
    kind: str, function: FunctionHistory, place: Frame, words: _Words, listing: Listing
) -> Advice:
    """The row of the table, with the words for the case at hand."""
    row = KINDS.get(kind, KINDS["unknown"])
    return Advice(
        kind,
        f"{function.name}: {row.title.format_map(words)}",
        row.cause.format_map(words),
        place.filename,
        place.line,
        listing.line(place.filename, place.line),
        listing.excerpt(place.filename, place.line),
        row.remedy.format_map(words),
        function=function.name,
    )


_MARKED: Final = ", or mark its sizes (anyshape.mark_static, anyshape.mark_dynamic)"
#: In place of what to change in a line that is a library's.
_FOR_A_LIBRARY: Final = "{where}, pass arguments that do not lead there{sizes}; or keep the call"
_KEPT_OUT: Final = " out of the compiled function (anyshape.disable)."


def _of_library(advice: Advice, stack: Sequence[Frame], sizes: str = "") -> Advice:
    """The same, if its line is in a library: whose it is, and what the program can do."""
    library = in_library(advice.file)
    if not library:
        return advice
    own = own_line(stack)
    where = f"At your line {own.filename}:{own.line}" if own is not None else "Where you call it"
    return replace(
        advice,
        cause=f"{advice.cause} The line is in {library}: a library, not your code.",
        remedy=_FOR_A_LIBRARY.format(where=where, sizes=sizes) + _KEPT_OUT,
    )


def _call_of(finding: Finding) -> Frame | None:
    """Of a state that no line of the function reads: who made the call."""
    return call_place(finding.compiled) if finding.kind == "state" else None


def _settings(row: Row, sources: Sequence[str]) -> dict[str, Setting]:
    settings: dict[str, Setting] = dict(row.settings)
    if row.lists_sources and sources:
        settings["dynamic_sources"] = ",".join(listed for _, listed in named_together(sources))
    return settings


# -- words for the case at hand --------------------------------------------------------------------


class _Words(dict[str, str]):
    """A row may ask for what a case does not have."""

    def __missing__(self, key: str) -> str:
        return ""


def _words(group: Sequence[Finding], sources: Sequence[str], code: str) -> _Words:
    first = group[0]
    failure = first.failure
    mode, mode_remedy, values = _mode(first)
    flag = first.detail if first.kind == "held_static" else ""
    is_off = flag.startswith("allow")
    call = call_place(first.compiled)
    names = [words for words, _ in named_together(sources)]
    values = values or _listed(_values(group))
    each = [_listed(_values_of(source, group)) for source in sources]
    return _Words(
        names=_listed(names),
        values=values,
        seen=_seen(names, each if all(each) else [], values),
        detail=first.detail,
        code=code,
        condition=text_in_words(first.condition) or _condition(failure),
        call=f"{call.filename}:{call.line}" if call is not None else "?",
        source_kind=kind_in_words(sources[0]) if sources else "",
        expected=failure.expected,
        actual=failure.actual,
        text=text_in_words(failure.text),
        mode=mode,
        mode_remedy=mode_remedy,
        state="off" if is_off else "on",
        flipped=str(is_off),
        branch=_branch_note(code) if flag else "",
    )


def _condition(failure: GuardFailure) -> str:
    if failure.kind == "size":
        return f"{in_words(failure.source)} == {failure.expected}"
    return text_in_words(failure.text.partition(", actual")[0] or failure.expected)


def _branch_note(code: str) -> str:
    if not re.match(r"(if|elif|while|assert)\b", code):
        return ""
    return f" Then `{code}` is a condition on it, with a program for each way that it goes."


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")


def _seen(names: Sequence[str], each: Sequence[str], together: str) -> str:
    """Of each what it was, as far as there are few, and layers are not told together."""
    if not 1 < len(names) == len(each) <= _MOST:
        return f"{_listed(names)} {'were' if len(names) > 1 else 'was'} seen as {together}"
    first, *others = zip(names, each, strict=True)
    told = [f"{first[0]} was seen as {first[1]}", *(f"{name} as {it}" for name, it in others)]
    return f"{'; '.join(told[:-1])}; and {told[-1]}" if len(told) > 2 else " and ".join(told)


def _values_of(source: str, group: Sequence[Finding]) -> list[str]:
    runs = [run for finding in group for run in (finding.entry, finding.compiled)]
    return list(dict.fromkeys(str(run.values[source]) for run in runs if source in run.values))


def _values(group: Sequence[Finding]) -> list[str]:
    """Those that compiles were for, in order."""
    said: list[str] = []
    for each in group:
        failure = each.failure
        source = each.sources[0] if each.sources else ""
        numbers = [
            run.values[source] for run in (each.entry, each.compiled) if source in run.values
        ]
        if numbers:
            said += map(str, numbers)
            continue
        expected = () if failure.kind == "condition" else (failure.expected,)
        said += [*expected, failure.actual]
    return list(dict.fromkeys(said))


def _mode(finding: Finding) -> tuple[str, str, str]:
    """Which part of torch's state changed, what to do about it, and its values."""
    failure = finding.failure
    if failure.kind != "state":
        return "", "", ""
    before, after = state_parts(failure.expected), state_parts(failure.actual)
    for (name, remedy), old, new in zip(STATE, before, after, strict=False):
        if old != new:
            return name, remedy, f"{old}, {new}"
    return "torch's state", "Call it in one state of torch.", failure.text


def _first_use(function: FunctionHistory, sources: Sequence[str], listing: Listing) -> Frame:
    """The line that first uses a parameter; guards on arguments are made before any line runs."""
    names = {parameter_of(source) for source in sources} - {""}
    line = listing.first_use(function.file, function.line, names)
    return Place(function.file, function.line if line is None else line, function.name)


# -- what is not compiled, or not in one piece -----------------------------------------------------


def advice_on_limits(function: FunctionHistory, listing: Listing) -> Iterator[Advice]:
    if function.limit is not None and function.limit.limit:
        why = GraphBreak(str(function.limit.limit))
        yield _stopped("recompile_limit", function, why, listing, function.limit.last_reason)


def advice_on_breaks(function: FunctionHistory, listing: Listing) -> Iterator[Advice]:
    breaks: defaultdict[object, list[tuple[GraphBreak, Compile]]] = defaultdict(list)
    for compiled in function.compiles:
        for each in compiled.breaks:
            breaks[_key(each)].append((each, compiled))
    for stops in breaks.values():
        growths = {compiled.id: compiled.growths for _, compiled in stops}
        ids, saves = tuple(growths), sum(growths.values())
        made = _stopped("graph_break", function, stops[0][0], listing, ids=ids, saves=saves)
        yield _of_library(made, stops[0][1].stack)
    for stop, stack in {_key(each): (each, stack) for each, stack in function.left}.values():
        yield _of_library(_stopped("runs_eagerly", function, stop, listing), stack)


def _key(stop: GraphBreak | RunsEagerly) -> object:
    """The same for stops of several compiles that are told alike."""
    return stop.reason, stop.user_frame, stop.hints


def _stopped(
    kind: str,
    function: FunctionHistory,
    stop: GraphBreak | RunsEagerly,
    listing: Listing,
    text: str = "",
    ids: tuple[str, ...] = (),
    saves: int = 0,
) -> Advice:
    place = stop.user_frame or Place(function.file, function.line, function.name)
    code = listing.line(place.filename, place.line)
    hints = "; or ".join(stop.hints) or "Keep it out of the compiled function"
    words = _Words(
        code=code, detail=stop.reason, text=text, hints=f"{hints[:1].upper()}{hints[1:]}."
    )
    made = _written(kind, function, place, words, listing)
    return replace(made, saves=saves, compile_ids=ids)
