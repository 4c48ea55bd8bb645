"""Operators that copy, cast or move; the tensor itself where nothing changes.

An operator that hands its tensor on is no node of the graph; what comes here makes a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.ops.broadcast import broadcast, expanded, pointwise_layout, require_expands
from anyshape.ops.elementwise import MetaOperand
from anyshape.ops.families.reshaping import raise_if_copied
from anyshape.ops.families.views import stretched
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.layouts import contiguity
from anyshape.ops.lowering.float8 import FLOAT8_DTYPES
from anyshape.ops.lowering.pointwise_builder import Operand, broadcast_index, scalar_of
from anyshape.ops.lowering.scalar_range_check import must_fit
from anyshape.ops.lowering.scalars import TORCH_DTYPES, cast, short
from anyshape.ops.lowering.values import Index, IndexMap, Lowering, NotLowered, Value
from anyshape.ops.meta import Dense, Meta, channels_last, contiguous
from anyshape.ops.onnx import Node, Writer
from anyshape.ops.op import (
    Op,
    OpKind,
    Rule,
    gradient,
    lower,
    lower_view,
    lower_views,
    moving,
    onnx,
)
from anyshape.ops.promotion import category
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Fact, Size, and_, eq, or_

_METHOD = "torch.Tensor."

#: Methods that cast, by their names.
_CASTS = {
    "float": torch.float32, "double": torch.float64, "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "byte": torch.uint8, "char": torch.int8, "short": torch.int16, "int": torch.int32,
    "long": torch.int64,
    "bool": torch.bool, "chalf": torch.complex32, "cfloat": torch.complex64,
    "cdouble": torch.complex128,
}  # fmt: skip

_CHANNELS_LAST = {torch.channels_last: 4, torch.channels_last_3d: 5}


def device_named(device: Any, default: torch.device) -> torch.device:
    """The device of a `device=` argument; an accelerator without a number is the current one."""
    if device is None:
        return default
    found = torch.device(device)
    if found.type == "cuda" and found.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return found


def returns_itself(q: ShapeQuery, when: Fact, reason: str) -> bool:
    """Whether the operator gives its argument back in this run, as it does for some sizes only.

    Then the program has one object under two names, and no copy of later runs could be told from
    the original. Where it makes a new tensor nothing is asked: the operator in the graph does what
    it does.
    """
    return q.facts.holds_now(when) is True and q.decide(when, reason)


def layout_in(q: ShapeQuery, input: Meta, memory_format: torch.memory_format | None) -> Dense:
    """The layout of a copy in a memory format; by default that of a pointwise result."""
    if memory_format is None or memory_format is torch.preserve_format:
        return pointwise_layout(q, input.shape, (input,))
    if memory_format is torch.contiguous_format:
        return contiguous(input.rank)
    rank = _CHANNELS_LAST[memory_format]
    if input.rank != rank:
        raise q.fail(f"{memory_format} needs {rank} dimensions, not {input.rank}")
    return channels_last(rank)


def _suggested(q: ShapeQuery, input: Meta) -> torch.memory_format:
    """What torch takes a memory format to be: contiguous, unless strides look channels-last."""
    for memory_format, rank in _CHANNELS_LAST.items():
        if input.rank == rank and layout_in(q, input, None) == channels_last(rank):
            return memory_format
    return torch.contiguous_format


def cast_meta(
    q: ShapeQuery,
    input: Meta,
    dtype: torch.dtype | None = None,
    device: Any = None,
    copy: bool = False,
    memory_format: torch.memory_format | None = None,
) -> Meta:
    """`input.to(…)`."""
    dtype = dtype or input.dtype
    place = device_named(device, input.device)
    if not copy and dtype == input.dtype and place == input.device:
        if memory_format in (None, torch.preserve_format):
            return input
        layout_in(q, input, memory_format)  # for its checks
        if memory_format is _suggested(q, input):
            return input
    return Meta(input.shape, dtype, layout_in(q, input, memory_format), place)


def _to(q: ShapeQuery, input: Meta, *args: Any, **kwargs: Any) -> Meta:
    """First come a dtype, or a device and maybe a dtype, or a tensor; then two flags."""
    dtype, device = kwargs.pop("dtype", None), kwargs.pop("device", None)
    other = kwargs.pop("other", None)
    flags: list[bool] = []
    for arg in args:
        if isinstance(arg, bool):
            flags.append(arg)
        elif isinstance(arg, Meta):
            other = arg
        elif isinstance(arg, torch.dtype):
            dtype = arg
        elif arg is not None:
            device = arg
    if other is not None:
        dtype, device = other.dtype, other.device
    copy = kwargs.get("copy", flags[1] if len(flags) > 1 else False)
    return _tracked(input, cast_meta(q, input, dtype, device, copy, kwargs.get("memory_format")))


def _tracked(input: Meta, result: Meta) -> Meta:
    """The result with the grad of the input alone: who lends a dtype has no part in it."""
    tracked = input.requires_grad and torch.is_grad_enabled() and category(result.dtype) >= 2
    return result if result is input else replace(result, requires_grad=tracked)


def _casting(dtype: torch.dtype) -> Rule:
    def rule(q: ShapeQuery, input: Meta, memory_format: torch.memory_format | None = None) -> Meta:
        return cast_meta(q, input, dtype, memory_format=memory_format)

    return rule


def _moving(kind: str) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: torch.memory_format | None = None,
    ) -> Meta:
        return cast_meta(q, input, None, kind if device is None else device, False, memory_format)

    return rule


def _type(q: ShapeQuery, input: Meta, dtype: Any = None, non_blocking: bool = False) -> Meta | str:
    """To a dtype or an old tensor type, maybe by name; without it, the name of the type."""
    if dtype is None:
        return torch.empty(0, dtype=input.dtype, device=input.device).type()
    device = None
    if isinstance(dtype, str):
        home, _, name = dtype.rpartition(".")
        device = home.removeprefix("torch").removeprefix(".") or "cpu"
        dtype = getattr(torch, name)
    return cast_meta(q, input, dtype if isinstance(dtype, torch.dtype) else dtype.dtype, device)


def _type_as(q: ShapeQuery, input: Meta, other: Meta) -> Meta:
    return _tracked(input, cast_meta(q, input, other.dtype, other.device))


def _clone(q: ShapeQuery, input: Meta, *, memory_format: torch.memory_format | None = None) -> Meta:
    return input.like(layout=layout_in(q, input, memory_format))


def _contiguous(
    q: ShapeQuery, input: Meta, memory_format: torch.memory_format = torch.contiguous_format
) -> Meta:
    if memory_format is torch.preserve_format:
        raise q.fail("`contiguous` needs a memory format, not `preserve_format`")
    layout = layout_in(q, input, memory_format)
    if input.layout == layout:
        return input
    shares = contiguity(input, layout)
    if returns_itself(q, or_(shares, eq(input.numel, 0)), "a contiguous tensor is not copied"):
        return input
    return replace(input.like(layout=layout), shares_if=shares)


def _copied(q: ShapeQuery, input: Meta) -> Meta:
    return input.like()


def _detach(q: ShapeQuery, input: Meta) -> Meta:
    return replace(input, requires_grad=False)


def _requires_grad(q: ShapeQuery, input: Meta, requires_grad: bool = True) -> Meta:
    return replace(input, requires_grad=requires_grad)


def _parameter(q: ShapeQuery, data: Meta, requires_grad: bool = True) -> Meta:
    return replace(data, requires_grad=requires_grad)


def _copy(q: ShapeQuery, input: Meta, src: Meta, non_blocking: bool = False) -> Meta:
    require_expands(q, src.shape, input.shape)
    return input


def _fill(q: ShapeQuery, input: Meta, value: MetaOperand) -> Meta:
    if isinstance(value, Meta) and value.shape:
        raise q.fail("the value must be a number or a tensor without dimensions")
    return input.like(layout=layout_in(q, input, None))


def _zero(q: ShapeQuery, input: Meta) -> Meta:
    return input


def _broadcast_tensors(q: ShapeQuery, *tensors: Any) -> tuple[Meta, ...]:
    listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors
    shape = broadcast(q, [tensor.shape for tensor in listed])
    return tuple(_broadcast_to(q, tensor, shape) for tensor in listed)


def _broadcast_to(q: ShapeQuery, tensor: Meta, shape: tuple[Size, ...]) -> Meta:
    """A tensor that has the common shape already is given back itself."""
    if q.same_all(tensor.shape, shape):
        return tensor
    if tensor.rank == len(shape):
        fits = and_(*map(eq, tensor.shape, shape))
        if returns_itself(q, fits, "a tensor of the common shape is not expanded"):
            return tensor
    return expanded(q, tensor, shape)


ROWS = (
    Op("to", (_METHOD + "to",), _to, OpKind.POINTWISE, differentiable=False),
    *(
        Op(name, (_METHOD + name,), _casting(dtype), OpKind.POINTWISE)
        for name, dtype in _CASTS.items()
    ),
    *(
        Op(kind, (_METHOD + kind,), _moving(kind), OpKind.CALL_OUT)
        for kind in ("cpu", "cuda", "xpu", "mtia")
    ),
    Op("type", (_METHOD + "type",), _type, OpKind.POINTWISE),
    Op("type_as", (_METHOD + "type_as",), _type_as, OpKind.POINTWISE, differentiable=False),
    Op("clone", ("torch.clone", _METHOD + "clone"), _clone, OpKind.POINTWISE),
    Op("contiguous", (_METHOD + "contiguous",), _contiguous, OpKind.POINTWISE),
    Op("alias_copy", ("torch.alias_copy", "torch.detach_copy"), _copied, OpKind.POINTWISE),
    Op(
        "detach",
        ("torch.detach", _METHOD + "detach", _METHOD + "data.__get__"),
        _detach,
        OpKind.VIEW,
        differentiable=False,
    ),
    Op(
        "detach_",
        ("torch.detach_", _METHOD + "detach_"),
        _detach,
        OpKind.NOTHING,
        differentiable=False,
    ),
    Op(
        "requires_grad_",
        (_METHOD + "requires_grad_",),
        _requires_grad,
        OpKind.NOTHING,
        differentiable=False,
    ),
    Op(
        "parameter",
        ("torch.nn.Parameter",),
        _parameter,
        OpKind.NOTHING,
        differentiable=False,
    ),
    Op("copy_", (), _copy, OpKind.POINTWISE, in_place=(_METHOD + "copy_",)),
    Op(
        "fill",
        ("torch.fill",),
        _fill,
        OpKind.POINTWISE,
        in_place=("torch.fill_", _METHOD + "fill_"),
    ),
    Op(
        "zero_",
        (),
        _zero,
        OpKind.POINTWISE,
        in_place=("torch.zero_", _METHOD + "zero_"),
    ),
    Op(
        "broadcast_tensors",
        ("torch.broadcast_tensors", "torch.functional.broadcast_tensors"),
        _broadcast_tensors,
        OpKind.VIEW,
    ),
)


# -- native code ----------------------------------------------------------------------------------


def copied(c: Lowering, input: Value, dtype: torch.dtype | None = None) -> Value:
    """The same elements in memory of their own, as the dtype that the result has."""
    gives = input.dtype if dtype is None else short(dtype)
    return c.values.new(
        input.sizes,
        gives,
        lambda index: cast(input.at(index), gives),
        (input,),
        factors=input.factors,
    )


@lower(
    *moving("to", "float", "double", "half", "bfloat16", "byte", "char", "short", "int", "long"),
    *moving("bool", "type", "type_as", "cpu"),
)
def cast_row(c: Lowering, input: Value, **_: Any) -> Value:
    return copied(c, input, c.result.dtype)


@lower(*moving("clone", "alias_copy"))
def lower_clone(c: Lowering, input: Value, **_: Any) -> Value:
    return copied(c, input)


@lower(*moving("contiguous"))
def lower_contiguous(c: Lowering, input: Value, **_: Any) -> Value:
    return copied(c, input)


# -- into a tensor --------------------------------------------------------------------------------


@lower(*moving("copy_"))
def lower_copy(c: Lowering, input: Value, src: Value, non_blocking: bool) -> Value:
    for own, wanted in zip(reversed(src.sizes), reversed(input.sizes), strict=False):
        if own != 1 and not c.same(own, wanted):
            raise NotLowered(f"sizes {own} and {wanted} may differ")
    if len(src.sizes) > len(input.sizes):
        raise NotLowered("a copy into fewer dimensions")

    def at(index: Index) -> Scalar:
        return cast(src.at(broadcast_index(src.sizes, input.sizes, index)), input.dtype)

    return c.values.new(input.sizes, input.dtype, at, (src,))


def filled(c: Lowering, sizes: Any, dtype: torch.dtype, value: Operand) -> Value:
    """The same number everywhere."""
    gives = short(dtype)
    if isinstance(value, Value) and value.sizes:
        raise NotLowered("a tensor of several elements for a number")
    if isinstance(value, complex):
        raise NotLowered("a complex number")
    if isinstance(value, float) and gives not in expr.FLOATS | expr.FLOAT8:
        value = _as_integer(value, gives)
    must_fit(c, value, gives)

    def at(index: Index) -> Scalar:
        return scalar_of(value, index, tuple(sizes), gives)

    return c.values.new(sizes, gives, at, (value,) if isinstance(value, Value) else ())


def _as_integer(value: float, dtype: str) -> int | bool:
    if value != value or value in (float("inf"), float("-inf")):
        raise NotLowered("a number that no integer is")
    return bool(value) if dtype == "b1" else int(value)


@lower(*moving("fill"))
def lower_fill(c: Lowering, input: Value, value: Operand) -> Value:
    return filled(c, input.sizes, TORCH_DTYPES[input.dtype], value)


@lower(*moving("zero_"))
def lower_zero(c: Lowering, input: Value) -> Value:
    return lower_fill(c, input, 0)


@lower_view("contiguous")
def lower_contiguous_view(c: Lowering, base: Meta, **_: Any) -> IndexMap:
    if c.result.layout != base.layout:
        raise_if_copied(c, c.result.shares_if)
    return lambda index: index


@lower_views("broadcast_tensors")
def lower_broadcast_tensors(c: Lowering, bases: Sequence[Meta]) -> list[IndexMap]:
    return [stretched(c, base, shown) for base, shown in zip(bases, c.result, strict=True)]


@lower_view("detach")
def lower_itself(c: Lowering, base: Meta) -> IndexMap:
    return lambda index: index


# -- gradients ------------------------------------------------------------------------------------


@gradient(
    "alias_copy", "contiguous", "clone", "to", "float", "half", "bfloat16", "double", "type_as"
)
def gradient_cast(grad: Term, result: Term, input: Term) -> Gradients:
    """As the argument was: of its dtype again."""
    if result.meta.device != input.meta.device:
        raise NoGradient("a copy to another device")
    if {result.meta.dtype, input.meta.dtype} & FLOAT8_DTYPES:
        raise NoGradient("a dtype that torch only stores")
    return {"input": grad}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("to", "type", "type_as", "float", "double", "half", "bfloat16", "long", "int", "bool")
def onnx_cast(w: Writer, node: Node, input: Any, **_: Any) -> str:
    """To what the example has: whatever has said so."""
    return w.name(input, w.dtype(node))


@onnx("contiguous", "clone", "detach", "cpu")
def onnx_same(w: Writer, node: Node, input: Any, **_: Any) -> str:
    return w.name(input)
