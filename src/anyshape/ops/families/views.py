"""Views: the same storage seen with other sizes and strides.

The metas say what the strides are; a map is needed while the base is an expression. A view without
one has its base stored first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from anyshape.ops.families.reshaping import onnx_like, reshaping, sizes_of
from anyshape.ops.gradient import Gradients, Term
from anyshape.ops.lowering.values import IndexMap, Lowering, NotLowered, Rearranged, place
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.onnx import Node, NotMapped, Writer, known
from anyshape.ops.op import Op, OpKind, gradient, lower_view, onnx, onnx_rows, row_of
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, eq, ge

_PROPERTY = "torch.Tensor.{}.__get__"


# ---- dimensions in another order -----------------------------------------------------------------


def permuted(input: Meta, dims: Sequence[int]) -> Meta:
    """The dimensions in this order."""
    shape = tuple(input.shape[dim] for dim in dims)
    layout = input.layout
    if isinstance(layout, Dense):
        # The dimensions keep their places in memory; only their names change.
        layout = Dense(tuple(dims.index(dim) for dim in layout.order))
        if layout.order != tuple(range(len(shape))):
            return replace(input, shape=shape, layout=layout)
    return input.viewed(shape, tuple(input.strides[dim] for dim in dims))


def permute(q: ShapeQuery, input: Meta, *dims: int | Sequence[int], **named: Sequence[int]) -> Meta:
    order = q.dims(sizes_of(dims or tuple(named.values())), input.rank)  # pyright: ignore[reportArgumentType]
    if len(order) != input.rank:
        raise q.fail(f"{input.rank} dimensions have no order {order}")
    return permuted(input, order)


def transposed(input: Meta, a: int, b: int) -> Meta:
    dims = list(range(input.rank))
    dims[a], dims[b] = b, a
    return permuted(input, dims)


def transpose(q: ShapeQuery, input: Meta, dim0: int, dim1: int) -> Meta:
    a, b = q.dim(dim0, input.rank), q.dim(dim1, input.rank)
    return transposed(input, a, b) if input.shape else input


def swapaxes(q: ShapeQuery, input: Meta, axis0: int, axis1: int) -> Meta:
    return transpose(q, input, axis0, axis1)


def t(q: ShapeQuery, input: Meta) -> Meta:
    if input.rank > 2:
        raise q.fail(f"t() is for at most 2 dimensions, not {input.rank}")
    return transposed(input, 0, 1) if input.rank == 2 else input


def numpy_t(q: ShapeQuery, input: Meta) -> Meta:
    return permuted(input, range(input.rank - 1, -1, -1))


def matrix_h(q: ShapeQuery, input: Meta) -> Meta:
    if input.rank not in (0, 2):
        raise q.fail(f".H is for matrices, not for {input.rank} dimensions")
    return t(q, input)


def adjoint(q: ShapeQuery, input: Meta) -> Meta:
    if input.rank == 1:
        raise q.fail("a tensor of one dimension is no batch of matrices")
    return transposed(input, input.rank - 2, input.rank - 1) if input.shape else input


def matrix_t(q: ShapeQuery, input: Meta) -> Meta:
    if input.rank < 2:
        raise q.fail(f"a tensor of {input.rank} dimensions is no batch of matrices")
    return transposed(input, input.rank - 2, input.rank - 1)


def movedim(
    q: ShapeQuery, input: Meta, source: int | Sequence[int], destination: int | Sequence[int]
) -> Meta:
    sources, destinations = q.dims(source, input.rank), q.dims(destination, input.rank)
    if len(sources) != len(destinations):
        raise q.fail(f"{source} and {destination} name different numbers of dimensions")
    if not input.shape:
        return input
    others = iter(dim for dim in range(input.rank) if dim not in sources)
    placed = dict(zip(destinations, sources, strict=True))
    return permuted(input, [placed[d] if d in placed else next(others) for d in range(input.rank)])


# ---- dimensions added, dropped and stretched -----------------------------------------------------


def unsqueezed(input: Meta, dim: int) -> Meta:
    """A dimension of size 1 before `dim`."""
    stride = input.shape[dim] * input.strides[dim] if dim < input.rank else 1
    shape = (*input.shape[:dim], 1, *input.shape[dim:])
    return input.viewed(shape, (*input.strides[:dim], stride, *input.strides[dim:]))


def unsqueeze(q: ShapeQuery, input: Meta, dim: int) -> Meta:
    return unsqueezed(input, q.dim(dim, input.rank + 1))


def without(input: Meta, dims: Sequence[int]) -> Meta:
    """The dimensions named left out; they are of size 1, or the offset has been moved to a position
    in them.
    """
    kept = [dim for dim in range(input.rank) if dim not in dims]
    return input.viewed(tuple(input.shape[d] for d in kept), tuple(input.strides[d] for d in kept))


def squeeze(q: ShapeQuery, input: Meta, *dim: int | Sequence[int] | None, **named: Any) -> Meta:
    given = dim or tuple(named.values())
    asked = None if not given or given == (None,) else sizes_of(given)  # pyright: ignore[reportArgumentType]
    dims = q.dims(asked, input.rank)  # pyright: ignore[reportArgumentType]
    if not input.shape:
        return input
    gone = [
        d for d in dims if q.decide(eq(input.shape[d], 1), "only a dimension of size 1 is squeezed")
    ]
    return without(input, gone) if gone else input


def expanded(q: ShapeQuery, input: Meta, shape: tuple[Size, ...]) -> Meta:
    """Sizes of 1 stretched to `shape`; -1 keeps a size."""
    missing = len(shape) - input.rank
    if missing < 0:
        raise q.fail(f"{input.rank} dimensions cannot be expanded to the {len(shape)} of {shape}")
    sizes: list[Size] = []
    strides: list[Size] = []
    for dim, wanted in enumerate(shape):
        if dim < missing:
            q.require(ge(wanted, 0), f"the new dimension {dim} needs a size, not {wanted}")
            sizes.append(wanted)
            strides.append(0)
            continue
        size, stride = input.shape[dim - missing], input.strides[dim - missing]
        if wanted != -1 and is_stretched(q, size, wanted):
            size, stride = wanted, 0
        sizes.append(size)
        strides.append(stride)
    if tuple(sizes) == input.shape:
        return input
    return input.viewed(tuple(sizes), tuple(strides))


def is_stretched(q: ShapeQuery, size: Size, wanted: Size) -> bool:
    """Whether a size is 1 and repeated to come to `wanted`; otherwise the two must be equal."""
    if size is wanted or q.same(size, wanted):
        return False
    if size == 1:
        q.require(ge(wanted, 0), f"{wanted} is no size")
        return True
    now, then = q.facts.hint(size), q.facts.hint(wanted)
    if now is None or then is None or now == then:
        q.decide_or(eq(size, wanted), True, "equal sizes are kept; a size of 1 would be broadcast")
        return False
    if not q.decide(eq(size, 1), "a dimension of size 1 is broadcast"):
        raise q.fail(f"size {size} cannot be expanded to {wanted}")
    q.require(ge(wanted, 0), f"{wanted} is no size")
    return True


def expand(
    q: ShapeQuery, input: Meta, *size: Size | Sequence[Size], implicit: bool = False
) -> Meta:
    return expanded(q, input, sizes_of(size))


def broadcast_to(q: ShapeQuery, input: Meta, size: Sequence[Size]) -> Meta:
    return expanded(q, input, tuple(size))


def expand_as(q: ShapeQuery, input: Meta, other: Meta) -> Meta:
    return expanded(q, input, other.shape)


_row = partial(row_of, OpKind.VIEW)

ROWS: tuple[Op, ...] = (
    _row("permute", permute),
    _row("transpose", transpose, in_place=True, restrides=True),
    _row("swapdims", transpose, in_place=True, restrides=True),
    _row("swapaxes", swapaxes, in_place=True, restrides=True),
    _row("t", t, in_place=True, restrides=True),
    _row("numpy_T", numpy_t, _PROPERTY.format("T")),
    _row("matrix_H", matrix_h, _PROPERTY.format("H")),
    _row("mT", matrix_t, _PROPERTY.format("mT")),
    _row("mH", matrix_t, _PROPERTY.format("mH")),
    _row("adjoint", adjoint),
    _row("movedim", movedim),
    _row("moveaxis", movedim),
    _row("unsqueeze", unsqueeze, in_place=True, restrides=True),
    _row("squeeze", squeeze, in_place=True, restrides=True),
    _row("expand", expand),
    _row("expand_as", expand_as),
    _row("broadcast_to", broadcast_to),
)


# -- native code ----------------------------------------------------------------------------------


def permuting(order: Sequence[int]) -> IndexMap:
    """Dimension `d` of the view is dimension `order[d]` of the base."""
    places = [0] * len(order)
    for at, dim in enumerate(order):
        places[dim] = at
    return Rearranged(
        lambda index: tuple(index[at] for at in places),
        lambda factors: tuple(factors[dim] for dim in order),
    )


@lower_view("permute")
def lower_permute(c: Lowering, base: Meta, dims: tuple[Any, ...]) -> IndexMap:
    return permuting([place(dim, base.rank) for dim in dims])


@lower_view("transpose", "swapdims", "swapaxes")
def lower_transpose(c: Lowering, base: Meta, **dims: Any) -> IndexMap:
    first, second = (place(dim, base.rank) for dim in dims.values())
    order = list(range(base.rank))
    order[first], order[second] = order[second], order[first]
    return permuting(order)


@lower_view("t", "numpy_T", "mT", "matrix_H", "mH", "adjoint")
def lower_last_two(c: Lowering, base: Meta) -> IndexMap:
    rank = base.rank
    if rank < 2:
        return lambda index: index
    if rank > 2 and c.result.shape != (*base.shape[:-2], base.shape[-1], base.shape[-2]):
        return permuting(list(reversed(range(rank))))
    return permuting([*range(rank - 2), rank - 1, rank - 2])


@lower_view("movedim", "moveaxis")
def lower_movedim(c: Lowering, base: Meta, source: Any, destination: Any) -> IndexMap:
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


@lower_view("unsqueeze", "squeeze")
def lower_ones(c: Lowering, base: Meta, **_: Any) -> IndexMap:
    """Dimensions of size 1 come and go."""
    if not isinstance(c.result, Meta):
        raise NotLowered("several tensors")
    return reshaping(c, base, c.result)


@lower_view("expand", "expand_as", "broadcast_to")
def lower_expand(c: Lowering, base: Meta, **_: Any) -> IndexMap:
    return stretched(c, base, c.result)


def stretched(c: Lowering, base: Meta, shown: Meta) -> IndexMap:
    """Dimensions of size 1 count for all of larger ones."""
    skip = shown.rank - base.rank
    own = base.shape
    for size, wanted in zip(own, shown.shape[skip:], strict=True):
        if size != 1 and not c.same(size, wanted):
            raise NotLowered(f"sizes {size} and {wanted} may differ")
    return lambda index: tuple(0 if size == 1 else index[skip + d] for d, size in enumerate(own))


# -- gradients ------------------------------------------------------------------------------------


@gradient("transpose", "swapdims")
def gradient_transpose(grad: Term, dim0: Any, dim1: Any) -> Gradients:
    return {"input": grad.transpose(dim0, dim1)}


@gradient("swapaxes")
def gradient_swapaxes(grad: Term, axis0: Any, axis1: Any) -> Gradients:
    return {"input": grad.transpose(axis0, axis1)}


@gradient("permute")
def gradient_permute(grad: Term, dims: Any) -> Gradients:
    dims = [each % grad.rank for each in dims]
    return {"input": grad.permute([dims.index(each) for each in range(len(dims))])}


@gradient("t")
def gradient_t(grad: Term) -> Gradients:
    return {"input": grad.t()}


@gradient("mT", "mH", "adjoint", "matrix_H")
def gradient_mT(grad: Term) -> Gradients:
    return {"input": grad.transpose(-2, -1)}


@gradient("numpy_T")
def gradient_numpy_T(grad: Term) -> Gradients:
    return {"input": grad.permute(list(reversed(range(grad.rank))))}


@gradient("movedim", "moveaxis")
def gradient_movedim(grad: Term, source: Any, destination: Any) -> Gradients:
    return {"input": grad.movedim(destination, source)}


@gradient("unsqueeze", "squeeze")
def gradient_unsqueeze(grad: Term, input: Term) -> Gradients:
    return {"input": grad.reshape(input.shape)}


@gradient("expand", "expand_as", "broadcast_to")
def gradient_expand(grad: Term) -> Gradients:
    return {"input": grad}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("permute")
def onnx_permute(w: Writer, node: Node, input: Any, dims: Any) -> str:
    rank = w.rank(input)
    return w.add("Transpose", [w.name(input)], perm=[dim % rank for dim in known(dims)])


@onnx("transpose")
def onnx_transpose(w: Writer, node: Node, input: Any, dim0: int, dim1: int) -> str:
    order = list(range(w.rank(input)))
    if not order:
        return w.name(input)
    known((dim0, dim1))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return w.add("Transpose", [w.name(input)], perm=order)


@onnx("swapaxes")
def onnx_swapaxes(w: Writer, node: Node, input: Any, axis0: int, axis1: int) -> str:
    return onnx_transpose(w, node, input, axis0, axis1)


@onnx("mT")
def onnx_transposed_matrices(w: Writer, node: Node, input: Any) -> str:
    """The property `mT`."""
    return onnx_transpose(w, node, input, -1, -2)


@onnx("movedim")
def onnx_movedim(w: Writer, node: Node, input: Any, source: Any, destination: Any) -> str:
    rank = w.rank(input)
    given = [[each] if isinstance(each, int) else known(each) for each in (source, destination)]
    to = {new % rank: old % rank for old, new in zip(*given, strict=True)}
    others = iter(dim for dim in range(rank) if dim not in to.values())
    order = [to[dim] if dim in to else next(others) for dim in range(rank)]
    return w.add("Transpose", [w.name(input)], perm=order)


@onnx("t", "numpy_T")
def onnx_turned(w: Writer, node: Node, input: Any) -> str:
    """`t()`, and the property `T`."""
    return w.add("Transpose", [w.name(input)], perm=[*range(w.rank(input))][::-1])


@onnx("unsqueeze")
def onnx_unsqueeze(w: Writer, node: Node, input: Any, dim: int) -> str:
    return w.add("Unsqueeze", [w.name(input), w.constant([dim])])


@onnx("squeeze")
def onnx_squeeze(w: Writer, node: Node, input: Any, dim: Any) -> str:
    if len(dim) != 1 or not isinstance(dim[0], int) or w.rank(node) == w.rank(input):
        raise NotMapped("a squeeze that may do nothing")
    return w.add("Squeeze", [w.name(input), w.constant([dim[0]])])


@onnx("expand", "broadcast_to")
def onnx_expand(w: Writer, node: Node, input: Any, size: Any) -> str:
    # 1 broadcasts to whatever is there, which is what -1 means.
    wanted = [1 if isinstance(each, int) and each == -1 else each for each in size]
    if not wanted:
        return w.name(input)
    return w.add("Expand", [w.name(input), w.shape(wanted)])


onnx_rows(
    {
        "expand_as": partial(onnx_like, "Expand"),
    }
)
