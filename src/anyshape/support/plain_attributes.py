"""Attributes of objects of the program, read without code of the program."""

from __future__ import annotations

from types import MethodType
from typing import Any


def plain_attribute(value: object, name: str, default: Any = None) -> Any:
    """What an object, a class or a module holds or inherits under a name. A `__getattr__` is not
    asked: that may have effects, and raise whatever it likes."""
    if type(value) is MethodType and name not in ("__func__", "__self__"):
        value = value.__func__  # It says of itself what its function says.
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return default
