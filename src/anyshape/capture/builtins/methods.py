"""Methods of built-in types, by name: what they look at, what they change, what they compare."""

from __future__ import annotations

import enum
import io
import itertools
import re
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.containers import VIEWS, container_method
from anyshape.capture.builtins.effects import write
from anyshape.capture.builtins.iteration import CONTAINERS
from anyshape.capture.builtins.model import Hooks
from anyshape.capture.builtins.numbers import prod
from anyshape.capture.builtins.process_queries import VERSION
from anyshape.capture.builtins.pure import is_constant, pure
from anyshape.capture.builtins.random_state import generator_method
from anyshape.capture.externals.native_values import is_numpy_scalar
from anyshape.capture.hooks.formatting import braces, percent
from anyshape.capture.numbers.traced_text import TRACED_VALUES, TracedText, joined
from anyshape.capture.value_kinds import ATOMS
from anyshape.guards.guard import Kind

_MISSING: Final = object()


def unbound(
    hooks: Hooks, function: Any, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    owner, *rest = args
    if owner is None:
        raise AbortCapture(f"`{function.__name__}` of None")
    bound = types.MethodType(function, owner)
    return method(hooks, bound, owner, function.__name__, tuple(rest), kwargs)


def method(
    hooks: Hooks,
    bound: Any,
    owner: Any,
    name: str,
    args: tuple[object, ...],
    kwargs: dict[str, Any],
) -> object:
    if name in _OBJECT_METHODS:
        found = _OBJECT_METHODS[name](hooks, bound, owner, args, kwargs)
        if found is not _MISSING:
            return found
    if isinstance(owner, type):
        return _class_method(hooks, bound, owner, name, args, kwargs)
    if name == "join" and type(owner) in (str, TracedText) and len(args) == 1 and not kwargs:
        return _joined(hooks, owner, args[0])
    if type(owner) in TRACED_VALUES:
        method = getattr(hooks.specialized(owner, f"`{name}` of it"), name)
        return pure(hooks, method, args, kwargs)
    if isinstance(owner, enum.Enum) and isinstance(owner, tuple(_ENUMERATED)):
        owner = _as_data(hooks, owner, name)
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
    for kind in CONTAINERS:
        if isinstance(owner, kind):
            return container_method(hooks, kind, bound, owner, name, args, kwargs)
    if type(owner) is types.FunctionType and name == "__get__":
        return bound(*args, **kwargs)  # a method of what it is given
    if type(owner) is slice:
        plain = hooks.specialized(owner, f"`{name}` of a slice")
        return pure(hooks, getattr(plain, name), args, kwargs)
    if isinstance(owner, types.GeneratorType):
        if hooks.tracer.path_of(owner) is not None:
            raise AbortCapture("a generator from outside the function is advanced")
        return bound(*args, **kwargs)
    if type(owner) is torch.Generator and not kwargs:
        return generator_method(hooks, owner, name, args)
    if isinstance(owner, io.TextIOBase) and not kwargs:
        return write(hooks, bound, owner, args)
    if type(owner) in _READ_ONLY and hooks.tracer.path_of(owner) is None:
        return _read_only(hooks, bound, name, args, kwargs)
    if isinstance(owner, (re.Pattern, re.Match)):
        if hooks.outside.is_external(owner) and not is_constant(hooks, owner):
            raise AbortCapture(f"`{name}` of a {type(owner).__name__} from outside the function")
        return pure(hooks, bound, args, kwargs)
    if is_numpy_scalar(type(owner)) and name in ("item", "tolist"):
        return pure(hooks, bound, args, kwargs)
    raise AbortCapture(f"cannot trace into `{name}` of a {type(owner).__name__}")


def _as_data(hooks: Hooks, member: Any, name: str) -> object:
    """The text or number that a member of an enumeration is, where a method is about that."""
    kind = next(kind for kind in _ENUMERATED if isinstance(member, kind))
    if name not in vars(kind) or name in _OF_THE_MEMBER:
        raise AbortCapture(f"cannot trace into `{name}` of a {type(member).__name__}")
    path = hooks.tracer.path_of(member)
    if path is not None:
        hooks.tracer.guard(Kind.IDENTITY, path, member)
    return _ENUMERATED[kind](member)


_ENUMERATED: Final[dict[type, Callable[[Any], object]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
}
#: Methods of texts and numbers that look at what the member is beside its value; so do all that
#: every object has.
_OF_THE_MEMBER: Final = frozenset(
    {"__format__", "__getattribute__", "__new__", "__sizeof__", "format"}
)

#: Containers that show another one, which is guarded where it came from outside.
_READ_ONLY: Final = frozenset(
    {
        types.MappingProxyType,
        *(type(getattr(kind(), name)()) for kind in (dict, OrderedDict) for name in VIEWS),
    }
)


def _read_only(
    hooks: Hooks, bound: Any, name: str, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    if kwargs or name not in _READS_ONLY:
        raise AbortCapture(f"cannot trace into `{name}` of a {type(bound.__self__).__name__}")
    if name == "isdisjoint":
        return bound(*(map(hooks.key, hooks.iterate(arg)) for arg in args))
    return bound(*(hooks.key(arg) for arg in args[:1]), *args[1:])


_READS_ONLY: Final = frozenset(
    [
        *(*VIEWS, "get", "copy", "isdisjoint", "__contains__", "__getitem__"),
        *("__len__", "__iter__", "__reversed__"),
    ]
)


def _joined(hooks: Hooks, between: str, parts: object) -> str:
    texts = list(hooks.iterate(parts))
    if not any(type(text) is TracedText for text in (between, *texts)):
        return between.join(texts)
    if not all(type(text) in (str, TracedText) for text in texts):
        return hooks.specialized(between, "it joins texts").join(
            hooks.specialized(texts, "they are joined")
        )
    spaced = [part for text in texts for part in (between, text)]
    return joined(tuple(spaced[1:]))


def _class_method(
    hooks: Hooks,
    bound: Any,
    owner: type,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, object],
) -> object:
    if name == "__new__":
        if owner is object and len(args) == 1:
            return object.__new__(args[0])
        if owner in (tuple, dict, list, OrderedDict, set) and args:
            return bound(args[0], *(hooks.iterate(arg) for arg in args[1:]))
        raise AbortCapture(f"{owner.__name__}.__new__")
    if owner is dict and name == "fromkeys":
        return dict.fromkeys(map(hooks.key, hooks.iterate(args[0])), *args[1:])
    if owner in (itertools.chain,) and name == "from_iterable":
        return (item for part in hooks.iterate(args[0]) for item in hooks.iterate(part))
    if owner in ATOMS or owner in (bytes, str):
        return pure(hooks, bound, args, kwargs)
    if name in ("mro", "__subclasses__"):
        return bound(*args)
    raise AbortCapture(f"cannot trace into `{owner.__name__}.{name}`")


def _get_attribute(hooks: Hooks, bound: object, owner: object, args: Any, kwargs: object) -> object:
    if isinstance(owner, (type, types.ModuleType)):
        return _MISSING
    return hooks.attributes.plain(owner, *args, fall_back=False)


def _set_attribute(hooks: Hooks, bound: object, owner: object, args: Any, kwargs: object) -> object:
    if isinstance(owner, (type, types.ModuleType)):
        return _MISSING
    return hooks.attributes.set_plain(owner, *args)


def _init(hooks: Hooks, bound: Any, owner: object, args: Any, kwargs: Any) -> object:
    if isinstance(owner, CONTAINERS):
        return _MISSING
    holder = getattr(getattr(bound, "__func__", bound), "__objclass__", None)
    if holder is not object and hooks.outside.is_external(owner):
        raise AbortCapture(
            f"a {type(owner).__name__} from outside the function is initialised again"
        )
    return None if not args and not kwargs else bound(*args, **kwargs)


_OBJECT_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "__getattribute__": _get_attribute,
    "__setattr__": _set_attribute,
    "__init__": _init,
    "__init_subclass__": lambda hooks, bound, owner, args, kwargs: bound(*args, **kwargs),
}
