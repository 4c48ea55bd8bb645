"""Boundaries of one function: which nodes of its tree run as plain Python.

A capture leaves in the middle of an operation. Where it did is a position; here positions become
marks on nodes: an expression that has to run as it is, or a statement whose own part (the test of
an `if`, the iteration of a `for`, a store) has to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final

from anyshape.capture.outline.sites import Position, Site
from anyshape.capture.rewrite.scopes import NESTED
from anyshape.support.lazy_dataclass import dataclass, field


@dataclass(slots=True)
class Boundary:
    """An operation at which captures of a function were left."""

    hook: str
    #: whether a function of the program was running below it: a call is then made through the
    #: parts of that function
    leads_inside: bool
    #: how often it was met. What is met again runs with all of its statement as Python
    met: int = 1


class Boundaries:
    """The boundaries of one function."""

    def __init__(self) -> None:
        self._met: dict[Position, Boundary] = {}
        #: lines of statements that could not be compiled for a reason that has no position
        self.spans: dict[tuple[int, int], int] = {}
        #: grows with every boundary that is added
        self.version = 0

    def __len__(self) -> int:
        return len(self._met) + len(self.spans)

    def add(self, site: Site, leads_inside: bool, *, seen_only: bool = False) -> None:
        """Add a boundary; `seen_only`: no capture was left there, it would have been."""
        self.version += 1
        known = self._met.get(site.position)
        if known is None:
            self._met[site.position] = Boundary(site.hook, leads_inside)
        else:
            known.met += not seen_only
            known.leads_inside |= leads_inside

    def add_span(self, first: int, last: int, *, whole: bool = False) -> None:
        """Statements on these lines run as plain Python, with what they call compiled; `whole`:
        with all of their operations, and not the last one only."""
        self.version += 1
        self.spans[first, last] = self.spans.get((first, last), 0) + 1 + whole

    def items(self) -> Iterable[tuple[Position, Boundary]]:
        return self._met.items()


#: What an operation that goes to a hook looks like. All others are parts of statements.
_EXPRESSIONS: Final[Mapping[str, tuple[type[ast.expr], ...]]] = {
    "call": (ast.Call,),
    "super": (ast.Call,),
    "attribute": (ast.Attribute,),
    "item": (ast.Subscript,),
    "binary": (ast.BinOp,),
    "unary": (ast.UnaryOp,),
    "compare": (ast.Compare,),
    "same": (ast.Compare,),
    "contains": (ast.Compare,),
    "load_global": (ast.Name,),
    "load_free": (ast.Name,),
    "format": (ast.JoinedStr,),
    "<listcomp>": (ast.ListComp,),
    "<setcomp>": (ast.SetComp,),
    "<dictcomp>": (ast.DictComp,),
}

#: What asks for the truth of a value: a statement, or an operator that decides what is evaluated.
_DECISIONS: Final = frozenset({"truth", "test"})
_DECIDING: Final = (ast.IfExp, ast.BoolOp)


@dataclass(slots=True)
class Marks:
    """The nodes of a tree that are boundaries."""

    #: expressions that run as plain Python
    expressions: dict[ast.AST, Boundary] = field(default_factory=dict[ast.AST, Boundary])
    #: statements whose own part does
    headers: set[ast.AST] = field(default_factory=set[ast.AST])
    #: statements that do, with everything in them but the bodies of compound ones
    verbatim: set[ast.AST] = field(default_factory=set[ast.AST])
    #: all marked nodes and what they are in
    touched: set[ast.AST] = field(default_factory=set[ast.AST])


def marks_of(
    body: list[ast.stmt],
    boundaries: Boundaries,
    line_offset: int,
    captured_stores: Iterable[ast.stmt] = (),
    defined: Set[str] = frozenset(),
) -> Marks:
    """The marks that the boundaries of a function leave on its tree, whose lines start later.

    What is suspended, and what stores a variable that nested functions share, is Python's too. So
    is the use of functions that are `defined` inside: they are new ones in every call, and a region
    would be compiled for each."""
    parents = _parents(body)
    marks = Marks()
    for (line, column, end_line, end_column), boundary in boundaries.items():
        start, end = (line - line_offset, column), (end_line - line_offset, end_column)
        chain = _chain(parents, start, end)
        if chain:
            _mark(marks, chain, boundary)
    for (first, last), times in boundaries.spans.items():
        for node in parents:
            if isinstance(node, ast.stmt) and first <= node.lineno + line_offset <= last:
                _mark_whole(marks, node, times)
    _mark_alike(marks, parents)
    for node in parents:
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            marks.expressions[node] = Boundary("", leads_inside=False)
        if isinstance(node, ast.Name) and node.id in defined and isinstance(node.ctx, ast.Load):
            _mark(marks, [node, *_above(node, parents)], Boundary("call", leads_inside=True))
    for node in captured_stores:
        marks.headers.add(node)
    for node in (*marks.expressions, *marks.headers, *marks.verbatim):
        above: ast.AST | None = node
        while above is not None and above not in marks.touched:
            marks.touched.add(above)
            above = parents[above]
    return marks


def _parents(body: list[ast.stmt]) -> dict[ast.AST, ast.AST | None]:
    """Every node of the function's own scope, and what it is in."""
    found: dict[ast.AST, ast.AST | None] = dict.fromkeys(body)
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, NESTED):
            continue
        for child in ast.iter_child_nodes(node):
            found[child] = node
            todo.append(child)
    return found


