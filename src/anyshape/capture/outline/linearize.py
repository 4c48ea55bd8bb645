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
from collections.abc import Callable
from typing import Any, Final

from anyshape.capture.outline.boundaries import Boundary, Marks
from anyshape.capture.outline.dataflow import Binding, Names
from anyshape.capture.rewrite.nodes import LOAD, STORE, TEMPORARY, assign_at, name_at, node_at

#: The function through which calls are made that lead to functions in parts.
ROUTE: Final = "__anyshape_route__"

#: Functions that look at the frame that calls them.
FRAME_READERS: Final = frozenset(
    {"super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__", "breakpoint"}
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
        outer, self._out = self._out, []
        outer_surely = self._surely
        for statement in body:
            self._surely = self._binding.before.get(statement, frozenset())
            if statement not in self._marks.touched:
                self._untouched(statement)
            elif statement in self._marks.verbatim:
                self._verbatim(statement)
            else:
                _STATEMENTS.get(type(statement), Linearizer._verbatim)(self, statement)
        self._surely = outer_surely
        out, self._out = self._out, outer
        return out

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

    def _emit(self, statement: ast.stmt, kept: bool = False) -> None:
        self._out.append(statement)
        if kept:
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
            if name in ("body", "orelse", "finalbody"):
                setattr(statement, name, self.block(value))
            elif name in ("handlers", "cases"):
                for each in value:
                    each.body = self.block(each.body)
            elif isinstance(value, ast.expr):
                setattr(statement, name, routed(value))
            elif isinstance(value, list):
                setattr(
                    statement, name, [routed(x) if isinstance(x, ast.AST) else x for x in value]
                )
        self._emit(statement, kept=True)

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
        if isinstance(node, ast.Slice) or _has_slices(node):
            for part in _operands_of(node):  # A slice stands in a subscript and nowhere else.
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
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.IfExp | ast.BoolOp | ast.NamedExpr | ast.Compare):
            return _DECIDED[type(node)](self, node)
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            if node.value is not None:
                node.value = self.hoisted(node.value)
            return self._assigned(node, kept=True)
        if not isinstance(node, _TAKEN_APART):
            return self._assigned(routed(node), kept=True)
        is_boundary = node in self._marks.expressions
        self._operands(_operands_of(node), is_boundary)
        return self._assigned(node, kept=True) if is_boundary else node

    def _operands(self, operands: list[_Operand], all_of_them: bool) -> None:
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

    def _call(self, node: ast.Call) -> ast.expr:
        boundary = self._marks.expressions.get(node)
        operands = _arguments_of(node)
        inside = any(each.get() in self._marks.touched for each in operands)
        if boundary is None and not inside:
            # The function is found by way of a boundary: what is called is in the region.
            node.func = self.final(node.func)
            return node
        if boundary is None and isinstance(node.func, ast.Name):
            self._operands([_Operand(node, "func"), *operands], all_of_them=False)
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

    def _choice(self, node: ast.IfExp) -> ast.expr:
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
        outer, self._out = self._out, []
        self._emit(assign_at(result, self.final(value), value))
        out, self._out = self._out, outer
        return out

    def _branch(
        self, at: ast.expr, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]
    ) -> None:
        made = node_at(ast.If, at, test=test, body=body, orelse=orelse)
        self._emit(made, kept=at in self._marks.expressions)

    def _and_or(self, node: ast.BoolOp) -> ast.expr:
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
        outer, self._out = self._out, []
        self._emit(assign_at(result, self.final(values[0]), node))
        self._rest(node, result, values[1:])
        body, self._out = self._out, outer
        test: ast.expr = name_at(result, node)
        if isinstance(node.op, ast.Or):
            test = node_at(ast.UnaryOp, node, op=ast.Not(), operand=test)
        self._branch(node, test, body, [])

    def _bound(self, node: ast.NamedExpr) -> ast.expr:
        value = self.hoisted(node.value)
        self._emit(assign_at(node.target.id, value, node))
        # Not the variable: a later part of the expression may bind it again.
        return value

    def _comparison(self, node: ast.Compare) -> ast.expr:
        is_boundary = node in self._marks.expressions
        chained = len(node.ops) > 1
        if chained and (is_boundary or set(node.comparators[1:]) & self._marks.touched):
            return self._chain(node)
        if is_boundary and isinstance(node.ops[0], ast.Is | ast.IsNot) and _is_plain_load(node):
            # What a region gives back is equal, and need not be the same object.
            return self._assigned(node, kept=True)
        operands = [_Operand(node, "left"), _Operand(node, "comparators", 0)]
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
            outer, self._out = self._out, []
            link(right, index + 1)
            body, self._out = self._out, outer
            self._branch(node, name_at(result, node), body, [])

        link(left, 0)
        return name_at(result, node)

    # -- statements --------------------------------------------------------------------------------

    def _is_header(self, statement: ast.stmt) -> bool:
        return statement in self._marks.headers

    def _in_python(self, node: ast.expr) -> ast.expr:
        """An expression whose value only Python can have: an iterator, a context manager."""
        if isinstance(node, ast.Call):
            self._marks.expressions.setdefault(node, Boundary("", leads_inside=True))
            return self._call(node)
        return self.hoisted(node)

    def _value(self, statement: Any, name: str = "value") -> None:
        """The expression of a statement, ready for what the statement does with it."""
        value = getattr(statement, name)
        if value is not None:
            ready = self.hoisted if self._is_header(statement) else self.final
            setattr(statement, name, ready(value))

    def _plain_expression(self, statement: ast.Expr) -> None:
        value = self.final(statement.value)
        if not self._is_atom(value):
            statement.value = value
            self._emit(statement, kept=self._is_header(statement))

    def _return(self, statement: ast.Return) -> None:
        self._value(statement)
        self._untouched(statement)

    def _raise(self, statement: ast.Raise) -> None:
        if statement.cause is not None and statement.exc is not None:
            statement.exc = self.hoisted(statement.exc)
            self._value(statement, "cause")
        else:
            self._value(statement, "exc")
        self._emit(statement, kept=self._is_header(statement))

    def _assert(self, statement: ast.Assert) -> None:
        if statement.msg in self._marks.touched:
            self._verbatim(statement)
            return
        self._value(statement, "test")
        self._emit(statement, kept=self._is_header(statement))

    def _assign(self, statement: ast.Assign | ast.AnnAssign) -> None:
        if statement.value is None:
            self._verbatim(statement)
            return
        single = isinstance(statement, ast.AnnAssign)
        targets = [statement.target] if single else statement.targets
        if not set(targets) & self._marks.touched:
            self._value(statement)
            self._emit(statement, kept=self._is_header(statement))
            return
        value = self.hoisted(statement.value)
        for target in targets:
            self._store(target, value, self._is_header(statement))

    def _store(self, target: ast.expr, value: ast.expr, kept: bool) -> None:
        kept = kept or target in self._marks.expressions
        if isinstance(target, ast.Attribute | ast.Subscript):
            self._operands(_operands_of(target), all_of_them=True)
        elif target in self._marks.touched:
            kept = True  # An unpacking with a boundary among its targets.
        made = node_at(ast.Assign, target, targets=[target], value=value, type_comment=None)
        self._emit(made, kept)

    def _augmented(self, statement: ast.AugAssign) -> None:
        target, header = statement.target, self._is_header(statement)
        if isinstance(target, ast.Name):
            if not self._is_atom(target):  # it is read before the value is computed
                self._verbatim(statement)
                return
            self._value(statement)
            self._emit(statement, kept=header)
            return
        self._operands(_operands_of(target), all_of_them=True)
        old = self.temporary()
        fields = {**target.__dict__, "ctx": LOAD}
        loaded = type(target).__new__(type(target))
        loaded.__dict__ = fields
        reads = target in self._marks.expressions
        self._emit(assign_at(old, loaded, target), kept=reads)
        value = self.hoisted(statement.value)
        work = node_at(
            ast.AugAssign,
            statement,
            target=name_at(old, target, STORE),
            op=statement.op,
            value=value,
        )
        self._emit(work, kept=header)
        target.ctx = STORE
        named = name_at(old, target)
        store = node_at(ast.Assign, target, targets=[target], value=named, type_comment=None)
        self._emit(store, kept=header or reads)

    def _if(self, statement: ast.If) -> None:
        self._value(statement, "test")
        statement.body = self.block(statement.body)
        statement.orelse = self.block(statement.orelse)
        self._emit(statement, kept=self._is_header(statement))

    def _while(self, statement: ast.While) -> None:
        header = self._is_header(statement)
        if statement.test not in self._marks.touched and not header:
            statement.body = self.block(statement.body)
            statement.orelse = self.block(statement.orelse)
            self._emit(statement)
            return
        if has_jump(statement.orelse):
            self._verbatim(statement)
            return
        # The test is evaluated anew in every round: inside of the loop, it can be statements.
        outer, self._out = self._out, []
        self._value(statement, "test")
        negated = node_at(ast.UnaryOp, statement.test, op=ast.Not(), operand=statement.test)
        leaving = [*self.block(statement.orelse), node_at(ast.Break, statement.test)]
        test = node_at(ast.If, statement.test, test=negated, body=leaving, orelse=[])
        self._emit(test, kept=header)
        statement.body = [*self._out, *self.block(statement.body)]
        self._out = outer
        always = node_at(ast.Constant, statement.test, value=True, kind=None)
        statement.test, statement.orelse = always, []
        self._emit(statement)

    def _for(self, statement: ast.For) -> None:
        ready = self._in_python if self._is_header(statement) else self._iterated
        statement.iter = ready(statement.iter)
        if statement.target in self._marks.touched:
            self._verbatim(statement)
            return
        statement.body = self.block(statement.body)
        statement.orelse = self.block(statement.orelse)
        self._emit(statement, kept=self._is_header(statement))

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

    def _with(self, statement: ast.With) -> None:
        first, *rest = statement.items
        if rest:
            inner = node_at(ast.With, statement, items=rest, body=statement.body, type_comment=None)
            if self._is_header(statement):
                self._marks.headers.add(inner)
            self._marks.touched.add(inner)
            statement.items, statement.body = [first], [inner]
        ready = self._in_python if self._is_header(statement) else self.final
        first.context_expr = ready(first.context_expr)
        statement.body = self.block(statement.body)
        self._emit(statement, kept=self._is_header(statement))

    def _try(self, statement: Any) -> None:
        for name in ("body", "orelse", "finalbody"):
            setattr(statement, name, self.block(getattr(statement, name)))
        for handler in statement.handlers:
            handler.body = self.block(handler.body)
        self._emit(statement, kept=self._is_header(statement))

    def _match(self, statement: ast.Match) -> None:
        self._value(statement, "subject")
        is_kept = self._is_header(statement)
        for case in statement.cases:
            is_kept |= case.guard in self._marks.touched
            case.body = self.block(case.body)
        self._emit(statement, kept=is_kept)


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


