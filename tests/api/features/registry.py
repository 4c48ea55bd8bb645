"""Where the worlds are kept, and the small types that several of them use."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Callable

from torch import Tensor

from tests.api.twins import World

FEATURES: dict[str, Callable[[], World]] = {}


def feature(make: Callable[[], World]) -> Callable[[], World]:
    FEATURES[make.__name__] = make
    return make


@dataclasses.dataclass
class Point:
    place: Tensor
    weight: int = 3

    def __post_init__(self) -> None:
        self.after = self.weight + 1


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    scale: float
    shift: int = 1


class Named(typing.NamedTuple):
    first: Tensor
    second: int


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"
