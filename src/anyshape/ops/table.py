"""All rows, and which row a torch callable belongs to."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Set
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

import torch

from anyshape.ops import families
from anyshape.ops.op import Op
from anyshape.ops.origins import is_of_torch
from anyshape.support.lazy_dataclass import dataclass

#: One module a family of operators: a new family is a new file in `families/`. Where two rows
#: answer to one name, the first family in alphabetical order has it.
FAMILIES = tuple(
    import_module(f"{families.__name__}.{module.name}")
    for module in iter_modules(families.__path__)
)

ROWS: tuple[Op, ...] = tuple(row for family in FAMILIES for row in family.ROWS)


@dataclass(frozen=True, slots=True)
class OpMatch:
    """The row behind a callable, and whether the callable is its in-place form."""

    op: Op
    in_place: bool


def resolve(name: str) -> Callable[..., Any] | None:
    """The callable of that dotted name in this torch; None if it has none (names come and go
    between versions). What a library has put in its place is a function like any other."""
    place, _, last = name.rpartition(".")
    if place.startswith(families.__name__):
        return getattr(sys.modules[place], last)  # a function of our own, which graphs have
    home, names = _namespace(place)
    found = getattr(home, last, None) if names is None or last in names else None
    if found is None or is_of_torch(found):
        return found
    return getattr(_BEHIND.get(place), last, None)


def own_functions() -> list[Callable[..., Any]]:
    """Functions of ours that graphs call, each by a name of its own."""
    names = [name for row in ROWS for name in row.answers_to if name.startswith(families.__name__)]
    return [found for found in map(resolve, names) if found is not None]


#: Where torch itself has the functions of a namespace from.
_BEHIND: Final[dict[str, Any]] = {
    "torch": getattr(torch._C, "_VariableFunctions"),  # noqa: B009 no stub has it
    "torch.Tensor": torch._C.TensorBase,
}


@lru_cache
def _namespace(name: str) -> tuple[Any, Set[str] | None]:
    """What is found by that name, and the names in it, as far as they are known. There are
    thousands of names in a few places, and half of them are missing: an error each, if asked."""
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    if type(found) is types.ModuleType:  # those of `torch.ops` make names as they are asked for
        return found, vars(found).keys()
    if isinstance(found, type):
        return found, {name for kind in found.__mro__ for name in vars(kind)}
    return found, None


@lru_cache(maxsize=1)
def entries() -> dict[Callable[..., Any], OpMatch]:
    """Callable -> row, for every name of every row that this torch has."""
    found: dict[Callable[..., Any], OpMatch] = {}
    for op in ROWS:
        for names, in_place in ((op.answers_to, False), (op.in_place, True)):
            if not names:
                continue
            entry = OpMatch(op, in_place)
            for name in names:
                function = resolve(name)
                if function is not None:
                    found.setdefault(function, entry)
    return found


def lookup(function: Callable[..., Any]) -> OpMatch | None:
    """The row of a torch callable, or None."""
    try:
        return entries().get(function)
    except TypeError:  # not hashable, hence no operator
        return None
