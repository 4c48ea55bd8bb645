"""Sums of products over labelled dimensions.

Torch lines up the dimensions of all operands, those of the result in its order, then those that are
summed, and multiplies from the left, two at a time. A product over summed dimensions is a batched
matrix product, whose result is seen in the order of the labels without a copy, so that the layout
tells which operand a dimension came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import torch

from anyshape.errors import UnknownOperator
from anyshape.ops.broadcast import broadcast
from anyshape.ops.elementwise import pointwise_meta, same
from anyshape.ops.families.matmul import require_one_dtype, require_same
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.meta import Meta, Strided, contiguous, dense_strides
from anyshape.ops.onnx import Node, Writer
from anyshape.ops.op import Op, OpKind, gradient, onnx
from anyshape.ops.promotion import result_type
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Expr, Facts, Size, eq, gt, ne, or_

#: How many sizes may be left open; each doubles the cases to compare.
_MOST_OPEN = 3

#: A letter, or a position in the ellipsis counted from the right: -1, -2 …
Label = str | int
_ONE = "a dimension of size 1 changes the order in which factors are multiplied, and so the layout"


def _einsum(q: ShapeQuery, *args: Any) -> Meta:
    terms, output, operands = _parsed(q, args)
    if (
        len(operands) > 2
        and torch.backends.opt_einsum.enabled
        and torch.backends.opt_einsum.is_available()
    ):
        raise UnknownOperator(op=q.op)  # the order of multiplication depends on the sizes
    labels = [_spread(q, term, operand.rank) for term, operand in zip(terms, operands, strict=True)]
    order = _order(q, labels, output)
    lined = [_diagonal(q, *pair) for pair in zip(labels, operands, strict=True)]
    sizes = _sizes(q, lined, order)
    shape = tuple(sizes[label] for label in order.kept)
    if len(lined) == 1:
        return _of_one(lined[0], order, shape)
    if _is_plain(lined, order):
        return operands[0].like(shape, _product_type(q, operands, order))
    return _multiplied(q, lined, order, shape)


def _parsed(q: ShapeQuery, args: tuple[Any, ...]) -> tuple[list[str], str | None, list[Meta]]:
    """The labels of each operand ("." for the ellipsis), those of the result if they are given, and
    the operands.
    """
    if isinstance(args[0], str):
        equation, *rest = args
        operands = list(rest[0] if len(rest) == 1 and isinstance(rest[0], list | tuple) else rest)
        equation = equation.replace(" ", "").replace("...", ".")
        inputs, arrow, output = equation.partition("->")
        terms = inputs.split(",")
    else:
        operands = list(args[: len(args) // 2 * 2 : 2])
        terms = [_letters(q, labels) for labels in args[1::2]]
        arrow = len(args) % 2
        output = _letters(q, args[-1]) if arrow else ""
    if len(terms) != len(operands):
        raise q.fail(f"{len(terms)} terms do not go with {len(operands)} operands")
    return terms, output if arrow else None, operands


def _letters(q: ShapeQuery, labels: Sequence[Any]) -> str:
    """The form with numbers: 0 to 25 are capitals, 26 to 51 small letters."""
    letters = (
        "." if label is ... else chr(label + (ord("A") if label < 26 else ord("a") - 26))
        for label in labels
    )
    return "".join(letters)


def _spread(q: ShapeQuery, term: str, rank: int) -> list[Label]:
    """One label a dimension: the ellipsis stands for as many dimensions as the letters leave."""
    left, dots, right = term.partition(".")
    missing = rank - len(left) - len(right)
    if missing < 0 or (missing and not dots) or (not (left + right).isalpha() and left + right):
        raise q.fail(f"`{term}` does not name the {rank} dimensions of its operand")
    return [*left, *range(-missing, 0), *right]


@dataclass(frozen=True, slots=True)
class _Order:
    """The labels of the result, and those that are summed, in the order torch gives them."""

    kept: list[Label]
    summed: list[Label]


def _order(q: ShapeQuery, labels: list[list[Label]], output: str | None) -> _Order:
    everywhere = [label for term in labels for label in term]
    dots: list[Label] = list(
        range(min((x for x in everywhere if isinstance(x, int)), default=0), 0)
    )
    letters = sorted({label for label in everywhere if isinstance(label, str)})
    if output is None:
        kept: list[Label] = dots + [letter for letter in letters if everywhere.count(letter) == 1]
    else:
        kept = [x for label in output for x in (dots if label == "." else [label])]
    if len(set(kept)) != len(kept) or not set(kept) <= set(everywhere):
        raise q.fail(f"the result's labels `{output}` must be labels of operands, each once")
    summed = [label for label in [*dots, *letters] if label not in kept]
    return _Order(kept, summed)


@dataclass(frozen=True, slots=True)
class _Factor:
    """An operand with one dimension a label."""

    meta: Meta
    labels: list[Label]

    def size(self, label: Label) -> Size:
        return self.meta.shape[self.labels.index(label)] if label in self.labels else 1

    def stride(self, label: Label) -> Size:
        return self.meta.strides[self.labels.index(label)] if label in self.labels else 0


def _diagonal(q: ShapeQuery, labels: list[Label], operand: Meta) -> _Factor:
    """A label that appears twice in a term walks along the diagonal."""
    if len(set(labels)) == len(labels):
        return _Factor(operand, labels)
    sizes: dict[Label, Size] = {}
    strides: dict[Label, Size] = {}
    for label, size, stride in zip(labels, operand.shape, operand.strides, strict=True):
        if label in sizes:
            require_same(q, sizes[label], size, f"the sizes of the repeated label {label}")
        sizes.setdefault(label, size)
        strides[label] = strides.get(label, 0) + stride
    seen = operand.viewed(tuple(sizes.values()), tuple(strides.values()))
    return _Factor(seen, list(sizes))


def _sizes(q: ShapeQuery, factors: list[_Factor], order: _Order) -> dict[Label, Size]:
    """The size of each label of the result; sizes of summed labels are only checked."""
    sizes: dict[Label, Size] = {}
    for label in order.kept:
        found = [(factor.size(label),) for factor in factors if label in factor.labels]
        (sizes[label],) = broadcast(q, found)
    for label in order.summed:
        first, *others = (factor.size(label) for factor in factors if label in factor.labels)
        for size in others:
            if size is not first and size != 1 and first != 1:
                fits = or_(eq(first, size), eq(first, 1), eq(size, 1))
                q.require(fits, f"sizes {first} and {size} of label {label} must match")
            first = size if first == 1 else first
    return sizes


def _of_one(factor: _Factor, order: _Order, shape: tuple[Size, ...]) -> Meta:
    if not order.summed:
        return factor.meta.viewed(shape, tuple(map(factor.stride, order.kept)))
    dtype = factor.meta.dtype
    whole = dtype.is_floating_point or dtype.is_complex
    return factor.meta.like(shape, dtype if whole else torch.int64)


def _product_type(q: ShapeQuery, operands: list[Meta], order: _Order) -> torch.dtype:
    return require_one_dtype(q, *operands) if order.summed else result_type(operands)


def _is_plain(factors: list[_Factor], order: _Order) -> bool:
    """Whether the result is contiguous whatever the sizes, because no operand has its labels in
    another order.

    Of two contiguous operands: first the labels of both, then those of the left, then those of the
    right. A size of 1 can only move a label behind the others, where it does not show. Where all
    summed sizes are 1 torch multiplies element by element, and the strides of these sizes must not
    come between those of the left and those of the right.
    """
    if len(factors) != 2 or not all(factor.meta.is_contiguous for factor in factors):
        return False
    left, right = factors
    places = [[order.kept.index(x) for x in f.labels if x in order.kept] for f in factors]
    if any(place != sorted(place) for place in places):
        return False
    both = set(places[0]) & set(places[1])
    groups = [sorted(both), sorted(set(places[0]) - both), sorted(set(places[1]) - both)]
    if [place for group in groups for place in group] != list(range(len(order.kept))):
        return False
    if not groups[1] or not groups[2]:
        return True
    own = [[order.kept[place] for place in group] for group in groups[1:]]
    if _ends_with(left.labels, [x for x in order.summed if x in left.labels], own[0]):
        return True
    return set(order.summed) <= set(right.labels) and _ends_with(right.labels, own[1], order.summed)


def _ends_with(labels: list[Label], later: list[Label], earlier: list[Label]) -> bool:
    """Whether all of `later` come after all of `earlier`."""
    places = [
        max(map(labels.index, earlier), default=-1),
        min(map(labels.index, later), default=len(labels)),
    ]
    return places[0] < places[1]


def _multiplied(
    q: ShapeQuery, factors: list[_Factor], order: _Order, shape: tuple[Size, ...]
) -> Meta:
    """The general case: as torch does it, with every dimension either 1 or not."""
    ones = _ones(q, factors, order)
    result = _product(q, factors, order, ones)
    return result.viewed(shape, result.strides[: len(shape)])


def _product(q: ShapeQuery, factors: list[_Factor], order: _Order, ones: frozenset[Size]) -> Meta:
    """The product with a dimension for every label, where exactly these sizes are 1."""
    labels = [*order.kept, *order.summed]
    lined = [_lined(q, factor, labels, ones) for factor in factors]
    count = {d: sum(x.shape[d] != 1 for x in lined) for d in range(len(labels))}
    while len(lined) > 1:
        left, right, *lined = lined
        summed: list[int] = []
        for d in range(len(order.kept), len(labels)):
            if left.shape[d] != 1 and right.shape[d] != 1:
                count[d] -= 1
                if count[d] == 1:
                    summed.append(d)
            elif count[d] == 1:
                if left.shape[d] != 1:
                    left = _summed(left, d)
                elif right.shape[d] != 1:
                    right = _summed(right, d)
        lined.insert(0, _pair(q, left, right, summed))
    return lined[0]


def _ones(q: ShapeQuery, factors: list[_Factor], order: _Order) -> frozenset[Size]:
    """The sizes that are 1. Of those that may be, it is only asked where the answer changes the
    layout.
    """
    labels = [*order.summed, *order.kept]
    sizes = dict.fromkeys(f.size(label) for label in labels for f in factors if label in f.labels)
    ones = frozenset(size for size in sizes if size == 1 or q.same(size, 1))
    others = [size for size in sizes if isinstance(size, Expr) and size not in ones]
    left: list[Size] = [size for size in others if not q.known(ne(size, 1))]
    while left and not (len(left) <= _MOST_OPEN and _all_agree(factors, order, ones, left)):
        size = left.pop(0)
        if q.decide(eq(size, 1), _ONE):
            ones |= {size}
    return ones


def _all_agree(
    factors: list[_Factor], order: _Order, ones: frozenset[Size], open_sizes: list[Size]
) -> bool:
    """Whether the layout is the same whichever of the open sizes are 1."""
    if not all(factor.meta.is_contiguous for factor in factors):
        return False  # the strides of sizes of 1 are anyone's guess
    names: dict[Size, int] = {size: -1 - place for place, size in enumerate(open_sizes)}
    shapes: list[tuple[int, ...]] = []
    for factor in factors:
        shape = [1 if size in ones else size for size in factor.meta.shape]
        shapes.append(
            tuple(
                size if isinstance(size, int) else names.setdefault(size, -1 - len(names))
                for size in shape
            )
        )
    labels = tuple(tuple(factor.labels) for factor in factors)
    return _agree(labels, tuple(order.kept), tuple(order.summed), tuple(shapes), len(open_sizes))


@lru_cache(maxsize=1024)
def _agree(
    labels: tuple[tuple[Label, ...], ...],
    kept: tuple[Label, ...],
    summed: tuple[Label, ...],
    shapes: tuple[tuple[int, ...], ...],
    open_sizes: int,
) -> bool:
    """The same for contiguous operands. Negative sizes stand for any above 1, the first ones of
    them also for 1; of contiguous operands their order is all that counts, so numbers will do.
    """
    order = _Order(list(kept), list(summed))
    usual: list[int] | None = None
    for chosen in product((False, True), repeat=open_sizes):
        values = {-1 - place: 1 for place, is_one in enumerate(chosen) if is_one}
        factors = [
            _Factor(
                _numbers([values.get(n, 10007 - 10 * n if n < 0 else n) for n in shape]), [*own]
            )
            for own, shape in zip(labels, shapes, strict=True)
        ]
        result = _product(ShapeQuery(Facts(), "einsum"), factors, order, frozenset({1}))
        sizes, strides = _known(result.shape), _known(result.strides)
        dims = [dim for dim in range(len(kept)) if sizes[dim] != 1]
        found = sorted(dims, key=lambda dim: -strides[dim])
        usual = found if usual is None else usual
        if [dim for dim in usual if dim in found] != found:
            return False
    return True


def _numbers(shape: list[int]) -> Meta:
    return Meta(tuple(shape), torch.float32, contiguous(len(shape)), torch.device("cpu"))


def _known(sizes: tuple[Size, ...]) -> list[int]:
    return [size for size in sizes if isinstance(size, int)]


def _lined(q: ShapeQuery, factor: _Factor, labels: list[Label], ones: frozenset[Size]) -> Meta:
    """The operand with a dimension for every label, of size 1 where it has none."""
    shape = tuple(1 if size in ones else size for size in map(factor.size, labels))
    strides = tuple(
        q.facts.simplify(factor.stride(label)) if label in factor.labels else 1 for label in labels
    )
    return replace(factor.meta, shape=shape, layout=Strided(strides))


def _summed(factor: Meta, dim: int) -> Meta:
    shape = (*factor.shape[:dim], 1, *factor.shape[dim + 1 :])
    whole = factor.dtype.is_floating_point or factor.dtype.is_complex
    strides = dense_strides(shape, tuple(range(len(shape))))
    return factor.like(shape, factor.dtype if whole else torch.int64, Strided(strides))


def _elementwise(q: ShapeQuery, left: Meta, right: Meta) -> Meta:
    pairs = list(zip(left.shape, right.shape, strict=True))
    if (1, 1) not in pairs or not (
        any(a == 1 != b for a, b in pairs) and any(b == 1 != a for a, b in pairs)
    ):
        return pointwise_meta(q, (left, right), same)
    # The strides of sizes of 1 decide the order of dimensions that no operand has both of.
    shape = tuple(b if a == 1 else a for a, b in pairs)
    order = _iterated(q, shape, (left, right))
    return left.like(shape, result_type((left, right)), Strided(dense_strides(shape, order)))


def _iterated(
    q: ShapeQuery, shape: tuple[Size, ...], operands: tuple[Meta, ...]
) -> tuple[int, ...]:
    """The order, outermost first, in which torch walks operands: an insertion sort that passes over
    pairs no operand tells apart.
    """
    strides = [
        [
            0 if a == 1 != b else s
            for a, b, s in zip(operand.shape, shape, operand.strides, strict=True)
        ]
        for operand in operands
    ]

    def compare(inner: int, outer: int) -> int:
        for stride in strides:
            if stride[inner] == 0 or stride[outer] == 0:
                continue
            if not q.decide(eq(stride[inner], stride[outer]), _ONE):
                return 1 if q.decide(gt(stride[inner], stride[outer]), _ONE) else -1
            if q.decide(gt(shape[inner], shape[outer]), _ONE):
                return 1
        return 0

    order = list(reversed(range(len(shape))))
    for place in range(1, len(order)):
        here = place
        for before in range(place - 1, -1, -1):
            found = compare(order[before], order[here])
            if found < 0:
                break
            if found > 0:
                order[before], order[here] = order[here], order[before]
                here = before
    return tuple(reversed(order))


def _pair(q: ShapeQuery, left: Meta, right: Meta, summed: list[int]) -> Meta:
    """The product of two, summed over dimensions that both have."""
    if not summed:
        return _elementwise(q, left, right)
    dtype = require_one_dtype(q, left, right)
    both, only_left, only_right = [], [], []
    for d, (a, b) in enumerate(zip(left.shape, right.shape, strict=True)):
        if d not in summed:
            (both if a != 1 and b != 1 else only_left if a != 1 else only_right).append(d)
    if only_left and only_right and only_right[-1] < only_left[0]:
        only_left, only_right = only_right, only_left
    memory = [*both, *only_left, *summed, *only_right]
    shape = tuple(
        1 if d in summed else b if a == 1 else a
        for d, (a, b) in enumerate(zip(left.shape, right.shape, strict=True))
    )
    strides: list[Size] = [0] * len(shape)
    step: Size = 1
    for d in reversed(memory):
        strides[d] = step
        step = step * shape[d]
    return left.like(shape, dtype, Strided(tuple(strides)))


ROWS: tuple[Op, ...] = (
    # Of one operand, of which nothing is summed, it is a view.
    Op("einsum", ("torch.einsum", "torch.functional.einsum"), _einsum, OpKind.VIEW),
)


# -- gradients ------------------------------------------------------------------------------------


@gradient("einsum")
def gradient_einsum(grad: Term, args: Any) -> Gradients:
    """The same product with the gradient in place of an operand."""
    equation, *rest = args
    if not isinstance(equation, str):
        raise NoGradient("labels that are numbers")
    listed = len(rest) == 1 and isinstance(rest[0], list | tuple)
    operands: list[Term] = list(rest[0]) if listed else rest
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow:
        output = "".join(sorted(each for each in set(inputs) - {","} if inputs.count(each) == 1))
    _must_be_plain(grad, terms, operands, output)
    own: list[Term] = []
    for number, term in enumerate(terms):
        labels = [output, *terms[:number], *terms[number + 1 :]]
        if not set(term) <= set("".join(labels)):
            raise NoGradient("a dimension that is summed alone")
        others = [grad, *operands[:number], *operands[number + 1 :]]
        own.append(grad.records.record(torch.einsum, f"{','.join(labels)}->{term}", *others))
    return {"args": [None, own] if listed else [None, *own]}


def _must_be_plain(grad: Term, terms: list[str], operands: list[Term], output: str) -> None:
    """No ellipsis, no diagonal, and nothing stretched."""
    sizes: dict[str, Size] = {}
    for term, operand in zip(terms, operands, strict=True):
        if not term.isalpha() or len(set(term)) < len(term) or len(term) != operand.rank:
            raise NoGradient("an ellipsis, a diagonal, or a 0-d tensor")
        for label, size in zip(term, operand.shape, strict=True):
            if not grad.records.is_same(sizes.setdefault(label, size), size):
                raise NoGradient("whether it was broadcast is not known")


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("einsum")
def onnx_einsum(w: Writer, node: Node, args: Any) -> str:
    equation, *operands = args
    given = operands[0] if isinstance(operands[0], tuple | list) else operands
    dtype = w.dtype(node)
    return w.add("Einsum", [w.name(each, dtype) for each in given], equation=equation)
