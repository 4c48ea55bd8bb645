"""Models of functions that make, walk and reduce containers."""

from __future__ import annotations

import builtins
import functools
import types
from collections import OrderedDict, deque
from collections.abc import Callable, ItemsView, KeysView, ValuesView
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.builtins.pure import as_length
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt, maximum, minimum
from anyshape.capture.numbers.traced import is_of_data

_MISSING: Final = object()
CONTAINERS: Final = (list, tuple, dict, set, frozenset, deque)


def _len(hooks: Hooks, value: object) -> object:
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return hooks.recorder.run(torch.Tensor.__len__, (value,), {})
    own = getattr(kind, "__len__", None)
    if isinstance(own, types.FunctionType):
        hooks.attributes.class_attribute(kind, "__len__")
        return as_length(hooks.call(own, value))
    path = hooks.tracer.path_of(value)
    if isinstance(value, CONTAINERS):
        # The length of a container that the program made says nothing of what is in it.
        return len(value) if path is None else hooks.outside.length(value, path)
    return len(hooks.observe(value, "length"))


def _listed(kind: Callable[..., object]) -> Callable[..., object]:
    """A container made of an iterable."""

    def model(hooks: Hooks, *args: object) -> object:
        if not args:
            return kind()
        items = hooks.iterate(*args)
        if kind in (set, frozenset):
            items = map(hooks.key, items)
        return kind(items)

    return model


def _deque(hooks: Hooks, iterable: object = (), maxlen: object = None) -> deque[object]:
    most = hooks.specialized(maxlen, "a container is that long at most", "index")
    return deque(hooks.iterate(iterable), most)


def _dictionary(kind: Callable[..., Any]) -> Callable[..., Any]:
    """A dictionary of pairs, each of which is asked for when the one before is in it."""

    def model(hooks: Hooks, *args: object, **named: object) -> dict[Any, object]:
        if len(args) != 1:
            return kind(*args, **named)  # of nothing, or it raises
        (given,) = args
        if isinstance(given, dict) or hasattr(given, "keys"):
            return kind(hooks.mapping(given), **named)
        return kind((_pair(hooks, pair) for pair in hooks.iterate(given)), **named)

    return model


def _pair(hooks: Hooks, given: object) -> object:
    """What a dictionary takes for a key and its value; what it refuses, as it is."""
    own = type(given)
    if not hasattr(own, "__iter__") and not hasattr(own, "__getitem__"):
        return given
    parts = tuple(hooks.unpack(given))
    return (hooks.key(parts[0]), *parts[1:]) if len(parts) == 2 else parts


make_dict: Final = _dictionary(dict)


def _enumerate(hooks: Hooks, iterable: object, start: object = 0) -> object:
    return enumerate(
        hooks.iterate(iterable), hooks.specialized(start, "counting starts at it", "index")
    )


def _range(hooks: Hooks, *args: object) -> range:
    return range(*(hooks.specialized(arg, "the loop runs this often", "index") for arg in args))


def _filter(hooks: Hooks, function: object, iterable: object) -> object:
    if function is None:
        return (item for item in hooks.iterate(iterable) if hooks.truth(item))
    chosen = through(hooks, function)
    return filter(lambda item: hooks.truth(chosen(item)), hooks.iterate(iterable))


def through(hooks: Hooks, function: object) -> Callable[..., object]:
    """A function as native code may call it: its calls are seen."""
    return lambda *args, **kwargs: hooks.call(function, *args, **kwargs)


_VIEWS_OF_DICTS: Final = (KeysView, ValuesView, ItemsView)


def _reversed(hooks: Hooks, value: object) -> object:
    own = getattr(type(value), "__reversed__", None)
    if isinstance(own, types.FunctionType):
        return hooks.iterate_over(hooks.call(own, value))
    if isinstance(value, _VIEWS_OF_DICTS):
        return reversed(list(hooks.iterate(value)))
    if isinstance(value, (list, tuple, dict, range, str, deque)):
        path = hooks.tracer.path_of(value)
        return reversed(value if path is None else list(hooks.outside.contents(value, path)))
    if not isinstance(getattr(type(value), "__getitem__", None), types.FunctionType):
        return reversed(hooks.observe(value, "reversed"))
    # Whatever else has a length and positions.
    size = hooks.call(len, value)
    return (hooks.item(value, index) for index in range(size - 1, -1, -1))


def _iter(hooks: Hooks, *args: object) -> object:
    if len(args) != 1:
        if len(args) != 2 or not callable(args[0]):
            return iter(*args)  # raises
        return iter(through(hooks, args[0]), Sought(hooks, args[1]))
    own = getattr(type(args[0]), "__iter__", None)
    if isinstance(own, types.FunctionType):
        hooks.attributes.class_attribute(type(args[0]), "__iter__")
        return hooks.call(own, args[0])
    return iter(hooks.iterate(args[0]))


