"""Functions that a watched program made, as they would be without hooks: code and cells."""

from __future__ import annotations

from collections.abc import Iterable
from types import CellType, CodeType, FunctionType

from anyshape.capture.rewrite.nodes import FRAME, HOOKS
from anyshape.capture.rewrite.source import all_code

#: Instrumented code, and the function of the program that it is of.
Watched = Iterable[tuple[CodeType, FunctionType]]


def own_cells(function: FunctionType) -> dict[str, CellType]:
    """The cells that the user's function has, by name: without ours."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell for name, cell in cells if name not in (HOOKS, FRAME)}


def own_code(watched: Watched, function: FunctionType) -> CodeType | None:
    """The code that the user's function has; None where it cannot be told from others."""
    code = function.__code__
    for made, maker in watched:
        if any(each is code for each in all_code(made)):
            # Several lambdas of one line come in the order in which they stand there.
            ours = [each for each in all_code(made) if _is_same(each, code)]
            users = [each for each in all_code(maker.__code__) if _is_same(each, code)]
            place = next(index for index, each in enumerate(ours) if each is code)
            return users[place] if len(users) == len(ours) else None
    return None


def _is_same(one: CodeType, other: CodeType) -> bool:
    """Whether both are of one function: what it is called, where it stands, what it takes."""
    count = other.co_argcount + other.co_kwonlyargcount
    return (
        (one.co_qualname, one.co_firstlineno, one.co_argcount, one.co_kwonlyargcount)
        == (other.co_qualname, other.co_firstlineno, other.co_argcount, other.co_kwonlyargcount)
        and one.co_varnames[:count] == other.co_varnames[:count]
        and one.co_flags & _KINDS == other.co_flags & _KINDS
    )


#: CO_VARARGS, CO_VARKEYWORDS and CO_GENERATOR
_KINDS = 0x04 | 0x08 | 0x20


def is_outer_cell(watched: Watched, cell: CellType) -> bool:
    """Whether it is a cell of a function from outside."""
    return any(cell is each for _, function in watched for each in function.__closure__ or ())
