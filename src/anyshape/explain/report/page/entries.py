"""Functions and entries as data of the page; tuples become lists there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from anyshape.events import kinds
from anyshape.explain.report.analysis.decision_tree import Leaf, Question, tree_of
from anyshape.explain.report.analysis.graphs import Share, share_of
from anyshape.explain.report.analysis.sizes import profile_change, table_of
from anyshape.explain.report.analysis.stories import Followed, guards_on, recompiles_for
from anyshape.explain.report.analysis.timeline import sizes_served, timeline_of
from anyshape.explain.report.analysis.wording import in_words, is_about_sizes
from anyshape.explain.report.page.numbered import Numbered, picked
from anyshape.explain.trace_model import (
    Attempt,
    Outcome,
    Process,
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
        **picked(entry, "key id status hits seconds"),
        "function": function.key,
        "guards": [to.guard(guard) for guard in entry.guards],
        "attempts": [
            _attempt(function, entry, number, followed, to) for number in range(len(entry.attempts))
        ],
        "graphs": [
            _graph(graph, number, to)
            for number, attempt in enumerate(entry.attempts)
            for graph in attempt.all(kinds.GraphCompiled)
        ],
        "sizes": served[:_MOST_SIZES],
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
        **picked(attempt, "time status seconds seen"),
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
        "decisions": {source: each[:2] for source, each in attempt.decisions.items()},
        "ignored": [(each.source, each.reason) for each in attempt.all(kinds.MarkIgnored)],
        "kernels": [_kernel(each) for each in attempt.all(kinds.KernelMeasured)],
        "recorded": [each.text for each in attempt.all(kinds.GraphRecorded)],
        "schedules": [to.text(each.text) for each in attempt.all(kinds.Schedule)],
        "code": [to.text(each.code) for each in attempt.all(kinds.OutputCode)],
        "collective": collective_data(attempt.last(kinds.CompilerCollective)),
        "defects": [f"{each.stage}: {each.text}" for each in attempt.all(kinds.Defect)],
    }


def _kernel(measured: kinds.KernelMeasured) -> str:
    return f"{measured.text}; reads {measured.reads} bytes, writes {measured.writes}"


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
        "words": in_words(failed),
        "is_size": is_about_sizes(failed),
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
        **picked(born, "value source range reason"),
        **picked(symbol, "ranges replaced_by"),
        "name": born.symbol,
        "place": to.place(born.user_frame),
        "fixed": None
        if fixed is None
        else {**picked(fixed, "value reason"), "place": to.place(fixed.user_frame)},
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
        **picked(assumed, "expr reason at_run_time"),
        "text": assumed.text or assumed.expr,
        "place": to.place(assumed.user_frame),
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
    return {**picked(found, "reason hints"), "place": to.place(found.user_frame)}


def collective_data(found: kinds.CompilerCollective | None) -> Json:
    """What ranks told each other before a compile."""
    return None if found is None else picked(found, "round ranks missing seconds differing")


def _graph(graph: kinds.GraphCompiled, attempt: int, to: Numbered) -> Json:
    return {
        **picked(graph, "operators inputs backend number after outcome asks"),
        "attempt": attempt,
        "code": to.text(graph.code),
        "place": to.place(graph.user_frame),
    }


# -- functions -------------------------------------------------------------------------------------


def function_data(process: Process, function: TracedFunction, to: Numbered) -> dict[str, Json]:
    limit = function.limit
    return {
        **picked(function, "key number name file line hits eager_calls"),
        "process": process.key,
        "entries": [entry.key for entry in function.entries],
        "limit": None if limit is None else [limit.limit, limit.last_reason],
        "tree": _tree(tree_of(function), to),
        "table": table_of(function),
        "timeline": timeline_of(function)._asdict(),
        "profile": profile_change(function),
        "operators": _share(share_of(function)),
    }


def _tree(node: Question | Leaf | None, to: Numbered) -> Json:
    match node:
        case None:
            return None
        case Leaf():
            conditions = [
                (each.question, each.answer, to.place(each.place), each.reason)
                for each in node.conditions
            ]
            return {"entry": node.entry.key, "conditions": conditions}
        case Question():
            return {
                "question": node.text,
                "place": to.place(node.place),
                "branches": [(branch.answer, _tree(branch.to, to)) for branch in node.branches],
            }


def _share(share: Share) -> Json:
    return {
        **picked(share, "graphs operators native foreign_calls"),
        "called": [(*called, keys) for called, keys in share.called.items()],
        "without": list(share.without.items()),
    }
