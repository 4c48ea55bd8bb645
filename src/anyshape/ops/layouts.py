"""Questions about layouts: is it contiguous, and can it be seen in another shape without a copy.

Torch asks such questions of numbers, and a dimension of size 1 fits anywhere. Here the answer is
wanted for all sizes. `as_view` first looks for strides that are right whatever the sizes;
contiguous tensors always have them. Where there are none, it takes the general case apart: what
keeps the tensor from being a view, and at which sizes that vanishes. A size at which eager returns
a view with the same strides as the copy needs no decision; it is told as `Copy.shares_if`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import Final

from anyshape.errors import Contradiction
from anyshape.ops.meta import Dense, Meta, contiguous, dense_strides
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import (
    Expr,
    Fact,
    Facts,
    Size,
    Symbol,
    and_,
    eq,
    evaluate,
    ge,
    ne,
    not_,
    or_,
    product,
)

_A_VIEW: Final = "whether the new shape can be a view, and with which strides"


@dataclass(frozen=True, slots=True)
class Copy:
    """No view for all sizes. Where `shares_if` holds eager has one, with the strides of a copy."""

    shares_if: Fact | None = None


@lru_cache(maxsize=4096)
def contiguity(meta: Meta, layout: Dense | None = None) -> Fact:
    """Whether torch says `is_contiguous`, or so in another layout, of a tensor that has elements
    (one without always is).
    """
    usual = dense_strides(meta.shape, (layout or contiguous(meta.rank)).order)
    return and_(
        *(
            or_(eq(size, 1), eq(stride, wanted))
            for size, stride, wanted in zip(meta.shape, meta.strides, usual, strict=True)
        )
    )


@dataclass(frozen=True, slots=True)
class Steps:
    """How a tensor goes through memory: sizes and strides, outermost first."""

    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]


def as_view(q: ShapeQuery, meta: Meta, shape: tuple[Size, ...]) -> tuple[Size, ...] | Copy:
    """The strides that show a tensor in another shape of as many elements, or that it has to be
    copied.
    """
    found = _viewed_or_copied(q, meta, shape)
    return found if isinstance(found, Copy) else _with_ones(q, meta, shape, found)


def _viewed_or_copied(
    q: ShapeQuery, meta: Meta, shape: tuple[Size, ...]
) -> tuple[Size, ...] | Copy:
    found = _at_once(meta, shape)
    if found is None:
        found = _for_all_sizes(Steps(meta.shape, meta.strides), shape)
    if found is not None:
        return found
    steps = _joined(q, Steps(meta.shape, meta.strides))
    found = _laid_on(q, steps, shape)
    if found is not None:
        return found
    general = _general(q, steps, shape)
    if _broken(steps, shape, general) is not None:
        parts = _obstacle(q, steps, shape, general)
        sharing = [part for part in parts if _is_contiguous_view(q, part, steps, shape)]
        if all(q.decide_or(part, True, _A_VIEW) for part in parts if part not in sharing):
            return Copy(or_(*map(not_, sharing)) if sharing else None)
    return _as_in_this_run(q, steps, shape)


def must_view(q: ShapeQuery, meta: Meta, shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """The strides that show a tensor in another shape; an error where there are none."""
    found = _at_once(meta, shape)
    if found is None:
        steps = _joined(q, Steps(meta.shape, meta.strides))
        found = _laid_on(q, steps, shape) or _as_in_this_run(q, steps, shape)
    if isinstance(found, Copy):
        raise q.fail(
            f"strides {meta.strides} of shape {meta.shape} do not allow a view of shape {shape}"
        )
    return _with_ones(q, meta, shape, found)


def _with_ones(
    q: ShapeQuery, meta: Meta, shape: tuple[Size, ...], strides: tuple[Size, ...]
) -> tuple[Size, ...]:
    """The strides where sizes may be 1: the stride of such a dimension is then that of what lies
    inside of it, by which torch does not take the view for channels-last any more."""
    if len(shape) not in (4, 5) or meta.shape == shape:
        return strides
    if any(type(size) is int and size == 0 for size in shape):
        return strides  # of nothing, torch says that it is not
    if not _looks_channels_last(q, shape, strides):
        return strides
    why = "a size of 1 leaves open whether a view is channels-last"
    decided = tuple(
        1 if type(size) is not int and not q.decide(ne(size, 1), why) else size for size in shape
    )
    if decided == shape:
        return strides
    return _laid_on(q, _joined(q, Steps(meta.shape, meta.strides)), decided) or strides


def _looks_channels_last(q: ShapeQuery, shape: tuple[Size, ...], strides: tuple[Size, ...]) -> bool:
    """Whether all dimensions but the batch lie as in a channels-last tensor, be it with gaps."""
    inside = (1, *range(len(shape) - 1, 1, -1))
    steps = pairwise(inside)
    return all(q.known(ge(strides[b], strides[a] * shape[a])) for a, b in steps)


@lru_cache(maxsize=4096)
def _for_all_sizes(steps: Steps, shape: tuple[Size, ...]) -> tuple[Size, ...] | Copy | None:
    """What can be said without knowing anything of the sizes; most calls are answered here."""
    q = ShapeQuery(Facts(), "view")
    steps = _joined(q, steps)
    found = _laid_on(q, steps, shape)
    if found is not None:
        return found
    general = _general(q, steps, shape)
    if _broken(steps, shape, general) is None:
        return None
    parts = _obstacle(q, steps, shape, general)
    if not all(_is_contiguous_view(q, part, steps, shape) for part in parts):
        return None
    return Copy(or_(*map(not_, parts)) if parts else None)


def _at_once(meta: Meta, shape: tuple[Size, ...]) -> tuple[Size, ...] | None:
    if meta.is_contiguous:
        return dense_strides(shape, contiguous(len(shape)).order)
    return meta.strides if meta.shape == shape else None


def _joined(q: ShapeQuery, steps: Steps) -> Steps:
    """The same with neighbours made one that step through memory as one whatever their sizes."""
    runs: list[tuple[Size, Size]] = []
    for size, stride in zip(reversed(steps.sizes), reversed(steps.strides), strict=True):
        if size == 1 or q.same(size, 1):
            continue
        if runs and q.same(stride, runs[-1][0] * runs[-1][1]):
            runs[-1] = (runs[-1][0] * size, runs[-1][1])
        else:
            runs.append((size, stride))
    runs.reverse()
    return Steps(tuple(size for size, _ in runs), tuple(stride for _, stride in runs))


def _laid_on(q: ShapeQuery, steps: Steps, shape: tuple[Size, ...]) -> tuple[Size, ...] | None:
    """Strides of a view with that shape that are right for all sizes, if they are to be found."""
    strides: list[Size] = [1] * len(shape)
    dim = len(shape)
    taken: Size = 1
    stride: Size = 1
    for numel, stride in zip(reversed(steps.sizes), reversed(steps.strides), strict=True):
        taken = 1
        while not q.same(taken, numel):
            dim -= 1
            if dim < 0:
                return None
            strides[dim] = taken * stride
            taken = taken * shape[dim]
        while dim and shape[dim - 1] == 1:  # what lies inside says their strides, as in torch
            dim -= 1
            strides[dim] = taken * stride
    if not all(size == 1 or q.same(size, 1) for size in shape[:dim]):
        return None
    strides[:dim] = [taken * stride] * dim
    return tuple(strides)


def _general(q: ShapeQuery, steps: Steps, shape: tuple[Size, ...]) -> Mapping[Symbol, int]:
    """Values that stand for the general case: those of this run, but nothing is 0, 1 or unknown by
    accident.
    """
    values = dict(q.facts.hints)
    symbols: set[Symbol] = set()
    for size in (*steps.sizes, *steps.strides, *shape):
        if type(size) is Expr:
            symbols |= size.symbols
    prime = iter((10007, 10037, 10061, 10079, 10099, 10133, 10151, 10169, 10193, 10223))
    for symbol in sorted(symbols, key=lambda symbol: symbol.index):
        if values.get(symbol, 0) < 2:
            values[symbol] = next(prime, 10247)
    return values


def _suffixes(shape: Sequence[Size]) -> list[Size]:
    """How many elements lie in the last 0, 1, 2 … dimensions."""
    found: list[Size] = [1]
    for size in reversed(shape):
        found.append(found[-1] * size)
    return found


def _broken(
    steps: Steps, shape: tuple[Size, ...], values: Mapping[Symbol, int]
) -> tuple[int, int] | None:
    """The innermost two dimensions above 1 that do not step as one though the new shape joins them;
    None if there are none.
    """
    sizes = [evaluate(size, values) for size in steps.sizes]
    strides = [evaluate(stride, values) for stride in steps.strides]
    ends = {evaluate(end, values) for end in _suffixes(shape)}
    inner, end = -1, 1
    for dim in range(len(sizes) - 1, -1, -1):
        if sizes[dim] == 1:
            continue
        if inner >= 0 and strides[dim] != sizes[inner] * strides[inner] and end not in ends:
            return dim, inner
        inner, end = dim, end * sizes[dim]
    return None


def _obstacle(
    q: ShapeQuery, steps: Steps, shape: tuple[Size, ...], values: Mapping[Symbol, int]
) -> list[Fact]:
    """Facts that together keep the tensor from being a view, all of them true for these values."""
    broken = _broken(steps, shape, values)
    assert broken is not None, "asked where a view exists"
    outer, inner = broken
    sizes = steps.sizes
    between = [eq(size, 1) for size in sizes[outer + 1 : inner]]
    end = product(sizes[inner:])
    above_one: list[Size] = [sizes[outer], sizes[inner]]
    parts = [*between, ne(sizes[outer], 1), ne(sizes[inner], 1)]
    pairs = [(steps.strides[outer], sizes[inner] * steps.strides[inner])]
    pairs += [(end, other) for other in _suffixes(shape)]
    for a, b in pairs:
        a, b = _without_common(sizes, a, b)
        if (a == 1 and _multiple(b, above_one)) or (b == 1 and _multiple(a, above_one)):
            continue
        if (a == 0) != (b == 0):
            continue  # Where there are elements, what is not written as 0 is not 0.
        parts.append(ne(a, b))
    return [part for part in dict.fromkeys(parts) if not q.known(part)]


def _without_common(sizes: Sequence[Size], a: Size, b: Size) -> tuple[Size, Size]:
    """Both divided by what they share, of sizes too: as good as the two wherever there are
    elements.
    """
    shared = gcd(_content(a), _content(b))
    if shared > 1:
        a, b = a // shared, b // shared
    for size in sizes:
        if type(size) is Expr:
            while (
                type(a) is Expr
                and type(b) is Expr
                and _multiple(a, [size])
                and _multiple(b, [size])
            ):
                a, b = a // size, b // size
    return a, b


def _content(a: Size) -> int:
    return a if type(a) is int else gcd(*(coefficient for _, coefficient in a.terms))  # pyright: ignore[reportAttributeAccessIssue] an Expr, then


def _multiple(a: Size, of: Sequence[Size]) -> bool:
    """Whether `a` is plainly a product with one of these as a factor."""
    return any(
        a is size or (type(a) is Expr and size != 0 and a // size * size == a) for size in of
    )


def _is_contiguous_view(q: ShapeQuery, part: Fact, steps: Steps, shape: tuple[Size, ...]) -> bool:
    """Whether, where the part does not hold, there is a view, and with the strides of a copy."""
    try:
        case = ShapeQuery(q.facts.assume(not_(part), _A_VIEW), q.op)
    except Contradiction:
        return True
    seen = _laid_on(case, _joined(case, steps), shape)
    if seen is None:
        return False
    usual = dense_strides(shape, contiguous(len(shape)).order)
    return all(
        case.same(a, b) or case.same(size, 1) for size, a, b in zip(shape, seen, usual, strict=True)
    )


def _as_in_this_run(
    q: ShapeQuery, steps: Steps, shape: tuple[Size, ...]
) -> tuple[Size, ...] | Copy:
    """View or copy as in this run, for the sizes that agree with it in all that matters."""
    values = q.facts.hints
    if any(q.facts.hint(size) is None for size in (*steps.sizes, *steps.strides, *shape)):
        values = _general(q, steps, shape)
    elif q.facts.hint(product(steps.sizes)) == 0:
        q.decide(eq(product(steps.sizes), 0), "a tensor without elements has all shapes")
        return dense_strides(shape, contiguous(len(shape)).order)
    if _broken(steps, shape, values) is not None:
        for part in _obstacle(q, steps, shape, values):
            q.decide_or(part, True, _A_VIEW)
        return Copy()
    return _fitting_strides(q, steps, shape, values)


def _fitting_strides(
    q: ShapeQuery, steps: Steps, shape: tuple[Size, ...], values: Mapping[Symbol, int]
) -> tuple[Size, ...]:
    """The strides of the view that exists for these values, for all sizes that join and split
    dimensions in the same way.
    """
    strides: list[Size] = [1] * len(shape)
    ends = {evaluate(end, values) for end in _suffixes(shape)}
    dim = len(shape)
    run: Size = 1  # elements of the dimensions of the tensor that step as one, and
    taken: Size = 1  # of the dimensions of the new shape that have been laid on them
    base: Size = 1
    done = 1
    for size, stride in zip(reversed(steps.sizes), reversed(steps.strides), strict=True):
        now = evaluate(size, values)
        if now == 1:
            q.decide_or(eq(size, 1), True, _A_VIEW)
            continue
        joins = evaluate(stride, values) == evaluate(run * base, values)
        if run != 1 and joins and not (done in ends and not q.same(stride, run * base)):
            q.decide_or(eq(stride, run * base), True, _A_VIEW)
        else:
            q.decide_or(eq(taken, run), True, _A_VIEW)
            run, taken, base = 1, 1, stride
        run, done = run * size, done * now
        while evaluate(taken, values) < evaluate(run, values) or (dim and shape[dim - 1] == 1):
            dim -= 1
            strides[dim] = taken * base
            taken = taken * shape[dim]
    q.decide_or(eq(taken, run), True, _A_VIEW)
    for size in shape[:dim]:
        q.decide_or(eq(size, 1), True, _A_VIEW)
    strides[:dim] = [taken * base] * dim
    return tuple(strides)
