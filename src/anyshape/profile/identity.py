"""Which function a profile speaks of: a key that survives moved files, but not changed code.

The qualified name, and a digest of the compiled code: instructions, constants, names. Paths, line
numbers and module names are left out. Another version of Python has other instructions, and learns
anew.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, cast

from anyshape.support.lazy_dataclass import dataclass

#: Decorators around decorators: deeper than anybody writes, so that a loop of them ends.
_DEEPEST: Final = 20


@dataclass(frozen=True, slots=True)
class Identity:
    """A function: its key in a profile, and where people find it."""

    key: str
    name: str
    file: str
    line: int


def identity_of(function: Any, classes: Iterable[type] = ()) -> Identity | None:
    """The identity of a function, method or callable object; None without Python code. `classes`
    are part of it: the same `forward` of a container runs different modules."""
    codes = list(_codes_of(function))
    if not codes:
        return None
    digest = hashlib.sha256()
    for code in codes:
        digest.update(_digest(code).encode())
    for name in sorted({each.__qualname__ for each in classes}):
        digest.update(name.encode())
    code = codes[-1]  # behind all decorators
    name = code.co_qualname
    return Identity(
        f"{name}#{digest.hexdigest()[:20]}", name, code.co_filename, code.co_firstlineno
    )


def identity_of_module(module: Any) -> Identity | None:
    """The identity of a module: its `forward`, and the kinds of modules inside. How many there are
    does not count: a deeper model has the same inputs."""
    return identity_of(module.forward, map(type, module.modules()))


def _codes_of(function: Any) -> Iterator[CodeType]:
    """The code of a function and of what it wraps, the outermost first."""
    for _ in range(_DEEPEST):
        if isinstance(function, functools.partial):
            function = cast("functools.partial[Any]", function).func
            continue
        if not isinstance(function, FunctionType | MethodType):
            # Its attributes are not asked for: an object may answer by code that has effects.
            wrapped = inspect.getattr_static(function, "__wrapped__", None)
            function = call_of(function)
        else:
            wrapped = getattr(function, "__wrapped__", None)
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if isinstance(code, CodeType):
            yield code
        function = wrapped
        if function is None:
            return


def call_of(function: object) -> Any:
    """What a call of an object comes to, as its class has it."""
    return inspect.getattr_static(type(function), "__call__", None)


def _digest(code: CodeType) -> str:
    parts = (
        code.co_code,
        code.co_exceptiontable,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        _constant(code.co_consts),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _constant(value: object) -> str:
    """A constant as text that is the same in every process."""
    if isinstance(value, CodeType):
        return _digest(value)
    if isinstance(value, tuple):
        parts = map(_constant, cast("tuple[object, ...]", value))
        return f"({','.join(parts)})"
    if isinstance(value, frozenset):
        # Its order depends on the hashes of the process.
        parts = map(_constant, cast("frozenset[object]", value))
        return f"{{{','.join(sorted(parts))}}}"
    return f"{type(value).__name__}:{value!r}"
