"""Which operator is written by which row."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import torch.fx
from torch._ops import OpOverloadPacket

from anyshape.export.functions_of_math import OF_TENSORS
from anyshape.export.onnx.pointwise import is_derived, written_pointwise
from anyshape.export.operators import UnknownName, name_of
from anyshape.ops.bind import OpCall, Unbound, bind_match
from anyshape.ops.families.indexing import onnx_getitem
from anyshape.ops.onnx import Node, NotMapped, Row, Writer, known
from anyshape.ops.op import ONNX
from anyshape.ops.signature import not_taken, taken_by
from anyshape.ops.table import lookup, resolve
from anyshape.support.error_notes import noting

#: Python's operators, which are those of tensors also where they are of sizes.
_OPERATORS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    operator.add: torch.add,
    operator.sub: torch.sub,
    operator.mul: torch.mul,
    operator.truediv: torch.true_divide,
    operator.floordiv: torch.floor_divide,
    operator.mod: torch.remainder,
    operator.pow: torch.pow,
    operator.matmul: torch.matmul,
    operator.neg: torch.neg,
    operator.abs: torch.abs,
    abs: torch.abs,
    operator.and_: torch.bitwise_and,
    operator.or_: torch.bitwise_or,
    operator.xor: torch.bitwise_xor,
    operator.invert: torch.bitwise_not,
    operator.lt: torch.lt,
    operator.le: torch.le,
    operator.gt: torch.gt,
    operator.ge: torch.ge,
    operator.eq: torch.eq,
    operator.ne: torch.ne,
    operator.iadd: torch.Tensor.add_,
    operator.isub: torch.Tensor.sub_,
    operator.imul: torch.Tensor.mul_,
    operator.itruediv: torch.Tensor.div_,
    # Of numbers that sizes are made into.
    **OF_TENSORS,
}


def _item(w: Writer, node: Node, input: object) -> str:
    return w.add("Reshape", [w.name(input), w.constant(torch.empty(0, dtype=torch.int64))])


def _extremes(kind: str) -> Row:
    """Of numbers that a program computes with."""

    def row(w: Writer, node: Node, *values: object, **named: object) -> str:
        for name in named:
            raise NotMapped(f"`{text_of_target(node)}` with `{name}`")
        return w.add(kind, [w.name(each, w.dtype(node)) for each in values])

    return row


def _size(w: Writer, node: Node, x: object, dim: Any = None) -> object:
    shape = w.add("Shape", [w.name(x)])
    if dim is None:
        return [w.add("Gather", [shape, w.constant(at)], axis=0) for at in range(w.rank(x))]
    return w.add("Gather", [shape, w.constant(known(dim) % w.rank(x))], axis=0)


def _count(w: Writer, node: Node, input: object) -> str:
    return w.add("Size", [w.name(input)])


def _field(w: Writer, x: Any, name: str) -> str | None:
    """What is read by name of several results."""
    found = w.values.get(x)
    fields = getattr(type(w.example(x)), "_fields", None) or _FIELDS.get(type(w.example(x)), ())
    return found[fields.index(name)] if isinstance(found, list) and name in fields else None


_FIELDS: dict[type, tuple[str, ...]] = {
    getattr(torch.return_types, kind): ("values", "indices")
    for kind in ("max", "min", "topk", "sort")
}

#: What is no operator: it reads parts, gives numbers, or nothing. Arguments are as they are given.
_OTHERS: Final[dict[Callable[..., Any], Row]] = {
    operator.getitem: onnx_getitem,
    min: _extremes("Min"),
    max: _extremes("Max"),
    torch.numel: _count,
    torch.Tensor.numel: _count,
    torch.Tensor.size: _size,
    torch.Tensor.item: _item,
    torch._C._set_grad_enabled: lambda w, node, *args: None,
}


def has_row(node: torch.fx.Node) -> bool:
    function = _function_of(node)
    if function is getattr or function in _OTHERS:
        return True
    match = lookup(function)
    if match is None or (match.in_place and match.op.restrides):
        return False
    return match.op.name in ONNX or is_derived(match.op)


def written(w: Writer, node: torch.fx.Node) -> object:
    """What a node gives in the model."""
    function, args = _function_of(node), node.args
    if function is getattr:
        x, name = args
        found = _field(w, x, str(name))
        if found is not None:
            return found
        function, args = _PROPERTIES.get(str(name)), (x,)
        if function is None:
            raise NotMapped(f"the attribute `{name}`")
    own = _OTHERS.get(function)
    if own is not None:
        return own(w, node, *args, **node.kwargs)
    match = lookup(function)
    assert match is not None, "asked before"
    try:
        call = bind_match(match, args, node.kwargs)
    except Unbound as error:
        raise NotMapped(f"`{text_of_target(node)}` with its arguments ({error})") from None
    _refuse_writes(w, node, call)
    try:
        return _by_row(w, node, call)
    except NotMapped:
        if not is_derived(call.op):
            raise
    return written_pointwise(w, node, call)


def _by_row(w: Writer, node: torch.fx.Node, call: OpCall) -> object:
    row = ONNX.get(call.op.name)
    if row is None:
        raise NotMapped(f"`{text_of_target(node)}`")
    for name in not_taken(row, call.op, call.arguments):
        raise NotMapped(f"`{text_of_target(node)}` with `{name}`")
    with noting(f"in the ONNX row of `{call.op.name}`"):
        return row(w, node, **taken_by(row, call.arguments))


def _refuse_writes(w: Writer, node: torch.fx.Node, call: OpCall) -> None:
    """Exporting a program makes writes to tensors into new values: what is left of them is what it
    knows no other form of."""
    if call.out is not None:
        raise NotMapped(f"`{text_of_target(node)}` with `out`")
    if call.in_place and isinstance(w.example(call.first), torch.Tensor):
        raise NotMapped(f"{text_of_target(node)}, which changes a value that is used elsewhere")


#: Properties of tensors that are operators.
_PROPERTIES: Final[dict[str, Any]] = {
    name: vars(torch._C.TensorBase)[name].__get__ for name in ("T", "mT")
}


def _function_of(node: torch.fx.Node) -> Any:
    """The function of torch that a node calls."""
    if node.op == "call_method":
        return getattr(torch.Tensor, str(node.target), None)
    target: Any = node.target
    if isinstance(target, OpOverloadPacket):
        space, _, name = str(target).partition(".")
        places = ("torch", "torch._C._nn", "torch.Tensor") if space == "aten" else ()
        target = next(filter(None, (resolve(f"{place}.{name}") for place in places)), target)
    return _OPERATORS.get(target, target)


def text_of_target(node: torch.fx.Node) -> str:
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    try:
        return name_of(node.target)
    except UnknownName as error:
        return str(error)
