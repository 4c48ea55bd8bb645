"""Plain numbers for traced ones, where values leave a capture."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any, Final

import torch

from anyshape.capture.concolic import TracedFloat, TracedInt, plain
from anyshape.capture.plain_hooks import PlainHooks
from anyshape.capture.tracer import ATOMS, CODE

_CONTAINERS: Final = frozenset({list, dict, set, frozenset, OrderedDict, defaultdict, deque})


def stripped(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """A result with plain numbers for traced ones: what the first caller gets."""
    kind: type = type(value)
    if kind is TracedInt or kind is TracedFloat:
        return plain(value)
    if kind in ATOMS or isinstance(value, (torch.Tensor, *CODE)):
        return value
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = value
    if (
        kind is tuple
        or kind is torch.Size
        or (isinstance(value, tuple) and hasattr(kind, "_fields"))
    ):
        items = [stripped(item, seen) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        made = tuple.__new__(kind, items) if kind is not torch.Size else torch.Size(items)
        seen[id(value)] = made
        return made
    if kind is list:
        items: Any = value
        for index, item in enumerate(items):
            new = stripped(item, seen)
            if new is not item:
                items[index] = new
    elif isinstance(value, dict):
        for key, item in list(dict.items(value)):
            new = stripped(item, seen)
            if new is not item:
                dict.__setitem__(value, key, new)
    if kind not in _CONTAINERS and not isinstance(value, torch.nn.Module):
        held = getattr(value, "__dict__", None)
        if type(held) is dict:
            for key, item in list(held.items()):
                new = stripped(item, seen)
                if new is not item:
                    held[key] = new
    return value


class StrippingHooks(PlainHooks):
    """Plain Python after a capture was given up: traced numbers that are still about go nowhere."""

    def set_attribute(self, obj: Any, name: str, value: Any) -> None:
        setattr(obj, name, stripped(value))

    def set_item(self, obj: Any, key: Any, value: Any) -> None:
        obj[stripped(key)] = stripped(value)

    def store_global(self, frame: Any, name: str, value: Any) -> Any:
        return stripped(value)

    def store_free(self, frame: Any, name: str, value: Any) -> Any:
        return stripped(value)

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        return function(
            *map(stripped, args), **{name: stripped(value) for name, value in kwargs.items()}
        )
