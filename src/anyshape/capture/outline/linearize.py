"""Boundaries inside expressions become statements of their own, in the order of evaluation.

    y = model(x) + np.foo(z * 2)    ->    t1 = model(x)
                                          t2 = z * 2
                                          t3 = np.foo(t2)        # kept
                                          y = t1 + t3

What is evaluated before a boundary is assigned to a temporary first, unless nothing can change it
meanwhile (constants, local variables). Statements that must run as plain Python are `kept`; all
others may become parts of regions. An expression that cannot be taken apart (a comprehension, a
generator expression, a formatted string) is kept whole.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from anyshape.capture.outline.boundaries import Boundary, Marks
from anyshape.capture.outline.dataflow import Binding, Names, blocks_of
from anyshape.capture.outline.operands import (
    TAKEN_APART,
    Operand,
    arguments_of,
    has_slices,
    operands_of,
)
from anyshape.capture.outline.routing import has_jump, routed, routed_call
from anyshape.capture.rewrite.nodes import (
    LOAD,
    STORE,
    TEMPORARY,
    assign_at,
    constant_at,
    name_at,
    node_at,
    plain_node,
    store_at,
)

#: They run through their arguments.
_ITERATORS: Final = frozenset({"enumerate", "zip", "reversed", "list", "tuple"})


class Linearizer:
    """One function's statements. `is_stable` says of a name that no call can rebind it, `binding`
    which variables are surely bound before a statement."""

    def __init__(self, marks: Marks, is_stable: Callable[[str], bool], binding: Binding) -> None:
        self._marks = marks
        self._is_stable = is_stable
        self._binding = binding
        #: the variables that are bound before the statement at hand
        self._surely: Names = frozenset()
        self._temporaries = 0
        self._out: list[ast.stmt] = []
        #: statements that run as plain Python; of compound ones, all but their bodies
        self.kept: set[ast.stmt] = set()

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        outer_surely = self._surely
        with self._collected() as out:
            self._statements(body)
        self._surely = outer_surely
        return out

    def _statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._surely = self._binding.before.get(statement, frozenset())
            if statement not in self._marks.touched:
                self._untouched(statement)
            elif statement in self._marks.verbatim:
                self._verbatim(statement)
            else:
                visit = getattr(self, f"visit_{type(statement).__name__}", self._verbatim)
                visit(statement)

    def _untouched(self, statement: ast.stmt) -> None:
        """A statement without a boundary. Several results are put together outside of a region:
        a text that only passes through would be a guard there."""
        value = statement.value if isinstance(statement, ast.Return) else None
        if isinstance(value, ast.Tuple) and not any(isinstance(x, ast.Starred) for x in value.elts):
            value.elts = [
                each if self._is_atom(each) else self._assigned(each) for each in value.elts
            ]
        self._out.append(statement)

    # -- what is emitted ---------------------------------------------------------------------------

    @contextmanager
    def _collected(self) -> Iterator[list[ast.stmt]]:
        """The statements that are emitted meanwhile, for a block of their own."""
        outer, self._out = self._out, []
        yield self._out
        self._out = outer

    def _emit(self, statement: ast.stmt, kept: bool = False) -> None:
        self._out.append(statement)
        if kept or statement in self._marks.headers:
            self.kept.add(statement)

    def temporary(self) -> str:
        self._temporaries += 1
        return TEMPORARY.format(f"value_{self._temporaries}")

    def _assigned(self, value: ast.expr, kept: bool = False) -> ast.Name:
        name = self.temporary()
        self._emit(assign_at(name, value, value), kept)
        return name_at(name, value)

    def _verbatim(self, statement: ast.stmt) -> None:
        """A statement as it is, with its calls routed; the bodies of a compound one as usual."""
        for name, value in list(ast.iter_fields(statement)):
            if name in ("body", "orelse", "finalbody", "handlers", "cases"):
                continue
            if isinstance(value, ast.expr):
                setattr(statement, name, routed(value))
            elif isinstance(value, list):
                setattr(
                    statement, name, [routed(x) if isinstance(x, ast.AST) else x for x in value]
                )
        self._compound(statement, kept=True)

    def _compound(self, statement: ast.stmt, kept: bool = False) -> None:
        """Emit a statement whose own part is ready, with its blocks."""
        for holder, field in blocks_of(statement):
            setattr(holder, field, self.block(getattr(holder, field)))
        self._emit(statement, kept)

    visit_Try = visit_TryStar = _compound

    # -- expressions -------------------------------------------------------------------------------

    def final(self, node: ast.expr) -> ast.expr:
        """What is left of an expression when the boundaries in it have been evaluated."""
        return self._expression(node) if node in self._marks.touched else node

    def hoisted(self, node: ast.expr) -> ast.expr:
        """A constant or a variable with the value that an expression has here."""
        if isinstance(node, ast.Starred):
            node.value = self.final(node.value)
            spread = node_at(ast.Tuple, node, elts=[node], ctx=LOAD)
            return node_at(ast.Starred, node, value=self._assigned(spread), ctx=LOAD)
        if isinstance(node, ast.Slice) or has_slices(node):
            for part in operands_of(node):  # A slice stands in a subscript and nowhere else.
                part.set(self.hoisted(part.get()))
            return node
        left = self.final(node)
        return left if self._is_atom(left) else self._assigned(left)

    def _is_atom(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            # Where it may be unbound, it has to raise before what comes next is done.
            is_same = self._is_stable(node.id) and node.id in self._surely
            return is_same or node.id.startswith("__anyshape_")
        return isinstance(node, ast.Constant)

    def _expression(self, node: ast.expr) -> ast.expr:
        visit = getattr(self, f"visit_{type(node).__name__}", None)
        if visit is not None:
            return visit(node)
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            if node.value is not None:
                node.value = self.hoisted(node.value)
            return self._assigned(node, kept=True)
        if not isinstance(node, TAKEN_APART):
            return self._assigned(routed(node), kept=True)
        is_boundary = node in self._marks.expressions
        self._operands(operands_of(node), is_boundary)
        return self._assigned(node, kept=True) if is_boundary else node

    def _operands(self, operands: list[Operand], all_of_them: bool) -> None:
        """Evaluate operands in order as far as the last one with a boundary in it, which is left
        to be evaluated with what comes after; all of them where the operation is one itself."""
        touched = [i for i, each in enumerate(operands) if each.get() in self._marks.touched]
        last = len(operands) if all_of_them else touched[-1]
        for index, operand in enumerate(operands):
            if index < last and operand.is_spread:
                mapping = self.final(operand.get())
                copied = node_at(ast.Dict, mapping, keys=[None], values=[mapping])
                operand.set(self._assigned(copied))
            elif index < last:
                operand.set(self.hoisted(operand.get()))
            elif index == last:
                operand.set(self.final(operand.get()))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        boundary = self._marks.expressions.get(node)
        operands = arguments_of(node)
        inside = any(each.get() in self._marks.touched for each in operands)
        if boundary is None and not inside:
            # The function is found by way of a boundary: what is called is in the region.
            node.func = self.final(node.func)
            return node
        if boundary is None and isinstance(node.func, ast.Name):
            self._operands([Operand(node, "func"), *operands], all_of_them=False)
            return node
        moves = any(not self._is_atom(each.get()) for each in operands)
        node.func = self._function(node.func, moves)
        self._operands(operands, all_of_them=True)
        leads_inside = boundary is None or boundary.leads_inside or _names_caller(node.func)
        return self._assigned(routed_call(node) if leads_inside else node, kept=True)

    def _function(self, node: ast.expr, moves: bool) -> ast.expr:
        """What is called, evaluated before the arguments are. A bound method is no result of a
        region, so it is looked up in Python."""
        if isinstance(node, ast.Attribute):
            node.value = self.hoisted(node.value)
            return self._assigned(node, kept=True) if moves else node
        if isinstance(node, ast.Name):
            return self.hoisted(node) if moves else node
        return self.hoisted(node)

    # -- operators that decide what is evaluated ---------------------------------------------------

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        decides = node in self._marks.expressions
        if not decides and not {node.body, node.orelse} & self._marks.touched:
            node.test = self.final(node.test)
            return node
        result = self.temporary()
        test = self.hoisted(node.test) if decides else self.final(node.test)
        self._branch(
            node, test, self._branch_to(result, node.body), self._branch_to(result, node.orelse)
        )
        return name_at(result, node)

    def _branch_to(self, result: str, value: ast.expr) -> list[ast.stmt]:
        with self._collected() as out:
            self._emit(assign_at(result, self.final(value), value))
        return out

    def _branch(
        self, at: ast.expr, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]
    ) -> None:
        made = node_at(ast.If, at, test=test, body=body, orelse=orelse)
        self._emit(made, kept=at in self._marks.expressions)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        decides = node in self._marks.expressions
        if not decides and not set(node.values[1:]) & self._marks.touched:
            node.values[0] = self.final(node.values[0])
            return node
        result = self.temporary()
        self._emit(assign_at(result, self.final(node.values[0]), node))
        self._rest(node, result, node.values[1:])
        return name_at(result, node)

    def _rest(self, node: ast.BoolOp, result: str, values: list[ast.expr]) -> None:
        """`if t: t = value`, and so on inside; `or` asks for the opposite."""
        if not values:
            return
        with self._collected() as body:
            self._emit(assign_at(result, self.final(values[0]), node))
            self._rest(node, result, values[1:])
        test: ast.expr = name_at(result, node)
        if isinstance(node.op, ast.Or):
            test = node_at(ast.UnaryOp, node, op=ast.Not(), operand=test)
        self._branch(node, test, body, [])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        value = self.hoisted(node.value)
        self._emit(assign_at(node.target.id, value, node))
        # Not the variable: a later part of the expression may bind it again.
        return value

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        is_boundary = node in self._marks.expressions
        chained = len(node.ops) > 1
        if chained and (is_boundary or set(node.comparators[1:]) & self._marks.touched):
            return self._chain(node)
        if is_boundary and isinstance(node.ops[0], ast.Is | ast.IsNot) and _is_plain_load(node):
            # What a region gives back is equal, and need not be the same object.
            return self._assigned(node, kept=True)
        operands = [Operand(node, "left"), Operand(node, "comparators", 0)]
        self._operands(operands, is_boundary)
        return self._assigned(node, kept=True) if is_boundary else node

    def _chain(self, node: ast.Compare) -> ast.expr:
        """`a < b < c` is `a < b and b < c` with `b` evaluated once."""
        result = self.temporary()
        left = self.hoisted(node.left)
        is_boundary = node in self._marks.expressions

        def link(left: ast.expr, index: int) -> None:
            right = self.hoisted(node.comparators[index])
            ops, comparators = [node.ops[index]], [right]
            compared = node_at(ast.Compare, node, left=left, ops=ops, comparators=comparators)
            self._emit(assign_at(result, compared, node), kept=is_boundary)
            if index + 1 == len(node.ops):
                return
            with self._collected() as body:
                link(right, index + 1)
            self._branch(node, name_at(result, node), body, [])

        link(left, 0)
        return name_at(result, node)

    # -- statements --------------------------------------------------------------------------------

    def _in_python(self, node: ast.expr) -> ast.expr:
        """An expression whose value only Python can have: an iterator, a context manager."""
        if isinstance(node, ast.Call):
            self._marks.expressions.setdefault(node, Boundary("", leads_inside=True))
            return self.visit_Call(node)
        return self.hoisted(node)

    def _value(self, statement: object, name: str = "value") -> None:
        """The expression of a statement, ready for what the statement does with it."""
        value = getattr(statement, name)
        if value is not None:
            ready = self.hoisted if statement in self._marks.headers else self.final
            setattr(statement, name, ready(value))

    def visit_Expr(self, statement: ast.Expr) -> None:
        value = self.final(statement.value)
        if not self._is_atom(value):
            statement.value = value
            self._emit(statement)

    def visit_Return(self, statement: ast.Return) -> None:
        self._value(statement)
        self._untouched(statement)

    def visit_Raise(self, statement: ast.Raise) -> None:
        if statement.cause is not None and statement.exc is not None:
            statement.exc = self.hoisted(statement.exc)
            self._value(statement, "cause")
        else:
            self._value(statement, "exc")
        self._emit(statement)

    def visit_Assert(self, statement: ast.Assert) -> None:
        if statement.msg in self._marks.touched:
            self._verbatim(statement)
            return
        self._value(statement, "test")
        self._emit(statement)

    def visit_Assign(self, statement: ast.Assign | ast.AnnAssign) -> None:
        if statement.value is None:
            self._verbatim(statement)
            return
        single = isinstance(statement, ast.AnnAssign)
        targets = [statement.target] if single else statement.targets
        if not set(targets) & self._marks.touched:
            self._value(statement)
            self._emit(statement)
            return
        value = self.hoisted(statement.value)
        for target in targets:
            self._store(target, value, statement in self._marks.headers)

    visit_AnnAssign = visit_Assign

    def _store(self, target: ast.expr, value: ast.expr, kept: bool) -> None:
        kept = kept or target in self._marks.expressions
        if isinstance(target, ast.Attribute | ast.Subscript):
            self._operands(operands_of(target), all_of_them=True)
        elif target in self._marks.touched:
            kept = True  # An unpacking with a boundary among its targets.
        made = store_at([target], value, target)
        self._emit(made, kept)

    def visit_AugAssign(self, statement: ast.AugAssign) -> None:
        target, header = statement.target, statement in self._marks.headers
        if isinstance(target, ast.Name):
            if not self._is_atom(target):  # it is read before the value is computed
                self._verbatim(statement)
                return
            self._value(statement)
            self._emit(statement, kept=header)
            return
        self._operands(operands_of(target), all_of_them=True)
        old = self.temporary()
        loaded = plain_node(type(target), **{**target.__dict__, "ctx": LOAD})
        reads = target in self._marks.expressions
        self._emit(assign_at(old, loaded, target), kept=reads)
        value = self.hoisted(statement.value)
        stored = name_at(old, target, STORE)
        work = node_at(ast.AugAssign, statement, target=stored, op=statement.op, value=value)
        self._emit(work, kept=header)
        target.ctx = STORE
        self._emit(store_at([target], name_at(old, target), target), kept=header or reads)

    def visit_If(self, statement: ast.If) -> None:
        self._value(statement, "test")
        self._compound(statement)

    def visit_While(self, statement: ast.While) -> None:
        header = statement in self._marks.headers
        if statement.test not in self._marks.touched and not header:
            self._compound(statement)
            return
        if has_jump(statement.orelse):
            self._verbatim(statement)
            return
        # The test is evaluated anew in every round: inside of the loop, it can be statements.
        with self._collected() as first:
            self._value(statement, "test")
            negated = node_at(ast.UnaryOp, statement.test, op=ast.Not(), operand=statement.test)
            leaving = [*self.block(statement.orelse), node_at(ast.Break, statement.test)]
            test = node_at(ast.If, statement.test, test=negated, body=leaving, orelse=[])
            self._emit(test, kept=header)
            statement.body = [*first, *self.block(statement.body)]
        statement.test, statement.orelse = constant_at(True, statement.test), []
        self._out.append(statement)  # what was kept of it is the test

    def visit_For(self, statement: ast.For) -> None:
        ready = self._in_python if statement in self._marks.headers else self._iterated
        statement.iter = ready(statement.iter)
        if statement.target in self._marks.touched:
            self._verbatim(statement)
            return
        self._compound(statement)

    def _iterated(self, node: ast.expr) -> ast.expr:
        """What a loop runs through: an operation is done before it, where it can be compiled."""
        node = self.final(node)
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in _ITERATORS:
            assert isinstance(node, ast.Call)
            for position, each in enumerate(node.args):
                node.args[position] = self._iterated(each)
                if not self._is_atom(node.args[position]):
                    break  # What comes next must not be done before it.
        return self._assigned(node) if isinstance(node, ast.BinOp | ast.UnaryOp) else node

    def visit_With(self, statement: ast.With) -> None:
        first, *rest = statement.items
        if rest:
            inner = node_at(ast.With, statement, items=rest, body=statement.body, type_comment=None)
            if statement in self._marks.headers:
                self._marks.headers.add(inner)
            self._marks.touched.add(inner)
            statement.items, statement.body = [first], [inner]
        ready = self._in_python if statement in self._marks.headers else self.final
        first.context_expr = ready(first.context_expr)
        self._compound(statement)

    def visit_Match(self, statement: ast.Match) -> None:
        self._value(statement, "subject")
        guarded = any(case.guard in self._marks.touched for case in statement.cases)
        self._compound(statement, kept=guarded)


def _names_caller(node: ast.expr) -> bool:
    """Whether a call may be one of those that name who called them: they have to be told."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in _NAMING


_NAMING: Final = frozenset(
    {"warn", "debug", "info", "warning", "error", "exception", "critical", "log", "warning_once"}
)


def _is_plain_load(node: ast.Compare) -> bool:
    loads = (ast.Name, ast.Attribute, ast.Constant, ast.Compare, ast.Load, ast.cmpop)
    return all(isinstance(each, loads) for each in ast.walk(node))
