"""Padding: sizes grow or shrink at both ends of the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.loops import expr
from anyshape.loops.expr import FLOAT8, FLOATS, Scalar
from anyshape.ops.broadcast import pointwise_layout
from anyshape.ops.families.backward_kernels import by_kernel
from anyshape.ops.families.slice_gradient import widened
from anyshape.ops.families.slicing import part
from anyshape.ops.gradient import Gradients, NoGradient, Term
from anyshape.ops.lowering.masked_load import guardable, guarded
from anyshape.ops.lowering.pointwise_builder import Operand, mapped, scalar_of
from anyshape.ops.lowering.scalar_range_check import EXACT, must_be_within, must_fit
from anyshape.ops.lowering.scalars import all_of, cast, test, where, wide
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value
from anyshape.ops.memory_format import kept_format
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import Op, OpKind, gradient, lower, moving, onnx
from anyshape.ops.shape_query import ShapeQuery
from anyshape.ops.versions import REPLICATION_LEAVES_ALL_SIZES
from anyshape.symbolic import (
    Answer,
    Expr,
    Size,
    absolute,
    and_,
    by_multiples,
    eq,
    ge,
    gt,
    le,
    lt,
    maximum,
    minimum,
    modulo,
    ne,
    or_,
)

#: (dimension, in front, behind)
Pads = list[tuple[int, Size, Size]]


def _pads(q: ShapeQuery, input: Meta, pad: Sequence[Size]) -> Pads:
    """The padding by dimension: it is given in pairs, from the last dimension on."""
    if len(pad) % 2 or len(pad) > 2 * input.rank:
        raise q.fail(f"padding {list(pad)} is no pair for each of at most {input.rank} dimensions")
    count = len(pad) // 2
    return [(input.rank - 1 - i, pad[2 * i], pad[2 * i + 1]) for i in range(count)]


def _grown(input: Meta, pads: Pads) -> tuple[Size, ...]:
    shape = list(input.shape)
    for dim, front, behind in pads:
        # Programs pad to multiples most of all, and cut into pieces of that size afterwards.
        shape[dim] = by_multiples(shape[dim] + front + behind)
    return tuple(shape)


def constant_pad_nd(q: ShapeQuery, input: Meta, pad: Sequence[Size], value: object = 0) -> Meta:
    pads = _pads(q, input, pad)
    inner = input
    for dim, front, behind in pads:
        inner = _cut(q, inner, dim, front, behind)
    shape = _grown(input, pads)
    cloned, layout = pointwise_layout(q, inner.shape, (inner,)), kept_format(q, input)
    nothing = and_(*(and_(le(front, 0), le(behind, 0)) for _, front, behind in pads))
    if q.known(nothing) if cloned == layout else q.decide(nothing, "nothing is added: a clone"):
        return input.like(inner.shape, layout=cloned)
    for size in shape:
        q.require(ge(size, 0), "a padded size must not be negative")
    if layout != contiguous(input.rank) and q.decide(
        eq(input.numel, 0), "a tensor without elements is not channels-last"
    ):
        layout = contiguous(input.rank)
    return input.like(shape, layout=layout)


def _cut(q: ShapeQuery, input: Meta, dim: int, front: Size, behind: Size) -> Meta:
    """The tensor without what negative padding cuts off."""
    if q.decide(lt(front, 0), "negative padding cuts off"):
        q.require(ge(input.shape[dim] + front, 0), f"{-front} positions are cut off in front")
        input = part(input, dim, -front, input.shape[dim] + front)
    if q.decide(lt(behind, 0), "negative padding cuts off"):
        q.require(ge(input.shape[dim] + behind, 0), f"{-behind} positions are cut off behind")
        input = part(input, dim, 0, input.shape[dim] + behind)
    return input


def circular(q: ShapeQuery, input: Meta, pads: Pads) -> Meta:
    for dim, front, behind in pads:
        size = input.shape[dim]
        q.require(
            and_(le(front, size), le(behind, size)), "circular padding wraps around at most once"
        )
        q.require(ge(size + front + behind, 0), "a padded size must not be negative")
    shape = _grown(input, pads)
    return input.like(shape, layout=contiguous(len(shape)))


def mirrored(q: ShapeQuery, input: Meta, pads: Pads, *, reflect: bool) -> Meta:
    """Reflected or repeated edges."""
    if input.dtype.is_floating_point is False and str(input.dtype) == "torch.bool":
        raise q.fail("booleans cannot be padded in this way")
    batched = input.rank == len(pads) + 2
    for size in input.shape[1:] if batched else input.shape:
        q.require(ne(size, 0), "only the batch may be empty")
    for dim, front, behind in pads:
        size = input.shape[dim]
        if reflect:
            q.require(
                and_(lt(front, size), lt(behind, size)),
                f"padding must be less than the size {size}",
            )
        q.require(ge(size + front + behind, 0), "a padded size must not be negative")
    shape = _grown(input, pads)
    positive = [gt(shape[dim], 0) for dim, _, _ in pads]
    enough = and_ if REPLICATION_LEAVES_ALL_SIZES and not reflect else or_
    q.require(enough(*positive), "a padded size must be at least 1")
    return input.like(shape, layout=kept_format(q, input))


def pad(
    q: ShapeQuery,
    input: Meta,
    pad: Sequence[Size],
    mode: str = "constant",
    value: float | None = None,
) -> Meta:
    if mode == "constant":
        return constant_pad_nd(q, input, pad)
    pads = _pads(q, input, pad)
    if value not in (None, 0) or mode not in ("reflect", "replicate", "circular"):
        raise q.fail(f"there is no padding mode {mode!r} with value {value!r}")
    if not pads or len(pads) > 3 or input.rank not in (len(pads) + 1, len(pads) + 2):
        raise q.fail(f"padding of {len(pads)} dimensions is not for {input.rank} dimensions")
    if mode == "circular":
        return circular(q, input, pads)
    return mirrored(q, input, pads, reflect=mode == "reflect")


ROWS: tuple[Op, ...] = (
    Op("pad", ("torch.nn.functional.pad", "torch._C._nn.pad"), pad, OpKind.INDEX_MAP),
    Op("constant_pad_nd", ("torch.constant_pad_nd",), constant_pad_nd, OpKind.INDEX_MAP),
)


# -- native code ----------------------------------------------------------------------------------


#: (dimension, in front, behind)
DimPads = list[tuple[int, Size, Size]]


def pads_of(input: Value, pad: Any) -> DimPads:
    """The padding by dimension: it is given in pairs, from the last dimension on."""
    if not isinstance(pad, tuple | list) or not all(
        type(each) is int or isinstance(each, Expr) for each in pad
    ):
        raise NotLowered("padding that is no size")
    last = len(input.sizes) - 1
    return [(last - i, pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]


def grown(input: Value, pads: DimPads) -> list[Size]:
    sizes = list(input.sizes)
    for dim, front, behind in pads:
        sizes[dim] = sizes[dim] + front + behind
    return sizes


@lower(*moving("constant_pad_nd"))
def lower_constant_pad(c: Lowering, input: Value, pad: Any, value: Operand | None) -> Value:
    pads, fill = pads_of(input, pad), 0 if value is None else value
    if isinstance(fill, Value) or (isinstance(fill, float) and input.dtype not in FLOATS):
        raise NotLowered("a fill that is no number of the dtype")
    must_fit(c, fill, input.dtype)
    # Torch makes a float of it first.
    if isinstance(fill, Expr):
        must_be_within(c, fill, -EXACT, EXACT)
    elif type(fill) is int and abs(fill) > EXACT:
        raise NotLowered("a fill that is no float")
    guardable(c, input)

    def at(index: Index) -> Scalar:
        inside: list[Scalar] = []
        there = list(index)
        for dim, front, behind in pads:
            there[dim] = here = index[dim] - front
            if c.facts.prove(le(front, 0)) is not Answer.YES:
                inside.append(test("ge", expr.index(here), expr.constant(0, "i64")))
            if c.facts.prove(le(behind, 0)) is not Answer.YES:
                extent = expr.index(input.sizes[dim])
                inside.append(test("lt", expr.index(here), extent))
        if not inside:
            return input.at(tuple(there))
        condition = all_of(inside)
        other = cast(scalar_of(fill, index, (), wide(input.dtype)), input.dtype)
        return where(condition, guarded(input, tuple(there), condition), other)

    return c.values.new(grown(input, pads), input.dtype, at, (input,), cost=3)


def _reflected(at: Size, size: Size) -> Size:
    return (size - 1) - absolute((size - 1) - absolute(at))


def _replicated(at: Size, size: Size) -> Size:
    return minimum(maximum(at, 0), size - 1)


def _wrapped(at: Size, size: Size) -> Size:
    return modulo(at + size, size)


_MODES = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}


@lower(*moving("pad"))
def lower_pad(c: Lowering, input: Value, pad: Any, mode: Any, value: Operand | None) -> Value:
    if mode == "constant":
        return lower_constant_pad(c, input, pad, value)
    pads, source = pads_of(input, pad), _MODES.get(mode)
    if source is None or input.dtype in FLOAT8:
        raise NotLowered(f"padding by {mode}")
    both = [end for _, front, behind in pads for end in (front, behind)]
    if mode == "circular" and any(c.facts.prove(ge(end, 0)) is not Answer.YES for end in both):
        raise NotLowered("what is left where an end is cut off goes round")

    def index_map(index: Index) -> Index:
        there = list(index)
        for dim, front, _ in pads:
            there[dim] = source(index[dim] - front, input.sizes[dim])
        return tuple(there)

    return mapped(c, input, grown(input, pads), index_map, cost=4)


# -- gradients ------------------------------------------------------------------------------------


@gradient("pad", "constant_pad_nd")
def gradient_pad(grad: Term, input: Term, pad: Any, mode: Any = "constant") -> Gradients:
    """Copies go back to where they are from."""
    if mode == "constant":
        return {"input": _cut_off(grad, input, pad)}
    kernels = {"reflect": "reflection_pad{}d_backward", "replicate": "replication_pad{}d_backward"}
    if mode == "circular":
        return {"input": _unwound(grad, input, pad)}
    return {"input": by_kernel(kernels[mode].format(len(pad) // 2), grad, input, list(pad))}


def _cut_off(grad: Term, input: Term, pad: Any) -> Term:
    """What was added is cut off, and zeros are where something was cut off."""

    def is_cut(end: Any) -> bool:
        if grad.records.prove(ge(end, 0)) is Answer.YES:
            return False
        if grad.records.prove(lt(end, 0)) is Answer.YES:
            return True
        raise NoGradient("whether an end is cut off is not known")

    for number in range(len(pad) // 2):
        dim = input.rank - 1 - number
        ends = pad[2 * number : 2 * number + 2]
        front, behind = (end if is_cut(end) else 0 for end in ends)
        size = input.shape[dim]
        grad = grad.narrow(dim, 0 if is_cut(ends[0]) else ends[0], size + front + behind)
        grad = widened(grad, dim, -front, size)
    return grad


def _unwound(grad: Term, input: Term, pad: Any) -> Term:
    """What went round at an end goes back to the other one."""
    if not all(type(each) is int and each >= 0 for each in pad):
        raise NoGradient("an end that may be cut off")
    for number in range(len(pad) // 2):
        front, behind = pad[2 * number : 2 * number + 2]
        dim = input.rank - 1 - number
        size = input.shape[dim]
        own = grad.narrow(dim, front, size)
        if front:
            own = own + widened(grad.narrow(dim, 0, front), dim, size - front, size)
        if behind:
            own = own + widened(grad.narrow(dim, front + size, behind), dim, 0, size)
        grad = own
    return grad


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("pad")
def onnx_pad(w: Writer, node: Node, input: Any, pad: Any, mode: str, value: Any) -> str:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode not in modes:
        raise NotMapped(f"padding of mode {mode}")
    before, after = list(pad[0::2]), list(pad[1::2])
    axes = [-1 - at for at in range(len(before))]
    inputs = [w.name(input), w.shape([*before, *after])]
    filler = w.name(0 if value is None else value, w.dtype(node)) if mode == "constant" else ""
    return w.add("Pad", [*inputs, filler, w.constant(axes)], mode=modes[mode])
