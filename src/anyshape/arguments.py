"""Arguments that a public function does not have: an error which names the one that was meant.

Python's own error says that on some versions only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from anyshape.errors import UnknownArgument

P = ParamSpec("P")
R = TypeVar("R")


def spelled(function: Callable[P, R]) -> Callable[P, R]:
    """Look at the names of arguments before Python does."""
    code = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    shown = function.__qualname__.removesuffix(".__init__")
    if known[:1] == ("self",):
        known = known[1:]

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                raise UnknownArgument(function=shown, argument=name, known=known)
        return function(*args, **kwargs)

    return called
