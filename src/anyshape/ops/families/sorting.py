"""Sorting, the largest few, and search in what is sorted."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term, zeros_like
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, Writer, known
from anyshape.ops.op import Op, OpKind, gradient, made_of, onnx, row_of
from anyshape.ops.promotion import Number
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, and_, eq, ge, le


def sort(
    q: ShapeQuery,
    input: Meta,
    dim: int | bool = -1,
    descending: bool = False,
    *,
    stable: bool | None = None,
) -> tuple[Meta, Meta]:
    q.dim(int(dim) if isinstance(dim, bool) else dim, input.rank)
    layout = pointwise_layout(q, input.shape, (input,))
    return input.like(layout=layout), input.like(dtype=torch.int64, layout=layout)


def argsort(
    q: ShapeQuery, input: Meta, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Meta:
    return sort(q, input, dim, descending)[1]


def msort(q: ShapeQuery, input: Meta) -> Meta:
    return sort(q, input, 0)[0]


def topk(
    q: ShapeQuery,
    input: Meta,
    k: Size,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> tuple[Meta, Meta]:
    along = q.dim(dim, input.rank)
    size = input.shape[along] if input.shape else 1
    q.require(and_(ge(k, 0), le(k, size)), "k must not be larger than the dimension")
    shape = (*input.shape[:along], k, *input.shape[along + 1 :]) if input.shape else ()
    return input.like(shape), input.like(shape, torch.int64)


def searchsorted(
    q: ShapeQuery,
    sorted_sequence: Meta,
    input: Meta | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Meta | None = None,
) -> Meta:
    dtype = torch.int32 if out_int32 else torch.int64
    if not sorted_sequence.rank:
        raise q.fail("the sorted values must have dimensions")
    if sorter is not None:
        _require_shape(
            q, sorter, sorted_sequence.shape, "the order of values must have their shape"
        )
    if not isinstance(input, Meta):
        if sorted_sequence.rank != 1:
            raise q.fail("a number is looked for in a vector")
        return sorted_sequence.like((), dtype)
    if sorted_sequence.rank > 1:
        wanted = (*sorted_sequence.shape[:-1], input.shape[-1] if input.shape else 1)
        _require_shape(
            q, input, wanted, "all dimensions but the last must be those of the sorted values"
        )
    return input.like(dtype=dtype)


def bucketize(
    q: ShapeQuery,
    input: Meta | Number,
    boundaries: Meta,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Meta:
    if boundaries.rank != 1:
        raise q.fail("boundaries must be a vector")
    return searchsorted(q, boundaries, input, out_int32=out_int32)


def _require_shape(q: ShapeQuery, meta: Meta, wanted: tuple[Size, ...], detail: str) -> None:
    if meta.rank != len(wanted):
        raise q.fail(detail)
    for size, other in zip(meta.shape, wanted, strict=True):
        if size is not other:
            q.require(eq(size, other), detail)


_row = partial(row_of, OpKind.CALL_OUT)

ROWS: tuple[Op, ...] = (
    _row("sort", sort),
    _row("argsort", argsort),
    _row("msort", msort),
    _row("topk", topk),
    _row("searchsorted", searchsorted),
    _row("bucketize", bucketize),
)


# -- gradients ------------------------------------------------------------------------------------


@gradient("sort", "topk")
def gradient_sort(
    grad: dict[int, Term], parts: dict[int, Term], input: Term, dim: Any
) -> Gradients:
    """Each goes back to its place."""
    if type(dim) is not int:
        raise NoGradient("a dimension that is not known")
    if input.rank == 0:
        return {"input": grad[0]}
    return {"input": zeros_like(input).scatter(dim, parts[1], grad[0])}


@made_of("msort")
def parts_of_msort(records: Records, input: Term) -> Term:
    return input.sort(0)[0]


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("topk")
def onnx_top(
    w: Writer, node: Node, input: Any, k: Any, dim: int, largest: bool, sorted: bool
) -> list[str]:
    return w.several(
        "TopK",
        [w.name(input), w.shape([k])],
        2,
        axis=dim,
        largest=int(largest),
        sorted=int(sorted),
    )


@onnx("sort")
def onnx_sort(
    w: Writer, node: Node, input: Any, dim: int, descending: bool, stable: Any
) -> list[str]:
    axis = w.constant([known(dim) % max(w.rank(input), 1)])
    size = w.add("Gather", [w.add("Shape", [w.name(input)]), axis], axis=0)
    return w.several("TopK", [w.name(input), size], 2, axis=dim, largest=int(descending), sorted=1)


@onnx("argsort")
def onnx_argsort(w: Writer, node: Node, input: Any, dim: int, descending: bool) -> str:
    return onnx_sort(w, node, input, dim, descending, None)[1]
