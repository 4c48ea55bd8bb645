"""Losses of scores against classes: cross entropy, log likelihood, margins over classes, CTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.ops.families.reductions import divided_by, reduced, require_float
from anyshape.ops.families.softmax import exponentials
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.lowering.pointwise_builder import as_dtype, broadcast_index, elementwise
from anyshape.ops.lowering.scalars import cast, constant_like, op, operation, test, where, wide
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import PURE, Effects, Op, OpKind, Rule, casts_between, gradient, lower, onnx
from anyshape.ops.promotion import result_type
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, eq, ge, le, maximum, ne, or_, product, total

#: reduce(questions, loss of each element, name of the reduction)
Reduction = Callable[[ShapeQuery, Meta, str], Meta]


def _lessened(q: ShapeQuery, loss: Meta, reduction: str) -> Meta:
    """The loss of each element, or the number that they are reduced to."""
    return loss if reduction == "none" else loss.like(())


def functional_row(
    rule: Rule, signature: str, reduce: Reduction = _lessened, effects: Effects = PURE
) -> Op:
    """In `torch.nn.functional` a reduction has a name, and two older flags win over it."""
    name = rule.__name__
    called = _called(rule, reduce)
    names = (f"torch.nn.functional.{name}",)
    return Op(name, names, called, OpKind.CALL_OUT, signature=signature, effects=effects)


def torch_row(name: str, rule: Rule, signature: str, reduce: Reduction = _lessened) -> Op:
    """In `torch` a reduction is a number, which when left out is 0: none."""
    called = _called(rule, reduce)
    return Op(name, (f"torch.{name}",), called, OpKind.CALL_OUT, signature=signature)


def _called(rule: Rule, reduce: Reduction) -> Rule:
    """A rule for the loss of each element as torch calls it."""

    def called(q: ShapeQuery, reduction: str, **given: Any) -> Meta:
        loss = rule(q, **given)
        if reduction not in ("none", "mean", "sum", "batchmean"):
            raise q.fail(f"there is no reduction {reduction!r}")
        return reduce(q, loss, reduction)

    return called


def require_sizes(
    q: ShapeQuery, shape: Sequence[Size], wanted: Sequence[Size], detail: str
) -> None:
    if len(shape) != len(wanted):
        raise q.fail(f"{detail}: {tuple(shape)} and {tuple(wanted)}")
    for size, other in zip(shape, wanted, strict=True):
        if size is not other:
            q.require(eq(size, other), detail)


def nll_loss(
    q: ShapeQuery, input: Meta, target: Meta, weight: Meta | None = None, **_: Any
) -> Meta:
    require_float(q, input.dtype)
    if not input.rank or target.dtype not in (torch.int64, torch.uint8):
        raise q.fail(f"scores of {input.rank} dimensions with classes of {target.dtype}")
    classes = input.shape[0 if input.rank == 1 else 1]
    if input.rank == 1:
        if target.rank > 1:
            raise q.fail("one row of scores is for one class")
        require_sizes(q, target.shape or (1,), (1,), "one row of scores is for one class")
        shape: tuple[Size, ...] = ()
    else:
        shape = (input.shape[0], *input.shape[2:])
        require_sizes(q, target.shape, shape, "there must be one class for each row of scores")
    if weight is not None:
        require_sizes(q, weight.shape, (classes,), "there must be one weight for each class")
        if weight.dtype != input.dtype:
            raise q.fail(f"weights of {weight.dtype} for scores of {input.dtype}")
    # A class out of range is an error of the data, but without classes there is none in range.
    q.require(or_(ne(classes, 0), *(eq(size, 0) for size in shape)), "there must be a class")
    return input.like(shape)


def cross_entropy(
    q: ShapeQuery, input: Meta, target: Meta, weight: Meta | None = None, **_: Any
) -> Meta:
    if target.rank != input.rank or not target.dtype.is_floating_point:
        if input.rank == target.rank == 1:
            q.require(ne(input.shape[0], 1), "a class and a probability could not be told apart")
        return nll_loss(q, input, target, weight)
    if not input.rank:
        raise q.fail("scores must have dimensions")
    require_float(q, input.dtype)
    require_sizes(q, target.shape, input.shape, "there must be a probability for each score")
    along = 0 if input.rank == 1 else 1
    operands = [input, target]
    if weight is not None:
        require_sizes(
            q, weight.shape, (input.shape[along],), "there must be one weight for each class"
        )
        operands.append(weight)
    return input.like(reduced(input.shape, (along,), False), result_type(operands))


def linear_cross_entropy(
    q: ShapeQuery,
    input: Meta,
    linear_weight: Meta,
    target: Meta,
    linear_bias: Meta | None = None,
    weight: Meta | None = None,
    options: Any = None,
    **_: Any,
) -> Meta:
    if input.rank not in (1, 2) or linear_weight.rank < 2:
        raise q.fail("a vector or a matrix and its weights are needed")
    q.require(eq(input.shape[-1], linear_weight.shape[-1]), "both must have as many features")
    if linear_bias is not None:
        require_sizes(
            q, linear_bias.shape, linear_weight.shape[:-1], "there must be one bias for each score"
        )
    classes, *others = linear_weight.shape[:-1]
    if others and input.rank == 1:
        raise q.fail("several losses need a batch")
    if options is not None:
        # In chunks torch takes the greatest score of each row. It does so for some targets only,
        # and for more of them in each version; of no scores there is no loss that anyone misses.
        q.require(ne(classes, 0), "there must be a class")
    logits = input.like((*input.shape[:-1], classes, *others))
    return cross_entropy(q, logits, target, weight)


def multi_margin_loss(
    q: ShapeQuery, input: Meta, target: Meta, weight: Meta | None = None, **_: Any
) -> Meta:
    classes, batch = _rows_of_classes(q, input)
    if target.rank > 1:
        raise q.fail("there must be one class for each row")
    require_sizes(q, target.shape or (1,), (batch,), "there must be one class for each row")
    if weight is not None:
        require_sizes(q, weight.shape, (classes,), "there must be one weight for each class")
    return input.like(target.shape)


def multilabel_margin_loss(q: ShapeQuery, input: Meta, target: Meta, **_: Any) -> Meta:
    _rows_of_classes(q, input)
    shape, wanted = (target.shape, input.shape) if input.shape else (target.shape or (1,), (1,))
    require_sizes(q, shape, wanted, "there must be a label for each score")
    return input.like(input.shape[:1] if input.rank == 2 else ())


def _rows_of_classes(q: ShapeQuery, input: Meta) -> tuple[Size, Size]:
    """The number of classes and of rows of a vector or a matrix of scores."""
    require_float(q, input.dtype)
    if input.rank > 2:
        raise q.fail(f"a vector or a matrix of scores is needed, not {input.rank} dimensions")
    classes = input.shape[-1] if input.shape else 1
    q.require(ne(classes, 0), "there must be a class")
    return classes, input.shape[0] if input.rank == 2 else 1


def ctc_loss(
    q: ShapeQuery,
    log_probs: Meta,
    targets: Meta,
    input_lengths: Meta | Sequence[Size],
    target_lengths: Meta | Sequence[Size],
    **_: Any,
) -> Meta:
    require_float(q, log_probs.dtype)
    if log_probs.rank not in (2, 3):
        raise q.fail("log probabilities are by time, batch and class")
    for size in log_probs.shape:
        q.require(ne(size, 0), "log probabilities may not be empty")
    shape = log_probs.shape[1:-1]
    batch = shape[0] if shape else 1
    _require_lengths(q, input_lengths, batch, log_probs.shape[0])
    if targets.rank == 2:
        q.require(eq(targets.shape[0], batch), "there must be a row of targets for each sequence")
        _require_lengths(q, target_lengths, batch, targets.shape[1])
    elif targets.rank == 1:
        _require_lengths(q, target_lengths, batch, targets.shape[0])
        if not isinstance(target_lengths, Meta):
            joined = total(tuple(target_lengths))
            q.require(eq(targets.shape[0], joined), "the targets are all sequences, joined")
    else:
        raise q.fail("targets are a matrix, or rows joined to a vector")
    return log_probs.like(shape)


def _require_lengths(
    q: ShapeQuery, lengths: Meta | Sequence[Size], batch: Size, most: Size
) -> None:
    """A length for each sequence. In a tensor they are data, as numbers they are compared."""
    count = (lengths.shape or (1,))[0] if isinstance(lengths, Meta) else len(lengths)
    q.require(eq(count, batch), "there must be a length for each sequence")
    if not isinstance(lengths, Meta) and lengths:
        q.require(le(maximum(*lengths), most), "a sequence may not be longer than the data")


_CTC = (
    "log_probs, targets, input_lengths, target_lengths, blank=0, reduction={}, zero_infinity=False"
)

_MEAN = "size_average=None, reduce=None, reduction='mean'"

#: Positions among classes; probabilities may be any.
_OF_CLASSES: Final = Effects(total=True, indexes=True)
_CLASSES = (
    "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, "
    "reduction='mean'"
)

ROWS: tuple[Op, ...] = (
    functional_row(nll_loss, _CLASSES, effects=_OF_CLASSES),
    functional_row(cross_entropy, f"{_CLASSES}, label_smoothing=0.0", effects=_OF_CLASSES),
    functional_row(
        linear_cross_entropy,
        "input, linear_weight, target, *, linear_bias=None, weight=None, reduction='mean', "
        "ignore_index=None, label_smoothing=0.0, options=None",
    ),
    functional_row(multi_margin_loss, f"input, target, p=1, margin=1.0, weight=None, {_MEAN}"),
    functional_row(multilabel_margin_loss, f"input, target, {_MEAN}"),
    functional_row(ctc_loss, _CTC.format("'mean'")),
    torch_row("ctc_loss", ctc_loss, _CTC.format(0)),
)


@casts_between("cross_entropy")
def calls_of_cross_entropy(
    run: Callable[..., Any],
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: Any = -100,
    reduce: Any = None,
    reduction: Any = "mean",
    label_smoothing: Any = 0.0,
) -> Any:
    if size_average is not None or reduce is not None or label_smoothing != 0:
        raise NoGradient("older flags, or smoothed labels")
    known = getattr(input, "meta", input)
    dim = 1 if len(known.shape) > 1 else 0
    functions = torch.nn.functional
    logs = run(functions.log_softmax, input, dim, dtype=known.dtype)
    rest = {"ignore_index": ignore_index, "reduction": reduction}
    return run(functions.nll_loss, logs, target, weight, **rest)


# -- native code ----------------------------------------------------------------------------------


def class_at(c: Lowering, input: Value, target: Value, along: int, ignored: int, index: Index):
    """Where the score of the class is: its class as a position, and whether it counts."""
    label = cast(target.at(index), "i64")
    counts = test("ne", label, constant_like(ignored, label))
    zero = constant_like(0, label)
    classes = expr.index(input.sizes[along])
    inside = test("and", test("ge", label, zero), test("lt", label, classes))
    valid = test("or", inside, test("not", counts))
    safe = where(test("and", inside, counts), label, zero)
    return expr.position(safe, valid, expr.NO_CLASS), counts


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
        return as_dtype(c, losses, gives)
    # The losses of rows are a kernel of their own; their sum is another.
    c.values.check_reduced(losses, dims)
    c.materialize(losses)
    total = c.values.reduction("sum", losses, dims, losses.dtype, keep=False)
    if how == "mean":
        whole = c.values.reduction("sum", shares, dims, losses.dtype, keep=False)
        total = elementwise(c, operation("div"), total, whole)
    return as_dtype(c, total, gives)


def _checked(input: Value, target: Value, ignored: Any) -> None:
    if input.dtype not in FLOATS or target.dtype not in ("i64", "u8"):
        raise NotLowered("scores are floats, classes are integers")
    if type(ignored) is not int:
        raise NotLowered("the ignored class is not known")
    if len(input.sizes) == 1 and target.sizes:
        raise NotLowered("a class in a tensor of one dimension")


@lower("nll_loss")
def lower_nll_loss(
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


@lower("cross_entropy")
def lower_cross_entropy(
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
        cost=6,
    )
    return as_dtype(c, logs, input.dtype)


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
        raise NotLowered("probabilities of 16-bit floats, or of another dtype")
    if not c.same_sizes(scores.sizes, target.sizes):
        raise NotLowered("probabilities of other sizes")
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
    dims = list(range(len(losses.sizes)))
    c.values.check_reduced(losses, dims)
    c.materialize(losses)
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


# -- gradients ------------------------------------------------------------------------------------


def _classes(input: Term, along: int) -> tuple[Term, Any]:
    """The number of each class, and the shape of what is stretched over all but classes."""
    size = input.shape[along]
    shape = [size, *[1] * (input.rank - 1 - along)]
    classes = input.records.record(torch.arange, size, device=input.meta.device)
    return (classes.reshape(shape) if len(shape) > 1 else classes), shape


def _share(smoothing: Any, input: Term, along: int) -> Any:
    """What smoothing gives to each class."""
    number = input.shape[along]
    if type(number) is int:
        return smoothing / number if number else 0.0
    options = {"dtype": input.dtype, "device": input.meta.device}
    return input.records.record(torch.full, (), smoothing, **options) / number


@gradient("cross_entropy")
def gradient_cross_entropy(
    grad: Term,
    input: Term,
    target: Term,
    weight: Any,
    ignore_index: Any,
    reduction: Any,
    label_smoothing: Any,
) -> Gradients:
    """Of each row: softmax times all that is wanted, less what is wanted of each class."""
    along = 0 if input.rank == 1 else 1
    scores = input.softmax(along)
    classes, shape = _classes(input, along)
    by_class = None if weight is None else weight.reshape(shape)
    chances = target.rank == input.rank and target.dtype.is_floating_point
    counts: Any = None
    if chances:
        wanted, total = target, product([*input.shape[:along], *input.shape[along + 1 :]])
    else:
        if target.rank >= input.rank:
            raise NoGradient("one row of scores, and its class")
        column = target.unsqueeze(along)
        counts = column.ne(ignore_index)
        wanted = column.eq(classes).logical_and(counts).to(input.dtype)
        total = (wanted if by_class is None else wanted * by_class).sum()
    if label_smoothing != 0:
        wanted = wanted * (1 - label_smoothing) + _share(label_smoothing, input, along)
    if by_class is not None:
        wanted = wanted * by_class
    plain = by_class is None and not chances
    own = (scores if plain else scores * wanted.sum(along, True)) - wanted
    if reduction == "none":
        scale = grad.unsqueeze(along)
    else:
        scale = grad / total if reduction == "mean" else grad
    if not chances:
        return {"input": (own * scale).where(counts, 0.0)}
    slope = input.log_softmax(along) * -scale * (1 - label_smoothing)
    return {"input": own * scale, "target": slope if by_class is None else slope * by_class}


@gradient("nll_loss")
def gradient_nll_loss(
    grad: Term, input: Term, target: Term, weight: Any, ignore_index: Any, reduction: Any
) -> Gradients:
    along = 0 if input.rank == 1 else 1
    if target.rank >= input.rank:
        raise NoGradient("one row of scores, and its class")
    classes, shape = _classes(input, along)
    column = target.unsqueeze(along)
    hit = column.eq(classes).logical_and(column.ne(ignore_index))
    own = hit.to(input.dtype)
    if weight is not None:
        own = own * weight.reshape(shape)
    if reduction == "none":
        scale = grad.unsqueeze(along)
    else:
        scale = grad / own.sum() if reduction == "mean" else grad
    return {"input": (own * -scale).where(hit, 0.0)}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("cross_entropy")
def onnx_cross_entropy(
    w: Writer,
    node: Node,
    input: Any,
    target: Any,
    weight: Any,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> str:
    if w.dtype(target).is_floating_point or label_smoothing or w.rank(input) < 2:
        raise NotMapped("a cross entropy with probabilities, or without a batch")
    inputs = [w.name(input), w.name(target)] + ([] if weight is None else [w.name(weight)])
    return w.add("SoftmaxCrossEntropyLoss", inputs, ignore_index=ignore_index, reduction=reduction)
