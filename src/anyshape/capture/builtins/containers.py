"""Methods of containers: what they look at, what they compare, and what they change outside."""

from __future__ import annotations

import itertools
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.iteration import make_dict, sort
from anyshape.capture.builtins.model import Hooks
from anyshape.capture.externals.external_objects import ITERATORS, SETS
from anyshape.capture.externals.side_effects import base_of
from anyshape.capture.externals.untrace import untraced
from anyshape.guards.path import Path

VIEWS: Final = frozenset(["keys", "values", "items"])

_CHANGES: Final[dict[type, frozenset[str]]] = {
    list: frozenset(
        {
            *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"),
            *("__setitem__", "__delitem__", "__iadd__", "__imul__"),
        }
    ),
    dict: frozenset(
        {
            *("update", "setdefault", "pop", "popitem", "clear", "move_to_end"),
            *("__setitem__", "__delitem__"),
        }
    ),
    set: frozenset(
        {
            *("add", "update", "discard", "remove", "pop", "clear", "difference_update"),
            *("intersection_update", "symmetric_difference_update"),
            *("__ior__", "__iand__", "__isub__", "__ixor__"),
        }
    ),
    deque: frozenset(
        {
            *("append", "appendleft", "pop", "popleft", "extend", "extendleft", "clear"),
            *("rotate", "insert", "remove", "reverse"),
            *("__setitem__", "__delitem__", "__iadd__", "__imul__"),
        }
    ),
}

#: Methods that take over everything from an iterable, and how they do it for one item after the
#: other: a generator sees the container grow, and what it gave before it raised stays.
_GROWING: Final[dict[type, dict[str, Callable[..., Any] | None]]] = {
    list: {"extend": list.append, "__iadd__": list.append},
    deque: {"extend": deque.append, "extendleft": deque.appendleft, "__iadd__": deque.append},
    set: {
        "update": set.add,
        "difference_update": set.discard,
        "intersection_update": None,
        "symmetric_difference_update": None,
    },
}


