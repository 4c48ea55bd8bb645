"""Activation functions: the dtype and the layout of their input."""

from __future__ import annotations

from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.meta import Meta
from anyshape.ops.op import DRAWS, PURE, Op, OpKind, Rule
from anyshape.ops.promotion import floating
from anyshape.ops.rules.pointwise import everywhere, pointwise_row, same, unary
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import eq, or_

#: What they take behind their input, as operators and in `torch.nn.functional` before `inplace`.
_PARAMETERS = {
    "celu": "alpha=1.0",
    "elu": "alpha=1.0, scale=1, input_scale=1",
    "gelu": "*, approximate='none'",
    "hardshrink": "lambd=0.5",
    "hardtanh": "min_val=-1.0, max_val=1.0",
    "leaky_relu": "negative_slope=0.01",
    "rrelu": "lower=0.125, upper=1 / 3, training=False, generator=None",
    "rrelu_with_noise": "noise, lower=0.125, upper=1 / 3, training=False, generator=None",
    "softplus": "beta=1.0, threshold=20.0",
    "softshrink": "lambd=0.5",
    "threshold": "threshold, value",
}
_FUNCTIONAL_PARAMETERS = {
    **_PARAMETERS,
    "_threshold": "threshold, value",
    "elu": "alpha=1.0",
    "rrelu": "lower=0.125, upper=1 / 3, training=False",
}

#: They draw their slopes.
_RANDOM = frozenset({"rrelu", "rrelu_with_noise"})

#: Functions of `torch.nn.functional` that work in place on demand.
_ON_DEMAND = (
    "_threshold", "celu", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish",
    "relu", "relu6", "selu", "silu", "threshold",
)  # fmt: skip

#: The operators themselves; those that never work in place are among them.
_PLAIN = (
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "mish", "relu",
    "relu6", "rrelu_with_noise", "selu", "silu", "softplus", "softshrink", "threshold",
)  # fmt: skip


def _plain(name: str, rule: Rule) -> Op:
    row = pointwise_row(name, rule, signature=_signature(_PARAMETERS.get(name)))
    return replace(row, effects=DRAWS) if name in _RANDOM else row


def _functional(name: str, rule: Rule) -> Op:
    signature = _signature(_FUNCTIONAL_PARAMETERS.get(name), "inplace=False")
    effects = DRAWS if name in _RANDOM else PURE
    names = (_NN + name,)
    return Op(name, names, rule, OpKind.POINTWISE, signature=signature, effects=effects)


def _signature(*parameters: str | None) -> str:
    return ", ".join(("input", *filter(None, parameters)))


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


def _contiguous(q: ShapeQuery, input: Meta) -> Meta:
    return input.like()


_NN = "torch.nn.functional."
ROWS = (
    *(_functional(name, unary(same)) for name in _ON_DEMAND),
    *(_plain(name, unary(same)) for name in _PLAIN),
    *(
        Op(name, (_NN + name,), unary(floating), OpKind.POINTWISE)
        for name in ("softsign", "tanhshrink")
    ),
    _functional("rrelu", _contiguous),
    _plain("rrelu", _contiguous),
    Op("prelu", everywhere("prelu"), _prelu, OpKind.POINTWISE),
    Op("glu", everywhere("glu"), _glu, OpKind.POINTWISE),
    Op("log_sigmoid", everywhere("log_sigmoid", "logsigmoid"), _contiguous, OpKind.POINTWISE),
)
