"""Whether it matters that two tensors of a graph may share memory.

`reshape` of a transposed tensor is a view for some sizes and a copy for others. Nobody can tell the
two apart unless someone writes to either tensor, or Python gets to see both.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch.fx

from anyshape.ops.bind import works_in_place
from anyshape.ops.higher_order_ops import region_of
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import ARGUMENT, CALL, RESULT
from anyshape.ops.op import VIEWS, OpKind
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

    def is_written_to(self, first: torch.fx.Node) -> bool:
        """Whether an operator may write to a tensor or to a view of it."""
        return first in self._written

    def matters(self, node: torch.fx.Node) -> bool:
        """Whether anybody could tell a copy made here from a view."""
        first = self.first(node)
        made_here = first.op in ("call_function", "call_method")
        return first in self._written or self._seen[first] > made_here


def function_of(node: torch.fx.Node) -> Any:
    """The function that a node calls."""
    if (call := node.meta.get(CALL)) is not None:
        return call.function
    return getattr(torch.Tensor, node.target) if isinstance(node.target, str) else node.target


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


def is_part(node: torch.fx.Node) -> bool:
    """Whether it is one of several results."""
    return node.target is operator.getitem and CALL not in node.meta


def result_of(node: torch.fx.Node) -> Any:
    """What is known of a result; a part of several has no meta of its own."""
    if RESULT in node.meta or not is_part(node):
        return node.meta.get(RESULT)
    whole, place = node.args
    assert isinstance(whole, torch.fx.Node)
    assert isinstance(place, int)
    found = result_of(whole)
    return found[place] if isinstance(found, tuple | list) else None


class Source(NamedTuple):
    """The tensor whose memory a result is in."""

    node: torch.fx.Node
    #: whether it is that tensor, and no view of it
    is_itself: bool = False
    #: whether it is so for all sizes
    is_certain: bool = True
    #: whether the operator does nothing but give it
    is_replayable: bool = True


#: Views of one operand; of several they are results of their own.
_OF_ONE = frozenset(["einsum"])


def root_of(node: torch.fx.Node, is_certain: bool = False) -> torch.fx.Node:
    """The tensor at the end of all views: whose memory a result is in, or may be; where
    `is_certain`, only as far as it is so for all sizes."""
    while (source := source_of(node)) is not None and (source.is_certain or not is_certain):
        node = source.node
    return node


def source_of(node: torch.fx.Node) -> Source | None:
    """Whose memory a result is in, or may be; None if it has its own."""
    given = [each for each in node.all_input_nodes if result_of(each) is not None]
    if node.op in ("placeholder", "output") or not given:
        return None
    if ARGUMENT in node.meta:
        argument = node.args[node.meta[ARGUMENT]]
        assert isinstance(argument, torch.fx.Node)
        return Source(argument, is_itself=True)
    if is_in_place(node):
        return Source(given[0], is_itself=True)
    entry = match_of(node)
    if entry is None:
        if CALL in node.meta:
            return Source(given[0], is_certain=False, is_replayable=False)
        of_view = is_part(node) and source_of(given[0]) is not None
        return Source(given[0]) if of_view else None
    name, kind = entry.op.name, entry.op.lowering
    if name in _OF_ONE and len(given) > 1:
        return None
    result, base = node.meta.get(RESULT), result_of(given[0])
    if name in _MAY_BE_ITSELF:
        shares = isinstance(result, Meta) and result.shares_if is not None
        return Source(given[0], is_certain=False) if shares else None
    if name == "getitem" and (len(given) > 1 or _is_advanced(node.args[1:])):
        return None
    if name in VIEWS and kind in (OpKind.VIEW, OpKind.INDEX_MAP):
        whole = isinstance(base, Meta) and base.is_contiguous
        certain = name not in _MAY_COPY or whole
        return Source(given[0], is_certain=certain)
    if kind in (OpKind.VIEW, OpKind.NOTHING):
        return Source(given[0], is_certain=False, is_replayable=kind is OpKind.VIEW)
    return None


def _is_advanced(index: Any) -> bool:
    """Whether a subscript picks elements, and is no view."""
    if type(index) is tuple:
        return any(map(_is_advanced, index))
    return isinstance(index, list | bool | range)


#: Views where strides allow it.
_MAY_COPY = frozenset(["reshape", "reshape_as", "flatten", "ravel", "unflatten", "dense_in_order"])
