"""Minimum and maximum: canonical forms, and what Python computes."""

from __future__ import annotations

import pytest

from anyshape.errors import SymbolicTypeError
from anyshape.symbolic import evaluate, maximum, minimum, parse_size
from tests.symbolic.small_integers import SYMBOLS, assignments, by_symbol, names_in, python_value

CANONICAL = {
    "max(s, 0)": "s",
    "min(s, 0)": "0",
    "max(p, 1)": "p",
    "max(s, -3, 2)": "max(s, 2)",
    "min(s, s + 2, t)": "min(s, t)",
    "max(s, s + 2, t)": "max(s + 2, t)",
    "max(min(s, t), s)": "s",
    "min(max(a, b), a)": "a",
    "min(min(a, b), c)": "min(a, b, c)",
    "max(b, a, b)": "max(a, b)",
    "min(max(s - 3, 0), s)": "max(s - 3, 0)",
    "max(max(s, 1), p)": "max(s, p)",
    "min(a, a)": "a",
    "max(3, 7)": "7",
    "abs(s)": "s",
    "abs(a)": "max(a, -a)",
    "max(s + t, s)": "s + t",
    "min(s*p, s)": "s",
}


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_form(text):
    assert parse_size(text, SYMBOLS) == parse_size(CANONICAL[text], SYMBOLS)


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_form_is_what_python_computes(text):
    size = parse_size(text, SYMBOLS)
    for values in assignments(names_in(text)):
        assert evaluate(size, by_symbol(values)) == python_value(text, values), values


def test_of_nothing_is_an_error():
    for function in (minimum, maximum):
        with pytest.raises(SymbolicTypeError):
            function()
        with pytest.raises(SymbolicTypeError):
            function(SYMBOLS["s"], True)
