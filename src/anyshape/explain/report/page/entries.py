"""An entry as data of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from anyshape.explain.report.analysis.stories import Followed, guards_on, recompiles_for
from anyshape.explain.report.analysis.timeline import sizes_served
from anyshape.explain.report.analysis.wording import in_words, is_about_sizes
from anyshape.explain.report.page.numbered import Numbered
from anyshape.explain.report.reading.model import (
    Assumed,
    Attempt,
    Break,
    Failed,
    Graph,
    TracedEntry,
    TracedFunction,
    TracedSymbol,
)

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
            for graph in attempt.graphs
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
    # The last entries come closest; a function of many would list most of them each time.
    reasons = attempt.recompile[-_MOST_REASONS:]
    return {
        "time": attempt.time,
        "status": attempt.status,
        "seconds": attempt.seconds,
        "stages": [[stage.name, stage.seconds] for stage in attempt.stages],
        "operations": attempt.operations,
        "stack": [to.place(place) for place in attempt.stack],
        "recompile": [_reason(function, entry, attempt, each, to) for each in reasons],
        "more_reasons": len(attempt.recompile) - len(reasons),
        "symbols": [_symbol(entry, attempt, each, followed, to) for each in attempt.symbols],
        "assumed": [_assumed(each, to) for each in attempt.assumed],
        "breaks": [_break(each, to) for each in attempt.breaks],
        "stopped": None if attempt.stopped is None else _break(attempt.stopped, to),
        "error": attempt.error,
        "seen": dict(attempt.seen),
        "decisions": {source: list(pair) for source, pair in attempt.decisions.items()},
        "ignored": [list(pair) for pair in attempt.ignored],
        "schedules": [to.text(text) for text in attempt.schedules],
        "code": [to.text(text) for text in attempt.code],
        "collective": None if attempt.collective is None else attempt.collective._asdict(),
        "defects": attempt.defects,
    }


def _reason(
    function: TracedFunction, entry: TracedEntry, attempt: Attempt, failed: Failed, to: Numbered
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
        "place": to.place(failed.place),
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
    fixed = symbol.fixed
    return {
        "name": symbol.name,
        "value": symbol.value,
        "source": symbol.source,
        "range": symbol.range,
        "ranges": symbol.ranges,
        "reason": symbol.reason,
        "place": to.place(symbol.place),
        "replaced_by": symbol.replaced_by,
        "fixed": None
        if fixed is None
        else {"value": fixed.value, "reason": fixed.reason, "place": to.place(fixed.place)},
        "guards": [attempt.assumed.index(each) for each in guards],
        "followed": [
            {
                "entry": each.entry.key,
                "attempt": each.attempt,
                "text": each.reason.text,
                "place": to.place(each.reason.place),
            }
            for each in followed[:_MOST_REASONS]
        ],
        "more_followed": max(len(followed) - _MOST_REASONS, 0),
    }


def _assumed(assumed: Assumed, to: Numbered) -> Json:
    return {
        "expr": assumed.expr,
        "text": assumed.text,
        "reason": assumed.reason,
        "place": to.place(assumed.place),
        "at_run_time": assumed.at_run_time,
    }


def _break(found: Break, to: Numbered) -> Json:
    return {"reason": found.reason, "place": to.place(found.place), "hints": list(found.hints)}


def _graph(graph: Graph, attempt: int, to: Numbered) -> Json:
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
        "place": to.place(graph.place),
    }
