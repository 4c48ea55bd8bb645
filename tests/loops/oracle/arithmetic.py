"""The operations of scalars on Python numbers: what they mean, one row each.

Floats are rounded to their dtype after every operation; f32 by way of f64, which rounds the basic
operations as f32 itself would, since f64 has more than twice its digits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Final

from anyshape.loops.expr import FLOAT8, FLOATS, Dtype
from tests.loops.oracle.rounding import round_to

Number = float | int | bool

_ROUNDED: Final = FLOATS | FLOAT8
BITS: Final[dict[str, int]] = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "b1": 1}


def wrap(value: int, dtype: Dtype) -> int | bool:
    """Modulo 2**bits."""
    if dtype == "b1":
        return bool(value)
    bits = BITS[dtype]
    value &= (1 << bits) - 1
    return value if dtype == "u8" or value < 1 << (bits - 1) else value - (1 << bits)


def cast(value: Number, source: Dtype, target: Dtype) -> Number:
    if target == "b1":
        return value != 0
    if target in _ROUNDED:
        whole = source not in _ROUNDED
        return round_to(_float_of(int(value), target) if whole else float(value), target)
    if source not in _ROUNDED:
        return wrap(int(value), target)
    # Narrow integers by way of i32, bytes without a sign by way of i64; what does not fit is the
    # lowest, as on x86 (on aarch64 it is the lowest or the highest).
    bits = 64 if target in ("i64", "u8") else 32
    lowest = -(1 << (bits - 1))
    whole = math.trunc(value) if math.isfinite(value) else lowest
    return wrap(whole if lowest <= whole < -lowest else lowest, target)


def _float_of(value: int, dtype: Dtype) -> float:
    """Rounded once: not to f64 and from there to f32."""
    if dtype == "f64" or abs(value) < 1 << 53:
        return float(value)
    # Sticky bits: the low ones matter only in that there are some.
    shift = value.bit_length() - 40
    high = abs(value) >> shift
    high |= abs(value) & ((1 << shift) - 1) != 0
    return math.copysign(float(high << shift), value)


def apply(name: str, args: tuple[Number, ...], dtype: Dtype, result: Dtype) -> Number:
    """An operation on arguments of one dtype (`where` and `cast` are not among them)."""
    if dtype in FLOATS:
        floats = tuple(map(float, args))
        found = _FLOATS[name](*floats) if name in _FLOATS else _function(name, floats)
        return bool(found) if result == "b1" else round_to(float(found), result)
    ints = tuple(map(int, args))
    if name in ("shl", "shr", "not"):
        return wrap(_SIZED[name](BITS[dtype], *ints), result)
    return wrap(_INTS[name](*ints), result)


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    if math.isnan(a) or a == 0 or math.isnan(b):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def _extreme(better: Callable[[float, float], bool]) -> Callable[[float, float], float]:
    def row(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return math.nan
        return a if better(a, b) else b

    return row


def _number(better: Callable[[float, float], bool]) -> Callable[[float, float], float]:
    def row(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return b if math.isnan(a) else a
        return b if better(b, a) else a

    return row


def _rounding(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(function(x), x) if math.isfinite(x) else x


def _product(a: float, b: float) -> float:
    try:
        return a * b
    except OverflowError:
        return math.inf


_FLOATS: Final[dict[str, Callable[..., float | bool]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": _product,
    "div": _divide,
    "minimum": _extreme(operator.lt),
    "maximum": _extreme(operator.gt),
    "fmin": _number(operator.lt),
    "fmax": _number(operator.gt),
    "neg": operator.neg,
    "abs": abs,
    "sign": lambda x: float((x > 0) - (x < 0)),
    "floor": _rounding(math.floor),
    "ceil": _rounding(math.ceil),
    "trunc": _rounding(math.trunc),
    "round": _rounding(round),
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "copysign": math.copysign,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "signbit": lambda x: math.copysign(1, x) < 0,
}


def _truncdiv(a: int, b: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return quotient if (a < 0) == (b < 0) else -quotient


_INTS: Final[dict[str, Callable[..., int | bool]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "minimum": min,
    "maximum": max,
    "neg": lambda x: -x,
    "abs": lambda x: abs(x),
    "sign": lambda x: (x > 0) - (x < 0),
    "truncdiv": _truncdiv,
    "truncmod": lambda a, b: a - _truncdiv(a, b) * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}

_SIZED: Final[dict[str, Callable[..., int]]] = {
    "not": lambda bits, x: not x if bits == 1 else ~x,
    "shl": lambda bits, x, by: x << by if 0 <= by < bits else 0,
    "shr": lambda bits, x, by: x >> by if 0 <= by < bits else (-1 if x < 0 else 0),
}


# -- functions: where Python raises an error, there is a NaN or an infinity ----------------------


def _function(name: str, args: tuple[float, ...]) -> float:
    try:
        return _FUNCTIONS[name](*args)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _log(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: -math.inf if x == 0 else function(x)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x)


def _gelu(x: float) -> float:
    return 0.5 * x * math.erfc(-x / math.sqrt(2)) if x != -math.inf else -0.0


def _gelu_tanh(x: float) -> float:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + math.tanh(inner))


def _silu(x: float) -> float:
    return x * _sigmoid(x) if x != -math.inf else -0.0


def _remainder(a: float, b: float) -> float:
    if math.isinf(b) and math.isfinite(a):
        return a if a == 0 or (a < 0) == (b < 0) else b
    rest = math.fmod(a, b)
    return rest + b if rest != 0 and (rest < 0) != (b < 0) else rest


_FUNCTIONS: Final[dict[str, Callable[..., float]]] = {
    "exp": math.exp,
    "expm1": math.expm1,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "erf": math.erf,
    "erfc": math.erfc,
    "pow": math.pow,
    "atan2": math.atan2,
    "fmod": math.fmod,
    "exp2": lambda x: 2.0**x,
    "log": _log(math.log),
    "log2": _log(math.log2),
    "log10": _log(math.log10),
    "log1p": lambda x: -math.inf if x == -1 else math.log1p(x),
    "atanh": lambda x: math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x),
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "rsqrt": lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x),
    "remainder": _remainder,
}
