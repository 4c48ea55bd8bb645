"""Text: what prints also parses, is Python with the same meaning, and bad text gets a clear
error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from anyshape.errors import AnyshapeError, ParseError, SymbolicTypeError, UnknownSymbol
from anyshape.symbolic import Symbol, eq, parse_fact, parse_size, to_text
from tests.symbolic.small_integers import SYMBOLS, assignments, names_in, python_value

PRINTED = {
    "s*t + t - 3": "s*t + t - 3",
    "-s": "-s",
    "3 - s": "-s + 3",
    "-(s//2)": "-(s//2)",
    "s - s//2": "s - s//2",
    "2*(s//2)": "2*(s//2)",
    "(s//2)*(t//2)": "(s//2)*(t//2)",
    "(s + 1)//2": "(s + 1)//2",
    "s + 1//2": "s",
    "(s % 3)**2": "(s % 3)**2",
    "t//(s + 1)": "t//(s + 1)",
    "a//(b*c)": "a//(b*c)",
    "(a//b)*c": "(a//b)*c",
    "a**2*b": "a**2*b",
    "max(t, s, 1)": "max(1, s, t)",
    "min(s, t)//3": "min(s, t)//3",
    "s//2 % 3": "(s//2) % 3",
}
FACTS = {
    "s <= 9": "s <= 9",
    "9 >= s": "s <= 9",
    "s >= 2": "s >= 2",
    "s + 3 <= t": "s + 3 <= t",
    "t - s > 2": "s + 3 <= t",
    "s % 8 == 0": "s % 8 == 0",
    "s != t": "s != t",
    "s == 5 or (t < 3 and s > 1)": "s == 5 or (t <= 2 and s >= 2)",
    "s - t != 4": "s != t + 4",
}


@pytest.mark.parametrize("text", PRINTED)
def test_sizes_print(text):
    size = parse_size(text, SYMBOLS)
    assert to_text(size) == PRINTED[text]
    assert parse_size(PRINTED[text], SYMBOLS) == size


@pytest.mark.parametrize("text", FACTS)
def test_facts_print(text):
    fact = parse_fact(text, SYMBOLS)
    assert to_text(fact) == FACTS[text]
    assert parse_fact(FACTS[text], SYMBOLS) is fact


@pytest.mark.parametrize("text", [*PRINTED, *FACTS])
def test_printed_text_is_python_with_the_same_meaning(text):
    parse = parse_fact if text in FACTS else parse_size
    printed = to_text(parse(text, SYMBOLS))
    for values in assignments(names_in(text), most=2000):
        wanted = python_value(text, values)
        assert wanted is None or python_value(printed, values) == wanted, values


def test_names_can_be_given():
    def in_program(symbol: Symbol) -> str:
        return {"s": "x.shape[0]", "t": "n"}[symbol.name]

    assert to_text(parse_fact("s//2 <= t", SYMBOLS), in_program) == "x.shape[0]//2 <= n"


BAD = {
    "": "",
    "s +": "",
    "s + unknown": "unknown",
    "s / 2": "// %",
    "s + True": "integer was expected",
    "(s < 3) + 1": "integer was expected",
    "s and t": "fact was expected",
    "not s": "fact was expected",
    "s < 3 < True": "integer was expected",
    "s ** t": "natural number",
    "s // 0": "division by zero",
    "s % (t - t)": "division by zero",
    "ceildiv(s, 0)": "division by zero",
    "ceildiv(s)": "2 arguments",
    "max()": "arguments",
    "print(s)": "not a known function",
    "s.__class__": "no meaning",
    "[s]": "no meaning",
    "lambda: s": "no meaning",
    "'s'": "no meaning",
    "1.5 * s": "no meaning",
    "s if s else t": "no meaning",
    "s in t": "no meaning",
    "x" * 50_000: "",
    "(" * 5000 + "s" + ")" * 5000: "",
    "-" * 100_000 + "s": "",
    "s\x00": "",
    "9" * 10_000: "",
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text[:20]))
def test_bad_text_is_a_clear_error(text):
    with pytest.raises(AnyshapeError, match=BAD[text] or r"\[AS"):
        parse_fact(text, SYMBOLS)


def test_parse_errors_point_at_the_place():
    with pytest.raises(ParseError) as error:
        parse_fact("s + foo(t) < 3", SYMBOLS)
    assert error.value.column == 4
    assert "    s + foo(t) < 3\n        ^" in str(error.value)


def test_sizes_are_not_facts():
    with pytest.raises(ParseError, match="this is an integer"):
        parse_fact("s + 1", SYMBOLS)
    with pytest.raises(ParseError, match="this is a fact"):
        parse_size("s < 1", SYMBOLS)
    with pytest.raises(SymbolicTypeError):
        parse_fact(3, SYMBOLS)  # pyright: ignore[reportArgumentType] this is the point


def test_unknown_symbols_are_named():
    with pytest.raises(UnknownSymbol, match="s9"):
        parse_fact("s9 > 0", SYMBOLS)


def test_text_is_the_same_in_every_process():
    """Whatever was built before: ranks compare texts, and profiles keep them."""
    program = (
        "from anyshape.symbolic import *\n"
        "names = {order}\n"
        "table = {{n: symbol(n) for n in names}}\n"
        "print(parse_size('(s1 - s0)//2 + max(s1, s0)', table), parse_fact('s1 == s0', table),"
        " parse_size('(s0 - s1) % 4', table))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program.format(order=order)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for order in ("('s0', 's1')", "('s1', 's0')")
    }
    assert len(printed) == 1


def test_equality_reads_the_same_both_ways():
    s, t = SYMBOLS["s"], SYMBOLS["t"]
    assert str(eq(s, t)) == str(eq(t, s)) == "s == t"