class _Operand:
    """A place in a node that holds an operand; `**mapping` in a call is spread."""

    __slots__ = ("_index", "_name", "_node", "is_spread")

    def __init__(self, node: ast.AST, name: str, index: int | None = None) -> None:
        self._node = node
        self._name = name
        self._index = index
        self.is_spread = isinstance(node, ast.keyword) and node.arg is None

    def get(self) -> ast.expr:
        held = getattr(self._node, self._name)
        return held if self._index is None else held[self._index]

    def set(self, value: ast.expr) -> None:
        if self._index is None:
            setattr(self._node, self._name, value)
        else:
            getattr(self._node, self._name)[self._index] = value


def _has_slices(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple) and any(isinstance(x, ast.Slice) for x in node.elts)


def _operands_of(node: ast.expr) -> list[_Operand]:
    """The operands of an expression in the order in which they are evaluated."""
    match node:
        case ast.Dict():
            return [
                operand
                for i, key in enumerate(node.keys)
                for operand in (
                    *([_Operand(node, "keys", i)] if key is not None else ()),
                    _Operand(node, "values", i),
                )
            ]
        case ast.Tuple() | ast.List() | ast.Set():
            return [_Operand(node, "elts", i) for i in range(len(node.elts))]
        case ast.Slice():
            return [
                _Operand(node, name)
                for name in ("lower", "upper", "step")
                if getattr(node, name) is not None
            ]
    return [_Operand(node, name) for name in _FIELDS[type(node)]]


