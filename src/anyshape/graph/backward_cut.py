"""What a backward graph needs of the forward one: kept, or computed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final

import torch.fx

from anyshape.graph.alias_analysis import is_part, root_of
from anyshape.graph.autograd_step import RecordedOperator
from anyshape.graph.checkpoint_regions import region_at
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, PARAMETER, RESULT, WRITTEN
from anyshape.ops.op import OpKind
from anyshape.ops.table import lookup

#: Computed again rather than kept, if what they are computed of is kept anyway.
_CHEAP: Final = frozenset({OpKind.POINTWISE, OpKind.VIEW, OpKind.INDEX_MAP})


def kept_and_again(
    nodes: Sequence[torch.fx.Node],
    needed: Sequence[torch.fx.Node],
    asked: Mapping[torch.fx.Node, Set[object | None]],
    known: Sequence[torch.fx.Node] | None = None,
    read: Sequence[torch.fx.Node] | None = None,
) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
    """What is kept of the forward graph, and what is computed again, in order. Inputs are kept as
    copies. `asked`: the calls of checkpoint whose gradients need a node, None for what is in none.
    `known`: what is kept, for more than is needed here, and the inputs that are `read` for that."""
    sources: dict[torch.fx.Node, frozenset[torch.fx.Node] | None] = {}
    kept: dict[torch.fx.Node, None] = dict.fromkeys(known or ())
    # Eager code may write to any other input between forward and backward, as `x += f(x)` does, and
    # to parameters behind autograd's back (`p.data.add_`).
    lasting = {root_of(node, is_certain=True) for node in needed} if read is None else {*read}

    def of(node: torch.fx.Node, region: object | None = None) -> frozenset[torch.fx.Node] | None:
        """What has to be kept for it to be computed again; None if it cannot be. In a region
        everything is, of what is given to it."""
        if node.op == "placeholder":
            if node in lasting or RESULT not in node.meta or region is not None:
                return frozenset()
            return frozenset({node}) if _is_copied(node) else None
        own = region_at(node) if RESULT in node.meta else None
        if node in kept or (own is not region and own is not None):
            return frozenset({node})
        if node not in sources:
            sources[node] = _sources(node, of) if own is None else _sources_inside(node, own, of)
        return sources[node]

    again: dict[torch.fx.Node, None] = {}
    for node in needed:
        if node.op == "placeholder" or node in kept:
            continue
        region = region_at(node)
        if asked[node] != {region}:
            region = None
        needs = of(node, region)
        missing = {node} if needs is None else needs - kept.keys()
        if region is None and any(each.op != "placeholder" for each in missing):
            missing = {node}
        assert known is None or not missing, "more outputs need all that fewer need"
        kept |= dict.fromkeys(each for each in nodes if each in missing)
        if node not in missing:
            _collect(node, kept, again)
    return list(kept), [node for node in nodes if node in again]


def _is_copied(node: torch.fx.Node) -> bool:
    """Whether an input is so small that a copy costs nothing: biases."""
    meta = node.meta[RESULT]
    is_small = isinstance(meta, Meta) and meta.rank <= 1 and meta.is_contiguous
    return PARAMETER in node.meta and is_small


def _sources(
    node: torch.fx.Node,
    of: Callable[[torch.fx.Node], frozenset[torch.fx.Node] | None],
) -> frozenset[torch.fx.Node] | None:
    call = node.meta.get(CALL)
    entry = None if call is None else lookup(call.function)
    is_number = RESULT not in node.meta
    is_cheap = entry is not None and entry.op.lowering in _CHEAP and WRITTEN not in node.meta
    if not is_number and not is_cheap:
        return frozenset({node})
    found: frozenset[torch.fx.Node] = frozenset()
    for each in node.all_input_nodes:
        needs = of(each)
        if needs is None:
            return None
        found |= needs
    return found


def _sources_inside(
    node: torch.fx.Node,
    region: object,
    of: Callable[[torch.fx.Node, object], frozenset[torch.fx.Node] | None],
) -> frozenset[torch.fx.Node]:
    """What a node of a call of checkpoint is made of again, of all that is not in it."""
    maker: Any = node.args[0] if is_part(node) else node
    step = maker.target
    if WRITTEN in node.meta or (isinstance(step, RecordedOperator) and step.may_draw):
        return frozenset({node})
    found: frozenset[torch.fx.Node] = frozenset()
    for each in node.all_input_nodes:
        needs = of(each, region)
        found |= frozenset({each}) if needs is None else needs
    return found


def _collect(
    node: torch.fx.Node,
    kept: dict[torch.fx.Node, None],
    again: dict[torch.fx.Node, None],
) -> None:
    if node in kept or node in again or node.op == "placeholder":
        return
    for each in node.all_input_nodes:
        _collect(each, kept, again)
    again[node] = None
