"""Evenly spaced numbers: how many there are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from anyshape.ops.infer import infer
from anyshape.ops.shape_query import NeedKind
from anyshape.symbolic import Facts, as_symbol, evaluate, holds, symbol
from tests.ops.driver import Sym, check, compare, dynamic

N, M = Sym("n"), Sym("m")
ALL = [{"n": n, "m": m} for n in range(6) for m in range(1, 4)]


@pytest.mark.parametrize(
    "function",
    [
        lambda n, m: torch.arange(n),
        lambda n, m: torch.arange(0, n),
        lambda n, m: torch.arange(end=n),
        lambda n, m: torch.arange(0, end=n, step=2),
        lambda n, m: torch.arange(start=0, end=n),
        lambda n, m: torch.arange(n, dtype=torch.float32),
        lambda n, m: torch.arange(n, dtype=torch.int32, device="cpu"),
        lambda n, m: torch.arange(0, n, 3),
        lambda n, m: torch.arange(n, -1, -1),
        lambda n, m: torch.arange(n, -2, -3),
        lambda n, m: torch.arange(-5, n, 2),
        lambda n, m: torch.arange(0, n, m),
        lambda n, m: torch.arange(0.0, n),
        lambda n, m: torch.arange(0, n, 0.5),
        lambda n, m: torch.arange(-0.5, n, 0.75),
        lambda n, m: torch.arange(0, n, 1.5, dtype=torch.int64),
        lambda n, m: torch.arange(0, n, 1.5, dtype=torch.int32),
        lambda n, m: torch.linspace(0, 1, n),
        lambda n, m: torch.linspace(0, m, steps=n, dtype=torch.float64),
        lambda n, m: torch.linspace(0, 1j, n),
        lambda n, m: torch.linspace(torch.tensor(0.0, dtype=torch.float64), 1, n),
        lambda n, m: torch.logspace(0, 1, n, 2.0),
    ],
)
def test_functions(function: Any) -> None:
    assert dynamic(check(function, N, M, first={"n": 4, "m": 2}, then=ALL))


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize(
    ("step", "dtype"), [(1, None), (2, torch.int32), (0.5, None), (-1, torch.int64), (-3, None)]
)
def test_range(step: float, dtype: torch.dtype | None) -> None:
    """No torch-function mode sees `torch.range`."""
    n = symbol("n")
    start, end = (0, n) if step > 0 else (n, -7)
    found = infer(Facts().declare(n, 4), torch.range, (start, end, step), {"dtype": dtype})
    for size in range(6):
        numbers = (0, size) if step > 0 else (size, -7)
        real = torch.range(*numbers, step, dtype=dtype)
        compare(found.value, real, {as_symbol(n): size}, str(size))


def test_a_step_that_rounds_is_for_one_size() -> None:
    """Whether 3 / 0.3 is 10 or a little more is a matter of rounding."""
    outcome = check(lambda n: torch.arange(0, n, 0.3), N, first={"n": 3})
    assert [need.kind.value for need in outcome.needs] == ["specialised"]


def test_needs() -> None:
    outcome = check(lambda n, m: torch.arange(m, n), N, M, first={"n": 4, "m": 2}, then=ALL)
    assert [str(need.fact) for need in outcome.needs] == ["m <= n"]
    # The step's sign decides the formula, and it must not be 0.
    outcome = check(lambda n, m: torch.arange(0, n, m), N, M, first={"n": 4, "m": 2})
    assert {"n": 4, "m": 0} in outcome.guarded


def test_plain_numbers_count_as_torch_does() -> None:
    for start, end, step in ((0, 1, 0.1), (0, 1, 0.3), (0.1, 2.3, 0.7), (1, -1, -0.1), (0, 3, 0.3)):
        outcome = check(lambda a, b, c: torch.arange(a, b, c), start, end, step, first={})
        assert not outcome.needs
    # The two notions differ, which is why symbols and such steps do not go together.
    assert math.ceil(3 / 0.3) != math.ceil(3 / Fraction(0.3))


#: Steps that double precision has exactly, and steps that it rounds.
STEPS = (1, 2, 7, 0.5, 1.5, 0.75, 0.1, 0.2, 0.3, 0.7, 1.1, 1 / 3, 1e-3, 1e-9, 1e16, 2**53 + 1)
STARTS = (0, 3, -5, 0.5, -0.5, -0.9, 0.1, 1 / 3, 2**20 + 0.1, 2**53 - 1, 1e15 + 0.5)
FUNCTIONS: tuple[Any, ...] = (torch.arange, torch.range)
SIZED = (
    None, torch.int64, torch.int32, torch.uint8,
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
)  # fmt: skip


def _ends(start: float, step: float) -> Iterator[float]:
    """Where the last step ends just before, at, or just after the bound, as far as that is told."""
    for steps in (0, 1, 2, 3, 10, 49):
        end = start + steps * step
        yield end
        yield float(start) + steps * (step * (1 + 2**-52))
        yield math.nextafter(end, math.inf)
        yield math.nextafter(end, -math.inf)
        yield round(end)


def _count(function: Any, bounds: tuple[Any, ...], dtype: torch.dtype | None) -> int | None:
    """How many numbers torch makes; None if it refuses."""
    crashes = (torch.int64,) if torch.__version__.startswith("2.11") else ()
    divides = dtype in (SIZED[1:4] if function is torch.range else crashes)
    if divides and int(bounds[2]) == 0:
        return None  # It divides by zero, which ends the process.
    try:
        return function(*bounds, dtype=dtype).numel()
    except (RuntimeError, ValueError, OverflowError):
        return None


def _our_count(function: Any, bounds: tuple[Any, ...], dtype: torch.dtype | None) -> Any:
    try:
        return infer(Facts(), function, bounds, {"dtype": dtype}).value.shape[0]
    except ShapeMismatch:
        return None


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("dtype", SIZED, ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_numbers_that_round_count_as_torch_counts_them(
    function: Any, dtype: torch.dtype | None
) -> None:
    wrong = [
        (start, end, sign * step)
        for start in STARTS
        for step in STEPS
        for sign in (1, -1)
        for end in _ends(start, sign * step)
        if abs((end - start) / step) <= 10_000
        if _our_count(function, (start, end, sign * step), dtype)
        != _count(function, (start, end, sign * step), dtype)
    ]
    assert not wrong


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("dtype", SIZED, ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_symbols_that_round_count_as_torch_counts_them(
    function: Any, dtype: torch.dtype | None
) -> None:
    """At every size for which the needs hold, each of the bounds being the symbol."""
    n = symbol("n")
    served = 0
    for numbers in itertools.product((0, 1, -0.5, 0.1, 2**33), (1, 7, 0.75, 0.3, 2**20 - 1)):
        for place in range(3):
            bounds = (*numbers[:place], n, *numbers[place:])
            try:
                found = infer(Facts().declare(n, 4), function, bounds, {"dtype": dtype})
            except ShapeMismatch:
                continue
            for size in (0, 1, 2, 3, 4, 5, 9, 30, 2**33, 2**33 + 1, 8192 * (2**20 - 1), 2**53 + 1):
                values = {as_symbol(n): size}
                if not all(holds(need.fact, values) for need in found.needs):
                    continue
                said = evaluate(found.value.shape[0], values)
                if said > 100_000:
                    continue
                served += 1
                at = (*numbers[:place], size, *numbers[place:])
                assert said == _count(function, at, dtype), at
    assert served > 20


def test_numbers_beyond_double_precision_are_guarded() -> None:
    """The exact number of steps is one more than the number in double precision."""
    n, m = symbol("n"), symbol("m")
    values = {as_symbol(n): 8192 * (2**20 - 1), as_symbol(m): 2**53}
    for bounds in ((-(2.0**-20), n, 2**20 - 1), (m, m + 1), (0, m + 1, m)):
        facts = Facts().declare(n, 5).declare(m, 3)
        found = infer(facts, torch.arange, bounds, {"dtype": torch.float32})
        assert not all(holds(need.fact, values) for need in found.needs), bounds
    # As a program counts positions, nothing is guarded.
    for bounds in ((n,), (0, n), (0, n, 2), (0.5, n + 1)):
        found = infer(Facts().declare(n, 5), torch.arange, bounds, {"dtype": torch.float32})
        assert all(need.kind is NeedKind.CHECK for need in found.needs), bounds


def test_integers_that_overflow_are_refused() -> None:
    """What torch makes of them is undefined in C++."""
    assert _our_count(torch.arange, (0, 5, 2**63 - 1), torch.int64) is None
    assert _our_count(torch.arange, (0, 2**63, 2**62), None) is None


def test_a_length_from_data() -> None:
    arange: Any = torch.arange  # its stub does not know tensors
    outcome = check(lambda n: arange(torch.tensor(3)), N, first={"n": 3}, then=[])
    assert len(outcome.calls[-1].inferred.unbacked) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda n: torch.arange(n, 2),
        lambda n: torch.arange(0, n, -1),
        lambda n: torch.arange(0, n, 0),
        lambda n: torch.arange(0.7, 0.3, 0.1),
        lambda n: torch.arange(0.7, 0.3, 1, dtype=torch.int64),
        lambda n: torch.arange(4.5, n, 1, dtype=torch.int64),
        lambda n: torch.arange(0, float("inf")),
        lambda n: torch.arange(0, n, float("nan")),
        lambda n: torch.arange(float("-inf"), n),
        lambda n: torch.linspace(0, 1, -1),
    ],
)
def test_rejected(function: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, N, first={"n": 4})
