"""A function as data of the page."""

from __future__ import annotations

from anyshape.explain.report.analysis.decision_tree import Leaf, Question, tree_of
from anyshape.explain.report.analysis.operators import Share, share_of
from anyshape.explain.report.analysis.profile_change import profile_change
from anyshape.explain.report.analysis.sizes import State, table_of
from anyshape.explain.report.analysis.timeline import timeline_of
from anyshape.explain.report.page.numbered import Numbered
from anyshape.explain.trace_model import Process, TracedFunction

Json = object


def function_data(process: Process, function: TracedFunction, to: Numbered) -> dict[str, Json]:
    timeline = timeline_of(function)
    return {
        "key": function.key,
        "process": process.key,
        "number": function.number,
        "name": function.name,
        "file": function.file,
        "line": function.line,
        "entries": [entry.key for entry in function.entries],
        "limit": None
        if function.limit is None
        else [function.limit.limit, function.limit.last_reason],
        "tree": _tree(tree_of(function), to),
        "table": {
            source: [_state(state) for state in states]
            for source, states in table_of(function).items()
        },
        "timeline": {
            "sources": list(timeline.sources),
            "points": [list(point) for point in timeline.points],
            "left_out": timeline.left_out,
        },
        "profile": [list(change) for change in profile_change(function)],
        "operators": _share(share_of(function)),
    }


def _tree(node: Question | Leaf | None, to: Numbered) -> Json:
    if node is None:
        return None
    if isinstance(node, Leaf):
        return {
            "entry": node.entry.key,
            "conditions": [
                [each.question, each.answer, to.place(each.place), each.reason]
                for each in node.conditions
            ],
        }
    return {
        "question": node.text,
        "place": to.place(node.place),
        "branches": [[branch.answer, _tree(branch.to, to)] for branch in node.branches],
    }


def _state(state: State) -> Json:
    return [state.state, state.value, state.symbol, state.range, state.reason]


def _share(share: Share) -> Json:
    return {
        "graphs": share.graphs,
        "operators": share.operators,
        "native": share.native,
        "foreign_calls": share.foreign_calls,
        "called": [[name, why, keys] for (name, why), keys in share.called.items()],
        "without": [[why, keys] for why, keys in share.without.items()],
    }
