"""Operators in a graph with gradients that have no row: recorded by torch's autograd where they are
run, so that none has to run again for its gradient."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.fx

from anyshape.graph.alias_analysis import function_of, is_part
from anyshape.graph.autograd_step import RecordedOperator, Step, placed
from anyshape.graph.checkpoint_regions import Redrawn
from anyshape.graph.plan import Unlowerable, known_arguments
from anyshape.graph.term_graph import TermGraph
from anyshape.ops.bind import Unbound, bind_match
from anyshape.ops.effects import is_pure_extension, may_draw, may_write, out_of, written_by
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.node_meta import ARGUMENT, CALL, RESULT, UNRECORDED, RecordedCall
from anyshape.ops.op import GRADIENT, NATIVE, PARTS, OpKind
from anyshape.ops.table import OpMatch, lookup

Mapped = dict[torch.fx.Node, torch.fx.Node]
#: Their results may lie in the memory of their arguments.
_MAY_SHARE: Final = (OpKind.VIEW, OpKind.INDEX_MAP, OpKind.NOTHING)


class NothingNative(Unlowerable):
    """Torch does all that a graph with gradients has to do."""


def as_recorded(
    node: torch.fx.Node, terms: TermGraph, mapped: Mapped
) -> torch.fx.Node | tuple[torch.fx.Node, ...] | None:
    """What stands for the results; None if the operator is not one that torch is called for, has a
    row, or gives tensors that are not its own."""
    call = node.meta.get(CALL)
    if call is None or ARGUMENT in node.meta or UNRECORDED in node.meta:
        return None
    entry = lookup(call.function)
    metas: Any = node.meta.get(RESULT)
    is_one = isinstance(metas, Meta)
    results = (metas,) if is_one else metas
    if not _is_called(entry, call.function) or not isinstance(results, tuple):
        return None
    tensors = [each for each in results if each is not None]
    if not all(isinstance(each, Meta) and each.shares_if is None for each in tensors):
        return None
    if not any(each.requires_grad for each in tensors):
        return None
    if not is_one and not all(map(is_part, node.users)):
        return None
    if entry is not None and (_writes(entry, node) or gives_sparse(entry, call)):
        return None
    known = placed(node, call)
    given = [mapped[each] for each in known.given]
    wanted = [
        isinstance(meta, Meta) and meta.requires_grad and UNRECORDED not in each.meta
        for each, meta in known.given.items()
    ]
    step = RecordedOperator(known.function, known.spec, wanted, is_one, draws(node, call))
    graph = given[0].graph
    whole = graph.call_function(step, tuple(given))
    whole.meta[CALL] = RecordedCall(step, tuple(known.given.values()), {})
    record = tensors[0].like((0,), torch.float32, contiguous(1))
    whole.meta[RESULT] = (*results, terms.without_grad(record))
    parts: list[torch.fx.Node] = []
    for place, meta in enumerate(whole.meta[RESULT]):
        part = graph.call_function(operator.getitem, (whole, place))
        part.meta[RESULT] = meta
        parts.append(part)
    return parts[0] if is_one else tuple(parts[:-1])


def is_by_torch(node: torch.fx.Node) -> bool:
    """Whether native code has nothing to do for a node: no tensor is computed of another one."""
    call = node.meta.get(CALL)
    if call is None or isinstance(call.function, Step):
        return True
    entry = lookup(call.function)
    is_view = entry is not None and entry.op.lowering in _MAY_SHARE
    return is_view or not any(RESULT in each.meta for each in node.all_input_nodes)


def _is_called(entry: OpMatch | None, function: Callable[..., Any]) -> bool:
    """Whether torch, or another library, computes the operator and its gradients."""
    if entry is None:
        return is_pure_extension(function)
    op = entry.op
    if entry.in_place or op.name in GRADIENT or op.name in PARTS:
        return False
    is_native = op.lowering is not OpKind.CALL_OUT and op.name in NATIVE
    return op.lowering not in _MAY_SHARE and not is_native


def _writes(entry: OpMatch, node: torch.fx.Node) -> bool:
    if out_of(function_of(node), node.args, node.kwargs) is not None:
        return True
    try:
        return bool(written_by(entry, node.args, node.kwargs))
    except Unbound:
        return True


def writes_when_run_again(entry: OpMatch | None, node: torch.fx.Node, call: RecordedCall) -> bool:
    """Whether an operator that runs once more for its gradient would update an argument twice."""
    if entry is not None:
        return entry.in_place or _writes(entry, node)
    return out_of(call.function, node.args, node.kwargs) is not None or may_write(call.function)


def gives_sparse(entry: OpMatch, call: RecordedCall) -> bool:
    try:
        return bind_match(entry, call.args, call.kwargs).arguments.get("sparse", False) is not False
    except Unbound:
        return True


def draws(node: torch.fx.Node, call: RecordedCall) -> bool:
    """Whether an operator draws random numbers, with its arguments."""
    if isinstance(call.function, RecordedOperator):
        return call.function.may_draw
    if isinstance(call.function, Redrawn):
        return True
    if not may_draw(call.function) or ARGUMENT in node.meta:
        return False
    entry = lookup(call.function)
    if entry is None:
        return True
    try:
        given = bind_match(entry, *known_arguments(node, call)).arguments
    except Unbound:
        return True
    return not any(name in given and given[name] == never for name, never in _DRAW_NOTHING)


#: With these arguments nothing is drawn.
_DRAW_NOTHING: Final = (("dropout_p", 0), ("dropout", 0), ("p", 0), ("train", False))
