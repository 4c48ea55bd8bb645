"""`dataclass` as the standard library has it, in a tenth of the time.

The library's writes, compiles and runs the text of up to six methods for each class as soon as the
class is defined, which takes half a millisecond. With two hundred classes that was a third of the
first call in a process. Here a method is written when it is first called, and most never are.

What the package does not use is not there: `order`, `InitVar`, `KW_ONLY` and `match_args=False`.
`fields`, `replace`, `asdict` and `is_dataclass` of the library take these classes for its own.
"""

from __future__ import annotations

import dataclasses
import reprlib
import types
from collections.abc import Callable, Iterator
from dataclasses import (
    MISSING,
    Field,
    FrozenInstanceError,
    asdict,
    field,
    fields,
    is_dataclass,
    replace,
)
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple

__all__ = ["MISSING", "asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]

#: What `fields` looks for.
_FIELD: Final = dataclasses._FIELD  # pyright: ignore[reportAttributeAccessIssue] no public name
_FACTORY: Final = object()

Fields = dict[str, "Field[Any]"]


class _Options(NamedTuple):
    """By the library's names: a class of the library may have one of ours as a base."""

    frozen: bool
    slots: bool


def _dataclass(
    cls: type | None = None,
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    unsafe_hash: bool = False,
    frozen: bool = False,
    kw_only: bool = False,
    slots: bool = False,
    weakref_slot: bool = False,
) -> Any:
    def made(cls: type) -> type:
        own = dict(_own_fields(cls, kw_only))
        inherited = _inherited_fields(cls, frozen)
        all_fields = {**inherited, **own}
        if slots:
            cls = _with_slots(cls, own, inherited, weakref_slot)
        else:
            _leave_defaults(cls, own)
        given = set(vars(cls))
        # Of the methods that are there only `__hash__` is not the writer's if it is None.
        if vars(cls).get("__hash__") is None and "__eq__" in given:
            given.discard("__hash__")
        methods: dict[str, Any] = {
            "__dataclass_fields__": all_fields,
            "__dataclass_params__": _Options(frozen, slots),
            "__match_args__": tuple(
                name for name, each in all_fields.items() if each.init and not each.kw_only
            ),
        }
        if init and "__init__" not in given:
            methods["__init__"] = _when_called(cls, "__init__", _init)
            methods["__signature__"] = _SIGNATURE
        if repr:
            methods["__repr__"] = _repr
        if eq:
            methods["__eq__"] = _when_called(cls, "__eq__", _eq)
        if unsafe_hash or (eq and frozen):
            methods["__hash__"] = _when_called(cls, "__hash__", _hash)
        elif eq:
            methods["__hash__"] = None
        if frozen:
            if given & {"__setattr__", "__delattr__"}:
                raise TypeError(f"{cls.__qualname__} is frozen and says how to set attributes")
            methods |= _frozen(cls)
            if slots:
                methods |= {"__getstate__": _state, "__setstate__": _set_state}
        for name, method in methods.items():
            if name not in given or name.startswith("__dataclass"):
                setattr(cls, name, method)
        return cls

    return made if cls is None else made(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


# -- fields ----------------------------------------------------------------------------------------


def _own_fields(cls: type, kw_only: bool) -> Iterator[tuple[str, Field[Any]]]:
    for name, annotation in cls.__annotations__.items():
        kind = annotation if isinstance(annotation, str) else str(annotation)
        if kind.startswith(("ClassVar", "typing.ClassVar")):
            continue
        if "InitVar" in kind or "KW_ONLY" in kind:
            raise TypeError(f"{cls.__qualname__}.{name}: there are no fields of kind {kind}")
        default = vars(cls).get(name, MISSING)
        made: Any = default if isinstance(default, Field) else field(default=default)
        made.name, made.type, made._field_type = name, annotation, _FIELD
        if made.kw_only is MISSING:
            made.kw_only = kw_only
        if made.default is not MISSING and type(made.default).__hash__ is None:
            raise ValueError(f"{cls.__qualname__}.{name}: all objects would share one default")
        yield name, made


def _inherited_fields(cls: type, frozen: bool) -> Fields:
    found: Fields = {}
    for base in cls.__mro__[:0:-1]:
        if "__dataclass_fields__" in vars(base):
            found |= vars(base)["__dataclass_fields__"]
            if vars(base)["__dataclass_params__"].frozen is not frozen:
                raise TypeError(f"{cls.__qualname__} and {base.__qualname__}: one is frozen")
    return found


def _leave_defaults(cls: type, own: Fields) -> None:
    for name, each in own.items():
        if each.default is not MISSING:
            setattr(cls, name, each.default)
        elif name in vars(cls):
            delattr(cls, name)


def _with_slots(cls: type, own: Fields, inherited: Fields, weakref_slot: bool) -> type:
    """The class once more: slots have to be known when a class is made."""
    if "__slots__" in vars(cls):
        raise TypeError(f"{cls.__qualname__} has slots already")
    taken = {"__dict__", "__weakref__", *own}
    namespace = {name: value for name, value in vars(cls).items() if name not in taken}
    held: set[str] = set()
    for base in cls.__mro__[1:]:
        slots = vars(base).get("__slots__", ())
        held.update((slots,) if isinstance(slots, str) else slots)
    names = [name for name in {**inherited, **own} if name not in held]
    if weakref_slot and "__weakref__" not in held:
        names.append("__weakref__")
    made = type(cls)(cls.__name__, cls.__bases__, {**namespace, "__slots__": tuple(names)})
    made.__qualname__ = cls.__qualname__
    return made


# -- methods that are written when they are called -------------------------------------------------


def _when_called(cls: Any, name: str, write: Callable[[Any, Fields], Any]) -> Any:
    written: list[Any] = []

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not written:
            made = write(cls, cls.__dataclass_fields__)
            made.__qualname__ = method.__qualname__
            written.append(made)
            if vars(cls).get(name) is method:
                setattr(cls, name, made)
        return written[0](self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


def _function(text: str, names: dict[str, Any]) -> Any:
    exec(text, names)
    return names.popitem()[1]


def _init(cls: Any, fields: Fields) -> Any:
    names: dict[str, Any] = {"__FACTORY": _FACTORY, "__set_attribute": object.__setattr__}
    plain, by_name, body = ["self"], [], []
    options = cls.__dataclass_params__
    for name, each in fields.items():
        value = name
        if each.default_factory is not MISSING:
            names[f"__make_{name}"] = each.default_factory
            value = f"__make_{name}()"
            if each.init:
                value = f"{value} if {name} is __FACTORY else {name}"
        if each.init:
            shown = name
            if each.default_factory is not MISSING:
                shown = f"{name}=__FACTORY"
            elif each.default is not MISSING:
                names[f"__default_{name}"] = each.default
                shown = f"{name}=__default_{name}"
            (by_name if each.kw_only else plain).append(shown)
        elif each.default_factory is MISSING:
            # A slot has no attribute of the class behind it that would hold the default.
            if each.default is MISSING or not options.slots:
                continue
            names[f"__default_{name}"] = each.default
            value = f"__default_{name}"
        body.append(_assignment(cls, name, value, options.frozen, names))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    given = ", ".join([*plain, *(["*"] if by_name else []), *by_name])
    return _function(f"def __init__({given}):\n " + "\n ".join(body or ["pass"]), names)


def _assignment(cls: Any, name: str, value: str, frozen: bool, names: dict[str, Any]) -> str:
    if not frozen:
        return f"self.{name} = {value}"
    slot = getattr(cls, name, None)
    if isinstance(slot, types.MemberDescriptorType):
        # Half the time of `object.__setattr__`, which looks for the slot each time.
        names[f"__set_{name}"] = slot.__set__
        return f"__set_{name}(self, {value})"
    return f"__set_attribute(self, {name!r}, {value})"


def _compared(fields: Fields, of: str) -> str:
    """A tuple's text."""
    names = [f"{of}.{name}," for name, each in fields.items() if each.compare]
    return f"({' '.join(names)})"


def _eq(_: Any, fields: Fields) -> Any:
    return _function(
        "def __eq__(self, other):\n"
        " if other.__class__ is self.__class__:\n"
        f"  return {_compared(fields, 'self')} == {_compared(fields, 'other')}\n"
        " return NotImplemented",
        {},
    )


def _hash(_: Any, fields: Fields) -> Any:
    hashed = {
        name: each
        for name, each in fields.items()
        if (each.compare if each.hash is None else each.hash)
    }
    names = " ".join(f"self.{name}," for name in hashed)
    return _function(f"def __hash__(self):\n return hash(({names}))", {"hash": hash})


class _Signature:
    """The arguments of a class, for `help` and editors: made when they ask."""

    def __get__(self, instance: object, cls: type) -> Signature:
        made = next(each for each in cls.__mro__ if "__init__" in vars(each))
        if instance is not None or vars(made).get("__signature__") is not self:
            raise AttributeError("__signature__")  # it is somebody else's
        given = [
            Parameter(
                each.name,
                Parameter.KEYWORD_ONLY if each.kw_only else Parameter.POSITIONAL_OR_KEYWORD,
                default=_shown_default(each),
                annotation=each.type,
            )
            for each in vars(made)["__dataclass_fields__"].values()
            if each.init
        ]
        given.sort(key=lambda each: each.kind)
        return Signature(given, return_annotation=None)


_SIGNATURE: Final = _Signature()


def _shown_default(each: Field[Any]) -> object:
    if each.default_factory is not MISSING:
        return each.default_factory()
    return Parameter.empty if each.default is MISSING else each.default


# -- methods that are the same for all -------------------------------------------------------------


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = [
        f"{name}={getattr(self, name)!r}"
        for name, each in self.__dataclass_fields__.items()
        if each.repr
    ]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _frozen(cls: Any) -> dict[str, Any]:
    def check(self: Any, name: str, verb: str) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot {verb} field {name!r}")

    def __setattr__(self: Any, name: str, value: object) -> None:
        check(self, name, "assign to")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        check(self, name, "delete")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)
