"""What a call brings, seen before it is captured.

A capture meets sizes one by one and decides each at once; ranks must know each other's before the
first of these decisions. So the arguments are walked beforehand, under the same names that the
capture will have for them. What it finds elsewhere (globals, attributes of modules) is known from
the second compile on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch

from anyshape.policy.observations import Observation, of_int, of_sizes
from anyshape.support.lazy_dataclass import is_dataclass

#: Objects looked at in one call: an argument may be a whole data set.
_MOST: Final = 10_000


def seen_in(bound: Mapping[str, Any]) -> dict[str, Observation]:
    """The tensors and integers among the arguments, and within lists, tuples, dictionaries and
    dataclasses of them."""
    found: dict[str, Observation] = {}
    todo = [(f"L[{name!r}]", value) for name, value in reversed([*bound.items()])]
    entered: set[int] = set()
    for _ in range(_MOST):
        if not todo:
            break
        text, value = todo.pop()
        observation = _observation(value)
        if observation is not None:
            found[text] = observation
        elif id(value) not in entered:
            parts = list(_parts(text, value))
            if parts:
                entered.add(id(value))
                todo += reversed(parts)
    return found


def _observation(value: Any) -> Observation | None:
    if type(value) is int:
        return of_int(value)
    if not isinstance(value, torch.Tensor):
        return None
    sizes = tuple(value.shape)
    # A jagged tensor has sizes that are no numbers.
    return of_sizes(sizes) if all(type(size) is int for size in sizes) else None


def _parts(text: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The methods are those of the base classes: nothing of the program runs here."""
    if isinstance(value, list):
        yield from _items(text, enumerate(list.__iter__(value)))
    elif isinstance(value, tuple):
        yield from _items(text, enumerate(tuple.__iter__(value)))
    elif isinstance(value, dict):
        pairs = list(dict.items(value))
        yield from _items(text, (pair for pair in pairs if type(pair[0]) in (str, int)))
    elif is_dataclass(value) and not isinstance(value, type):
        held = getattr(value, "__dict__", {})
        if type(held) is dict:
            yield from ((f"{text}.{name}", part) for name, part in held.items())


def _items(text: str, pairs: Any) -> Iterator[tuple[str, Any]]:
    for key, part in pairs:
        yield f"{text}[{key!r}]", part
