"""Each with each: grids, products, combinations, positions as coordinates or as one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.families.concat import tensors_of
from anyshape.ops.families.indexing import Positions
from anyshape.ops.families.reshaping import viewed_as
from anyshape.ops.lowering.scalars import cast, test
from anyshape.ops.lowering.values import Index, IndexMap, Lowering, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import Op, OpKind, lower, lower_views, names_of, onnx
from anyshape.ops.promotion import category, result_type
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, ge, gt, ne, product


def meshgrid(q: ShapeQuery, *tensors: Any, indexing: str | None = None) -> tuple[Meta, ...]:
    axes = tensors_of(tensors)
    if not axes or any(axis.rank > 1 for axis in axes):
        raise q.fail("a grid is made of vectors, at least one")
    if any(axis.dtype != axes[0].dtype for axis in axes):
        raise q.fail("the axes of a grid have one dtype")
    if indexing not in (None, "ij", "xy"):
        raise q.fail(f"there is no indexing {indexing!r}")
    turned = indexing == "xy" and len(axes) >= 2
    if turned:
        axes[0], axes[1] = axes[1], axes[0]
    shape = tuple(axis.numel for axis in axes)
    grids: list[Meta] = []
    for place, axis in enumerate(axes):
        strides = [0] * len(axes)
        strides[place] = axis.strides[0] if axis.shape else 1  # pyright: ignore[reportCallIssue, reportArgumentType]
        grids.append(axis.viewed(shape, tuple(strides)))
    if turned:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def cartesian_prod(q: ShapeQuery, *tensors: Any) -> Meta:
    axes = tensors_of(tensors)
    if any(axis.rank != 1 for axis in axes):
        raise q.fail("a product is of vectors")
    if len(axes) == 1:
        return axes[0]
    meshgrid(q, axes)
    return axes[0].like((product([axis.numel for axis in axes]), len(axes)))


def combinations(q: ShapeQuery, input: Meta, r: int = 2, with_replacement: bool = False) -> Meta:
    if input.rank != 1:
        raise q.fail(f"combinations are of a vector, not of {input.rank} dimensions")
    if r < 0:
        raise q.fail(f"there are no combinations of {r}")
    if r == 0:
        return input.like((0,))
    size = input.shape[0]
    step = 1 if with_replacement else -1
    ordered = product([size + step * index for index in range(r)])
    return input.like((ordered // factorial(r), r))


def kron(q: ShapeQuery, input: Meta, other: Meta) -> Meta:
    rank = max(input.rank, other.rank)
    a, b = _interleaved(input, rank, 0), _interleaved(other, rank, 1)
    pairs = tuple(
        y if position % 2 else x
        for position, (x, y) in enumerate(zip(a.shape, b.shape, strict=True))
    )
    dtype = result_type((input, other))
    multiplied = input.like(pairs, dtype=dtype, layout=pointwise_layout(q, pairs, (a, b)))
    joined = tuple(pairs[2 * dim] * pairs[2 * dim + 1] for dim in range(rank))
    # Torch takes the product apart as a view, and fails where its layout does not allow one.
    return viewed_as(q, multiplied, joined)


def _interleaved(tensor: Meta, rank: int, place: int) -> Meta:
    """Each dimension as a pair, the tensor's own size first or second, the other 1."""
    missing = rank - tensor.rank
    shape: list[Size] = [1] * (2 * rank)
    strides: list[Size] = [1] * (2 * rank)
    for dim in range(tensor.rank):
        shape[2 * (missing + dim) + place] = tensor.shape[dim]
        strides[2 * (missing + dim) + place] = tensor.strides[dim]
    return tensor.viewed(tuple(shape), tuple(strides))


def unravel_index(
    q: ShapeQuery, indices: Meta, shape: Size | Sequence[Size] | Meta
) -> tuple[Meta, ...]:
    if category(indices.dtype) != 1:
        raise q.fail(f"indices are integers, not {indices.dtype}")
    if isinstance(shape, Meta):
        count = q.count(shape.numel, "one coordinate a dimension")
    else:
        sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        for size in sizes:
            q.require(ge(size, 0), f"{size} is no size")  # pyright: ignore[reportArgumentType]
        count = len(sizes)
    if count == 0:
        return ()
    # All coordinates of an index lie side by side.
    whole = indices.viewed((*indices.shape, 1), (*indices.strides, 1))
    grown = (*indices.shape, count)
    together = indices.like(grown, torch.int64, pointwise_layout(q, grown, (whole,)))
    one = together.viewed(indices.shape, together.strides[:-1])
    return tuple(replace(one, offset=index * together.strides[-1]) for index in range(count))


def one_hot(q: ShapeQuery, input: Meta, num_classes: Size = -1) -> Meta:
    if input.dtype is not torch.int64:
        raise q.fail(f"classes are of int64, not {input.dtype}")
    if q.decide(gt(num_classes, 0), "the number of classes is given"):
        return input.like((*input.shape, num_classes), dtype=torch.int64)
    if num_classes != -1:
        raise q.fail(f"there are no {num_classes} classes")
    q.require(ne(input.numel, 0), "no elements do not tell how many classes there are")
    return input.like((*input.shape, q.new_size()), dtype=torch.int64)


ROWS: tuple[Op, ...] = (
    Op("meshgrid", ("torch.meshgrid",), meshgrid, OpKind.VIEW),
    Op("cartesian_prod", ("torch.cartesian_prod",), cartesian_prod, OpKind.INDEX_MAP),
    Op("combinations", ("torch.combinations",), combinations, OpKind.INDEX_MAP),
    Op("kron", names_of("kron"), kron, OpKind.POINTWISE),
    Op("unravel_index", ("torch.unravel_index",), unravel_index, OpKind.POINTWISE),
    Op(
        "one_hot",
        ("torch.nn.functional.one_hot", "torch._C._nn.one_hot"),
        one_hot,
        OpKind.INDEX_MAP,
    ),
)


# -- native code ----------------------------------------------------------------------------------


@lower("one_hot")
def lower_one_hot(c: Lowering, input: Value, num_classes: Any) -> Value:
    if type(num_classes) is int and num_classes < 0:
        raise NotLowered("the number of classes depends on the data")
    if input.dtype != "i64":
        raise NotLowered("classes of 64 bits are needed")
    Positions(c, input, num_classes, wraps=False)

    def at(index: Index) -> Scalar:
        return cast(test("eq", input.at(index[:-1]), expr.index(index[-1])), "i64")

    return c.values.new((*input.sizes, num_classes), "i64", at, (input,), cost=2)


@lower_views("meshgrid")
def lower_meshgrid(c: Lowering, bases: Sequence[Meta], *, indexing: str | None) -> list[IndexMap]:
    """Each vector along a dimension of its own; the first two change places for `xy`."""
    places = list(range(len(bases)))
    if indexing == "xy" and len(bases) > 1:
        places[:2] = [1, 0]

    def along(place: int, base: Meta) -> IndexMap:
        return (lambda index: (index[place],)) if base.shape else (lambda _: ())

    return [along(place, base) for place, base in zip(places, bases, strict=True)]


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("one_hot")
def onnx_one_hot(w: Writer, node: Node, input: Any, num_classes: Any) -> str:
    if num_classes == -1:
        raise NotMapped("one_hot with as many classes as there are in the data")
    ends = w.constant([0, 1])
    return w.add("OneHot", [w.name(input), w.name(num_classes, torch.int64), ends], axis=-1)
