"""Arguments that a function does not have: an error which names the one that was meant.

Python's own error says that on some versions only, and speaks of a missing argument first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import BoundArguments, Parameter, Signature
from typing import Final, ParamSpec, TypeVar

from anyshape.errors import UnknownArgument
from anyshape.support.spelling import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

_BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


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


def bind(
    signature: Signature, args: Sequence[object], kwargs: Mapping[str, object]
) -> BoundArguments:
    """`signature.bind`, whose `TypeError` is about a name that is not known rather than about the
    argument that is missing because of it."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        parameters = signature.parameters.values()
        known = [each.name for each in parameters if each.kind in _BY_NAME]
        if not any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
            for name in kwargs:
                if name not in known:
                    nearest = did_you_mean(name, known)
                    text = f"got an unexpected keyword argument {name!r}{nearest}"
                    raise TypeError(text) from None
        raise
