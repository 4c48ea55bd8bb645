"""Whether it matters that two tensors of a graph may share memory.

`reshape` of a transposed tensor is a view for some sizes and a copy for others. Nobody can tell the
two apart unless someone writes to either tensor, or Python gets to see both.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable

import torch.fx

from anyshape.ops.bind import works_in_place
from anyshape.ops.higher_order_ops import region_of
from anyshape.ops.node_meta import CALL
from anyshape.ops.op import OpKind
from anyshape.ops.table import OpMatch, lookup

#: Operators beside views that may give what they were given.
_MAY_BE_ITSELF = frozenset(["contiguous", "to", "type", "type_as", "cpu"])


class Sharing:
    """Of a graph: the tensors that views lead back to, and who sees or writes them."""

    def __init__(self, graph: torch.fx.Graph, may_write: Callable[[OpMatch, torch.fx.Node], bool]):
        self._first: dict[torch.fx.Node, torch.fx.Node] = {}
        self._written: set[torch.fx.Node] = set()
        self._seen: Counter[torch.fx.Node] = Counter()
        for node in graph.nodes:
            if node.op == "output":
                self._seen.update(map(self.first, node.all_input_nodes))
                continue
            entry = match_of(node)
            known = entry is not None and not may_write(entry, node)
            known |= region_of(node.target) is not None
            if CALL in node.meta and not known:
                self._written |= set(map(self.first, node.all_input_nodes))
            if is_in_place(node):
                self._written |= set(map(self.first, node.all_input_nodes[:1]))
            self._first[node] = self.first(node.all_input_nodes[0]) if _leads_back(node) else node

    def first(self, node: torch.fx.Node) -> torch.fx.Node:
        """The tensor that a node may be a view of, through any number of views."""
        return self._first.get(node, node)

    @property
    def is_written(self) -> bool:
        """Whether any tensor is written to, as far as operators tell."""
        return bool(self._written)

    def matters(self, node: torch.fx.Node) -> bool:
        """Whether anybody could tell a copy made here from a view."""
        first = self.first(node)
        made_here = first.op in ("call_function", "call_method")
        return first in self._written or self._seen[first] > made_here


def match_of(node: torch.fx.Node) -> OpMatch | None:
    """The operator that a node calls, if it is one of the table."""
    call = node.meta.get(CALL)
    return None if call is None else lookup(call.function)


def is_in_place(node: torch.fx.Node) -> bool:
    """Whether it writes to its first argument."""
    entry = match_of(node)
    if entry is None:
        return False
    function = node.meta[CALL].function
    return works_in_place(function, node.args, node.kwargs)


def _leads_back(node: torch.fx.Node) -> bool:
    if not node.all_input_nodes or region_of(node.target) is not None:
        return False
    entry = match_of(node)
    if entry is None:
        return node.target is operator.getitem or CALL in node.meta
    if is_in_place(node) or entry.op.lowering in (OpKind.VIEW, OpKind.NOTHING):
        return True
    return entry.op.name in _MAY_BE_ITSELF or entry.op.name == "getitem"
