"""Models of functions that are called for what they do outside: printing, warning, logging.

They are done at once, and again by every compiled run, after the graph and in order. What they show
is what it was when they were called: texts with the numbers and tensors of that run
(`traced_text`), copies of containers.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.fx.traceback

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.externals.side_effects import Change, Effect
from anyshape.capture.hooks.caller_frames import CallerLine, caller, caller_of_run
from anyshape.capture.hooks.formatting import shown, snapshot, text_of
from anyshape.capture.numbers.traced_text import TRACED_VALUES, Snapshot, TracedText, bare
from anyshape.capture.value_kinds import ATOMS
from anyshape.guards.guard import Kind


def perform(
    hooks: Hooks,
    function: Callable[..., Any],
    *args: object,
    now: Callable[..., Any] | None = None,
    **kwargs: object,
) -> None:
    """Do it now, and write it into the journal for the compiled runs. Nobody gets its result."""
    with torch._C.DisableTorchFunction():
        (now or function)(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})
    hooks.journal.add(Effect(Change.CALL, None, function, (args, kwargs)))


def _plain(value: Any) -> object:
    kind = type(value)
    if kind is Snapshot:
        return shown(value.tensor.clone(), value.parameter, value.requires_grad, value.grad_fn)
    if kind in (list, tuple):
        return kind(map(_plain, value))
    if kind is dict:
        return {_plain(key): _plain(item) for key, item in value.items()}
    return bare(value)


def _as_now(hooks: Hooks, value: Any, name: str) -> object:
    """A value as it is now: it may be changed before a compiled run shows it."""
    kind = type(value)
    if kind in ATOMS or kind in TRACED_VALUES or isinstance(value, type):
        return value
    if isinstance(value, torch.Tensor):
        return snapshot(hooks, value)
    if kind in (list, tuple, dict) and hooks.outside.is_external(value):
        value = hooks.operand(value)
    if kind in (list, tuple):
        return kind(_as_now(hooks, item, name) for item in value)
    if kind is torch.Size:
        return torch.Size(value)
    if kind is dict:
        return {hooks.key(key): _as_now(hooks, item, name) for key, item in value.items()}
    raise AbortCapture(f"`{name}` of a {kind.__name__}")


# -- print -----------------------------------------------------------------------------------------


def _print(
    hooks: Hooks,
    *args: object,
    sep: Any = None,
    end: Any = None,
    file: object = None,
    flush: object = False,
) -> None:
    for value in (sep, end):
        if value is not None and type(value) not in (str, TracedText):
            raise AbortCapture(f"`print` with a separator that is a {type(value).__name__}")
    # An empty text is not the default.
    named = {name: value for name, value in (("sep", sep), ("end", end)) if value is not None}
    if hooks.truth(flush):
        named["flush"] = True
    if file is not None:
        named["file"] = _stream(hooks, file)
    perform(hooks, print, *(text_of(hooks, value, "s", "") for value in args), **named)


def _stream(hooks: Hooks, file: object) -> object:
    """A file that is written to, but not by code of the program."""
    standard = any(file is each for each in (sys.stdout, sys.stderr))
    if hooks.tracer.path_of(file) is None or not (standard or type(file) in _FILES):
        raise AbortCapture(f"`print` to a {type(file).__name__}")
    return file


_FILES: Final = (io.TextIOWrapper, io.StringIO)


def write(hooks: Hooks, bound: Any, stream: object, args: tuple[object, ...]) -> object:
    """`sys.stdout.write(text)` and `flush()`."""
    name = bound.__name__
    _stream(hooks, stream)
    if name == "flush" and not args:
        perform(hooks, _flush, stream)
        return None
    if name != "write" or len(args) != 1 or type(args[0]) is not str:
        raise AbortCapture(f"`{name}` of a {type(stream).__name__}")
    perform(hooks, _write, stream, args[0])
    return len(args[0])


def _write(stream: Any, text: str) -> None:
    stream.write(text)


def _flush(stream: Any) -> None:
    stream.flush()


# -- warnings --------------------------------------------------------------------------------------


def _warn(
    hooks: Hooks,
    message: object,
    category: object = None,
    stacklevel: object = 1,
    source: object = None,
    **kwargs: object,
) -> None:
    if source is not None or kwargs:
        raise AbortCapture("a warning with a source")
    if isinstance(message, Warning):
        category = type(message)
        if type(message.args) is not tuple or message.__dict__ or not _is_plain_warning(category):
            raise AbortCapture(f"a warning that is a {category.__name__}")
    elif type(message) not in (str, TracedText):
        raise AbortCapture(f"a warning that is a {type(message).__name__}")
    category = UserWarning if category is None else category
    if not (isinstance(category, type) and issubclass(category, Warning)):
        raise AbortCapture("a warning of no category")
    here, place = caller(max(hooks.specialized(stacklevel, "a level of the stack"), 1) - 1)
    warner, now = Warner(place, category), Warner(here, category)
    guard_warnings(hooks, category)
    if isinstance(message, Warning):
        args = [_as_now(hooks, arg, "warnings.warn") for arg in message.args]
        perform(hooks, warner, *args, now=now)
    else:
        perform(hooks, warner, message, now=now)


def _is_plain_warning(category: type) -> bool:
    """Whether all that there is to a warning is in its arguments."""
    return category.__init__ is UserWarning.__init__ and category.__str__ is UserWarning.__str__


class Warner:
    """Warns in the name of a line: once there, if that is what the filters say."""

    def __init__(self, place: CallerLine | int, category: type[Warning]) -> None:
        self._place = place
        self._category = category

    def __call__(self, *args: object) -> None:
        place = caller_of_run(self._place)
        warnings.warn_explicit(
            self._category(*args),
            self._category,
            place.filename,
            place.line,
            place.globals.get("__name__") or "<string>",
            place.globals.setdefault("__warningregistry__", {}),
        )


def guard_warnings(hooks: Hooks, category: type[Warning]) -> None:
    """Guard that a warning is none that the filters make an error of: it would be raised in the
    middle of the program."""
    check = NoError(category)
    if not check(None):
        raise AbortCapture("a warning that the filters make an error of")
    if check.decided_by(hooks.journal.filters):
        return
    path = hooks.tracer.constant(check)
    hooks.tracer.guard(Kind.PREDICATE, path, check, "the filters of warnings")


class NoError:
    """Whether no filter may turn a warning of a category into an error."""

    def __init__(self, category: type[Warning]) -> None:
        self._category = category
        self.__qualname__ = f"no {category.__name__} is an error"

    def decided_by(self, filters: Any) -> bool | None:
        """Whether filters say that it is no error; None if others have to be asked."""
        for action, message, category, module, line in filters:
            if issubclass(self._category, category):
                if action == "error":
                    return False
                if message is None and module is None and not line:
                    return True
        return None

    def __call__(self, _: object) -> bool:
        found = self.decided_by(warnings.filters)
        if found is not None:
            return found
        return warnings.defaultaction != "error"  # pyright: ignore[reportAttributeAccessIssue] no stub has it


# -- logging ---------------------------------------------------------------------------------------


def _log(level: int) -> Callable[..., object]:
    return lambda hooks, logger, message, *args, **kwargs: _log_at(
        hooks, logger, level, message, *args, **kwargs
    )


def _log_at(
    hooks: Hooks, logger: Any, level: object, message: object, *args: object, **kwargs: object
) -> None:
    level = hooks.specialized(level, "a level of logging")
    adapter = None
    if isinstance(logger, logging.LoggerAdapter):
        kind = type(logger)
        if kind.log is not logging.LoggerAdapter.log or hasattr(logger, "merge_extra"):
            raise AbortCapture(f"a {kind.__name__} logs")
        adapter, logger = logger, hooks.attribute(logger, "logger")
    _check_logger(hooks, logger)
    if type(level) is not int:
        raise AbortCapture("a level of logging that is no integer")
    if not logger.isEnabledFor(level):
        _guard_level(hooks, logger, level, False)
        return
    if adapter is not None:
        message, kwargs = _adapted(hooks, adapter, message, kwargs)
    given = {"stacklevel": 1, "extra": None, "exc_info": None, "stack_info": False, **kwargs}
    if given["exc_info"] or given["stack_info"] or len(given) > 4:
        raise AbortCapture("a log record with a stack")
    here, place = caller(max(given["stacklevel"], 1) - 1)
    values = [_as_now(hooks, value, "a logger") for value in (given["extra"], message, *args)]
    now = LogRecord(logger, level, here)
    perform(hooks, LogRecord(logger, level, place), *values, now=now)


def _adapted(hooks: Hooks, adapter: Any, message: object, kwargs: Any) -> Any:
    """What a `LoggerAdapter` hands on to its logger."""
    process = type(adapter).process
    if process is logging.LoggerAdapter.process:
        return message, {**kwargs, "extra": hooks.attribute(adapter, "extra")}
    return hooks.call(process, adapter, message, dict(kwargs))


def _check_logger(hooks: Hooks, logger: object) -> None:
    """A logger that makes its records as all do. It is known by its place in the program."""
    kind = type(logger)
    path = hooks.tracer.path_of(logger)
    if not isinstance(logger, logging.Logger) or path is None:
        raise AbortCapture(f"a {kind.__name__} logs")
    for name in ("makeRecord", "handle", "isEnabledFor", "_log"):
        if getattr(kind, name) is not getattr(logging.Logger, name):
            raise AbortCapture(f"a {kind.__name__} with a `{name}` of its own logs")
    hooks.tracer.guard(Kind.IDENTITY, path, logger)


def _guard_level(hooks: Hooks, logger: logging.Logger, level: int, enabled: bool) -> None:
    check = IsEnabled(logger, level, enabled)
    path = hooks.tracer.constant(check)
    hooks.tracer.guard(Kind.PREDICATE, path, check, "the level of a logger")


class IsEnabled:
    """Whether a logger takes records of a level, as it did."""

    def __init__(self, logger: logging.Logger, level: int, enabled: bool) -> None:
        self._logger = logger
        self._level = level
        self._enabled = enabled
        self.__qualname__ = f"{logger.name} takes level {level}: {enabled}"

    def __call__(self, _: object) -> bool:
        return self._logger.isEnabledFor(self._level) is self._enabled


def _is_enabled(hooks: Hooks, logger: Any, level: Any) -> bool:
    if isinstance(logger, logging.LoggerAdapter):
        logger = hooks.attribute(logger, "logger")
    level = hooks.specialized(level, "a level of logging")
    _check_logger(hooks, logger)
    enabled = logger.isEnabledFor(level)
    _guard_level(hooks, logger, level, enabled)
    return enabled


def _get_logger(hooks: Hooks, name: object = None) -> logging.Logger:
    found = logging.getLogger(hooks.specialized(name, "the name of a logger"))
    return hooks.tracer.read(found, hooks.tracer.constant(found))


def _log_to_root(level: int) -> Callable[..., object]:
    def model(hooks: Hooks, message: object, *args: object, **kwargs: object) -> None:
        root = _get_logger(hooks)
        if not root.handlers:
            raise AbortCapture("the first message of `logging` sets it up")
        _log_at(hooks, root, level, message, *args, **kwargs)

    return model


class LogRecord:
    """Logs in the name of a line."""

    def __init__(self, logger: logging.Logger, level: int, place: CallerLine | int) -> None:
        self._logger = logger
        self._level = level
        self._place = place

    def __call__(self, extra: Any, message: object, *args: object) -> None:
        logger = self._logger
        if logger.isEnabledFor(self._level):
            place = caller_of_run(self._place)
            where = (place.filename, place.line)
            record = logger.makeRecord(
                logger.name, self._level, *where, message, args, None, place.function, extra
            )
            logger.handle(record)


_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


def _level(name: str) -> int:
    return getattr(logging, name.upper())


MODELS: Final[Models] = {
    print: _print,
    warnings.warn: _warn,
    logging.getLogger: _get_logger,
    **{
        getattr(owner, name): model
        for owner in (logging.Logger, logging.LoggerAdapter)
        for name, model in (
            *((name, _log(_level(name))) for name in _LEVELS),
            ("log", _log_at),
            ("isEnabledFor", _is_enabled),
        )
    },
    **{getattr(logging, name): _log_to_root(_level(name)) for name in _LEVELS},
    # For those who read torch's graphs.
    torch.fx.traceback.annotate: lambda hooks, *_: contextlib.nullcontext(),
}
