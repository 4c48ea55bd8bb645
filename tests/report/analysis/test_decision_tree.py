"""Which sizes go where."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshape.explain.report.analysis.decision_tree import Leaf, Question, tree_of
from anyshape.explain.trace_model import read_trace
from tests.report.made import many
from tests.report.recordings import function_of


def shown(node: Question | Leaf | None) -> object:
    """A tree as nested values: {question: {answer: ...}}, and entries by their number."""
    if node is None:
        return None
    if isinstance(node, Leaf):
        return node.entry.id
    return {node.text: {branch.answer: shown(branch.to) for branch in node.branches}}


X = "L['x'].size()[0]"
TREES = {
    "specialised": {f"{X} == 10": {"yes": "0/0", "no": {f"{X} < 31": {"yes": "0/1", "no": "0/2"}}}},
    "automatic": {X: {"= 10": "0/0", "anything else": "0/1"}},
    "module": {
        X: {
            "= 3": "0/0",
            "= 33": "0/2",
            "anything else": {"grad mode": {"= on": "0/1", "= off": "0/3"}},
        }
    },
    "branches_on_data": {X: {"= 3": "0/0", "anything else": "0/1"}},
    "broken_mark": None,
}


@pytest.mark.parametrize("name", TREES)
def test_trees(name: str):
    assert shown(tree_of(function_of(name))) == TREES[name]


def test_questions_have_the_line_that_asks():
    tree = tree_of(function_of("specialised"))
    assert isinstance(tree, Question)
    assert tree.place is not None
    assert tree.place.line == 6


def test_many_static_entries_are_one_question(tmp_path: Path):
    (process,), _ = read_trace(many(tmp_path, 1, 150))
    tree = tree_of(process.functions[0])
    assert isinstance(tree, Question)
    assert [branch.answer for branch in tree.branches] == [f"= {n + 2}" for n in range(150)]
