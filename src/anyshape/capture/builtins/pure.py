"""Native functions that look at nothing but their arguments: called with plain values."""

from __future__ import annotations

import bisect
import inspect
import operator
import re
import types
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.numbers.traced_text import TRACED_VALUES
from anyshape.capture.value_kinds import ATOMS
from anyshape.guards.guard import Kind

Hooks = Any

PURE_MODULES: Final = frozenset({"math", "itertools", "unicodedata", "zlib", "binascii"})
#: Modules of Python's library whose functions are pure: of objects that the program made.
PLAIN_LIBRARY: Final = frozenset({"inspect", "typing", "re", "string", "textwrap", "keyword"})
PURE: Final = frozenset(
    {
        *(chr, ord, hex, oct, bin, ascii, complex, bytes, bytearray, format),
        # `insort` changes what it is given.
        *(bisect.bisect_left, bisect.bisect_right),
    }
)


def pure(
    hooks: Hooks, function: Any, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Call a pure native function with plain values."""
    name = getattr(function, "__name__", "a native function")

    def ready(value: object) -> object:
        if isinstance(value, torch.Tensor):
            raise AbortCapture(f"`{name}` of a tensor")
        checked = hooks.operand(value)
        if not is_data(checked):
            raise AbortCapture(f"`{name}` of a {type(value).__name__}")
        return hooks.specialized(checked, f"`{name}` takes it")

    return function(*map(ready, args), **{key: ready(value) for key, value in kwargs.items()})


def pure_python(
    hooks: Hooks, function: Any, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Call a function of Python's library that looks at nothing but its arguments."""
    name = function.__name__
    return function(
        *(hooks.with_plain_numbers(arg, f"`{name}` takes it") for arg in args),
        **{key: hooks.with_plain_numbers(arg, f"`{name}` takes it") for key, arg in kwargs.items()},
    )


def is_constant(hooks: Hooks, value: object) -> bool:
    """Whether an object never changes and holds nothing that does; guarded if it is from
    outside."""
    if type(value).__module__ != "typing" and not isinstance(value, _CONSTANTS):
        return False
    path = hooks.tracer.path_of(value)
    if path is not None:
        hooks.tracer.guard(Kind.IDENTITY, path, value)
    return True


#: Objects that are made once and stay as they are. So do those of `typing`.
_CONSTANTS: Final = (
    re.Pattern,
    inspect.Signature,
    inspect.Parameter,
    types.GenericAlias,
    types.UnionType,
)


def is_data(value: Any) -> bool:
    """Whether it is a number, a text or a built-in container of such."""
    kind = type(value)
    if kind in ATOMS or kind in TRACED_VALUES:
        return True
    if kind in (list, tuple, set, frozenset, torch.Size):
        return all(map(is_data, value))
    return kind is dict and all(is_data(key) and is_data(x) for key, x in value.items())


def as_length(value: Any) -> object:
    """What `__len__` returned, as Python takes it."""
    if type(value) in TRACED_VALUES:
        return value
    number = operator.index(value)
    if number < 0:
        raise ValueError("__len__() should return >= 0")
    return number