def _arguments_of(node: ast.Call) -> list[_Operand]:
    args = [_Operand(node, "args", i) for i in range(len(node.args))]
    return args + [_Operand(keyword, "value") for keyword in node.keywords]


_FIELDS: Final[dict[type[ast.expr], tuple[str, ...]]] = {
    ast.BinOp: ("left", "right"),
    ast.UnaryOp: ("operand",),
    ast.Attribute: ("value",),
    ast.Subscript: ("value", "slice"),
    ast.Starred: ("value",),
    ast.Name: (),
}
_TAKEN_APART: Final = (*_FIELDS, ast.Dict, ast.Tuple, ast.List, ast.Set, ast.Slice)

_DECIDED: Final[dict[type[ast.expr], Callable[[Linearizer, Any], ast.expr]]] = {
    ast.IfExp: Linearizer._choice,
    ast.BoolOp: Linearizer._and_or,
    ast.NamedExpr: Linearizer._bound,
    ast.Compare: Linearizer._comparison,
}

_STATEMENTS: Final[dict[type[ast.stmt], Callable[[Linearizer, Any], None]]] = {
    ast.Expr: Linearizer._plain_expression,
    ast.Return: Linearizer._return,
    ast.Raise: Linearizer._raise,
    ast.Assert: Linearizer._assert,
    ast.Assign: Linearizer._assign,
    ast.AnnAssign: Linearizer._assign,
    ast.AugAssign: Linearizer._augmented,
    ast.If: Linearizer._if,
    ast.While: Linearizer._while,
    ast.For: Linearizer._for,
    ast.With: Linearizer._with,
    ast.Try: Linearizer._try,
    ast.TryStar: Linearizer._try,
    ast.Match: Linearizer._match,
}


# -- calls that lead to functions in parts ---------------------------------------------------------


def routed_call(node: ast.Call) -> ast.Call:
    """`route(f, *args)`. Not of functions that look at the frame that calls them."""
    if isinstance(node.func, ast.Name) and node.func.id in FRAME_READERS | {ROUTE}:
        return node
    arguments = [node.func, *node.args]
    return node_at(
        ast.Call, node, func=name_at(ROUTE, node), args=arguments, keywords=node.keywords
    )


class _Routing(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return routed_call(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda  # pyright: ignore[reportAssignmentType] scopes of their own


def routed(node: Any) -> Any:
    """A node with all calls in it routed."""
    return _Routing().visit(node)


def has_jump(body: list[ast.stmt]) -> bool:
    """Whether a `break` or `continue` in these statements belongs to a loop around them."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Break | ast.Continue):
            return True
        if isinstance(node, ast.For | ast.While | ast.AsyncFor):
            todo += node.orelse
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            todo += ast.iter_child_nodes(node)
    return False
