"""Whether a graph does the same with inputs that lie otherwise in memory than the example's.

    h = x * 2; h.reshape(-1).add_(1); return h

changes `h` where it is contiguous, and a copy of it where it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch.fx

from anyshape.export.mutation_schema import Write
from anyshape.export.observe_aliases import Observed
from anyshape.ops.node_meta import CALL
from anyshape.ops.table import lookup

#: They give views of tensors that lie in one way, and copies of others.
_MAY_COPY: Final = frozenset(
    {"reshape", "reshape_as", "flatten", "ravel", "contiguous", "to", "cpu", "type", "type_as"}
)


def has_views_by_layout(graph: torch.fx.Graph) -> bool:
    """Whether something in it is a view for some layouts, and a copy for others."""
    return any(map(_may_copy, graph.nodes))


def writes_by_layout(
    graph: torch.fx.Graph, writes: Mapping[torch.fx.Node, Write], observed: Observed
) -> bool:
    """Whether it writes to what such an operator was given, or gave, before: what was written
    until then is in a copy, too."""
    shared: set[int] = set()
    for node in graph.nodes:
        for target in writes[node].targets if node in writes else ():
            memory = observed.memory.get(target)
            if shared and (memory is None or memory & shared):
                return True
        if _may_copy(node):
            for each in (node, *node.all_input_nodes):
                shared |= observed.memory.get(each, frozenset())
    return False


def has_unknown_calls(graph: torch.fx.Graph) -> bool:
    """Whether it calls what no row of the table describes."""
    return any(
        CALL in each.meta and lookup(each.meta[CALL].function) is None for each in graph.nodes
    )


def _may_copy(node: torch.fx.Node) -> bool:
    if CALL not in node.meta:
        return False
    entry = lookup(node.meta[CALL].function)
    return entry is None or entry.op.name in _MAY_COPY
