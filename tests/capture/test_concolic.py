"""Traced numbers give Python's results, and nothing is learned of them without a trace.

The central check runs an operation on traced numbers, then goes to other values: wherever the
recorded guards hold, plain Python must give what the traced result says there, raise what was
raised, with the same type.
"""

from __future__ import annotations

import copy
import itertools
import math
import operator
import pickle
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest

from anyshape.capture.numbers.concolic import (
    NumberTracer,
    TracedFloat,
    TracedInt,
    binary,
    compare,
    is_traced,
    maximum,
    minimum,
    plain,
)
from anyshape.symbolic import (
    EVERYTHING,
    NATURAL,
    Expr,
    Fact,
    Range,
    as_symbol,
    evaluate,
    holds,
    symbol,
)

Function = Callable[..., Any]


class Recipe:
    """How a TracedFloat is computed anew: an input of that name, or a function of arguments."""

    def __init__(self, name: str = "", function: Function = float, args: tuple[Any, ...] = ()):
        self.name, self.function, self.args = name, function, args
        self.of_data = False

    def again(self, world: World, values: dict[str, Any]) -> Any:
        if self.name:
            return values[self.name]
        return self.function(*(world.again(arg, values) for arg in self.args))


class World:
    """A tracer that keeps what it was asked, and can ask it again for other inputs."""

    def __init__(self, declared: Range = EVERYTHING) -> None:
        self.active = True
        self.declared = declared
        self.inputs: dict[str, Any] = {}
        self.facts: list[tuple[Fact, bool]] = []
        self.fixed: list[tuple[Any, Any]] = []
        self.recorded = 0

    def of(self, name: str, value: float) -> Any:
        self.inputs[name] = value
        if isinstance(value, float):
            return TracedFloat(value, Recipe(name), self)
        return TracedInt(value, self.symbol(name), self)

    def answer(self, source: Any, answer: object, reason: str) -> None:
        raise AssertionError("no float has a source here")

    def symbol(self, name: str) -> Expr:
        return symbol(name, self.declared)

    def bound(self, values: dict[str, Any]) -> Any:
        return {as_symbol(self.symbol(n)): v for n, v in values.items() if isinstance(v, int)}

    def decide(self, fact: Fact, reason: str) -> bool:
        assert self.active
        assert reason
        answer = holds(fact, self.bound(self.inputs))
        self.facts.append((fact, answer))
        return answer

    def specialize(self, value: TracedInt | TracedFloat, reason: str) -> int | float:
        assert self.active
        assert reason
        assert is_traced(value)
        self.fixed.append((value, plain(value)))
        return plain(value)

    def record(self, function: Function, args: tuple[Any, ...]) -> Any:
        assert self.active
        result = function(*map(plain, args))
        assert type(result) is float
        self.recorded += 1
        return TracedFloat(result, Recipe(function=function, args=args), self)

    def again(self, value: Any, values: dict[str, Any]) -> Any:
        """What a result is when the inputs have other values."""
        if type(value) is TracedInt:
            return evaluate(value.expr, self.bound(values))
        if type(value) is TracedFloat:
            assert isinstance(value.node, Recipe)
            return value.node.again(self, values)
        if type(value) in (tuple, list):
            return type(value)(self.again(item, values) for item in value)
        return value

    def guards_hold(self, values: dict[str, Any]) -> bool:
        """In order, as they were made: a later one may only be defined where the earlier hold."""
        return all(holds(fact, self.bound(values)) is answer for fact, answer in self.facts) and (
            all(same(self.again(value, values), was) for value, was in self.fixed)
        )


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if type(a) in (tuple, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and repr(a) == repr(b))
    return bool(a == b)


def outcome(function: Function, *args: Any) -> tuple[str, Any]:
    try:
        return "gives", function(*args)
    except Exception as error:
        return "raises", type(error).__name__


