"""The tensors and integers of a call, wherever in its arguments they are."""

from __future__ import annotations

import enum
import types
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import torch

from anyshape.guards.path import Path
from anyshape.shapes.bind_spec import Leaf

#: Objects whose attributes are not data of the call.
_NO_CONTAINERS: Final = (type, torch.nn.Module, types.FunctionType, types.ModuleType, enum.Enum)


def leaves_of(value: object, way: Path, seen: set[int]) -> Iterator[Leaf]:
    if isinstance(value, torch.Tensor):
        sizes = tuple(map(int, value.shape))
        yield Leaf(way, value, True, sizes, (None,) * len(sizes))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield Leaf(way, value, False, (int(value),), (None,))
    elif isinstance(value, list | tuple | dict):
        if id(value) in seen:
            return
        seen.add(id(value))
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in pairs:
            yield from leaves_of(item, way.item(key), seen)
    elif not isinstance(value, _NO_CONTAINERS):
        if id(value) in seen:
            return
        seen.add(id(value))
        for name, item in getattr(value, "__dict__", {}).items():
            yield from leaves_of(item, way.instance(name), seen)
        for name, item in _in_slots(value):
            yield from leaves_of(item, way.attribute(name), seen)


def _in_slots(value: object) -> Iterator[tuple[str, object]]:
    for kind in type(value).__mro__:
        for name, kept in vars(kind).items():
            if isinstance(kept, types.MemberDescriptorType) and "__slots__" in vars(kind):
                with suppress(AttributeError):
                    yield name, getattr(value, name)
