"""A graph that is written by calling functions of torch on terms of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Set
from typing import Any, NoReturn

import torch.fx

from anyshape.errors import AnyshapeError
from anyshape.ops.gradient import NoGradient, Term
from anyshape.ops.infer import infer
from anyshape.ops.meta import Meta
from anyshape.ops.meta_tensors import mapped_tree
from anyshape.ops.node_meta import CALL, RESULT, SYMBOL, RecordedCall
from anyshape.ops.size_nodes import SizeNodes
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Answer, Expr, Fact, Facts, Size, Symbol


def _needs_value(*_: object) -> NoReturn:
    raise NoGradient("its formula needs the value of a number")


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A number that the graph is given or computes. Operators on tensors take one; a formula that
    computes with it, or asks it something, has none for it."""

    node: torch.fx.Node
    #: what it was in one run
    value: Any

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __pow__ = __rpow__ = _needs_value
    __truediv__ = __rtruediv__ = __floordiv__ = __neg__ = __abs__ = __float__ = _needs_value
    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _needs_value
    __hash__ = object.__hash__


class TermGraph:
    """`record` adds an operator. Nothing may be assumed of sizes that is not known."""

    def __init__(self, graph: torch.fx.Graph, facts: Facts) -> None:
        self._graph = graph
        self.facts = facts
        #: their nodes
        self.symbols: dict[Symbol, torch.fx.Node] = {}
        self._sizes = SizeNodes(graph, self._symbol)
        self._plain: dict[int, tuple[Meta, Meta]] = {}
        #: attention's kernels, by nodes of the graph that this one is made of
        self.kernels: Mapping[torch.fx.Node, str] = {}

    def record(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        metas, named = self._metas(args), self._metas(kwargs)
        try:
            found = infer(self.facts, function, metas, named)
        except AnyshapeError as error:
            raise NoGradient(str(error)) from None
        if found.needs:
            name = getattr(function, "__name__", function)
            raise NoGradient(f"of its gradient, `{name}` relies on more: {found.needs[0].reason}")
        if found.unbacked:
            raise NoGradient("sizes of its gradient depend on data")
        node = self._graph.create_node("call_function", function, *self._operands(args, kwargs))
        node.meta[CALL] = RecordedCall(function, tuple(metas), named)
        value = node.meta[RESULT] = self.without_grad(found.value)
        return self._terms(node, value)

    def prove(self, fact: Fact) -> Answer:
        return self.facts.prove(fact)

    def is_same(self, a: Size, b: Size) -> bool:
        return a is b or a == b or self.facts.equal(a, b)

    def settled(self, size: Expr) -> Size:
        """A number where there is but one: dimensions may have been given by sizes."""
        value = self.facts.value(size)
        return size if value is None else value

    def _terms(self, node: torch.fx.Node, value: Any) -> Any:
        if isinstance(value, Meta):
            return Term(self, node, value)
        if not isinstance(value, tuple | list):
            raise NoGradient("a result that is no tensor")
        parts: list[Any] = []
        for place, each in enumerate(value):
            part = self._graph.call_function(operator.getitem, (node, place))
            part.meta[RESULT] = each
            parts.append(self._terms(part, each))
        return tuple(parts)

    def _metas(self, tree: Any) -> Any:
        return mapped_tree(
            tree, lambda each: each.meta if isinstance(each, Term) else getattr(each, "value", each)
        )

    def _operands(self, args: Any, kwargs: Any) -> Any:
        def operand(each: Any) -> Any:
            if isinstance(each, Term | Number):
                return each.node
            return self._sizes.of(each) if isinstance(each, Expr) else each

        return mapped_tree((args, kwargs), operand)

    def without_grad(self, value: Any) -> Any:
        """Metas that say nothing of autograd; equal layers share them, and do so still."""
        if isinstance(value, Meta):
            if not value.requires_grad:
                return value
            known = self._plain.get(id(value))
            if known is None:
                known = self._plain[id(value)] = value, replace(value, requires_grad=False)
            return known[1]
        return (
            mapped_tree(value, self.without_grad)
            if isinstance(value, tuple | list | dict)
            else value
        )

    def _symbol(self, symbol: Symbol) -> torch.fx.Node:
        found = self.symbols.get(symbol)
        if found is None:
            found = self.symbols[symbol] = self._graph.placeholder(symbol.name)
            found.meta[SYMBOL] = symbol
        return found

    def symbols_as_inputs(self, known: Set[torch.fx.Node]) -> tuple[Symbol, ...]:
        """Have symbols whose nodes are not known yet as further inputs of the graph."""
        more = {symbol: node for symbol, node in self.symbols.items() if node not in known}
        inputs = [node for node in self._graph.nodes if node.op == "placeholder" and node in known]
        for before, node in zip([*inputs[-1:], *more.values()], more.values(), strict=False):
            before.append(node)
        return tuple(more)

    def last(self) -> torch.fx.Node:
        return next(iter(reversed(self._graph.nodes)))

    def erase_behind(self, last: torch.fx.Node) -> None:
        """Take back what was recorded since. What stands for inputs stays."""
        for made in list(reversed(self._graph.nodes)):
            if made is last:
                break
            if made.op != "placeholder":
                self._graph.erase_node(made)
        # Nodes of sizes may be among them.
        self._sizes = SizeNodes(self._graph, self._symbol)


class RecordedTerms(TermGraph):
    """Those of a forward graph: metas say of autograd what it would do."""

    def without_grad(self, value: Any) -> Any:
        return value
