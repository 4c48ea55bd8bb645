"""Floats made of sizes: what is rounded, compared or asked of them is a size, or a range of sizes.

As in `test_concolic.py`: an operation runs on traced numbers, then other values are tried. Wherever
the recorded guards hold, plain Python must give what the traced result says there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import anyshape
from anyshape.capture.numbers.concolic import TracedInt, binary, compare, is_traced
from anyshape.capture.numbers.rules import recorded
from anyshape.symbolic import NATURAL
from tests.capture.test_concolic import World, outcome, same, stripped

Function = Callable[..., Any]


def floated(n: Any) -> Any:
    """`float(n)`, as the hooks have it."""
    return recorded(n.tracer, float, n) if is_traced(n) else float(n)


def holds_elsewhere(program: Function, now: tuple[int, ...], others: list[tuple[int, ...]]) -> int:
    """Run a program on traced numbers, and see that it is right for all others that the guards let
    through; how many these are."""
    world = World()
    names = "abc"[: len(now)]
    how, result = outcome(
        program, *(world.of(name, value) for name, value in zip(names, now, strict=True))
    )
    want = outcome(program, *now)
    assert how == want[0], (now, result, want)
    assert same(stripped(result), want[1]), (now, result, want)
    passed = 0
    for then in others:
        values = dict(zip(names, then, strict=True))
        # A float that cannot be computed there is no float that is the same.
        if outcome(world.guards_hold, values) != ("gives", True):
            continue
        passed += 1
        expected = outcome(program, *then)
        said = (how, result) if how == "raises" else outcome(world.again, result, values)
        assert said[0] == expected[0], (now, then, said, expected)
        assert same(said[1], expected[1]), (now, then, said, expected)
    return passed


# -- chains of operations, at integers of any length -----------------------------------------------

CONSTANTS = (2, 3, 4, 5, 7, 8, 10, 32, 100, 9973, 0.5, 0.25, 1.5, 2.0, 3.0, 0.1, 0.2, 0.3, 0.7)
CONSTANTS += (1.1, 1e-3, 0.9, 1 / 3, 2**40, 2**47 + 1, -1, -3, -0.5, 0.0, 1e300)
OPERATORS = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
)
UNARY: tuple[Function, ...] = (operator.neg, abs, floated)
QUESTIONS: tuple[Function, ...] = (
    math.floor,
    math.ceil,
    math.trunc,
    round,
    bool,
    lambda x: x.is_integer() if isinstance(x, float) else x,
    lambda x: round(x, 1),
)
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)

constants = st.one_of(st.sampled_from(CONSTANTS), st.integers(-1000, 1000), st.floats(-50, 50))
steps = st.one_of(
    st.tuples(st.sampled_from(OPERATORS), constants, st.booleans()),
    st.tuples(st.sampled_from(OPERATORS), st.just("n"), st.booleans()),
    st.tuples(st.sampled_from(OPERATORS), st.just("m"), st.booleans()),
    st.tuples(st.sampled_from(UNARY), st.none(), st.booleans()),
)
questions = st.one_of(
    st.tuples(st.sampled_from(QUESTIONS), st.none()),
    st.tuples(st.sampled_from(COMPARISONS), st.one_of(constants, st.sampled_from(["n", "m"]))),
)
integers = st.one_of(
    st.integers(0, 200),
    st.integers(-(2**53), 2**53),
    st.builds(operator.mul, st.integers(0, 2**30), st.integers(1, 2**18)),
    st.builds(lambda k, q: k * q - 1, st.integers(0, 2**30), st.integers(1, 2**18)),
    st.builds(lambda e, d: 2**e + d, st.integers(40, 60), st.integers(-2, 2)),
)


def program_of(chain: list[Any], question: tuple[Any, Any]) -> Function:
    def program(n: Any, m: Any) -> Any:
        given = {"n": n, "m": m}
        x = n
        for function, constant, is_left in chain:
            if constant is None:
                x = function(x)
            else:
                other = given.get(constant, constant) if isinstance(constant, str) else constant
                x = binary(function, other, x) if is_left else binary(function, x, other)
        function, other = question
        if other is None:
            return function(x)
        return compare(function, x, given[other] if isinstance(other, str) else other)

    return program


@settings(deadline=None)
@given(
    st.lists(steps, min_size=1, max_size=4),
    questions,
    integers,
    integers,
    st.lists(st.tuples(integers, integers), max_size=4),
)
@example([(operator.truediv, 3, False)], (math.floor, None), 2**53, 1, [(2**53 - 1, 1)])
@example([(operator.mul, 0.1, False)], (math.ceil, None), 30, 1, [(70, 1), (2**40 * 10, 1)])
@example([(operator.mul, 1.1, False)], (math.ceil, None), 100, 1, [(110, 1), (99, 1)])
@example([(operator.truediv, 3, False), (operator.add, 0.5, False)], (math.floor, None), 4, 1, [])
def test_chains(
    chain: list[Any],
    question: tuple[Any, Any],
    n: int,
    m: int,
    others: list[tuple[int, int]],
) -> None:
    near = [(n + d, m + e) for d in (-2, -1, 1, 2, n, -n) for e in (-1, 0, 1)]
    near += [(k * max(abs(m), 1) + d, m) for k in (1, 3, 2**20) for d in (-1, 0, 1)]
    holds_elsewhere(program_of(chain, question), (n, m), [(n, m), *near, *others])


@pytest.mark.parametrize("question", [math.floor, math.ceil, math.trunc, round])
@pytest.mark.parametrize("divisor", [1, 2, 3, 4, 6, 7, 10, -2, -5])
def test_every_small_quotient(question: Function, divisor: int) -> None:
    """All of them from one capture, or from one for each sign."""
    every = [(n,) for n in range(-60, 61)]
    for now in ((31,), (-31,)):
        assert holds_elsewhere(lambda n: question(n / divisor), now, every) >= 60


def test_limits() -> None:
    """2**53 / 3 is rounded so that a quotient just below an integer becomes that: no capture at a
    small size is for such a one."""
    n = 3 * 2**53 - 1
    assert math.floor(n / 3) != n // 3
    world = World(NATURAL)
    result = math.floor(world.of("a", 7) / 3)
    assert type(result) is TracedInt
    assert world.guards_hold({"a": 2**48})
    assert not world.guards_hold({"a": n})
    assert holds_elsewhere(lambda n: math.floor(n / 3), (n,), [(n - 1,), (n + 1,)]) >= 0


# -- whole programs --------------------------------------------------------------------------------

#: an expression of a size n, and of another one m, and how many graphs sizes from 2 to 25 take
PROGRAMS = {
    "math.ceil(n / 3)": 1,
    "int(n / 2)": 1,
    "round(n / 2)": 1,
    "round(n / 3)": 1,
    "int(n * 0.5)": 1,
    "int(0.75 * n)": 1,
    "int(n * 0.1)": 1,
    "int(float(n))": 1,
    "int(n // 3.0)": 1,
    "math.floor(n / 3 + 0.5)": 1,
    "math.floor((n + 2 * 1 - (3 - 1) - 1) / 2 + 1)": 1,
    "int(math.ceil(n / 4)) * 4 - n": 1,
    "max((math.ceil(n / 2) - 1) * 2 + 3 - n, 0)": 1,
    "math.ceil(n / m)": 1,
    "int(n * n / 2)": 1,
    "int((5 - n) / 2) + 30": 2,
    "5 if n / 2 > 3 else 7": 2,
    "5 if n / 2 > 3.3 else 7": 2,
    "5 if n / m > 1.2 else 7": 2,
    "5 if n / 2 == n // 2 else 7": 2,
    "5 if (n / 2).is_integer() else 7": 2,
    "5 if (n / 4) % 1 else 7": 2,
    "int(max(n / 2, 3))": 2,
    "int(math.sqrt(n))": 5,
    "int(n ** 0.5)": 5,
    "math.isqrt(n)": 5,
    "n.bit_length()": 4,
    "2 ** math.ceil(math.log2(n))": 5,
}


_SOURCE = """
def program(x, y):
    n, m = x.shape[0], y.shape[0]
    return torch.zeros({}) + x.sum() + y.sum()
