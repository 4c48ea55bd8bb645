"""Expressions: every operation that can be observed becomes a call on the hooks object.

    x.shape[0] + n
    H.binary("add", H.item(H.attribute(x, "shape"), 0), H.load_global(F, "n", n))

    [x for x, y in it if y]
    [x for t in H.iterate(it) for x, y in [H.unpack(t)] for t in [None] if H.truth(y)]

A method may change the node that it is given: the tree belongs to this rewriting. Whatever is
evaluated stays in Python's own order.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from typing import cast

from anyshape.capture.rewrite.conditions import ConditionRewriter, gives_bool
from anyshape.capture.rewrite.nodes import (
    FRAME,
    LOAD,
    STORE,
    CannotRewrite,
    Placed,
    arguments_at,
    lambda_at,
    name_at,
    name_position,
    node_at,
    plain_node,
    through_variables,
)
from anyshape.capture.rewrite.scopes import (
    NameKind,
    NameScope,
    Scope,
    all_arguments,
    comprehension_targets,
    walrus_targets,
)

BINARY_NAMES: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
UNARY_NAMES: Mapping[type[ast.unaryop], str] = {
    ast.USub: "neg",
    ast.UAdd: "pos",
    ast.Invert: "invert",
}

# They look at the frame that calls them, and would see one of ours.
NEEDS_THE_FRAME = frozenset(
    {"locals", "globals", "eval", "exec", "_getframe", "_getframemodulename", "currentframe"}
)
NEEDS_THE_FRAME_WITHOUT_ARGUMENTS = frozenset({"vars", "dir"})
LEFT_ALONE = frozenset({"__class__", "__debug__"})

# Comprehensions are part of their function's frame since 3.12, and so is `super()` in them.
INLINED_COMPREHENSIONS = sys.version_info >= (3, 12)


class ExpressionRewriter(ConditionRewriter):
    # Names.

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = node.id
        if name.startswith("__"):
            name = self.mangle(name)
        if name in self.scope.bound:
            return node
        place = self.scope.place(name)
        if place is NameScope.LOCAL or name in LEFT_ALONE:
            return node
        if name in NEEDS_THE_FRAME:
            raise CannotRewrite(f"it uses `{name}`, which looks at the frame of its caller")
        if name == "stack" and self.globals.get(name) is inspect.stack:
            raise CannotRewrite("it uses `inspect.stack`, which looks at the frame of its caller")
        method = "load_free" if place is NameScope.FREE else "load_global"
        frame = self.own_name(FRAME, node)
        return self.hook(method, node, frame, self.constant(name, node), node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        name = self.mangle(cast(ast.Name, node.target).id)
        node.value = self.stored(name, self.expression(node.value), node)
        return node

    # Objects.

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        name = self.mangle(node.attr)
        if name in NEEDS_THE_FRAME and name not in {"eval", "exec"}:
            raise CannotRewrite(f"it uses `{name}`, which looks at the frame of its caller")
        if name == "stack" and isinstance(node.value, ast.Name) and node.value.id == "inspect":
            raise CannotRewrite("it uses `inspect.stack`, which looks at the frame of its caller")
        at = name_position(node)
        return self.hook("attribute", at, self.expression(node.value), self.constant(name, at))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self.hook("item", node, self.expression(node.value), self.expression(node.slice))

    def visit_Slice(self, node: ast.Slice) -> ast.expr:
        parts = (
            self.constant(None, node) if part is None else self.expression(part)
            for part in (node.lower, node.upper, node.step)
        )
        return self.hook("slice", node, *parts)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = node.func
        at: Placed = node
        if isinstance(function, ast.Name):
            name = self.mangle(function.id)
            if not node.args and not node.keywords:
                self.refuse_frame_functions(name)
                if name == "super" and self.scope.place(name) is NameScope.GLOBAL:
                    return self.bare_super(node)
        elif isinstance(function, ast.Attribute) and function.lineno != function.end_lineno:
            at = name_position(function)
            at.end_lineno, at.end_col_offset = node.end_lineno, node.end_col_offset
        unpacks_last = unpacks_after_keywords(node)
        arguments = [self.expression(function)]
        arguments += [self.expression(argument) for argument in node.args]
        for keyword in node.keywords:
            value = self.expression(keyword.value)
            keyword.value = value if keyword.arg else self.hook("mapping", keyword.value, value)
        if unpacks_last:
            return self.call_that_unpacks_last(arguments, node.keywords, at)
        call = self.hook("call", at, *arguments)
        call.keywords = node.keywords
        return call

    def call_that_unpacks_last(
        self, arguments: list[ast.expr], keywords: list[ast.keyword], at: Placed
    ) -> ast.expr:
        """`(lambda f, a, /, **k: H.call(f, *a, **k))(f, a, ...)`."""
        function, starred = arguments
        assert isinstance(starred, ast.Starred), "the only argument is unpacked"
        names = [self.new_variable() for _ in range(3)]
        loads = [name_at(name, at) for name in names]
        call = self.hook("call", at, loads[0], node_at(ast.Starred, at, value=loads[1], ctx=LOAD))
        call.keywords = [node_at(ast.keyword, at, arg=None, value=loads[2])]
        inner = lambda_at(at, names[:2], call)
        inner.args.posonlyargs, inner.args.args = inner.args.args, []
        inner.args.kwarg = arguments_at(at, names[2:]).args[0]
        return node_at(ast.Call, at, func=inner, args=[function, starred.value], keywords=keywords)

    def refuse_frame_functions(self, name: str) -> None:
        if (
            name in NEEDS_THE_FRAME_WITHOUT_ARGUMENTS
            and self.scope.place(name) is not NameScope.LOCAL
        ):
            raise CannotRewrite(f"it uses `{name}()`, which looks at the frame of its caller")

    def bare_super(self, node: ast.Call) -> ast.expr:
        """`super()`: the class from the cell that the compiler keeps, and the first argument."""
        scope = self.scope
        while scope.kind is NameKind.COMPREHENSION and scope.parent is not None:
            if scope.is_generator_expression or not INLINED_COMPREHENSIONS:
                raise CannotRewrite("it has `super()` in a comprehension")
            scope = scope.parent
        if scope.kind is not NameKind.FUNCTION or scope.first_argument is None:
            raise CannotRewrite("it has `super()` where there is no first argument")
        if "super" in self.globals:
            raise CannotRewrite("it has `super()`, and its module redefines `super`")
        return self.hook(
            "super", node, name_at("__class__", node), name_at(scope.first_argument, node)
        )

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        node.value = self.hook("unpack", node.value, self.expression(node.value))
        return node

    # Operators.

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if is_constant(node):
            return node
        name = self.constant(BINARY_NAMES[type(node.op)], node)
        return self.hook(
            "binary", node, name, self.expression(node.left), self.expression(node.right)
        )

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if is_constant(node):
            return node
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            if not gives_bool(node.operand):
                operand = self.hook("truth", node.operand, operand)
            node.operand = operand
            return node
        return self.hook("unary", node, self.constant(UNARY_NAMES[type(node.op)], node), operand)

    # Displays and text.

    def visit_List(self, node: ast.Tuple | ast.List) -> ast.expr:
        node.elts = [self.expression(element) for element in node.elts]
        return node

    visit_Tuple = visit_List

    def visit_Set(self, node: ast.Set) -> ast.expr:
        node.elts = [self.key(element) for element in node.elts]
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        keys: list[ast.expr | None] = []
        values: list[ast.expr] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                keys.append(None)
                values.append(self.hook("mapping", value, self.expression(value)))
            else:
                keys.append(self.key(key))
                values.append(self.expression(value))
        node.keys, node.values = keys, values
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return self.hook("text", node, *(self.expression(value) for value in node.values))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        conversion = None if node.conversion == -1 else chr(node.conversion)
        spec = node.format_spec
        text = self.constant("", node) if spec is None else self.expression(spec)
        value = self.expression(node.value)
        return self.hook("format", node, value, self.constant(conversion, node), text)

    # Scopes inside expressions.

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        self.defaults(node.args)
        around = self.scope
        names = frozenset(self.mangle(argument.arg) for argument in all_arguments(node.args))
        walruses = set(walrus_targets(node.body)) if self.has_walrus else set[str]()
        walruses = {self.mangle(name) for name in walruses}
        self.scope = Scope(
            NameKind.FUNCTION,
            {*names, *walruses},
            parent=around,
            unstable=walruses,
            parameters=names,
            class_name=around.class_name,
            first_argument=first_argument(node.args),
        )
        node.body = self.expression(node.body)
        self.scope = around
        return node

    def defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.expression(default) for default in arguments.defaults]
        arguments.kw_defaults = [self.optional(default) for default in arguments.kw_defaults]

    # Comprehensions.

    def visit_ListComp(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> ast.expr:
        around = self.scope
        inner = Scope(
            NameKind.COMPREHENSION,
            comprehension_targets(node.generators, around.class_name),
            parent=around,
            class_name=around.class_name,
            is_generator_expression=isinstance(node, ast.GeneratorExp),
        )
        generators: list[ast.comprehension] = []
        for generator in node.generators:
            if generator.is_async:
                raise CannotRewrite("it has an asynchronous comprehension")
            self.iterable_depth += 1
            iterable = self.expression(generator.iter)
            self.iterable_depth -= 1
            # Python evaluates the first iterable outside.
            self.scope = inner
            generator.iter = self.hook("iterate", generator.iter, iterable)
            generators.append(generator)
            if not isinstance(generator.target, ast.Name):
                self.assign_in_clauses(generator, generators)
            generators[-1].ifs = [self.condition(test) for test in generator.ifs]
            if generators[-1] is not generator:
                generator.ifs = []
        node.generators = generators
        if isinstance(node, ast.DictComp):
            node.key = self.key(node.key)
            node.value = self.expression(node.value)
        elif isinstance(node, ast.SetComp):
            node.elt = self.key(node.elt)
        else:
            node.elt = self.expression(node.elt)
        self.scope = around
        return node

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def assign_in_clauses(
        self, generator: ast.comprehension, clauses: list[ast.comprehension]
    ) -> None:
        """`for a, b in it` -> `for t in it for a, b in [H.unpack(t)] for t in [None]`.

        Python compiles a loop over a display of one element to an assignment.
        """

        def clause(target: ast.expr, value: ast.expr) -> None:
            display = node_at(ast.List, value, elts=[value], ctx=LOAD)
            clauses.append(
                plain_node(ast.comprehension, target=target, iter=display, ifs=[], is_async=0)
            )

        def assign(target: ast.expr, value: ast.expr) -> None:
            match target:
                case ast.Name():
                    clause(target, value)
                case ast.Attribute() | ast.Subscript():
                    result = self.new_variable()
                    clause(name_at(result, target, STORE), self.store(target, value))
                case ast.Tuple() | ast.List():
                    waiting = through_variables(target, _is_name, self.new_variable)
                    clause(target, self.hook("unpack", target, value))
                    for inner, name in waiting:
                        assign(inner, name_at(name, inner))
                        clear(name, inner)
                case _:
                    raise CannotRewrite(f"{type(target).__name__} as a target is not supported")

        def clear(name: str, at: ast.expr) -> None:
            clause(name_at(name, at, STORE), self.constant(None, at))

        target = generator.target
        name = self.new_variable()
        generator.target = name_at(name, target, STORE)
        assign(target, name_at(name, target))
        clear(name, target)

    def key(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant):
            return self.expression(node)
        if isinstance(node, ast.Starred):
            node.value = self.hook("members", node.value, self.expression(node.value))
            return node
        return self.hook("key", node, self.expression(node))

    # Generators.

    def visit_Yield(self, node: ast.Yield) -> ast.expr:
        node.value = self.optional(node.value)
        return node

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.expr:
        node.value = self.hook("iterate", node.value, self.expression(node.value))
        return node

    def visit_Constant(self, node: ast.expr) -> ast.expr:
        return node

    def visit_Await(self, node: ast.expr) -> ast.expr:
        raise CannotRewrite("it has asynchronous code")


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


def unpacks_after_keywords(node: ast.Call) -> bool:
    """`f(*a, k=g())` iterates `a` after it evaluated `g()`, if `*a` is the only argument."""
    if not node.keywords or len(node.args) != 1 or not isinstance(node.args[0], ast.Starred):
        return False
    return any(
        isinstance(part, ast.Call | ast.NamedExpr | ast.Yield | ast.YieldFrom)
        for keyword in node.keywords
        for part in ast.walk(keyword.value)
    )


def is_constant(node: ast.expr) -> bool:
    """Arithmetic on literals: there is nothing to observe."""
    match node:
        case ast.Constant():
            return True
        case ast.UnaryOp():
            return is_constant(node.operand)
        case ast.BinOp():
            return is_constant(node.left) and is_constant(node.right)
        case _:
            return False


def first_argument(arguments: ast.arguments) -> str | None:
    positional = arguments.posonlyargs or arguments.args
    return positional[0].arg if positional else None