INTS = (-5, -2, -1, 0, 1, 2, 3, 7, 16, 70)
FLOATS = (-2.5, -1.0, -0.0, 0.0, 0.5, 3.0, 7.25, math.inf, math.nan)
NAMES: tuple[str, ...] = ("a", "b", "c")


def check(function: Function, *kinds: tuple[Any, ...], declared: Range = EVERYTHING) -> None:
    """`function` of traced inputs, for all values in `kinds` as the values of the run, and then all
    others."""
    every = list(itertools.product(*[list(filter(fits(declared), kind)) for kind in kinds]))
    for now in every:
        world = World(declared)
        traced = [world.of(name, value) for name, value in zip(NAMES, now, strict=False)]
        how, result = outcome(function, *traced)
        want_how, want = outcome(function, *now)
        assert how == want_how, (now, result, want)
        assert same(stripped(result), want), (now, result, want)
        for then in every:
            values = dict(zip(NAMES, then, strict=False))
            if not world.guards_hold(values):
                continue
            expected = outcome(function, *then)
            said = (how, result) if how == "raises" else outcome(world.again, result, values)
            assert said[0] == expected[0], (now, then, said, expected)
            assert same(said[1], expected[1]), (now, then, said, expected)


def fits(declared: Range) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, float) or declared.contains(value)


def stripped(value: Any) -> Any:
    return type(value)(map(stripped, value)) if type(value) in (tuple, list) else plain(value)


# -- every operator, on every pair of kinds -------------------------------------------------------

BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.truediv,
    divmod,
    operator.pow,
    operator.lshift,
    operator.rshift,
    operator.and_,
    operator.or_,
    operator.xor,
]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
SMALL = (-3, -1, 0, 1, 2, 4)
SMALL_FLOATS = (-1.5, -0.0, 0.0, 2.0, 2.5)
CONSTANTS = (*SMALL, 8, 7, -8, *SMALL_FLOATS, math.inf, -math.inf, math.nan, True, False)


def by_hook(function: Function) -> Function:
    """The call that the hooks make for an operator."""
    handler = compare if function in COMPARISONS else binary
    return lambda a, b: handler(function, a, b)


@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS])
def test_of_two_traced_ints(function: Function):
    check(function, SMALL, SMALL)
    check(function, SMALL, SMALL, declared=NATURAL)


@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS])
def test_of_a_traced_int_and_a_traced_float(function: Function):
    check(function, SMALL, SMALL_FLOATS)
    check(function, SMALL_FLOATS, SMALL)


@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS])
def test_of_two_traced_floats(function: Function):
    check(function, SMALL_FLOATS, SMALL_FLOATS)


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS])
def test_with_a_constant_on_the_right(function: Function, constant: Any):
    check(lambda n: function(n, constant), INTS)
    check(lambda x: function(x, constant), FLOATS)
    check(lambda n: function(n, constant), INTS, declared=NATURAL)


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS])
def test_with_a_constant_on_the_left(function: Function, constant: Any):
    hooked = by_hook(function)
    check(lambda n: hooked(constant, n), SMALL)
    check(lambda x: hooked(constant, x), FLOATS)
    if type(constant) is int:  # a subclass of int comes first, also without the hooks
        check(lambda n: function(constant, n), SMALL)


class Axis(IntEnum):
    ROWS = 3


class Loud(int):
    """An int with arithmetic of its own."""

    def __radd__(self, other: int) -> int:
        return 100 + other

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


FOREIGN = [1j, 2 + 0j, Decimal("1.5"), Fraction(3, 2), Axis.ROWS, Loud(2), "ab", None, [1, 2], (1,)]


@pytest.mark.parametrize("other", FOREIGN, ids=repr)
@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS])
def test_with_other_kinds_of_objects(function: Function, other: Any):
    hooked = by_hook(function)
    check(lambda n: hooked(n, other), SMALL)
    check(lambda n: hooked(other, n), SMALL)
    check(lambda x: hooked(x, other), SMALL_FLOATS)
    check(lambda x: hooked(other, x), SMALL_FLOATS)


