"""What issue 6 asks for, one row each: the figure, the aim, whether it is met, what holds it back.

A row without figures (peers were not measured) is neither met nor missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.native.figures import Figures, geometric_mean
from benchmarks.native.steady import CLONE
from benchmarks.native.systems import EAGER, TORCH_NONE, TORCH_TRUE

Values = Mapping[Any, float]


@dataclass(frozen=True)
class Aim:
    """`summary` of the values must be at least, or at most, the limit."""

    text: str
    values: Callable[[Figures], Values]
    summary: Callable[[Values], float]
    limit: float
    at_most: bool = False
    unit: str = "x"

    def __post_init__(self) -> None:
        assert self.unit in _SHOWN


@dataclass(frozen=True)
class Outcome:
    aim: Aim
    value: float
    #: the cells that are on the wrong side of the limit by themselves, worst first
    short: list[tuple[str, float]]

    @property
    def met(self) -> bool | None:
        if math.isnan(self.value):
            return None
        return _meets(self.aim, self.value)

    def shown(self) -> str:
        return "-" if math.isnan(self.value) else _SHOWN[self.aim.unit](self.value)

    def wanted(self) -> str:
        sign = "at most" if self.aim.at_most else "at least"
        return f"{sign} {_SHOWN[self.aim.unit](self.aim.limit)}"

    def worst(self, most: int = 4) -> str:
        show = _SHOWN[self.aim.unit]
        listed = ", ".join(f"{name} {show(value)}" for name, value in self.short[:most])
        more = len(self.short) - most
        return f"{listed} and {more} more" if more > 0 else listed


_SHOWN: Final[dict[str, Callable[[float], str]]] = {
    "x": lambda value: f"{value:.2f}x",
    "s": lambda value: f"{value:.3f} s",
    "%": lambda value: f"{100 * value:.0f}%",
    "+%": lambda value: f"{100 * (value - 1):+.1f}%",
}


def _mean(values: Values) -> float:
    return geometric_mean(values.values())


def _least(values: Values) -> float:
    return min(values.values(), default=math.nan)


def _most(values: Values) -> float:
    return max(values.values(), default=math.nan)


def _cold(figures: Figures) -> Values:
    seconds = {name: figures.start(name, "anyshape cold") for name in figures.functions()}
    return {name: value for name, value in seconds.items() if not math.isnan(value)}


AIMS: Final = (
    Aim("steady state over eager, geometric mean", lambda f: f.over(EAGER), _mean, 1.5),
    Aim(
        "steady state over torch.compile dynamic=True, geometric mean",
        lambda f: f.over(TORCH_TRUE),
        _mean,
        1.5,
    ),
    Aim(
        "steady state over torch.compile dynamic=None, geometric mean",
        lambda f: f.over(TORCH_NONE),
        _mean,
        1.5,
    ),
    Aim(
        "slowest workload and size, against the better of eager and torch",
        lambda f: f.against_the_better(),
        _least,
        0.95,
    ),
    Aim(
        "whole models over eager, slowest",
        lambda f: {name: value for name, value in f.over(EAGER).items() if name in f.models()},
        _least,
        1.0,
    ),
    Aim(
        "tiny call, share of torch.compile's, geometric mean",
        lambda f: f.tiny_call(),
        _mean,
        0.5,
        True,
    ),
    Aim(
        "cold first call, times faster than torch.compile dynamic=True, geometric mean",
        lambda f: f.cold_ratio(TORCH_TRUE),
        _mean,
        10,
    ),
    Aim("cold first call of single functions, slowest", _cold, _most, 0.5, True, "s"),
    Aim(
        "warm second process, beyond capture, slowest",
        lambda f: f.warm_over_capture(),
        _most,
        0.1,
        True,
        "s",
    ),
    Aim(
        "dynamic code against static code, geometric mean",
        lambda f: f.dynamic_cost(),
        _mean,
        1.03,
        True,
        "+%",
    ),
    Aim(
        "compile time of models, times faster than torch.compile, slowest",
        lambda f: f.compile_ratio(TORCH_TRUE),
        _least,
        10,
    ),
    Aim("compile time from 4 to 32 layers, most", lambda f: f.growth(), _most, 2, True),
    Aim(
        "the same without capture, most",
        lambda f: f.growth(less_capture=True),
        _most,
        2,
        True,
    ),
    Aim(
        "peak memory through torch's allocator, of eager's, most",
        lambda f: f.memory("allocator"),
        _most,
        1.0,
        True,
        "%",
    ),
    # Pages are coarse: a few of them more are not a buffer more.
    Aim(
        "peak resident memory, of eager's, most",
        lambda f: f.memory("resident"),
        _most,
        1.05,
        True,
        "%",
    ),
    Aim(
        "memory-bound chains, share of the copy bandwidth, least",
        lambda f: f.copy_share(),
        _least,
        0.7,
        unit="%",
    ),
    Aim(
        "the same, against a copy into a new tensor",
        lambda f: f.copy_share(CLONE),
        _least,
        0.7,
        unit="%",
    ),
)


def outcomes(figures: Figures) -> list[Outcome]:
    return [_outcome(aim, aim.values(figures)) for aim in AIMS]


def _outcome(aim: Aim, values: Values) -> Outcome:
    short = [(_named(key), value) for key, value in values.items() if not _meets(aim, value)]
    short.sort(key=lambda pair: -pair[1] if aim.at_most else pair[1])
    return Outcome(aim, aim.summary(values), short)


def _meets(aim: Aim, value: float) -> bool:
    return value <= aim.limit if aim.at_most else value >= aim.limit


def _named(key: Any) -> str:
    return ", ".join(key) if isinstance(key, tuple) else str(key)
