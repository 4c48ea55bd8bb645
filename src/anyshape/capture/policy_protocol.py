"""Who says which sizes and numbers of a call are dynamic, as the tracer asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import torch

from anyshape.guards.guard import Frame, Kind, SymbolSource
from anyshape.guards.path import Path
from anyshape.symbolic import Expr, Fact, Facts, Range, Symbol


class Unbacked(NamedTuple):
    """A size that is not to be looked at: the range of its symbol."""

    range: Range


class DynamismPolicy(Protocol):
    """Who says which sizes and integers are dynamic (the policy, for one call)."""

    @property
    def in_region(self) -> bool:
        """Whether a region of a split function is compiled: it can be split once more."""
        ...

    @property
    def unlike(self) -> Collection[tuple[Kind, str]]:
        """What a region must not be compiled for: guards of these kinds on these paths have failed
        in every call so far."""
        ...

    @property
    def made_anew(self) -> Collection[str]:
        """Paths where calls had functions of the same code, and not the same one."""
        ...

    @property
    def exact_strides(self) -> bool:
        """Whether the strides of tensors with gaps are numbers."""
        ...

    def sizes(
        self, path: Path, tensor: torch.Tensor, owner: type | None
    ) -> Sequence[Range | Unbacked | None]:
        """For each dimension the range of its symbol, or None for a static one; `owner` is the
        class of the module that it was found on."""
        ...

    def integer(self, path: Path, value: int, owner: type | None) -> Range | None:
        """The range of the symbol for an integer, or None for a static one."""
        ...

    def is_dynamic_float(self, path: Path, value: float, owner: type | None) -> bool:
        """Whether the graph takes a float as an input."""
        ...

    def created(
        self, source: SymbolSource, hint: int, declared: Range, frame: Frame | None
    ) -> None:
        """A symbol was made."""
        ...

    def assumed(self, fact: Fact, reason: str, frame: Frame | None, facts: Facts) -> None:
        """A fact was assumed: a guard was added. `facts` have it."""
        ...

    def expected(self, fact: Fact, reason: str, frame: Frame | None) -> None:
        """A fact about data was taken to hold, and is checked when the program runs."""
        ...

    def same_symbol(self, value: int) -> Expr | None:
        """The symbol to use again for an equal size (duck shaping), if any."""
        ...

    def shared(self, source: SymbolSource, frame: Frame | None) -> None:
        """A symbol was used again for an equal size."""
        ...

    def made_of_data(self, symbol: Symbol, name: str, frame: Frame | None) -> None:
        """A symbol was made for a number that the graph computes; `name` is the program's."""
        ...

    def made(self, value: int, symbol: Expr) -> None:
        """A symbol for a size was made."""
        ...