class Sought:
    """A value as native code looks for it: equal to what it is, and to what `==` says."""

    __slots__ = ("_hooks", "_value")

    def __init__(self, hooks: Hooks, value: object) -> None:
        self._hooks = hooks
        self._value = value

    def __eq__(self, other: object) -> bool:
        return self._hooks.equals(self._value, other)

    __hash__ = None  # pyright: ignore[reportAssignmentType] nothing is to find it by its hash


def _next(hooks: Hooks, iterator: Any, *default: object) -> object:
    own = getattr(type(iterator), "__next__", None)
    if isinstance(own, types.FunctionType):
        hooks.attributes.class_attribute(type(iterator), "__next__")
        try:
            return hooks.call(own, iterator)
        except StopIteration:
            if default:
                return default[0]
            raise
    if hooks.tracer.path_of(iterator) is not None:
        raise AbortCapture("an iterator from outside the function is advanced")
    return next(iterator, *default)


def _sum(hooks: Hooks, iterable: Any, start: object = 0) -> object:
    if isinstance(start, (str, bytes, bytearray)):
        return sum(iterable, start)  # raises
    result = start
    for item in hooks.iterate(iterable):
        result = hooks.binary("add", result, item)
    return result


def _extremum(name: str, better: str) -> Callable[..., object]:
    native: Callable[..., Any] = getattr(builtins, name)
    traced = minimum if name == "min" else maximum

    def model(
        hooks: Hooks, *args: object, key: object = None, default: object = _MISSING
    ) -> object:
        if not args:
            return native()  # raises
        items = iter(hooks.iterate(args[0]) if len(args) == 1 else args)
        best = best_key = _MISSING
        for item in items:
            value = item if key is None else hooks.call(key, item)
            if best is _MISSING:
                best, best_key = item, value
            elif key is None and _are_plain_numbers(best, item):
                best = best_key = traced(best, item)
            elif hooks.truth(hooks.compare(better, value, best_key)):
                best, best_key = item, value
        if best is _MISSING:
            return native(()) if default is _MISSING else default
        return best

    return model


def _are_plain_numbers(a: object, b: object) -> bool:
    """Whether the smaller or larger of two is computed, and no guard says which one it is."""
    kinds = {type(a), type(b)}
    return kinds <= {int, TracedInt} or (
        kinds <= {float, TracedFloat} and (is_of_data(a) or is_of_data(b))
    )


def sort(
    hooks: Hooks, iterable: object, *, key: object = None, reverse: object = False
) -> list[object]:
    items = list(hooks.iterate(iterable))
    keys = items if key is None else [hooks.call(key, item) for item in items]
    ordered = sorted(
        range(len(items)),
        key=lambda index: Sorted(hooks, keys[index]),
        reverse=hooks.truth(hooks.specialized(reverse, "it says which way to sort", "int")),
    )
    return [items[index] for index in ordered]


class Sorted:
    """A value as Python's own sorting compares it: by `<` alone, as often and in the same order."""

    __slots__ = ("_hooks", "_value")

    def __init__(self, hooks: Hooks, value: object) -> None:
        self._hooks = hooks
        self._value = value

    def __lt__(self, other: Sorted) -> bool:
        return self._hooks.truth(self._hooks.compare("lt", self._value, other._value))


MODELS: Final[Models] = {
    len: _len,
    **{kind: _listed(kind) for kind in (list, tuple, set, frozenset)},
    deque: _deque,
    dict: make_dict,
    OrderedDict: _dictionary(OrderedDict),
    slice: lambda hooks, *args: slice(*args),
    zip: lambda hooks, *args, strict=False: zip(
        *(hooks.iterate(arg) for arg in args), strict=strict
    ),
    enumerate: _enumerate,
    range: _range,
    map: lambda hooks, function, *args: map(
        through(hooks, function), *(hooks.iterate(arg) for arg in args)
    ),
    filter: _filter,
    reversed: _reversed,
    iter: _iter,
    next: _next,
    sum: _sum,
    any: lambda hooks, iterable: any(hooks.truth(item) for item in hooks.iterate(iterable)),
    all: lambda hooks, iterable: all(hooks.truth(item) for item in hooks.iterate(iterable)),
    min: _extremum("min", "lt"),
    max: _extremum("max", "gt"),
    sorted: sort,
    functools.reduce: lambda hooks, function, iterable, *start: functools.reduce(
        through(hooks, function), hooks.iterate(iterable), *start
    ),
}
