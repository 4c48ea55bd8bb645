"""Callers as the program has them: who is named by a warning or a log record.

Frames of ours lie between those of the program, in a capture and in a compiled run, and frames of
torch are missing where a module is called: its `forward` is followed at once.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import logging
import os
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import torch

from anyshape.ops.origins import OURSELVES

_CAPTURE: Final = (os.path.join(OURSELVES, "capture", "run.py"), "capture")
_REGION: Final = (os.path.join(OURSELVES, "dispatch", "regional_compile.py"), "region_call")
_MODULE: Final = (os.path.join(OURSELVES, "capture", "hooks", "calls.py"), "_module")


class CallerLine(NamedTuple):
    """A line of the program that is being run."""

    globals: dict[str, Any]
    filename: str
    line: int
    function: str


#: Stands between the places of a captured call and those of its callers.
_BOUNDARY: Final = CallerLine({}, "", 0, "")
#: What Python names where there is no caller.
_NOBODY: Final = CallerLine(sys.__dict__, "sys", 1, "<module>")


def is_ours(code: types.CodeType) -> bool:
    return code.co_filename.startswith((OURSELVES, "<anyshape"))


def _outer(frame: types.FrameType) -> types.FrameType | None:
    """The frame that called. A function in parts has none where one of its regions runs: the
    region stands for it."""
    code = frame.f_code
    above = frame.f_back
    is_region = (code.co_filename, code.co_name) == _REGION
    return above.f_back if is_region and above is not None else above


def _walk(frame: types.FrameType | None) -> Iterator[CallerLine]:
    while frame is not None:
        code = frame.f_code
        if not is_ours(code):
            yield CallerLine(frame.f_globals, code.co_filename, frame.f_lineno, code.co_name)
        elif (code.co_filename, code.co_name) == _CAPTURE:
            yield _BOUNDARY
        elif (code.co_filename, code.co_name) == _MODULE:
            yield from _calls_of_a_module()
        frame = _outer(frame)


@functools.cache
def _calls_of_a_module() -> tuple[CallerLine, ...]:
    """The frames of torch between a call of a module and its `forward`, the innermost first."""
    found: list[CallerLine] = []
    for function, call in (
        (torch.nn.Module._call_impl, "return forward_call("),
        (torch.nn.Module._wrapped_call_impl, "return self._call_impl("),
    ):
        lines, first = inspect.getsourcelines(function)
        offset = next((index for index, line in enumerate(lines) if call in line), 0)
        code = function.__code__
        found.append(
            CallerLine(function.__globals__, code.co_filename, first + offset, code.co_name)
        )
    return tuple(found)


def caller(level: int) -> tuple[CallerLine, CallerLine | int]:
    """The caller so many levels above the code that is running, 0 for that code itself; and the
    same for compiled runs: of one outside of the capture, how far above the captured call it is."""
    found = 0
    inside: int | None = None
    for place in _walk(sys._getframe(1)):
        if place is _BOUNDARY:
            inside = found if inside is None else inside
        elif found == level:
            return place, place if inside is None else level - inside
        else:
            found += 1
    return _NOBODY, _NOBODY if inside is None else level - inside


def caller_of_run(place: CallerLine | int) -> CallerLine:
    """A caller that `caller` has found, in a compiled run."""
    if isinstance(place, CallerLine):
        return place
    places = (each for each in _walk(sys._getframe(1)) if each is not _BOUNDARY)
    return next(itertools.islice(places, place, None), _NOBODY)


# -- calls without a model -------------------------------------------------------------------------

#: They name one of their callers, and take how far up it is: at this position, if at any.
_NAMES_CALLER: Final[dict[Any, int | None]] = {
    warnings.warn: 2,
    **{
        getattr(owner, name): None
        for owner in (logging, logging.Logger, logging.LoggerAdapter)
        for name in ("debug", "info", "warning", "error", "critical", "exception", "log", "warn")
        if hasattr(owner, name)
    },
}


def called(function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Call a function for the program: one that names its caller names the program's."""
    own = function.__func__ if type(function) is types.MethodType else function
    if type(own) not in _FUNCTIONS or own not in _NAMES_CALLER:
        return function(*args, **kwargs)
    position = _NAMES_CALLER[own]
    level: object = kwargs.get("stacklevel", 1)
    if position is not None and len(args) > position:
        level = args[position]
        args = args[:position]
    return function(*args, **{**kwargs, "stacklevel": _with_ours(level)})


_FUNCTIONS: Final = (types.FunctionType, types.BuiltinFunctionType)


def _with_ours(level: object) -> object:
    """A level of the stack with the frames of ours counted that lie below it."""
    if type(level) is not int:
        return level
    frame: types.FrameType | None = sys._getframe(1)
    count = seen = 0
    while frame is not None and seen < max(level, 1):
        seen += not is_ours(frame.f_code)
        count += 1
        outer = _outer(frame)
        count += outer is not frame.f_back
        frame = outer
    return count
