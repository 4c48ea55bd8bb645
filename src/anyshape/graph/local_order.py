"""Operators in an order in which those that lead to one result stand together.

A program that works on lists of tensors, as optimizers do, calls one operator on all of them, then
the next one. What one tensor goes through is far apart then: too far for one kernel, and not seen
to be the same for all tensors. Each tensor that is written to comes whole, before the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch.fx

from anyshape.graph.alias_analysis import Sharing, is_in_place, match_of
from anyshape.graph.find_repeats import LEAST
from anyshape.ops.node_meta import NUMBER
from anyshape.ops.op import PURE, OpKind
from anyshape.ops.table import OpMatch

#: Of these, nothing but their tensors tells in which order they ran.
_MOVABLE: Final = frozenset(
    {OpKind.POINTWISE, OpKind.REDUCTION, OpKind.VIEW, OpKind.INDEX_MAP, OpKind.NOTHING}
)


def in_local_order(
    nodes: Sequence[torch.fx.Node],
    sharing: Sharing,
    may_write: Callable[[OpMatch, torch.fx.Node], bool],
) -> list[torch.fx.Node]:
    """The nodes, with runs of such operators ordered. All others stay where they are."""
    result: list[torch.fx.Node] = []
    run: list[torch.fx.Node] = []
    for node in nodes:
        if _is_movable(node, may_write):
            run.append(node)
        else:
            result += _ordered(run, sharing)
            result.append(node)
            run = []
    return result + _ordered(run, sharing)


def _is_movable(node: torch.fx.Node, may_write: Callable[[OpMatch, torch.fx.Node], bool]) -> bool:
    if NUMBER in node.meta:
        return True
    entry = match_of(node)
    if entry is None or entry.op.lowering not in _MOVABLE or entry.op.effects != PURE:
        return False
    return not may_write(entry, node)


def _ordered(run: list[torch.fx.Node], sharing: Sharing) -> list[torch.fx.Node]:
    """Each node that nothing follows from, in their order, behind what it follows from."""
    if len(run) < 2 * LEAST:
        return run
    before = _dependencies(run, sharing)
    followed = {each for found in before.values() for each in found}
    result: dict[torch.fx.Node, None] = {}
    for last in run:
        if last in followed:
            continue
        stack = [(last, iter(before[last]))]
        while stack:
            node, left = stack[-1]
            wanted = next((each for each in left if each not in result), None)
            if wanted is None:
                result[node] = None
                stack.pop()
            else:
                stack.append((wanted, iter(before[wanted])))
    return list(result)


def _dependencies(
    run: Sequence[torch.fx.Node], sharing: Sharing
) -> dict[torch.fx.Node, list[torch.fx.Node]]:
    """What has to come before each node: what it reads, and, of a tensor that it writes to, whoever
    reads it as it was."""
    found: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    written: dict[torch.fx.Node, torch.fx.Node] = {}
    readers: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for node in run:
        inputs = node.all_input_nodes
        before = {each: None for each in inputs if each in found}
        for storage in map(sharing.first, inputs):
            if storage in written:
                before[written[storage]] = None
        if is_in_place(node):
            storage = sharing.first(inputs[0])
            before |= dict.fromkeys(readers.pop(storage, ()))
            written[storage] = node
        for each in inputs:
            readers.setdefault(sharing.first(each), []).append(node)
        before.pop(node, None)
        found[node] = list(before)
    return found
