"""What a backward graph needs of the forward one: kept, or computed again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import torch.fx

from anyshape.config import TrainingMemory
from anyshape.graph.alias_analysis import is_part, root_of
from anyshape.graph.autograd_step import RecordedOperator
from anyshape.graph.checkpoint_regions import region_at
from anyshape.graph.plan import leaves
from anyshape.loops.operations import FUNCTIONS
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, PARAMETER, RESULT, WRITTEN
from anyshape.ops.op import OpKind
from anyshape.ops.table import OpMatch, lookup
from anyshape.symbolic import Facts

_Sources = frozenset[torch.fx.Node]


class Recomputed(NamedTuple):
    """What is computed again rather than kept, if what it is computed of is kept anyway."""

    kinds: frozenset[OpKind]
    #: operators of these kinds that are kept
    but: frozenset[str] = frozenset()
    #: whether products are, too, which give more than they take
    products: bool = False


_CHEAP: Final = frozenset({OpKind.POINTWISE, OpKind.VIEW, OpKind.INDEX_MAP})
RECOMPUTED: Final[dict[TrainingMemory, Recomputed]] = {
    "speed": Recomputed(_CHEAP, FUNCTIONS),
    "eager": Recomputed(_CHEAP),
    "least": Recomputed(_CHEAP | {OpKind.REDUCTION}, products=True),
}


def kept_and_again(
    nodes: Sequence[torch.fx.Node],
    needed: Sequence[torch.fx.Node],
    asked: Mapping[torch.fx.Node, Set[object | None]],
    known: Sequence[torch.fx.Node] | None = None,
    read: Sequence[torch.fx.Node] | None = None,
    recomputed: Recomputed = RECOMPUTED["eager"],
    facts: Facts | None = None,
) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
    """What is kept of the forward graph, and what is computed again, in order. Inputs are kept as
    copies. `asked`: the calls of checkpoint whose gradients need a node, None for what is in none.
    `known`: what is kept, for more than is needed here, and the inputs that are `read` for that.
    `facts`: of sizes, which `recomputed` may need."""
    # Eager code may write to any other input between forward and backward, as `x += f(x)` does, and
    # to parameters behind autograd's back (`p.data.add_`).
    lasting = {root_of(node, is_certain=True) for node in needed} if read is None else {*read}
    growing = _growing_products(nodes, facts) if recomputed.products and facts else frozenset()
    cut = _Cut(lasting, dict.fromkeys(known or ()), recomputed, growing)
    again: dict[torch.fx.Node, None] = {}
    for node in needed:
        if node.op == "placeholder" or node in cut.kept:
            continue
        region = region_at(node)
        if asked[node] != {region}:
            region = None
        needs = cut.sources(node, region)
        missing = {node} if needs is None else needs - cut.kept.keys()
        if region is None and any(each.op != "placeholder" for each in missing):
            missing = {node}
        assert known is None or not missing, "more outputs need all that fewer need"
        cut.kept |= dict.fromkeys(each for each in nodes if each in missing)
        if node not in missing:
            _collect(node, cut.kept, again)
    return list(cut.kept), [node for node in nodes if node in again]


class _Cut:
    """What has to be kept for a node to be computed again."""

    def __init__(
        self,
        lasting: Set[torch.fx.Node],
        kept: dict[torch.fx.Node, None],
        recomputed: Recomputed,
        growing: Set[torch.fx.Node],
    ) -> None:
        self.kept = kept
        self._lasting = lasting
        self._recomputed = recomputed
        self._growing = growing
        self._found: dict[torch.fx.Node, _Sources | None] = {}

    def sources(self, node: torch.fx.Node, region: object | None = None) -> _Sources | None:
        """None if it cannot be. In a region everything is, of what is given to it."""
        if node.op == "placeholder":
            if node in self._lasting or RESULT not in node.meta or region is not None:
                return frozenset()
            return frozenset({node}) if _is_copied(node) else None
        own = region_at(node) if RESULT in node.meta else None
        if node in self.kept or (own is not region and own is not None):
            return frozenset({node})
        if node not in self._found:
            self._found[node] = self._outside(node) if own is None else self._inside(node, own)
        return self._found[node]

    def _outside(self, node: torch.fx.Node) -> _Sources | None:
        if RESULT in node.meta and not self._may_be_again(node):
            return frozenset({node})
        found: _Sources = frozenset()
        for each in node.all_input_nodes:
            needs = self.sources(each)
            if needs is None:
                return None
            found |= needs
        return found

    def _may_be_again(self, node: torch.fx.Node) -> bool:
        if is_part(node):
            node = node.all_input_nodes[0]
        entry, which = _entry_of(node), self._recomputed
        if entry is None or WRITTEN in node.meta or entry.op.effects.writes:
            return False
        is_one = entry.op.lowering in which.kinds and entry.op.name not in which.but
        return is_one or node in self._growing

    def _inside(self, node: torch.fx.Node, region: object) -> _Sources:
        """Of all that is given to a call of checkpoint."""
        maker: Any = node.args[0] if is_part(node) else node
        step = maker.target
        if WRITTEN in node.meta or (isinstance(step, RecordedOperator) and step.may_draw):
            return frozenset({node})
        found: _Sources = frozenset()
        for each in node.all_input_nodes:
            needs = self.sources(each, region)
            found |= frozenset({each}) if needs is None else needs
        return found


def _growing_products(nodes: Sequence[torch.fx.Node], facts: Facts) -> Set[torch.fx.Node]:
    """Those that give more elements than they take, parameters aside, all of the same inputs
    together: queries, keys and values of one tensor."""
    alike: dict[frozenset[torch.fx.Node], list[torch.fx.Node]] = {}
    for node in nodes:
        entry = _entry_of(node)
        if entry is None or entry.op.lowering is not OpKind.MATMUL:
            continue
        tensors = [each for each in node.all_input_nodes if RESULT in each.meta]
        alike.setdefault(
            frozenset(root_of(each) for each in tensors if PARAMETER not in each.meta), []
        ).append(node)

    def count(of: Iterable[torch.fx.Node]) -> float:
        found = [meta for each in of for meta in leaves(each.meta[RESULT])]
        sizes = [facts.hint(meta.numel) for meta in found if isinstance(meta, Meta)]
        return sum(math.inf if size is None else size for size in sizes)

    return {node for given, made in alike.items() if count(made) > count(given) for node in made}


def _entry_of(node: torch.fx.Node) -> OpMatch | None:
    call = node.meta.get(CALL)
    return None if call is None else lookup(call.function)


def _is_copied(node: torch.fx.Node) -> bool:
    """Whether an input is so small that a copy costs nothing: biases."""
    meta = node.meta[RESULT]
    is_small = isinstance(meta, Meta) and meta.rank <= 1 and meta.is_contiguous
    return PARAMETER in node.meta and is_small


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
