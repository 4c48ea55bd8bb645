"""Activation functions: the dtype and the layout of their input."""

from __future__ import annotations

from typing import Any

from anyshape.ops.broadcast import pointwise_layout, require_writable
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, Rule
from anyshape.ops.promotion import floating
from anyshape.ops.rules.pointwise import everywhere, pointwise_row, same, unary
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import eq, or_

#: Functions of `torch.nn.functional` that work in place on demand, and where `inplace` stands among
#: their arguments.
_ON_DEMAND = {
    "relu": 1, "relu6": 1, "elu": 2, "selu": 1, "celu": 2, "leaky_relu": 2, "hardtanh": 3,
    "_threshold": 3,
    "threshold": 3, "hardswish": 1, "hardsigmoid": 1, "silu": 1, "mish": 1,
}  # fmt: skip

#: The operators themselves; those that never work in place are among them.
_PLAIN = (
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "mish", "relu",
    "relu6", "rrelu_with_noise", "selu", "silu", "softplus", "softshrink", "threshold",
)  # fmt: skip


def on_demand(rule: Rule, place: int) -> Rule:
    """A rule that returns the input itself where argument number `place`, or `inplace`, is true."""

    def maybe_in_place(q: ShapeQuery, input: Meta, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("inplace", args[place - 1] if len(args) >= place else False):
            require_writable(q, input)
            return input
        return rule(q, input, *args, **kwargs)

    return maybe_in_place


def _prelu(q: ShapeQuery, input: Meta, weight: Meta) -> Meta:
    if input.dtype != weight.dtype:
        raise q.fail(f"input and weight must have the same dtype: {input.dtype}, {weight.dtype}")
    if weight.rank > 1:
        raise q.fail(f"the weight must have at most one dimension, not {weight.rank}")
    if weight.rank:
        channels = input.shape[1] if input.rank > 1 else 1
        one = eq(weight.shape[0], 1)
        q.require(
            or_(one, eq(weight.shape[0], channels)) if input.rank else one,
            "the weight has one element, or one for each channel",
        )
    return unary(same)(q, input)


def _glu(q: ShapeQuery, input: Meta, dim: int = -1) -> Meta:
    if not input.shape:
        raise q.fail("a tensor without dimensions has no halves")
    dim = q.dim(dim, input.rank)
    size = input.shape[dim]
    q.require(eq(size % 2, 0), "the halved dimension must have an even size")
    shape = (*input.shape[:dim], size // 2, *input.shape[dim + 1 :])
    half = input.viewed(shape, input.strides)
    return input.like(shape, layout=pointwise_layout(q, shape, (half, half)))


def _contiguous(q: ShapeQuery, input: Meta, *_: Any, **__: Any) -> Meta:
    return input.like()


_NN = "torch.nn.functional."
ROWS = (
    *(
        Op(name, (_NN + name,), on_demand(unary(same), place), OpKind.POINTWISE)
        for name, place in _ON_DEMAND.items()
    ),
    *(pointwise_row(name, unary(same)) for name in _PLAIN),
    *(
        Op(name, (_NN + name,), unary(floating), OpKind.POINTWISE)
        for name in ("softsign", "tanhshrink")
    ),
    Op("rrelu", (_NN + "rrelu",), on_demand(_contiguous, 4), OpKind.POINTWISE),
    pointwise_row("rrelu", _contiguous),
    Op("prelu", everywhere("prelu"), _prelu, OpKind.POINTWISE),
    Op("glu", everywhere("glu"), _glu, OpKind.POINTWISE),
    Op("log_sigmoid", everywhere("log_sigmoid", "logsigmoid"), _contiguous, OpKind.POINTWISE),
)
