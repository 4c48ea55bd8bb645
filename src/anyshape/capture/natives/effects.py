"""Models of functions that are called for what they do outside: printing and logging."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.concolic import TracedFloat, TracedInt, plain
from anyshape.capture.journal import Change, Effect
from anyshape.capture.tracer import ATOMS, Leave

Hooks = Any

_TRACED: Final = (TracedInt, TracedFloat)


def _effect(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function called for what it does outside: done now, and again by every compiled run."""

    def model(hooks: Hooks, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if not _is_printable(hooks, value):
                raise Leave(f"`{function.__name__}` of a {type(value).__name__}")
        result = function(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})
        hooks.journal.add(Effect(Change.CALL, None, function, (args, kwargs)))
        return result

    return model


def _plain(value: Any) -> Any:
    return plain(value) if type(value) in _TRACED else value


def _is_printable(hooks: Hooks, value: Any) -> bool:
    if type(value) in ATOMS or type(value) in _TRACED:
        return True
    return isinstance(value, type) or value is torch.Size()


MODELS: Final[dict[Any, Callable[..., Any]]] = {
    function: _effect(function)
    for function in (
        print,
        warnings.warn,
        logging.Logger.debug,
        logging.Logger.info,
        logging.Logger.warning,
        logging.Logger.error,
        logging.debug,
        logging.info,
        logging.warning,
        logging.error,
    )
}
