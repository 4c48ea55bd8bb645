"""The syntax tree of a code object, from the text that `linecache` has for its file.

Only the function's own lines are parsed, because files are long and functions are short. Where the
lines do not tell (lambdas, odd indentation), the whole file is parsed, once. What comes out are
candidates: text can have changed since it was compiled, so whoever takes one compiles it and
compares (`same_code`).
"""

from __future__ import annotations
import __future__

import ast
import dis
import functools
import inspect
import linecache
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from anyshape.support.lazy_dataclass import dataclass

FunctionNode = ast.FunctionDef | ast.Lambda

FUTURE_FLAGS = 0
for _name in __future__.all_feature_names:
    FUTURE_FLAGS |= getattr(__future__, _name).compiler_flag
# The flag of `nested_scopes` now says that a function is nested.
FUTURE_FLAGS &= ~inspect.CO_NESTED

# Since 3.13 a class knows the line that it starts on, as a constant in its code.
CLASSES_KNOW_THEIR_LINE = sys.version_info >= (3, 13)

# Text that can make the compiler warn, by what is quick to look for. It warned when the user's file
# was compiled.
CAN_WARN = {
    "\\": re.compile(r"""\\[^\n\\'"abfnrtvxNuU0-7]"""),
    " is ": re.compile(r"""\bis\s+(not\s+)?[-\d'"(\[{]"""),
    "assert": re.compile(r"\bassert\s*\("),
}

COMPARED_FLAGS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
    | FUTURE_FLAGS
)


COMPARED = (
    *("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount"),
    *("co_posonlyargcount", "co_kwonlyargcount", "co_exceptiontable"),
)


@dataclass(frozen=True, slots=True)
class Located:
    """A function's own tree: nobody else holds it, so that it may be changed."""

    node: FunctionNode
    text: str
    # The line in the file is the line in the tree plus this.
    line_offset: int
    # The class whose name mangles private names.
    class_name: str | None


def candidates(code: CodeType, globals_: dict[str, object]) -> Iterator[Located]:
    """Trees that may be the code object's, best first; nothing if there is no text."""
    filename = file_of(code, globals_)
    lines = linecache.getlines(filename, globals_)
    yield from candidates_in(code, lines)
    # The text may be older than the code: a module that was edited and loaded again.
    linecache.checkcache(filename)
    fresh = linecache.getlines(filename, globals_)
    if fresh is not lines and fresh != lines:
        yield from candidates_in(code, fresh)


def file_of(code: CodeType, globals_: dict[str, Any]) -> str:
    """Where the text is: modules frozen into the interpreter have a file too, which they name."""
    name = code.co_filename
    return globals_.get("__file__", name) if name.startswith("<frozen ") else name


def candidates_in(code: CodeType, lines: list[str]) -> Iterator[Located]:
    if not 0 < code.co_firstlineno <= len(lines):
        return
    if code.co_name == "<lambda>":
        yield from lambdas(code, lines)
        return
    located = by_indentation(code, lines)
    if located is not None:
        yield located
    here = file_index(code.co_filename, lines).get(code.co_firstlineno, ())
    # Libraries rename code: those of its name come first.
    for found in sorted(here, key=lambda each: each.name != code.co_name):
        if found.name == "<lambda>":
            located = parse_lambda(lines, found)
        else:
            located = parse_lines(
                lines, code.co_firstlineno, found.end_line, found.name, found.class_name
            )
        if located is not None:
            yield located


# Functions.


def by_indentation(code: CodeType, lines: list[str]) -> Located | None:
    """The function that starts on the code's first line and ends where indentation says."""
    first = code.co_firstlineno
    last_known = max((line for *_, line in code.co_lines() if line is not None), default=first)
    header = lines[first - 1]
    margin = len(header) - len(header.lstrip(" \t"))
    class_name = enclosing_class(code.co_qualname)
    for _attempt, end in zip(range(8), ends(lines, last_known, margin), strict=False):
        located = parse_lines(lines, first, end, code.co_name, class_name)
        if located is not None:
            return located
    return None


def ends(lines: list[str], last_known: int, margin: int) -> Iterator[int]:
    """Lines that can be the last of a block indented beyond `margin`, the likely one first."""
    for index in range(last_known, len(lines)):
        line = lines[index]
        stripped = line.lstrip(" \t")
        if len(line) - len(stripped) <= margin and stripped[:1] not in "\r\n#)]}\f":
            yield index
    yield len(lines)


