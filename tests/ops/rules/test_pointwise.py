"""Pointwise operators on symbols and on real tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from anyshape.ops.families import arithmetic, functions
from anyshape.ops.table import lookup, resolve
from tests.ops.driver import check, dynamic
from tests.ops.laid_out import first_inside

AB = {"a": 3, "b": 4}
ABC = {"a": 3, "b": 4, "c": 5}
DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8,
    torch.bool, torch.complex64,
)  # fmt: skip


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.t().contiguous().t() if tensor.dim() == 2 else tensor


def accepts(function: Any, *args: Any, **kwargs: Any) -> bool:
    try:
        function(*args, **kwargs)
    except (RuntimeError, TypeError):
        return False
    return True


def _function(names: str) -> Any:
    name = names.split()[0]
    return resolve(f"torch.{name}") or resolve(f"torch.special.{name}")


UNARY = [names for listed in arithmetic._UNARY.values() for names in listed]
UNARY += [*functions._UNARY, "logit"]
BINARY = [names for listed in functions._BINARY.values() for names in listed]
BINARY += [*arithmetic._BINARY, "true_divide"]
BINARY += ["add", "sub subtract", "div divide", "pow", "float_power", "ldexp"]


@pytest.mark.parametrize("names", UNARY)
def test_unary(names: str) -> None:
    function = _function(names)
    for dtype in DTYPES:
        if accepts(function, torch.ones(2, dtype=dtype)):
            assert dynamic(check(function, "a b", first=AB, dtype=dtype))
    assert function is torch.bitwise_not or dynamic(
        check(function, "a b c", first=ABC, prepare=first_inside)
    )


@pytest.mark.parametrize("names", BINARY)
def test_binary(names: str) -> None:
    function = _function(names)
    by_zero = names in ("floor_divide", "fmod", "remainder")
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        ones = torch.ones(2, dtype=dtype)
        if not accepts(function, ones, ones) or (by_zero and not dtype.is_floating_point):
            continue
        assert dynamic(check(function, "a b", "a b", first=AB, dtype=dtype))
        assert dynamic(check(function, "a b", "b", first=AB, dtype=dtype, prepare=first_inside))
        if accepts(function, ones, ones[0]):
            assert dynamic(check(function, "a b", "", first=AB, dtype=dtype))
        for number in (True, 2, 2.0, 2j):
            if accepts(function, ones, number):
                assert not check(function, "a b", number, first=AB, then=[], dtype=dtype).needs
            if accepts(function, number, ones):
                assert dynamic(
                    check(function, number, "a b", first=AB, dtype=dtype, prepare=first_inside)
                )


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("function", [torch.add, torch.mul, torch.maximum, torch.eq, torch.where])
def test_mixed_dtypes(function: Any) -> None:
    prefix = ("a b",) if function is torch.where else ()
    for one in DTYPES:
        for other in DTYPES:
            dtypes = {len(prefix): one, len(prefix) + 1: other}
            for shapes in (("a b", "b"), ("a b", ""), ("", "a b")):
                try:
                    outcome = check(
                        function,
                        *prefix,
                        *shapes,
                        first=AB,
                        then=[],
                        dtype=torch.bool,
                        dtypes=dtypes,
                    )
                except RuntimeError as error:
                    assert "not implemented" in str(error) or "not supported" in str(error)  # noqa: PT017 torch's own
                    continue
                assert not outcome.needs


def test_every_name_reaches_a_row() -> None:
    for row in (*arithmetic.ROWS, *functions.ROWS):
        for names, in_place in ((row.answers_to, False), (row.in_place, True)):
            for function in filter(None, map(resolve, names)):
                entry = lookup(function)
                assert entry is not None
                assert entry.in_place == in_place


@pytest.mark.parametrize(
    "function",
    [
        lambda x: 2 - x,
        lambda x: 2 / x,
        lambda x: 2**x,
        lambda x: 2 // x,
        lambda x: 2 % x,
        lambda x: 2.5 * x + 1j,
        lambda x: -x + +x,
        lambda x: abs(x) ** 0.5,
        lambda x: x // 2 % 3,
        lambda x: torch.rsub(x, 3, alpha=2),
        lambda x: torch.div(x, 2, rounding_mode="floor"),
        lambda x: x.div(2, rounding_mode="trunc"),
        lambda x: x.clamp(0),
        lambda x: x.clamp(max=1.5),
        lambda x: torch.clip(x, 0, 1),
        lambda x: x.clamp_min(0.5),
        lambda x: torch.clamp_max(x, 1),
        lambda x: torch.lerp(x.float(), x.float() + 1, 0.5),
        lambda x: torch.add(x, x, alpha=3),
        lambda x: torch.nan_to_num(x, nan=1.0),
        lambda x: x.float().round(decimals=2),
        lambda x: x.float().logit(1e-3),
        lambda x: torch.polygamma(1, x),
        lambda x: x.polygamma(1),
        lambda x: torch.mvlgamma(x.float().abs() + 5, 2),
        lambda x: torch.frexp(x.float()),
        lambda x: torch.float_power(x, 2),
        lambda x: torch.ldexp(x, torch.tensor([2])),
        lambda x: torch.positive(x),
        lambda x: torch.true_divide(x, 3),
        lambda x: x.requires_grad_().exp() if x.is_floating_point() else x,
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_forms(function: Any, dtype: torch.dtype) -> None:
    # Division by an integer 0 is an error of its own.
    def shifted(x: torch.Tensor) -> Any:
        return function(x.abs() + 1)

    assert dynamic(check(shifted, "a b", first=AB, dtype=dtype))
    assert dynamic(check(shifted, "a b c", first=ABC, dtype=dtype, prepare=first_inside))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x << y,
        lambda x, y: (x & y) | ~x ^ y,
        lambda x, y: 1 << (x >> y),
        lambda x, y: 8 >> x,
        lambda x, y: torch.gcd(x, y) + x.lcm(y),
        lambda x, y: torch.bitwise_left_shift(x, 2),
    ],
)
def test_bits(function: Any) -> None:
    assert dynamic(
        check(function, "a b", "b", first=AB, dtype=torch.int64, dtypes={1: torch.int32})
    )


TERNARY = [
    (torch.addcmul, ("a b", "a b", "b"), {"value": 2}),
    (torch.addcdiv, ("a b", "a 1", "b"), {"value": 0.5}),
    (torch.lerp, ("a b", "a b", "a b"), {}),
    (torch.lerp, ("a b", "a b", ""), {}),
    (torch.clamp, ("a b", "a 1", "b"), {}),
    (torch.clamp, ("a b", None, "b"), {}),
    (torch.Tensor.clamp, ("a b", "b"), {}),
    (torch.Tensor.addcmul, ("b", "a b", "a 1"), {}),
]


@pytest.mark.parametrize(("function", "specs", "kwargs"), TERNARY)
def test_ternary(function: Any, specs: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert dynamic(check(function, *specs, first=AB, **kwargs))
    assert dynamic(check(function, *specs, first=AB, prepare=transposed, **kwargs))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x.add_(y),
        lambda x, y: x.mul_(y).sub_(1).div_(2),
        lambda x, y: x.pow_(2).clamp_(0, 1),
        lambda x, y: torch.sin_(x),
        lambda x, y: x.lerp_(x + 1, 0.5),
        lambda x, y: x.addcmul_(x, y, value=2),
        lambda x, y: x.lt_(y),
        lambda x, y: x.copysign_(y).nan_to_num_(),
        lambda x, y: x.ldexp_(y),
    ],
)
def test_in_place(function: Any) -> None:
    assert dynamic(check(function, "a b", "b", first=AB))
    assert dynamic(check(function, "a b", "a 1", first=AB, prepare=transposed))


def test_python_in_place_operators() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x += y
        x -= 1
        x *= y
        x /= 3
        x //= 2
        x %= 2
        x **= 2
        return x

    assert dynamic(check(function, "a b", "b", first=AB))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.sin(x, out=torch.empty(0)),
        lambda x: torch.sin(x, out=torch.empty_like(x)),
        lambda x: torch.sin(x, out=torch.empty(x.shape[1], x.shape[0]).t()),
        lambda x: torch.add(x, 1, out=torch.empty(0, dtype=torch.float64)),
        lambda x: torch.frexp(x, out=(torch.empty(0), torch.empty(0, dtype=torch.int32))),
    ],
)
def test_out(function: Any) -> None:
    check(function, "a b", first=AB)
    check(function, "a b", first=AB, prepare=transposed)


def test_equal_symbols_are_guarded() -> None:
    outcome = check(torch.add, "a b", "c", first={"a": 3, "b": 4, "c": 4})
    assert [str(need.fact) for need in outcome.needs] == ["b == c"]


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (torch.add, ("a b", "3")),
        (torch.Tensor.add_, ("b", "a b")),
        (torch.Tensor.add_, ("a 1", "a b")),
        (torch.clamp, ("a b",)),
        (lambda x: x.long().add_(1.5), ("a b",)),
        (lambda x: x.long().div_(2), ("a b",)),
        (lambda x: x.bool().add_(1), ("a b",)),
        (lambda x: torch.div(x, 2, rounding_mode="up"), ("a b",)),
        (lambda x: torch.add(x.to(torch.uint16), x.to(torch.int32)), ("a b",)),
    ],
)
def test_rejected(function: Any, specs: tuple[str, ...]) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first=AB)
