"""The same elements in the same order in another shape: views where the strides allow it, else
copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from anyshape.loops.reshape_indexing import merged, reshaped
from anyshape.ops.gradient import Gradients, Term, rearranged
from anyshape.ops.layouts import Copy, as_view, contiguity, must_view
from anyshape.ops.lowering.pointwise_builder import in_shape
from anyshape.ops.lowering.values import IndexMap, Lowering, NotAView, NotLowered, Rearranged, Value
from anyshape.ops.memory_format import kept_format
from anyshape.ops.meta import Meta, channels_last, contiguous
from anyshape.ops.onnx import Node, NotMapped, Writer, known
from anyshape.ops.op import (
    Op,
    OpKind,
    gradient,
    in_place_names,
    lower,
    lower_view,
    moving,
    onnx,
    onnx_rows,
    row_of,
)
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Answer, Expr, Fact, Size, and_, eq, ge, ne, not_, product


def sizes_of(sizes: Sequence[Size | Sequence[Size]]) -> tuple[Size, ...]:
    """Sizes as methods take them: one by one, or as one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        return tuple(sizes[0])
    return tuple(sizes)  # pyright: ignore[reportReturnType] one by one


def inferred(q: ShapeQuery, shape: tuple[Size, ...], numel: Size) -> tuple[Size, ...]:
    """The shape with its -1 replaced by what is left of the elements; the elements must come out
    even.
    """
    open_dims = [dim for dim, size in enumerate(shape) if _is_open(q, size)]
    if len(open_dims) > 1:
        raise q.fail(f"only one size of {shape} can be inferred")
    if not open_dims:
        elements = product(shape)
        if elements is not numel:
            q.require(
                eq(elements, numel), f"shape {shape} must have the {numel} elements of the tensor"
            )
        return shape
    (dim,) = open_dims
    rest = product(shape[:dim] + shape[dim + 1 :])
    if type(rest) is Expr or rest == 0:
        q.require(ne(rest, 0), "-1 is ambiguous beside a size of 0")
    left = numel % rest
    if left != 0:
        q.require(eq(left, 0), f"{numel} elements must be a multiple of {rest}")
    # What is known may make the quotient a plain size: with s % 8 == 0, 8*s // (s//8) is 64.
    size = q.facts.simplify(numel // rest)
    return (*shape[:dim], size, *shape[dim + 1 :])


def _is_open(q: ShapeQuery, size: Size) -> bool:
    if type(size) is Expr:
        if q.known(ge(size, 0)):
            return False
        if q.decide(eq(size, -1), "a size of -1 is inferred"):
            return True
    elif size == -1:
        return True
    q.require(ge(size, 0), f"{size} is no size")
    return False


def viewed_as(q: ShapeQuery, input: Meta, shape: tuple[Size, ...]) -> Meta:
    """A view with another shape of as many elements; an error where the strides do not allow it."""
    return input.viewed(shape, must_view(q, input, shape))


def reshaped_as(q: ShapeQuery, input: Meta, shape: tuple[Size, ...]) -> Meta:
    """A view with another shape of as many elements where the strides allow it, else a copy."""
    found = as_view(q, input, shape)
    if isinstance(found, Copy):
        return replace(input.like(shape), shares_if=found.shares_if)
    return input.viewed(shape, found)


def view(
    q: ShapeQuery, input: Meta, *shape: Size | Sequence[Size] | torch.dtype, **named: object
) -> Meta:
    given = shape or tuple(named.values())
    if len(given) == 1 and isinstance(given[0], torch.dtype):
        return _in_dtype(q, input, given[0])
    sizes = sizes_of(given)  # pyright: ignore[reportArgumentType] a dtype has been dealt with
    return viewed_as(q, input, inferred(q, sizes, input.numel))


def _in_dtype(q: ShapeQuery, input: Meta, dtype: torch.dtype) -> Meta:
    """The same bytes as numbers of another dtype: the last dimension grows or shrinks with the
    width of a number.
    """
    old, new = input.dtype.itemsize, dtype.itemsize
    if old == new:
        return replace(input, dtype=dtype)
    if not input.shape:
        raise q.fail(f"a tensor without dimensions cannot be viewed as {dtype}: its width differs")
    *outer, last = input.strides
    # Torch looks at this stride whatever the size, but the stride of a size of 1 is not known here.
    q.require(
        eq(last, 1), "only a last dimension without gaps can be viewed in a dtype of another width"
    )
    size = input.shape[-1]
    if old > new:
        ratio = old // new
        strides = (*(stride * ratio for stride in outer), 1)
        seen = input.viewed((*input.shape[:-1], size * ratio), strides, input.offset * ratio)
        return replace(seen, dtype=dtype)
    ratio = new // old
    q.require(eq(size % ratio, 0), f"the last size {size} must be a multiple of {ratio}")
    q.require(
        eq(input.offset % ratio, 0), f"the offset {input.offset} must be a multiple of {ratio}"
    )
    for dim, stride in enumerate(outer):
        q.require(
            eq(stride % ratio, 0),
            f"stride {stride} of dimension {dim} must be a multiple of {ratio}",
        )
    strides = (*(stride // ratio for stride in outer), 1)
    seen = input.viewed((*input.shape[:-1], size // ratio), strides, input.offset // ratio)
    return replace(seen, dtype=dtype)


def view_as(q: ShapeQuery, input: Meta, other: Meta) -> Meta:
    return viewed_as(q, input, inferred(q, other.shape, input.numel))


def reshape(
    q: ShapeQuery, input: Meta, *shape: Size | Sequence[Size], **named: Sequence[Size]
) -> Meta:
    sizes = sizes_of(shape or tuple(named.values()))
    return reshaped_as(q, input, inferred(q, sizes, input.numel))


def reshape_as(q: ShapeQuery, input: Meta, other: Meta) -> Meta:
    return reshaped_as(q, input, inferred(q, other.shape, input.numel))


def flatten(q: ShapeQuery, input: Meta, start_dim: int = 0, end_dim: int = -1) -> Meta:
    if not input.shape:
        q.dims((start_dim,), 0)
        q.dims((end_dim,), 0)
        return reshaped_as(q, input, (1,))
    start, end = q.dim(start_dim, input.rank), q.dim(end_dim, input.rank)
    if start > end:
        raise q.fail(f"dimension {start_dim} comes after {end_dim}")
    if start == end:
        return input
    joined = product(input.shape[start : end + 1])
    return reshaped_as(q, input, (*input.shape[:start], joined, *input.shape[end + 1 :]))


def ravel(q: ShapeQuery, input: Meta) -> Meta:
    # Unlike reshape(-1) it never leaves gaps: it copies whatever is not contiguous.
    if input.is_contiguous:
        return viewed_as(q, input, (input.numel,))
    whole = contiguity(input)
    if q.known(whole):
        return input.viewed((input.numel,), (1,))
    return replace(input.like((input.numel,)), shares_if=None if q.known(not_(whole)) else whole)


def unflatten(q: ShapeQuery, input: Meta, dim: int, sizes: Size | Sequence[Size]) -> Meta:
    dim = q.dim(dim, input.rank)
    split = sizes_of((sizes,))
    if not split or not input.shape:
        raise q.fail("a dimension is needed to unflatten, and sizes to unflatten it into")
    split = inferred(q, split, input.shape[dim])
    return viewed_as(q, input, (*input.shape[:dim], *split, *input.shape[dim + 1 :]))


def resize(
    q: ShapeQuery,
    input: Meta,
    *sizes: Size | Sequence[Size],
    memory_format: torch.memory_format | None = None,
    **named: Sequence[Size],
) -> Meta:
    return _resized(q, input, sizes_of(sizes or tuple(named.values())), memory_format)


def resize_as(
    q: ShapeQuery, input: Meta, other: Meta, *, memory_format: torch.memory_format | None = None
) -> Meta:
    if memory_format is torch.preserve_format:
        layout = kept_format(q, other)
        memory_format = _FORMATS.get(other.rank) if layout != contiguous(other.rank) else None
    return _resized(q, input, other.shape, memory_format)


def _resized(
    q: ShapeQuery, input: Meta, shape: tuple[Size, ...], memory_format: torch.memory_format | None
) -> Meta:
    """The storage, grown if need be, with these sizes: without gaps, unless nothing changes."""
    for size in shape:
        q.require(ge(size, 0), f"{size} is no size")
    wanted = contiguous(len(shape))
    if memory_format in _FORMATS.values():
        if _FORMATS.get(len(shape)) is not memory_format:
            raise q.fail(f"{memory_format} is not for {len(shape)} dimensions")
        wanted = channels_last(len(shape))
    elif input.rank == len(shape) and input.layout != wanted:
        same = and_(*(eq(a, b) for a, b in zip(input.shape, shape, strict=True)))
        if q.decide(same, "nothing is resized to the sizes that it has"):
            return input
    return replace(input, shape=shape, layout=wanted)


_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
_row = partial(row_of, OpKind.VIEW)

ROWS = (
    _row("view", view),
    _row("view_as", view_as),
    _row("reshape", reshape),
    _row("reshape_as", reshape_as),
    _row("flatten", flatten),
    _row("ravel", ravel),
    _row("unflatten", unflatten),
    Op("resize", (), resize, OpKind.VIEW, in_place=("torch.Tensor.resize_",), restrides=True),
    Op(
        "resize_as",
        (),
        resize_as,
        OpKind.VIEW,
        in_place=in_place_names("resize_as"),
        restrides=True,
    ),
)


# -- native code ----------------------------------------------------------------------------------


@lower(*moving("reshape", "reshape_as", "flatten", "ravel"))
def lower_reshape(c: Lowering, input: Value, **_: Any) -> Value:
    return in_shape(c, input, c.result.shape)


def reshaping(c: Lowering, base: Meta, shown: Meta) -> IndexMap:
    """The same elements in the same order."""
    own, extents, facts = base.shape, c.values.extents, c.facts
    return Rearranged(
        lambda index: reshaped(index, shown.shape, own, extents, facts),
        lambda factors: merged(factors, shown.shape),
    )


@lower_view("view", "view_as", "unflatten")
def lower_as_shape(c: Lowering, base: Meta, **_: Any) -> IndexMap:
    return reshaping(c, base, c.result)


@lower_view("reshape", "reshape_as", "flatten", "ravel")
def lower_maybe_copied(c: Lowering, base: Meta, **_: Any) -> IndexMap:
    if c.result.shape == base.shape and c.result.layout == base.layout:
        return lambda index: index
    questions = ShapeQuery(c.facts, "reshape")
    found = as_view(questions, base, c.result.shape)
    if questions.needs:
        raise NotLowered("a copy or a view by what is not known")
    if isinstance(found, Copy):
        raise_if_copied(c, found.shares_if)
    if c.result.shares_if is not base.shares_if:
        raise NotLowered("a view that was a copy for all the capture knew")
    return reshaping(c, base, c.result)


def raise_if_copied(c: Lowering, shares_if: Fact | None) -> None:
    """The result is a tensor of its own, unless it shares memory for some sizes and that can be
    told."""
    answer = Answer.NO if shares_if is None else c.facts.prove(shares_if)
    if answer is Answer.UNKNOWN and not c.sharing_matters():
        answer = Answer.NO
    if answer is Answer.NO:
        raise NotAView("a copy")
    raise NotLowered("a copy for some sizes, a view for others")


# -- gradients ------------------------------------------------------------------------------------


@gradient("ravel", "view", "reshape", "flatten", "unflatten", "view_as", "reshape_as")
def gradient_reshape(grad: Term, input: Term) -> Gradients:
    return {"input": rearranged(grad, input.shape)}


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("view")
def onnx_view(w: Writer, node: Node, input: Any, shape: Any, **named: Any) -> str:
    if "dtype" in named or isinstance(shape[0] if shape else 0, torch.dtype):
        raise NotMapped("a view of the bytes")
    return onnx_reshape(w, node, input, named.get("size", shape))


@onnx("reshape")
def onnx_reshape(w: Writer, node: Node, input: Any, shape: Any) -> str:
    if _is_whole(w, shape):
        raise NotMapped("a shape that is not a constant as a whole")
    if not len(shape):
        return w.add("Reshape", [w.name(input), w.constant(torch.empty(0, dtype=torch.int64))])
    # A size of 0 would otherwise mean "as it was".
    return w.add("Reshape", [w.name(input), w.shape(shape)], allowzero=int(-1 not in list(shape)))


def _is_whole(w: Writer, sizes: Any) -> bool:
    """Whether the one size that is given is all of them."""
    return len(sizes) == 1 and isinstance(w.example(sizes[0]), tuple | list)


def onnx_like(kind: str, w: Writer, node: Node, input: Any, other: Any) -> str:
    """`view_as`, `expand_as`."""
    return w.add(kind, [w.name(input), w.add("Shape", [w.name(other)])])


@onnx("flatten")
def onnx_flatten(w: Writer, node: Node, input: Any, start_dim: int, end_dim: int) -> str:
    rank = w.rank(input)
    first, last = (known(dim) % max(rank, 1) for dim in (start_dim, end_dim))
    return _with_sizes(w, input, first, last + 1, w.constant([-1]))


@onnx("unflatten")
def onnx_unflatten(w: Writer, node: Node, input: Any, dim: int, sizes: Any) -> str:
    at = known(dim) % w.rank(input)
    return _with_sizes(w, input, at, at + 1, w.shape(sizes))


def _with_sizes(w: Writer, x: Any, first: int, after: int, between: str) -> str:
    """Other sizes in the place of those from `first` to before `after`."""
    rank, shape = w.rank(x), w.add("Shape", [w.name(x)])
    head = [w.add("Slice", [shape, w.constant([0]), w.constant([first])])] if first else []
    tail = (
        [w.add("Slice", [shape, w.constant([after]), w.constant([rank])])] if after < rank else []
    )
    parts = [*head, between, *tail]
    wanted = between if len(parts) == 1 else w.add("Concat", parts, axis=0)
    return w.add("Reshape", [w.name(x), wanted])


onnx_rows(
    {
        "view_as": partial(onnx_like, "Reshape"),
        "reshape_as": partial(onnx_like, "Reshape"),
    }
)
