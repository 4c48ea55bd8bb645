"""Comprehensions: iterables and conditions through hooks, and targets that need more than a name.

[x for x, y in it if y]
[x for t in H.iterate(it) for x, y in [H.unpack(t)] for t in [None] if H.truth(y)]
"""

from __future__ import annotations

import ast

from anyshape.capture.rewrite.conditions import ConditionRewriter
from anyshape.capture.rewrite.nodes import (
    LOAD,
    STORE,
    CannotRewrite,
    name_at,
    node_at,
    plain_node,
    replaced,
)
from anyshape.capture.rewrite.scopes import NameKind, Scope, comprehension_targets


class ComprehensionRewriter(ConditionRewriter):
    def comprehension(
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

    def key(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant):
            return self.expression(node)
        if isinstance(node, ast.Starred):
            node.value = self.hook("members", node.value, self.expression(node.value))
            return node
        return self.hook("key", node, self.expression(node))