# -- every method ---------------------------------------------------------------------------------

#: name -> calls of one traced number; the names of operators are in BINARY and COMPARISONS
METHODS: dict[str, list[Function]] = {
    "__abs__": [abs],
    "__neg__": [operator.neg],
    "__pos__": [operator.pos],
    "__invert__": [operator.invert],
    "__bool__": [bool, operator.not_, lambda n: 1 if n else 2],
    "__ceil__": [math.ceil],
    "__floor__": [math.floor],
    "__trunc__": [math.trunc],
    "__round__": [round, *(lambda n, d=d: round(n, d) for d in (None, 0, 1, -1, 2))],
    "__float__": [float],
    "__int__": [int],
    "__index__": [lambda n: n.__index__()],  # operator.index reads the digits: for the hooks
    "__format__": [format, lambda n: f"{n}", lambda n: format(n, ">8")],
    "__str__": [str],
    "__repr__": [repr],
    "__hash__": [lambda n: None if n != n else hash(n)],  # of NaN it is the identity
    "__sizeof__": [lambda n: n.__sizeof__()],
    "__getnewargs__": [lambda n: n.__getnewargs__()],
    "__getstate__": [lambda n: n.__getstate__()],
    "__reduce__": [lambda n: pickle.loads(pickle.dumps(n, 0))],
    "__reduce_ex__": [copy.copy, copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n, 4))],
    "__class__": [lambda n: n.__class__.__name__],
    "__eq__": [lambda n: n == 3, lambda n: n == "3", lambda n: n in (1, 2, 3)],
    "__ne__": [lambda n: n != 3],
    "__pow__": [lambda n: pow(n, 2), lambda n: pow(n, 2, 5), lambda n: pow(n, -1, 7)],
    "__rpow__": [lambda n: 2**n, lambda n: binary(operator.pow, 0.5, n)],
    "__getformat__": [lambda x: x.__getformat__("double")],
    "as_integer_ratio": [lambda n: n.as_integer_ratio()],
    "is_integer": [lambda n: n.is_integer()],
    "bit_count": [lambda n: n.bit_count()],
    "bit_length": [lambda n: n.bit_length()],
    "to_bytes": [lambda n: n.to_bytes(2, "big", signed=True)],
    "from_bytes": [lambda n: n.from_bytes(b"\x01\x02", "big")],
    "conjugate": [lambda n: n.conjugate()],
    "denominator": [lambda n: n.denominator],
    "numerator": [lambda n: n.numerator],
    "real": [lambda n: n.real],
    "imag": [lambda n: n.imag],
    "hex": [lambda x: x.hex()],
    "fromhex": [lambda x: x.fromhex("0x1.8p1")],
}
#: What classes have, rather than numbers.
OF_CLASSES = {"__doc__", "__new__", "__init__", "__init_subclass__", "__subclasshook__", "__dir__"}
OF_CLASSES |= {"__getattribute__", "__setattr__", "__delattr__", "__setformat__", "from_number"}
OF_OPERATORS = {
    f"__{r}{function.__name__.strip('_')}__"
    for function in (*BINARY, *COMPARISONS)
    for r in ("", "r")
}


@pytest.mark.parametrize("base", [int, float])
def test_no_method_of_python_is_forgotten(base: type):
    assert set(dir(base)) - set(METHODS) - OF_CLASSES - OF_OPERATORS == set()


CALLS = [(name, call) for name, calls in METHODS.items() for call in calls]
CALL_NAMES = [f"{name}-{i}" for i, (name, _) in enumerate(CALLS)]


@pytest.mark.parametrize(("name", "call"), CALLS, ids=CALL_NAMES)
def test_method(name: str, call: Function):
    if hasattr(int, name):
        check(call, INTS)
        check(call, INTS, declared=NATURAL)
    if hasattr(float, name):
        check(call, FLOATS)