def parse_lines(
    lines: list[str], first: int, last: int, name: str, class_name: str | None
) -> Located | None:
    """The function on these lines, with columns as in the file."""
    text = "".join(lines[first - 1 : last])
    offset = first - 2
    heading = "if 1:\n" if text[:1] in " \t" else "\n"
    if offset < 0:
        heading, offset = "", 0
    elif CLASSES_KNOW_THEIR_LINE and "class" in text:
        heading, offset = "\n" * offset + heading, 0
    tree = parse(heading, text)
    if tree is None or not tree.body:
        return None
    node = tree.body[0]
    if isinstance(node, ast.If) and heading:
        node = node.body[0]
    if not isinstance(node, ast.FunctionDef) or node.name != name:
        return None
    start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    # If not, the text has moved: what is there may be the same, but not in the same place.
    return Located(node, text, offset, class_name) if start + offset == first else None


def enclosing_class(qualified_name: str) -> str | None:
    """The innermost class around a function: in a qualified name, a part that has no `<locals>`."""
    parts = qualified_name.split(".")
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] != "<locals>" and parts[index + 1] != "<locals>":
            return parts[index]
    return None


# Lambdas.


def lambdas(code: CodeType, lines: list[str]) -> Iterator[Located]:
    """The lambdas that start on the code's line, those first that hold the code's positions."""
    found = [
        each
        for each in file_index(code.co_filename, lines).get(code.co_firstlineno, ())
        if each.name == "<lambda>"
    ]
    positions = [
        (line, column)
        for line, _, column, _ in code.co_positions()
        if line is not None and column is not None and (line, column) != (code.co_firstlineno, 0)
    ]

    def strays(each: Found) -> tuple[int, int]:
        inside = ((each.line, each.column), (each.end_line, each.end_column))
        outside = sum(not inside[0] <= position < inside[1] for position in positions)
        # Of two that hold all positions, one is inside the other: take the inner one.
        return outside, -each.column

    for each in sorted(found, key=strays):
        located = parse_lambda(lines, each)
        if located is not None:
            yield located


def parse_lambda(lines: list[str], found: Found) -> Located | None:
    text = slice_of(lines, found)
    tree = parse("(\n" + " " * found.column, text, "\n)")
    if tree is None or len(tree.body) != 1:
        return None
    statement = tree.body[0]
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Lambda):
        return None
    return Located(statement.value, text, found.line - 2, found.class_name)


def slice_of(lines: list[str], found: Found) -> str:
    """The text of a node; its columns count bytes of UTF-8."""
    chosen = [line.encode() for line in lines[found.line - 1 : found.end_line]]
    chosen[-1] = chosen[-1][: found.end_column]
    chosen[0] = chosen[0][found.column :]
    return b"".join(chosen).decode(errors="replace")


# Whole files.


@dataclass(frozen=True, slots=True)
class Found:
    """Where a function or a lambda is in its file."""

    name: str
    line: int
    column: int
    end_line: int
    end_column: int
    class_name: str | None


FileIndex = dict[int, list[Found]]

_indices: dict[str, tuple[list[str], FileIndex]] = {}
_indices_lock = threading.Lock()


def file_index(name: str, lines: list[str]) -> FileIndex:
    """The functions and lambdas of a file by first line, decorators included."""
    known = _indices.get(name)
    if known is not None and (known[0] is lines or known[0] == lines):
        return known[1]
    index: FileIndex = {}
    tree = parse("", "".join(lines))
    if tree is not None:
        enter(tree, None, index)
    with _indices_lock:
        _indices[name] = (lines, index)
    return index


def enter(tree: ast.AST, class_name: str | None, index: FileIndex) -> None:
    todo: list[tuple[ast.AST, str | None]] = [(tree, class_name)]
    while todo:
        node, class_name = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
            line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            end = (node.end_lineno or line, node.end_col_offset or 0)
            found = Found(name, line, node.col_offset, *end, class_name)
            index.setdefault(line, []).append(found)
        elif isinstance(node, ast.ClassDef):
            # Decorators and bases belong to the class around.
            outside = [*node.decorator_list, *node.bases, *node.keywords]
            todo += ((child, class_name) for child in outside)
            todo += ((child, node.name) for child in node.body)
            continue
        todo += ((child, class_name) for child in ast.iter_child_nodes(node))


# What only the module knows: which names it imports.

