"""No value is outside of the range that is told of it, whatever is read."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest

from anyshape.loops.expr import FLOATS, Dtype, Scalar, constant, fresh_scope, load, operation
from anyshape.loops.value_range import ANYTHING, value_range
from anyshape.symbolic import symbol
from tests.loops.operations import OPERATIONS
from tests.loops.oracle.arithmetic import Number, apply, cast

_ODD = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 7e4, -1e30, 3e38, 1e-40, math.inf, -math.inf, math.nan]
_INTEGERS: dict[Dtype, tuple[int, int]] = {
    "b1": (0, 1),
    "u8": (0, 255),
    "i8": (-128, 127),
    "i32": (-(2**31), 2**31 - 1),
}
_NUMBERS: tuple[Dtype, ...] = ("f32", "f16", "bf16", "f64")
_SOURCES: tuple[Dtype, ...] = (*_INTEGERS, *_NUMBERS)
_NAMES = [
    "neg",
    "abs",
    "add",
    "sub",
    "mul",
    "minimum",
    "maximum",
    "fmin",
    "fmax",
    "copysign",
    "sin",
]
_NAMES += ["sin", "cos", "tanh", "sigmoid", "erf", "erfc", "atan", "asin", "acos", "atan2", "sign"]


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def made(rng: random.Random, depth: int, dtype: Dtype) -> Scalar:
    """A float at random."""
    kind = rng.random()
    if depth == 0 or kind < 0.1:
        if rng.random() < 0.5:
            return constant(rng.choice(_ODD), dtype)
        return load(rng.choice("abc"), symbol("i0"), dtype)
    if kind < 0.25:
        source = rng.choice(_SOURCES)
        if source in FLOATS:
            return operation("cast", made(rng, depth - 1, source), dtype=dtype)
        return operation("cast", load("n" + source, symbol("i0"), source), dtype=dtype)
    if kind < 0.35:
        args = [made(rng, depth - 1, dtype) for _ in range(2)]
        return operation("where", load("nb1", symbol("i0"), "b1"), *args, dtype=dtype)
    name = rng.choice(_NAMES)
    args = [made(rng, depth - 1, dtype) for _ in range(OPERATIONS[name].arity)]
    return operation(name, *args, dtype=dtype)


def value(scalar: Scalar, given: dict[tuple[str, Dtype], Number]) -> Number:
    if scalar.op == "constant":
        return cast(scalar.data, "f64", scalar.dtype)
    if scalar.op == "load":
        return given[scalar.data[0], scalar.dtype]
    args = tuple(value(arg, given) for arg in scalar.args)
    if scalar.op == "where":
        return args[1] if args[0] else args[2]
    source = scalar.args[0].dtype
    if scalar.op == "cast":
        return cast(args[0], source, scalar.dtype)
    return apply(scalar.op, args, source, scalar.dtype)


def given_at(rng: random.Random) -> dict[tuple[str, Dtype], Number]:
    found: dict[tuple[str, Dtype], Number] = {}
    for dtype in _NUMBERS:
        for name in "abc":
            found[name, dtype] = cast(rng.choice([*_ODD, rng.gauss(0, 10)]), "f64", dtype)
    for dtype, ends in _INTEGERS.items():
        found["n" + dtype, dtype] = rng.choice([*ends, rng.randint(*ends)])
    return found


@pytest.mark.parametrize("seed", range(200))
def test_at_random(seed: int) -> None:
    rng = random.Random(seed)
    scalar = made(rng, 4, rng.choice(_NUMBERS))
    low, high = value_range(scalar)
    # What rounding may add, in the coarsest of the dtypes.
    room = 0.05 * max((abs(end) for end in (low, high) if math.isfinite(end)), default=0.0)
    for _ in range(40):
        got = value(scalar, given_at(rng))
        assert math.isnan(got) or low - room <= got <= high + room, scalar


def test_what_is_found() -> None:
    x = load("a", symbol("i0"), "f32")

    def op(name: str, *args: Scalar) -> Scalar:
        return operation(name, *args, dtype="f32")

    three = constant(3.0, "f32")
    assert value_range(op("mul", op("sin", x), three)) == (-3.0, 3.0)
    assert value_range(op("minimum", op("maximum", x, constant(-3.0, "f32")), three)) == (-3, 3)
    assert value_range(op("fmin", op("fmax", x, constant(-3.0, "f32")), three)) == ANYTHING
    byte = operation("cast", load("b", symbol("i0"), "u8"), dtype="f32")
    assert value_range(op("sub", byte, three)) == (-3.0, 252.0)
    assert value_range(op("add", x, three)) == ANYTHING
    long = operation("cast", load("c", symbol("i0"), "i32"), dtype="f16")
    assert value_range(long) == ANYTHING, "most integers are infinity in float16"
