"""Models of functions that ask objects about themselves."""

from __future__ import annotations

import copy
import functools
import types
import typing
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.hooks import copies
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt
from anyshape.capture.numbers.traced_text import TracedText
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Kind

_BY_IDENTITY: Final = (object.__hash__, torch.Tensor.__hash__)

_MISSING: Final = object()


def _class_test(native: Callable[..., bool], name: str) -> Callable[..., object]:
    """`isinstance` or `issubclass`, with the method of a metaclass that answers it."""
    of_instance = native is isinstance

    def model(hooks: Hooks, value: Any, kinds: object) -> bool:
        own = _type(hooks, value) if of_instance else value
        for kind in _flat(kinds):
            is_protocol = of_instance and getattr(kind, "_is_runtime_protocol", False)
            if is_protocol and hooks.outside.is_external(value):
                raise AbortCapture(
                    "a protocol looks at the attributes of an object from outside the function"
                )
            check = getattr(type(kind), name, None)
            if type(kind) is not type:
                hooks.attributes.class_attribute(type(kind), name)
            if isinstance(check, types.FunctionType) and not _is_plain_check(type(kind)):
                found = hooks.truth(hooks.call(check, kind, value))
            else:
                found = native(value, kind)
                hooks.attributes.classes.subclass(own, kind)
            if found:
                return True
        return False

    return model


def _flat(kinds: object) -> Iterator[object]:
    if isinstance(kinds, tuple):
        for kind in kinds:
            yield from _flat(kind)
    else:
        yield kinds


def _is_plain_check(metaclass: type) -> bool:
    return metaclass.__module__.partition(".")[0] in ("abc", "torch", "enum", "typing")


def _getattr(hooks: Hooks, obj: object, name: str, default: object = _MISSING) -> object:
    name = hooks.specialized(name, "it names an attribute")
    try:
        return hooks.attribute(obj, name)
    except AttributeError:
        if default is _MISSING:
            raise
        return default


def _hasattr(hooks: Hooks, obj: object, name: str) -> bool:
    try:
        hooks.attribute(obj, hooks.specialized(name, "it names an attribute"))
    except AttributeError:
        return False
    return True


def _callable(hooks: Hooks, value: object) -> bool:
    kind = type(value)
    if kind not in ATOMS and not isinstance(value, CODE):
        hooks.attributes.class_attribute(kind, "__call__")
    return callable(value)


def _type(hooks: Hooks, *args: object) -> Any:
    if len(args) != 1:
        raise AbortCapture("a class is made inside the function")
    kind = type(args[0])
    return {TracedInt: int, TracedFloat: float, TracedText: str}.get(kind, kind)


def _vars(hooks: Hooks, *args: object) -> object:
    if len(args) != 1:
        raise AbortCapture("vars()")
    try:
        return hooks.attribute(args[0], "__dict__")
    except AttributeError:
        return vars(args[0])  # raises, in its own words


def _super(hooks: Hooks, *args: Any) -> object:
    if len(args) != 2:
        raise AbortCapture("super() without its class and instance")
    owner, instance = args
    return super(owner, instance)


def _hash(hooks: Hooks, value: object) -> int:
    plain = hooks.specialized(value, "its hash", "hash")
    hooks.hashed(plain)
    if _is_hashed_by_identity(hooks, plain):
        raise AbortCapture("the hash of an object from outside the function: it is its identity")
    return hash(plain)


def _is_hashed_by_identity(hooks: Hooks, value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return any(_is_hashed_by_identity(hooks, part) for part in value)
    return hooks.outside.is_external(value) and type(value).__hash__ in _BY_IDENTITY


def _make_reference(hooks: Hooks, value: object, *callback: object) -> object:
    raise AbortCapture("a weak reference is made")


def follow_reference(hooks: Hooks, reference: Any) -> object:
    """What a weak reference from outside refers to: what it refers to then, or the same object in
    every run, if that is known by another path."""
    value = reference()
    path = hooks.tracer.path_of(reference)
    if path is None:
        raise AbortCapture("a weak reference of unknown origin")
    if value is not None and hooks.tracer.path_of(value) is None:
        hooks.tracer.guard(Kind.TYPE, path, type(reference))
        return hooks.tracer.read(value, path.referent())
    hooks.tracer.guard(Kind.PREDICATE, path, _RefersTo(reference))
    return value


class _RefersTo:
    """Whether a reference has the same referent as this one."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def __call__(self, reference: Any) -> bool:
        return reference() is self._reference()


def _module_to(hooks: Hooks, module: torch.nn.Module, *args: object, **kwargs: object) -> object:
    """`module.to(...)` where it is there already, which does nothing."""
    given: list[object] = []
    for value in args:
        if isinstance(value, torch.Tensor):  # Its device and dtype are meant.
            given += [hooks.attribute(value, "device"), hooks.attribute(value, "dtype")]
        else:
            given.append(hooks.specialized(value, "a module is moved there"))
    named = {key: hooks.specialized(x, "a module is moved there") for key, x in kwargs.items()}
    with torch._C.DisableTorchFunction():
        device, dtype, _, form = _PARSE_TO(*given, **named)
    if dtype is not None and not dtype.is_floating_point:
        raise AbortCapture("a module is converted to integers or complex numbers")  # or may warn
    each: Any
    for each in hooks.iterate(hooks.call(hooks.attribute(module, "modules"))):
        own = hooks.attributes.class_attribute(type(each), "_apply")
        if own is None or own[0] is not torch.nn.Module:
            raise AbortCapture(f"`to` of a {type(each).__name__}")
    for name in ("parameters", "buffers"):
        for each in hooks.iterate(hooks.call(hooks.attribute(module, name))):
            if device not in (None, hooks.attribute(each, "device")) or form is not None:
                raise AbortCapture("a module is moved inside the function")
            if dtype not in (None, hooks.attribute(each, "dtype")) and _is_converted(each):
                raise AbortCapture("a module is converted inside the function")
    return module


def _is_converted(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


_PARSE_TO: Any = torch._C._nn._parse_to  # pyright: ignore[reportAttributeAccessIssue] no stub has it

MODELS: Final[Models] = {
    torch.nn.Module.to: _module_to,
    isinstance: _class_test(isinstance, "__instancecheck__"),
    issubclass: _class_test(issubclass, "__subclasscheck__"),
    callable: _callable,
    getattr: _getattr,
    hasattr: _hasattr,
    setattr: lambda hooks, obj, name, value: hooks.set_attribute(
        obj, hooks.specialized(name, "it names an attribute"), value
    ),
    delattr: lambda hooks, obj, name: hooks.delete_attribute(
        obj, hooks.specialized(name, "it names an attribute")
    ),
    type: _type,
    vars: _vars,
    super: _super,
    object: lambda hooks: object(),
    weakref.ref: _make_reference,
    functools.partial: lambda hooks, *args, **kwargs: functools.partial(*args, **kwargs),
    types.MethodType: lambda hooks, function, owner: types.MethodType(function, owner),
    hash: _hash,
    typing.cast: lambda hooks, kind, value: value,
    copy.copy: copies.shallow,
    copy.deepcopy: copies.deep,
}