def _chain(
    parents: Mapping[ast.AST, ast.AST | None], start: tuple[int, int], end: tuple[int, int]
) -> list[ast.AST]:
    """The nodes around a position, the smallest first."""
    around = [
        node
        for node in parents
        if isinstance(node, ast.expr | ast.stmt)
        and (node.lineno, node.col_offset) <= start
        and end <= (node.end_lineno or 0, node.end_col_offset or 0)
    ]
    # Of two nodes at one place, the inner one is deeper.
    return sorted(around, key=lambda node: -sum(1 for _ in _above(node, parents)))


def _above(node: ast.AST, parents: Mapping[ast.AST, ast.AST | None]) -> Iterator[ast.AST]:
    above = parents[node]
    while above is not None:
        yield above
        above = parents[above]


def _mark(marks: Marks, chain: list[ast.AST], boundary: Boundary) -> None:
    statement = next((node for node in chain if isinstance(node, ast.stmt)), None)
    if statement is None:
        return
    if boundary.met > 1:
        marks.verbatim.add(statement)
        return
    kinds = _EXPRESSIONS.get(boundary.hook)
    if kinds is not None:
        found = next((node for node in chain if isinstance(node, kinds)), None)
        if found is not None:
            marks.expressions[found] = boundary
            return
    if boundary.hook in _DECISIONS:
        inside = chain[1 : chain.index(statement)]
        deciding = next((node for node in inside if isinstance(node, _DECIDING)), None)
        if deciding is not None:
            marks.expressions[deciding] = boundary
            return
    marks.headers.add(statement)


def _mark_alike(marks: Marks, parents: Iterable[ast.AST]) -> None:
    """Calls of what could not be traced elsewhere in the function: each would be found in a call
    of its own otherwise."""
    known = {
        ast.dump(node.func): boundary
        for node, boundary in marks.expressions.items()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    }
    if not known:
        return
    for node in parents:
        if isinstance(node, ast.Call) and node not in marks.expressions:
            found = known.get(ast.dump(node.func))
            if found is not None:
                marks.expressions[node] = found


def _mark_whole(marks: Marks, statement: ast.stmt, times: int) -> None:
    """A statement that could not be compiled, nobody knows where: its last operation first."""
    value = getattr(statement, "value", None)
    if times > 1 or value is None:
        marks.verbatim.add(statement)
    elif isinstance(value, ast.expr) and not isinstance(value, ast.Constant | ast.Name):
        marks.headers.add(statement)
        marks.expressions[value] = Boundary("", leads_inside=True)
