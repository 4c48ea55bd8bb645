"""Which names a piece of a function binds, and what a name in it refers to.

The rewriter must tell a local variable from a global one, since only loads that can reach outside
the function are observed. The rules are Python's own (language reference, "Naming and binding"),
worked out on the syntax tree because the function's own scope and its nested scopes are rewritten
in one go. Names are kept mangled (`_Class__name`), as the compiler sees them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from anyshape.support.lazy_dataclass import dataclass, field

#: What opens a scope of its own: the inside of it is another function's.
NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class OwnScope(ast.NodeTransformer):
    """A change of a function's own scope."""

    def visit_Lambda(self, node: object) -> object:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda


def own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of the scope of these statements; of nested scopes, the node that opens them."""
    todo = list(body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, NESTED):
            todo += ast.iter_child_nodes(node)


class NameKind(Enum):
    FUNCTION = "function"
    CLASS = "class"
    COMPREHENSION = "comprehension"


class NameScope(Enum):
    """Where a name lives, seen from outside the rewritten function."""

    LOCAL = "bound within the rewritten code"
    FREE = "a variable of a function around the rewritten one"
    GLOBAL = "global or builtin"


def mangle(name: str, class_name: str | None) -> str:
    """The name as the compiler spells it inside that class."""
    if class_name is None or not name.startswith("__") or name.endswith("__") or "." in name:
        return name
    stripped = class_name.lstrip("_")
    return f"_{stripped}{name}" if stripped else name


@dataclass(slots=True)
class Bindings:
    """What the statements of one scope do to names."""

    bound: set[str] = field(default_factory=set)
    declared_global: set[str] = field(default_factory=set)
    declared_nonlocal: set[str] = field(default_factory=set)
    # Bound or unbound in the middle of an expression or by `del`: reading such a name a little
    # earlier than Python does may read another value.
    unstable: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Scope:
    kind: NameKind
    bound: set[str]
    parent: Scope | None = None
    declared_global: frozenset[str] | set[str] = frozenset()
    unstable: frozenset[str] | set[str] = frozenset()
    parameters: frozenset[str] = frozenset()
    # Of the outermost function only: its `co_freevars`.
    free: frozenset[str] = frozenset()
    # The class whose name mangles private names here.
    class_name: str | None = None
    # What zero-argument `super()` takes; None where there is no such argument.
    first_argument: str | None = None
    is_generator_expression: bool = False
    # Temporaries of a class body. They live in the function around it, or the class would have
    # them as attributes.
    borrowed: list[str] = field(default_factory=list)

    def place(self, name: str) -> NameScope:
        """What a (mangled) name refers to when it is used in this scope."""
        scope = self
        while True:
            if scope.kind is not NameKind.CLASS or scope is self:
                if name in scope.bound:
                    return NameScope.LOCAL
                if name in scope.declared_global:
                    return NameScope.GLOBAL
            if scope.parent is None:
                return NameScope.FREE if name in scope.free else NameScope.GLOBAL
            scope = scope.parent

    def function(self) -> Scope:
        """The scope that a walrus binds in: comprehensions do not count."""
        scope = self
        while scope.kind is NameKind.COMPREHENSION and scope.parent is not None:
            scope = scope.parent
        return scope


def bindings(
    statements: Iterable[ast.AST],
    class_name: str | None,
    parameters: Iterable[str] = (),
    *,
    with_expressions: bool = True,
) -> Bindings:
    """The names that the statements of one scope bind.

    `with_expressions=False` skips the inside of expressions; right if the text has no walrus.
    """
    found = Bindings()
    todo: list[ast.AST] = list(statements)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.expr):
            if isinstance(node, ast.Name):
                if not isinstance(node.ctx, ast.Load):
                    found.bound.add(node.id)
                    if isinstance(node.ctx, ast.Del):
                        found.unstable.add(mangle(node.id, class_name))
                continue
            if with_expressions:
                targets = set(walrus_targets(node))
                found.bound |= targets
                found.unstable.update(mangle(target, class_name) for target in targets)
            todo += stores(node)
            continue
        handler = BINDERS.get(type(node))
        if handler is None:
            todo += parts(node)
        else:
            todo += handler(node, found)
    found.declared_global = {mangle(name, class_name) for name in found.declared_global}
    found.declared_nonlocal = {mangle(name, class_name) for name in found.declared_nonlocal}
    found.bound = {mangle(name, class_name) for name in found.bound}
    found.bound -= found.declared_global | found.declared_nonlocal
    found.bound.update(parameters)
    return found


def parts(node: ast.AST) -> Iterator[ast.AST]:
    for value in node.__dict__.values():
        if isinstance(value, list):
            yield from (each for each in value if isinstance(each, ast.AST))
        elif isinstance(value, ast.AST):
            yield value


def bind_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef, found: Bindings
) -> Iterable[ast.AST]:
    found.bound.add(node.name)
    return outside_of_function(node)


def bind_class(node: ast.ClassDef, found: Bindings) -> Iterable[ast.AST]:
    found.bound.add(node.name)
    return [*node.decorator_list, *node.bases, *node.keywords]


def bind_import(node: ast.Import | ast.ImportFrom, found: Bindings) -> Iterable[ast.AST]:
    found.bound.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
    return ()


def bind_global(node: ast.Global, found: Bindings) -> Iterable[ast.AST]:
    found.declared_global.update(node.names)
    return ()


def bind_nonlocal(node: ast.Nonlocal, found: Bindings) -> Iterable[ast.AST]:
    found.declared_nonlocal.update(node.names)
    return ()


def bind_name(
    node: ast.MatchAs | ast.MatchStar | ast.ExceptHandler, found: Bindings
) -> Iterable[ast.AST]:
    if node.name is not None:
        found.bound.add(node.name)
    return parts(node)


def bind_rest(node: ast.MatchMapping, found: Bindings) -> Iterable[ast.AST]:
    if node.rest is not None:
        found.bound.add(node.rest)
    return parts(node)


# What binds names otherwise than by a target, and what it holds that may bind more.
BINDERS: Mapping[type[ast.AST], Callable[[Any, Bindings], Iterable[ast.AST]]] = {
    ast.FunctionDef: bind_function,
    ast.AsyncFunctionDef: bind_function,
    ast.ClassDef: bind_class,
    ast.Import: bind_import,
    ast.ImportFrom: bind_import,
    ast.Global: bind_global,
    ast.Nonlocal: bind_nonlocal,
    ast.MatchAs: bind_name,
    ast.MatchStar: bind_name,
    ast.MatchMapping: bind_rest,
    ast.ExceptHandler: bind_name,
}


def outside_of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """What a `def` evaluates in the scope around it."""
    yield from node.decorator_list
    yield from outside_of_arguments(node.args)
    if node.returns is not None:
        yield node.returns


def outside_of_arguments(arguments: ast.arguments) -> Iterator[ast.expr]:
    yield from arguments.defaults
    yield from (default for default in arguments.kw_defaults if default is not None)
    yield from (argument.annotation for argument in all_arguments(arguments) if argument.annotation)


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    found = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    found += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return found


def stores(node: ast.expr) -> Iterator[ast.expr]:
    """The names inside an assignment target."""
    match node:
        case ast.Tuple(ctx=ast.Store() | ast.Del()) | ast.List(ctx=ast.Store() | ast.Del()):
            yield from node.elts
        case ast.Starred(ctx=ast.Store()):
            yield node.value


def walrus_targets(node: ast.AST) -> Iterator[str]:
    """The names that walruses inside the expression bind in the scope of the expression."""
    todo = [node]
    while todo:
        node = todo.pop()
        match node:
            case ast.Name() | ast.Constant():
                continue
            case ast.NamedExpr():
                assert isinstance(node.target, ast.Name), "a walrus binds a name"
                yield node.target.id
                todo.append(node.value)
            case ast.Lambda():
                todo += outside_of_arguments(node.args)
            case _:
                todo += ast.iter_child_nodes(node)


def comprehension_targets(
    generators: Iterable[ast.comprehension], class_name: str | None
) -> set[str]:
    found: set[str] = set()
    todo: list[ast.expr] = [generator.target for generator in generators]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name):
            found.add(mangle(node.id, class_name))
        else:
            todo += stores(node)
    return found
