"""Comparisons, tests and logic: results are booleans; and operators that choose by a boolean."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.ops.broadcast import broadcast
from anyshape.ops.elementwise import (
    MetaOperand,
    binary,
    boolean,
    everywhere,
    fresh,
    pointwise_row,
    unary,
)
from anyshape.ops.families.data_dependent import where_true
from anyshape.ops.gradient import Gradients, Term
from anyshape.ops.lowering.pointwise_builder import Operand, chosen, common_dtype, elementwise
from anyshape.ops.lowering.scalars import Compute, constant_like, is_nonzero, op, test
from anyshape.ops.lowering.values import Lowering, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import Op, OpKind, gradient, lower, moving, onnx, onnx_rows
from anyshape.ops.promotion import result_type
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


def _isin(q: ShapeQuery, elements: MetaOperand, test_elements: MetaOperand, **_: Any) -> Meta:
    if isinstance(elements, Meta):
        return elements.like(dtype=torch.bool)
    if not isinstance(test_elements, Meta):
        raise q.fail("at least one of `elements` and `test_elements` must be a tensor")
    return test_elements.like((), torch.bool)


def _choose(q: ShapeQuery, condition: Meta, input: MetaOperand, other: MetaOperand) -> Meta:
    if condition.dtype not in (torch.bool, torch.uint8):
        raise q.fail(f"the condition must be boolean, not {condition.dtype}")
    operands = (condition, input, other)
    tensors = [operand for operand in operands if isinstance(operand, Meta)]
    return fresh(q, tensors, result_type((input, other)))


def _where(
    q: ShapeQuery,
    condition: Meta,
    input: MetaOperand | None = None,
    other: MetaOperand | None = None,
) -> Meta | tuple[Meta, ...]:
    if input is None or other is None:
        return where_true(q, condition)
    return _choose(q, condition, input, other)


def _where_method(q: ShapeQuery, input: Meta, condition: Meta, other: MetaOperand) -> Meta:
    return _choose(q, condition, input, other)


def _masked_fill(q: ShapeQuery, input: Meta, mask: Meta, value: MetaOperand) -> Meta:
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


# -- native code ----------------------------------------------------------------------------------


@lower("isreal")
def lower_isreal(c: Lowering, input: Value) -> Value:
    yes = expr.constant(True, "b1")
    return elementwise(c, lambda _: yes, input, takes=input.dtype, gives="b1", cost=0)


@lower("isclose")
def lower_isclose(
    c: Lowering,
    input: Value,
    other: Value,
    rtol: Any,
    atol: Any,
    equal_nan: bool,
) -> Value:
    if input.dtype not in FLOATS or input.dtype in HALVES or input.dtype != other.dtype:
        raise NotLowered("rounded distances")
    if not isinstance(rtol, int | float) or not isinstance(atol, int | float):
        raise NotLowered("a tolerance that is not a constant")

    def compute(a: Scalar, b: Scalar) -> Scalar:
        close = test("eq", a, b)
        if equal_nan:
            close = test("or", close, test("and", test("isnan", a), test("isnan", b)))
        if rtol == 0 and atol == 0:
            return close
        allowed = op("add", constant_like(atol, a), op("abs", op("mul", constant_like(rtol, b), b)))
        away = op("abs", op("sub", a, b))
        near = test("and", test("isfinite", away), test("le", away, allowed))
        return test("or", close, near)

    return elementwise(c, compute, input, other, takes=input.dtype, gives="b1", cost=6)


@lower("logical_not")
def lower_logical_not(c: Lowering, input: Value) -> Value:
    return elementwise(
        c, lambda x: test("not", is_nonzero(x)), input, takes=input.dtype, gives="b1"
    )


def lower_float_test(compute: Compute, of_integers: bool, c: Lowering, input: Value) -> Value:
    """A question about floats, with the answer for integers."""
    if input.dtype not in FLOATS:
        answer = expr.constant(of_integers, "b1")
        return elementwise(c, lambda _: answer, input, takes=input.dtype, gives="b1", cost=0)
    return elementwise(c, compute, input, takes=input.dtype, gives="b1")


lower("isnan")(partial(lower_float_test, lambda x: test("isnan", x), False))
lower("isinf")(partial(lower_float_test, lambda x: test("isinf", x), False))
lower("isfinite")(partial(lower_float_test, lambda x: test("isfinite", x), True))
lower("isposinf")(
    partial(lower_float_test, lambda x: test("eq", x, constant_like(math.inf, x)), False)
)
lower("isneginf")(
    partial(lower_float_test, lambda x: test("eq", x, constant_like(-math.inf, x)), False)
)


@lower("signbit")
def lower_signbit(c: Lowering, input: Value) -> Value:
    if input.dtype in ("b1", "u8"):
        none = expr.constant(False, "b1")
        return elementwise(c, lambda _: none, input, takes=input.dtype, gives="b1", cost=0)
    if input.dtype in FLOATS:
        return elementwise(c, lambda x: test("signbit", x), input, takes=input.dtype, gives="b1")
    return elementwise(
        c, lambda x: test("lt", x, constant_like(0, x)), input, takes=input.dtype, gives="b1"
    )


# -- two operands ----------------------------------------------------------------------------------


def lower_comparison(name: str, c: Lowering, input: Operand, other: Operand) -> Value:
    takes = common_dtype((input, other))
    return elementwise(
        c, lambda a, b: test(name, a, b), input, other, takes=takes, gives="b1", wraps=True
    )


for _name in ["eq", "ne", "lt", "le", "gt", "ge"]:
    lower(_name)(partial(lower_comparison, _name))


def lower_logical(bits: str, c: Lowering, input: Value, other: Value) -> Value:
    takes = common_dtype((input, other))

    def compute(a: Scalar, b: Scalar) -> Scalar:
        return test(bits, is_nonzero(a), is_nonzero(b))

    return elementwise(c, compute, input, other, takes=takes, gives="b1")


for _name in ["and", "or", "xor"]:
    lower(f"logical_{_name}")(partial(lower_logical, _name))


@lower(*moving("where"))
def lower_where(c: Lowering, condition: Value, input: Operand, other: Operand) -> Value:
    if not isinstance(condition, Value) or condition.dtype not in ("b1", "u8"):
        raise NotLowered("the condition is no tensor of booleans")
    return chosen(c, condition, input, other, common_dtype((input, other)))


@lower("masked_fill")
def lower_masked_fill(c: Lowering, input: Value, mask: Value, value: Operand) -> Value:
    if mask.dtype != "b1":
        raise NotLowered("the mask is no tensor of booleans")
    return chosen(c, mask, value, input, input.dtype)


# -- gradients ------------------------------------------------------------------------------------


@gradient("where")
def gradient_where(grad: Term, condition: Term) -> Gradients:
    return {"input": grad.where(condition, 0.0), "other": grad.masked_fill(condition, 0.0)}


@gradient("masked_fill")
def gradient_masked_fill(grad: Term, mask: Term, value: Any) -> Gradients:
    own: Gradients = {"input": grad.masked_fill(mask, 0.0)}
    if isinstance(value, Term):
        own["value"] = grad.where(mask, 0.0).sum()
    return own


# -- ONNX -----------------------------------------------------------------------------------------


def onnx_compare(kind: str, negated: bool, w: Writer, node: Node, input: Any, other: Any) -> str:
    dtype = torch.result_type(_operand(w.example(input)), _operand(w.example(other)))
    if dtype is torch.bool and kind != "Equal":
        dtype = torch.int64
    found = w.add(kind, [w.name(input, dtype), w.name(other, dtype)])
    return w.add("Not", [found]) if negated else found


def _operand(value: Any) -> Any:
    return value if isinstance(value, torch.Tensor | int | float | bool) else torch.tensor(value)


def onnx_check(kind: str, w: Writer, node: Node, input: Any) -> str:
    """What is true or false of an element."""
    return w.add(kind, [w.name(input)])


def onnx_logical(kind: str, w: Writer, node: Node, input: Any, other: Any) -> str:
    return w.add(kind, [w.name(input, torch.bool), w.name(other, torch.bool)])


@onnx("logical_not")
def onnx_logical_not(w: Writer, node: Node, input: Any) -> str:
    return w.add("Not", [w.name(input, torch.bool)])


@onnx("where")
def onnx_where(w: Writer, node: Node, condition: Any, input: Any, other: Any) -> str:
    if input is None or other is None:
        raise NotMapped("`where` with a condition alone")
    chosen = [w.name(each, w.dtype(node)) for each in (input, other)]
    return w.add("Where", [w.name(condition, torch.bool), *chosen])


@onnx("masked_fill")
def onnx_masked_fill(w: Writer, node: Node, input: Any, mask: Any, value: Any) -> str:
    return w.add("Where", [w.name(mask), w.name(value, w.dtype(node)), w.name(input)])


onnx_rows({"isnan": partial(onnx_check, "IsNaN"), "isinf": partial(onnx_check, "IsInf")})

onnx_rows(
    {
        "lt": partial(onnx_compare, "Less", False),
        "le": partial(onnx_compare, "LessOrEqual", False),
        "gt": partial(onnx_compare, "Greater", False),
        "ge": partial(onnx_compare, "GreaterOrEqual", False),
        "eq": partial(onnx_compare, "Equal", False),
        "ne": partial(onnx_compare, "Equal", True),
        "logical_and": partial(onnx_logical, "And"),
        "logical_or": partial(onnx_logical, "Or"),
        "logical_xor": partial(onnx_logical, "Xor"),
    }
)
