"""Which size tells each dim."""

from __future__ import annotations

import pytest

from anyshape.shapes.contract import homes_of
from anyshape.symbolic import parse_size, symbol

NAMES = {name: symbol(name) for name in "abc"}


@pytest.mark.parametrize(
    ("sizes", "homes", "missing"),
    [
        (["a", "b"], {"a": (0, 1, "0"), "b": (1, 1, "0")}, set()),
        (["2*a + 1", "a"], {"a": (1, 1, "0")}, set()),
        (["2*a + 1"], {"a": (0, 2, "1")}, set()),
        (["10 - a"], {"a": (0, -1, "10")}, set()),
        (["a + b", "b"], {"b": (1, 1, "0"), "a": (0, 1, "b")}, set()),
        (["c - b", "a + b", "a"], {"a": (2, 1, "0"), "b": (1, 1, "a"), "c": (0, 1, "-b")}, set()),
        (["a//2"], {}, {"a"}),
        (["a*b", "a"], {"a": (1, 1, "0")}, {"b"}),
        (["a + a//2"], {}, {"a"}),
        (["4"], {}, set()),
    ],
)
def test_homes(sizes: list[str], homes: dict[str, tuple[int, int, str]], missing: set[str]):
    found, homeless = homes_of([parse_size(text, NAMES) for text in sizes])
    assert {h.dim.name: (h.place, h.factor, str(h.rest)) for h in found} == homes
    assert {dim.name for dim in homeless} == missing
