"""Variables of a function: which are live after a statement, and which are surely bound before it.

Both are worked out on the tree, conservatively: more may be called live than is, and fewer bound.
A region takes what is live in it and bound before it, and gives back what is live after it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from anyshape.capture.rewrite.scopes import NESTED, all_arguments, outside_of_arguments
from anyshape.support.lazy_dataclass import dataclass, field

Names = frozenset[str]
_NONE: Names = frozenset()


# -- names in one piece of a function --------------------------------------------------------------


class Uses(NamedTuple):
    """The names of the function's own scope that a node loads, stores and deletes."""

    loads: set[str]
    stores: set[str]
    deletes: set[str]


def uses(*nodes: ast.AST | None) -> Uses:
    """What nodes do to names, statements in them included."""
    found = Uses(set(), set(), set())
    todo: list[Any] = [node for node in nodes if node is not None]
    while todo:
        node = todo.pop()
        match node:
            case ast.Name():
                {ast.Load: found.loads, ast.Store: found.stores}.get(
                    type(node.ctx), found.deletes
                ).add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.stores.add(node.name)
                todo += [*node.decorator_list, *outside_of_arguments(node.args)]
                todo += [node.returns] if node.returns is not None else []
                found.loads.update(free_names(node))
            case ast.Lambda():
                todo += outside_of_arguments(node.args)
                found.loads.update(free_names(node))
            case ast.ClassDef():
                found.stores.add(node.name)
                todo += [*node.decorator_list, *node.bases, *node.keywords]
                found.loads.update(free_names(node))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                _comprehension(node, found, todo)
            case ast.Import() | ast.ImportFrom():
                found.stores.update(a.asname or a.name.partition(".")[0] for a in node.names)
            case _:
                name = getattr(node, "name", None)
                if name and isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
                    found.stores.add(name)
                if isinstance(node, ast.MatchMapping) and node.rest:
                    found.stores.add(node.rest)
                if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                    found.loads.add(node.target.id)
                todo += ast.iter_child_nodes(node)
    return found


def sure_stores(*nodes: ast.AST | None) -> set[str]:
    """The names that are bound whenever nodes are run to their end. An assignment expression may be
    in an operand that is not evaluated."""
    walked = (each for node in nodes if node is not None for each in ast.walk(node))
    perhaps = {each.target.id for each in walked if isinstance(each, ast.NamedExpr)}
    return uses(*nodes).stores - perhaps


def _comprehension(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
    found: Uses,
    todo: list[object],
) -> None:
    first, *_ = node.generators
    todo.append(first.iter)  # evaluated in the scope around
    inner = uses(*(child for child in ast.iter_child_nodes(node)))
    bound = uses(*(generator.target for generator in node.generators)).stores
    found.loads.update(inner.loads - bound)
    # What a walrus binds is a variable of the function.
    found.stores.update(inner.stores - bound)


def free_names(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef,
) -> set[str]:
    """The names that a nested scope may take from the function around it."""
    body: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
    inner = uses(*body)
    bound = set(inner.stores)
    if not isinstance(node, ast.ClassDef):
        bound.update(argument.arg for argument in all_arguments(node.args))
        shared = nonlocal_names(*body)
        return (inner.loads | inner.stores | inner.deletes) - (bound - shared)
    return inner.loads


def nonlocal_names(*nodes: ast.AST) -> set[str]:
    """The names that functions in nodes declare to be of a function around them."""
    found = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Nonlocal))
    return {name for each in found for name in each.names}


# -- liveness --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Jumps:
    """What is live where control may go otherwise than to the next statement."""

    breaking: Names = _NONE
    continuing: Names = _NONE
    #: in handlers, and in whatever runs before the function is left
    raising: Names = _NONE


_NO_JUMPS = Jumps()


@dataclass(slots=True)
class Liveness:
    """Which variables may be read after each statement of a function."""

    after: dict[ast.stmt, Names] = field(default_factory=dict[ast.stmt, Names])
    raising: dict[ast.stmt, Names] = field(default_factory=dict[ast.stmt, Names])

    def before(self, body: list[ast.stmt], after: Names, jumps: Jumps = _NO_JUMPS) -> Names:
        """What is live before statements, given what is after them."""
        for statement in reversed(body):
            self.after[statement] = after
            self.raising[statement] = jumps.raising
            after = self._statement(statement, after, jumps) | jumps.raising
        return after

    def _statement(self, node: ast.stmt, after: Names, jumps: Jumps) -> Names:
        match node:
            case ast.If():
                taken = self.before(node.body, after, jumps)
                other = self.before(node.orelse, after, jumps)
                return taken | other | uses(node.test).loads
            case ast.While() | ast.For() | ast.AsyncFor():
                return self._loop(node, after, jumps)
            case ast.Try() | ast.TryStar():
                return self._try(node, after, jumps)
            case ast.With() | ast.AsyncWith():
                # A context manager may end an exception.
                inner = Jumps(jumps.breaking, jumps.continuing, jumps.raising | after)
                return self.before(node.body, after, inner) | uses(*node.items).loads
            case ast.Match():
                held = uses(node.subject, *(case.pattern for case in node.cases)).loads
                held |= uses(*(case.guard for case in node.cases)).loads
                return after.union(
                    held, *(self.before(case.body, after, jumps) for case in node.cases)
                )
            case ast.Break():
                return jumps.breaking
            case ast.Continue():
                return jumps.continuing
            case ast.Return() | ast.Raise():
                return frozenset(uses(node).loads)
            case _:
                found = uses(node)
                return (after - sure_stores(node)) | found.loads | found.deletes

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, after: Names, jumps: Jumps) -> Names:
        leaving = self.before(node.orelse, after, jumps)
        header = uses(node.test if isinstance(node, ast.While) else node.target).loads
        top = leaving | header
        while True:
            inner = Jumps(after, top, jumps.raising)
            again = self.before(node.body, top, inner) | top
            if again == top:
                break
            top = again
        return top if isinstance(node, ast.While) else top | uses(node.iter).loads

    def _try(self, node: ast.Try | ast.TryStar, after: Names, jumps: Jumps) -> Names:
        final = after
        if node.finalbody:
            # It runs on every way out.
            ways = after | jumps.raising | jumps.breaking | jumps.continuing
            final = self.before(node.finalbody, ways, jumps)
            jumps = Jumps(final | jumps.breaking, final | jumps.continuing, final | jumps.raising)
        handled: Names = jumps.raising
        for handler in node.handlers:
            handled |= self.before(handler.body, final, jumps) | uses(handler.type).loads
        inner = Jumps(jumps.breaking, jumps.continuing, handled)
        return self.before(node.body, self.before(node.orelse, final, jumps), inner) | handled


