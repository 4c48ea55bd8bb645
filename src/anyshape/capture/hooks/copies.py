"""`copy.copy` and `copy.deepcopy` through hooks: of containers, and of plain objects."""

from __future__ import annotations

import copyreg
import enum
import types
from collections import OrderedDict
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks
from anyshape.capture.numbers.traced_text import TRACED_VALUES
from anyshape.capture.value_kinds import ATOMS

_MISSING: Final = object()


def shallow(hooks: Hooks, value: object) -> object:
    """`copy.copy(value)`."""
    return _copied(hooks, value, None)


def deep(hooks: Hooks, value: object, memo: object = None) -> object:
    """`copy.deepcopy(value)`."""
    if memo is not None and type(memo) is not Memo:
        raise AbortCapture("copy.deepcopy with a memo of the program's own")
    return _copied(hooks, value, Memo() if memo is None else memo)


class Memo(dict[int, Any]):
    """What was copied already, and keeps it alive."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[object] = []


def _copied(hooks: Hooks, value: object, memo: Memo | None) -> object:
    kind = type(value)
    if kind in ATOMS or kind in TRACED_VALUES or isinstance(value, _ATOMIC):
        return value
    if memo is not None and id(value) in memo:
        return memo[id(value)]
    method = "__copy__" if memo is None else "__deepcopy__"
    hooks.attributes.class_attribute(kind, method)
    own = getattr(kind, method, None)
    if isinstance(own, types.FunctionType):
        made = hooks.call(own, value) if memo is None else hooks.call(own, value, memo)
        return _remember(memo, value, made)
    if isinstance(value, torch.Tensor) or (own is not None and kind not in _CONTAINERS):
        raise AbortCapture(f"a copy of a {kind.__name__}")
    if kind in _CONTAINERS:
        return _container(hooks, value, memo)
    return _object(hooks, value, memo)


_CONTAINERS: Final = frozenset({list, tuple, dict, set, frozenset, OrderedDict})


#: Code that copying leaves as it is; it refuses modules and descriptors.
_ATOMIC: Final = (
    *(type, types.FunctionType, types.BuiltinFunctionType, types.MethodWrapperType),
    *(property, types.MethodDescriptorType, types.WrapperDescriptorType, enum.Enum),
)


def _container(hooks: Hooks, value: Any, memo: Memo | None) -> object:
    kind = type(value)
    path = hooks.tracer.path_of(value)
    contents = value if path is None else hooks.outside.contents(value, path)
    if memo is None:
        return kind(contents)
    if isinstance(value, dict):
        made: Any = _remember(memo, value, kind())
        for key, item in contents.items():
            made[_copied(hooks, key, memo)] = _copied(hooks, item, memo)
        return made
    if kind is list:
        made = _remember(memo, value, [])
        made.extend(_copied(hooks, item, memo) for item in contents)
        return made
    return _remember(memo, value, kind([_copied(hooks, item, memo) for item in contents]))


def _object(hooks: Hooks, value: object, memo: Memo | None) -> object:
    """An object that copying takes apart into its class and its dictionary."""
    kind = type(value)
    if (
        kind.__reduce_ex__ is not object.__reduce_ex__
        or kind.__reduce__ is not object.__reduce__
        or kind in copyreg.dispatch_table
        or hasattr(kind, "__setstate__")
        or hasattr(kind, "__getnewargs__")
        or hasattr(kind, "__getnewargs_ex__")
        or getattr(kind, "__getstate__", None) is not getattr(object, "__getstate__", None)
        or kind.__new__ is not object.__new__
        or any("__slots__" in base.__dict__ for base in kind.__mro__[:-1])
        or not hasattr(value, "__dict__")
    ):
        raise AbortCapture(f"a copy of a {kind.__name__}")
    for name in _PROTOCOL:
        hooks.attributes.class_attribute(kind, name)
    made = _remember(memo, value, object.__new__(kind))
    held = value.__dict__
    path = hooks.tracer.path_of(value)
    if path is not None:
        held = hooks.attributes.held(value, path)
    for name, item in held.items():
        made.__dict__[name] = item if memo is None else _copied(hooks, item, memo)
    return made


#: How a class says that its instances are to be copied in another way.
_PROTOCOL: Final = (
    "__reduce_ex__",
    "__reduce__",
    "__setstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__getstate__",
    "__new__",
)


def _remember(memo: Memo | None, value: object, made: object) -> object:
    if memo is not None:
        memo[id(value)] = made
        memo.kept.append(value)
    return made
