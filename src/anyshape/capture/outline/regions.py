"""Regions: statements between boundaries, as functions of the variables they read and assign.

A region is taken as long as it can be: consecutive statements with nothing in them that must run as
plain Python. It has to be a faithful function. Its parameters are surely bound before it, what it
gives back is surely bound after it, it jumps nowhere, and a handler around it sees no variable that
an exception in the middle of it would have left half-way. Where that does not hold, a shorter run
of statements is tried; in the end a statement stays Python, with the calls in it routed.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import Final

from anyshape.capture.outline.dataflow import Binding, Liveness, Names, blocks_of, uses
from anyshape.capture.outline.routing import FRAME_READERS, ROUTE, has_jump, routed
from anyshape.capture.rewrite.nodes import (
    LOAD,
    arguments_at,
    constant_at,
    function_at,
    node_at,
    parsed_at,
    start_of,
)
from anyshape.capture.rewrite.rewriter import FUNCTION
from anyshape.capture.rewrite.scopes import OwnScope, own_nodes
from anyshape.support.lazy_dataclass import dataclass

#: The variable that holds the regions of a function, in order.
REGIONS: Final = "__anyshape_regions__"
_RESULT: Final = "__anyshape_result__"
_BOUND: Final = "__anyshape_bound__"

#: What makes a statement worth tracing: it may be an operation on tensors.
_WORK: Final = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.AugAssign)
_SUSPENDED: Final = (ast.Yield, ast.YieldFrom, ast.Await)
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SIMPLE: Final = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_NOT_IN_REGIONS: Final = (
    *_DEFINITIONS,
    *(ast.Delete, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal),
    *(ast.AsyncFor, ast.AsyncWith),
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What the names in a function are."""

    #: variables of the function, its parameters among them
    local: Names
    #: variables of functions around it
    free: Names
    #: names that it declares global
    declared_global: Names
    #: variables that a call may rebind (`nonlocal` somewhere)
    volatile: Names
    #: variables that nested functions and lambdas see
    captured: Names
    #: those of them that may be bound again: a lambda would need more than a copy
    moving: Names


@dataclass(frozen=True, slots=True)
class Region:
    """A function made of statements."""

    node: ast.FunctionDef
    first_line: int
    last_line: int


