"""Whether a keyword was given is asked of a dictionary's keys: its values may be anything."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import anyshape


class Settings:
    """Compared by code of its own."""

    def __init__(self) -> None:
        self.factor = 2

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.factor == other.factor

    def __hash__(self) -> int:
        return 1


def renamed(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Tensor:
        if "old" in kwargs and "new" in kwargs:
            raise TypeError("both names")
        if "old" in kwargs:
            kwargs["new"] = kwargs.pop("old")
        return function(*args, **kwargs)

    return called


@renamed
def scaled(x: Tensor, settings: Settings, new: int = 1) -> Tensor:
    return x * settings.factor * new


def test_values_are_not_looked_at() -> None:
    settings = Settings()

    def function(x: Tensor) -> Tensor:
        return scaled(x, settings=settings, old=3)

    compiled = anyshape.compile(function, dynamic=True, fullgraph=True)
    for factor in (2, 2, 5):
        settings.factor = factor
        x = torch.randn(factor + 1)
        torch.testing.assert_close(compiled(x), function(x))
