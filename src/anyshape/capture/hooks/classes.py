"""What a class does when it is called, where Python's own machinery has written the code for it."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections import deque
from typing import Any, Final

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks
from anyshape.capture.hooks.class_lookups import is_trusted

_DATA: Final = (dict, list, set, tuple, frozenset, int, float, str, BaseException)
_IMMUTABLE: Final = (tuple, frozenset, int, float, str, BaseException)


def is_data(kind: type) -> bool:
    """Whether instances are made by a built-in type."""
    return issubclass(kind, _DATA)


def is_immutable(kind: type) -> bool:
    return issubclass(kind, _IMMUTABLE)


def value(hooks: Hooks, kind: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """A new instance of a subclass of a built-in type; what can change is still empty."""
    new: Any = kind.__new__
    if not is_immutable(kind):
        return new(kind)
    if issubclass(kind, (tuple, frozenset)):
        # Of the two, a tuple asks for the length of what it is made of.
        args = tuple(
            (list if issubclass(kind, tuple) else deque)(walked)
            for walked in map(hooks.iterate, args)
        )
    elif not issubclass(kind, BaseException):
        args = tuple(hooks.specialized(hooks.operand(arg), "it becomes a value") for arg in args)
    return new(kind, *args, **kwargs)


def is_named_tuple(kind: type) -> bool:
    if not issubclass(kind, tuple):
        return False
    return (
        makes_named_tuple(kind.__new__)
        and hasattr(kind, "_fields")
        and kind.__init__ is object.__init__
    ) or kind.__module__ == "torch.return_types"


def makes_named_tuple(function: object) -> bool:
    """Whether it is the `__new__` that `namedtuple` wrote, which has no source."""
    return str(getattr(function, "__module__", "")).startswith("namedtuple_")


def member(hooks: Hooks, kind: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """A member of an enumeration by its value."""
    found = hooks.attributes.class_attribute(kind, "_missing_")
    if found is not None and not is_trusted(found[0].__module__):
        raise AbortCapture(f"{kind.__name__} has its own way to find a member")
    return kind(*(hooks.specialized(arg, "it names a member") for arg in args), **kwargs)


# -- dataclasses -----------------------------------------------------------------------------------

_CLASSVAR: Final = dataclasses._FIELD_CLASSVAR  # pyright: ignore[reportAttributeAccessIssue] no public name
_INITVAR: Final = dataclasses._FIELD_INITVAR  # pyright: ignore[reportAttributeAccessIssue] no public name


def is_generated(holder: type, init: types.FunctionType) -> bool:
    """Whether `dataclass` wrote the `__init__` of a class, which then has no source."""
    return "__dataclass_fields__" in holder.__dict__ and init.__code__.co_filename == "<string>"


def dataclass_init(
    hooks: Hooks,
    holder: Any,
    init: types.FunctionType,
    made: object,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> None:
    """What the `__init__` does that `dataclass` wrote for `holder`, a class of the object made.

    Default values are those of the function: the class's attributes may be others by now.
    """
    hooks.callables.defaults(init)
    try:
        bound = inspect.signature(init).bind(made, *args, **kwargs)
    except TypeError:
        hooks.callables.no_more_defaults(init)
        init(made, *args, **kwargs)  # raises, in Python's words
        raise
    bound.apply_defaults()
    given = dict(list(bound.arguments.items())[1:])
    frozen = holder.__dataclass_params__.frozen
    extra: list[Any] = []
    for field in holder.__dataclass_fields__.values():
        value = _start_value(hooks, holder, field, given)
        if value is dataclasses.MISSING:
            continue
        if field._field_type is _INITVAR:
            extra.append(value)
        elif frozen:
            hooks.attributes.set_plain(made, field.name, value)
        else:
            hooks.set_attribute(made, field.name, value)
    if hasattr(holder, "__post_init__"):
        hooks.call(hooks.attribute(made, "__post_init__"), *extra)


def _start_value(hooks: Hooks, holder: type, field: Any, given: dict[str, object]) -> object:
    """What a field starts with; MISSING if `__init__` does not set it."""
    if field._field_type is _CLASSVAR:
        return dataclasses.MISSING
    by_factory = field.default_factory is not dataclasses.MISSING
    if field.init and not (by_factory and given[field.name] is _FACTORY):
        return given[field.name]
    if by_factory:
        return hooks.call(field.default_factory)
    if isinstance(holder.__dict__.get(field.name), types.MemberDescriptorType):
        return field.default  # A slot has no class attribute behind it.
    return dataclasses.MISSING


#: The default value, in the signature, of a field with a factory.
_FACTORY: Final = dataclasses._HAS_DEFAULT_FACTORY  # pyright: ignore[reportAttributeAccessIssue] no public name
