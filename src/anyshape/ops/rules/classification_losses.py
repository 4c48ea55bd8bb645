"""Losses of scores against classes: cross entropy, log likelihood, margins over classes, CTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from anyshape.ops.meta import Meta
from anyshape.ops.op import Op, OpKind, Rule
from anyshape.ops.promotion import result_type
from anyshape.ops.rules.reductions import reduced, require_float
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, eq, le, maximum, ne, or_, total

#: reduce(questions, loss of each element, name of the reduction)
Reduction = Callable[[ShapeQuery, Meta, str], Meta]


def _lessened(q: ShapeQuery, loss: Meta, reduction: str) -> Meta:
    """The loss of each element, or the number that they are reduced to."""
    return loss if reduction == "none" else loss.like(())


def functional_row(rule: Rule, signature: str, reduce: Reduction = _lessened) -> Op:
    """In `torch.nn.functional` a reduction has a name, and two older flags win over it."""
    name = rule.__name__
    called = _called(rule, reduce)
    names = (f"torch.nn.functional.{name}",)
    return Op(name, names, called, OpKind.CALL_OUT, signature=signature)


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
_CLASSES = (
    "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, "
    "reduction='mean'"
)
ROWS: tuple[Op, ...] = (
    functional_row(nll_loss, _CLASSES),
    functional_row(cross_entropy, f"{_CLASSES}, label_smoothing=0.0"),
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