class Regions:
    """The regions of one function, whose statements have been linearized."""

    def __init__(
        self, body: list[ast.stmt], kept: set[ast.stmt], scope: Scope, parameters: Sequence[str]
    ) -> None:
        self._kept = kept
        self._scope = scope
        self._liveness = Liveness()
        self._liveness.before(body, frozenset())
        self._binding = Binding(body, parameters)
        self.regions: list[Region] = []
        self._with_kept: dict[ast.AST, bool] = {}
        self.body = self._block(body)

    # -- runs of statements ------------------------------------------------------------------------

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        run: list[ast.stmt] = []
        for statement in body:
            if self._is_eligible(statement):
                run.append(statement)
                continue
            out += self._run(run)
            run = []
            # What the linearizer has not kept has a variable in it that is shared: nobody has
            # routed its calls yet.
            is_new = isinstance(statement, _SIMPLE) and statement not in self._kept
            out.append(self._descend(statement) if is_new else self._python(statement))
        return out + self._run(run)

    def _run(self, run: list[ast.stmt]) -> list[ast.stmt]:
        """The longest faithful regions that statements make, from the first on. Copies of what a
        boundary has given are no work: a region would be compiled for each value."""
        out: list[ast.stmt] = []
        while run and not _has_work(run[0]):
            out.append(run.pop(0))
        trailing: list[ast.stmt] = []
        while run and not _has_work(run[-1]):
            trailing.insert(0, run.pop())
        while run:
            length, made = self._longest(run)
            out += made
            run = run[length:]
        return out + trailing

    def _longest(self, run: list[ast.stmt]) -> tuple[int, list[ast.stmt]]:
        """How many statements make the longest region, and what stands for them."""
        for probed in (False, True):
            for length in _lengths(len(run)):
                made = self._region(run[:length], probed)
                if made is not None:
                    return length, made
        return 1, [self._descend(run[0])]

    def _is_eligible(self, statement: ast.stmt) -> bool:
        # What only raises would be captured anew every time.
        is_known = statement in self._binding.before and not isinstance(statement, ast.Raise)
        return is_known and not self._has_kept(statement)

    def _has_kept(self, node: ast.AST) -> bool:
        """Whether something in it must run as plain Python."""
        known = self._with_kept.get(node)
        if known is None:
            known = (
                node in self._kept
                or isinstance(node, (*_NOT_IN_REGIONS, *_SUSPENDED))
                or (isinstance(node, ast.Name) and node.id in self._scope.volatile)
                or _reads_frame(node)
                or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda))
                or (isinstance(node, ast.Lambda) and bool(uses(node).loads & self._scope.moving))
                or any(
                    self._has_kept(child)
                    for child in ast.iter_child_nodes(node)
                    if not isinstance(node, ast.Lambda)
                )
            )
            self._with_kept[node] = known
        return known

    def _python(self, statement: ast.stmt) -> ast.stmt:
        """A statement that stays, with regions in its bodies."""
        for holder, field in blocks_of(statement):
            setattr(holder, field, self._block(getattr(holder, field)))
        return statement

    def _descend(self, statement: ast.stmt) -> ast.stmt:
        """A statement that makes no region: Python, as far as its bodies do not."""
        for name, value in ast.iter_fields(statement):
            if isinstance(value, ast.expr):
                setattr(statement, name, routed(value))
        for item in getattr(statement, "items", ()):
            routed(item)
        return self._python(statement)

    # -- one region --------------------------------------------------------------------------------

    def _region(self, run: list[ast.stmt], probed: bool) -> list[ast.stmt] | None:
        """A call of the region that statements make; the statements if they do too little, None
        if they would make no faithful one. `probed`: variables that it reads may be unbound, and
        are looked at before it is called."""
        if not any(map(_has_work, run)):
            return run
        if has_jump(run):
            return None
        bound = self._binding.before[run[0]]
        variables = self._scope.local | self._scope.free
        found = uses(*run)
        after = self._liveness.after[run[-1]]
        assigned = found.stores & self._scope.local
        if assigned & self._scope.captured or not self._may_raise_in(run):
            return None
        results = sorted(assigned & after)
        binding = Binding(run, bound)
        ends = binding.end
        if ends is not None and not set(results) <= ends:
            return None
        if ends is None:
            results = []
        # What it assigns only on some ways and gives back, it has to be given.
        needed = Liveness().before(run, frozenset(results))
        parameters = sorted(needed & variables)
        unsure = [name for name in parameters if name not in bound | self._scope.free]
        if not unsure:
            return self._call(run, parameters, results, ends is None)
        if not probed or found.stores.intersection(unsure):
            return None  # What it may assign first is bound by it more often than before it.
        plain = [self._descend(copy.deepcopy(each)) for each in run]
        return _if_bound(unsure, self._call(run, parameters, results, ends is None), plain)

    def _may_raise_in(self, run: list[ast.stmt]) -> bool:
        """Whether a handler sees no variable that is assigned in the middle."""
        watched = self._liveness.raising[run[0]]
        if not watched:
            return True
        last = run[-1]
        # A variable is assigned last; an unpacking may fail half-way through its targets.
        is_whole = isinstance(last, ast.Assign | ast.AnnAssign | ast.AugAssign)
        early = run[:-1] if is_whole and len(uses(last).stores) == 1 else run
        return not uses(*early).stores & watched

    def _call(
        self, run: list[ast.stmt], parameters: list[str], results: list[str], never_ends: bool
    ) -> list[ast.stmt]:
        first, last = run[0], run[-1]
        is_tail = isinstance(last, ast.Return) and not _returns(run[:-1])
        tagged = bool(_returns(run)) and not is_tail
        index = len(self.regions)
        body = [_Tagging().visit(each) for each in run] if tagged else list(run)
        if not never_ends:
            given = ["False", *results] if tagged else results
            single = len(given) == 1 and not tagged
            text = given[0] if single else f"({''.join(f'{each}, ' for each in given)})"
            body += parsed_at(f"return {text}", last)
        self.regions.append(
            Region(
                self._function(body, parameters, first),
                first.lineno,
                max(each.end_lineno or each.lineno for each in run),
            )
        )
        call, names = f"{REGIONS}[{index}]({', '.join(parameters)})", ", ".join(results)
        if is_tail:
            text = f"return {call}"
        elif not tagged:
            text = f"{names} = {call}" if results else call
        elif never_ends:
            text = f"return {call}[1]"
        else:
            text = f"{_RESULT} = {call}\nif {_RESULT}[0]: return {_RESULT}[1]\n"
            text += f"{_RESULT}, {names} = {_RESULT}" if results else ""
        return parsed_at(text, start_of(first))

    def _function(
        self, body: list[ast.stmt], parameters: list[str], at: ast.stmt
    ) -> ast.FunctionDef:
        names = uses(*body)
        shared = sorted((names.loads | names.stores) & self._scope.declared_global)
        if shared:
            body = [node_at(ast.Global, at, names=shared), *body]
        start = start_of(at)
        return function_at(start, FUNCTION, arguments_at(start, parameters), body)


def _if_bound(names: list[str], then: list[ast.stmt], other: list[ast.stmt]) -> list[ast.stmt]:
    """Statements for the case that variables are bound, and those for the other. The error of a
    variable that is not must be raised by the statement that reads it."""
    text = f"""
{_BOUND} = True
try: ({", ".join(names)},)
except NameError: {_BOUND} = False
if {_BOUND}: pass
else: pass
"""
    *probe, choice = parsed_at(text, start_of(then[0]))
    assert isinstance(choice, ast.If), "it ends with it"
    choice.body, choice.orelse = then, other
    return [*probe, choice]


def _has_work(statement: ast.stmt) -> bool:
    return any(isinstance(node, _WORK) for node in ast.walk(statement))


def _lengths(most: int) -> Iterator[int]:
    """Fewer and fewer: in large steps first, since each is looked at as a whole."""
    while most > 0:
        yield most
        most = most * 3 // 4 if most > 8 else most - 1


class _Tagging(OwnScope):
    """`return value` becomes `return True, value`."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        value = node.value if node.value is not None else constant_at(None, node)
        tagged = node_at(ast.Tuple, node, elts=[constant_at(True, node), value], ctx=LOAD)
        return node_at(ast.Return, node, value=tagged)


def _returns(body: Sequence[ast.stmt]) -> list[ast.Return]:
    return [node for node in own_nodes(body) if isinstance(node, ast.Return)]


def _reads_frame(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in FRAME_READERS | {ROUTE} and node.id != "super"
