"""Operators that copy, cast or move; the tensor itself where nothing changes."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.ops.broadcast import broadcast, expanded, pointwise_layout, require_expands
from anyshape.ops.layouts import contiguity
from anyshape.ops.meta import Dense, Meta, channels_last, contiguous
from anyshape.ops.op import Op, OpKind, Rule
from anyshape.ops.promotion import category
from anyshape.ops.rules.pointwise import Operand
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


def cast(
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
    return _tracked(input, cast(q, input, dtype, device, copy, kwargs.get("memory_format")))


def _tracked(input: Meta, result: Meta) -> Meta:
    """The result with the grad of the input alone: who lends a dtype has no part in it."""
    tracked = input.requires_grad and torch.is_grad_enabled() and category(result.dtype) >= 2
    return result if result is input else replace(result, requires_grad=tracked)


def _casting(dtype: torch.dtype) -> Rule:
    def rule(q: ShapeQuery, input: Meta, memory_format: torch.memory_format | None = None) -> Meta:
        return cast(q, input, dtype, memory_format=memory_format)

    return rule


def _moving(kind: str) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: torch.memory_format | None = None,
    ) -> Meta:
        return cast(q, input, None, kind if device is None else device, False, memory_format)

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
    return cast(q, input, dtype if isinstance(dtype, torch.dtype) else dtype.dtype, device)


def _type_as(q: ShapeQuery, input: Meta, other: Meta) -> Meta:
    return _tracked(input, cast(q, input, other.dtype, other.device))


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


def _fill(q: ShapeQuery, input: Meta, value: Operand) -> Meta:
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
