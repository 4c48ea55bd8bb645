"""Comparisons, tests and logic: results are booleans; and operators that choose by a boolean."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.ops.broadcast import broadcast
from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind
from anyshape.ops.promotion import result_type
from anyshape.ops.rules.data_dependent import where_true
from anyshape.ops.rules.pointwise import (
    Operand,
    binary,
    boolean,
    everywhere,
    fresh,
    pointwise_row,
    unary,
)
from anyshape.ops.shape_query import ShapeQuery

_COMPARISONS = {
    "eq": "__eq__",
    "ne not_equal": "__ne__",
    "lt less": "__lt__",
    "le less_equal": "__le__",
    "gt greater": "__gt__",
    "ge greater_equal": "__ge__",
    "logical_and": "",
    "logical_or": "",
    "logical_xor": "",
}

_TESTS = ("isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "logical_not", "signbit")


def _compare(name: str, *aliases: str, method: str) -> Op:
    return pointwise_row(name, binary(boolean), *aliases, methods=method.split())


def _isclose(
    q: ShapeQuery,
    input: Meta,
    other: Meta,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Meta:
    if input.dtype != other.dtype:
        raise q.fail(f"both tensors must have the same dtype, not {input.dtype} and {other.dtype}")
    return fresh(q, [input, other], torch.bool)


def _isin(q: ShapeQuery, elements: Operand, test_elements: Operand, **_: Any) -> Meta:
    if isinstance(elements, Meta):
        return elements.like(dtype=torch.bool)
    if not isinstance(test_elements, Meta):
        raise q.fail("at least one of `elements` and `test_elements` must be a tensor")
    return test_elements.like((), torch.bool)


def _choose(q: ShapeQuery, condition: Meta, input: Operand, other: Operand) -> Meta:
    if condition.dtype not in (torch.bool, torch.uint8):
        raise q.fail(f"the condition must be boolean, not {condition.dtype}")
    operands = (condition, input, other)
    tensors = [operand for operand in operands if isinstance(operand, Meta)]
    return fresh(q, tensors, result_type((input, other)))


def _where(
    q: ShapeQuery, condition: Meta, input: Operand | None = None, other: Operand | None = None
) -> Meta | tuple[Meta, ...]:
    if input is None or other is None:
        return where_true(q, condition)
    return _choose(q, condition, input, other)


def _where_method(q: ShapeQuery, input: Meta, condition: Meta, other: Operand) -> Meta:
    return _choose(q, condition, input, other)


def _masked_fill(q: ShapeQuery, input: Meta, mask: Meta, value: Operand) -> Meta:
    if mask.dtype is not torch.bool:
        raise q.fail(f"the mask must be boolean, not {mask.dtype}")
    if isinstance(value, Meta) and value.shape:
        raise q.fail("the value must be a number or a tensor without dimensions")
    return input.like(broadcast(q, [input.shape, mask.shape]))


ROWS = (
    *(_compare(*names.split(), method=method) for names, method in _COMPARISONS.items()),
    *(pointwise_row(name, unary(boolean)) for name in _TESTS),
    Op("isclose", everywhere("isclose"), _isclose, OpKind.POINTWISE),
    Op("isin", everywhere("isin"), _isin, OpKind.CALL_OUT),
    Op("where", ("torch.where",), _where, OpKind.POINTWISE),
    Op("where", ("torch.Tensor.where",), _where_method, OpKind.POINTWISE),
    pointwise_row("masked_fill", _masked_fill),
)
