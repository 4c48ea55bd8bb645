"""Where in the program a capture stands: the watched functions that are running, by position."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import types
from typing import Final, NamedTuple

from anyshape.capture.rewrite.instrument import CodePlace, instrumented_by_identity

#: Line, column, end line and end column in the file, as code objects have them.
Position = tuple[int, int, int, int]


class Site(NamedTuple):
    """An operation of a function that is under way."""

    #: the function; of a region, the function that it was outlined from
    place: CodePlace
    position: Position
    #: the hook that the operation went to
    hook: str


def place_of(code: types.CodeType) -> CodePlace:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def region_name(owner: types.CodeType, first: int, last: int) -> str:
    """The qualified name of a region."""
    return f"{owner.co_qualname}.<lines {first}-{last}>"


def is_region_of(code: types.CodeType, owner: types.CodeType) -> bool:
    """Whether code is that of a region of a function, as far as names tell."""
    return code.co_qualname.startswith(f"{owner.co_qualname}.<lines ")


def sites_on_stack() -> tuple[Site, ...]:
    """The operations that are under way, the innermost first. Comprehensions are operations of
    the function around them."""
    found: list[Site] = []
    called: types.FrameType | None = None
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        entry = instrumented_by_identity.get(id(code))
        is_comprehension = code.co_name[0] == "<" and code.co_name != "<lambda>"
        if entry is not None and not is_comprehension:
            position = _position(frame)
            if position is not None:
                hook = called.f_code.co_name if called is not None else ""
                found.append(Site(entry[1] or place_of(code), position, hook))
        called = frame
        frame = frame.f_back
    return tuple(found)


def _position(frame: types.FrameType) -> Position | None:
    found = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    line, end_line, column, end_column = next(found, (None, None, None, None))
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return line, column, end_line, end_column


def asking_frame() -> types.FrameType | None:
    """The innermost watched function that is running, as Python has it."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and id(frame.f_code) not in instrumented_by_identity:
        frame = frame.f_back
    return frame


def is_caught() -> bool:
    """Whether a watched function that is running has a handler of errors that torch's operators
    raise because of data."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if id(frame.f_code) in instrumented_by_identity and has_handler(frame.f_code):
            return True
        frame = frame.f_back
    return False


@functools.lru_cache(maxsize=4096)
def has_handler(code: types.CodeType) -> bool:
    """Whether code handles such errors."""
    caught: object = None
    for each in dis.Bytecode(code):
        if each.opname in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH") and caught not in _OTHER_ERRORS:
            return True
        caught = each.argval if each.opname == "LOAD_GLOBAL" else None
    return False


#: No operator raises them because of what is in a tensor.
_OTHER_ERRORS: Final = frozenset(
    {
        *("TypeError", "KeyError", "AttributeError", "NameError", "StopIteration", "OSError"),
        *("ImportError", "ModuleNotFoundError", "AssertionError", "NotImplementedError"),
    }
)
