"""Graphs with gradients that are not worth a call of native code.

A `torch.autograd.Function` costs as much as some three operators of eager code. One operator has
nothing that it could be joined with; two or three pay where their tensors are large.
"""

from __future__ import annotations

from typing import Final

import torch.fx

from anyshape.graph.recorded_operators import NothingNative, is_by_torch
from anyshape.graph.training_decompositions import decomposed
from anyshape.ops.node_meta import CALL
from anyshape.ops.table import lookup
from anyshape.symbolic import Facts

#: How many elements the largest tensor that is given has at least, by the number of operators
#: (measured forward and backward on one thread; None: however many they are).
LEAST_ELEMENTS: dict[int, int | None] = {1: None, 2: 1 << 14, 3: 1 << 11}


def least_elements(graph: torch.fx.Graph, facts: Facts) -> int:
    """How large tensors have to be for native code; raises `NothingNative` if none would do."""
    operators = _operators(graph)
    if operators in LEAST_ELEMENTS:
        operators = _operators(decomposed(graph, facts).graph)
    least = LEAST_ELEMENTS.get(operators, 0)
    if least is None:
        raise NothingNative("a result requires grad, and there is one operator alone")
    return least


def _operators(graph: torch.fx.Graph) -> int:
    return sum(_cost(node) for node in graph.nodes if not is_by_torch(node))


#: Operators that cost torch as much as so many others, on few elements: a library is asked for
#: how to do them.
_COSTS: Final = {"gelu": 3}


def _cost(node: torch.fx.Node) -> int:
    call = node.meta.get(CALL)
    entry = None if call is None else lookup(call.function)
    return 1 if entry is None else _COSTS.get(entry.op.name, 1)
