"""Expressions: every operation that can be observed becomes a call on the hooks object.

    x.shape[0] + n   ->   H.binary("add", H.item(H.attribute(x, "shape"), 0), H.load_global(F, "n", n))

One handler a kind of node, found in the table at the end. A handler may change the node that it
is given: the tree belongs to this rewriting. Whatever is evaluated stays in Python's own order.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

from anyshape.capture.rewrite_nodes import (
    FRAME,
    LOAD,
    STORE,
    TEMPORARY,
    CannotRewrite,
    Nodes,
    Position,
    name_at,
    node_at,
    plain_node,
)
from anyshape.capture.rewrite_scopes import (
    Kind,
    Place,
    Scope,
    all_arguments,
    comprehension_targets,
    mangle,
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
COMPARE_NAMES: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
# Comparisons whose result is a bool, whatever the operands are.
BOOL_COMPARISONS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)

# They look at the frame that calls them, and would see one of ours.
NEEDS_THE_FRAME = frozenset(
    {"locals", "globals", "eval", "exec", "_getframe", "_getframemodulename", "currentframe"}
)
NEEDS_THE_FRAME_WITHOUT_ARGUMENTS = frozenset({"vars", "dir"})
LEFT_ALONE = frozenset({"__class__", "__debug__"})

# Comprehensions are part of their function's frame since 3.12, and so is `super()` in them.
INLINED_COMPREHENSIONS = sys.version_info >= (3, 12)

Handler = Callable[[Any, Any], ast.expr]


class ExpressionRewriter:
    def __init__(self, scope: Scope, text: str, globals_: Mapping[str, object]) -> None:
        self.scope = scope
        self.nodes = Nodes()
        self.globals = globals_
        # Two cheap facts about the whole text that let most functions skip a walk.
        self.has_walrus = ":=" in text
        self.has_nonlocal = "nonlocal" in text
        self.temporaries = 0
        # How many iterables of comprehensions we are inside: no walrus may stand there.
        self.iterable_depth = 0

    def expression(self, node: ast.expr) -> ast.expr:
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            raise CannotRewrite(f"{type(node).__name__} expressions are not supported")
        return handler(self, node)

    def optional(self, node: ast.expr | None) -> ast.expr | None:
        return None if node is None else self.expression(node)

    def hook(self, method: str, at: Any, *arguments: ast.expr) -> ast.Call:
        return self.nodes.hook(method, at, list(arguments))

    def constant(self, value: str | int | None, at: Any) -> ast.Constant:
        return self.nodes.constant(value, at)

    def mangle(self, name: str) -> str:
        return mangle(name, self.scope.class_name)

    def new_variable(self) -> str:
        """A name that the user does not have."""
        self.temporaries += 1
        return TEMPORARY.format(self.temporaries)

    def temporary(self) -> str:
        """A new variable of the function. It is cleared after use: it must keep nothing alive."""
        name = self.new_variable()
        scope = self.scope.function()
        if scope.kind is Kind.CLASS:
            scope.borrowed.append(name)
        return name

    # Names.

    def name(self, node: ast.Name) -> ast.expr:
        name = node.id
        if name.startswith("__"):
            name = self.mangle(name)
        if name in self.scope.bound:
            return node
        place = self.scope.place(name)
        if place is Place.LOCAL or name in LEFT_ALONE:
            return node
        if name in NEEDS_THE_FRAME:
            raise CannotRewrite(f"it uses `{name}`, which looks at the frame of its caller")
        if name == "stack" and self.globals.get(name) is inspect.stack:
            raise CannotRewrite("it uses `inspect.stack`, which looks at the frame of its caller")
        method = "load_free" if place is Place.FREE else "load_global"
        frame = self.nodes.name(FRAME, node)
        return self.hook(method, node, frame, self.constant(name, node), node)

    def stored(self, name: str, value: ast.expr, at: Any) -> ast.expr:
        """What to store under a (mangled) name, given what the user stores."""
        place = self.scope.place(name)
        if place is Place.LOCAL:
            return value
        method = "store_free" if place is Place.FREE else "store_global"
        return self.hook(method, at, self.nodes.name(FRAME, at), self.constant(name, at), value)

    def walrus(self, node: ast.NamedExpr) -> ast.expr:
        name = self.mangle(cast(ast.Name, node.target).id)
        node.value = self.stored(name, self.expression(node.value), node)
        return node

    # Objects.

    def attribute(self, node: ast.Attribute) -> ast.expr:
        name = self.mangle(node.attr)
        if name in NEEDS_THE_FRAME and name not in {"eval", "exec"}:
            raise CannotRewrite(f"it uses `{name}`, which looks at the frame of its caller")
        if name == "stack" and isinstance(node.value, ast.Name) and node.value.id == "inspect":
            raise CannotRewrite("it uses `inspect.stack`, which looks at the frame of its caller")
        at = name_position(node)
        return self.hook("attribute", at, self.expression(node.value), self.constant(name, at))

    def subscript(self, node: ast.Subscript) -> ast.expr:
        return self.hook("item", node, self.expression(node.value), self.expression(node.slice))

    def slice(self, node: ast.Slice) -> ast.expr:
        parts = (
            self.constant(None, node) if part is None else self.expression(part)
            for part in (node.lower, node.upper, node.step)
        )
        return self.hook("slice", node, *parts)

    def call(self, node: ast.Call) -> ast.expr:
        function = node.func
        at: Any = node
        if isinstance(function, ast.Name):
            name = self.mangle(function.id)
            if not node.args and not node.keywords:
                self.refuse_frame_functions(name)
                if name == "super" and self.scope.place(name) is Place.GLOBAL:
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
        call = self.nodes.hook("call", at, arguments)
        call.keywords = node.keywords
        return call

    def call_that_unpacks_last(
        self, arguments: list[ast.expr], keywords: list[ast.keyword], at: Any
    ) -> ast.expr:
        """`(lambda f, a, /, **k: H.call(f, *a, **k))(f, a, ...)`."""
        function, starred = arguments
        assert isinstance(starred, ast.Starred), "the only argument is unpacked"
        names = [self.new_variable() for _ in range(3)]
        loads = [name_at(name, at) for name in names]
        call = self.nodes.hook(
            "call", at, [loads[0], node_at(ast.Starred, at, value=loads[1], ctx=LOAD)]
        )
        call.keywords = [node_at(ast.keyword, at, arg=None, value=loads[2])]
        inner = lambda_at(at, names[:2], call)
        inner.args.posonlyargs, inner.args.args = inner.args.args, []
        inner.args.kwarg = arguments_at(at, names[2:]).args[0]
        return node_at(
            ast.Call, at, func=inner, args=[function, starred.value], keywords=keywords
        )

    def refuse_frame_functions(self, name: str) -> None:
        if name in NEEDS_THE_FRAME_WITHOUT_ARGUMENTS and self.scope.place(name) is not Place.LOCAL:
            raise CannotRewrite(f"it uses `{name}()`, which looks at the frame of its caller")

    def bare_super(self, node: ast.Call) -> ast.expr:
        """`super()`: the class from the cell that the compiler keeps, and the first argument."""
        scope = self.scope
        while scope.kind is Kind.COMPREHENSION and scope.parent is not None:
            if scope.is_generator_expression or not INLINED_COMPREHENSIONS:
                raise CannotRewrite("it has `super()` in a comprehension")
            scope = scope.parent
        if scope.kind is not Kind.FUNCTION or scope.first_argument is None:
            raise CannotRewrite("it has `super()` where there is no first argument")
        if "super" in self.globals:
            raise CannotRewrite("it has `super()`, and its module redefines `super`")
        return self.hook(
            "super", node, name_at("__class__", node), name_at(scope.first_argument, node)
        )

    def starred(self, node: ast.Starred) -> ast.expr:
        node.value = self.hook("unpack", node.value, self.expression(node.value))
        return node

    # Operators.

    def binary(self, node: ast.BinOp) -> ast.expr:
        if is_constant(node):
            return node
        name = self.constant(BINARY_NAMES[type(node.op)], node)
        return self.hook(
            "binary", node, name, self.expression(node.left), self.expression(node.right)
        )

    def unary(self, node: ast.UnaryOp) -> ast.expr:
        if is_constant(node):
            return node
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            if not gives_bool(node.operand):
                operand = self.hook("truth", node.operand, operand)
            node.operand = operand
            return node
        return self.hook("unary", node, self.constant(UNARY_NAMES[type(node.op)], node), operand)

    def boolean(self, node: ast.BoolOp) -> ast.expr:
        operands = flattened(node)
        node.values = [self.tested(operand, node.op) for operand in operands[:-1]]
        node.values.append(self.expression(operands[-1]))
        return node

    def tested(self, node: ast.expr, op: ast.boolop) -> ast.expr:
        """An operand that `op` tests, and whose value is the result if it decides.

        `(a and b) or c`: where `a` is false, its value is of no interest, and Python tests it once.
        """
        if isinstance(node, ast.BoolOp):
            operands = flattened(node)
            node.values = [self.condition(operand) for operand in operands[:-1]]
            node.values.append(self.tested(operands[-1], op))
            return node
        if isinstance(node, ast.Constant) or gives_bool(node):
            return self.expression(node)
        return self.hook("test", node, self.expression(node))

    def condition(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth matters, with every test that Python makes."""
        match node:
            case ast.Constant():
                return node
            case ast.BoolOp():
                node.values = [self.condition(value) for value in node.values]
                return node
            case ast.UnaryOp(op=ast.Not()):
                node.operand = self.condition(node.operand)
                return node
            case ast.IfExp():
                node.test = self.condition(node.test)
                node.body = self.condition(node.body)
                node.orelse = self.condition(node.orelse)
                return node
            case ast.Compare() if len(node.ops) > 1:
                return self.chain(node, as_condition=True)
            case _ if gives_bool(node):
                return self.expression(node)
            case _:
                return self.hook("truth", node, self.expression(node))

    def if_expression(self, node: ast.IfExp) -> ast.expr:
        node.test = self.condition(node.test)
        node.body = self.expression(node.body)
        node.orelse = self.expression(node.orelse)
        return node

    def compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1:
            return self.chain(node, as_condition=False)
        left = self.expression(node.left)
        return self.comparison(node.ops[0], left, self.expression(node.comparators[0]), node)

    def comparison(self, op: ast.cmpop, left: ast.expr, right: ast.expr, at: ast.expr) -> ast.expr:
        name = COMPARE_NAMES.get(type(op))
        if name is not None:
            return self.hook("compare", at, self.constant(name, at), left, right)
        method = "same" if isinstance(op, ast.Is | ast.IsNot) else "contains"
        positive = self.hook(method, at, left, right)
        if isinstance(op, ast.Is | ast.In):
            return positive
        return node_at(ast.UnaryOp, at, op=ast.Not(), operand=positive)

    # Chained comparisons: `a < b < c` evaluates `b` once, and `c` only if `a < b` holds.

    def chain(self, node: ast.Compare, *, as_condition: bool) -> ast.expr:
        operands = [node.left, *node.comparators]
        if all(self.can_be_read_twice(operand) for operand in operands[1:-1]):
            return self.chain_of_names(node, operands, as_condition)
        if self.walrus_is_safe():
            first = self.expression(node.left)
            return self.chain_with_walrus(node, first, 0, as_condition)
        names = self.scope.kind is not Kind.CLASS
        if names and not (self.has_walrus and any(True for _ in walrus_targets(node))):
            first, second = self.expression(operands[0]), self.expression(operands[1])
            return self.chain_with_lambda(node, first, second, 0, as_condition)
        plain = [self.hook("plain", operand, self.expression(operand)) for operand in operands]
        node.left, node.comparators = plain[0], plain[1:]
        return self.hook("truth", node, node) if as_condition else node

    def can_be_read_twice(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return True
        return isinstance(node, ast.Name) and self.is_stable(self.mangle(node.id))

    def is_stable(self, name: str) -> bool:
        """A local variable that nothing can rebind while an expression is evaluated."""
        scope = self.scope
        if name not in scope.bound or scope.kind is Kind.CLASS:
            return False
        return not self.has_nonlocal and name not in scope.unstable

    def walrus_is_safe(self) -> bool:
        """Whether `(t := x)` may be written here.

        Python forbids it in iterables of comprehensions, and in comprehensions of a class body.
        Two generators of one generator expression would share the variable.
        """
        scope = self.scope
        while scope.kind is Kind.COMPREHENSION and scope.parent is not None:
            if scope.is_generator_expression:
                return False
            scope = scope.parent
        in_comprehension = scope is not self.scope
        return self.iterable_depth == 0 and not (in_comprehension and scope.kind is Kind.CLASS)

    def linked(self, link: ast.expr, rest: ast.expr, at: ast.expr, as_condition: bool) -> ast.expr:
        """`link and rest`, where `link` is one comparison of a chain."""
        link = self.hook("truth" if as_condition else "test", at, link)
        return node_at(ast.BoolOp, at, op=ast.And(), values=[link, rest])

    def last_link(self, link: ast.expr, at: ast.expr, as_condition: bool) -> ast.expr:
        return self.hook("truth", at, link) if as_condition else link

    def chain_of_names(
        self, node: ast.Compare, operands: list[ast.expr], as_condition: bool
    ) -> ast.expr:
        """`a < b and b < c`."""
        lefts = [self.expression(node.left), *operands[1:-1]]
        rights = [*operands[1:-1], self.expression(operands[-1])]
        *links, last = map(self.comparison, node.ops, lefts, rights, [node] * len(node.ops))
        result = self.last_link(last, node, as_condition)
        for link in reversed(links):
            result = self.linked(link, result, node, as_condition)
        return result

    def chain_with_walrus(
        self, node: ast.Compare, left: ast.expr, index: int, as_condition: bool
    ) -> ast.expr:
        """`(t < c) if H.truth(v := a < (t := b)) else v`, where both variables are cleared."""
        right = self.expression(node.comparators[index])
        if index == len(node.ops) - 1:
            return self.last_link(
                self.comparison(node.ops[index], left, right, node), node, as_condition
            )
        middle, verdict = self.temporary(), self.temporary()
        link = self.comparison(node.ops[index], left, bound_to(middle, right), node)
        if as_condition:
            test = self.hook("truth", node, link)
            next_left = read_and_clear(node, middle)
            otherwise: ast.expr = bound_to(middle, self.constant(None, node))
        else:
            test = self.hook("truth", node, bound_to(verdict, link))
            next_left = read_and_clear(node, middle, verdict)
            otherwise = read_and_clear(node, verdict, middle)
        rest = self.chain_with_walrus(node, next_left, index + 1, as_condition)
        return node_at(ast.IfExp, node, test=test, body=rest, orelse=otherwise)

    def chain_with_lambda(
        self,
        node: ast.Compare,
        left: ast.expr,
        right: ast.expr,
        index: int,
        as_condition: bool,
    ) -> ast.expr:
        """`(lambda x, y: x < y and y < c)(a, b)`, where Python has no room for a variable."""
        if index == len(node.ops) - 1:
            return self.last_link(
                self.comparison(node.ops[index], left, right, node), node, as_condition
            )
        first, second = self.new_variable(), self.new_variable()
        around = self.scope
        self.scope = Scope(
            Kind.FUNCTION, {first, second}, parent=around, class_name=around.class_name
        )
        following = self.expression(node.comparators[index + 1])
        link = self.comparison(node.ops[index], name_at(first, node), name_at(second, node), node)
        rest = self.chain_with_lambda(
            node, name_at(second, node), following, index + 1, as_condition
        )
        self.scope = around
        body = self.linked(link, rest, node, as_condition)
        function = lambda_at(node, [first, second], body)
        return node_at(ast.Call, node, func=function, args=[left, right], keywords=[])

    # Displays and text.

    def sequence(self, node: ast.Tuple | ast.List) -> ast.expr:
        node.elts = [self.expression(element) for element in node.elts]
        return node

    def key(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant | ast.Starred):
            return self.expression(node)
        return self.hook("key", node, self.expression(node))

    def set(self, node: ast.Set) -> ast.expr:
        node.elts = [self.key(element) for element in node.elts]
        return node

    def dictionary(self, node: ast.Dict) -> ast.expr:
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

    def joined_string(self, node: ast.JoinedStr) -> ast.expr:
        node.values = [self.expression(value) for value in node.values]
        return node

    def formatted(self, node: ast.FormattedValue) -> ast.expr:
        conversion = None if node.conversion == -1 else chr(node.conversion)
        spec = node.format_spec
        text = self.constant("", node) if spec is None else self.expression(spec)
        value = self.expression(node.value)
        node.value = self.hook("format", node, value, self.constant(conversion, node), text)
        node.conversion = -1
        node.format_spec = None
        return node

    # Scopes inside expressions.

    def lambda_(self, node: ast.Lambda) -> ast.expr:
        self.defaults(node.args)
        around = self.scope
        names = frozenset(self.mangle(argument.arg) for argument in all_arguments(node.args))
        walruses = set(walrus_targets(node.body)) if self.has_walrus else set[str]()
        walruses = {self.mangle(name) for name in walruses}
        self.scope = Scope(
            Kind.FUNCTION,
            names | walruses,
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

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> ast.expr:
        around = self.scope
        inner = Scope(
            Kind.COMPREHENSION,
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
                    waiting: list[tuple[ast.expr, str]] = []
                    elements = list(target.elts)
                    for index, element in enumerate(elements):
                        # As in `unpack_into`: nothing is bound before what stands left of it.
                        inner = element.value if isinstance(element, ast.Starred) else element
                        if waiting or not isinstance(inner, ast.Name):
                            waiting.append((inner, self.new_variable()))
                            elements[index] = replaced(element, waiting[-1][1])
                    target.elts = elements
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

    def store(self, target: ast.Attribute | ast.Subscript, value: ast.expr) -> ast.Call:
        """The call that stores `value`, which Python has evaluated before the target's parts."""
        if isinstance(target, ast.Attribute):
            at = name_position(target)
            name = self.constant(self.mangle(target.attr), at)
            return self.hook("set_attribute", at, self.expression(target.value), name, value)
        parts = self.expression(target.value), self.expression(target.slice)
        return self.hook("set_item", target, *parts, value)

    # Generators.

    def yield_(self, node: ast.Yield) -> ast.expr:
        node.value = self.optional(node.value)
        return node

    def yield_from(self, node: ast.YieldFrom) -> ast.expr:
        node.value = self.hook("iterate", node.value, self.expression(node.value))
        return node

    def unchanged(self, node: ast.expr) -> ast.expr:
        return node

    def asynchronous(self, node: ast.expr) -> ast.expr:
        raise CannotRewrite("it has asynchronous code")


def unpacks_after_keywords(node: ast.Call) -> bool:
    """`f(*a, k=g())` iterates `a` after it evaluated `g()`, if `*a` is the only argument."""
    if not node.keywords or len(node.args) != 1 or not isinstance(node.args[0], ast.Starred):
        return False
    return any(
        isinstance(part, ast.Call | ast.NamedExpr | ast.Yield | ast.YieldFrom)
        for keyword in node.keywords
        for part in ast.walk(keyword.value)
    )


def replaced(node: ast.expr, name: str) -> ast.expr:
    """An element of an unpacking, with a variable in place of its own target."""
    variable = name_at(name, node, STORE)
    if isinstance(node, ast.Starred):
        return node_at(ast.Starred, node, value=variable, ctx=STORE)
    return variable


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


def gives_bool(node: ast.expr) -> bool:
    """Python makes a plain bool there, and hooks do too."""
    match node:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[op]):
            return isinstance(op, BOOL_COMPARISONS)
        case _:
            return False


def flattened(node: ast.BoolOp) -> list[ast.expr]:
    """`(a or b) or c` is `a or b or c`; Python tests each operand once either way."""
    operands: list[ast.expr] = []
    for value in node.values:
        if isinstance(value, ast.BoolOp) and type(value.op) is type(node.op):
            operands += flattened(value)
        else:
            operands.append(value)
    return operands


def first_argument(arguments: ast.arguments) -> str | None:
    positional = arguments.posonlyargs or arguments.args
    return positional[0].arg if positional else None


def name_position(node: ast.Attribute) -> Position:
    """Python blames a missing attribute on the line that names it, if the expression spans more."""
    end_lineno, end_col_offset = cast(int, node.end_lineno), cast(int, node.end_col_offset)
    if node.lineno == end_lineno:
        return Position(node.lineno, node.col_offset, end_lineno, end_col_offset)
    start = max(end_col_offset - len(node.attr), 0)
    return Position(end_lineno, start, end_lineno, end_col_offset)


def bound_to(name: str, value: ast.expr) -> ast.NamedExpr:
    return node_at(ast.NamedExpr, value, target=name_at(name, value, STORE), value=value)


def read_and_clear(at: ast.expr, name: str, *others: str) -> ast.expr:
    """`(t, t := None)[0]`: the variable's value, after which nothing holds it."""
    nothing = node_at(ast.Constant, at, value=None, kind=None)
    elements = [name_at(name, at), *(bound_to(each, nothing) for each in (name, *others))]
    return node_at(
        ast.Subscript,
        at,
        value=node_at(ast.Tuple, at, elts=elements, ctx=LOAD),
        slice=node_at(ast.Constant, at, value=0, kind=None),
        ctx=LOAD,
    )


def lambda_at(at: Any, names: list[str], body: ast.expr) -> ast.Lambda:
    return node_at(ast.Lambda, at, args=arguments_at(at, names), body=body)


def arguments_at(at: Any, names: list[str]) -> ast.arguments:
    return plain_node(
        ast.arguments,
        posonlyargs=[],
        args=[node_at(ast.arg, at, arg=n, annotation=None, type_comment=None) for n in names],
        vararg=None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=[],
    )


EXPRESSIONS: Mapping[type[ast.expr], Handler] = {
    ast.Attribute: ExpressionRewriter.attribute,
    ast.Await: ExpressionRewriter.asynchronous,
    ast.BinOp: ExpressionRewriter.binary,
    ast.BoolOp: ExpressionRewriter.boolean,
    ast.Call: ExpressionRewriter.call,
    ast.Compare: ExpressionRewriter.compare,
    ast.Constant: ExpressionRewriter.unchanged,
    ast.Dict: ExpressionRewriter.dictionary,
    ast.DictComp: ExpressionRewriter.comprehension,
    ast.FormattedValue: ExpressionRewriter.formatted,
    ast.GeneratorExp: ExpressionRewriter.comprehension,
    ast.IfExp: ExpressionRewriter.if_expression,
    ast.JoinedStr: ExpressionRewriter.joined_string,
    ast.Lambda: ExpressionRewriter.lambda_,
    ast.List: ExpressionRewriter.sequence,
    ast.ListComp: ExpressionRewriter.comprehension,
    ast.Name: ExpressionRewriter.name,
    ast.NamedExpr: ExpressionRewriter.walrus,
    ast.Set: ExpressionRewriter.set,
    ast.SetComp: ExpressionRewriter.comprehension,
    ast.Slice: ExpressionRewriter.slice,
    ast.Starred: ExpressionRewriter.starred,
    ast.Subscript: ExpressionRewriter.subscript,
    ast.Tuple: ExpressionRewriter.sequence,
    ast.UnaryOp: ExpressionRewriter.unary,
    ast.Yield: ExpressionRewriter.yield_,
    ast.YieldFrom: ExpressionRewriter.yield_from,
}
