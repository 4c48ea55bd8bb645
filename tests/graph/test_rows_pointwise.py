from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape
from anyshape.loops.operations import ONLY_F32
from tests.native.checks import FLOATS, SPECIAL, check, floats

SHAPES = ((4, 6), (6, 17), (2, 1), (2, 0))

UNARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "erfinv"),
    *("exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "rsqrt", "sigmoid", "sin", "sinh"),
    *("tan", "tanh", "sqrt", "reciprocal", "deg2rad", "neg", "abs", "square", "sign", "floor"),
    *("ceil", "trunc", "round", "frac", "isnan", "isinf", "isfinite", "signbit", "logical_not"),
    *("nan_to_num", "sinc", "logit"),
)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_of_one_float(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    calls = [[x] for x in floats(*SHAPES, dtype=dtype)]
    only = name in ONLY_F32 and dtype is torch.float64
    check(
        lambda x: (function(x), x + 1),
        [*calls, [SPECIAL.to(dtype).reshape(-1, 1)]],
        called=[name] if only else [],
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.int32], ids=str)
@pytest.mark.parametrize("name", ["exp", "sqrt", "neg", "abs", "square", "sign", "floor", "isnan"])
def test_of_one_integer(name: str, dtype: torch.dtype) -> None:
    check(getattr(torch, name), [[x.abs().to(dtype)] for x in floats(*SHAPES)])


BINARY = (
    *("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "maximum", "minimum"),
    *("fmax", "fmin", "atan2", "copysign", "pow", "eq", "lt", "logical_and", "xlogy", "logaddexp"),
    *("logaddexp2", "heaviside", "isclose", "xlog1py"),
)
#: Torch rounds on the way.
NOT_OF_TWO_BYTES = {"isclose", "floor_divide"}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_of_two_floats(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name, None) or getattr(torch.special, name)
    calls = [floats(shape, shape, dtype=dtype) for shape in SHAPES]
    each = SPECIAL.to(dtype)
    calls.append([each.repeat(8).reshape(8, 8), each.repeat_interleave(8).reshape(8, 8)])
    only = name in NOT_OF_TWO_BYTES and dtype in FLOATS[2:]
    check(lambda a, b: (function(a, b), a + 1), calls, called=[name] if only else [])


@pytest.mark.parametrize("dtype", FLOATS[:1] + FLOATS[2:], ids=str)
def test_hypot(dtype: torch.dtype) -> None:
    check(torch.hypot, [floats(shape, shape, dtype=dtype) for shape in SHAPES])


OF_INTEGERS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "and": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "shift left": lambda a, b: a << (b % 8),
    "shift right": lambda a, b: a >> (b % 8),
    "by a number": lambda a, b: (a // 3, a % 3, torch.fmod(b, 3), a * 2.5),
    "compare": lambda a, b: (a < b, a == b, a >= 2),
    "clamp": lambda a, b: a.clamp(-1, 2),
    "where": lambda a, b: torch.where(a > b, a, 0),
    "bitwise_not": lambda a, b: ~a,
    "heaviside": lambda a, b: torch.heaviside(a, b),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8], ids=str)
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_of_integers(name: str, dtype: torch.dtype) -> None:
    calls = [[x.to(dtype), y.abs().to(dtype)] for x, y in (floats(s, s) for s in SHAPES)]
    check(OF_INTEGERS[name], calls)


MIXED: dict[str, Callable[..., Any]] = {
    "broadcast": lambda a, b: a + b[0],
    "column": lambda a, b: a * b[:, :1],
    "of two dtypes": lambda a, b: a + b.double(),
    "half and float": lambda a, b: a.bfloat16() + b,
    "with integers": lambda a, b: a + b.to(torch.int64),
    "alpha": lambda a, b: torch.add(a, b, alpha=2.5),
    "from a number": lambda a, b: (1 - a, 2 / b, 2**a),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.5),
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=0.5),
    "masked_fill": lambda a, b: a.masked_fill(b > 0, 7),
    "powers": lambda a, b: (a**2, a**3, a**0.5, a**-1, a**-2, a**2.5),
    "outer": lambda a, b: torch.outer(a[0], b[0]),
    "addr": lambda a, b: torch.addr(a, a[:, 0], a[0], beta=0.5, alpha=2.0),
    "ldexp": lambda a, b: torch.ldexp(a, b.to(torch.int32)),
    "float_power": lambda a, b: torch.float_power(a, 2),
    "in place": lambda a, b: (a * 1).add_(b).mul_(2),
}


@pytest.mark.parametrize("name", MIXED)
def test_of_several(name: str) -> None:
    check(MIXED[name], [floats(shape, shape) for shape in SHAPES[:3]])


DIVISIONS: dict[str, Callable[..., Any]] = {
    "towards zero": lambda i: torch.div(i, 3, rounding_mode="trunc"),
    "down": lambda i: torch.div(i, -3, rounding_mode="floor"),
    "by a size": lambda i: (i // i.shape[0], i % i.shape[0]),
    "by a size towards zero": lambda i: torch.div(i, i.shape[0], rounding_mode="trunc"),
    "a number by floats": lambda i: (7 // (i * 0.5), 7.5 % (i * 0.5)),
    "rounded to decimals": lambda i: (i * 0.0123).round(decimals=2),
    "rounded to tens": lambda i: (i * 3.7).round(decimals=-1),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_divisions(name: str) -> None:
    check(DIVISIONS[name], [[torch.arange(n) * 7 - 20] for n in (3, 5, 1, 50)])


def test_by_a_size_of_zero() -> None:
    given = [[torch.arange(n), torch.zeros(n)] for n in (4, 6, 0)]
    check(lambda i, x: i // x.shape[0], given)
    check(lambda i, x: i % (x.shape[0] + 1), given)


@pytest.mark.parametrize("divisor", [300, 256])
def test_a_divisor_that_the_dtype_does_not_have(divisor: int) -> None:
    """Torch takes it modulo the range of the dtype: 256 is zero for bytes."""
    names: dict[str, Any] = {}
    exec(f"def function(x): return x // {divisor}", names)
    compiled: Any = anyshape.compile(names["function"], dynamic=True)
    for x in (torch.tensor([7, 200, 255], dtype=torch.uint8), torch.arange(5, dtype=torch.uint8)):
        try:
            wanted = x // divisor
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)):
                compiled(x)
        else:
            assert torch.equal(compiled(x), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_cross_products(dtype: torch.dtype) -> None:
    def pair(n: int, *other: int) -> list[torch.Tensor]:
        return [(torch.randn(n, 3) * 9).to(dtype), (torch.randn(*other, 3) * 9).to(dtype)]

    check(lambda a, b: torch.linalg.cross(a, b), [pair(n, n) for n in (4, 1, 0, 17)])
    check(lambda a, b: torch.linalg.cross(a, b), [pair(n, 1) for n in (4, 2, 17)])
    check(lambda a, b: torch.cross(a.t() + 1, b.t(), dim=0) * 2, [pair(n, n) for n in (4, 1, 17)])
