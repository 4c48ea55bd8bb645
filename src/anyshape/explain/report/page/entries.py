"""An entry as data of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from anyshape.events import kinds
from anyshape.explain.report.analysis.stories import Followed, guards_on, recompiles_for
from anyshape.explain.report.analysis.timeline import sizes_served
from anyshape.explain.report.analysis.wording import in_words, is_about_sizes
from anyshape.explain.report.page.numbered import Numbered
from anyshape.explain.trace_model import Attempt, Outcome, TracedEntry, TracedFunction, TracedSymbol

Json = object

_MOST_SIZES: Final = 40
_MOST_REASONS: Final = 16


def entry_data(
    function: TracedFunction,
    entry: TracedEntry,
    followed: Mapping[str, Sequence[Followed]],
    to: Numbered,
) -> dict[str, Json]:
    served = sizes_served(entry)
    return {
        "key": entry.key,
        "id": entry.id,
        "function": function.key,
        "status": entry.status,
        "hits": entry.hits,
        "seconds": entry.seconds,
        "guards": [to.guard(guard) for guard in entry.guards],
        "attempts": [
            _attempt(function, entry, number, followed, to) for number in range(len(entry.attempts))
        ],
        "graphs": [
            _graph(graph, number, to)
            for number, attempt in enumerate(entry.attempts)
            for graph in attempt.all(kinds.GraphCompiled)
        ],
        "sizes": [[sizes, count] for sizes, count in served[:_MOST_SIZES]],
        "more_sizes": max(len(served) - _MOST_SIZES, 0),
    }


def _attempt(
    function: TracedFunction,
    entry: TracedEntry,
    number: int,
    followed: Mapping[str, Sequence[Followed]],
    to: Numbered,
) -> Json:
    attempt = entry.attempts[number]
    outcome = attempt.outcome
    # The last entries come closest; a function of many would list most of them each time.
    reasons = attempt.recompile[-_MOST_REASONS:]
    return {
        "time": attempt.time,
        "status": attempt.status,
        "seconds": attempt.seconds,
        "stages": [[each.name, max(each.seconds, 0.0)] for each in attempt.measures.stages],
        "operations": attempt.measures.operations,
        "stack": [to.place(place) for place in attempt.stack],
        "recompile": [_reason(function, entry, attempt, each, to) for each in reasons],
        "more_reasons": len(attempt.recompile) - len(reasons),
        "symbols": [_symbol(entry, attempt, each, followed, to) for each in attempt.symbols],
        "assumed": [_assumed(each, to) for each in attempt.all(kinds.GuardAdded)],
        "breaks": [_break(each, to) for each in attempt.all(kinds.GraphBreak)],
        "stopped": _stopped(outcome, to),
        "error": outcome.error if isinstance(outcome, kinds.CompileFailed) else "",
        "seen": dict(attempt.seen),
        "decisions": {source: list(each[:2]) for source, each in attempt.decisions.items()},
        "ignored": [[each.source, each.reason] for each in attempt.all(kinds.MarkIgnored)],
        "schedules": [to.text(each.text) for each in attempt.all(kinds.Schedule)],
        "code": [to.text(each.code) for each in attempt.all(kinds.OutputCode)],
        "collective": collective_data(attempt.last(kinds.CompilerCollective)),
        "defects": [f"{each.stage}: {each.text}" for each in attempt.all(kinds.Defect)],
    }


def _reason(
    function: TracedFunction,
    entry: TracedEntry,
    attempt: Attempt,
    failed: kinds.GuardFailure,
    to: Numbered,
) -> Json:
    """The entry that it names: of those with this number, the last one before."""
    named = [
        each
        for each in function.entries
        if each.id == failed.entry_id and each.first.time <= attempt.time and each is not entry
    ]
    return {
        "entry": named[-1].key if named else None,
        "id": failed.entry_id,
        "text": failed.text,
        "words": in_words(failed.text),
        "is_size": is_about_sizes(failed.text),
        "place": to.place(failed.user_frame),
    }


def _symbol(
    entry: TracedEntry,
    attempt: Attempt,
    symbol: TracedSymbol,
    by_entry: Mapping[str, Sequence[Followed]],
    to: Numbered,
) -> Json:
    guards = guards_on(symbol, attempt)
    followed = recompiles_for(symbol, attempt, entry, by_entry)
    born, fixed = symbol.born, symbol.fixed
    assumed = attempt.all(kinds.GuardAdded)
    return {
        "name": born.symbol,
        "value": born.value,
        "source": born.source,
        "range": born.range,
        "ranges": symbol.ranges,
        "reason": born.reason,
        "place": to.place(born.user_frame),
        "replaced_by": symbol.replaced_by,
        "fixed": None
        if fixed is None
        else {"value": fixed.value, "reason": fixed.reason, "place": to.place(fixed.user_frame)},
        "guards": [assumed.index(each) for each in guards],
        "followed": [
            {
                "entry": each.entry.key,
                "attempt": each.attempt,
                "text": each.reason.text,
                "place": to.place(each.reason.user_frame),
            }
            for each in followed[:_MOST_REASONS]
        ],
        "more_followed": max(len(followed) - _MOST_REASONS, 0),
    }


def _assumed(assumed: kinds.GuardAdded, to: Numbered) -> Json:
    return {
        "expr": assumed.expr,
        "text": assumed.text or assumed.expr,
        "reason": assumed.reason,
        "place": to.place(assumed.user_frame),
        "at_run_time": assumed.at_run_time,
    }


def _stopped(outcome: Outcome | None, to: Numbered) -> Json:
    match outcome:
        case kinds.RunsEagerly():
            return _break(outcome, to)
        case kinds.CompileFailed():
            return _break(kinds.GraphBreak(outcome.text, outcome.user_frame), to)
        case _:
            return None


def _break(found: kinds.GraphBreak | kinds.RunsEagerly, to: Numbered) -> Json:
    place = to.place(found.user_frame)
    return {"reason": found.reason, "place": place, "hints": list(found.hints)}


def collective_data(found: kinds.CompilerCollective | None) -> Json:
    """What ranks told each other before a compile."""
    if found is None:
        return None
    return {
        "round": found.round,
        "ranks": list(found.ranks),
        "missing": list(found.missing),
        "seconds": found.seconds,
        "differing": dict(found.differing),
    }


def _graph(graph: kinds.GraphCompiled, attempt: int, to: Numbered) -> Json:
    return {
        "attempt": attempt,
        "code": to.text(graph.code),
        "operators": list(graph.operators),
        "inputs": dict(graph.inputs),
        "backend": list(graph.backend),
        "number": graph.number,
        "after": graph.after,
        "outcome": graph.outcome,
        "asks": graph.asks,
        "place": to.place(graph.user_frame),
    }
