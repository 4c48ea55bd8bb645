"""Methods of built-in types, by name: what they look at, what they change, what they compare."""

from __future__ import annotations

import itertools
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.concolic import TracedFloat, TracedInt
from anyshape.capture.natives.iteration import CONTAINERS, make_dict, sort
from anyshape.capture.natives.numbers import prod
from anyshape.capture.natives.pure import no_own_code, pure
from anyshape.capture.outside import SETS
from anyshape.capture.tracer import ATOMS, Leave

Hooks = Any

_TRACED: Final = (TracedInt, TracedFloat)
_MISSING: Final = object()

_CHANGES: Final[dict[type, frozenset[str]]] = {
    list: frozenset(
        [
            "append",
            "extend",
            "insert",
            "pop",
            "remove",
            "clear",
            "sort",
            "reverse",
            "__setitem__",
            "__delitem__",
            "__iadd__",
        ]
    ),
    dict: frozenset(
        [
            "update",
            "setdefault",
            "pop",
            "popitem",
            "clear",
            "move_to_end",
            "__setitem__",
            "__delitem__",
        ]
    ),
    set: frozenset(
        [
            "add",
            "update",
            "discard",
            "remove",
            "pop",
            "clear",
            "difference_update",
            "intersection_update",
            "symmetric_difference_update",
        ]
    ),
    deque: frozenset(
        [
            "append",
            "appendleft",
            "pop",
            "popleft",
            "extend",
            "extendleft",
            "clear",
            "rotate",
            "insert",
        ]
    ),
}

#: Methods of containers that compare or hash what is in them.
_COMPARING: Final = frozenset(
    [
        "index",
        "count",
        "remove",
        "sort",
        "add",
        "discard",
        "__contains__",
        "__eq__",
        "__lt__",
        "__ne__",
        "union",
        "intersection",
        "difference",
        "issubset",
        "issuperset",
        "isdisjoint",
        "symmetric_difference",
        "difference_update",
        "intersection_update",
        "symmetric_difference_update",
        "update",
        "setdefault",
        "get",
        "pop",
        "__getitem__",
        "__setitem__",
        "__delitem__",
        "fromkeys",
        "move_to_end",
    ]
)


