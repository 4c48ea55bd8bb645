"""What a capture hands on: the graph, what it is for, and how to make the result of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch.fx

from anyshape.guards.guard import Guard, SymbolSource
from anyshape.guards.path import Path
from anyshape.symbolic import Expr, Facts


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One way through the program, for all the sizes that its guards admit."""

    graph: torch.fx.GraphModule
    #: the inputs of the graph, in order, with their values in this run
    inputs: Sequence[Path | Expr]
    examples: Sequence[Any]
    #: what the program after the graph needs besides the graph's outputs
    extra: Sequence[Path | Expr]
    #: the program after the graph: lines of Python, names in them, the expression of the result
    lines: Sequence[str]
    namespace: dict[str, Any]
    result: str
    guards: Sequence[Guard]
    symbols: Sequence[SymbolSource]
    facts: Facts
    #: whether running the graph again from its start would change something twice
    repeatable: bool
    #: whether the graph switches modes of torch, which a failure must undo
    changes_state: bool
    #: whether it draws random numbers
    draws_random: bool
    defects: Sequence[str] = field(default=())