def container_method(
    hooks: Hooks,
    kind: type,
    bound: Any,
    owner: Any,
    name: str,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    path = hooks.tracer.path_of(owner)
    if name == "__init__":
        return _init_container(hooks, kind, bound, owner, path, args, kwargs)
    if kind is dict and (name == "update" or (name == "__ior__" and args)) and len(args) < 2:
        _update(hooks, bound, owner, path, args, kwargs)
        return owner if name == "__ior__" else None
    if name == "sort" and not args and kwargs.keys() <= {"key", "reverse"}:
        return _sort_list(hooks, owner, path, kwargs)
    if path is not None and name in _GROWING.get(kind, ()):
        takes_any = kind is set and name != "symmetric_difference_update"
        if kwargs or (len(args) != 1 and not takes_any):
            return bound(*args, **kwargs)  # raises
        return _grow(hooks, kind, owner, path, name, args)
    if kind is set and name == "pop" and len(owner) > 1:
        if path is not None:
            raise AbortCapture(
                "which member of a set from outside the function goes first depends on its history"
            )
        hooks.in_this_order(owner)
    if kind in (set, frozenset) and name in _SET_ALGEBRA:
        args = tuple(_members(hooks, arg) for arg in args)
    elif name in ("extend", "extendleft"):
        args = tuple(map(hooks.iterate, args))
    try:
        args = _checked(hooks, kind, owner, path, name, args)
        if hooks.tracer.active and path is not None:
            if name in _CHANGES.get(kind, ()):
                return _change(hooks, kind, owner, path, name, args, kwargs)
            return _read_outside(hooks, kind, owner, path, name, args, kwargs)
    except AbortCapture as left:
        # An iterator among the arguments may be used up: what was in it is in `args`.
        hooks.tracer.leave_for(left)
    if hooks.tracer.active:
        return bound(*args, **kwargs)
    return bound(*map(untraced, args), **{key: untraced(value) for key, value in kwargs.items()})


def _checked(
    hooks: Hooks, kind: type, owner: Any, path: Path | None, name: str, args: tuple[object, ...]
) -> tuple[object, ...]:
    """Arguments as native code may use them: positions and keys are plain, what is compared is
    known."""
    if kind is dict and name in _BY_KEY and args:
        args = (hooks.key(args[0]), *args[1:])
    elif kind in (set, frozenset) and name in _BY_MEMBER:
        args = tuple(map(hooks.key, args))
    elif name in _COMPARING:
        args = tuple(hooks.specialized(arg, f"`{name}` compares it") for arg in args)
        if kind in (list, tuple, deque) and name in ("index", "count", "remove"):
            items = list(owner) if path is None else hooks.outside.contents(owner, path)
            hooks.one_object(hooks.specialized(items, f"`{name}` compares it"))
            hooks.one_object([*args[:1]])
    if name in _BY_POSITION and args:
        args = (_position(hooks, args[0]), *args[1:])
    return args


def _position(hooks: Hooks, value: object) -> object:
    """A position in a container, or a slice of it."""
    protocol = "anything" if type(value) is slice else "index"
    return hooks.specialized(value, "a position in a container", protocol)


_BY_KEY: Final = frozenset(
    [
        *("get", "pop", "setdefault", "move_to_end"),
        *("__getitem__", "__setitem__", "__delitem__", "__contains__"),
    ]
)
_BY_POSITION: Final = frozenset(
    [
        *("insert", "pop", "rotate", "__getitem__", "__setitem__", "__delitem__"),
        *("__mul__", "__rmul__", "__imul__"),
    ]
)
_BY_MEMBER: Final = frozenset(["add", "discard", "remove", "__contains__"])
_SET_ALGEBRA: Final = frozenset(
    [
        *("union", "intersection", "difference", "symmetric_difference"),
        *("update", "intersection_update", "difference_update", "symmetric_difference_update"),
        *("issubset", "issuperset", "isdisjoint"),
    ]
)
#: Methods that compare what they are given with what is in the container.
_COMPARING: Final = (_SET_ALGEBRA | _BY_KEY | _BY_MEMBER) - {
    *("update", "pop", "__setitem__", "__delitem__")
} | {"index", "count", "sort", "__eq__", "__ne__", "__lt__"}


def _init_container(
    hooks: Hooks,
    kind: type,
    bound: Any,
    owner: object,
    path: Path | None,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> None:
    if path is not None:
        raise AbortCapture(f"`{kind.__name__}.__init__` of an object from outside the function")
    if isinstance(owner, defaultdict) and args:
        bound(args[0])
        args = args[1:]
    if kind is dict and len(args) < 2:
        _update(hooks, types.MethodType(base_of(owner).update, owner), owner, None, args, kwargs)
    elif kind is set:
        bound(*(_members(hooks, arg) for arg in args), **kwargs)
    else:
        bound(*(hooks.iterate(arg) for arg in args), **kwargs)


def _members(hooks: Hooks, arg: object) -> object:
    if isinstance(arg, SETS) and hooks.tracer.path_of(arg) is None:
        return arg
    return hooks.members(arg)


def change_in_place(
    hooks: Any, name: str, owner: object, path: Path | None, other: object
) -> object:
    """`owner += other` and the like, of a container from outside."""
    method = f"__i{name}__"
    kind = next((base for base in _CHANGES if isinstance(owner, base)), None)
    if kind is None or (kind is not dict and method not in _CHANGES[kind]):
        raise AbortCapture(
            f"a {type(owner).__name__} from outside the function is changed in place"
        )
    if kind is set:
        if not isinstance(other, SETS):
            raise AbortCapture("a set from outside the function is combined with what is no set")
        other = hooks.specialized(hooks.operand(other), "it is a member of a set")
    bound = types.MethodType(getattr(base_of(owner), method), owner)
    return container_method(hooks, kind, bound, owner, method, (other,), {})


def _read_outside(
    hooks: Hooks,
    kind: type,
    owner: Any,
    path: Path,
    name: str,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    outside = hooks.outside
    if name not in _READS and name not in _SET_ALGEBRA:
        raise AbortCapture(f"`{name}` of a {type(owner).__name__} from outside the function")
    if kind is dict and name == "get" and args:
        if outside.has_key(owner, path, args[0]):
            return outside.item(owner, path, args[0])
        return args[1] if len(args) > 1 else None
    if name == "__getitem__" and kind not in (set, frozenset):
        return outside.item(owner, path, *args)
    if name == "__contains__" and kind is dict:
        return outside.has_key(owner, path, *args)
    if name == "__len__" and not args:
        return outside.length(owner, path)
    if name == "__iter__" and not args:
        return outside.each(owner, path)
    if name in VIEWS and not args:
        return outside.view(owner, path, name)
    if name in _OPERATORS:
        args = tuple(map(hooks.operand, args))
    if kind in (set, frozenset):
        members = outside.members if name in _WITHOUT_ORDER else outside.contents
        return getattr(base_of(owner), name)(members(owner, path), *args, **kwargs)
    return getattr(_copy(hooks, kind, owner, path), name)(*args, **kwargs)


def _copy(hooks: Hooks, kind: type, owner: Any, path: Path) -> Any:
    """A container of the built-in kind with the same contents."""
    contents = hooks.outside.contents(owner, path)
    if kind is deque:
        return deque(contents, hooks.outside.bound(owner, path))
    if isinstance(owner, defaultdict):
        factory = hooks.tracer.read(owner.default_factory, path.attribute("default_factory"))
        return defaultdict(factory, contents)
    return base_of(owner)(contents)


_OPERATORS: Final = frozenset(
    f"__{name}__"
    for name in (
        *("eq", "ne", "lt", "le", "gt", "ge", "add", "or", "ror", "and", "rand"),
        *("sub", "rsub", "xor", "rxor"),
    )
)
_WITHOUT_ORDER: Final = frozenset(
    [
        *("issubset", "issuperset", "isdisjoint", "__contains__"),
        *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"),
    ]
)
_READS: Final = frozenset(
    [
        *VIEWS,
        *_OPERATORS,
        *("get", "copy", "index", "count", "__copy__", "__getitem__", "__contains__", "__len__"),
        *("__iter__", "__reversed__", "__mul__", "__rmul__", "__hash__"),
    ]
)


# -- changes ---------------------------------------------------------------------------------------


def _grow(
    hooks: Hooks, kind: Any, owner: object, path: Path, name: str, args: tuple[object, ...]
) -> object:
    """A container from outside takes over what is in others."""
    one = _GROWING[kind][name]
    for arg in args:
        items = hooks.iterate(arg)
        if kind is set:
            items = map(hooks.key, items)
        if one is not None and isinstance(arg, ITERATORS):
            for item in items:
                _perform(hooks, owner, path, one, item)
        else:
            # Only a list asks for the length of what it takes over.
            taken = list(items if kind is list else deque(items))
            _perform(hooks, owner, path, getattr(kind, name), taken)
    return owner if name == "__iadd__" else None


def _perform(hooks: Hooks, owner: object, path: Path, function: Any, *args: object) -> object:
    """Change a container from outside; natively where that cannot be traced, because an iterator
    that gave the arguments cannot be asked again."""
    if hooks.tracer.active:
        try:
            return hooks.outside.method(owner, path, function, args)
        except AbortCapture as left:
            hooks.tracer.leave_for(left)
    return function(owner, *map(untraced, args))


def _update(
    hooks: Hooks,
    bound: Any,
    owner: Any,
    path: Path | None,
    args: tuple[object, ...],
    kwargs: dict[str, object],
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


def _store(hooks: Hooks, owner: object, path: Any, key: object, value: object) -> None:
    if hooks.tracer.active:
        try:
            hooks.outside.set_item(owner, path, key, value)
            return
        except AbortCapture as left:
            hooks.tracer.leave_for(left)
    base_of(owner).__setitem__(owner, untraced(key), untraced(value))


def _pairs(hooks: Hooks, base: object, given: object) -> Iterable[tuple[object, object]]:
    if isinstance(given, dict) or hasattr(given, "keys"):
        return make_dict(hooks, given).items()
    return _each_pair(hooks, base, given)


def _each_pair(hooks: Hooks, base: Any, given: object) -> Iterator[tuple[object, object]]:
    for count, pair in enumerate(hooks.iterate(given)):
        parts = tuple(hooks.unpack(pair)) if hasattr(type(pair), "__iter__") else pair
        if type(parts) is not tuple or len(parts) != 2:
            base([((), ())] * count + [parts])  # raises, with the number of the pair
        yield hooks.key(parts[0]), parts[1]


def _sort_list(hooks: Hooks, owner: Any, path: Path | None, kwargs: dict[str, object]) -> None:
    if path is None:
        _sort_own(hooks, owner, kwargs)
        return
    ordered = sort(hooks, owner, **kwargs)
    if hooks.tracer.active:
        hooks.outside.set_item(owner, path, slice(None), ordered)
    else:
        owner[:] = untraced(ordered)


def _sort_own(hooks: Hooks, owner: list[Any], kwargs: dict[str, object]) -> None:
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


def _change(
    hooks: Hooks,
    kind: type,
    owner: Any,
    path: Path,
    name: str,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
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


def _remove(hooks: Hooks, kind: Any, owner: object, path: Path, value: object) -> None:
    contents = hooks.outside.contents(owner, path)
    if any(isinstance(item, torch.Tensor) for item in (value, *contents)):
        raise AbortCapture("`remove` compares tensors")
    try:
        index = contents.index(value)
    except ValueError:
        kind.remove(owner, value)  # raises, in its own words
        raise
    hooks.outside.delete_item(owner, path, index)
