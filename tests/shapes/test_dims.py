"""Dims: arithmetic, relations, what is refused, and copies."""

from __future__ import annotations

import copy
import pickle

import pytest

from anyshape.errors import BadShapeSpec
from anyshape.shapes import Dim, DimExpr, Marker

batch, seq = Dim("batch", max=4096), Dim("seq", min=1)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (2 * seq + 1, "2*seq + 1"),
        (seq // 2, "seq//2"),
        (1 + seq - 1, "seq"),
        (10 - seq, "-seq + 10"),
        (batch * seq, "batch*seq"),
        (batch % 8, "batch % 8"),
    ],
)
def test_arithmetic(made: DimExpr, text: str):
    assert repr(made) == text
    assert repr(pickle.loads(pickle.dumps(made))) == text
    assert copy.deepcopy(made).size == made.size


def test_comparisons_are_relations():
    relation = batch % 8 == 0
    assert repr(relation) == "batch % 8 == 0"
    assert not relation, "two different sizes, as Python asks when it looks through a list"
    assert batch in [seq, batch]
    assert batch not in [seq]
    assert batch == Dim("batch", max=4096)
    assert batch != seq
    assert (batch == "batch") is False
    again = pickle.loads(pickle.dumps(relation))
    assert repr(again) == "batch % 8 == 0"
    assert again.fact is relation.fact


def test_a_chain_of_comparisons_is_refused():
    with pytest.raises(BadShapeSpec, match="one relation at a time"):
        assert 1 <= batch <= 8


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("2x",), "identifier"),
        (("for",), "identifier"),
        ((3,), "identifier"),
        (("max",), "without a meaning"),
        (("_",), "without a meaning"),
        (("a", 5, 3), "min to be at most max"),
        (("a", 0.5), "integers for min and max"),
        (("a", 0, "9"), "integers for min and max"),
    ],
)
def test_what_is_no_dim(arguments: tuple[object, ...], says: str):
    with pytest.raises(BadShapeSpec, match=says):
        Dim(*arguments)  # pyright: ignore[reportArgumentType] the point of the test


def test_arithmetic_with_something_else():
    with pytest.raises(BadShapeSpec, match="an integer or another Dim"):
        seq + 0.5  # pyright: ignore[reportOperatorIssue, reportUnusedExpression] the point


def test_markers():
    assert list(Marker) == [Dim.AUTO, Dim.DYNAMIC, Dim.STATIC]
    assert repr(Dim.AUTO) == "Dim.AUTO"
    assert pickle.loads(pickle.dumps(Dim.AUTO)) is Dim.AUTO
