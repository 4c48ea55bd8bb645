"""Cross entropy and log likelihood of classes: the score at a position that a tensor names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.pointwise import constant_like, op, test, where
from anyshape.graph.lowerings.reductions import as_dtype, divided_by, exponentials, rounded
from anyshape.graph.lowerings.table import row
from anyshape.graph.pointwise_builder import broadcast_index, cast, elementwise, operation, wide
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.symbolic import ge, product

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def class_at(c: Lowering, input: Value, target: Value, along: int, ignored: int, index: Index):
    """Where the score of the class is: its class as a position, and whether it counts."""
    label = cast(target.at(index), "i64")
    counts = test("ne", label, constant_like(ignored, label))
    zero = constant_like(0, label)
    classes = expr.index(input.sizes[along])
    inside = test("and", test("ge", label, zero), test("lt", label, classes))
    valid = test("or", inside, test("not", counts))
    safe = where(test("and", inside, counts), label, zero)
    return expr.position(safe, valid, "a class is out of range"), counts


def picked(
    c: Lowering, scores: Value, target: Value, weight: Value | None, ignored: int
) -> tuple[Value, Value]:
    """`-score * weight` of each class, 0 where it is ignored; and the weights. In f32 or f64."""
    rank = len(scores.sizes)
    along = 0 if rank == 1 else 1
    dtype = wide(scores.dtype)

    def full(index: Index, label: Any) -> Index:
        return (*index[:along], label, *index[along:])

    def loss(index: Index) -> Scalar:
        label, counts = class_at(c, scores, target, along, ignored, index)
        score = cast(scores.at(full(index[: rank - 1], label)), dtype)
        found = op("neg", score)
        if weight is not None:
            found = op("neg", op("mul", score, cast(weight.at((label,)), dtype)))
        return where(counts, found, constant_like(0, found))

    def share(index: Index) -> Scalar:
        label, counts = class_at(c, scores, target, along, ignored, index)
        one = expr.constant(1, dtype)
        found = one if weight is None else cast(weight.at((label,)), dtype)
        return where(counts, found, constant_like(0, found))

    parents = [each for each in (scores, target, weight) if each is not None]
    losses = c.values.new(target.sizes, dtype, loss, parents, cost=6)
    shares = c.values.new(
        target.sizes, dtype, share, [each for each in (target, weight) if each is not None], cost=4
    )
    return losses, shares


def reduced_loss(c: Lowering, losses: Value, shares: Value, how: str, gives: expr.Dtype) -> Value:
    dims = list(range(len(losses.sizes)))
    if how == "none" or not dims:
        if how == "mean":
            losses = elementwise(c, operation("div"), losses, shares)
        return rounded(c, losses, gives)
    # The losses of rows are a kernel of their own; their sum is another.
    c.materialize(losses)
    total = c.values.reduction("sum", losses, dims, losses.dtype, keep=False)
    if how == "mean":
        whole = c.values.reduction("sum", shares, dims, losses.dtype, keep=False)
        total = elementwise(c, operation("div"), total, whole)
    return rounded(c, total, gives)


def _checked(input: Value, target: Value, ignored: Any) -> None:
    if input.dtype not in FLOATS or target.dtype not in ("i64", "u8"):
        raise NotLowered("scores are floats, classes are integers")
    if type(ignored) is not int:
        raise NotLowered("the ignored class is not known")
    if len(input.sizes) == 1 and target.sizes:
        raise NotLowered("a class in a tensor of one dimension")


@row("nll_loss")
def nll_loss(
    c: Lowering,
    input: Value,
    target: Value,
    weight: Value | None,
    ignore_index: Any,
    reduction: str,
) -> Value:
    _checked(input, target, ignore_index)
    losses, shares = picked(c, input, target, weight, ignore_index)
    return reduced_loss(c, losses, shares, reduction, input.dtype)


@row("cross_entropy")
def cross_entropy(
    c: Lowering,
    input: Value,
    target: Value,
    weight: Value | None,
    ignore_index: Any,
    reduction: str,
    label_smoothing: Any,
) -> Value:
    if not isinstance(label_smoothing, int | float):
        raise NotLowered("a smoothing that is not known")
    along = 0 if len(input.sizes) == 1 else 1
    if target.dtype in FLOATS:
        scores = _log_softmax(c, input, along)
        return _of_chances(c, target, weight, reduction, scores, along, label_smoothing)
    _checked(input, target, ignore_index)
    scores = _log_softmax(c, input, along)
    losses, shares = picked(c, scores, target, weight, ignore_index)
    if label_smoothing:
        losses = _smoothed(c, scores, target, weight, losses, along, ignore_index, label_smoothing)
    return reduced_loss(c, losses, shares, reduction, input.dtype)


def _log_softmax(c: Lowering, input: Value, along: int) -> Value:
    away, _, whole = exponentials(c, input, [along])
    logs = elementwise(
        c,
        lambda a, s: op("sub", a, op("log", s)),
        away,
        whole,
        takes=away.dtype,
        gives=away.dtype,
        cost=6,
    )
    return rounded(c, logs, input.dtype)


def _of_chances(
    c: Lowering,
    target: Value,
    weight: Value | None,
    reduction: str,
    scores: Value,
    along: int,
    smoothing: float,
) -> Value:
    """Each class has its chance: the loss of a row is a sum over all of them."""
    dtype = scores.dtype
    parts = [each for each in (target, weight) if each is not None]
    if dtype in HALVES or any(each.dtype != dtype for each in parts):
        raise NotLowered("chances of two bytes, or of another dtype")
    if not c.same_sizes(scores.sizes, target.sizes):
        raise NotLowered("chances of other sizes")
    classes = scores.sizes[along]
    # Without classes torch gives nan.
    c.assume(ge(classes, 1), "there are classes")

    def at(index: Index) -> Scalar:
        chance = target.at(index)
        if smoothing:
            count = cast(expr.index(classes), dtype)
            alike = op("div", constant_like(smoothing, chance), count)
            chance = op("add", op("mul", chance, constant_like(1 - smoothing, chance)), alike)
        found = op("mul", scores.at(index), chance)
        return found if weight is None else op("mul", found, weight.at((index[along],)))

    each = c.values.new(scores.sizes, dtype, at, [scores, *parts], cost=4)
    rows = c.values.reduction("sum", each, [along], dtype, keep=False)
    losses = elementwise(c, operation("neg"), rows)
    if reduction == "none" or not losses.sizes:
        return losses
    # The losses of rows are a kernel of their own; their sum is another.
    c.materialize(losses)
    dims = list(range(len(losses.sizes)))
    total = c.values.reduction("sum", losses, dims, dtype, keep=False)
    return divided_by(c, total, product(losses.sizes)) if reduction == "mean" else total


def _smoothed(
    c: Lowering,
    scores: Value,
    target: Value,
    weight: Value | None,
    losses: Value,
    along: int,
    ignored: int,
    smoothing: float,
) -> Value:
    """Part of the loss is that of all classes alike."""
    source = as_dtype(c, scores, wide(scores.dtype))
    dtype = source.dtype
    if weight is not None:
        weights = as_dtype(c, weight, dtype)
        parents, plain = (source, weights), source

        def weighted(index: Index) -> Scalar:
            return op("mul", plain.at(index), weights.at((index[along],)))

        source = c.values.new(scores.sizes, dtype, weighted, parents, cost=1)
    every = c.values.reduction("sum", source, [along], dtype, keep=False)
    mean = divided_by(c, every, scores.sizes[along])

    def at(index: Index) -> Scalar:
        label = cast(target.at(index), "i64")
        counts = test("ne", label, constant_like(ignored, label))
        alike = op("neg", mean.at(broadcast_index(mean.sizes, target.sizes, index)))
        alike = where(counts, alike, constant_like(0, alike))
        own = op("mul", losses.at(index), constant_like(1 - smoothing, alike))
        return op("add", own, op("mul", alike, constant_like(smoothing, alike)))

    return c.values.new(target.sizes, dtype, at, (mean, losses, target), cost=6)
