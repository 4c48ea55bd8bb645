"""From a function to the same function with hooks.

    code = instrumented_code(function.__code__, function.__globals__)
    if not isinstance(code, Refused):
        observed = bind(function, code, CellType(hooks), CellType(frame))

The code is made once for each code object and kept as long as that lives. A function that cannot be
rewritten faithfully is refused with a reason, and then has to be called as it is.
"""

from __future__ import annotations

import ast
import inspect
import threading
from collections.abc import Iterable
from types import CellType, CodeType, FunctionType
from typing import Any, Final

from anyshape.capture.rewrite.nodes import FRAME, HOOKS, CannotRewrite
from anyshape.capture.rewrite.rewriter import FUNCTION, name_prefix, rewrite, strip, wrapped
from anyshape.capture.rewrite.source import (
    FUTURE_FLAGS,
    Located,
    all_code,
    candidates,
    compile_quietly,
    imported_names,
    same_code,
)
from anyshape.support.by_identity import ByIdentity
from anyshape.support.lazy_dataclass import dataclass

ASYNCHRONOUS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


@dataclass(frozen=True, slots=True)
class Refused:
    """The function has to run as it is."""

    reason: str
    #: what to do, if anything
    hint: str = ""


#: A function by its place: file, first line, name.
CodePlace = tuple[str, int, str]

_instrumented: ByIdentity[CodeType, CodeType | Refused] = ByIdentity()
#: what was made here; of a region, with the function that it was outlined from
_ours: ByIdentity[CodeType, CodePlace | None] = ByIdentity()
#: the trees of code that was generated, and what it was outlined from
_generated: ByIdentity[CodeType, tuple[Located, CodePlace]] = ByIdentity()
_lock = threading.RLock()


def instrumented_code(code: CodeType, globals_: dict[str, Any]) -> CodeType | Refused:
    """The code with a hook at every operation, or why there is none."""
    known = _instrumented.get(code)
    if known is not None:
        return known
    with _lock:
        known = _instrumented.get(code)
        if known is None:
            known = make(code, globals_)
            _instrumented.set(code, known)
    return known


#: By the identity of the code, for those who ask for every frame of a stack.
instrumented_by_identity = _ours.entries


def is_instrumented(code: CodeType) -> bool:
    """Whether this code was made here; true for functions nested in an instrumented one too."""
    return code in _ours


def bind(
    function: FunctionType, code: CodeType, hooks_cell: CellType, frame_cell: CellType
) -> FunctionType:
    """A function that runs `code` where `function` runs its own: globals, cells, defaults."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[HOOKS] = hooks_cell
    cells[FRAME] = frame_cell
    bound = FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in code.co_freevars),
    )
    bound.__kwdefaults__ = function.__kwdefaults__
    bound.__qualname__ = function.__qualname__
    return bound


def register_generated(code: CodeType, located: Located, owner: CodePlace) -> None:
    """Make known the tree of code that is in no file: a region of the function `owner`."""
    _generated.set(code, (located, owner))


def make(code: CodeType, globals_: dict[str, object]) -> CodeType | Refused:
    if code in _ours:
        return Refused("it is instrumented already")
    generated = _generated.get(code)
    located, owner = generated or (located_source(code, globals_), None)
    if isinstance(located, Refused):
        return located
    try:
        rewrite(located.node, code, located.text, located.class_name, globals_)
        made = compile_in_place(located, code, code.co_freevars)
    except CannotRewrite as why:
        return Refused(str(why))
    except RecursionError:
        return Refused("its expressions are nested too deeply")
    for each in all_code(made):
        _ours.set(each, owner)
    return made


_NO_SOURCE: Final = Refused(
    "its source is not available",
    "define it in a file: what is typed at a prompt, or given to exec or to `python -c`, has none",
)


def located_source(code: CodeType, globals_: dict[str, object]) -> Located | Refused:
    """The stripped tree of a function, which compiles to its code; a new one every time."""
    if code.co_flags & ASYNCHRONOUS:
        return Refused("it is asynchronous", "compile the functions that it calls")
    if code.co_name.startswith("<") and code.co_name != "<lambda>":
        return Refused("it is not a function")
    seen = False
    for located in candidates(code, globals_):
        seen = True
        strip(located.node)
        if matches(located, code):
            return located
    return Refused("its source has changed") if seen else _NO_SOURCE


def matches(located: Located, code: CodeType) -> bool:
    """Whether the text still compiles to the code: otherwise it says nothing about it."""
    try:
        compiled = compile_wrapped(located, code, imported_names(code))
    except (SyntaxError, ValueError, RecursionError):
        return False
    prefix = name_prefix(located.node, located.class_name)
    return same_code(code, compiled, prefix, name_around(code))


def compile_wrapped(
    located: Located,
    code: CodeType,
    imports: Iterable[str] = (),
    free: tuple[str, ...] | None = None,
) -> CodeType:
    module = wrapped(
        located.node, code.co_freevars if free is None else free, located.class_name, imports
    )
    flags = code.co_flags & FUTURE_FLAGS
    compiled = compile_quietly(module, located.text, code.co_filename, flags)
    name = FUNCTION if isinstance(located.node, ast.FunctionDef) else "<lambda>"
    return next(each for each in all_code(compiled) if each.co_name == name)


def compile_in_place(located: Located, code: CodeType, free: tuple[str, ...]) -> CodeType:
    """The code of a tree that is made of the tree of `code`, in its file."""
    prefix = name_prefix(located.node, located.class_name)
    made = in_place(compile_wrapped(located, code, (), free), code, prefix, located.line_offset)
    return made.replace(co_name=code.co_name)


def in_place(each: CodeType, code: CodeType, prefix: str, line_offset: int) -> CodeType:
    """With the names and lines that the code would have had in its file.

    Lines in a code object are relative to its first line.
    """
    return each.replace(
        co_qualname=renamed(each.co_qualname, code, prefix),
        co_firstlineno=each.co_firstlineno + line_offset,
        co_consts=tuple(
            in_place(constant, code, prefix, line_offset)
            if isinstance(constant, CodeType)
            else renamed(constant, code, prefix)
            if type(constant) is str
            else constant
            for constant in each.co_consts
        ),
    )


def renamed(text: str, code: CodeType, prefix: str) -> str:
    if text == prefix:
        return code.co_qualname
    return name_around(code) + text[len(prefix) :] if text.startswith(prefix) else text


def name_around(code: CodeType) -> str:
    """What the qualified names of nested code begin with: the code's own name, before somebody gave
    the code another one."""
    nested = (each.co_qualname for each in code.co_consts if isinstance(each, CodeType))
    around = (name.rpartition(".<locals>.")[0] for name in nested)
    return next(filter(None, around), code.co_qualname)


# -- functions that a watched program made, as they would be without hooks -------------------------

#: Instrumented code, and the function of the program that it is of.
Watched = Iterable[tuple[CodeType, FunctionType]]

_KINDS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR


def own_cells(function: FunctionType) -> dict[str, CellType]:
    """The cells that the user's function has, by name: without ours."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell for name, cell in cells if name not in (HOOKS, FRAME)}


def original_closure(function: FunctionType) -> tuple[CellType, ...] | None:
    return tuple(own_cells(function).values()) or None


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


def is_outer_cell(watched: Watched, cell: CellType) -> bool:
    """Whether it is a cell of a function from outside."""
    return any(cell is each for _, function in watched for each in function.__closure__ or ())
