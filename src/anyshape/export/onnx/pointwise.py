"""Operators of one element at a time."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from anyshape.export.onnx.rows import N, NotMapped, Row, W, is_node


def binary(kind: str) -> Row:
    def row(w: W, node: N, input: Any, other: Any) -> str:
        return _of_two(w, node, kind, input, other)

    return row


def _of_two(w: W, node: N, kind: str, a: Any, b: Any, factor: Any = 1) -> str:
    """Of elements as the result has them. The second is multiplied first."""
    dtype = w.dtype(node)
    right = w.name(b, dtype)
    if factor != 1:
        right = w.add("Mul", [right, w.name(factor, dtype)])
    return w.add(kind, [w.name(a, dtype), right])


def with_factor(kind: str) -> Row:
    """`add` and `sub`."""

    def row(w: W, node: N, input: Any, other: Any, alpha: Any) -> str:
        return _of_two(w, node, kind, input, other, alpha)

    return row


def subtracted_from(w: W, node: N, input: Any, other: Any, alpha: Any) -> str:
    return _of_two(w, node, "Sub", other, input, alpha)


def swap_operands(row: Row) -> Row:
    def swapped(w: W, node: N, input: Any, other: Any) -> str:
        return row(w, node, other, input)

    return swapped


def true_divide(w: W, node: N, input: Any, other: Any) -> str:
    return divide(w, node, input, other, None)


def divide(w: W, node: N, input: Any, other: Any, rounding_mode: str | None) -> str:
    if rounding_mode == "floor":
        return floor_divide(w, node, input, other)
    dtype = w.dtype(node)
    found = w.add("Div", [w.name(input, dtype), w.name(other, dtype)])
    if rounding_mode is None or not dtype.is_floating_point:
        return found  # integers are divided towards zero there
    # Towards zero: the sign, times the floor of what is left.
    floor = w.add("Floor", [w.add("Abs", [found])])
    return w.add("Mul", [w.add("Sign", [found]), floor])


def floor_divide(w: W, node: N, input: Any, other: Any) -> str:
    dtype = w.dtype(node)
    left, right = w.name(input, dtype), w.name(other, dtype)
    if dtype.is_floating_point:
        return w.add("Floor", [w.add("Div", [left, right])])
    # Integers are divided towards zero there: only what divides is taken.
    rest = w.add("Mod", [left, right])
    return w.add("Div", [w.add("Sub", [left, rest]), right])


def remainder(w: W, node: N, input: Any, other: Any) -> str:
    dtype = w.dtype(node)
    left, right = w.name(input, dtype), w.name(other, dtype)
    if not dtype.is_floating_point:
        return w.add("Mod", [left, right])
    whole = w.add("Floor", [w.add("Div", [left, right])])
    return w.add("Sub", [left, w.add("Mul", [whole, right])])


def power(w: W, node: N, input: Any, exponent: Any) -> str:
    return _of_two(w, node, "Pow", input, exponent)


def product(w: W, node: N, input: Any, mat2: Any) -> str:
    """`mm` and `bmm`."""
    return _of_two(w, node, "MatMul", input, mat2)


def compare(kind: str, negated: bool = False) -> Row:
    def row(w: W, node: N, input: Any, other: Any) -> str:
        dtype = torch.result_type(_operand(w.example(input)), _operand(w.example(other)))
        if dtype is torch.bool and kind != "Equal":
            dtype = torch.int64
        found = w.add(kind, [w.name(input, dtype), w.name(other, dtype)])
        return w.add("Not", [found]) if negated else found

    return row


def _operand(value: Any) -> Any:
    return value if isinstance(value, torch.Tensor | int | float | bool) else torch.tensor(value)


def unary(kind: str, **attributes: Any) -> Row:
    def row(w: W, node: N, input: Any) -> str:
        return w.add(kind, [w.name(input, w.dtype(node))], **attributes)

    return row


def check(kind: str) -> Row:
    """What is true or false of an element."""

    def row(w: W, node: N, input: Any) -> str:
        return w.add(kind, [w.name(input)])

    return row


def exponential(kind: str) -> Row:
    """An activation with one number."""

    def row(w: W, node: N, input: Any, alpha: Any) -> str:
        return _with_number(w, node, kind, input, alpha)

    return row


def leaky_relu(w: W, node: N, input: Any, negative_slope: Any) -> str:
    return _with_number(w, node, "LeakyRelu", input, negative_slope)


def _with_number(w: W, node: N, kind: str, x: Any, number: Any) -> str:
    if is_node(number):
        raise NotMapped(f"{kind} with computed numbers, or in place")
    return w.add(kind, [w.name(x, w.dtype(node))], alpha=float(number))


def logic(kind: str) -> Row:
    """Of truth values, or of the bits of integers."""

    def row(w: W, node: N, input: Any, other: Any) -> str:
        name = kind if w.dtype(node) is torch.bool else f"Bitwise{kind}"
        return _of_two(w, node, name, input, other)

    return row


def logical(kind: str) -> Row:
    def row(w: W, node: N, input: Any, other: Any) -> str:
        return w.add(kind, [w.name(input, torch.bool), w.name(other, torch.bool)])

    return row


def invert(w: W, node: N, input: Any) -> str:
    return w.add("Not" if w.dtype(input) is torch.bool else "BitwiseNot", [w.name(input)])


def logical_not(w: W, node: N, input: Any) -> str:
    return w.add("Not", [w.name(input, torch.bool)])


def square(w: W, node: N, input: Any) -> str:
    return w.add("Mul", [w.name(input), w.name(input)])


def rsqrt(w: W, node: N, input: Any) -> str:
    return w.add("Reciprocal", [w.add("Sqrt", [w.name(input, w.dtype(node))])])


def log1p(w: W, node: N, input: Any) -> str:
    dtype = w.dtype(node)
    return w.add("Log", [w.add("Add", [w.name(input, dtype), w.name(1, dtype)])])


def gelu(w: W, node: N, input: Any, approximate: str) -> str:
    dtype, name = w.dtype(node), w.name(input)

    def number(value: float) -> str:
        return w.name(value, dtype)

    if approximate == "none":
        inner = w.add("Erf", [w.add("Div", [name, number(math.sqrt(2.0))])])
    else:
        cube = w.add("Mul", [w.add("Mul", [name, name]), name])
        inner = w.add("Add", [name, w.add("Mul", [cube, number(0.044715)])])
        inner = w.add("Tanh", [w.add("Mul", [inner, number(math.sqrt(2.0 / math.pi))])])
    half = w.add("Mul", [name, number(0.5)])
    return w.add("Mul", [half, w.add("Add", [inner, number(1.0)])])


def silu(w: W, node: N, input: Any) -> str:
    return w.add("Mul", [w.name(input), w.add("Sigmoid", [w.name(input)])])


def softplus(w: W, node: N, input: Any, beta: Any, threshold: Any) -> str:
    if beta != 1:
        raise NotMapped("softplus with a factor")
    # Beyond the threshold torch gives the number itself, which is what the formula rounds to.
    return w.add("Softplus", [w.name(input)])


def where(w: W, node: N, condition: Any, input: Any, other: Any) -> str:
    if input is None or other is None:
        raise NotMapped("`where` with a condition alone")
    chosen = [w.name(each, w.dtype(node)) for each in (input, other)]
    return w.add("Where", [w.name(condition, torch.bool), *chosen])


def masked_fill(w: W, node: N, input: Any, mask: Any, value: Any) -> str:
    return w.add("Where", [w.name(mask), w.name(value, w.dtype(node)), w.name(input)])


def clamp(w: W, node: N, input: Any, min: Any, max: Any) -> str:
    dtype = w.dtype(node)
    found = w.name(input, dtype)
    if min is not None:
        found = w.add("Max", [found, w.name(min, dtype)])
    return found if max is None else w.add("Min", [found, w.name(max, dtype)])


def clamp_min(w: W, node: N, input: Any, min: Any) -> str:
    return clamp(w, node, input, min, None)


def clamp_max(w: W, node: N, input: Any, max: Any) -> str:
    return clamp(w, node, input, None, max)


def hardtanh(w: W, node: N, input: Any, min_val: Any, max_val: Any) -> str:
    return clamp(w, node, input, min_val, max_val)


def relu6(w: W, node: N, input: Any) -> str:
    return clamp(w, node, input, 0.0, 6.0)


def extremes(kind: str) -> Row:
    """Of numbers that a program computes with."""
    return lambda w, node, *values: w.add(kind, [w.name(each, w.dtype(node)) for each in values])


def cast(w: W, node: N, input: Any, **_: Any) -> str:
    """To what the example has: whatever has said so."""
    return w.name(input, w.dtype(node))


def same(w: W, node: N, input: Any, **_: Any) -> str:
    return w.name(input)


def dropout(w: W, node: N, input: Any, p: Any, training: bool, train: bool | None) -> str:
    if (training if train is None else train) and p:
        raise NotMapped("dropout in training")
    return w.name(input)


_KINDS: Final = (
    *("Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Abs", "Neg", "Erf", "Sin", "Cos", "Tan"),
    *("Asin", "Acos", "Atan", "Sinh", "Cosh", "Floor", "Ceil", "Round", "Sign", "Reciprocal"),
    *("Softsign", "Mish"),
)
UNARY: Final[dict[str, Row]] = {kind.lower(): unary(kind) for kind in _KINDS} | {
    "isnan": check("IsNaN"),
    "isinf": check("IsInf"),
    "selu": unary("Selu"),
    "hardswish": unary("HardSwish"),
    "hardsigmoid": unary("HardSigmoid", alpha=1 / 6, beta=0.5),
    "square": square,
    "rsqrt": rsqrt,
    "log1p": log1p,
}
