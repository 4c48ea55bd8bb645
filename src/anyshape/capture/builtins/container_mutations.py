"""Methods that change containers, most of all those from outside."""

from __future__ import annotations

import itertools
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

from anyshape.capture.builtins.iteration import make_dict, sort
from anyshape.capture.externals.external_objects import ITERATORS
from anyshape.capture.externals.side_effects import base_of
from anyshape.capture.externals.untrace import untraced
from anyshape.capture.tracer import AbortCapture

Hooks = Any

#: Methods that take over everything from an iterable, and how they do it for one item after the
#: other: a generator sees the container grow, and what it gave before it raised stays.
GROWING: Final[dict[type, dict[str, Callable[..., Any] | None]]] = {
    list: {"extend": list.append, "__iadd__": list.append},
    deque: {"extend": deque.append, "extendleft": deque.appendleft, "__iadd__": deque.append},
    set: {
        "update": set.add,
        "difference_update": set.discard,
        "intersection_update": None,
        "symmetric_difference_update": None,
    },
}


def grow(hooks: Hooks, kind: Any, owner: Any, path: Any, name: str, args: tuple[Any, ...]) -> Any:
    """A container from outside takes over what is in others."""
    one = GROWING[kind][name]
    for arg in args:
        items = hooks.iterate(arg)
        if kind is set:
            items = map(hooks.key, items)
        if one is not None and isinstance(arg, ITERATORS):
            for item in items:
                _perform(hooks, owner, path, one, item)
        else:
            _perform(hooks, owner, path, getattr(kind, name), list(items))
    return owner if name == "__iadd__" else None


def _perform(hooks: Hooks, owner: Any, path: Any, function: Any, *args: Any) -> Any:
    """Change a container from outside; natively where that cannot be followed, because an iterator
    that gave the arguments cannot be asked again."""
    if hooks.tracer.active:
        try:
            return hooks.outside.method(owner, path, function, args)
        except AbortCapture as left:
            hooks.tracer.leave_for(left)
    return function(owner, *map(untraced, args))


def update(
    hooks: Hooks,
    bound: Any,
    owner: Any,
    path: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """`update` of a dictionary."""
    own = type(owner).__setitem__
    asked = isinstance(owner, OrderedDict) and isinstance(own, types.FunctionType)
    if path is None and not asked:
        bound(*(make_dict(hooks, arg) for arg in args), **kwargs)
        return
    for key, value in itertools.chain(
        *(_pairs(hooks, base_of(owner), arg) for arg in args), kwargs.items()
    ):
        if asked:  # an OrderedDict asks its own class to store
            hooks.set_item(owner, key, value)
        else:
            _store(hooks, owner, path, key, value)


def _store(hooks: Hooks, owner: Any, path: Any, key: Any, value: Any) -> None:
    if hooks.tracer.active:
        try:
            hooks.outside.set_item(owner, path, key, value)
            return
        except AbortCapture as left:
            hooks.tracer.leave_for(left)
    base_of(owner).__setitem__(owner, untraced(key), untraced(value))


def _pairs(hooks: Hooks, base: Any, given: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(given, dict) or hasattr(given, "keys"):
        return make_dict(hooks, given).items()
    return _each_pair(hooks, base, given)


def _each_pair(hooks: Hooks, base: Any, given: Any) -> Iterator[tuple[Any, Any]]:
    for count, pair in enumerate(hooks.iterate(given)):
        parts = tuple(hooks.unpack(pair)) if hasattr(type(pair), "__iter__") else pair
        if type(parts) is not tuple or len(parts) != 2:
            base([((), ())] * count + [parts])  # raises, with the number of the pair
        yield hooks.key(parts[0]), parts[1]


def sort_list(hooks: Hooks, owner: Any, path: Any, kwargs: dict[str, Any]) -> None:
    if path is None:
        _sort_own(hooks, owner, kwargs)
        return
    ordered = sort(hooks, owner, **kwargs)
    if hooks.tracer.active:
        hooks.outside.set_item(owner, path, slice(None), ordered)
    else:
        owner[:] = untraced(ordered)


def _sort_own(hooks: Hooks, owner: list[Any], kwargs: dict[str, Any]) -> None:
    """Sort a list of the program's: it is empty meanwhile, and must stay so."""
    ordered = list.copy(owner)
    list.clear(owner)
    try:
        ordered = sort(hooks, ordered, **kwargs)
    finally:
        was_changed = list.__len__(owner) > 0
        owner[:] = ordered
    if was_changed:
        raise ValueError("list modified during sort")


def change(
    hooks: Hooks,
    kind: type,
    owner: Any,
    path: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if kwargs.keys() == {"last"} and isinstance(owner, OrderedDict):
        args = (*args, hooks.truth(kwargs["last"]))
    elif kwargs:
        raise AbortCapture(f"`{name}` with keywords")
    if name == "__setitem__" and len(args) == 2:
        return hooks.outside.set_item(owner, path, *args)
    if name == "__delitem__" and len(args) == 1:
        return hooks.outside.delete_item(owner, path, *args)
    if name == "remove" and kind is not set and len(args) == 1:
        return _remove(hooks, kind, owner, path, *args)
    if kind is dict and name == "setdefault" and args:
        if hooks.outside.has_key(owner, path, args[0]):
            return hooks.outside.item(owner, path, args[0])
        key, *default = args
        value = default[0] if default else None
        hooks.outside.set_item(owner, path, key, value)
        return value
    result = hooks.outside.method(owner, path, getattr(base_of(owner), name), args)
    return owner if name in _RETURNS_ITSELF else result


_RETURNS_ITSELF: Final = frozenset(["__imul__", "__ior__", "__iand__", "__isub__", "__ixor__"])


def _remove(hooks: Hooks, kind: Any, owner: Any, path: Any, value: Any) -> None:
    contents = hooks.outside.contents(owner, path)
    if any(isinstance(item, torch.Tensor) for item in (value, *contents)):
        raise AbortCapture("`remove` compares tensors")
    try:
        index = contents.index(value)
    except ValueError:
        kind.remove(owner, value)  # raises, in its own words
        raise
    hooks.outside.delete_item(owner, path, index)
