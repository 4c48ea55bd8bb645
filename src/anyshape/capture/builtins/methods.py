"""Methods of built-in types, by name: what they look at, what they change, what they compare."""

from __future__ import annotations

import io
import itertools
import re
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.builtins.container_mutations import GROWING, change, grow, sort_list, update
from anyshape.capture.builtins.effects import write
from anyshape.capture.builtins.iteration import CONTAINERS
from anyshape.capture.builtins.numbers import prod
from anyshape.capture.builtins.process_queries import VERSION
from anyshape.capture.builtins.pure import is_constant, pure
from anyshape.capture.builtins.random_state import generator_method
from anyshape.capture.externals.external_objects import SETS
from anyshape.capture.externals.side_effects import base_of
from anyshape.capture.externals.untrace import untraced
from anyshape.capture.hooks.formatting import braces, percent
from anyshape.capture.numbers.traced_text import TRACED_VALUES, TracedText, joined
from anyshape.capture.tracer import ATOMS, AbortCapture

Hooks = Any

_TRACED: Final = TRACED_VALUES
_MISSING: Final = object()
_VIEWS: Final = frozenset(["keys", "values", "items"])

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
            "__imul__",
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
            "__ior__",
            "__iand__",
            "__isub__",
            "__ixor__",
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
            "remove",
            "reverse",
            "__setitem__",
            "__delitem__",
            "__iadd__",
            "__imul__",
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
    if args[0] is None:
        raise AbortCapture(f"`{function.__name__}` of None")
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
    if name == "join" and type(owner) in (str, TracedText) and len(args) == 1 and not kwargs:
        return _joined(hooks, owner, args[0])
    if type(owner) in _TRACED:
        method = getattr(hooks.specialized(owner, f"`{name}` of it"), name)
        return pure(hooks, method, args, kwargs)
    if type(owner) in ATOMS or type(owner) is VERSION:
        if type(owner) is str and name == "format":
            return braces(hooks, owner, args, kwargs)
        if type(owner) is str and name == "__mod__" and len(args) == 1:
            return percent(hooks, owner, *args)
        return pure(hooks, bound, args, kwargs)
    if isinstance(owner, torch.Size):
        if name == "numel":
            return prod(hooks, owner)
        return getattr(hooks.specialized(owner, f"`{name}` of a shape"), name)(
            *(hooks.specialized(arg, f"`{name}` of a shape") for arg in args)
        )
    for kind in (list, dict, set, deque, tuple, frozenset):
        if isinstance(owner, kind):
            return _container_method(hooks, kind, bound, owner, name, args, kwargs)
    if type(owner) is slice:
        plain = hooks.specialized(owner, f"`{name}` of a slice")
        return pure(hooks, getattr(plain, name), args, kwargs)
    if isinstance(owner, types.GeneratorType):
        if hooks.tracer.path_of(owner) is not None:
            raise AbortCapture("a generator from outside is advanced")
        return bound(*args, **kwargs)
    if type(owner) is torch.Generator and not kwargs:
        return generator_method(hooks, owner, name, args)
    if isinstance(owner, io.TextIOBase) and not kwargs:
        return write(hooks, bound, owner, args)
    if type(owner) in _READ_ONLY and hooks.tracer.path_of(owner) is None:
        return _read_only(hooks, bound, name, args, kwargs)
    if isinstance(owner, (re.Pattern, re.Match)):
        if hooks.outside.is_external(owner) and not is_constant(hooks, owner):
            raise AbortCapture(f"`{name}` of a {type(owner).__name__} from outside")
        return pure(hooks, bound, args, kwargs)
    raise AbortCapture(f"`{name}` of a {type(owner).__name__} is native code without a model")


#: Containers that show another one, which is guarded where it came from outside.
_READ_ONLY: Final = frozenset(
    {
        types.MappingProxyType,
        *(type(getattr(kind(), name)()) for kind in (dict, OrderedDict) for name in _VIEWS),
    }
)