PROGRAMS: list[Function] = [
    lambda n: [0] * n,
    lambda n: n * [0],
    lambda n: "ab" * n,
    lambda n: n * (1, 2),
    lambda n: (n + 7) // 8 * 8 - n,
    lambda n: (n * 3 - 1) % 4 // 2,
    lambda n: -n // 2 + abs(n - 5),
    lambda n: n // 2 if n > 4 else n * 2,
    lambda n: n << 3 >> 2,
    lambda n: (n + 7) & ~7,
    lambda n: n & 1,
    lambda n: 6 & n,
    lambda n: n - n,
    lambda n: n / n,
    lambda n: n // n,
    lambda n: n**3 - n**0,
    lambda n: n**-0.5,
    lambda n: n**0.5,
    lambda n: (n / 2) ** 2,
    lambda n: (n / 2) ** 0.5,
    lambda n: binary(operator.pow, 2.0, n),
    lambda n: n**100 % 7,
    lambda n: n << 5000,
    lambda n: n >> 5000,
    lambda n: n * 1.5 + n / 4 - n // 2.0,
    lambda n: round(n / 4),
    lambda n: int(n * 1.5),
    lambda n: minimum(n, 4) + maximum(2, n),
    lambda n: minimum(n, 2.0),
    lambda n: maximum(n, True),
    lambda n: minimum(n / 2, n),
    lambda n: sum((n, 2, n)),
    lambda n: {3: "three"}.get(n, "other"),
    lambda n: divmod(n, 4),
    lambda n: divmod(17, n),
    lambda n: sorted((n, 3)),
    lambda n: 0 < n <= 7,
    lambda n: n < 2.5,
    lambda n: n >= 2.5,
    lambda n: n > -math.inf,
    lambda n: n == 2.0,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_program(program: Function):
    check(program, INTS)
    check(program, INTS, declared=NATURAL)


# -- what is dynamic, what is fixed, what is left alone -------------------------------------------

NO_GUARD = """
n + 1; 3 * n; n - n; n // 2; n % 8; -n; abs(n); n ** 2; n << 3; n >> 1; n & 7; n & ~7; ~n; round(n)
round(n, 2); math.floor(n); n.real; n.imag; n / 2; n * 0.5; binary(pow, 2.0, n); minimum(n, 4)
divmod(n, 3); n >= 0; n != None; n.as_integer_ratio(); n.numerator; n < math.inf; n == 2.5
n + True; x + n; -x
"""
ONE_FACT = "n < 4; n == 4; bool(n); 7 // n; 7 / n; n < 4.5; n ** -1; n ** 0.5; x / n"
ONE_FIX = """
n | 1; hash(n); str(n); f'{n}'; [0] * n; int(n); float(n); 2 ** n; 1 << n
copy.copy(n); round(n, -1); n + 1j; x < 2; int(x); hash(x); x ** 0.5; round(x, 1)
"""


def each(texts: str) -> list[str]:
    return [text.strip() for text in texts.replace("\n", ";").split(";") if text.strip()]


@pytest.mark.parametrize(
    ("text", "facts", "fixed"),
    [(text, 0, 0) for text in each(NO_GUARD)]
    + [(text, 1, 0) for text in each(ONE_FACT)]
    + [(text, 0, 1) for text in each(ONE_FIX)],
)
def test_no_more_guards_than_needed(text: str, facts: int, fixed: int):
    world = World(NATURAL)
    names = {"n": world.of("a", 5), "x": world.of("b", 1.5), "math": math, "copy": copy}
    eval(text, names | {"minimum": minimum, "binary": binary})
    assert (len(world.facts), len(world.fixed)) == (facts, fixed)


def test_expressions_beyond_the_limits_are_fixed():
    world = World()
    n = world.of("a", 3)
    assert n**65 == 3**65
    assert type(n**65) is int
    assert world.fixed


@pytest.mark.parametrize("sequence", [[1, 2], deque([1, 2]), bytearray(b"ab")], ids=repr)
def test_repetition_in_place_stays_in_place(sequence: Any):
    for run in (operator.imul, lambda s, n: binary(operator.imul, s, n)):
        world, repeated = World(), copy.copy(sequence)
        assert run(repeated, world.of("a", 2)) is repeated
        assert repeated == sequence * 2
        assert world.fixed


def inactive(value: float) -> Any:
    world = World()
    traced = world.of("a", value)
    world.active = False  # decide, fix and record refuse from here on
    return traced


@pytest.mark.parametrize(("name", "call"), CALLS, ids=CALL_NAMES)
def test_nothing_is_traced_when_inactive(name: str, call: Function):
    for value in (3, 2.5):
        if hasattr(value, name):
            assert outcome(call, inactive(value)) == outcome(call, value)
            assert type(outcome(call, inactive(value))[1]) is type(outcome(call, value)[1])


@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS, minimum, maximum])
def test_operators_are_plain_when_inactive(function: Function):
    for a, b in itertools.product((3, 2.5), (2, 1.5, True, "a", [1])):
        for x, y in ((inactive(a), b), (b, inactive(a)), (inactive(a), inactive(a))):
            got, want = outcome(function, x, y), outcome(function, plain(x), plain(y))
            assert got == want
            assert type(got[1]) is type(want[1])


