"""Operators of one element at a time."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from anyshape.export.onnx.rows import N, NotMapped, Row, W, is_node


def binary(kind: str) -> Row:
    def row(w: W, node: N, a: Any, b: Any, *, alpha: Any = 1) -> str:
        dtype = w.dtype(node)
        right = w.name(b, dtype)
        if alpha != 1:
            right = w.add("Mul", [right, w.name(alpha, dtype)])
        return w.add(kind, [w.name(a, dtype), right])

    return row


def swap_operands(row: Row) -> Row:
    return lambda w, node, a, b: row(w, node, b, a)


def divide(w: W, node: N, a: Any, b: Any, *, rounding_mode: str | None = None) -> str:
    if rounding_mode == "floor":
        return floor_divide(w, node, a, b)
    dtype = w.dtype(node)
    found = w.add("Div", [w.name(a, dtype), w.name(b, dtype)])
    if rounding_mode is None or not dtype.is_floating_point:
        return found  # integers are divided towards zero there
    # Towards zero: the sign, times the floor of what is left.
    floor = w.add("Floor", [w.add("Abs", [found])])
    return w.add("Mul", [w.add("Sign", [found]), floor])


def floor_divide(w: W, node: N, a: Any, b: Any) -> str:
    dtype = w.dtype(node)
    left, right = w.name(a, dtype), w.name(b, dtype)
    if dtype.is_floating_point:
        return w.add("Floor", [w.add("Div", [left, right])])
    # Integers are divided towards zero there: only what divides is taken.
    rest = w.add("Mod", [left, right])
    return w.add("Div", [w.add("Sub", [left, rest]), right])


def remainder(w: W, node: N, a: Any, b: Any) -> str:
    dtype = w.dtype(node)
    left, right = w.name(a, dtype), w.name(b, dtype)
    if not dtype.is_floating_point:
        return w.add("Mod", [left, right])
    whole = w.add("Floor", [w.add("Div", [left, right])])
    return w.add("Sub", [left, w.add("Mul", [whole, right])])


def power(w: W, node: N, a: Any, b: Any) -> str:
    return binary("Pow")(w, node, a, b)


def compare(kind: str, negated: bool = False) -> Row:
    def row(w: W, node: N, a: Any, b: Any) -> str:
        dtype = torch.result_type(_operand(w.example(a)), _operand(w.example(b)))
        if dtype is torch.bool and kind != "Equal":
            dtype = torch.int64
        found = w.add(kind, [w.name(a, dtype), w.name(b, dtype)])
        return w.add("Not", [found]) if negated else found

    return row


def _operand(value: Any) -> Any:
    return value if isinstance(value, torch.Tensor | int | float | bool) else torch.tensor(value)


def unary(kind: str, **attributes: Any) -> Row:
    def row(w: W, node: N, x: Any, inplace: bool = False) -> str:
        if inplace:
            in_place_is_safe(x, kind)
        return w.add(kind, [w.name(x, w.dtype(node))], **attributes)

    return row


def with_number(kind: str, attribute: str, default: float) -> Row:
    """An activation with one number."""

    def row(
        w: W, node: N, x: Any, number: Any = default, inplace: bool = False, **named: Any
    ) -> str:
        given = next(iter(named.values()), number)
        if inplace or is_node(given) or len(named) > 1:
            raise NotMapped(f"{kind} with computed numbers, or in place")
        return w.add(kind, [w.name(x, w.dtype(node))], **{attribute: float(given)})

    return row


def logic(kind: str) -> Row:
    """Of truth values, or of the bits of integers."""

    def row(w: W, node: N, a: Any, b: Any) -> str:
        dtype = w.dtype(node)
        name = kind if dtype is torch.bool else f"Bitwise{kind}"
        return w.add(name, [w.name(a, dtype), w.name(b, dtype)])

    return row


def logical(kind: str) -> Row:
    def row(w: W, node: N, a: Any, b: Any) -> str:
        return w.add(kind, [w.name(a, torch.bool), w.name(b, torch.bool)])

    return row


def invert(w: W, node: N, x: Any) -> str:
    return w.add("Not" if w.dtype(x) is torch.bool else "BitwiseNot", [w.name(x)])


def logical_not(w: W, node: N, x: Any) -> str:
    return w.add("Not", [w.name(x, torch.bool)])


def gelu(w: W, node: N, x: Any, approximate: str = "none") -> str:
    dtype, name = w.dtype(node), w.name(x)

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


def silu(w: W, node: N, x: Any, inplace: bool = False) -> str:
    if inplace:
        in_place_is_safe(x, "silu")
    return w.add("Mul", [w.name(x), w.add("Sigmoid", [w.name(x)])])


def softplus(w: W, node: N, x: Any, beta: Any = 1, threshold: Any = 20) -> str:
    if beta != 1:
        raise NotMapped("softplus with a factor")
    # Beyond the threshold torch gives the number itself, which is what the formula rounds to.
    return w.add("Softplus", [w.name(x)])


def where(w: W, node: N, condition: Any, a: Any, b: Any) -> str:
    dtype = w.dtype(node)
    return w.add("Where", [w.name(condition, torch.bool), w.name(a, dtype), w.name(b, dtype)])


def masked_fill(w: W, node: N, x: Any, mask: Any, value: Any) -> str:
    return w.add("Where", [w.name(mask), w.name(value, w.dtype(node)), w.name(x)])


def clamp(w: W, node: N, x: Any, min: Any = None, max: Any = None) -> str:
    dtype = w.dtype(node)
    found = w.name(x, dtype)
    if min is not None:
        found = w.add("Max", [found, w.name(min, dtype)])
    return found if max is None else w.add("Min", [found, w.name(max, dtype)])


def clamped(low: float, high: float) -> Row:
    """An activation that is a clamp."""

    def row(w: W, node: N, x: Any, *ends: Any, inplace: bool = False, **named: Any) -> str:
        *numbers, last = (*ends, False) if not ends or not isinstance(ends[-1], bool) else ends
        least, most = (*numbers, low, high)[:2] if len(numbers) != 1 else (numbers[0], high)
        if inplace or last:
            in_place_is_safe(x, node.target)
        return clamp(w, node, x, named.get("min_val", least), named.get("max_val", most))

    return row


def extremes(kind: str) -> Row:
    """Of numbers that a program computes with."""
    return lambda w, node, *values: w.add(kind, [w.name(each, w.dtype(node)) for each in values])


def cast(w: W, node: N, x: Any, *args: Any, **kwargs: Any) -> str:
    return w.name(x, w.dtype(node))


def same(w: W, node: N, x: Any, *args: Any, **kwargs: Any) -> str:
    return w.name(x)


def dropout(w: W, node: N, x: Any, p: Any = 0.5, training: bool = True, *args: Any) -> str:
    if training and p:
        raise NotMapped("dropout in training")
    return w.name(x)


# -- in place --------------------------------------------------------------------------------------


#: Results that are memory of their own: to change one is to make another.
_FRESH: Final = ("linear", "conv", "norm", "add", "mul", "sub", "matmul", "truediv", "relu")


def in_place_is_safe(x: Any, name: object) -> None:
    """Nobody sees the change but who gets the result."""
    own = (
        is_node(x)
        and x.op in ("call_function", "call_method")
        and any(word in x.name for word in _FRESH)
    )
    if not own or len(x.users) > 1:
        raise NotMapped(f"{name}, which changes a value that is used elsewhere")


def in_place(row: Row) -> Row:
    def checked(w: W, node: N, x: Any, *args: Any) -> str:
        in_place_is_safe(x, node.target)
        return row(w, node, x, *args)

    return checked


_KINDS: Final = (
    *("Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Abs", "Neg", "Erf", "Sin", "Cos", "Tan"),
    *("Asin", "Acos", "Atan", "Sinh", "Cosh", "Floor", "Ceil", "Round", "Sign", "Reciprocal"),
    *("Softsign", "Mish", "IsNaN", "IsInf"),
)
UNARY: Final[dict[str, Row]] = {kind.lower(): unary(kind) for kind in _KINDS} | {
    "isnan": lambda w, node, x: w.add("IsNaN", [w.name(x)]),
    "isinf": lambda w, node, x: w.add("IsInf", [w.name(x)]),
    "selu": unary("Selu"),
    "hardswish": unary("HardSwish"),
    "hardsigmoid": unary("HardSigmoid", alpha=1 / 6, beta=0.5),
    "square": lambda w, node, x: w.add("Mul", [w.name(x), w.name(x)]),
    "rsqrt": lambda w, node, x: w.add("Reciprocal", [w.add("Sqrt", [w.name(x, w.dtype(node))])]),
    "log1p": lambda w, node, x: w.add(
        "Log", [w.add("Add", [w.name(x, w.dtype(node)), w.name(1, w.dtype(node))])]
    ),
}
