"""What the functions of vector math should give, and how far off a result is."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import torch

MANTISSA = {"f32": 23, "f64": 52}
SMALLEST_EXPONENT = {"f32": -126, "f64": -1022}
NUMPY = {"f32": np.float32, "f64": np.float64}
INTEGER = {"f32": np.uint32, "f64": np.uint64}


def _sigmoid(x: torch.Tensor) -> torch.Tensor:
    """torch's own overflows on the way to the small values."""
    power = torch.exp(-x.abs())
    return torch.where(x < 0, power, 1.0) / (1.0 + power)


def _gelu_tanh_argument(x: torch.Tensor) -> torch.Tensor:
    return (x + 0.044715 * x**3) * math.sqrt(8 / math.pi)


def _at_infinity(x: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Eager multiplies -inf by 0."""
    return torch.where(x == -math.inf, math.nan, torch.where(x == math.inf, math.inf, result))


# In float64, good enough to judge float32. Those that are missing are torch's own.
REFERENCE: dict[str, Callable[..., torch.Tensor]] = {
    "sigmoid": _sigmoid,
    "silu": lambda x: _at_infinity(x, x * _sigmoid(x)),
    "gelu": lambda x: _at_infinity(x, x * 0.5 * torch.erfc(-x * math.sqrt(0.5))),
    "gelu_tanh": lambda x: _at_infinity(x, x * _sigmoid(_gelu_tanh_argument(x))),
    "pow": lambda x, y: torch.from_numpy(np.power(x.numpy(), y.numpy())),
    "fmod": lambda x, y: torch.from_numpy(np.fmod(x.numpy(), y.numpy())),
}

F = torch.nn.functional
EAGER: dict[str, Callable[..., torch.Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}

# With sixty digits, to judge float64.
EXACT: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mp.mpf(2) ** x,
    "log2": lambda x: mp.log(x, 2),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
    "gelu_tanh": lambda x: x / (1 + mp.exp(-(x + mp.mpf("0.044715") * x**3) * mp.sqrt(8 / mp.pi))),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "pow": mp.power,
    "fmod": lambda x, y: mp.sign(x) * mp.fmod(abs(x), abs(y)),
    "remainder": mp.fmod,
    "hypot": mp.hypot,
}


def eager(name: str, *arguments: np.ndarray) -> np.ndarray:
    function = EAGER.get(name) or getattr(torch, name)
    return function(*map(torch.from_numpy, arguments)).numpy()


def reference(name: str, *arguments: np.ndarray) -> np.ndarray:
    """The result of float32 arguments, in float64."""
    function = REFERENCE.get(name) or getattr(torch, name)
    with np.errstate(all="ignore"):
        wide = [torch.from_numpy(argument.astype(np.float64)) for argument in arguments]
        return function(*wide).numpy()


def exact(name: str, *arguments: float) -> Any:
    function = EXACT.get(name) or getattr(mp, name)
    with mp.workdps(60 if name != "remainder" else 700):
        return function(*map(mp.mpf, arguments))


def ulp_error(result: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """How many float32 units in the last place of the truth (float64) a float32 result is off.

    Infinite where one is NaN, infinite or of another sign of zero and the rounded truth is not.
    """
    with np.errstate(all="ignore"):
        rounded = truth.astype(np.float32)
        size = np.abs(truth)
        finite = np.isfinite(size) & (size > 0)
        exponent = np.frexp(np.where(finite, size, 1.0))[1] - 1
        exponent = np.where(finite, np.maximum(exponent, -126), -126)
        error = np.abs(result.astype(np.float64) - truth) / np.exp2(exponent - 23.0)
        same_sign = np.signbit(result) == np.signbit(rounded)
        equal = ((result == rounded) & same_sign) | (np.isnan(result) & np.isnan(rounded))
        wrong = np.isnan(error) | ((result == 0) & ~same_sign & (truth == 0))
        return np.where(
            equal, np.where(np.isfinite(error), error, 0), np.where(wrong, np.inf, error)
        )


BOUND = 2.0
# Eager loses digits of these where they are small, and so do ours.
AS_GOOD_AS_EAGER = ("sigmoid", "silu", "gelu", "gelu_tanh")
# A quarter of an octave, by the top bits of a float32.
BIN_SHIFT = 21


@cache
def eager_errors(name: str) -> np.ndarray:
    """The largest error of eager in each bin between 2^-4 and 2^7, of both signs; 0 elsewhere."""
    bins = np.concatenate([np.arange(123 * 4, 134 * 4) + sign for sign in (0, 1024)])
    # An even spacing alone may miss the worst; some at random are added.
    offsets = np.linspace(0, 2**BIN_SHIFT - 1, 2**14).astype(np.int64)
    random = np.random.default_rng(17)
    offsets = np.concatenate([offsets, random.integers(0, 2**BIN_SHIFT, 2**16)])
    patterns = (bins[:, None] << BIN_SHIFT) + offsets
    x = patterns.astype(np.uint32).view(np.float32)
    errors = ulp_error(eager(name, x.ravel()), reference(name, x.ravel())).reshape(x.shape)
    result = np.zeros(2048)
    result[bins] = errors.max(1)
    return result


def allowed_error(name: str, x: np.ndarray) -> np.ndarray | float:
    """2 ulp; or eager's largest error nearby, which may be the whole result, but no more."""
    if name not in AS_GOOD_AS_EAGER:
        return BOUND
    nearby = eager_errors(name)[x.astype(np.float32, copy=False).view(np.uint32) >> BIN_SHIFT]
    nearby = np.where(nearby > 2.0**22, 2.0**24, np.maximum(nearby, BOUND))
    return np.maximum(nearby, _lost_by_erf(x)) if name == "gelu" else nearby


def _lost_by_erf(x: np.ndarray) -> np.ndarray:
    """What 2 ulp of erf are of x (1 + erf(x sqrt(1/2))) / 2 where x is negative, in ulp. Which of
    them eager loses is up to the library that torch was built with: it differs by the machine."""
    with np.errstate(all="ignore"):
        size = np.abs(reference("gelu", x))
        known = (x < 0) & (size > 0) & np.isfinite(size)
        exponent = np.maximum(np.frexp(np.where(known, size, 1.0))[1] - 1, -126)
        lost = np.where(known, -x.astype(np.float64), 0.0) * 2.0**-24 / np.exp2(exponent - 23.0)
    return np.minimum(lost, 2.0**24)


def exact_ulp_error(result: float, truth: Any) -> float:
    """The same for one float64 and a number of mpmath (real and finite)."""
    if not math.isfinite(result) or isinstance(truth, mp.mpc):
        return math.inf
    exponent = max(int(mp.floor(mp.log(abs(truth), 2))), -1022) if truth else -1022
    return float(abs(mp.mpf(result) - truth) / mp.mpf(2) ** (exponent - 52))


def special_values(kind: str) -> np.ndarray:
    """Zeros, infinities, NaN, the ends of the normal and denormal ranges, and neighbours of 1."""
    limits = np.finfo(NUMPY[kind])
    tiny, smallest, largest = limits.tiny, limits.smallest_subnormal, limits.max
    one = NUMPY[kind](1)
    positive = [0.0, smallest, 3 * smallest, tiny - smallest, tiny, largest, np.inf, 0.5, 1.0]
    positive += [np.nextafter(one, 0 * one), np.nextafter(one, 2 * one), 2.0, 3.0, 1.5]
    array = np.array(positive, NUMPY[kind])
    return np.concatenate([array, -array, np.array([np.nan], NUMPY[kind])])


def bit_patterns(kind: str, count: int) -> np.ndarray:
    """Floats of evenly spaced bit patterns: every exponent, both signs, NaNs."""
    width = 32 if kind == "f32" else 64
    step = 2**width // count
    patterns = np.arange(count, dtype=np.uint64) * np.uint64(step) + np.uint64(step // 3)
    return patterns.astype(INTEGER[kind]).view(NUMPY[kind])
