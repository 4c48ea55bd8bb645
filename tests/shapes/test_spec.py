"""Specs as they are written: what they are read as, and where they are wrong."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch.export

from anyshape.errors import BadShapeSpec
from anyshape.shapes import Dim, Shapes
from anyshape.shapes.shape_string import words
from anyshape.shapes.spec import items_of
from anyshape.symbolic import Expr, as_symbol

batch = Dim("batch", max=4096)


@pytest.mark.parametrize(
    ("text", "gives"),
    [
        ("batch seq 64", "[batch, seq, 64]"),
        ("  batch   2*seq+1 ", "[batch, 2*seq+1]"),
        ("batch (2 * seq + 1) _", "[batch, (2 * seq + 1), None]"),
        ("2*seq + 1", "[2*seq + 1]"),
        ("batch 2 * seq - 1 64", "[batch, 2 * seq - 1, 64]"),
        ("a // 2 b % 8 (c) * 2", "[a // 2, b % 8, (c) * 2]"),
        ("... 64", "[Ellipsis, 64]"),
        ("seq//2", "[seq//2]"),
        ("max(a, b)", "[max(a, b)]"),
        ("", "[]"),
    ],
)
def test_words(text: str, gives: str):
    assert repr(list(words(text, "shapes"))) == gives


@pytest.mark.parametrize(
    "text",
    [
        "batch 2*",
        "a-",
        "a +",
        "+ a",
        "a * * b",
        "_ + 1",
        "... * 2",
        "a +1",
        "(a",
        "a)b",
        "1.5",
        "a==b",
        "2x",
        "a.b",
    ],
)
def test_words_that_say_nothing(text: str):
    with pytest.raises(BadShapeSpec, match=r"shapes\['x'\]"):
        Shapes({"x": text})


def test_a_size_is_the_same_text_alone_and_among_others():
    apart = Shapes({"x": ("batch", "2*seq + 1"), "y": {1: "seq // 2"}})
    together = Shapes({"x": "batch 2*seq + 1", "y": "_ seq // 2"})
    assert [repr(each) for each in items_of(apart.root)] == ["batch", "2*seq + 1", "seq // 2"]
    assert [repr(each) for each in items_of(together.root)] == [
        *("batch", "2*seq + 1", "None", "seq // 2")
    ]


def ranges(shapes: Shapes) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, size in shapes.dims.items():
        assert isinstance(size, Expr)
        found[name] = str(as_symbol(size).declared)
    return found


@pytest.mark.parametrize(
    ("spec", "where", "gives"),
    [
        ({"x": "a b"}, (), {"a": "[0, int_oo]", "b": "[0, int_oo]"}),
        ({"x": "a"}, ("a <= 9",), {"a": "[0, 9]"}),
        ({"x": "a"}, ("1 <= a <= 9",), {"a": "[1, 9]"}),
        ({"x": "batch"}, (batch,), {"batch": "[0, 4096]"}),
        ({"x": "batch", "y": (batch,)}, (), {"batch": "[0, 4096]"}),
        ({"x": (batch,)}, (batch >= 2, batch % 8 == 0), {"batch": "[8, 4096]"}),
        ({"x": "a", "y": "b"}, ("b <= a", "a < 5"), {"a": "[0, 4]", "b": "[0, int_oo]"}),
    ],
)
def test_ranges(spec: Any, where: tuple[Any, ...], gives: dict[str, str]):
    assert ranges(Shapes(spec, *where)) == gives
    assert ranges(pickle.loads(pickle.dumps(Shapes(spec, *where)))) == gives


@pytest.mark.parametrize(
    ("spec", "where", "place", "expected"),
    [
        ("a b", (), "shapes", "by the names of parameters"),
        (Dim("a"), (), "shapes", "by the names of parameters"),
        ({"x": 3.5}, (), "shapes['x']", "a short string"),
        ({"x": True}, (), "shapes['x']", "a short string"),
        ({"x": {"k": ["a", object]}}, (), "shapes['x']['k'][1]", "a short string"),
        ({"x": (-1,)}, (), "shapes['x'][0]", "at least 0"),
        ({"x": (batch % 8 == 0,)}, (), "shapes['x'][0]", "beside the spec"),
        ({"x": (batch, Dim("batch", max=7))}, (), "the dim `batch`", "one range"),
        ({"x": "a"}, ("b < 3",), "the dim `b`", "one of the dims of the spec: a"),
        ({"x": "a"}, ("a < ",), "relation 0", "a comparison"),
        ({"x": "a"}, ("a + 1",), "relation 0", "a comparison"),
        ({"x": "a"}, (3,), "relation 0", "a relation"),
        ({"x": "a"}, ("a < 3", "a > 5"), "the relation `a > 5`", "that some sizes fulfil"),
    ],
)
def test_wrong_specs(spec: Any, where: tuple[Any, ...], place: str, expected: str):
    with pytest.raises(BadShapeSpec) as caught:
        Shapes(spec, *where)
    assert caught.value.place == place
    assert expected in caught.value.expected


def test_another_packages_dim_is_told_with_its_package():
    with pytest.raises(BadShapeSpec, match=r"of type torch\.export\.Dim\b") as caught:
        Shapes({"x": (torch.export.Dim("batch"),)})
    assert "an anyshape.Dim" in caught.value.expected


def test_items_of_a_tree():
    spec = {"x": "a b", "y": [None, {"k": (batch, 3)}], "n": Dim.AUTO}
    assert repr(list(items_of(Shapes(spec).root))) == "[a, b, None, batch, 3, Dim.AUTO]"


def test_a_word_below_zero_is_no_size():
    with pytest.raises(BadShapeSpec, match="at least 0"):
        Shapes({"x": "batch -1"})
