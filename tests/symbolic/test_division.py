"""Floor division and remainder: each canonical form is what Python computes, for all small
integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshape.errors import UndefinedDivision
from anyshape.symbolic import ceildiv, evaluate, floordiv, modulo, parse_size, to_text
from tests.symbolic.small_integers import SYMBOLS, assignments, by_symbol, names_in, python_value

#: text -> its canonical form; `s`, `t` are sizes, `p` is positive, others are any integers
CANONICAL = {
    # whole parts come out
    "(4*s + 7)//4": "s + 1",
    "(4*a + k)//4": "a + k//4",
    "(a*8 - 3)//8": "a - 1",
    # floor and ceiling have one form
    "(-s)//2": "-((s + 1)//2)",
    "ceildiv(s, 2)": "(s + 1)//2",
    "-((-s)//8)": "(s + 7)//8",
    "(s - 1)//2 + 1": "(s + 1)//2",
    "(s + 6 - 3)//2 + 1": "(s + 5)//2",
    # common factors
    "(2*s)//4": "s//2",
    "(2*s + 1)//4": "s//2",
    "(6*s*t)//(4*s)": "(3*t)//2",
    "(s*t)//t": "s",
    "(a*b*c)//(a*c)": "b",
    "(a*b + b)//b": "a + 1",
    "(a*a - b*b)//(a - b)": "a + b",
    # nested
    "(s//4)//2": "s//8",
    "(a//4 + 3)//2": "(a + 12)//8",
    "(a//b)//3": "a//(3*b)",
    # padded to a multiple, or cut down to one
    "(s + (-s) % 4)//4": "(s + 3)//4",
    "(s + (-s) % 4 + 3)//4": "(s + 3)//4",
    "((s + 3)//4 + (-((s + 3)//4)) % 7)//7": "(s + 27)//28",
    "(a + b + (-a - b) % 6)//3": "2*((a + b + 5)//6)",
    "(a - a % 4)//4": "a//4",
    "(s + s % 2)//2": "(s + 1)//2",
    "(2*a + 2*((-a) % 5) + 1)//2": "5*((a + 4)//5)",
    # negative divisors
    "a//(-3)": "(-a)//3",
    "a % (-3)": "-((-a) % 3)",
    "a//(-b)": "(-a)//b",
    # what is smaller than its divisor
    "(s % 8)//8": "0",
    "(s % p)//p": "0",
    "(s % 8) % 16": "s % 8",
    "p//(p + 1)": "0",
    "s % (s + 1)": "s",
    # remainders
    "(4*a + 6) % 4": "2",
    "(2*s + 1) % 4": "2*(s % 2) + 1",
    "(6*s) % 4": "2*(s % 2)",
    "(s*t) % t": "0",
    "(a + 5*b) % b": "a % b",
    "((a % 8) + b) % 4": "(a + b) % 4",
    "(2*a*b) % (2*a)": "0",
    "((a % 6) % 4) % 2": "a % 2",
    "(a*b) % (a*c)": "a*(b % c)",
    "a//1": "a",
    "a % 1": "0",
    "a//a": "1",
    "0//a": "0",
}


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_form(text):
    assert parse_size(text, SYMBOLS) == parse_size(CANONICAL[text], SYMBOLS)


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_form_is_what_python_computes(text):
    size = parse_size(text, SYMBOLS)
    for values in assignments(names_in(text)):
        wanted = python_value(text, values)
        if wanted is not None:
            assert evaluate(size, by_symbol(values)) == wanted, (text, str(size), values)


def _sizes(depth: int = 3):
    leaves = st.sampled_from(["a", "b", "s", "t", "p"]) | st.integers(-5, 9).map(lambda n: f"({n})")
    operators = st.sampled_from(["+", "-", "*", "//", "%", "//", "%"])
    functions = st.sampled_from(["min", "max", "ceildiv"])

    def extend(inner):
        return st.builds(lambda x, o, y: f"({x} {o} {y})", inner, operators, inner) | st.builds(
            lambda f, x, y: f"{f}({x}, {y})", functions, inner, inner
        )

    return st.recursive(leaves, extend, max_leaves=2**depth)


@given(_sizes(), st.lists(st.integers(0, 12), min_size=5, max_size=5))
def test_any_expression_is_what_python_computes(text, numbers):
    values = {
        "a": numbers[0] - 6,
        "b": numbers[1] - 6,
        "s": numbers[2],
        "t": numbers[3],
        "p": numbers[4] + 1,
    }
    wanted = python_value(text, values)
    if wanted is None:
        return
    size = parse_size(text, SYMBOLS)
    assert evaluate(size, by_symbol(values)) == wanted
    printed = to_text(size)
    # The text of the canonical form is Python, with the same value; and it reads back as the same
    # object.
    assert python_value(printed, values) == wanted
    assert parse_size(printed, SYMBOLS) == size


def test_division_by_zero_is_an_error():
    for divide in (floordiv, modulo, ceildiv):
        with pytest.raises(UndefinedDivision):
            divide(SYMBOLS["s"], 0)
