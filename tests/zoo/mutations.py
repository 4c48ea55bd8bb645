"""Every place of a model's state that can be changed by one step, and the way back.

The walk starts at a module and enters instance dictionaries, lists, dictionaries and tuples. A
place is a primitive value, the structure of a container, a parameter or buffer, an attribute of a
class that was met, a global of that class's module, or a default argument of its functions.
"""

from __future__ import annotations

import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_DEEPEST = 10
#: Classes and globals of these are the interpreter's or the test's own, not a model's.
_NOT_OURS = ("builtins", "collections", "enum", "typing", "abc", "tests.zoo.mutations", "types")
#: The kinds of objects that have no state of their own to walk into.
_LEAVES = (type, types.FunctionType, types.ModuleType, types.MethodType, types.BuiltinFunctionType)


@dataclass(frozen=True)
class Site:
    """One place: `change` it, look, and `restore` it."""

    name: str
    change: Callable[[], None]
    restore: Callable[[], None]


def sites(module: nn.Module) -> list[Site]:
    """All places of the module, in an order that two builds of it share."""
    found = [*_of_object(module, "self", set(), 0)]
    classes = _classes(module)
    for cls in classes:
        found += _of_class(cls)
    for name in sorted({cls.__module__ for cls in classes}):
        found += _of_globals(name)
    return found


_SAME = object()


def mutated(value: Any) -> Any:
    """Another value of the same type; `_SAME` if it is no primitive."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.5 + 0.25
        case str():
            return value + "_x"
        case None:
            return 1
        case torch.dtype():
            return torch.float64 if value is not torch.float64 else torch.float32
        case _:
            return _SAME


def _of_object(value: Any, path: str, seen: set[int], depth: int) -> Iterator[Site]:
    if id(value) in seen or depth > _DEEPEST or isinstance(value, _LEAVES):
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield from _of_tensor(value, path)
        return
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        yield from _of_mapping(attributes, path, seen, depth)
    if isinstance(value, dict):
        yield from _of_mapping(value, path, seen, depth)
        yield from _of_keys(value, path)
    elif isinstance(value, list):
        yield from _of_list(value, path, seen, depth)
    elif isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from _of_object(part, f"{path}[{i}]", seen, depth + 1)


def _of_mapping(
    holder: MutableMapping[Any, Any], path: str, seen: set[int], depth: int
) -> Iterator[Site]:
    for key, value in list(holder.items()):
        name = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]"
        other = mutated(value)
        if other is not _SAME:
            yield _item(name, holder, key, value, other)
        elif type(value) is tuple and value and mutated(value[0]) is not _SAME:
            changed = (mutated(value[0]), *value[1:])
            yield _item(f"{name}[0]", holder, key, value, changed)
            yield _item(f"{name} shorter", holder, key, value, value[:-1])
        yield from _of_object(value, name, seen, depth + 1)


def _of_list(holder: list[Any], path: str, seen: set[int], depth: int) -> Iterator[Site]:
    kept = list(holder)

    def restore() -> None:
        holder[:] = kept

    if holder:
        yield Site(f"{path} shorter", lambda: holder.pop(), restore)
        yield Site(f"{path} longer", lambda: holder.append(kept[-1]), restore)
    if len(holder) > 1:
        yield Site(f"{path} reversed", holder.reverse, restore)
    for i, value in enumerate(kept):
        other = mutated(value)
        if other is not _SAME:
            yield _item(f"{path}[{i}]", holder, i, value, other)
        yield from _of_object(value, f"{path}[{i}]", seen, depth + 1)


def _of_keys(holder: dict[Any, Any], path: str) -> Iterator[Site]:
    """A key less, and another order: submodules run in the order of their dictionary."""
    kept = dict(holder)

    def restore() -> None:
        # Through the type's own methods: an OrderedDict keeps its order apart from the dict's.
        holder.clear()
        for key, value in kept.items():
            holder[key] = value

    def drop() -> None:
        del holder[next(reversed(kept))]

    def turn() -> None:
        first = next(iter(kept))
        if isinstance(holder, OrderedDict):
            holder.move_to_end(first)
        else:
            holder[first] = holder.pop(first)

    if holder:
        yield Site(f"{path} without its last key", drop, restore)
    if len(holder) > 1:
        yield Site(f"{path} in another order", turn, restore)


def _of_tensor(tensor: Tensor, path: str) -> Iterator[Site]:
    data = tensor.detach().clone()

    def change() -> None:
        with torch.no_grad():
            # Not by so much that norms take away all but the last digits of what it was.
            tensor.add_(tensor.detach().abs().mean() + 0.1 if tensor.is_floating_point() else 1)

    def restore() -> None:
        with torch.no_grad():
            tensor.copy_(data)

    def flip() -> None:
        tensor.requires_grad_(not tensor.requires_grad)

    yield Site(f"{path} values", change, restore)
    if tensor.is_leaf and tensor.dtype.is_floating_point:
        yield Site(f"{path} requires_grad", flip, flip)


def _of_class(cls: type) -> Iterator[Site]:
    for key, value in list(vars(cls).items()):
        name = f"{cls.__qualname__}.{key}"
        if key.startswith("__"):
            continue
        other = mutated(value)
        if other is not _SAME:
            yield _attribute(name, cls, key, value, other)
        elif isinstance(value, types.FunctionType):
            yield from _of_defaults(value, name)


def _of_defaults(function: types.FunctionType, name: str) -> Iterator[Site]:
    defaults, keywords = function.__defaults__ or (), function.__kwdefaults__
    for i, value in enumerate(defaults):
        other = mutated(value)
        if other is not _SAME:
            changed = (*defaults[:i], other, *defaults[i + 1 :])
            yield _attribute(f"{name} default {i}", function, "__defaults__", defaults, changed)
    for key, value in (keywords or {}).items():
        other = mutated(value)
        if other is not _SAME:
            yield _item(f"{name} default {key}", keywords, key, value, other)


def _of_globals(module: str) -> Iterator[Site]:
    names = vars(sys.modules[module])
    for key, value in list(names.items()):
        other = mutated(value)
        if other is not _SAME and not key.startswith("__"):
            yield _item(f"{module}.{key}", names, key, value, other)


def _item(name: str, holder: Any, key: Any, value: Any, other: Any) -> Site:
    def change() -> None:
        holder[key] = other

    def restore() -> None:
        holder[key] = value

    return Site(name, change, restore)


def _attribute(name: str, holder: Any, key: str, value: Any, other: Any) -> Site:
    return Site(name, lambda: setattr(holder, key, other), lambda: setattr(holder, key, value))


def _classes(module: nn.Module) -> list[type]:
    """The classes of the submodules and of their configurations, bases included."""
    found: dict[type, None] = {}
    for part in module.modules():
        for value in (part, getattr(part, "config", None)):
            for cls in type(value).__mro__:
                if cls is not object and not cls.__module__.startswith(_NOT_OURS):
                    found[cls] = None
    return list(found)
