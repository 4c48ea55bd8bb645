"""Functions of single positions, called once for all of them.

    torch.vmap(lambda row, column: column <= row, ...)      # and functions of flex_attention

They are given all positions at once, in tensors that are broadcast: the same as long as every step
is elementwise, or takes an element of a tensor, which is looked at in what was recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import torch
import torch.fx

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.control_flow import Stretch
from anyshape.capture.builtins.model import Hooks
from anyshape.ops.effects import may_draw
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import CALL, NUMBER, RESULT, SYMBOL
from anyshape.ops.op import OpKind
from anyshape.ops.table import lookup


def along(hooks: Hooks, line: Any, axis: int, rank: int) -> Any:
    """A line of numbers as one of `rank` axes."""
    places = tuple(slice(None) if axis == each else None for each in range(rank))
    return hooks.item(line, places)


def at_all_positions(
    hooks: Hooks, caller: str, function: Any, given: Sequence[Any], of_positions: Sequence[Any]
) -> torch.Tensor:
    """What `function` gives, in a tensor that can be broadcast to all positions. What else than
    tensors of positions it is given is the same for each of them."""
    name, recorder = getattr(function, "__name__", "a function"), hooks.recorder
    what = f"`{name}` of {caller}"
    mapped = {recorder.node(each) for each in of_positions}
    try:
        with hooks.tracer.trial(), recorder.shapes_hidden(mapped):
            stretch = Stretch(hooks, f"`{name}`", partial(hooks.call, function), given)
    except AbortCapture:
        raise
    except Exception as error:
        # It may be for single positions alone.
        raise AbortCapture(f"{caller} cannot trace `{name}`: {error}") from None
    result = stretch.result
    if not hooks.tracer.active or stretch.why is not None:
        raise AbortCapture(f"{caller} cannot trace `{name}`")
    if stretch.writes or not isinstance(result, torch.Tensor):
        raise AbortCapture(f"{what} writes, or gives no tensor")
    with torch._C.DisableTorchFunction():
        for node in stretch.nodes():
            call = node.meta.get(CALL)
            if call is not None and may_draw(call.function):
                raise AbortCapture(f"{what} draws random numbers")
            if mapped.intersection(node.all_input_nodes):
                _check(node, mapped, what)
                mapped.add(node)
    if recorder.node(result) not in mapped and recorder.meta(result).rank:
        raise AbortCapture(f"{what} gives a tensor of its own")
    return result


def _check(node: torch.fx.Node, mapped: set[torch.fx.Node], what: str) -> None:
    """Raise unless a step gives for all positions at once what it gives for each alone."""
    call = node.meta.get(CALL)
    entry = None if call is None else lookup(call.function)
    kind = None if entry is None else entry.op.lowering
    result = node.meta.get(RESULT)
    others = [each for each in node.all_input_nodes if each not in mapped]
    metas = [each.meta.get(RESULT) for each in others if not _is_number(each)]
    if entry is not None and isinstance(result, Meta):
        if kind is OpKind.POINTWISE and all(isinstance(each, Meta) for each in metas):
            of = [each.meta[RESULT] for each in node.all_input_nodes if each in mapped]
            if all(_is_neutral(each, of) for each in metas):
                return
        if kind is OpKind.FACTORY and (entry.op.name.endswith("_like") or not result.rank):
            return
        if entry.op.name == "getitem" and _takes_an_element(node, mapped):
            return
    called = entry.op.name if entry is not None else getattr(node.target, "__name__", node.name)
    raise AbortCapture(f"{what} calls `{called}`, which is not elementwise")


def _is_number(node: torch.fx.Node) -> bool:
    """A size, or a float that changes: as a constant, it is the same for all positions."""
    is_float = node.op == "placeholder" and RESULT not in node.meta
    return SYMBOL in node.meta or NUMBER in node.meta or is_float


def _is_neutral(other: Any, mapped: list[Any]) -> bool:
    """Whether a tensor that is not of positions has none of its own, and does not widen: beside
    single positions it would have a say in the dtype, beside tensors of all of them it has not."""
    if other.rank:
        return False
    dtypes = [each.dtype for each in mapped if isinstance(each, Meta)]
    if not dtypes:
        return True
    theirs = reduce(torch.promote_types, dtypes)
    return _category(theirs) != _category(other.dtype) or (
        torch.promote_types(theirs, other.dtype) == theirs
    )


def _category(dtype: torch.dtype) -> int:
    return (dtype != torch.bool) + dtype.is_floating_point + 2 * dtype.is_complex


def _takes_an_element(node: torch.fx.Node, mapped: set[torch.fx.Node]) -> bool:
    base, key = node.args
    if base in mapped or not isinstance(base, torch.fx.Node):
        return False
    meta = base.meta.get(RESULT)
    keys = key if isinstance(key, tuple) else (key,)
    return isinstance(meta, Meta) and len(keys) == meta.rank and all(map(_is_index, keys))


def _is_index(key: object) -> bool:
    if type(key) is int:
        return True
    meta = key.meta.get(RESULT) if isinstance(key, torch.fx.Node) else None
    return isinstance(meta, Meta) and meta.dtype in (torch.int64, torch.int32)
