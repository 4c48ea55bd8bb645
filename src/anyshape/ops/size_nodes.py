"""Sizes and numbers as nodes of the graph: symbols are placeholders, expressions are operators."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch.fx

from anyshape.symbolic import Expr, Size, Symbol
from anyshape.symbolic.expr import Atom, FloorDiv, Max, Min, Mod, atom_at, ordered_terms

#: An argument of a node: another node, or a number.
Operand = Any


class SizeNodes:
    """Nodes for sizes, each made once. `placeholder` gives the node of a symbol."""

    def __init__(self, graph: torch.fx.Graph, placeholder: Callable[[Symbol], torch.fx.Node]):
        self._graph = graph
        self._placeholder = placeholder
        self._exprs: dict[Expr, Operand] = {}
        self._atoms: dict[int, Operand] = {}

    def of(self, size: Size) -> Operand:
        if type(size) is int:
            return size
        assert isinstance(size, Expr)
        found = self._exprs.get(size)
        if found is None:
            found = self._exprs[size] = self._sum(size)
        return found

    def _sum(self, size: Expr) -> Operand:
        terms = [self._term(monomial, coefficient) for monomial, coefficient in ordered_terms(size)]
        # A number comes last, as people write it: `s0 + 1`.
        terms.sort(key=lambda term: isinstance(term, int))
        result = terms[0]
        for term in terms[1:]:
            result = self._apply(operator.add, result, term)
        return result

    def _term(self, monomial: tuple[int, ...], coefficient: int) -> Operand:
        result: Operand = None
        for index in monomial:
            factor = self._atom(index)
            result = factor if result is None else self._apply(operator.mul, result, factor)
        if result is None:
            return coefficient
        return result if coefficient == 1 else self._apply(operator.mul, coefficient, result)

    def _atom(self, index: int) -> Operand:
        found = self._atoms.get(index)
        if found is None:
            found = self._atoms[index] = self._function(atom_at(index))
        return found

    def _function(self, atom: Atom) -> Operand:
        match atom:
            case Symbol():
                return self._placeholder(atom)
            case FloorDiv():
                function: Callable[..., object] = operator.floordiv
                arguments = (atom.numerator, atom.denominator)
            case Mod():
                function, arguments = operator.mod, (atom.numerator, atom.denominator)
            case Min():
                function, arguments = min, atom.arguments
            case Max():
                function, arguments = max, atom.arguments
        return self._apply(function, *map(self.of, arguments))

    def _apply(self, function: Callable[..., object], *arguments: Operand) -> Operand:
        return self._graph.call_function(function, arguments)
