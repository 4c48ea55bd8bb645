"""Losses of values against values, reduced to a number unless `reduction="none"`.

The rules give the loss of each element, the rows say how it is called and reduced. Layouts without
a reduction are those of torch's formulas, so the order of operands matters.

Torch makes the loss of each element a tensor before it reduces it: it is rounded there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from anyshape.errors import UnknownOperator
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.ops.broadcast import broadcast, pointwise_layout
from anyshape.ops.elementwise import DtypeRule, pointwise_meta, same
from anyshape.ops.families.activations import log_of_sigmoid, of_float
from anyshape.ops.families.arithmetic import lower_true_divide
from anyshape.ops.families.classification_losses import functional_row, require_sizes, torch_row
from anyshape.ops.families.distances import pairwise_distance
from anyshape.ops.families.functions import x_log_y
from anyshape.ops.families.reductions import (
    lower_sum,
    mean_of,
    reduced,
    require_float,
    whole,
)
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term
from anyshape.ops.lowering.pointwise_builder import as_dtype, common_dtype, elementwise
from anyshape.ops.lowering.scalars import constant_like, op, operation, test, where
from anyshape.ops.lowering.values import Lowering, NotLowered, Value, must_be_known
from anyshape.ops.meta import Meta
from anyshape.ops.op import TOTAL, Op, gradient, lower, made_of
from anyshape.ops.promotion import category, floating, join, real, result_type
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, and_, eq, or_, product


def _of_two(q: ShapeQuery, input: Meta, target: Meta, dtype: DtypeRule = same) -> Meta:
    """Torch expands these operands first: also one without dimensions counts for the dtype."""
    return replace(
        pointwise_meta(q, (input, target), same), dtype=dtype(join(input.dtype, target.dtype))
    )


def _weighted(q: ShapeQuery, loss: Meta, input: Meta, weight: Meta | None) -> Meta:
    if weight is None:
        return loss
    require_sizes(q, weight.shape, input.shape, "there must be a weight for each value")
    return pointwise_meta(q, (loss, weight), same)


def _summed(q: ShapeQuery, loss: Meta, reduction: str) -> Meta:
    """Reduced as `sum` and `mean` do it: integers sum to 64 bits and have no mean."""
    if reduction == "mean":
        require_float(q, loss.dtype)
    return loss if reduction == "none" else loss.like((), whole(loss.dtype))


def mse_loss(
    q: ShapeQuery, input: Meta, target: Meta, weight: Meta | None = None, **_: Any
) -> Meta:
    loss = _of_two(q, input, target)
    if weight is None:
        require_float(q, loss.dtype)
    return _weighted(q, loss, input, weight)


def l1_loss(q: ShapeQuery, input: Meta, target: Meta, weight: Meta | None = None, **_: Any) -> Meta:
    return _weighted(q, _of_two(q, input, target, real), input, weight)


def smooth_l1_loss(q: ShapeQuery, input: Meta, target: Meta, **_: Any) -> Meta:
    loss = _of_two(q, input, target)
    require_float(q, loss.dtype)
    return loss


def huber_loss(
    q: ShapeQuery, input: Meta, target: Meta, weight: Meta | None = None, **_: Any
) -> Meta:
    require_float(q, input.dtype)
    shape = broadcast(q, (input.shape, target.shape))
    loss = input.like(shape, layout=pointwise_layout(q, shape, (input,)))
    return _weighted(q, loss, input, weight)


def soft_margin_loss(q: ShapeQuery, input: Meta, target: Meta, **_: Any) -> Meta:
    require_float(q, input.dtype)
    _require_fits(q, target, input)
    return input.like(layout=pointwise_layout(q, input.shape, (input,)))


def _require_fits(q: ShapeQuery, other: Meta, into: Meta) -> None:
    """The formula multiplies in place: the other operand may be stretched, but not the first."""
    shape = broadcast(q, (into.shape, other.shape))
    require_sizes(q, shape, into.shape, "an operand must broadcast to the shape of the first")


def kl_div(q: ShapeQuery, input: Meta, target: Meta, **_: Any) -> Meta:
    require_float(q, input.dtype)
    require_float(q, target.dtype)
    return pointwise_meta(q, (target, input), same)


def binary_cross_entropy(
    q: ShapeQuery, input: Meta, target: Meta, weight: Meta | None = None, **_: Any
) -> Meta:
    require_float(q, input.dtype)
    require_sizes(q, target.shape, input.shape, "input and target must have the same shape")
    if target.dtype != input.dtype or (weight is not None and weight.dtype != input.dtype):
        raise q.fail("input, target and weight must have the same dtype")
    if weight is not None:
        _require_fits(q, weight, target)
    return input.like(layout=pointwise_layout(q, input.shape, (input,)))


def binary_cross_entropy_with_logits(q: ShapeQuery, input: Meta, target: Meta, **rest: Any) -> Meta:
    require_sizes(q, target.shape, input.shape, "input and target must have the same shape")
    return _with_logits(q, input, target, **rest)


def _with_logits(
    q: ShapeQuery,
    input: Meta,
    target: Meta,
    weight: Meta | None = None,
    pos_weight: Meta | None = None,
    **_: Any,
) -> Meta:
    """Computed in place on `1 - target`."""
    for other in (input, weight, pos_weight):
        if other is not None:
            if category(other.dtype) > category(target.dtype):
                raise q.fail(f"{other.dtype} does not go into a target of {target.dtype}")
            _require_fits(q, other, target)
    return target.like(layout=pointwise_layout(q, target.shape, (target,)))


def poisson_nll_loss(q: ShapeQuery, input: Meta, target: Meta, **_: Any) -> Meta:
    return pointwise_meta(q, (pointwise_meta(q, (input,), floating), target), same)


def gaussian_nll_loss(
    q: ShapeQuery, input: Meta, target: Meta, var: Meta | float, **_: Any
) -> Meta:
    variance = input.like(layout=pointwise_layout(q, input.shape, (input,)))
    if isinstance(var, Meta):
        variance = pointwise_meta(q, (_variance(q, input, var),), floating)
    elif isinstance(var, float) and var < 0:
        raise q.fail("a variance may not be negative")
    squares = pointwise_meta(q, (input, target), same)
    return pointwise_meta(q, (variance, pointwise_meta(q, (squares, variance), floating)), floating)


def _variance(q: ShapeQuery, input: Meta, var: Meta) -> Meta:
    """The variance as it is broadcast: one dimension may be stretched, or the last one missing."""
    if var.rank == input.rank - 1:
        require_sizes(q, var.shape, input.shape[:-1], "there must be a variance for each row")
        return var.viewed((*var.shape, 1), (*var.strides, 1))
    if var.rank != input.rank:
        raise q.fail(f"variances of {var.rank} dimensions for values of {input.rank}")
    stretched: list[Size] = []
    for have, want in zip(var.shape, input.shape, strict=True):
        if have is want or q.same(have, want):
            continue
        if have == 1 or (
            q.facts.hint(have) == 1 and q.decide(eq(have, 1), "a variance is broadcast")
        ):
            stretched.append(want)
        else:
            q.require(eq(have, want), "there must be a variance for each value")
    if len(stretched) > 1:
        single = [eq(size, 1) for size in stretched]
        others = [and_(*single[:k], *single[k + 1 :]) for k in range(len(single))]
        q.require(or_(*others), "variances may be broadcast in one dimension only")
    return var


def hinge_embedding_loss(q: ShapeQuery, input: Meta, target: Meta, **_: Any) -> Meta:
    shape = broadcast(q, (target.shape, input.shape))
    return input.like(shape, layout=pointwise_layout(q, shape, (target, input)))


def margin_ranking_loss(q: ShapeQuery, input1: Meta, input2: Meta, target: Meta, **_: Any) -> Meta:
    if not input1.rank == input2.rank == target.rank:
        raise q.fail("all must have as many dimensions")
    return _ranking(q, input1, input2, target)


def _ranking(q: ShapeQuery, input1: Meta, input2: Meta, target: Meta, **_: Any) -> Meta:
    difference = pointwise_meta(q, (input1, input2), same)
    return pointwise_meta(q, (target, difference), floating)


def multilabel_soft_margin_loss(
    q: ShapeQuery, input: Meta, target: Meta, weight: Meta | None = None, **_: Any
) -> Meta:
    require_float(q, input.dtype)
    loss = pointwise_meta(q, (target, input), same)
    if weight is not None:
        loss = pointwise_meta(q, (loss, weight), same)
    return loss.like(reduced(loss.shape, (max(input.rank - 1, 0),), False))


def cosine_embedding_loss(
    q: ShapeQuery, input1: Meta, input2: Meta, target: Meta, **_: Any
) -> Meta:
    if target.rank > 1 or not input1.rank == input2.rank == target.rank + 1:
        raise q.fail("a number is for two vectors, a vector for two matrices")
    likeness = broadcast(q, (input1.shape, input2.shape))[:-1]
    dtype = floating(result_type((input1, input2)))
    return input1.like(broadcast(q, (target.shape, likeness)), dtype)


def triplet_margin_loss(
    q: ShapeQuery,
    anchor: Meta,
    positive: Meta,
    negative: Meta,
    p: float = 2,
    swap: bool = False,
    **_: Any,
) -> Meta:
    if not anchor.rank == positive.rank == negative.rank:
        raise q.fail("all must have as many dimensions")
    distances = (
        pairwise_distance(q, anchor, positive, p),
        pairwise_distance(q, anchor, negative, p),
        *((pairwise_distance(q, positive, negative, p),) if swap else ()),
    )
    return pointwise_meta(q, distances, same)


def triplet_margin_with_distance_loss(
    q: ShapeQuery,
    anchor: Meta,
    positive: Meta,
    negative: Meta,
    distance_function: Callable[..., Any] | None = None,
    swap: bool = False,
    **_: Any,
) -> Meta:
    if distance_function is not None:
        # A program of its own, which no rule can see.
        raise UnknownOperator(op="triplet_margin_with_distance_loss with a function")
    return triplet_margin_loss(q, anchor, positive, negative, swap=swap)


_TWO, _MEAN = "input, target", "size_average=None, reduce=None, reduction='mean'"
_THREE, _TRIPLET = "input1, input2, target", "anchor, positive, negative"

# fmt: off
ROWS: tuple[Op, ...] = (
    functional_row(mse_loss, f"{_TWO}, {_MEAN}, weight=None", _summed, TOTAL),
    functional_row(l1_loss, f"{_TWO}, {_MEAN}, weight=None", _summed, TOTAL),
    functional_row(smooth_l1_loss, f"{_TWO}, {_MEAN}, beta=1.0", effects=TOTAL),
    functional_row(huber_loss, f"{_TWO}, reduction='mean', delta=1.0, weight=None", effects=TOTAL),
    functional_row(soft_margin_loss, f"{_TWO}, {_MEAN}", effects=TOTAL),
    functional_row(kl_div, f"{_TWO}, {_MEAN}, log_target=False", effects=TOTAL),
    functional_row(binary_cross_entropy, f"{_TWO}, weight=None, {_MEAN}"),
    functional_row(
        binary_cross_entropy_with_logits, f"{_TWO}, weight=None, {_MEAN}, pos_weight=None"),
    functional_row(
        poisson_nll_loss,
        f"{_TWO}, log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, "
        "reduction='mean'"),
    functional_row(gaussian_nll_loss, f"{_TWO}, var, full=False, eps=1e-06, reduction='mean'"),
    functional_row(hinge_embedding_loss, f"{_TWO}, margin=1.0, {_MEAN}", _summed),
    functional_row(margin_ranking_loss, f"{_THREE}, margin=0, {_MEAN}"),
    functional_row(multilabel_soft_margin_loss, f"{_TWO}, weight=None, {_MEAN}"),
    functional_row(cosine_embedding_loss, f"{_THREE}, margin=0, {_MEAN}"),
    functional_row(
        triplet_margin_loss, f"{_TRIPLET}, margin=1.0, p=2, eps=1e-06, swap=False, {_MEAN}"),
    functional_row(
        triplet_margin_with_distance_loss,
        f"{_TRIPLET}, *, distance_function=None, margin=1.0, swap=False, reduction='mean'"),
    torch_row("kl_div", kl_div, f"{_TWO}, reduction=0, *, log_target=False"),
    torch_row(
        "binary_cross_entropy_with_logits",
        _with_logits, f"{_TWO}, weight=None, pos_weight=None, reduction=0"),
    torch_row("poisson_nll_loss", poisson_nll_loss, f"{_TWO}, log_input, full, eps, reduction"),
    torch_row(
        "hinge_embedding_loss", hinge_embedding_loss, f"{_TWO}, margin=1.0, reduction=0", _summed),
    torch_row("margin_ranking_loss", _ranking, f"{_THREE}, margin=0.0, reduction=0"),
    torch_row("cosine_embedding_loss", cosine_embedding_loss, f"{_THREE}, margin=0.0, reduction=0"),
    torch_row(
        "triplet_margin_loss",
        triplet_margin_loss,
        f"{_TRIPLET}, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=0"),
)
# fmt: on


# -- native code ----------------------------------------------------------------------------------


def apply_reduction(c: Lowering, losses: Value, how: str) -> Value:
    """All losses, their sum or their mean."""
    dims = list(range(len(losses.sizes)))
    if how == "none":
        return losses
    if how == "sum":
        return lower_sum(c, losses, None, False, dtype=None)
    if how != "mean" or losses.dtype not in FLOATS:
        raise NotLowered(f"the reduction {how}")
    return as_dtype(c, mean_of(c, losses, dims, False), losses.dtype)


def of_two(c: Lowering, input: Value, target: Value, compute: Callable[..., Scalar]) -> Value:
    """A loss of two tensors, of which each counts for the dtype."""
    if input.dtype not in FLOATS or target.dtype not in FLOATS:
        raise NotLowered("a loss of integers")
    dtype = common_dtype((input, target))
    if dtype != input.dtype or dtype != target.dtype:
        raise NotLowered("a loss of two dtypes")
    return elementwise(c, compute, input, target, takes=dtype, cost=4)


@lower("mse_loss")
def lower_mse_loss(c: Lowering, input: Value, target: Value, reduction: str) -> Value:
    # The difference is rounded, too.
    away = of_two(c, input, target, operation("sub"))
    squares = elementwise(c, lambda x: op("mul", x, x), away)
    return apply_reduction(c, squares, reduction)


def _distance(a: Scalar, b: Scalar) -> Scalar:
    return op("abs", op("sub", a, b))


@lower("l1_loss")
def lower_l1_loss(c: Lowering, input: Value, target: Value, reduction: str) -> Value:
    return apply_reduction(c, of_two(c, input, target, _distance), reduction)


@lower("smooth_l1_loss")
def lower_smooth_l1_loss(
    c: Lowering, input: Value, target: Value, reduction: str, beta: Any
) -> Value:
    beta = must_be_known(beta)

    def compute(a: Scalar, b: Scalar) -> Scalar:
        away = _distance(a, b)
        half, edge = constant_like(0.5, a), constant_like(beta, a)
        near = op("div", op("mul", op("mul", half, away), away), edge)
        far = op("sub", away, op("mul", half, edge))
        return where(test("lt", away, edge), near, far)

    losses = of_two(c, input, target, _distance if beta == 0 else compute)
    return apply_reduction(c, losses, reduction)


@lower("huber_loss")
def lower_huber_loss(c: Lowering, input: Value, target: Value, reduction: str, delta: Any) -> Value:
    delta = must_be_known(delta)

    def compute(a: Scalar, b: Scalar) -> Scalar:
        away = _distance(a, b)
        half, edge = constant_like(0.5, a), constant_like(delta, a)
        near = op("mul", op("mul", half, away), away)
        far = op("mul", edge, op("sub", away, op("mul", half, edge)))
        return where(test("le", away, edge), near, far)

    return apply_reduction(c, of_two(c, input, target, compute), reduction)


@lower("binary_cross_entropy_with_logits")
def lower_bce_with_logits(
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
        return elementwise(c, compute, *values, takes=dtype)

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


@lower("binary_cross_entropy")
def lower_binary_cross_entropy(
    c: Lowering, input: Value, target: Value, weight: Value | None, reduction: str
) -> Value:
    if input.dtype in HALVES or (weight is not None and weight.dtype != input.dtype):
        raise NotLowered("a loss of 16-bit floats, or of several dtypes")

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
    c.require(input, "is a probability", is_chance, "all elements are between 0 and 1")
    if weight is not None:
        losses = elementwise(c, operation("mul"), losses, weight)
    return apply_reduction(c, losses, reduction)


@lower("kl_div")
def lower_kl_div(
    c: Lowering, input: Value, target: Value, reduction: str, log_target: bool
) -> Value:
    if input.dtype not in FLOATS or input.dtype != target.dtype:
        raise NotLowered("a divergence of integers, or of two dtypes")
    dtype = target.dtype

    def step(compute: Callable[..., Scalar], *values: Value) -> Value:
        return elementwise(c, compute, *values, takes=dtype, cost=4)

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
    return as_dtype(c, lower_true_divide(c, total, input.sizes[0]), dtype)


def _less(a: Scalar, b: Scalar) -> Scalar:
    return op("sub", a, b)


# -- gradients ------------------------------------------------------------------------------------


def _reduced(own: Term, grad: Term, reduction: Any) -> Term:
    """The gradient of the losses, times that of their reduction."""
    own = own * grad
    return own / product(list(own.shape)) if reduction == "mean" else own


def _of_difference(
    slope: Callable[[Term], Term], grad: Term, input: Term, target: Any, reduction: Any, weight: Any
) -> Gradients:
    if weight is not None or not isinstance(target, Term):
        raise NoGradient("weights")
    own = _reduced(slope(input - target), grad, reduction)
    return {"input": own, "target": -own}


@gradient("mse_loss")
def gradient_mse_loss(
    grad: Term, input: Term, target: Any, reduction: Any, weight: Any
) -> Gradients:
    return _of_difference(lambda away: away * 2.0, grad, input, target, reduction, weight)


@gradient("smooth_l1_loss")
def gradient_smooth_l1_loss(
    grad: Term, input: Term, target: Any, reduction: Any, beta: Any
) -> Gradients:
    if not isinstance(beta, int | float) or beta <= 0:
        raise NoGradient("a threshold that is not a constant, or 0")
    slope: Callable[[Term], Term] = lambda away: (away / beta).clamp(-1, 1)  # noqa: E731
    return _of_difference(slope, grad, input, target, reduction, None)


@gradient("huber_loss")
def gradient_huber_loss(
    grad: Term, input: Term, target: Any, reduction: Any, delta: Any, weight: Any
) -> Gradients:
    if not isinstance(delta, int | float):
        raise NoGradient("a threshold that is not a constant")
    if input.dtype != target.dtype:
        raise NoGradient("dtypes that differ, which torch has no gradient for")
    slope: Callable[[Term], Term] = lambda away: away.clamp(-delta, delta)  # noqa: E731
    return _of_difference(slope, grad, input, target, reduction, weight)


@gradient("soft_margin_loss")
def gradient_soft_margin_loss(grad: Term, input: Term, target: Term, reduction: Any) -> Gradients:
    near = (-target * input).exp()
    return {"input": _reduced(-target * near / (near + 1), grad, reduction)}


@gradient("binary_cross_entropy")
def gradient_binary_cross_entropy(
    grad: Term, input: Term, target: Term, weight: Any, reduction: Any
) -> Gradients:
    own = (input - target) / ((1 - input) * input).clamp_min(1e-12)
    of_target = (1 - input).log() - input.log()
    return {
        "input": _reduced(own if weight is None else own * weight, grad, reduction),
        "target": _reduced(of_target if weight is None else of_target * weight, grad, reduction),
    }


@gradient("binary_cross_entropy_with_logits")
def gradient_bce_with_logits(
    grad: Term, input: Term, target: Term, weight: Any, pos_weight: Any, reduction: Any
) -> Gradients:
    chance = input.sigmoid()
    if pos_weight is None:
        own, of_target = chance - target, -input
    else:
        scaled = pos_weight * target
        own = (scaled + 1 - target) * chance - scaled
        logs = [each.call(torch.nn.functional.logsigmoid) for each in (-input, input)]
        of_target = logs[0] - pos_weight * logs[1]
    return {
        "input": _reduced(own if weight is None else own * weight, grad, reduction),
        "target": _reduced(of_target if weight is None else of_target * weight, grad, reduction),
    }


@gradient("kl_div")
def gradient_kl_div(
    grad: Term, input: Term, target: Term, reduction: Any, log_target: Any
) -> Gradients:
    if input.rank != target.rank or not all(map(grad.records.is_same, input.shape, target.shape)):
        raise NoGradient("sizes that are broadcast")
    if reduction == "mean":
        grad = grad / product(list(input.shape))
    elif reduction == "batchmean" and input.rank:
        grad = grad / input.shape[0]
    if log_target:
        chance = target.exp()
        return {"input": -chance * grad, "target": chance * (target - input + 1) * grad}
    logs = grad.call(torch.xlogy, target).masked_fill(target.eq(0), 0.0)
    return {"input": -target * grad, "target": logs + grad * target / target - grad * input}


# -- losses that are made of others ----------------------------------------------------------------


def _lessened(losses: Term, reduction: Any) -> Term:
    if reduction not in ("none", "mean", "sum"):
        raise NoGradient(f"the reduction {reduction}")
    return losses if reduction == "none" else getattr(losses, reduction)()


@made_of("l1_loss")
def parts_of_l1_loss(
    records: Records, input: Term, target: Term, reduction: Any, weight: Any
) -> Term:
    if weight is not None:
        raise NoGradient("weights")
    return _lessened((input - target).abs(), reduction)


@made_of("margin_ranking_loss")
def parts_of_margin_ranking_loss(
    records: Records, input1: Term, input2: Term, target: Term, margin: Any, reduction: Any
) -> Term:
    return _lessened((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@made_of("hinge_embedding_loss")
def parts_of_hinge_embedding_loss(
    records: Records, input: Term, target: Term, margin: Any, reduction: Any
) -> Term:
    apart = (margin - input).clamp_min(0).where(target.ne(1), 0.0)
    return _lessened(apart + input.where(target.ne(-1), 0.0), reduction)


@made_of("triplet_margin_loss")
def parts_of_triplet_margin_loss(
    records: Records,
    anchor: Term,
    positive: Term,
    negative: Term,
    margin: Any,
    p: Any,
    eps: Any,
    swap: Any,
    reduction: Any,
) -> Term:
    def distance(a: Term, b: Term) -> Term:
        return (a - b + eps).norm(p, -1)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return _lessened((near + margin - far).clamp_min(0), reduction)


@made_of("cosine_embedding_loss")
def parts_of_cosine_embedding_loss(
    records: Records, input1: Term, input2: Term, target: Term, margin: Any, reduction: Any
) -> Term:
    sizes = [(each * each).sum(-1) + 1e-12 for each in (input1, input2)]
    likeness = (input1 * input2).sum(-1) / (sizes[0] * sizes[1]).sqrt()
    alike = (1 - likeness).where(target.eq(1), 0.0)
    apart = (likeness - margin).clamp_min(0).where(target.eq(-1), 0.0)
    return _lessened(alike + apart, reduction)


@made_of("poisson_nll_loss")
def parts_of_poisson_nll_loss(
    records: Records, input: Term, target: Term, log_input: Any, full: Any, eps: Any, reduction: Any
) -> Term:
    if full:
        raise NoGradient("with what is constant")
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    return _lessened(losses, reduction)


@made_of("multilabel_soft_margin_loss")
def parts_of_multilabel_soft_margin_loss(
    records: Records, input: Term, target: Term, weight: Any, reduction: Any
) -> Term:
    if input.rank == 0:
        raise NoGradient("a 0-d tensor")
    there, away = (each.call(torch.nn.functional.logsigmoid) for each in (input, -input))
    losses = -(target * there + (1 - target) * away)
    losses = losses if weight is None else losses * weight
    return _lessened(losses.mean(-1), reduction)
