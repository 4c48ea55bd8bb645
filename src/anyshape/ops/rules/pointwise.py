"""Pointwise operators: broadcast, promote, keep the layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from anyshape.ops.broadcast import broadcast, pointwise_layout
from anyshape.ops.meta import Meta
from anyshape.ops.op import Lowering, Op, Rule, in_place_names, names_of
from anyshape.ops.promotion import Number, floating, real, result_type
from anyshape.ops.questions import Questions

DtypeRule = Callable[[torch.dtype], torch.dtype]


def same(dtype: torch.dtype) -> torch.dtype:
    return dtype


def boolean(dtype: torch.dtype) -> torch.dtype:
    return torch.bool


def elementwise(q: Questions, operands: tuple[Meta | Number, ...], dtype: DtypeRule) -> Meta:
    """The result of computing element by element on broadcast operands."""
    tensors = [operand for operand in operands if isinstance(operand, Meta)]
    if not tensors:
        raise q.fail("at least one tensor is needed")
    found = dtype(tensors[0].dtype if len(operands) == 1 else result_type(operands))
    shape = broadcast(q, [tensor.shape for tensor in tensors])
    layout = pointwise_layout(q, shape, tensors)
    # A tensor without dimensions may live on the CPU; the others decide the device.
    device = next((t.device for t in tensors if t.shape), tensors[0].device)
    return Meta(shape, found, layout, device)


def _unary(dtype: DtypeRule) -> Rule:
    def rule(q: Questions, input: Meta) -> Meta:
        return elementwise(q, (input,), dtype)

    return rule


def _binary(dtype: DtypeRule) -> Rule:
    def rule(q: Questions, input: Meta | Number, other: Meta | Number, **_: Any) -> Meta:
        return elementwise(q, (input, other), dtype)

    return rule


def _row(name: str, rule: Rule, also: tuple[str, ...] = ()) -> Op:
    return Op(
        name, names_of(name, also), rule, Lowering.POINTWISE, in_place=in_place_names(name)
    )


_METHODS = "torch.Tensor."
ROWS = (
    *(_row(name, _unary(floating)) for name in ("sin", "cos", "exp", "tanh", "sqrt")),
    *(_row(name, _unary(same)) for name in ("neg", "relu")),
    _row("abs", _unary(real)),
    _row("add", _binary(same), (_METHODS + "__add__", _METHODS + "__radd__")),
    _row("mul", _binary(same), (_METHODS + "__mul__", _METHODS + "__rmul__")),
    _row("lt", _binary(boolean), (_METHODS + "__lt__",)),
)
