"""Losses of values against values: of each element, then reduced.

Torch makes the loss of each element a tensor before it reduces it: it is rounded there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.activations import log_of_sigmoid, of_float
from anyshape.graph.lowerings.functions import x_log_y
from anyshape.graph.lowerings.pointwise import constant_like, op, test, true_divide, where
from anyshape.graph.lowerings.reductions import as_dtype, mean_of, rounded, sum_
from anyshape.graph.lowerings.table import row
from anyshape.graph.pointwise_builder import common_dtype, elementwise, operation
from anyshape.graph.values import NotLowered, Value
from anyshape.loops.expr import FLOATS, HALVES, Scalar

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def apply_reduction(c: Lowering, losses: Value, how: str) -> Value:
    """All losses, their sum or their mean."""
    dims = list(range(len(losses.sizes)))
    if how == "none":
        return losses
    if how == "sum":
        return sum_(c, losses, None, False, dtype=None)
    if how != "mean" or losses.dtype not in FLOATS:
        raise NotLowered(f"the reduction {how}")
    return rounded(c, mean_of(c, losses, dims, False), losses.dtype)


def of_two(c: Lowering, input: Value, target: Value, compute: Callable[..., Scalar]) -> Value:
    """A loss of two tensors, of which each counts for the dtype."""
    if input.dtype not in FLOATS or target.dtype not in FLOATS:
        raise NotLowered("a loss of integers")
    dtype = common_dtype((input, target))
    if dtype != input.dtype or dtype != target.dtype:
        raise NotLowered("a loss of two dtypes")
    return elementwise(c, compute, input, target, takes=dtype, gives=dtype, cost=4)


def _number(found: Any) -> float:
    if not isinstance(found, int | float):
        raise NotLowered("a number that is computed")
    return found


@row("mse_loss")
def mse_loss(c: Lowering, input: Value, target: Value, reduction: str) -> Value:
    # The difference is rounded, too.
    away = of_two(c, input, target, operation("sub"))
    squares = elementwise(c, lambda x: op("mul", x, x), away)
    return apply_reduction(c, squares, reduction)


def _distance(a: Scalar, b: Scalar) -> Scalar:
    return op("abs", op("sub", a, b))


@row("l1_loss")
def l1_loss(c: Lowering, input: Value, target: Value, reduction: str) -> Value:
    return apply_reduction(c, of_two(c, input, target, _distance), reduction)


@row("smooth_l1_loss")
def smooth_l1_loss(c: Lowering, input: Value, target: Value, reduction: str, beta: Any) -> Value:
    beta = _number(beta)

    def compute(a: Scalar, b: Scalar) -> Scalar:
        away = _distance(a, b)
        half, edge = constant_like(0.5, a), constant_like(beta, a)
        near = op("div", op("mul", op("mul", half, away), away), edge)
        far = op("sub", away, op("mul", half, edge))
        return where(test("lt", away, edge), near, far)

    losses = of_two(c, input, target, _distance if beta == 0 else compute)
    return apply_reduction(c, losses, reduction)


@row("huber_loss")
def huber_loss(c: Lowering, input: Value, target: Value, reduction: str, delta: Any) -> Value:
    delta = _number(delta)

    def compute(a: Scalar, b: Scalar) -> Scalar:
        away = _distance(a, b)
        half, edge = constant_like(0.5, a), constant_like(delta, a)
        near = op("mul", op("mul", half, away), away)
        far = op("mul", edge, op("sub", away, op("mul", half, edge)))
        return where(test("le", away, edge), near, far)

    return apply_reduction(c, of_two(c, input, target, compute), reduction)


@row("binary_cross_entropy_with_logits")
def bce_with_logits(
    c: Lowering,
    input: Value,
    target: Value,
    weight: Value | None,
    pos_weight: Value | None,
    reduction: str,
) -> Value:
    operands = [each for each in (input, target, weight, pos_weight) if each is not None]
    dtype = target.dtype
    if any(each.dtype != dtype for each in operands):
        raise NotLowered("a loss of several dtypes")
    logs = of_float(c, log_of_sigmoid, input, cost=8)

    def step(compute: Callable[..., Scalar], *values: Value) -> Value:
        return elementwise(c, compute, *values, takes=dtype, gives=dtype)

    def one_less(x: Scalar) -> Scalar:
        return op("sub", constant_like(1, x), x)

    if pos_weight is not None:
        more = step(lambda p: op("sub", p, constant_like(1, p)), pos_weight)
        more = step(operation("mul"), more, target)
        more = step(lambda p: op("add", p, constant_like(1, p)), more)
        logs = step(operation("mul"), logs, more)
    losses = step(operation("mul"), step(one_less, target), input)
    losses = step(operation("sub"), losses, logs)
    if weight is not None:
        losses = step(operation("mul"), losses, weight)
    return apply_reduction(c, losses, reduction)


@row("binary_cross_entropy")
def binary_cross_entropy(
    c: Lowering, input: Value, target: Value, weight: Value | None, reduction: str
) -> Value:
    if input.dtype in HALVES or (weight is not None and weight.dtype != input.dtype):
        raise NotLowered("a loss of two bytes, or of several dtypes")

    def compute(x: Scalar, target: Scalar) -> Scalar:
        one, least = constant_like(1, x), constant_like(-100, x)
        absent = op("maximum", op("log1p", op("neg", x)), least)
        present = op("maximum", op("log", x), least)
        return op("sub", op("mul", op("sub", target, one), absent), op("mul", target, present))

    def is_chance(x: Scalar) -> Scalar:
        return test("and", test("ge", x, constant_like(0, x)), test("le", x, constant_like(1, x)))

    losses = of_two(c, input, target, compute)
    if not c.same_sizes(input.sizes, target.sizes):
        raise NotLowered("a target of other sizes")
    c.require(input, "is a chance", is_chance, "all elements are between 0 and 1")
    if weight is not None:
        losses = elementwise(c, operation("mul"), losses, weight)
    return apply_reduction(c, losses, reduction)


@row("kl_div")
def kl_div(c: Lowering, input: Value, target: Value, reduction: str, log_target: bool) -> Value:
    if input.dtype not in FLOATS or input.dtype != target.dtype:
        raise NotLowered("a divergence of integers, or of two dtypes")
    dtype = target.dtype

    def step(compute: Callable[..., Scalar], *values: Value) -> Value:
        return elementwise(c, compute, *values, takes=dtype, gives=dtype, cost=4)

    if log_target:
        losses = step(operation("mul"), step(operation("exp"), target), step(_less, target, input))
    else:
        own = x_log_y(c, target, target)
        losses = step(operation("sub"), own, step(operation("mul"), target, input))
    if reduction != "batchmean":
        return apply_reduction(c, losses, reduction)
    total = apply_reduction(c, losses, "sum")
    if not input.sizes:
        return total
    return as_dtype(c, true_divide(c, total, input.sizes[0]), dtype)


def _less(a: Scalar, b: Scalar) -> Scalar:
    return op("sub", a, b)
