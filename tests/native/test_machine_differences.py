"""Where processors differ, the answer is eager's on this one: floats that are too large for an
integer, shifts by more than the width, the lowest integer divided by -1, denormals, halves."""

from __future__ import annotations

import itertools
import math
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

#: Around the ends of every integer, and what is none.
EDGES = [
    sign * (2.0**bits + near)
    for bits in (7, 8, 15, 31, 63)
    for near in (-1, 0, 1)
    for sign in (1, -1)
]
EDGES += [0.0, -0.0, 1.5, -1.5, -0.5, 300.0, -300.0, 70000.0, 3e9, -3e9, 5e9 + 3, 1e30, -1e30]
EDGES += [math.inf, -math.inf, math.nan]


def _same(found: Tensor, expected: Tensor) -> Tensor:
    """Where they are the same, the sign of zero included."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if not expected.is_floating_point():
        return found == expected
    signs = torch.signbit(found) == torch.signbit(expected)
    return (found.isnan() & expected.isnan()) | ((found == expected) & signs)


@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_floats_that_are_too_large(source: torch.dtype) -> None:
    """C++ leaves it to the processor, and eager does so in more than one way: what counts is where
    it gives the same for one element and for many."""

    def f(x: Tensor) -> list[Tensor]:
        return [(x * 1).to(target) for target in INTEGERS]

    values = torch.tensor(EDGES, dtype=torch.float64).to(source)
    compiled = anyshape.compile(f, dynamic=True)
    found = [(count, compiled(values.repeat_interleave(count))) for count in (37, 1)]
    for number, target in enumerate(INTEGERS):
        alone = torch.cat([value.reshape(1).to(target) for value in values])
        many = values.repeat_interleave(64).to(target)
        agreed = (many.reshape(-1, 64) == alone[:, None]).all(1)
        assert agreed[values.abs() < 2.0**7].all()
        for count, results in found:
            ours = results[number].reshape(-1, count)
            wrong = agreed & (ours != alone[:, None]).any(1)
            assert not wrong.any(), (target, values[wrong].tolist(), ours[wrong, 0].tolist())


def _integers(dtype: torch.dtype) -> list[int]:
    info = torch.iinfo(dtype)
    wanted = {info.min, info.min + 1, info.max, info.max - 1, *range(-9, 10)}
    wanted |= {
        sign * (2**bits + near) for bits in range(3, 9) for near in (-1, 0, 1) for sign in (1, -1)
    }
    return sorted(value for value in wanted if info.min <= value <= info.max)


def _pairs(values: Sequence[Any], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    left, right = zip(*itertools.product(values, values), strict=True)
    return torch.tensor(left).to(dtype), torch.tensor(right).to(dtype)


OF_INTEGERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "floor_divide": torch.floor_divide,
    "truncated": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "abs": lambda a, b: a.abs() + b,
}


def _check(functions: dict[str, Callable[[Tensor, Tensor], Tensor]], a: Tensor, b: Tensor) -> None:
    compiled = anyshape.compile(
        lambda a, b: [each(a, b) for each in functions.values()], dynamic=True
    )
    for (name, function), found in zip(functions.items(), compiled(a, b), strict=True):
        same = _same(found, function(a, b))
        assert same.all(), (name, a[~same][:5].tolist(), b[~same][:5].tolist())


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype: torch.dtype) -> None:
    a, b = _pairs(_integers(dtype), dtype)
    b = torch.where(b == 0, 1, b)
    if platform.machine() == "x86_64" and dtype in (torch.int32, torch.int64):
        # There eager's own division ends the process.
        functions = {name: each for name, each in OF_INTEGERS.items() if name != "truncated"}
        _check(functions, a, b)
        kept = (a != torch.iinfo(dtype).min) | (b != -1)
        _check({"truncated": OF_INTEGERS["truncated"]}, a[kept], b[kept])
    else:
        _check(OF_INTEGERS, a, b)


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_integers_by_zero(name: str) -> None:
    """The division does not trap on aarch64: that eager raises is not the processor's doing."""
    function = OF_INTEGERS[name]
    compiled = anyshape.compile(lambda a, b: function(a, b), dynamic=True)
    for count in (37, 1):
        a, b = torch.arange(count), torch.ones(count, dtype=torch.int64)
        assert torch.equal(compiled(a, b), function(a, b))
        b[-1] = 0
        for each in (function, compiled):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                each(a, b)


OF_FLOATS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "mul": torch.mul,
    "div": torch.div,
    # A fused multiply-add would round once where eager rounds twice.
    "mul and add": lambda a, b: a * b + a,
    "mul and sub": lambda a, b: b - a * b,
    "squares": lambda a, b: a * a + b * b,
    "maximum": torch.maximum,
    "fmin": torch.fmin,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats(dtype: torch.dtype) -> None:
    """Denormals are kept, halves are rounded after each operator, NaN is what it is in eager."""
    info = torch.finfo(dtype)
    values = [0.0, 1.0, 0.1, 1 / 3, 3.7, 100.25, 1 + info.eps, info.max, info.max / 2]
    values += [info.tiny, info.tiny / 2, info.tiny * 0.75, info.tiny * info.eps, math.inf]
    values += [-value for value in values]
    _check(OF_FLOATS, *_pairs([*values, math.nan], dtype))


def test_a_long_chain_on_a_deep_stack() -> None:
    """Code is made without recursion along the chain: what is left of the stack does not matter."""

    def f(x: Tensor) -> Tensor:
        for number in range(150):
            x = x * 0.5 + number
        return x

    def deep(levels: int) -> Tensor:
        return deep(levels - 1) if levels else anyshape.compile(f, dynamic=True)(x)

    x = torch.ones(5)
    anyshape.compile(lambda x: x + 1)(x)  # what is imported at first use
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    torch.testing.assert_close(deep(sys.getrecursionlimit() - depth - 300), f(x))
