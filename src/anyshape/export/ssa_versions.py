"""Which tensor each node of a graph is, while the graph is rewritten so that none is written to.

A tensor with memory of its own is a root. After a write, the root is another node; views of it are
made again where they are used.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload

from anyshape.export.observe_aliases import Observed, is_external
from anyshape.ops.higher_order_ops import region_of
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, RESULT
from anyshape.ops.table import lookup
from anyshape.symbolic import Answer, Facts

Node = torch.fx.Node


class NotFunctional(Exception):
    """Why a graph has to stay as it is."""


class Versions:
    """The tensors of one graph, from its first node to the one at hand."""

    def __init__(self, graph: torch.fx.Graph, observed: Observed, facts: Facts) -> None:
        self._graph = graph
        self._observed = observed
        self._facts = facts
        #: the node that each memory is known by, and what it is now
        self._roots: dict[int, Node] = {}
        self._root: dict[Node, Node] = {}
        self._latest: dict[Node, Node] = {}
        self._version: dict[Node, int] = {}
        #: of views: what they are views of, with what arguments; since which version they are so
        self._parent: dict[Node, Node] = {}
        self._made_with: dict[Node, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._made_at: dict[Node, int] = {}
        self._again: dict[tuple[Node, int, object], Node] = {}
        #: nodes that give a tensor which another node has given
        self._same: dict[Node, Node] = {}
        #: roots that may share memory for some sizes
        self._tied: dict[Node, set[Node]] = {}
        #: the modes at this point; those that each root was made in
        self._modes: tuple[object, ...] = (torch.is_grad_enabled(),)
        self._born: dict[Node, tuple[object, ...]] = {}
        self._spare: list[Node] = []

    # -- what nodes are ----------------------------------------------------------------------------

    def _keep(self, node: Node) -> None:
        given, made_with = node.all_input_nodes, (node.args, dict(node.kwargs))
        with self._graph.inserting_before(node):
            self._with_arguments(node, self._now)
        memory = self._observed.memory.get(node, frozenset())
        if not memory:
            return
        sources = [each for each in given if self._observed.memory.get(each, frozenset()) & memory]
        known = {self._roots[each] for each in memory if each in self._roots}
        if len(known) > 1:
            raise NotFunctional(f"`{node.name}` shares memory with several tensors")
        if known:
            self._view(node, known.pop(), sources, made_with)
        elif node not in self._observed.several:
            self._own(node, memory)
        if node in self._root:
            self._tie(node, given)

    def _own(self, node: Node, memory: Iterable[int]) -> None:
        """A tensor with memory of its own."""
        for each in memory:
            self._roots[each] = node
        self._root[node] = self._latest[node] = node
        self._version[node] = self._made_at[node] = 0
        self._born[node] = self._modes

    def _view(self, node: Node, root: Node, sources: Sequence[Node], made_with: Any) -> None:
        parent = next((each for each in sources if self._is_tensor(each)), None)
        if parent is not None:
            self._root[node], self._parent[node] = root, parent
            self._made_with[node], self._made_at[node] = made_with, self._version[root]
            self._spare.append(node)
        elif root.target is node.target is operator.getitem and root.args == node.args:
            # The same of several results, taken once more.
            self._same[node] = root
        else:
            raise NotFunctional(f"`{node.name}` shares memory with `{root.name}`")

    def _tie(self, node: Node, given: Sequence[Node]) -> None:
        """Note what a tensor may share memory with, though it does not in the example, or may not,
        though it does."""
        if not self._may_differ(node):
            return
        mine = self._root[node]
        others = {self._root[self._resolved(each)] for each in given if self._is_tensor(each)}
        for other in others:
            # A root that is tied to itself has views that may be copies.
            self._tied.setdefault(mine, set()).add(other)
            self._tied.setdefault(other, set()).add(mine)

    def _may_differ(self, node: Node) -> bool:
        call, result = node.meta.get(CALL), node.meta.get(RESULT)
        if call is None or region_of(call.function) is not None:
            return False
        if isinstance(result, Meta) and result.shares_if is not None:
            return self._facts.prove(result.shares_if) is Answer.UNKNOWN
        if lookup(call.function) is not None or isinstance(call.function, OpOverload):
            return False
        return call.function is not getattr and node.target is not getattr

    def _is_tensor(self, node: Node) -> bool:
        return self._resolved(node) in self._root

    def _resolved(self, node: Node) -> Node:
        while node in self._same:
            node = self._same[node]
        return node

    # -- what they are now -------------------------------------------------------------------------

    def _with_arguments(self, node: Node, function: Callable[[Node], Any]) -> None:
        node.args = torch.fx.map_arg(node.args, function)
        node.kwargs = torch.fx.map_arg(node.kwargs, function)

    def _now(self, node: Node) -> Node:
        """The tensor of a node, at this point of the program."""
        node = self._resolved(node)
        root = self._root.get(node)
        if root is None:
            return node
        version = self._version[root]
        if self._made_at[node] == version:
            return node
        if node is root:
            return self._latest[root]
        key = (node, version, self._modes)
        if key not in self._again:
            self._again[key] = self._viewed(node, self._now)
        return self._again[key]

    def _viewed(self, node: Node, function: Callable[[Node], Node]) -> Node:
        args, kwargs = self._made_with_others(node, function)
        made = self._graph.create_node(node.op, node.target, args, kwargs)
        made.meta = dict(node.meta)
        self._spare.append(made)
        return made

    def _made_with_others(
        self, node: Node, function: Callable[[Node], Node]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that a view is made with, of other nodes."""
        args, kwargs = self._made_with[node]
        return torch.fx.map_arg(args, function), torch.fx.map_arg(kwargs, function)

    def _in_the_end(self, node: Node) -> Node:
        """What the caller gets of a tensor: with the memory of an argument, if it has it now."""
        node = self._resolved(node)
        root = self._root.get(node)
        if root is None or not is_external(root) or not self._version[root]:
            return self._now(node)
        if node is root:
            return node
        key = (node, -1, self._modes)
        if key not in self._again:
            self._again[key] = self._viewed(node, self._in_the_end)
        return self._again[key]
