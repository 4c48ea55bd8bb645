"""Types of native values from outside, by how a capture knows what they are.

Native code reads a value without asking us. A value that it may read has to be known in full: it is
one of the atoms (`tracer.ATOMS`), or it never changes and is guarded by identity, or by what it is
made of (the tables here), or a container whose contents are guarded when they are read. All others
are opaque: they can be passed on, returned, told apart, and asked for attributes; whatever else
reads them ends the capture (`hooks_base.HooksBase.observe`).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.support.by_identity import remembered

#: Values that never change and are few: guarded by identity where they are read.
BY_IDENTITY: Final = (
    *(types.CodeType, types.GenericAlias, types.UnionType, torch.qscheme),
    # What stands for types in annotations: `typing.List`, `Optional[int]`.
    typing._Final,
)

#: Methods of native objects, which are bound to an object with a state of its own.
BOUND: Final = (types.BuiltinFunctionType, types.MethodWrapperType)

#: What a value of a type is made of: equal exactly if native code would do the same with both.
Key = Callable[[Any], object]


def _float_key(value: Any) -> object:
    return float.hex(value)  # it tells -0.0 from 0.0, and there is one NaN


def _complex_key(value: Any) -> object:
    number = complex.__complex__(value)
    return float.hex(number.real), float.hex(number.imag)


def _of_dtype(value: Any) -> object:
    """`torch.finfo` and `torch.iinfo` say what there is to say of one dtype."""
    return value.dtype


def _numpy_key(value: Any) -> object:
    # Bytes, since NaN and -0.0 are values too; extended floats have bytes that mean nothing.
    dtype = value.dtype
    return str(dtype), value.tobytes() if dtype.itemsize <= 8 or dtype.char in "SUD" else repr(
        value
    )


#: Types whose values are guarded in full when they are read.
BY_VALUE: Final[dict[type, Key]] = {torch.finfo: _of_dtype, torch.iinfo: _of_dtype}

#: Built-in types whose subclasses, made by a class statement, hold such a value beside their
#: attributes.
PAYLOADS: Final[dict[type, Key]] = {
    int: int.__int__,
    float: _float_key,
    complex: _complex_key,
    str: str.__str__,
    bytes: bytes.__bytes__,
}


@remembered
def key_of_type(kind: type) -> Key | None:
    """What values of a type are made of; None if they are not guarded by value."""
    found = BY_VALUE.get(kind)
    if found is not None:
        return found
    if is_numpy_scalar(kind):
        return _numpy_key
    if kind.__module__ == "numpy":
        return None
    return next((PAYLOADS[base] for base in kind.__mro__ if base in PAYLOADS), None)


@remembered
def is_numpy_scalar(kind: type) -> bool:
    """Whether it is the type of a scalar of numpy, known by name: numpy may not be there."""
    if kind.__module__ != "numpy":
        return False
    names = {base.__name__ for base in kind.__mro__ if base.__module__ == "numpy"}
    # Records change in place, and objects are anybody's.
    return "generic" in names and not names & {"void", "object_"}


_LARGEST: Final = 2**63 - 1
#: Bytes.
_LARGEST_FLOAT: Final = 8


def as_torch_takes_it(value: Any) -> object:
    """The number of Python that torch makes of a number of numpy; others as they are, and those
    that torch leaves to numpy: they are beyond its integers, or of an extended type."""
    if is_numpy_scalar(type(value)):
        kind = value.dtype.kind
        if kind == "f" and value.dtype.itemsize <= _LARGEST_FLOAT:
            return float(value)
        if kind in "iu" and value <= _LARGEST:
            return int(value)
    return value


@remembered
def has_native_state(kind: type) -> bool:
    """Whether instances hold something that neither their dictionary nor their slots show: native
    code made the type, or one that it derives from."""
    known = object.__basicsize__
    known += _POINTER if kind.__dictoffset__ > 0 else 0
    known += _POINTER if kind.__weakrefoffset__ > 0 else 0
    known += _POINTER * sum(map(_count_slots, kind.__mro__))
    return kind.__basicsize__ > known or kind.__itemsize__ > 0


_POINTER: Final = 8


def _count_slots(kind: type) -> int:
    held = type.__dict__["__dict__"].__get__(kind)
    if "__slots__" not in held:
        return 0
    return sum(type(each) is types.MemberDescriptorType for each in held.values())


class HasValue:
    """Whether an object has the type and the value of another one, as native code reads it."""

    def __init__(self, value: object, key_of: Key) -> None:
        self._kind = type(value)
        self._key_of = key_of
        self._key = key_of(value)
        self.__qualname__ = f"has the value {self._key!r} of a {self._kind.__qualname__}"

    def __call__(self, found: object) -> bool:
        return type(found) is self._kind and self._key_of(found) == self._key
