"""The last resort: the result of an operator at the sizes of this run, and at no others."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from anyshape.errors import UnknownOperator
from anyshape.ops.concrete import BY_DATA, ConcreteCall, DependsOnData, at_numbers
from anyshape.ops.meta import Meta
from anyshape.ops.meta_tensors import leaves
from anyshape.ops.promotion import category
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Expr, Size


def specialised(q: ShapeQuery, call: ConcreteCall, why: str) -> Any:
    """What a call returns at the sizes of this run, each of which it fixes.

    Never for a result that depends on data: `UnknownOperator`.
    """
    reason = f"{q.op} has no shape function for symbols: {why}"
    for leaf in leaves((call.args, call.kwargs)):
        sizes = (*leaf.shape, *leaf.strides) if isinstance(leaf, Meta) else (leaf,)
        for size in sizes:
            if isinstance(size, Expr):
                q.specialize(size, reason)

    def number(size: Size) -> int:
        return q.specialize(size, reason)

    try:
        value = at_numbers(call, number)
    except DependsOnData as error:
        raise UnknownOperator(op=q.op) from error
    except Exception as error:
        if call.seen is None or not _shape_is_free_of_data(call):
            raise UnknownOperator(op=q.op) from error
        return call.seen
    return value if call.seen is None else _confirmed(q, call, value)


def _confirmed(q: ShapeQuery, call: ConcreteCall, value: Any) -> Any:
    """What the operator did in this run, if its shape function says the same: layouts are the
    operator's. Where they differ, data may have decided."""
    said, seen = list(leaves(value)), list(leaves(call.seen))
    if len(said) != len(seen) or not all(map(_same_but_for_layout, said, seen)):
        raise UnknownOperator(op=q.op)
    return call.seen


def _shape_is_free_of_data(call: ConcreteCall) -> bool:
    """Whether the result of this run has the shape of every run at these sizes.

    So for torch's own operators that are not tagged otherwise, if no tensor holds integers:
    lengths, indices and counts, which kernels read without telling.
    """
    if _is_of_another_library(call.function):
        return False  # also where it has the name of one of torch's
    packet = getattr(torch.ops.aten, call.name, None)
    if packet is None or not all(category(meta.dtype) >= 2 for meta in call.metas):
        return False
    overloads = [getattr(packet, name) for name in packet.overloads()]
    tensors_only = all(isinstance(leaf, Meta) or leaf is None for leaf in leaves(call.seen))
    return tensors_only and all(BY_DATA.isdisjoint(overload.tags) for overload in overloads)


def _is_of_another_library(function: Any) -> bool:
    if isinstance(function, OpOverload):
        function = function.overloadpacket
    return isinstance(function, OpOverloadPacket) and not function._qualified_op_name.startswith(
        "aten::"
    )


def _same_but_for_layout(said: Any, seen: Any) -> bool:
    if isinstance(said, Meta) and isinstance(seen, Meta):
        return said.shape == seen.shape and said.dtype == seen.dtype
    return said == seen
