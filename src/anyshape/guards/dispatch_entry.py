"""What the dispatcher is told of one compiled entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyshape.guards.guard import Guard, SymbolSource
from anyshape.guards.path import Path
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic import Expr


@dataclass(frozen=True, slots=True, eq=False)
class EntryPlan:
    """When an entry may run, and on what. Compared by identity."""

    guards: Sequence[Guard]
    #: where the values of symbols come from. A symbol's declared range is checked as well, and a
    #: symbol with more than one source has to have the same value at each
    symbols: Sequence[SymbolSource]
    #: the arguments of `run`: objects at paths, values of expressions, numbers
    inputs: Sequence[Path | Expr | int]
    run: Callable[..., object]
    #: if given, its first item counts the calls that took this entry
    counter: list[int] | None = None
    #: the objects that `run` itself writes attributes or items of
    writes: Sequence[Path] = ()
    #: what generated code made of this plan; the next dispatcher with this entry takes it over
    built: dict[str, object] = field(default_factory=dict[str, object], repr=False)