def each_of(*values: Any) -> Iterator[Any]:
    world = World()
    for name, value in zip(NAMES, values, strict=False):
        yield world.of(name, value)


def test_plain_and_is_traced():
    n, x = each_of(5, -0.0)
    assert type(plain(n)) is int
    assert type(plain(x)) is float
    assert math.copysign(1, plain(x)) == -1
    assert (is_traced(n), is_traced(x), is_traced(5), is_traced("n")) == (True, True, False, False)
    assert plain("n") == "n"
    assert plain(True) is True
    assert n.tracer.fixed == []


def test_numbers_of_two_tracers_do_not_mix():
    mine, other = World(), World()
    n, m = mine.of("a", 5), other.of("a", 7)
    total = n + m
    assert (total, str(total.expr)) == (12, "a + 7")
    assert [value for _, value in other.fixed] == [7]


def test_a_number_of_an_ended_capture_is_a_constant():
    n = World().of("a", 5)
    total = n + inactive(7)
    assert (total, str(total.expr)) == (12, "a + 7")


class GivesUp(World):
    """A tracer that leaves at the first question."""

    def decide(self, fact: Fact, reason: str) -> bool:
        answer = super().decide(fact, reason)
        self.active = False
        return answer

    def specialize(self, value: TracedInt | TracedFloat, reason: str) -> int | float:
        plain_value = super().specialize(value, reason)
        self.active = False
        return plain_value


@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS])
def test_a_tracer_may_give_up_when_it_is_asked(function: Function):
    for a, b in itertools.product((5, 2.5), (3, 1.5)):
        world = GivesUp()
        want = outcome(function, a, b)
        got = outcome(function, world.of("a", a), world.of("b", b))
        if world.active:
            continue
        assert got == want
        assert same(got[1], want[1]), "a traced number of an ended capture got out"


class TensorLike:
    """Takes traced numbers as they are, as tensors do."""

    @classmethod
    def __torch_function__(cls, *args: Any) -> None: ...

    def __radd__(self, other: Any) -> Any:
        return other

    def __rmul__(self, other: Any) -> Any:
        return other

    def __add__(self, other: Any) -> Any:
        return other

    def __eq__(self, other: object) -> Any:
        return other

    def __gt__(self, other: object) -> Any:
        return other

    __hash__ = object.__hash__


def test_tensors_get_the_traced_number():
    world, tensor = World(), TensorLike()
    n = world.of("a", 5)
    results = [n + tensor, n * tensor, binary(operator.add, tensor, n), n == tensor, n < tensor]
    results.append(compare(operator.eq, tensor, n))
    assert all(result is n for result in results)
    assert not world.fixed


def test_protocol():
    tracer: NumberTracer = World()
    assert tracer.active