"""


@pytest.fixture(name="program")
def _program(tmp_path: Path) -> Iterator[Callable[[str], Function]]:
    """Makes a program of an expression: in a file, where captures look for the source."""

    def make(text: str) -> Function:
        file = tmp_path / "program.py"
        file.write_text(_SOURCE.format(text))
        scope: dict[str, Any] = {"math": math, "torch": torch}
        exec(compile(file.read_text(), str(file), "exec"), scope)
        return scope["program"]

    anyshape.reset()
    yield make
    anyshape.reset()


@pytest.mark.parametrize(("text", "graphs"), PROGRAMS.items())
def test_programs(text: str, graphs: int, program: Callable[[str], Function]) -> None:
    function = program(text)
    compiled = anyshape.compile(function, dynamic=True, backend="eager")
    for n in range(2, 26):
        x, y = torch.ones(n, 0), torch.ones(5 + n % 3, 0)
        wanted = function(x, y)
        assert torch.equal(compiled(x, y), wanted), n
    assert compiled.stats().graphs == graphs
    assert compiled.stats().eager_calls == 0


def test_sizes_where_floats_are_not_exact(program: Callable[[str], Function]) -> None:
    """A tensor without elements may have any size."""
    function = program("math.ceil(n / 3) % 7")
    compiled = anyshape.compile(function, dynamic=True, backend="eager")
    for n in (7, 8, 2**48, 2**48 + 1, 2**60, 3 * 2**53 + 1):
        x = torch.empty(n, 0)
        assert torch.equal(compiled(x, x), function(x, x)), n
    assert compiled.stats().graphs > 1


def test_contracts_without_a_maximum(program: Callable[[str], Function]) -> None:
    function = program("math.ceil(n / 4) * 4 - n")
    exported = anyshape.export(
        function,
        (torch.ones(7, 2), torch.ones(3)),
        dynamic_shapes={"x": {0: anyshape.Dim("n")}},
    )
    assert torch.equal(exported(torch.ones(9, 2), torch.ones(3)), torch.full((3,), 21.0))
    with pytest.raises(anyshape.AnyshapeError, match="281474976710656"):
        exported(torch.ones(1, 2).expand(2**50, 2), torch.ones(3))
