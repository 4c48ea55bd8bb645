"""The oldest Python and torch that anyshape works with; those who have older ones are told so.

Importing this on an older Python is an error, before anything that it could not read. What is said
here has to agree with `pyproject.toml`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

_PYTHON = (3, 11)
_TORCH = (2, 11)


class TooOld(ImportError):
    """A version that anyshape does not work with."""


def require_python(found: Sequence[Any] = sys.version_info) -> None:
    if tuple(found[:2]) < _PYTHON:
        raise TooOld(_message("Python", _PYTHON, ".".join(map(str, found[:3]))))


def require_torch(version: str) -> None:
    """`torch.__version__`, as in "2.13.0+cpu" or "2.14.0a0+git1234"."""
    numbers = version.split(".")[:2]
    if all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) < _TORCH:
        raise TooOld(_message("torch", _TORCH, version))


def _message(name: str, oldest: Sequence[int], found: str) -> str:
    least = ".".join(map(str, oldest))
    return f"anyshape needs {name} {least} or later, and this is {name} {found}"


require_python()
