"""One tensor in several: views of consecutive parts of a dimension. The number of parts is what the
program sees."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from anyshape.errors import NeedsDecision
from anyshape.ops.families.slicing import part, sliced, start_of
from anyshape.ops.gradient import Gradients, Term
from anyshape.ops.lowering.pointwise_builder import shifted
from anyshape.ops.lowering.values import IndexMap, Lowering, place
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import END, Node, NotMapped, Writer, is_node, known
from anyshape.ops.op import INDEXES, Op, OpKind, Rule, gradient, lower_view, names_of, onnx, row_of
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Expr, Size, and_, ceildiv, eq, ge, gt, le, maximum, or_, total

_HOW_MANY = "the number of parts"
Parts = tuple[Meta, ...]


def parts(input: Meta, dim: int, sizes: Sequence[Size]) -> Parts:
    """Consecutive parts of these sizes, which are known to fit."""
    found: list[Meta] = []
    start: Size = 0
    for size in sizes:
        found.append(part(input, dim, start, size))
        start = start + size
    return tuple(found)


def _dim(q: ShapeQuery, input: Meta, dim: int) -> int:
    if not input.shape:
        raise q.fail("a tensor without dimensions cannot be split")
    return q.dim(dim, input.rank)


def split(
    q: ShapeQuery, input: Meta, split_size_or_sections: Size | Sequence[Size], dim: int = 0
) -> Parts:
    if isinstance(split_size_or_sections, tuple | list):
        return split_with_sizes(q, input, split_size_or_sections, dim)
    return split_evenly(q, input, split_size_or_sections, dim)  # pyright: ignore[reportArgumentType]


def split_evenly(q: ShapeQuery, input: Meta, split_size: Size, dim: int = 0) -> Parts:
    """Parts of one size; the last may be smaller."""
    dim = _dim(q, input, dim)
    size = input.shape[dim]
    q.require(ge(split_size, 0), f"the size {split_size} of a part must not be negative")
    if q.decide(eq(split_size, 0), "parts of size 0"):
        q.require(eq(size, 0), "only a size of 0 can be split into parts of size 0")
        return (input,)
    count = q.count(maximum(ceildiv(size, split_size), 1), _HOW_MANY)
    return parts(input, dim, [*[split_size] * (count - 1), size - (count - 1) * split_size])


def split_with_sizes(
    q: ShapeQuery, input: Meta, split_sizes: Sequence[Size], dim: int = 0
) -> Parts:
    dim = _dim(q, input, dim)
    for size in split_sizes:
        if type(size) is Expr or size < 0:  # pyright: ignore[reportOperatorIssue] an int, then
            q.require(ge(size, 0), f"the size {size} of a part must not be negative")
    everything = total(list(split_sizes))
    if everything is not input.shape[dim]:
        q.require(
            eq(everything, input.shape[dim]), f"the parts {list(split_sizes)} must sum to the size"
        )
    return parts(input, dim, split_sizes)


def chunk(q: ShapeQuery, input: Meta, chunks: int, dim: int = 0) -> Parts:
    dim = _dim(q, input, dim)
    if type(chunks) is not int:
        chunks = q.count(chunks, _HOW_MANY)
    if chunks < 1:
        raise q.fail(f"at least one chunk is needed, not {chunks}")
    size = input.shape[dim]
    each = ceildiv(size, chunks)
    count = _chunks(q, size, each, chunks)
    return parts(input, dim, [*[each] * (count - 1), size - (count - 1) * each])


def _chunks(q: ShapeQuery, size: Size, each: Size, most: int) -> int:
    """How many chunks there are: as many as asked for, or fewer if the size does not last; all of
    them if it is 0.
    """
    if most == 1 or q.known(eq(size % most, 0)):
        return most
    if q.decide(or_(eq(size, 0), gt(size, (most - 1) * each)), _HOW_MANY):
        return most
    now, step = q.facts.hint(size), q.facts.hint(each)
    assert now is not None, "what depends on data has been refused"
    assert step is not None, "what depends on data has been refused"
    count = -(-now // step)
    q.decide(and_(gt(size, (count - 1) * each), le(size, count * each)), _HOW_MANY)
    return count


def tensor_split(
    q: ShapeQuery,
    input: Meta,
    indices_or_sections: Size | Sequence[Size] | Meta | None = None,
    dim: int = 0,
    *,
    indices: Sequence[Size] | None = None,
    sections: Size | None = None,
    tensor_indices_or_sections: Meta | None = None,
) -> Parts:
    given = (indices_or_sections, indices, sections, tensor_indices_or_sections)
    how = next(value for value in given if value is not None)
    dim = _dim(q, input, dim)
    if isinstance(how, Meta):
        return _at_tensor(q, input, how, dim)
    if isinstance(how, tuple | list):
        starts, stops = [None, *how], [*how, None]
        return tuple(
            sliced(q, input, dim, start, stop, 1) for start, stop in zip(starts, stops, strict=True)
        )
    return in_sections(q, input, how, dim)  # pyright: ignore[reportArgumentType] a size, then


def in_sections(q: ShapeQuery, input: Meta, sections: Size, dim: int) -> Parts:
    """So many parts, the first ones larger by one where the size is no multiple."""
    count = q.count(sections, _HOW_MANY)
    if count < 1:
        raise q.fail(f"at least one part is needed, not {count}")
    size = input.shape[dim]
    return parts(input, dim, [(size + count - 1 - index) // count for index in range(count)])


def _at_tensor(q: ShapeQuery, input: Meta, indices: Meta, dim: int) -> Parts:
    if not indices.shape:
        raise NeedsDecision(op=q.op, fact="the number of parts == ?", reason="it is in a tensor")
    if indices.rank > 1:
        raise q.fail("the indices must be a vector")
    count = q.count(indices.shape[0], _HOW_MANY) + 1
    found: list[Meta] = []
    for _ in range(count):
        start, length = q.new_size(), q.new_size()
        q.given(le(start + length, input.shape[dim]))
        found.append(part(input, dim, start, length))
    return tuple(found)


def _split_in(which: str, least: int, dim: int) -> Rule:
    """hsplit, vsplit, dsplit: a given dimension, and a number of sections must divide the size."""

    def rule(
        q: ShapeQuery,
        input: Meta,
        indices_or_sections: Size | Sequence[Size] | None = None,
        *,
        indices: Sequence[Size] | None = None,
        sections: Size | None = None,
    ) -> Parts:
        how = next(v for v in (indices_or_sections, indices, sections) if v is not None)
        if input.rank < least:
            raise q.fail(f"{which} is for at least {least} dimensions, not {input.rank}")
        chosen = 0 if input.rank == 1 else dim
        if isinstance(how, tuple | list):
            return tensor_split(q, input, how, chosen)
        count = q.count(how, _HOW_MANY)  # pyright: ignore[reportArgumentType] a size, then
        if count < 1:
            raise q.fail(f"at least one part is needed, not {count}")
        q.require(eq(input.shape[chosen] % count, 0), f"the size must be a multiple of {count}")
        return in_sections(q, input, count, chosen)

    return rule


_row = partial(row_of, OpKind.VIEW)

ROWS: tuple[Op, ...] = (
    _row("split", split),
    _row("unsafe_split", split_evenly),
    _row("split_with_sizes", split_with_sizes, *names_of("unsafe_split_with_sizes")),
    _row("chunk", chunk, *names_of("unsafe_chunk")),
    _row("tensor_split", tensor_split, effects=INDEXES),
    _row("hsplit", _split_in("hsplit", 1, 1)),
    _row("vsplit", _split_in("vsplit", 2, 0)),
    _row("dsplit", _split_in("dsplit", 3, 2)),
)


# -- native code ----------------------------------------------------------------------------------


@lower_view("split", "unsafe_split", "split_with_sizes", "chunk", "tensor_split")
def lower_split(c: Lowering, base: Meta, dim: Any, **_: Any) -> list[IndexMap]:
    at = place(dim, base.rank)
    return [shifted(at, start_of(base, shown, at)) for shown in c.result]


def named_split(name: str, dim: int) -> None:
    @lower_view(name)
    def lowered(c: Lowering, base: Meta, **_: Any) -> list[IndexMap]:
        # A vector is split along its one dimension.
        at = min(dim, base.rank - 1)
        return [shifted(at, start_of(base, shown, at)) for shown in c.result]


named_split("vsplit", 0)
named_split("hsplit", 1)
named_split("dsplit", 2)


# -- gradients ------------------------------------------------------------------------------------


@gradient("unsafe_split", "split", "split_with_sizes", "chunk", "tensor_split")
def gradient_of_parts(grad: dict[int, Term], results: Any, dim: Any) -> Gradients:
    parts = _all(grad, results)
    return {"input": parts[0].records.record(torch.cat, parts, dim)}


@gradient("unbind")
def gradient_unbind(grad: dict[int, Term], results: Any, dim: Any) -> Gradients:
    parts = _all(grad, results)
    return {"input": parts[0].records.record(torch.stack, parts, dim)}


def _all(grads: dict[int, Term], results: Any) -> list[Term]:
    """Those that nothing came back for are zeros."""
    some = next(iter(grads.values()))

    def zeros(meta: Meta) -> Term:
        options = {"dtype": meta.dtype, "device": meta.device}
        return some.records.record(torch.zeros, meta.shape, **options)

    return [grads[k] if k in grads else zeros(meta) for k, meta in enumerate(results)]


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("split")
def onnx_split(
    w: Writer, node: Node, input: Any, split_size_or_sections: Any, dim: int
) -> list[str]:
    size = split_size_or_sections
    if isinstance(size, int):
        # As many parts as a guard of the program fixed; the last one is what is left.
        size = [*[size] * (len(w.example(node)) - 1), END]
    if is_node(size) or any(is_node(each) for each in size):
        raise NotMapped("a split into parts whose size is computed")
    starts = [sum(size[:at]) for at in range(len(size))]
    return [
        w.add(
            "Slice",
            [w.name(input), w.constant([start]), w.constant([start + each]), w.constant([dim])],
        )
        for start, each in zip(starts, size, strict=True)
    ]


@onnx("chunk")
def onnx_chunk(w: Writer, node: Node, input: Any, chunks: int, dim: int) -> list[str]:
    if w.example(input).shape[known(dim)] % known(chunks):
        raise NotMapped("chunks of different sizes")
    return w.several("Split", [w.name(input)], chunks, axis=dim, num_outputs=chunks)
