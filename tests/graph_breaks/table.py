"""The table of programs with calls that cannot be traced: what a row is, and how rows are made.

A row builds its program afresh for each twin, so that the eager and the compiled one share nothing
but their code, and makes the arguments of call number `call` from a seeded generator. Values are
multiples of a quarter: sums and products of them are exact in whatever order they are computed, so
that text and hashes made of them can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

#: Of each call: the first five have other sizes and values, the last two repeat the two before.
SIZES: Final = (3, 5, 2, 7, 4, 7, 4)
SEEDS: Final = (0, 1, 2, 3, 4, 3, 4)
COLUMNS: Final = 4
NEW_CALLS: Final = 5


@dataclass
class Built:
    """A program, and the state that its calls may change."""

    function: Callable[..., Any]
    watch: Callable[[], Any] = lambda: None


@dataclass(frozen=True)
class Program:
    """A row of the table."""

    name: str
    build: Callable[[], Built]
    inputs: Callable[[int], tuple[Any, ...]]
    keywords: Callable[[int], dict[str, Any]] = lambda call: {}
    before: Callable[[int], None] = lambda call: None
    """Changes the world before call number `call`, the same for both twins."""
    globals: Mapping[str, Any] = field(default_factory=dict)
    """Start values of names in the program's module; each twin has its own."""
    one_side: str = ""
    """Why there is no tensor operation to compile on one of the sides, if there is none."""
    unsettled: str = ""
    """Why repeated calls may compile again, if they may: each call meets another state."""


#: Every row, by name.
PROGRAMS: Final[dict[str, Program]] = {}


def quarters(*shape: int) -> Tensor:
    """Random multiples of a quarter, from -2 to 2."""
    return torch.randint(-8, 9, shape).float() / 4


def rows(call: int) -> tuple[Any, ...]:
    return (quarters(SIZES[call], COLUMNS),)


def two(call: int) -> tuple[Any, ...]:
    return quarters(SIZES[call], COLUMNS), quarters(SIZES[call], COLUMNS)


def leaf(call: int) -> tuple[Any, ...]:
    return (quarters(SIZES[call], COLUMNS).requires_grad_(),)


def rows_and_number(call: int) -> tuple[Any, ...]:
    return quarters(SIZES[call], COLUMNS), SEEDS[call] + 2


def rows_and_flag(call: int) -> tuple[Any, ...]:
    return quarters(SIZES[call], COLUMNS), SEEDS[call] % 2 == 0


def program(
    inputs: Callable[[int], tuple[Any, ...]] = rows, **settings: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A plain function is a program."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        _add(function.__name__, lambda: Built(function), inputs, settings)
        return function

    return add


def built(
    inputs: Callable[[int], tuple[Any, ...]] = rows, **settings: Any
) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """A function that makes the program, with state of its own, is named as the program."""

    def add(build: Callable[[], Built]) -> Callable[[], Built]:
        _add(build.__name__, build, inputs, settings)
        return build

    return add


def module(
    inputs: Callable[[int], tuple[Any, ...]] = rows, **settings: Any
) -> Callable[[type[torch.nn.Module]], type[torch.nn.Module]]:
    """A class of modules is a program: its forward."""

    def add(kind: type[torch.nn.Module]) -> type[torch.nn.Module]:
        def build() -> Built:
            torch.default_generator.manual_seed(0)
            made = kind()
            return Built(made, lambda: made)

        _add(kind.__name__, build, inputs, settings)
        return kind

    return add


def _add(
    name: str,
    build: Callable[[], Built],
    inputs: Callable[[int], tuple[Any, ...]],
    settings: dict[str, Any],
) -> None:
    assert name not in PROGRAMS, f"two programs have the name {name}"
    PROGRAMS[name] = Program(name, build, inputs, **settings)
