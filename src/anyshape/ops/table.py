"""All rows, and which row a torch callable belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import torch

from anyshape.ops import rules
from anyshape.ops.op import Op

#: One module a family of operators: a new family is a new file in `rules/`. Where two rows answer
#: to one name, the first family in alphabetical order has it.
FAMILIES = tuple(
    import_module(f"{rules.__name__}.{module.name}") for module in iter_modules(rules.__path__)
)

ROWS: tuple[Op, ...] = tuple(row for family in FAMILIES for row in family.ROWS)


@dataclass(frozen=True, slots=True)
class Entry:
    """The row behind a callable, and whether the callable is its in-place form."""

    op: Op
    in_place: bool


def resolve(name: str) -> Callable[..., Any] | None:
    """The callable of that dotted name in this torch; None if it has none (names come and go
    between versions)."""
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


@lru_cache(maxsize=1)
def entries() -> dict[Callable[..., Any], Entry]:
    """Callable -> row, for every name of every row that this torch has."""
    found: dict[Callable[..., Any], Entry] = {}
    for op in ROWS:
        for names, in_place in ((op.answers_to, False), (op.in_place, True)):
            for name in names:
                function = resolve(name)
                if function is not None:
                    found.setdefault(function, Entry(op, in_place))
    return found


def lookup(function: Callable[..., Any]) -> Entry | None:
    """The row of a torch callable, or None."""
    try:
        return entries().get(function)
    except TypeError:  # not hashable, hence no operator
        return None
