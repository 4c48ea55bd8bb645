"""From the code of a function and its boundaries to the code that runs it in parts."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any

from anyshape.capture.outline.boundaries import Boundaries, marks_of
from anyshape.capture.outline.dataflow import Binding, Names, free_names, nonlocal_names, uses
from anyshape.capture.outline.linearize import Linearizer
from anyshape.capture.outline.regions import REGIONS, Region, Regions, Scope
from anyshape.capture.outline.release import released
from anyshape.capture.outline.routing import ROUTE
from anyshape.capture.outline.sites import place_of, region_name
from anyshape.capture.rewrite.instrument import (
    Refused,
    compile_in_place,
    instrumented_code,
    located_source,
    register_generated,
)
from anyshape.capture.rewrite.nodes import clear_at, constant_at, function_at, name_at, node_at
from anyshape.capture.rewrite.rewriter import FUNCTION
from anyshape.capture.rewrite.scopes import (
    NESTED,
    OwnScope,
    all_arguments,
    bindings,
    own_nodes,
)
from anyshape.capture.rewrite.source import Located, file_of
from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RegionCode:
    """The code of a region, and the lines of the function that it is made of."""

    code: CodeType
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class SplitCode:
    """The code of a function in parts. Its free variables `REGIONS` and `ROUTE` are to be bound."""

    code: CodeType
    regions: tuple[RegionCode, ...]


def split_code(
    code: CodeType, globals_: dict[str, object], boundaries: Boundaries
) -> SplitCode | Refused:
    """The code of a function, split at its boundaries."""
    watched = instrumented_code(code, globals_)
    located = located_source(code, globals_)
    if isinstance(watched, Refused) or isinstance(located, Refused):
        # One that looks at its own frame, among others: it would see another.
        return watched if isinstance(watched, Refused) else Refused("its source has changed")
    node = _as_function(located.node)
    parameters = [argument.arg for argument in all_arguments(node.args)]
    node.body = [_ExplicitSuper(parameters).visit(each) for each in node.body]
    found = bindings(node.body, None, parameters)
    scope = _scope(node, code, globals_, parameters)
    unstable = found.unstable | scope.volatile
    marks = marks_of(
        node.body,
        boundaries,
        located.line_offset,
        _stores_of(node.body, scope.captured),
        _defined(node.body),
    )
    linear = Linearizer(
        marks,
        lambda name: name in scope.local and name not in unstable,
        Binding(node.body, parameters),
    )
    body = linear.block(node.body)
    # Temporaries are variables of the function from here on.
    scope = _scope(node, code, globals_, parameters, body, frozenset(found.bound))
    regions = Regions(body, linear.kept, scope, parameters)
    declared = _declared_local(found.bound - uses(*regions.body).stores, node)
    node.body = [*declared, *released(regions.body)]
    located = Located(node, located.text, located.line_offset, located.class_name)
    free = (*code.co_freevars, REGIONS, ROUTE)
    return SplitCode(
        compile_in_place(located, code, free),
        tuple(_region_code(each, located, code) for each in regions.regions),
    )


def _as_function(node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef:
    if isinstance(node, ast.FunctionDef):
        return node
    returned = node_at(ast.Return, node.body, value=node.body)
    return function_at(node, FUNCTION, node.args, [returned])


def _region_code(region: Region, located: Located, code: CodeType) -> RegionCode:
    own = Located(region.node, located.text, located.line_offset, located.class_name)
    made = compile_in_place(own, code, ())
    first, last = (line + located.line_offset for line in (region.first_line, region.last_line))
    made = made.replace(co_qualname=region_name(code, first, last))
    register_generated(made, own, place_of(code))
    return RegionCode(made, first, last)


def _declared_local(names: set[str], at: ast.FunctionDef) -> list[ast.stmt]:
    """What makes variables of names that no statement binds any more: regions do, or nothing
    can."""
    if not names:
        return []
    bound = [clear_at(sorted(names), at)]
    return [node_at(ast.If, at, test=constant_at(False, at), body=bound, orelse=[])]


# -- names -----------------------------------------------------------------------------------------


def _scope(
    node: ast.FunctionDef,
    code: CodeType,
    globals_: dict[str, object],
    parameters: list[str],
    body: list[ast.stmt] | None = None,
    known: Names = frozenset(),
) -> Scope:
    body = node.body if body is None else body
    found = bindings(body, None, parameters)
    local = frozenset(found.bound | known)
    nested = list(_nested_scopes(body))
    captured = frozenset(name for each in nested for name in free_names(each)) & local
    shared = nonlocal_names(*nested)
    free = frozenset(code.co_freevars) - found.declared_nonlocal
    rebinding = frozenset(name for name in free if _is_rebound(name, code, globals_))
    volatile = frozenset(shared | found.declared_nonlocal | rebinding)
    bound_often = _bound_often(body, parameters)
    return Scope(
        local,
        free,
        frozenset(found.declared_global),
        volatile,
        captured,
        (captured & bound_often) | volatile,
    )


def _nested_scopes(body: list[ast.stmt]) -> Iterator[Any]:
    """Functions, lambdas and classes that are defined in the function's own scope."""
    return (node for node in own_nodes(body) if isinstance(node, NESTED))


def _defined(body: list[ast.stmt]) -> Names:
    """Variables that hold functions and classes which the function makes itself."""
    found = {node.name for node in _nested_scopes(body) if not isinstance(node, ast.Lambda)}
    for node in own_nodes(body):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            found |= uses(*node.targets).stores
    return frozenset(found)


def _is_rebound(name: str, code: CodeType, globals_: dict[str, object]) -> bool:
    """Whether a function anywhere in the file may bind a variable that this one only reads."""
    lines = linecache.getlines(file_of(code, globals_), globals_)
    declared = re.compile(rf"\bnonlocal\b.*\b{re.escape(name)}\b")
    return any("nonlocal" in line and declared.search(line) for line in lines)


def _bound_often(body: list[ast.stmt], parameters: list[str]) -> Names:
    """Names that are bound in two places, or in a loop."""
    seen: set[str] = set(parameters)
    often: set[str] = set()
    todo: list[tuple[ast.AST, bool]] = [(each, False) for each in body]
    while todo:
        node, in_loop = todo.pop()
        in_loop |= isinstance(node, ast.For | ast.AsyncFor | ast.While)
        if isinstance(
            node, ast.Name | ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
        ):
            stores = uses(node).stores
            often |= stores if in_loop else stores & seen
            seen |= stores
        if not isinstance(node, NESTED):
            todo += ((child, in_loop) for child in ast.iter_child_nodes(node))
    return frozenset(often)


def _stores_of(body: list[ast.stmt], names: Names) -> Iterator[ast.stmt]:
    """Statements that bind one of these names themselves, and not in a body of theirs."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, NESTED):
            continue
        children = list(ast.iter_child_nodes(node))
        own = [
            child
            for child in children
            if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
        ]
        if isinstance(node, ast.stmt) and uses(*own).stores & names:
            yield node
        todo += [child for child in children if child not in own]


class _ExplicitSuper(OwnScope):
    """`super()` becomes `super(__class__, self)`: a region has other arguments."""

    def __init__(self, parameters: list[str]) -> None:
        self._first = parameters[0] if parameters else ""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        bare = isinstance(node.func, ast.Name) and node.func.id == "super"
        if bare and not node.args and not node.keywords and self._first:
            node.args = [name_at("__class__", node), name_at(self._first, node)]
        return node
