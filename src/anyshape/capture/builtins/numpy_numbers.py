"""Functions of numpy that compute one number of plain ones: `np.sqrt(self.width)`.

The result is a constant, made of what is guarded. What is computed of sizes that are dynamic would
be another constant for each of them, and is left to Python.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks
from anyshape.capture.externals.native_values import is_numpy_scalar

_NUMBERS: Final = (int, float, bool)
#: Beside the functions of single numbers, which have a class of their own.
_OF_SEQUENCES: Final = frozenset(
    ("prod", "sum", "min", "max", "amin", "amax", "mean", "round", "around", "clip")
)


def computes_a_number(function: Any) -> bool:
    kind = type(function)
    if kind.__module__ == "numpy" and kind.__name__ == "ufunc":
        return True
    if isinstance(function, type):
        return is_numpy_scalar(function)
    module, name = (getattr(function, each, None) for each in ("__module__", "__name__"))
    return module == "numpy" and name in _OF_SEQUENCES


def compute(
    hooks: Hooks, function: Any, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    name = function.__name__
    if kwargs:
        raise AbortCapture(f"`numpy.{name}` with {', '.join(kwargs)}")
    given = [_plain(hooks, arg, name) for arg in args]
    try:
        with sys.modules["numpy"].errstate(all="raise"):
            result = function(*given)
    except FloatingPointError:
        raise AbortCapture("numpy warns of a number, or raises, as its settings say") from None
    if not is_numpy_scalar(type(result)):
        raise AbortCapture(f"`numpy.{name}` gives a {type(result).__name__}")
    return result


def _plain(hooks: Hooks, value: Any, name: str) -> object:
    if is_number(value):
        return hooks.operand(value)
    if isinstance(value, (list, tuple)):
        return [_plain(hooks, each, name) for each in hooks.iterate(value)]
    raise AbortCapture(f"`numpy.{name}` of a {type(value).__name__}")


def is_number(value: object) -> bool:
    return type(value) in _NUMBERS or is_numpy_scalar(type(value))
