"""Functions whose code is split at boundaries: it calls regions, and is bound to their cells."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from anyshape.capture.outline.boundaries import Boundaries
from anyshape.capture.outline.regions import REGIONS
from anyshape.capture.outline.routing import ROUTE
from anyshape.capture.outline.split import SplitCode
from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class BoundSplit:
    """A function in parts, and what it was made of."""

    code: types.CodeType
    version: int
    defaults: tuple[Any, ...] | None
    named_defaults: dict[str, Any] | None
    bound: types.FunctionType | None


class SplitFunction:
    """A function in parts, as far as it is the same for all functions of its code."""

    def __init__(
        self,
        split: SplitCode,
        globals_: dict[str, Any],
        regions: list[Callable[..., Any]],
        route: Callable[..., Any],
    ) -> None:
        self._code = split.code
        self._globals = globals_
        self._cells = {REGIONS: types.CellType(regions), ROUTE: types.CellType(route)}

    def is_for(self, function: types.FunctionType) -> bool:
        return function.__globals__ is self._globals

    def bind(self, function: types.FunctionType) -> types.FunctionType:
        """The function in parts: with its globals, cells and default values."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        cells |= self._cells
        bound = types.FunctionType(
            self._code,
            self._globals,
            function.__name__,
            function.__defaults__,
            tuple(cells[name] for name in self._code.co_freevars),
        )
        bound.__kwdefaults__ = function.__kwdefaults__
        bound.__qualname__ = function.__qualname__
        return bound


def nothing_known(code: types.CodeType) -> Boundaries:
    """Of a function that cannot be compiled for a reason that has no place in it: all statements
    are Python, and only what they call is compiled."""
    made = Boundaries()
    last = max((line for *_, line in code.co_lines() if line is not None), default=0)
    for _ in range(2):
        made.add_span(code.co_firstlineno, last)
    return made