# How the name that an instruction loads is found, by instruction.
LOADED_NAMES: dict[int, Callable[[CodeType, int], str]] = {
    dis.opmap[operation]: find
    for operation, find in {
        "LOAD_GLOBAL": lambda code, argument: code.co_names[argument >> 1],
        "LOAD_NAME": lambda code, argument: code.co_names[argument],
        "LOAD_FAST": lambda code, argument: code._varname_from_oparg(argument),
        "LOAD_FAST_CHECK": lambda code, argument: code._varname_from_oparg(argument),
        "LOAD_FAST_LOAD_FAST": lambda code, argument: code._varname_from_oparg(argument & 15),
        "STORE_FAST_LOAD_FAST": lambda code, argument: code._varname_from_oparg(argument & 15),
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW": (
            lambda code, argument: code._varname_from_oparg(argument & 15)
        ),
        "LOAD_FAST_BORROW": lambda code, argument: code._varname_from_oparg(argument),
        "LOAD_DEREF": lambda code, argument: code._varname_from_oparg(argument),
        "LOAD_CLASSDEREF": lambda code, argument: code._varname_from_oparg(argument),
        "LOAD_FROM_DICT_OR_DEREF": lambda code, argument: code._varname_from_oparg(argument),
        "LOAD_FROM_DICT_OR_GLOBALS": lambda code, argument: code.co_names[argument],
    }.items()
    if operation in dis.opmap
}
LOAD_ATTRIBUTE = dis.opmap["LOAD_ATTR"]
# Up to 3.11 an instruction of its own, then a bit in the argument of the other.
LOAD_METHOD = dis.opmap["LOAD_METHOD"] if sys.version_info < (3, 12) else None
CACHE = dis.opmap["CACHE"]


def imported_names(code: CodeType) -> set[str]:
    """Names in the code that an import anywhere in its module seems to bind.

    For `name.method()` the compiler loads a method, or an attribute if the module imports the name:
    text of the function alone compiles to the same code only if that is known. A name that
    occurs in no such call makes no difference.
    """
    attributes: set[str] = set()
    methods: set[str] = set()
    for each in all_code(code):
        text = each.co_code
        extended = 0
        load: tuple[Callable[[CodeType, int], str], int] | None = None
        for operation, argument in zip(text[::2], text[1::2], strict=True):
            if operation == CACHE:
                continue
            argument |= extended
            if operation == dis.EXTENDED_ARG:
                extended = argument << 8
                continue
            extended = 0
            if load is not None and operation in (LOAD_ATTRIBUTE, LOAD_METHOD):
                is_method = argument & 1 if LOAD_METHOD is None else operation == LOAD_METHOD
                (methods if is_method else attributes).add(load[0](each, load[1]))
            find = LOADED_NAMES.get(operation)
            load = None if find is None else (find, argument)
    return attributes - methods


def all_code(code: CodeType) -> Iterator[CodeType]:
    """The code and everything nested in it, outermost first."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from all_code(constant)


# Compiling.


def parse(before: str, text: str, after: str = "") -> ast.Module | None:
    """The tree of a text, with something of ours around it; None if it has none."""
    try:
        tree = compile_quietly(before + text + after, text, "<source>", ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    assert isinstance(tree, ast.Module), "a text parses to a module"
    return tree


def compile_quietly(source: str | ast.Module, text: str, filename: str, flags: int) -> Any:
    """Compile without the warnings that the user had when the file was compiled.

    Filters of warnings are shared by all threads, so they are only touched if `text` needs it.
    """
    if not can_warn(text):
        try:
            return compile(source, filename, "exec", flags, dont_inherit=True)
        except SyntaxError:
            # A warning made into an error is a `SyntaxError` too.
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(source, filename, "exec", flags, dont_inherit=True)


@functools.lru_cache(maxsize=4)
def can_warn(text: str) -> bool:
    """Asked three times of a function: when it is parsed, compared and rewritten."""
    return any(hint in text and CAN_WARN[hint].search(text) for hint in CAN_WARN)


def same_code(one: CodeType, other: CodeType, prefix: str, qualified_name: str) -> bool:
    """Whether both do the same; positions do not count.

    Qualified names of nested classes are constants in their code; in `other` they start with
    `prefix` where `one` has `qualified_name`.
    """
    return (
        all(getattr(one, name) == getattr(other, name) for name in COMPARED)
        and one.co_flags & COMPARED_FLAGS == other.co_flags & COMPARED_FLAGS
        and len(one.co_consts) == len(other.co_consts)
        and all(
            same_constant(mine, theirs, prefix, qualified_name)
            for mine, theirs in zip(one.co_consts, other.co_consts, strict=True)
        )
    )


def same_constant(one: object, other: object, prefix: str, qualified_name: str) -> bool:
    if type(one) is not type(other):
        return False
    match one, other:
        case CodeType(), CodeType():
            return one.co_name == other.co_name and same_code(one, other, prefix, qualified_name)
        case str(), str():
            if other.startswith(prefix):
                other = qualified_name + other[len(prefix) :]
            return one == other
        case tuple(), tuple():
            return len(one) == len(other) and all(
                same_constant(mine, theirs, prefix, qualified_name)
                for mine, theirs in zip(one, other, strict=True)
            )
        case frozenset(), frozenset():
            return sorted(map(typed, one)) == sorted(map(typed, other))
        case (float(), float()) | (complex(), complex()):
            # `0.0 == -0.0`.
            return repr(one) == repr(other)
        case _:
            return one == other


def typed(value: object) -> tuple[str, str]:
    return type(value).__name__, repr(value)
