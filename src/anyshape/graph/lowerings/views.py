"""Views: from an index of the view to the index of what it shows.

The metas say what the strides are; a map is needed while the base is an expression. A view without
one has its base stored first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyshape.graph.aliasing import IndexMap, Rearranged
from anyshape.graph.lowerings.table import view, views_of_each
from anyshape.graph.values import Index, NotAView, NotLowered
from anyshape.loops.reshape_indexing import divided, merged, reshaped
from anyshape.ops.layouts import Copy, as_view
from anyshape.ops.meta import Meta
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Answer, Expr, Fact, Size, ge, le, maximum
from anyshape.symbolic.expr import terms_of

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


def place(dim: Any, rank: int) -> int:
    """A dimension counted from the front."""
    if type(dim) is not int:
        raise NotLowered("a dimension that is not known")
    if not rank:
        raise NotLowered("a dimension of a single number")
    return dim + rank if dim < 0 else dim


def reshaping(c: Lowering, base: Meta, shown: Meta) -> IndexMap:
    """The same elements in the same order."""
    own, extents, facts = base.shape, c.values.extents, c.facts
    return Rearranged(
        lambda index: reshaped(index, shown.shape, own, extents, facts),
        lambda factors: merged(factors, shown.shape),
    )


@view("view", "view_as", "unflatten")
def as_shape(c: Lowering, base: Meta, **_: Any) -> IndexMap:
    return reshaping(c, base, c.result)


@view("reshape", "reshape_as", "flatten", "ravel")
def maybe_copied(c: Lowering, base: Meta, **_: Any) -> IndexMap:
    if c.result.shape == base.shape and c.result.layout == base.layout:
        return lambda index: index
    questions = ShapeQuery(c.facts, "reshape")
    found = as_view(questions, base, c.result.shape)
    if questions.needs:
        raise NotLowered("a copy or a view by what is not known")
    if isinstance(found, Copy):
        copied(c, found.shares_if)
    if c.result.shares_if is not base.shares_if:
        raise NotLowered("a view that was a copy for all the capture knew")
    return reshaping(c, base, c.result)


def copied(c: Lowering, shares_if: Fact | None) -> None:
    """The result is a tensor of its own, unless it shares memory for some sizes and that can be
    told."""
    answer = Answer.NO if shares_if is None else c.facts.prove(shares_if)
    if answer is Answer.UNKNOWN and not c.sharing_matters():
        answer = Answer.NO
    if answer is Answer.NO:
        raise NotAView("a copy")
    raise NotLowered("a copy for some sizes, a view for others")


@view("contiguous")
def contiguous(c: Lowering, base: Meta, **_: Any) -> IndexMap:
    if c.result.layout != base.layout:
        copied(c, c.result.shares_if)
    return lambda index: index


def permuting(order: Sequence[int]) -> IndexMap:
    """Dimension `d` of the view is dimension `order[d]` of the base."""
    places = [0] * len(order)
    for at, dim in enumerate(order):
        places[dim] = at
    return Rearranged(
        lambda index: tuple(index[at] for at in places),
        lambda factors: tuple(factors[dim] for dim in order),
    )


@view("permute")
def permute(c: Lowering, base: Meta, dims: tuple[Any, ...]) -> IndexMap:
    return permuting([place(dim, base.rank) for dim in dims])


@view("transpose", "swapdims", "swapaxes")
def transpose(c: Lowering, base: Meta, **dims: Any) -> IndexMap:
    first, second = (place(dim, base.rank) for dim in dims.values())
    order = list(range(base.rank))
    order[first], order[second] = order[second], order[first]
    return permuting(order)


@view("t", "numpy_T", "mT", "matrix_H", "mH", "adjoint")
def last_two(c: Lowering, base: Meta) -> IndexMap:
    rank = base.rank
    if rank < 2:
        return lambda index: index
    if rank > 2 and c.result.shape != (*base.shape[:-2], base.shape[-1], base.shape[-2]):
        return permuting(list(reversed(range(rank))))
    return permuting([*range(rank - 2), rank - 1, rank - 2])


@view("movedim", "moveaxis")
def movedim(c: Lowering, base: Meta, source: Any, destination: Any) -> IndexMap:
    sources = [
        place(d, base.rank) for d in (source if isinstance(source, tuple | list) else [source])
    ]
    targets = [
        place(d, base.rank)
        for d in (destination if isinstance(destination, tuple | list) else [destination])
    ]
    order = [-1] * base.rank
    for dim, target in zip(sources, targets, strict=True):
        order[target] = dim
    rest = iter(dim for dim in range(base.rank) if dim not in sources)
    return permuting([next(rest) if dim < 0 else dim for dim in order])


@view("unsqueeze", "squeeze", "atleast_1d", "atleast_2d", "atleast_3d")
def ones(c: Lowering, base: Meta, **_: Any) -> IndexMap:
    """Dimensions of size 1 come and go."""
    if not isinstance(c.result, Meta):
        raise NotLowered("several tensors")
    return reshaping(c, base, c.result)


@view("expand", "expand_as", "broadcast_to")
def expand(c: Lowering, base: Meta, **_: Any) -> IndexMap:
    return stretched(c, base, c.result)


def stretched(c: Lowering, base: Meta, shown: Meta) -> IndexMap:
    """Dimensions of size 1 count for all of larger ones."""
    skip = shown.rank - base.rank
    own = base.shape
    for size, wanted in zip(own, shown.shape[skip:], strict=True):
        if size != 1 and not c.same(size, wanted):
            raise NotLowered(f"sizes {size} and {wanted} may differ")
    return lambda index: tuple(0 if size == 1 else index[skip + d] for d, size in enumerate(own))


@views_of_each("broadcast_tensors")
def broadcast_tensors(c: Lowering, bases: Sequence[Meta]) -> list[IndexMap]:
    return [stretched(c, base, shown) for base, shown in zip(bases, c.result, strict=True)]


@views_of_each("meshgrid")
def meshgrid(c: Lowering, bases: Sequence[Meta], *, indexing: str | None) -> list[IndexMap]:
    """Each vector along a dimension of its own; the first two change places for `xy`."""
    places = list(range(len(bases)))
    if indexing == "xy" and len(bases) > 1:
        places[:2] = [1, 0]

    def along(place: int, base: Meta) -> IndexMap:
        return (lambda index: (index[place],)) if base.shape else (lambda _: ())

    return [along(place, base) for place, base in zip(places, bases, strict=True)]


def shifted(dim: int, start: Size, step: int = 1) -> IndexMap:
    """A part of a dimension."""

    def index_map(index: Index) -> Index:
        return (*index[:dim], index[dim] * step + start, *index[dim + 1 :])

    return index_map


def selected(dim: int, at: Size) -> IndexMap:
    return lambda index: (*index[:dim], at, *index[dim:])


def start_of(base: Meta, shown: Meta, dim: int) -> Size:
    """Where a part of a dimension begins, by the offset of the view."""
    offset, stride = shown.offset - base.offset, base.strides[dim]
    if isinstance(offset, int) and isinstance(stride, int) and stride:
        return offset // stride
    terms = terms_of(stride)
    if offset == 0:
        return 0
    if len(terms) == 1:
        found = divided(offset, stride)
        if found is not None and found[1] == 0:
            return found[0]
    raise NotLowered("where the part begins does not follow from the offset")


@view("select")
def select(c: Lowering, base: Meta, dim: Any, index: Any) -> IndexMap:
    at = place(dim, base.rank)
    return selected(at, start_of(base, c.result, at))


@view("narrow")
def narrow(c: Lowering, base: Meta, dim: Any, start: Any, length: Any) -> IndexMap:
    at = place(dim, base.rank)
    return shifted(at, start_of(base, c.result, at))


@view("split", "unsafe_split", "split_with_sizes", "chunk", "tensor_split")
def split(c: Lowering, base: Meta, dim: Any, **_: Any) -> list[IndexMap]:
    at = place(dim, base.rank)
    return [shifted(at, start_of(base, shown, at)) for shown in c.result]


def named_split(name: str, dim: int) -> None:
    @view(name)
    def lowered(c: Lowering, base: Meta, **_: Any) -> list[IndexMap]:
        # A vector is split along its one dimension.
        at = min(dim, base.rank - 1)
        return [shifted(at, start_of(base, shown, at)) for shown in c.result]


named_split("vsplit", 0)
named_split("hsplit", 1)
named_split("dsplit", 2)


@view("diagonal", "unfold", "linalg_diagonal")
def by_strides(c: Lowering, base: Meta, **_: Any) -> None:
    """Only the strides tell."""


@view("unbind")
def unbind(c: Lowering, base: Meta, dim: Any) -> list[IndexMap]:
    at = place(dim, base.rank)
    return [selected(at, number) for number in range(len(c.result))]


@view("detach", "positive", "resolve_conj")
def itself(c: Lowering, base: Meta) -> IndexMap:
    return lambda index: index


def basic_index(c: Lowering, base: Meta, key: Any) -> IndexMap:
    """`x[key]` without tensors in the key: each part takes, drops or adds a dimension."""
    parts = list(key) if isinstance(key, tuple) else [key]
    taken = sum(1 for part in parts if part is not None and part is not Ellipsis)
    if Ellipsis in [part for part in parts if not isinstance(part, Expr | slice | Meta)]:
        at = next(n for n, part in enumerate(parts) if part is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (base.rank - taken)
    else:
        parts += [slice(None)] * (base.rank - taken)
    # of each dimension of the base: (place in the index or None, start, step)
    sources: list[tuple[int | None, Size, int]] = []
    shown = 0
    for part in parts:
        dim = len(sources)
        if part is None:
            shown += 1
        elif isinstance(part, slice):
            start, step = slice_start(c, part, base.shape[dim])
            sources.append((shown, start, step))
            shown += 1
        elif type(part) is int or isinstance(part, Expr):
            sources.append((None, taken_from_front(c, part, base.shape[dim]), 1))
        else:
            raise NotLowered("an index by data")

    def index_map(index: Index) -> Index:
        return tuple(
            start if at is None else index[at] * step + start for at, start, step in sources
        )

    return index_map


def taken_from_front(c: Lowering, at: Size, size: Size) -> Size:
    if isinstance(at, int):
        return at + size if at < 0 else at
    if c.facts.prove(ge(at, 0)) is Answer.YES:
        return at
    if c.facts.prove(le(at, -1)) is Answer.YES:
        return at + size
    raise NotLowered("a position whose sign is not known")


def slice_start(c: Lowering, part: slice, size: Size) -> tuple[Size, int]:
    step = 1 if part.step is None else part.step
    if type(step) is not int or step < 1:
        raise NotLowered("a step that is not known")
    if part.start is None:
        return 0, step
    if not (type(part.start) is int or isinstance(part.start, Expr)):
        raise NotLowered("a start that is no size")
    start = taken_from_front(c, part.start, size)
    # Python cuts what is out of bounds: in front to 0. Where it starts behind the end there is
    # nothing to read.
    if c.facts.prove(ge(start, 0)) is not Answer.YES:
        start = maximum(start, 0)
    return start, step


@view("getitem")
def getitem(c: Lowering, base: Meta, index: Any) -> IndexMap:
    if isinstance(c.result, Meta) and not has_tensors(index):
        return basic_index(c, base, index)
    raise NotAView("an index by data")


def has_tensors(index: Any) -> bool:
    if isinstance(index, tuple | list):
        return any(map(has_tensors, index))
    return isinstance(index, Meta | bool)
