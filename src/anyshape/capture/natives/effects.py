"""Models of functions that are called for what they do outside: printing, warning, logging.

They are done at once, and again by every compiled run, in the name of the user's line.
"""

from __future__ import annotations

import logging
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.concolic import TracedFloat, TracedInt, plain
from anyshape.capture.instrument import is_instrumented
from anyshape.capture.journal import Change, Effect
from anyshape.capture.tracer import ATOMS, Leave

Hooks = Any

_TRACED: Final = (TracedInt, TracedFloat)


def _perform(hooks: Hooks, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Do it now, and write it into the journal for the compiled runs."""
    result = function(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})
    values = (
        tuple(_as_now(hooks, arg) for arg in args),
        {name: _as_now(hooks, arg) for name, arg in kwargs.items()},
    )
    hooks.journal.add(Effect(Change.CALL, None, function, values))
    return result


def _as_now(hooks: Hooks, value: Any) -> Any:
    """A list of the program as it is now: it may be changed before the compiled run prints it."""
    if type(value) in (list, tuple) and hooks.tracer.path_of(value) is None:
        return type(value)(_as_now(hooks, item) for item in value)
    return value


def _print(hooks: Hooks, *args: Any, **kwargs: Any) -> Any:
    for value in (*args, *kwargs.values()):
        _check(value, "print")
    return _perform(hooks, print, *args, **kwargs)


def _check(value: Any, name: str) -> None:
    if type(value) in (list, tuple, torch.Size):
        for item in value:
            _check(item, name)
        return
    if type(value) not in ATOMS and type(value) not in _TRACED and not isinstance(value, type):
        raise Leave(f"`{name}` of a {type(value).__name__}")


def _plain(value: Any) -> Any:
    if type(value) in (list, tuple, torch.Size):
        return type(value)(map(_plain, value))
    return plain(value) if type(value) in _TRACED else value


def _caller() -> types.FrameType:
    """The frame of watched code that made the call."""
    frame = sys._getframe(1)
    while not is_instrumented(frame.f_code):
        outer = frame.f_back
        if outer is None:
            raise Leave("a call without a caller")
        frame = outer
    return frame


def _warn(
    hooks: Hooks, message: Any, category: Any = None, stacklevel: Any = 1, **kwargs: Any
) -> None:
    if stacklevel != 1 or kwargs:
        raise Leave("a warning in the name of a caller")
    category = category or (type(message) if isinstance(message, Warning) else UserWarning)
    _check(message, "warnings.warn")
    frame = _caller()
    _perform(
        hooks,
        Warner(frame.f_globals, frame.f_code.co_filename, frame.f_lineno),
        message,
        category,
    )


class Warner:
    """Warns in the name of a line: once there, if that is what the filters say."""

    def __init__(self, globals_: dict[str, Any], filename: str, line: int) -> None:
        self._globals = globals_
        self._filename = filename
        self._line = line

    def __call__(self, message: Any, category: type[Warning]) -> None:
        warnings.warn_explicit(
            message,
            category,
            self._filename,
            self._line,
            self._globals.get("__name__"),
            self._globals.setdefault("__warningregistry__", {}),
        )


def _log(level: int) -> Callable[..., Any]:
    def model(hooks: Hooks, logger: Any, message: Any, *args: Any, **kwargs: Any) -> None:
        if type(logger) is not logging.Logger or kwargs:
            raise Leave("a logger of its own kind")
        for value in (message, *args):
            _check(value, "a logger")
        frame = _caller()
        code = frame.f_code
        place = (code.co_filename, frame.f_lineno, code.co_name)
        _perform(hooks, LogRecord(logger, level, place), message, *args)

    return model


class LogRecord:
    """Logs in the name of a line."""

    def __init__(self, logger: logging.Logger, level: int, place: tuple[str, int, str]) -> None:
        self._logger = logger
        self._level = level
        self._place = place

    def __call__(self, message: Any, *args: Any) -> None:
        if self._logger.isEnabledFor(self._level):
            filename, line, function = self._place
            self._logger.handle(
                self._logger.makeRecord(
                    self._logger.name,
                    self._level,
                    filename,
                    line,
                    message,
                    args,
                    None,
                    function,
                )
            )


MODELS: Final[dict[Any, Callable[..., Any]]] = {
    print: _print,
    warnings.warn: _warn,
    logging.Logger.debug: _log(logging.DEBUG),
    logging.Logger.info: _log(logging.INFO),
    logging.Logger.warning: _log(logging.WARNING),
    logging.Logger.error: _log(logging.ERROR),
}
