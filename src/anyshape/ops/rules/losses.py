"""Losses of values against values, reduced to a number unless `reduction="none"`.

The functions of `torch.nn.functional` take a reduction by name, and two older flags; those of
`torch` take it as a number, which when left out is 0: no reduction. Layouts without a reduction are
those of torch's formulas, so the order of operands matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from anyshape.errors import UnknownOperator
from anyshape.ops.broadcast import broadcast, pointwise_layout
from anyshape.ops.meta import Meta
from anyshape.ops.op import Lowering, Op, Rule
from anyshape.ops.promotion import category, floating, join, real, result_type
from anyshape.ops.questions import Questions
from anyshape.ops.rules.classification_losses import lessened, reduction_of, require_sizes
from anyshape.ops.rules.distances import pairwise_distance
from anyshape.ops.rules.pointwise import DtypeRule, elementwise, same
from anyshape.ops.rules.reductions import reduced, require_float, whole
from anyshape.symbolic import Size, and_, eq, or_

Flag = bool | None


def _of_two(q: Questions, input: Meta, target: Meta, dtype: DtypeRule = same) -> Meta:
    """Torch expands these operands first: also one without dimensions counts for the dtype."""
    return replace(
        elementwise(q, (input, target), same), dtype=dtype(join(input.dtype, target.dtype))
    )


def _weighted(q: Questions, loss: Meta, input: Meta, weight: Meta | None) -> Meta:
    if weight is None:
        return loss
    require_sizes(q, weight.shape, input.shape, "there must be a weight for each value")
    return elementwise(q, (loss, weight), same)


def _summed(q: Questions, loss: Meta, reduction: str) -> Meta:
    """Reduced as `sum` and `mean` do it: integers sum to 64 bits and have no mean."""
    if reduction == "mean":
        require_float(q, loss.dtype)
    return loss if reduction == "none" else loss.like((), whole(loss.dtype))


def mse_loss(
    q: Questions,
    input: Meta,
    target: Meta,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    weight: Meta | None = None,
) -> Meta:
    loss = _of_two(q, input, target)
    if weight is None:
        require_float(q, loss.dtype)
    return _summed(
        q, _weighted(q, loss, input, weight), reduction_of(q, reduction, size_average, reduce)
    )


def l1_loss(
    q: Questions,
    input: Meta,
    target: Meta,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    weight: Meta | None = None,
) -> Meta:
    loss = _weighted(q, _of_two(q, input, target, real), input, weight)
    return _summed(q, loss, reduction_of(q, reduction, size_average, reduce))


def smooth_l1_loss(
    q: Questions,
    input: Meta,
    target: Meta,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Meta:
    loss = _of_two(q, input, target)
    require_float(q, loss.dtype)
    return lessened(loss, reduction_of(q, reduction, size_average, reduce))


def huber_loss(
    q: Questions,
    input: Meta,
    target: Meta,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Meta | None = None,
) -> Meta:
    require_float(q, input.dtype)
    shape = broadcast(q, (input.shape, target.shape))
    loss = input.like(shape, layout=pointwise_layout(q, shape, (input,)))
    return lessened(_weighted(q, loss, input, weight), reduction_of(q, reduction))


def soft_margin_loss(
    q: Questions,
    input: Meta,
    target: Meta,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Meta:
    require_float(q, input.dtype)
    _require_fits(q, target, input)
    loss = input.like(layout=pointwise_layout(q, input.shape, (input,)))
    return lessened(loss, reduction_of(q, reduction, size_average, reduce))


def _require_fits(q: Questions, other: Meta, into: Meta) -> None:
    """The formula multiplies in place: the other operand may be stretched, but not the first."""
    shape = broadcast(q, (into.shape, other.shape))
    require_sizes(q, shape, into.shape, "an operand must broadcast to the shape of the first")


def kl_div(
    q: Questions,
    input: Meta,
    target: Meta,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str | int = "mean",
    log_target: bool = False,
) -> Meta:
    require_float(q, input.dtype)
    require_float(q, target.dtype)
    loss = elementwise(q, (target, input), same)
    return lessened(loss, reduction_of(q, reduction, size_average, reduce))


def binary_cross_entropy(
    q: Questions,
    input: Meta,
    target: Meta,
    weight: Meta | None = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Meta:
    require_float(q, input.dtype)
    require_sizes(q, target.shape, input.shape, "input and target must have the same shape")
    if target.dtype != input.dtype or (weight is not None and weight.dtype != input.dtype):
        raise q.fail("input, target and weight must have the same dtype")
    if weight is not None:
        _require_fits(q, weight, target)
    loss = input.like(layout=pointwise_layout(q, input.shape, (input,)))
    return lessened(loss, reduction_of(q, reduction, size_average, reduce))


def binary_cross_entropy_with_logits(
    q: Questions,
    input: Meta,
    target: Meta,
    weight: Meta | None = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    pos_weight: Meta | None = None,
) -> Meta:
    require_sizes(q, target.shape, input.shape, "input and target must have the same shape")
    found = reduction_of(q, reduction, size_average, reduce)
    return _with_logits(q, input, target, weight, pos_weight, found)


def _with_logits(
    q: Questions,
    input: Meta,
    target: Meta,
    weight: Meta | None = None,
    pos_weight: Meta | None = None,
    reduction: str | int = 0,
) -> Meta:
    """Computed in place on `1 - target`."""
    for other in (input, weight, pos_weight):
        if other is not None:
            if category(other.dtype) > category(target.dtype):
                raise q.fail(f"{other.dtype} does not go into a target of {target.dtype}")
            _require_fits(q, other, target)
    loss = target.like(layout=pointwise_layout(q, target.shape, (target,)))
    return lessened(loss, reduction_of(q, reduction))


def poisson_nll_loss(
    q: Questions,
    input: Meta,
    target: Meta,
    log_input: bool = True,
    full: bool = False,
    size_average: Flag = None,
    eps: float = 1e-8,
    reduce: Flag = None,
    reduction: str | int = "mean",
) -> Meta:
    loss = elementwise(q, (elementwise(q, (input,), floating), target), same)
    return lessened(loss, reduction_of(q, reduction, size_average, reduce))


def gaussian_nll_loss(
    q: Questions,
    input: Meta,
    target: Meta,
    var: Meta | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Meta:
    variance = input.like(layout=pointwise_layout(q, input.shape, (input,)))
    if isinstance(var, Meta):
        variance = elementwise(q, (_variance(q, input, var),), floating)
    elif isinstance(var, float) and var < 0:
        raise q.fail("a variance may not be negative")
    squares = elementwise(q, (input, target), same)
    loss = elementwise(q, (variance, elementwise(q, (squares, variance), floating)), floating)
    return lessened(loss, reduction_of(q, reduction))


def _variance(q: Questions, input: Meta, var: Meta) -> Meta:
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
            q.facts.hint(have) == 1 and q.decide(eq(have, 1), "a variance is stretched")
        ):
            stretched.append(want)
        else:
            q.require(eq(have, want), "there must be a variance for each value")
    if len(stretched) > 1:
        single = [eq(size, 1) for size in stretched]
        others = [and_(*single[:k], *single[k + 1 :]) for k in range(len(single))]
        q.require(or_(*others), "variances may be stretched in one dimension only")
    return var


def hinge_embedding_loss(
    q: Questions,
    input: Meta,
    target: Meta,
    margin: float = 1.0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str | int = "mean",
) -> Meta:
    shape = broadcast(q, (target.shape, input.shape))
    layout = pointwise_layout(q, shape, (target, input))
    found = reduction_of(q, reduction, size_average, reduce)
    return _summed(q, input.like(shape, layout=layout), found)


def margin_ranking_loss(
    q: Questions,
    input1: Meta,
    input2: Meta,
    target: Meta,
    margin: float = 0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Meta:
    if not input1.rank == input2.rank == target.rank:
        raise q.fail("all must have as many dimensions")
    found = reduction_of(q, reduction, size_average, reduce)
    return _ranking(q, input1, input2, target, margin, found)


def _ranking(
    q: Questions,
    input1: Meta,
    input2: Meta,
    target: Meta,
    margin: float = 0.0,
    reduction: str | int = 0,
) -> Meta:
    difference = elementwise(q, (input1, input2), same)
    loss = elementwise(q, (target, difference), floating)
    return lessened(loss, reduction_of(q, reduction))


def multilabel_soft_margin_loss(
    q: Questions,
    input: Meta,
    target: Meta,
    weight: Meta | None = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Meta:
    require_float(q, input.dtype)
    loss = elementwise(q, (target, input), same)
    if weight is not None:
        loss = elementwise(q, (loss, weight), same)
    shape = reduced(loss.shape, (max(input.rank - 1, 0),), False)
    return lessened(loss.like(shape), reduction_of(q, reduction, size_average, reduce))


def cosine_embedding_loss(
    q: Questions,
    input1: Meta,
    input2: Meta,
    target: Meta,
    margin: float = 0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str | int = "mean",
) -> Meta:
    if target.rank > 1 or not input1.rank == input2.rank == target.rank + 1:
        raise q.fail("a number is for two vectors, a vector for two matrices")
    likeness = broadcast(q, (input1.shape, input2.shape))[:-1]
    dtype = floating(result_type((input1, input2)))
    loss = input1.like(broadcast(q, (target.shape, likeness)), dtype)
    return lessened(loss, reduction_of(q, reduction, size_average, reduce))


def triplet_margin_loss(
    q: Questions,
    anchor: Meta,
    positive: Meta,
    negative: Meta,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str | int = "mean",
) -> Meta:
    if not anchor.rank == positive.rank == negative.rank:
        raise q.fail("all must have as many dimensions")
    distances = (
        pairwise_distance(q, anchor, positive, p),
        pairwise_distance(q, anchor, negative, p),
        *((pairwise_distance(q, positive, negative, p),) if swap else ()),
    )
    loss = elementwise(q, distances, same)
    return lessened(loss, reduction_of(q, reduction, size_average, reduce))


def triplet_margin_with_distance_loss(
    q: Questions,
    anchor: Meta,
    positive: Meta,
    negative: Meta,
    *,
    distance_function: Callable[..., Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Meta:
    if distance_function is not None:
        # A program of its own, which no rule can see.
        raise UnknownOperator(op="triplet_margin_with_distance_loss with a function")
    return triplet_margin_loss(
        q, anchor, positive, negative, margin, swap=swap, reduction=reduction
    )


def _by_number(rule: Rule, last: int) -> Rule:
    """The form of `torch`: the reduction is a number at the end of the positions."""

    def numbered(q: Questions, *args: Any, reduction: int = 0, **kwargs: Any) -> Meta:
        if len(args) > last:
            args, reduction = args[:last], args[last]
        return rule(q, *args, reduction=reduction, **kwargs)

    return numbered


def _poisson_of_torch(
    q: Questions,
    input: Meta,
    target: Meta,
    log_input: bool,
    full: bool,
    eps: float,
    reduction: int,
) -> Meta:
    return poisson_nll_loss(q, input, target, log_input, full, reduction=reduction)


def _row(rule: Rule) -> Op:
    name = rule.__name__
    return Op(name, (f"torch.nn.functional.{name}",), rule, Lowering.CALL_OUT)


def _row_of_torch(name: str, rule: Rule) -> Op:
    return Op(name, (f"torch.{name}",), rule, Lowering.CALL_OUT)


ROWS: tuple[Op, ...] = (
    _row(mse_loss),
    _row(l1_loss),
    _row(smooth_l1_loss),
    _row(huber_loss),
    _row(soft_margin_loss),
    _row(kl_div),
    _row(binary_cross_entropy),
    _row(binary_cross_entropy_with_logits),
    _row(poisson_nll_loss),
    _row(gaussian_nll_loss),
    _row(hinge_embedding_loss),
    _row(margin_ranking_loss),
    _row(multilabel_soft_margin_loss),
    _row(cosine_embedding_loss),
    _row(triplet_margin_loss),
    _row(triplet_margin_with_distance_loss),
    _row_of_torch("kl_div", _by_number(kl_div, 2)),
    _row_of_torch("binary_cross_entropy_with_logits", _with_logits),
    _row_of_torch("poisson_nll_loss", _poisson_of_torch),
    _row_of_torch("hinge_embedding_loss", _by_number(hinge_embedding_loss, 3)),
    _row_of_torch("margin_ranking_loss", _ranking),
    _row_of_torch("cosine_embedding_loss", _by_number(cosine_embedding_loss, 4)),
    _row_of_torch("triplet_margin_loss", _by_number(triplet_margin_loss, 7)),
)