def unbound(
    hooks: Hooks, function: Any, home: type, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    return method(
        hooks,
        types.MethodType(function, args[0]),
        args[0],
        function.__name__,
        args[1:],
        kwargs,
        home,
    )


def method(
    hooks: Hooks,
    bound: Any,
    owner: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    home: type | None = None,
) -> Any:
    if name in _OBJECT_METHODS:
        found = _OBJECT_METHODS[name](hooks, bound, owner, args, kwargs)
        if found is not _MISSING:
            return found
    if isinstance(owner, type):
        return _class_method(hooks, bound, owner, name, args, kwargs)
    if type(owner) in _TRACED:
        method = getattr(hooks.fixed(owner, f"`{name}` of it"), name)
        return pure(hooks, method, args, kwargs)
    if type(owner) in ATOMS:
        if type(owner) is str and name == "join":
            return owner.join([*hooks.iterate(args[0])])
        if type(owner) is str and name in ("format", "__mod__"):
            for value in (*args, *kwargs.values()):
                hooks.format(value, None, "")
            if not hooks.tracer.active:
                return bound(*args, **kwargs)
        return pure(hooks, bound, args, kwargs)
    if isinstance(owner, torch.Size):
        if name == "numel":
            return prod(hooks, owner)
        return getattr(hooks.fixed(owner, f"`{name}` of a shape"), name)(
            *(hooks.fixed(arg, f"`{name}` of a shape") for arg in args)
        )
    for kind in (list, dict, set, deque, tuple, frozenset):
        if isinstance(owner, kind):
            return _container_method(hooks, kind, bound, owner, name, args, kwargs)
    if isinstance(owner, types.GeneratorType):
        if hooks.tracer.path_of(owner) is not None:
            raise Leave("a generator from outside is advanced")
        return bound(*args, **kwargs)
    raise Leave(f"`{name}` of a {type(owner).__name__} is native code without a model")


def _container_method(
    hooks: Hooks,
    kind: type,
    bound: Any,
    owner: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    path = hooks.tracer.path_of(owner)
    if name in ("__init__",):
        return bound(*(hooks.iterate(arg) for arg in args), **kwargs)
    if name in ("extend", "extendleft") or (kind in (set, frozenset) and name in _SET_ALGEBRA):
        args = tuple(
            arg
            if isinstance(arg, SETS) and hooks.tracer.path_of(arg) is None
            else list(hooks.iterate(arg))
            for arg in args
        )
    if name == "update" and kind is dict and args:
        args = (make_dict(hooks, args[0]),)
    if name == "sort":
        if path is not None:
            raise Leave("a list from outside is sorted")
        owner[:] = sort(hooks, owner, **kwargs)
        return None
    if kind is dict and name in _BY_KEY and args:
        args = (hooks.key(args[0]), *args[1:])
    elif kind in (set, frozenset) and name in _BY_MEMBER:
        args = tuple(map(hooks.key, args))
    elif name in _COMPARING and name not in ("update",):
        for arg in args:
            hooks.operand(arg)
        args = tuple(hooks.fixed(arg, f"`{name}` compares it") for arg in args)
        if kind in (list, tuple, deque) and name in ("index", "count", "remove"):
            hooks.operand(list(owner))
            if path is None:
                hooks.fixed(list(owner), f"`{name}` compares it")
    if name in _BY_POSITION and args:
        no_own_code(args[0], "__index__")
        args = (hooks.fixed(args[0], "a position in a container"), *args[1:])
    if path is None:
        return bound(*args, **kwargs)
    if name in _CHANGES.get(kind, ()):
        return _change(hooks, kind, owner, path, name, args, kwargs)
    return _read_outside(hooks, kind, owner, path, name, args, kwargs)


_BY_KEY: Final = frozenset(
    ["get", "pop", "setdefault", "__getitem__", "__setitem__", "__contains__"]
)
_BY_POSITION: Final = frozenset(
    ["insert", "pop", "rotate", "__getitem__", "__setitem__", "__delitem__", "__mul__"]
)
_BY_MEMBER: Final = frozenset(["add", "discard", "remove", "__contains__"])
_SET_ALGEBRA: Final = frozenset(
    [
        "union",
        "intersection",
        "difference",
        "symmetric_difference",
        "issubset",
        "issuperset",
        "isdisjoint",
        "update",
        "difference_update",
        "intersection_update",
        "symmetric_difference_update",
    ]
)


def _change(
    hooks: Hooks,
    kind: type,
    owner: Any,
    path: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if kwargs:
        if kind is dict and name == "update":
            args = ({**(args[0] if args else {}), **kwargs},)
        else:
            raise Leave(f"`{name}` with keywords")
    if name == "__setitem__":
        return hooks.outside.set_item(owner, path, *args)
    if name == "__delitem__":
        return hooks.outside.delete_item(owner, path, *args)
    if kind is dict and name == "update":
        for key, value in args[0].items() if args else ():
            hooks.outside.set_item(owner, path, key, value)
        return None
    if kind is dict and name == "setdefault":
        if hooks.outside.has_key(owner, path, args[0]):
            return hooks.outside.item(owner, path, args[0])
        key, *default = args
        value = default[0] if default else None
        hooks.outside.set_item(owner, path, key, value)
        return value
    base = OrderedDict if isinstance(owner, OrderedDict) else kind
    return hooks.outside.method(owner, path, getattr(base, name), args)


def _read_outside(
    hooks: Hooks,
    kind: type,
    owner: Any,
    path: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    outside = hooks.outside
    if kind is dict and name == "get":
        if outside.has_key(owner, path, args[0]):
            return outside.item(owner, path, args[0])
        return args[1] if len(args) > 1 else None
    if name == "__getitem__":
        return outside.item(owner, path, *args)
    if name == "__contains__" and kind is dict:
        return outside.has_key(owner, path, *args)
    if name == "__len__":
        return outside.length(owner, path)
    contents = outside.contents(owner, path)
    if kind in (set, frozenset):
        return getattr(owner, name)(*args, **kwargs)
    made = contents if kind is dict else kind(contents)
    if isinstance(owner, OrderedDict):
        made = OrderedDict(made)
    if name == "__iter__":
        return iter(made)
    return getattr(made, name)(*args, **kwargs)


def _class_method(
    hooks: Hooks, bound: Any, owner: type, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if name == "__new__":
        if owner is object and len(args) == 1:
            return object.__new__(args[0])
        if owner in (tuple, dict, list, OrderedDict, set) and args:
            return bound(args[0], *(hooks.iterate(arg) for arg in args[1:]))
        raise Leave(f"{owner.__name__}.__new__")
    if owner is dict and name == "fromkeys":
        return dict.fromkeys([hooks.key(key) for key in hooks.iterate(args[0])], *args[1:])
    if owner in (itertools.chain,) and name == "from_iterable":
        return (item for part in hooks.iterate(args[0]) for item in hooks.iterate(part))
    if owner in ATOMS or owner in (bytes, str):
        return pure(hooks, bound, args, kwargs)
    if name in ("mro", "__subclasses__"):
        return bound(*args)
    raise Leave(f"`{owner.__name__}.{name}` is native code without a model")


def _get_attribute(hooks: Hooks, bound: Any, owner: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(owner, (type, types.ModuleType)):
        return _MISSING
    return hooks.attributes.plain(owner, *args, fall_back=False)


def _set_attribute(hooks: Hooks, bound: Any, owner: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(owner, (type, types.ModuleType)):
        return _MISSING
    return hooks.attributes.set_plain(owner, *args)


def _init(hooks: Hooks, bound: Any, owner: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(owner, CONTAINERS):
        return _MISSING
    return None if not args and not kwargs else bound(*args, **kwargs)


_OBJECT_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "__getattribute__": _get_attribute,
    "__setattr__": _set_attribute,
    "__init__": _init,
    "__init_subclass__": lambda hooks, bound, owner, args, kwargs: bound(*args, **kwargs),
}
