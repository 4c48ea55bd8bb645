"""Which nodes of a captured graph write to tensors, to which, and what does the same without."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.fx
from torch._ops import OpOverload

from anyshape.capture.record.bound_call import name_of
from anyshape.capture.record.op_kinds import may_draw
from anyshape.ops.bind import Unbound, asked_to_work_in_place
from anyshape.ops.effects import is_mutable, writes_untold, written_by
from anyshape.ops.node_meta import CALL
from anyshape.ops.signature import signature_of
from anyshape.ops.table import lookup
from anyshape.support.lazy_dataclass import dataclass


class Unknown(Exception):
    """What a node writes to, or what becomes of it, cannot be told."""


@dataclass(frozen=True, slots=True)
class Write:
    """A node writes to the tensors of some nodes."""

    targets: tuple[torch.fx.Node, ...]
    #: where they are among the arguments of the function, if that is what it is called with
    places: tuple[int, ...] = ()
    #: an operator of torch that computes what the (only) target becomes, if there is one
    instead: Instead | None = None
    #: whether the result of the node is the target itself
    gives_target: bool = True


@dataclass(frozen=True, slots=True)
class Instead:
    """A node as it would be made with a graph."""

    op: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def write_of(node: torch.fx.Node) -> Write | None:
    """What a node writes to; None if it does not write."""
    call = node.meta.get(CALL)
    if call is None:
        return None
    if node.target is operator.getitem:
        return None  # It may be one result of a call, and have the call's own notes.
    try:
        return _write_of(node, call.function)
    except Unbound as error:
        raise Unknown(f"`{name_of(call.function)}`: {error}") from None


def _write_of(node: torch.fx.Node, function: Callable[..., object]) -> Write | None:
    if node.kwargs.get("out") is not None:
        return _with_out(node)
    if isinstance(function, OpOverload):
        return _by_schema(node, function)
    if is_mutable(function):
        raise Unknown(f"`{function}` writes to an argument")
    if writes_untold(function):
        return _statistics(node, function)
    asked = asked_to_work_in_place(function, node.args, node.kwargs)
    if asked is not None:
        target = _tensor(asked.first)
        if may_draw(function):
            return Write((target,), (0,))
        place = signature_of(asked.op).names.index("inplace")
        kwargs = {name: value for name, value in node.kwargs.items() if name != "inplace"}
        return Write((target,), (), Instead(node.op, node.target, node.args[:place], kwargs))
    name = name_of(function)
    entry = lookup(function)
    in_place = entry is not None and entry.in_place
    if not in_place and name not in _OPERATORS and not _ends_in_place(name):
        return None
    if (entry is not None and entry.op.restrides) or name in _OTHERWISE or not node.args:
        raise Unknown(f"`{name}` changes more than the elements of a tensor")
    instead = None if may_draw(function) else _instead(node, name)
    return Write((_tensor(node.args[0]),), (0,), instead)


def _tensor(value: object) -> torch.fx.Node:
    if not isinstance(value, torch.fx.Node):
        raise Unknown("several tensors are changed at once")
    return value


def _ends_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


#: What Python's augmented assignments call, and its form that gives a new tensor.
_OPERATORS: Final = {
    "__iadd__": "add",
    "__isub__": "sub",
    "__imul__": "mul",
    "__itruediv__": "div",
    "__idiv__": "div",
    "__ifloordiv__": "floor_divide",
    "__imod__": "remainder",
    "__ipow__": "pow",
    "__iand__": "bitwise_and",
    "__ior__": "bitwise_or",
    "__ixor__": "bitwise_xor",
    "__ilshift__": "bitwise_left_shift",
    "__irshift__": "bitwise_right_shift",
    "__setitem__": "",
}

#: They end as in-place operators do, and change other things than elements.
_OTHERWISE: Final = frozenset(
    {
        *("requires_grad_", "detach_", "resize_", "resize_as_", "set_", "as_strided_", "rename_"),
        *("share_memory_", "apply_", "map_", "map2_", "data"),
    }
)


def _instead(node: torch.fx.Node, name: str) -> Instead | None:
    args, kwargs = node.args, dict(node.kwargs)
    if name == "zero_":
        return Instead("call_function", torch.zeros_like, args[:1], {})
    plain = _OPERATORS.get(name, name[:-1])
    if node.target is operator.setitem or not plain:
        return None
    # An augmented assignment is a function of `operator`, whatever method it comes down to.
    of_tensors = getattr(torch.Tensor, name, None) is node.meta[CALL].function
    if node.op == "call_method" or name in _OPERATORS or of_tensors:
        found = callable(getattr(torch.Tensor, plain, None))
        return Instead("call_method", plain, args, kwargs) if found else None
    for module in (torch, torch.nn.functional):
        if getattr(module, name, None) is node.target:
            function = getattr(module, plain, None)
            return None if function is None else Instead("call_function", function, args, kwargs)
    return None


def _with_out(node: torch.fx.Node) -> Write:
    kwargs = dict(node.kwargs)
    target = _tensor(kwargs.pop("out"))
    return Write((target,), (), Instead(node.op, node.target, node.args, kwargs))


def _by_schema(node: torch.fx.Node, function: OpOverload) -> Write | None:
    places: list[int] = []
    for place, argument in enumerate(function._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        if place >= len(node.args):
            raise Unknown(f"`{function}` writes to an argument that is given by name")
        places.append(place)
    if not places:
        return None
    targets = tuple(_tensor(node.args[place]) for place in places)
    returns = [each.alias_info for each in function._schema.returns]
    itself = any(info is not None and info.is_write for info in returns)
    if itself and (len(places) > 1 or len(returns) > 1):
        raise Unknown(f"`{function}` gives what it writes to")
    return Write(targets, tuple(places), gives_target=itself)


def _statistics(node: torch.fx.Node, function: Callable[..., object]) -> Write | None:
    match = lookup(function)
    if match is None:
        raise Unknown(f"`{name_of(function)}` may write to running statistics")
    if not written_by(match, node.args, node.kwargs):
        return None
    names = signature_of(match.op).names
    places = tuple(map(names.index, match.op.effects.writes))
    if max(places) >= len(node.args):
        raise Unknown(f"`{name_of(function)}` has running statistics that are given by name")
    targets = tuple(_tensor(node.args[place]) for place in places)
    return Write(targets, places, gives_target=False)
