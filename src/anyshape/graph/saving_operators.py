"""Which results of a graph eager code may ask for gradients one after the other.

`backward()` gives back what operators have kept. A second result has its gradients after that, if
no operator on the way to it has kept something that is given back: `h = x + y` keeps nothing, so
`h.sin()` and `h.cos()` have their own backward each.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
import torch.fx

from anyshape.graph.autograd_step import filled, placed
from anyshape.graph.plan import leaves
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, RESULT, UNRECORDED
from anyshape.support.autograd_graph import functions_behind
from anyshape.symbolic import Expr, Facts


class SavingOperators:
    """The operators of a graph that keep tensors for their gradients, in eager code."""

    def __init__(self, graph: torch.fx.Graph, facts: Facts) -> None:
        (output,) = [node for node in graph.nodes if node.op == "output"]
        self._outputs: Any = output.args[0]
        self._hint = facts.hint
        self._behind: dict[int, frozenset[torch.fx.Node]] = {}
        self._saves: dict[torch.fx.Node, bool] = {}

    def are_shared(self, one: Iterable[int], other: Iterable[int]) -> bool:
        """Whether gradients of these outputs, and of those, go through one of them."""
        first = {node for number in one for node in self._operators(number)}
        second = {node for number in other for node in self._operators(number)}
        return any(map(self._is_saving, first & second))

    def _operators(self, number: int) -> frozenset[torch.fx.Node]:
        """What gradients of an output go through."""
        if number not in self._behind:
            found: dict[torch.fx.Node, None] = {}
            stack = [self._outputs[number]]
            while stack:
                node = stack.pop()
                if node not in found and node.op != "placeholder" and _has_grad(node):
                    found[node] = None
                    stack += node.all_input_nodes
            self._behind[number] = frozenset(found)
        return self._behind[number]

    def _is_saving(self, node: torch.fx.Node) -> bool:
        if node not in self._saves:
            self._saves[node] = self._finds_saved(node)
        return self._saves[node]

    def _finds_saved(self, node: torch.fx.Node) -> bool:
        """Whether autograd keeps a tensor for a call without data. What is not known does."""
        call = node.meta.get(CALL)
        if call is None:
            return node.target is not operator.getitem
        try:
            known = placed(node, call)
            given = list(map(self._example, known.given.values()))
            args, kwargs = filled(known.spec, given)
            with torch.enable_grad():
                results = known.function(*args, **kwargs)
            found = [each for each in leaves(results) if isinstance(each, torch.Tensor)]
            return any(map(_keeps, functions_behind(each.grad_fn for each in found)))
        except Exception:
            return True

    def _example(self, value: Any) -> Any:
        if isinstance(value, Meta):
            shape, strides = (
                [self._hint(each) or 0 for each in of] for of in (value.shape, value.strides)
            )
            made = torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")
            return made.requires_grad_().view_as(made) if value.requires_grad else made
        return self._hint(value) if isinstance(value, Expr) else value


def _keeps(function: Any) -> bool:
    saved = [getattr(function, name) for name in dir(function) if name.startswith("_saved_")]
    return any(isinstance(each, torch.Tensor) for each in leaves(saved)) or bool(
        getattr(function, "saved_tensors", ())
    )


def _has_grad(node: torch.fx.Node) -> bool:
    if UNRECORDED in node.meta:
        return False
    found = leaves(node.meta.get(RESULT))
    is_part = node.target is operator.getitem and CALL not in node.meta
    return is_part or any(isinstance(each, Meta) and each.requires_grad for each in found)
