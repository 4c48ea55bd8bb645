"""Whose a function is: of torch, of Python's library, of an installed package, of anyshape, or of
the program. Told by the file of its code, since a library may put a function of its own in the
place of another, under the other's name."""

from __future__ import annotations

import os
import sysconfig
import types
from typing import Final

import torch
import typing_extensions

_PATHS: Final = sysconfig.get_paths()

#: Folders, each with its last separator.
TORCH: Final = os.path.dirname(torch.__file__) + os.sep
OURSELVES: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
#: They may lie below Python's library: they are to be asked for first.
PACKAGES: Final = tuple({_PATHS[name] + os.sep for name in ("purelib", "platlib")})
LIBRARY: Final = _PATHS["stdlib"] + os.sep

#: Functions of torch that are going to be removed have a wrapper around them.
_FILES_OF_TORCH: Final = (TORCH, typing_extensions.__file__)


def is_of_torch(function: object) -> bool:
    """Whether it is torch's own: native, or with code in one of its files. A function may have its
    name from one that it wraps, and its code from a decorator of torch: it is not torch's."""
    if isinstance(function, types.FunctionType):
        in_file = function.__code__.co_filename.startswith(_FILES_OF_TORCH)
        return in_file and _is_named_torch(function)
    kind = type(function)
    return kind.__module__ == "builtins" or _is_named_torch(kind)


def is_of_package(function: object) -> bool:
    """Whether its code is anyshape's, and so is that of what it wraps."""
    while inner := getattr(function, "__wrapped__", None) or getattr(function, "func", None):
        function = inner
    code = getattr(function, "__code__", None)
    return isinstance(code, types.CodeType) and code.co_filename.startswith(OURSELVES)


def is_original(function: object) -> bool:
    """Whether it is a function of torch, Python or anyshape, and not what somebody has put in the
    place of one."""
    if not isinstance(function, types.FunctionType) or is_of_torch(function):
        return True
    filename = function.__code__.co_filename
    if filename.startswith(("<frozen ", OURSELVES)):
        return True
    return filename.startswith(LIBRARY) and not filename.startswith(PACKAGES)


def _is_named_torch(thing: types.FunctionType | type) -> bool:
    return str(thing.__module__).partition(".")[0] == "torch"