# -- bound variables -------------------------------------------------------------------------------


class Binding:
    """Which variables have surely been bound before each statement; None where control does not
    get to."""

    def __init__(self, body: list[ast.stmt], parameters: Iterable[str]) -> None:
        self.before: dict[ast.stmt, Names] = {}
        #: whenever a function inside is called
        self._unbound_inside = unbinds(*functions_inside(body))
        self.end = self._block(body, frozenset(parameters))

    def _block(self, body: list[ast.stmt], bound: Names | None) -> Names | None:
        for statement in body:
            if bound is None:
                return None
            self.before[statement] = bound - self._unbound_inside
            bound = self._statement(statement, bound)
        return bound

    def _statement(self, node: ast.stmt, bound: Names) -> Names | None:
        match node:
            case ast.If():
                bound |= sure_stores(node.test)
                return _both(self._block(node.body, bound), self._block(node.orelse, bound))
            case ast.While():
                bound -= unbinds(node)  # the last time round may have
                self._block(node.body, bound | sure_stores(node.test))
                self._block(node.orelse, bound)
                return bound
            case ast.For() | ast.AsyncFor():
                bound -= unbinds(node)
                self._block(node.body, bound | sure_stores(node.target))
                self._block(node.orelse, bound)
                return bound
            case ast.Try() | ast.TryStar():
                return self._try(node, bound)
            case ast.With() | ast.AsyncWith():
                bound |= sure_stores(*node.items)
                end = self._block(node.body, bound)
                # Others may end an exception that a statement inside has raised.
                lets_through = all(map(_lets_through, node.items))
                return end if lets_through else bound - unbinds(*node.body)
            case ast.Match():
                ends = [bound | sure_stores(node.subject)]
                for case in node.cases:
                    end = self._block(case.body, bound | sure_stores(case.pattern, case.guard))
                    ends += [end] if end is not None else []
                return frozenset.intersection(*ends)
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return None
            case _:
                return (bound | sure_stores(node)) - unbinds(node)

    def _try(self, node: ast.Try | ast.TryStar, bound: Names) -> Names | None:
        end = self._block(node.orelse, self._block(node.body, bound))
        # Wherever the body was left.
        bound -= unbinds(*node.body)
        for handler in node.handlers:
            named = {handler.name} if handler.name else set[str]()
            handled = self._block(handler.body, bound | named)
            end = _both(end, None if handled is None else handled - named)
        final = self._block(node.finalbody, bound - unbinds(*node.handlers, *node.orelse))
        if node.finalbody and final is None:
            return None
        if end is None or final is None:
            return end
        return (end | final) - (unbinds(*node.finalbody) - final)


def blocks_of(statement: ast.stmt) -> Iterator[tuple[ast.AST, str]]:
    """The blocks of a compound statement: what holds each, and as which field. The body of a
    function or class is none: it is another scope."""
    if isinstance(statement, NESTED):
        return
    for name in ("body", "orelse", "finalbody"):
        if getattr(statement, name, None):
            yield statement, name
    for name in ("handlers", "cases"):
        for each in getattr(statement, name, ()):
            yield each, "body"


def functions_inside(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Functions and classes in statements: they may run at any time."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, NESTED):
                yield node


def unbinds(*nodes: ast.AST) -> Names:
    """The variables that statements unbind, somewhere in them."""
    found: set[str] = set()
    for node in (inner for each in nodes for inner in ast.walk(each)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            found.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
    return frozenset(found)


#: Context managers that are known to end no exception, by name.
_TRANSPARENT = frozenset(
    {
        *("no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "autocast", "device"),
        *("record_function", "nullcontext", "sdpa_kernel", "profile", "open", "patch", "Lock"),
        *("set_detect_anomaly", "detect_anomaly", "fork_rng", "catch_warnings", "sdp_kernel"),
    }
)


def _lets_through(item: ast.withitem) -> bool:
    made = item.context_expr
    function = made.func if isinstance(made, ast.Call) else made
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _TRANSPARENT


def _both(one: Names | None, other: Names | None) -> Names | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
