"""Attention with gradients whose mask is made of sizes alone, and is known at all of them.

    rows = torch.arange(n)
    scaled_dot_product_attention(q, k, v, (rows[:, None] >= 0).expand(n, n))    # hides nothing
    scaled_dot_product_attention(q, k, v, rows[:, None] >= rows)                # is_causal=True

Without gradients, attention's own lowering sees it. With them, kernels and formulas are chosen
before anything is lowered. So the mask by itself is lowered here, and nodes are told what is known.
The program keeps its mask for whoever runs it operator by operator.
"""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.fx

from anyshape.graph.alias_analysis import Sharing, result_of
from anyshape.graph.attention_logsumexp import argument_nodes, attention_arguments
from anyshape.graph.fallback import may_write
from anyshape.graph.lowering import Lowering
from anyshape.graph.plan import Unlowerable, leaves
from anyshape.graph.size_symbols import symbols_in
from anyshape.loops import expr
from anyshape.ops.families.attention import known_mask
from anyshape.ops.lowering.values import Value
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, KNOWN_MASK, RESULT, SYMBOL, WRITTEN
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Facts, Size

Node = torch.fx.Node
#: A mask, how many queries and keys there are, and the scale.
_Key = tuple[Node, Size, Size, float | None]

_DEVICES: Final = ("cpu", "cuda")
#: Operators that a mask is made of. Those of data may be made of the whole program.
_MOST_OPERATORS: Final = 200


def mark_known_masks(graph: torch.fx.Graph, facts: Facts) -> None:
    """Tell the nodes of attention which mask they have. The graph writes to nothing that it makes,
    or where its nodes say so."""
    found: dict[_Key, bool | None] = {}
    sharing: Sharing | None = None
    for node in graph.nodes:
        given = attention_arguments(node, _DEVICES)
        mask = None if given is None or not _may_be_known(given) else argument_nodes(node)
        if given is None or mask is None:
            continue
        if sharing is None:
            sharing = Sharing(graph, may_write)
        key = mask["attn_mask"], given["query"].shape[2], given["key"].shape[2], given["scale"]
        if key not in found:
            apart = _apart(graph, key[0], sharing)
            found[key] = None if apart is None else _known(apart, facts, *key[1:])
        if found[key] is not None:
            node.meta[KNOWN_MASK] = found[key]


def erase_known_mask(node: Node, mapped: dict[Node, Node]) -> None:
    """Where attention was made without its mask: erase what nothing else uses."""
    nodes = argument_nodes(node) if KNOWN_MASK in node.meta else None
    stack = [] if nodes is None else [nodes["attn_mask"]]
    while stack:
        each = stack.pop()
        own = mapped.get(each)
        if own is None or own.users or own.op == "placeholder" or not _is_made_of_sizes(own):
            continue
        del mapped[each]
        own.graph.erase_node(own)
        stack += each.all_input_nodes


def _may_be_known(given: dict[str, Any]) -> bool:
    mask, heads = given["attn_mask"], [given[name] for name in ("query", "key", "value")]
    if not isinstance(mask, Meta) or mask.requires_grad or given["is_causal"] is not False:
        return False
    if not (given["scale"] is None or type(given["scale"]) is float):
        return False
    is_plain = mask.dtype in (torch.bool, heads[0].dtype) and mask.rank in (2, 4)
    return is_plain and all(each.rank == 4 for each in heads)


def _apart(graph: torch.fx.Graph, mask: Node, sharing: Sharing) -> torch.fx.Graph | None:
    """What a mask is made of, as a graph of its own; None if that is too much, or not known."""
    own: set[Node] = set()
    stack = [mask]
    while stack:
        node = stack.pop()
        if node in own:
            continue
        own.add(node)
        if len(own) > _MOST_OPERATORS or WRITTEN in node.meta:
            return None
        if sharing.is_written_to(sharing.first(node)):
            return None
        if not _is_given(node):
            stack += node.all_input_nodes
        elif not isinstance(result_of(node), Meta | None):
            return None
    made = torch.fx.Graph()
    mapped: dict[Node, Node] = {}
    for node in graph.nodes:
        # Inputs show which symbols are sizes, and which may be any integers.
        is_shown = node.op == "placeholder" and (SYMBOL in node.meta or symbols_in(node))
        if node not in own and not is_shown:
            continue
        if not _is_given(node):
            mapped[node] = made.node_copy(node, mapped.__getitem__)
            continue
        given = mapped[node] = made.placeholder(node.name)
        given.meta = {key: value for key, value in node.meta.items() if key != CALL}
        if isinstance(meta := result_of(node), Meta):
            given.meta[RESULT] = replace(meta, requires_grad=False)
    made.output((mapped[mask],))
    return made


def _is_given(node: Node) -> bool:
    """Whether only sizes of it can be known: an input, or what has a gradient."""
    return node.op == "placeholder" or _has_grad(node)


def _has_grad(node: Node) -> bool:
    metas = leaves(result_of(node))
    return any(isinstance(each, Meta) and each.requires_grad for each in metas)


def _is_made_of_sizes(node: Node) -> bool:
    """Of what a known mask is made of: whether it is no tensor that is only asked its sizes."""
    return RESULT in node.meta and SYMBOL not in node.meta and not _has_grad(node)


class _MaskLowering(Lowering):
    """A graph with one result, which stays an expression."""

    made: Value | None = None

    def _output(self, node: object) -> object:
        handle = self.handle(node)
        self.made = None if handle is None else handle.value(self.values)
        return None


def _known(
    apart: torch.fx.Graph, facts: Facts, rows: Size, columns: Size, scale: float | None
) -> bool | None:
    """Whether the mask is the causal one, at all sizes; it hides nothing if not. None if neither is
    known."""
    with expr.fresh_scope():
        lowering = _MaskLowering(facts)
        try:
            lowering.run(apart, whole=True)
        except Unlowerable:
            return None
        # Steps may be checks, which would be left out; what was assumed is not so at all sizes.
        if lowering.made is None or lowering.steps or lowering.assumed:
            return None
        scores = (1, 1, rows, columns)
        mask, is_causal = known_mask(lowering, lowering.made, False, scores, scale)
        return None if mask is not None else is_causal
