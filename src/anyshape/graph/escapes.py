"""Whether anyone could tell a copy from the tensor it was made of."""

from __future__ import annotations

import torch.fx

from anyshape.graph.arguments import without_flag
from anyshape.ops.node_notes import CALL
from anyshape.ops.op import Lowering as Kind
from anyshape.ops.table import lookup

#: their results have memory of their own
_FRESH = frozenset({Kind.POINTWISE, Kind.REDUCTION, Kind.MATMUL})


def stays_inside(node: torch.fx.Node) -> bool:
    """Whether a tensor is only read, by operators that make new ones; and nothing is written to
    later on, so that it stays what it was made of."""
    return not _is_handed_out(node, set()) and not _is_followed_by_writes(node)


def _is_handed_out(node: torch.fx.Node, seen: set[torch.fx.Node]) -> bool:
    for user in node.users:
        if user in seen:
            continue
        seen.add(user)
        call = user.meta.get(CALL)
        entry = lookup(call.function) if call is not None else None
        if entry is None:
            return True
        if entry.op.lowering in _FRESH and entry.op.name not in ("contiguous", "to"):
            continue
        if _is_handed_out(user, seen):
            return True
    return False


def _is_followed_by_writes(node: torch.fx.Node) -> bool:
    later = node.next
    while later.op != "output":
        call = later.meta.get(CALL)
        entry = lookup(call.function) if call is not None else None
        if call is not None and (
            entry is None
            or entry.in_place
            or "out" in later.kwargs
            or without_flag(call.function, later.args, dict(later.kwargs))[0]
        ):
            return True
        later = later.next
    return False
