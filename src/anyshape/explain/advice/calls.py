"""The line of the program that calls a compiled function, and what it passes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, cast

from anyshape.events.kinds import Frame
from anyshape.explain.advice.history import Compile, FunctionHistory, call_place
from anyshape.explain.advice.source_lines import Listing
from anyshape.explain.library_lines import is_library

#: A call may be written on so many lines.
_MOST_LINES: Final = 8

#: What programs call around, or beside, a compiled function.
_OTHERS: Final = frozenset(
    {"print", "float", "int", "round", "str", "range", "len", "list", "torch", "F", "nn", "np"}
)


class CallSite(NamedTuple):
    """A statement that calls the function: its first line, and what it gives each parameter."""

    place: Frame
    text: str
    given: Mapping[str, ast.expr]
    is_one_line: bool
    #: what Python evaluates before each expression that is given, and may have effects
    earlier: Mapping[str, Sequence[ast.AST]]

    @property
    def indent(self) -> str:
        return self.text[: len(self.text) - len(self.text.lstrip())]


def call_of(function: FunctionHistory, compiled: Compile, listing: Listing) -> CallSite | None:
    """The call that was compiled for, if the trace has its line and it can be made out."""
    place = call_place(compiled)
    definition = listing.block(function.file, function.line)
    if place is None or is_library(place.filename) or not isinstance(definition, ast.FunctionDef):
        return None
    parameters = [each.arg for each in definition.args.args]
    if parameters[:1] == ["self"]:
        del parameters[0]
    text = listing.file(place.filename).get(place.line, "")
    for count, module in _statements(listing.file(place.filename), place.line):
        call = _chosen(module, definition.name, parameters)
        if call is None or len(module.body) != 1 or not is_run_once(module.body[0], call):
            return None
        given = dict(zip(parameters, call.args, strict=False))
        given |= {each.arg: each.value for each in call.keywords if each.arg}
        earlier = {name: evaluated_before(module, each) for name, each in given.items()}
        return CallSite(place, text, given, count == 1, earlier)
    return None


def _statements(lines: Mapping[int, str], first: int) -> Iterator[tuple[int, ast.Module]]:
    """What begins at the line, of as few lines as make sense."""
    taken: list[str] = []
    for number in range(first, first + _MOST_LINES):
        if number not in lines:
            return
        taken.append(lines[number])
        text = "\n".join(taken).strip()
        # The head of a loop or of a `with` has its body below.
        for tried in (text, f"{text} pass") if text.endswith(":") else (text,):
            try:
                yield len(taken), ast.parse(tried)
            except (SyntaxError, ValueError, RecursionError):
                continue
            return


def _chosen(statement: ast.AST, name: str, parameters: Sequence[str]) -> ast.Call | None:
    """The call of the function; a compiled one may have any name, so that it is known by what it
    takes. None if it could be several."""
    calls = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and _fits(node, parameters)
    ]
    named = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == name]
    chosen = named or [call for call in calls if _root(call.func) not in _OTHERS]
    return chosen[0] if len(chosen) == 1 else None


def _root(node: ast.expr) -> str:
    """`model` of `model.layers[0]`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _fits(call: ast.Call, parameters: Sequence[str]) -> bool:
    if any(isinstance(each, ast.Starred) for each in call.args) or len(call.args) > len(parameters):
        return False
    names = [each.arg for each in call.keywords]
    return bool(call.args or names) and all(name in parameters for name in names)


class Rewritten(NamedTuple):
    """The line of a call, what has to come before it, and the variable for each parameter."""

    names: Mapping[str, str]
    before: Sequence[str]
    text: str


def with_variables(call: CallSite, parameters: Iterable[str], listing: Listing) -> Rewritten | None:
    """The call with a variable for what these parameters are given, which may be any expression:
    `f(torch.ones(n))` becomes `x_in = torch.ones(n)` and `f(x_in)`."""
    names, before = dict[str, str](), list[str]()
    text = call.text
    rightmost_first = _from_the_right(call, parameters)
    # What gets variables as well keeps its turn.
    moved = {id(node) for passed, _ in rightmost_first if passed for node in ast.walk(passed)}
    for passed, parameter in rightmost_first:
        if isinstance(passed, ast.Name):
            names[parameter] = passed.id
            continue
        if not call.is_one_line or passed is None:
            return None
        if any(id(each) not in moved for each in call.earlier[parameter]):
            return None
        name = listing.fresh(call.place.filename, parameter)
        before.insert(0, f"{name} = {_segment(call, passed)}")
        text = replaced(call, text, passed, name)
        names[parameter] = name
    return Rewritten(names, before, text)


def _from_the_right(call: CallSite, parameters: Iterable[str]) -> list[tuple[ast.expr | None, str]]:
    """What is to the left of a change keeps its place."""
    given = [(call.given.get(each), each) for each in dict.fromkeys(parameters)]
    return sorted(given, key=lambda pair: getattr(pair[0], "col_offset", 0), reverse=True)


def _bounds(call: CallSite, node: ast.expr) -> tuple[int, int]:
    """Columns are counted in bytes, without the indent."""
    text, indent = call.text.lstrip().encode(), len(call.indent)
    last = node.end_col_offset or 0
    first, last = (len(text[:each].decode(errors="replace")) for each in (node.col_offset, last))
    return first + indent, last + indent


def _segment(call: CallSite, node: ast.expr) -> str:
    first, last = _bounds(call, node)
    return call.text[first:last]


def replaced(call: CallSite, text: str, node: ast.expr, by: str) -> str:
    """The line with something else for an expression in it; nothing to the left of that may have
    been changed before."""
    first, last = _bounds(call, node)
    return text[:first] + by + text[last:]


# -- when a line above a statement is run ----------------------------------------------------------


#: What stands in these is run later, several times or perhaps never.
_AT_OTHER_TIMES: Final = (
    *(ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try, ast.TryStar),
    *(ast.Match, ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_BODIES: Final = ("body", "orelse", "finalbody", "handlers")
#: What may have effects, or see those of others.
_EFFECTS: Final = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def is_run_once(statement: ast.stmt, call: ast.Call) -> bool:
    """Whether the statement evaluates the call once, whenever it is run."""
    way = _way(statement, call)
    for above, below in pairwise(way):
        if isinstance(above, _AT_OTHER_TIMES):
            return False
        if isinstance(above, ast.Compare) and len(above.ops) > 1:
            return False
        if any(name in _BODIES and _has(part, below) for name, part in ast.iter_fields(above)):
            return False
    return True


def evaluated_before(statement: ast.AST, node: ast.expr) -> list[ast.AST]:
    """What the statement evaluates to the left of an expression, and may have effects."""
    around = _way(statement, node)
    where = (node.lineno, node.col_offset)
    return [
        each
        for each in ast.walk(statement)
        if isinstance(each, _EFFECTS)
        and not any(each is one for one in around)
        and (each.lineno, each.col_offset) < where
    ]


def _way(root: ast.AST, node: ast.AST) -> list[ast.AST]:
    """From the root down to the node."""
    if root is node:
        return [root]
    for child in ast.iter_child_nodes(root):
        below = _way(child, node)
        if below:
            return [root, *below]
    return []


def _has(part: Any, node: ast.AST) -> bool:
    return type(part) is list and any(each is node for each in cast("list[Any]", part))
