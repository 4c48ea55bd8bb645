"""Sizes in native code against the same in Python."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable

import pytest

from anyshape.codegen.host import sizes
from anyshape.codegen.host.abi import HostUnsupported
from anyshape.codegen.host.sizes import Sizes
from anyshape.codegen.ir_builder import FunctionBody
from anyshape.errors import UndefinedDivision
from anyshape.runtime.loader.build import Source, build, disk_cache, load
from anyshape.runtime.loader.host_target import host_target
from anyshape.symbolic import EVERYTHING, as_symbol, evaluate, parse_size, symbol

NATURAL = [symbol(name) for name in ("s0", "s1")]
ANY = [symbol(name, EVERYTHING) for name in ("a", "b")]
SYMBOLS = [as_symbol(s) for s in (*NATURAL, *ANY)]

KEEP: list[object] = []


def compiled(texts: list[str]) -> Callable[..., tuple[int, list[int]]]:
    """`f(values)`: whether there was trouble, and the values of the expressions."""
    names = {s.name: e for s, e in zip(SYMBOLS, (*NATURAL, *ANY), strict=True)}
    expressions = [parse_size(text, names) for text in texts]
    lines = FunctionBody()
    values = {
        s: lines.let(f"load i64, ptr {lines.element('%in', k)}") for k, s in enumerate(SYMBOLS)
    }
    made = Sizes(lines, values)
    lines.fill("%out", [made.of(expression) for expression in expressions], "i64")
    lines.do(f"ret i1 {made.trouble()}")
    head = "define zeroext i1 @f(ptr %in, ptr %out) {"
    text = "\n".join([sizes.DECLARATIONS, head, lines.text(), "}"])
    loaded = load(build(Source(text), host_target(disk_cache())))
    KEEP.append(loaded)
    address = loaded.address("f")
    assert address is not None
    function = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p)(address)

    def call(*given: int) -> tuple[int, list[int]]:
        into = (ctypes.c_int64 * len(SYMBOLS))(*given)
        out = (ctypes.c_int64 * len(expressions))()
        trouble = function(into, out)
        return trouble, list(out)

    return call


EXPRESSIONS = [
    "s0",
    "3*s0 + 5",
    "s0*s1 - s0 + 7",
    "s0*s0*s1 + s1*s0",
    "s0 // 4",
    "s0 % 4",
    "a // 4",
    "a % 4",
    "a // -3",
    "a % -3",
    "(a*b + 1) // 5",
    "min(s0, s1, 3)",
    "max(a, b) - min(a, 2*b)",
    "(s0 + 7) // 8 * 8",
    "max(s0 - 1, 0) * s1",
]


def test_values():
    call = compiled(EXPRESSIONS)
    points = itertools.product(range(4), range(3), range(-4, 5), range(-3, 3))
    for point in points:
        values = dict(zip(SYMBOLS, point, strict=True))
        names = {s.name: e for s, e in zip(SYMBOLS, (*NATURAL, *ANY), strict=True)}
        want = [evaluate(parse_size(text, names), values) for text in EXPRESSIONS]
        assert call(*point) == (False, want), point


@pytest.mark.parametrize("text", ["a // b", "a % b", "(a + 3) // (b*b - b)"])
def test_divisors_that_may_be_zero(text: str):
    call = compiled([text])
    names = {s.name: e for s, e in zip(SYMBOLS, (*NATURAL, *ANY), strict=True)}
    expression = parse_size(text, names)
    for a, b in itertools.product(range(-7, 8), range(-4, 5)):
        try:
            want = evaluate(expression, dict(zip(SYMBOLS, (0, 0, a, b), strict=True)))
        except UndefinedDivision:
            assert call(0, 0, a, b)[0]
        else:
            assert call(0, 0, a, b) == (False, [want])


LEAST = -(2**63)
TROUBLE = [
    ("s0*s1", (2**40, 2**40, 0, 0)),
    ("4*s0", (2**62, 0, 0, 0)),
    ("s0 + s1", (2**63 - 1, 1, 0, 0)),
    ("(s0*s1) // 7", (2**32, 2**32, 0, 0)),
    ("a // b", (0, 0, LEAST, -1)),
    ("a % b", (0, 0, LEAST, -1)),
    ("a - b", (0, 0, LEAST, 1)),
]


@pytest.mark.parametrize(("text", "point"), TROUBLE)
def test_overflow_is_noticed(text: str, point: tuple[int, ...]):
    assert compiled([text])(*point)[0]


def test_at_the_edge():
    assert compiled(["s0 + s1"])(2**63 - 2, 1, 0, 0) == (False, [2**63 - 1])
    assert compiled(["a // b"])(0, 0, LEAST, 1) == (False, [LEAST])


def test_unknown_symbols_and_large_numbers_are_refused():
    with pytest.raises(HostUnsupported, match="s9"):
        Sizes(FunctionBody(), {}).of(symbol("s9"))
    with pytest.raises(HostUnsupported, match="64 bits"):
        Sizes(FunctionBody(), {}).of(2**63)
