"""Evenly spaced numbers: how many there are."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from anyshape.ops.infer import infer
from anyshape.symbolic import Facts, as_symbol, symbol
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
        lambda n: torch.linspace(0, 1, -1),
    ],
)
def test_rejected(function: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, N, first={"n": 4})