def _read_only(
    hooks: Hooks, bound: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if kwargs or name not in _READS_ONLY:
        raise AbortCapture(
            f"`{name}` of a {type(bound.__self__).__name__} is native code without a model"
        )
    if name == "isdisjoint":
        return bound(*([hooks.key(item) for item in hooks.iterate(arg)] for arg in args))
    return bound(*(hooks.key(arg) for arg in args[:1]), *args[1:])


_READS_ONLY: Final = frozenset(
    [
        *(*_VIEWS, "get", "copy", "isdisjoint", "__contains__", "__getitem__"),
        *("__len__", "__iter__", "__reversed__"),
    ]
)


def _joined(hooks: Hooks, between: str, parts: Any) -> str:
    texts = list(hooks.iterate(parts))
    if not any(type(text) is TracedText for text in (between, *texts)):
        return between.join(texts)
    if not all(type(text) in (str, TracedText) for text in texts):
        return hooks.specialized(between, "it joins texts").join(
            hooks.specialized(texts, "they are joined")
        )
    spaced = [part for text in texts for part in (between, text)]
    return joined(tuple(spaced[1:]))


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
    if name == "__init__":
        return _init_container(hooks, kind, bound, owner, path, args, kwargs)
    if kind is dict and (name == "update" or (name == "__ior__" and args)) and len(args) < 2:
        update(hooks, bound, owner, path, args, kwargs)
        return owner if name == "__ior__" else None
    if name == "sort" and not args and kwargs.keys() <= {"key", "reverse"}:
        return sort_list(hooks, owner, path, kwargs)
    if path is not None and name in GROWING.get(kind, ()):
        takes_any = kind is set and name != "symmetric_difference_update"
        if kwargs or (len(args) != 1 and not takes_any):
            return bound(*args, **kwargs)  # raises
        return grow(hooks, kind, owner, path, name, args)
    if kind is set and name == "pop" and len(owner) > 1:
        if path is not None:
            raise AbortCapture(
                "which member of a set from outside goes first depends on its history"
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
                return change(hooks, kind, owner, path, name, args, kwargs)
            return _read_outside(hooks, kind, owner, path, name, args, kwargs)
    except AbortCapture as left:
        # An iterator among the arguments may be used up: what was in it is in `args`.
        hooks.tracer.leave_for(left)
    if hooks.tracer.active:
        return bound(*args, **kwargs)
    return bound(*map(untraced, args), **{key: untraced(value) for key, value in kwargs.items()})


def _checked(
    hooks: Hooks, kind: type, owner: Any, path: Any, name: str, args: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Arguments as native code may use them: positions and keys are plain, what is compared is
    known."""
    if kind is dict and name in _BY_KEY and args:
        args = (hooks.key(args[0]), *args[1:])
    elif kind in (set, frozenset) and name in _BY_MEMBER:
        args = tuple(map(hooks.key, args))
    elif name in _COMPARING and name not in ("update", "__setitem__", "__delitem__", "pop"):
        args = tuple(hooks.specialized(arg, f"`{name}` compares it") for arg in args)
        if kind in (list, tuple, deque) and name in ("index", "count", "remove"):
            hooks.one_object(hooks.specialized(_items(hooks, owner, path), f"`{name}` compares it"))
            hooks.one_object([*args[:1]])
    if name in _BY_POSITION and args:
        args = (_position(hooks, args[0]), *args[1:])
    return args


def _items(hooks: Hooks, owner: Any, path: Any) -> list[Any]:
    return list(owner) if path is None else hooks.outside.contents(owner, path)


def _position(hooks: Hooks, value: Any) -> Any:
    """A position in a container, or a slice of it."""
    if type(value) is slice:
        return hooks.specialized(value, "a position in a container")
    return hooks.specialized(value, "a position in a container", "index")


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


def _init_container(
    hooks: Hooks,
    kind: type,
    bound: Any,
    owner: Any,
    path: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    if path is not None:
        raise AbortCapture(f"`{kind.__name__}.__init__` of an object from outside")
    if isinstance(owner, defaultdict) and args:
        bound(args[0])
        args = args[1:]
    if kind is dict and len(args) < 2:
        update(hooks, types.MethodType(base_of(owner).update, owner), owner, None, args, kwargs)
    elif kind is set:
        bound(*(_members(hooks, arg) for arg in args), **kwargs)
    else:
        bound(*(hooks.iterate(arg) for arg in args), **kwargs)


def _members(hooks: Hooks, arg: Any) -> Any:
    if isinstance(arg, SETS) and hooks.tracer.path_of(arg) is None:
        return arg
    return hooks.members(arg)


def change_in_place(hooks: Hooks, name: str, owner: Any, path: Any, other: Any) -> Any:
    """`owner += other` and the like, of a container from outside."""
    method = f"__i{name}__"
    kind = next((base for base in _CHANGES if isinstance(owner, base)), None)
    if kind is None or (kind is not dict and method not in _CHANGES[kind]):
        raise AbortCapture(f"a {type(owner).__name__} from outside is changed in place")
    if kind is set:
        if not isinstance(other, SETS):
            raise AbortCapture("a set from outside is combined with what is no set")
        other = hooks.specialized(hooks.operand(other), "it is a member of a set")
    bound = types.MethodType(getattr(base_of(owner), method), owner)
    return _container_method(hooks, kind, bound, owner, method, (other,), {})


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
    if name not in _READS and name not in _SET_ALGEBRA:
        raise AbortCapture(f"`{name}` of a {type(owner).__name__} from outside")
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
    if name in _VIEWS and not args:
        return outside.view(owner, path, name)
    if name in _OPERATORS:
        args = tuple(map(hooks.operand, args))
    if kind in (set, frozenset):
        members = outside.members if name in _WITHOUT_ORDER else outside.contents
        return getattr(base_of(owner), name)(members(owner, path), *args, **kwargs)
    return getattr(_copy(hooks, kind, owner, path), name)(*args, **kwargs)


def _copy(hooks: Hooks, kind: type, owner: Any, path: Any) -> Any:
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
        *_VIEWS,
        *_OPERATORS,
        *("get", "copy", "index", "count", "__copy__", "__getitem__", "__contains__", "__len__"),
        *("__iter__", "__reversed__", "__mul__", "__rmul__", "__hash__"),
    ]
)


def _class_method(
    hooks: Hooks, bound: Any, owner: type, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if name == "__new__":
        if owner is object and len(args) == 1:
            return object.__new__(args[0])
        if owner in (tuple, dict, list, OrderedDict, set) and args:
            return bound(args[0], *(hooks.iterate(arg) for arg in args[1:]))
        raise AbortCapture(f"{owner.__name__}.__new__")
    if owner is dict and name == "fromkeys":
        return dict.fromkeys([hooks.key(key) for key in hooks.iterate(args[0])], *args[1:])
    if owner in (itertools.chain,) and name == "from_iterable":
        return (item for part in hooks.iterate(args[0]) for item in hooks.iterate(part))
    if owner in ATOMS or owner in (bytes, str):
        return pure(hooks, bound, args, kwargs)
    if name in ("mro", "__subclasses__"):
        return bound(*args)
    raise AbortCapture(f"`{owner.__name__}.{name}` is native code without a model")


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
    holder = getattr(getattr(bound, "__func__", bound), "__objclass__", None)
    if holder is not object and hooks.outside.is_external(owner):
        raise AbortCapture(f"a {type(owner).__name__} from outside is initialised again")
    return None if not args and not kwargs else bound(*args, **kwargs)


_OBJECT_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "__getattribute__": _get_attribute,
    "__setattr__": _set_attribute,
    "__init__": _init,
    "__init_subclass__": lambda hooks, bound, owner, args, kwargs: bound(*args, **kwargs),
}
