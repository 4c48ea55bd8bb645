"""Views: the same storage seen with other sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.ops.meta import Dense, Meta
from anyshape.ops.op import Op, OpKind, Rule, in_place_names, names_of
from anyshape.ops.promotion import complex_of, real
from anyshape.ops.rules.reshaping import sizes_of
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Size, and_, eq, ge, le, maximum, minimum, or_, total

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
        q.decide_or(eq(size, wanted), True, "equal sizes are kept; a size of 1 would be stretched")
        return False
    if not q.decide(eq(size, 1), "a dimension of size 1 is stretched"):
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


# ---- parts of a dimension ------------------------------------------------------------------------


def selected(q: ShapeQuery, input: Meta, dim: int, index: Size) -> Meta:
    """One position of a dimension, which is gone."""
    index = q.index(index, input.shape[dim])
    moved = replace(input, offset=input.offset + index * input.strides[dim])
    return without(moved, (dim,))


def select(q: ShapeQuery, input: Meta, dim: int, index: Size) -> Meta:
    if not input.shape:
        raise q.fail("a tensor without dimensions has nothing to select")
    return selected(q, input, q.dim(dim, input.rank), index)


def sliced(
    q: ShapeQuery, input: Meta, dim: int, start: Size | None, stop: Size | None, step: Size
) -> Meta:
    """`input[start:stop:step]` in one dimension, as Python has it: from the end where negative, and
    never out of range.
    """
    size = input.shape[dim]
    if step != 1:
        q.require(ge(step, 1), f"the step of a slice must be at least 1, not {step}")
    first, length = _extent(q, size, 0 if start is None else start, stop)
    if type(step) is Expr or step != 1:
        length = (length + step - 1) // step
    if length is size and first == 0:
        return input
    stride = input.strides[dim]
    shape = (*input.shape[:dim], length, *input.shape[dim + 1 :])
    strides = (*input.strides[:dim], stride * step, *input.strides[dim + 1 :])
    return input.viewed(shape, strides, input.offset + first * stride)


def _extent(q: ShapeQuery, size: Size, start: Size, stop: Size | None) -> tuple[Size, Size]:
    """The first position of a slice (right where the slice has elements) and the number of
    positions from there to its end.
    """
    stop = size if stop is None else _stop(q, size, stop)
    if not q.decide(ge(start, 0), "a negative start of a slice counts from the end"):
        # From max(size + start, 0): the length is the smaller of the two.
        return _most(q, size + start, 0), _most(q, _least(q, stop - size - start, stop), 0)
    return start, _most(q, stop - start, 0)


def _stop(q: ShapeQuery, size: Size, stop: Size) -> Size:
    """The end of a slice; below its start where it is out of range at the front."""
    if type(stop) is int and stop >= 2**62:  # what torch itself writes for "to the end"
        return size
    if q.decide(ge(stop, 0), "a negative end of a slice counts from the end"):
        return _least(q, stop, size)
    return size + stop


def _least(q: ShapeQuery, a: Size, b: Size) -> Size:
    found = minimum(a, b)
    if found is a or found is b or type(found) is int:
        return found
    return a if q.known(le(a, b)) else b if q.known(le(b, a)) else found


def _most(q: ShapeQuery, a: Size, b: Size) -> Size:
    found = maximum(a, b)
    if found is a or found is b or type(found) is int:
        return found
    return a if q.known(ge(a, b)) else b if q.known(ge(b, a)) else found


def slice_(
    q: ShapeQuery,
    input: Meta,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> Meta:
    if not input.shape:
        raise q.fail("a tensor without dimensions has nothing to slice")
    return sliced(q, input, q.dim(dim, input.rank), start, end, step)


def narrow(q: ShapeQuery, input: Meta, dim: int, start: Size | Meta, length: Size) -> Meta:
    if not input.shape:
        raise q.fail("a tensor without dimensions cannot be narrowed")
    dim = q.dim(dim, input.rank)
    size = input.shape[dim]
    q.require(ge(length, 0), f"the length {length} must not be negative")
    if isinstance(start, Meta):
        if (
            start.shape
            or start.dtype.is_floating_point
            or start.dtype in (torch.bool, torch.complex64)
        ):
            raise q.fail("a start that is a tensor must be an integer without dimensions")
        start = q.new_size()
        q.require(le(length, size), f"{length} positions do not fit into size {size}")
        q.given(le(start + length, size))
    elif not q.decide(ge(start, 0), "a negative start counts from the end"):
        q.require(ge(start, -size), f"start {start} is out of range for size {size}")
        start = start + size
    q.require(
        le(start + length, size), f"{length} positions from {start} on do not fit into size {size}"
    )
    return part(input, dim, start, length)


def part(input: Meta, dim: int, start: Size, length: Size) -> Meta:
    """`length` positions from `start` on, which are known to exist."""
    shape = (*input.shape[:dim], length, *input.shape[dim + 1 :])
    return input.viewed(shape, input.strides, input.offset + start * input.strides[dim])


def unbind(q: ShapeQuery, input: Meta, dim: int = 0) -> tuple[Meta, ...]:
    if not input.shape:
        raise q.fail("a tensor without dimensions cannot be unbound")
    dim = q.dim(dim, input.rank)
    count = q.count(input.shape[dim], "one result a position of the dimension")
    stride = input.strides[dim]
    one = without(input, (dim,))
    return tuple(replace(one, offset=input.offset + index * stride) for index in range(count))


def unfold(q: ShapeQuery, input: Meta, dimension: int, size: Size, step: Size) -> Meta:
    dim = q.dim(dimension, input.rank)
    q.require(ge(size, 0), f"the size {size} of a window must not be negative")
    q.require(ge(step, 1), f"the step {step} must be at least 1")
    whole = input.shape[dim] if input.shape else 1
    q.require(le(size, whole), f"a window of {size} must fit into {whole}")
    if not input.shape:
        return input.viewed((size,), (1,))
    stride = input.strides[dim]
    shape = (*input.shape[:dim], (whole - size) // step + 1, *input.shape[dim + 1 :], size)
    return input.viewed(
        shape, (*input.strides[:dim], stride * step, *input.strides[dim + 1 :], stride)
    )


def diagonal(q: ShapeQuery, input: Meta, offset: Size = 0, dim1: int = 0, dim2: int = 1) -> Meta:
    a, b = q.dim(dim1, input.rank), q.dim(dim2, input.rank)
    if a == b:
        raise q.fail(f"a diagonal needs two dimensions, not {dim1} twice")
    rows, columns = input.shape[a], input.shape[b]
    stride_a, stride_b = input.strides[a], input.strides[b]
    if q.decide(ge(offset, 0), "a diagonal above or below the main one"):
        length, first = _least(q, rows, columns - offset), offset * stride_b
    else:
        length, first = _least(q, rows + offset, columns), -offset * stride_a
    kept = without(replace(input, offset=input.offset + first), (a, b))
    return kept.viewed((*kept.shape, _most(q, length, 0)), (*kept.strides, stride_a + stride_b))


def linalg_diagonal(
    q: ShapeQuery, A: Meta, *, offset: Size = 0, dim1: int = -2, dim2: int = -1
) -> Meta:
    return diagonal(q, A, offset, dim1, dim2)


def as_strided(
    q: ShapeQuery,
    input: Meta,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Meta:
    shape, strides = tuple(size), tuple(stride)
    if len(shape) != len(strides):
        raise q.fail(f"as many sizes as strides are needed, not {shape} and {strides}")
    offset = input.offset if storage_offset is None else storage_offset
    for number in (*shape, *strides, offset):
        q.require(ge(number, 0), f"sizes, strides and offset must not be negative: {number}")
    _require_room(q, input, shape, strides, offset)
    return input.viewed(shape, strides, offset)


def _require_room(
    q: ShapeQuery, input: Meta, shape: tuple[Size, ...], strides: tuple[Size, ...], offset: Size
) -> None:
    """Make sure that such a view lies in the storage, of which only the part is known that the
    tensor reaches.
    """
    room = or_(
        *(eq(size, 0) for size in shape),
        le(offset + reach(shape, strides), input.offset + extent(input)),
    )
    if q.facts.holds_now(room) is not False:
        q.require(room, "the view lies where the tensor does")
        return
    for number in (*shape, *strides, offset):
        q.specialize(
            number, "the view goes beyond the tensor, and the size of its storage is not known"
        )


def reach(shape: Sequence[Size], strides: Sequence[Size]) -> Size:
    """How far the last element lies from the first, and one."""
    return 1 + total([(size - 1) * stride for size, stride in zip(shape, strides, strict=True)])


def extent(input: Meta) -> Size:
    """How many elements of the storage the tensor spans where it has elements."""
    return input.numel if isinstance(input.layout, Dense) else reach(input.shape, input.strides)


# ---- numbers seen as other numbers ---------------------------------------------------------------


def view_as_real(q: ShapeQuery, input: Meta) -> Meta:
    if not input.dtype.is_complex:
        raise q.fail(f"{input.dtype} is not complex")
    seen = _in_halves(input)
    return seen.viewed((*seen.shape, 2), (*seen.strides, 1))


def _in_halves(input: Meta) -> Meta:
    """The real parts of complex numbers: every second number."""
    doubled = tuple(2 * stride for stride in input.strides)
    return replace(input.viewed(input.shape, doubled, 2 * input.offset), dtype=real(input.dtype))


def view_as_complex(q: ShapeQuery, input: Meta) -> Meta:
    if input.dtype not in (torch.float16, torch.float32, torch.float64):
        raise q.fail(f"{input.dtype} is not half of a complex number")
    if not input.shape:
        raise q.fail("a last dimension of size 2 is needed")
    *strides, last = input.strides
    q.require(eq(input.shape[-1], 2), "the last dimension has the two parts of a number")
    q.require(eq(last, 1), "the two parts of a number lie side by side")
    evens = [eq(stride % 2, 0) for stride in (*strides, input.offset)]
    q.require(and_(*evens), "numbers begin at even places")
    seen = input.viewed(
        input.shape[:-1], tuple(stride // 2 for stride in strides), input.offset // 2
    )
    return replace(seen, dtype=complex_of(input.dtype))


def _row(name: str, rule: Rule, *also: str) -> Op:
    return Op(name, names_of(name, also), rule, OpKind.VIEW)


def _row_in_place(name: str, rule: Rule, *also: str) -> Op:
    """A view with a form that turns the tensor itself into it."""
    return Op(
        name,
        names_of(name, also),
        rule,
        OpKind.VIEW,
        in_place=in_place_names(name),
        restrides=True,
    )


ROWS: tuple[Op, ...] = (
    _row("permute", permute),
    _row_in_place("transpose", transpose),
    _row_in_place("swapdims", transpose),
    _row_in_place("swapaxes", swapaxes),
    _row_in_place("t", t),
    _row("numpy_T", numpy_t, _PROPERTY.format("T")),
    _row("matrix_H", matrix_h, _PROPERTY.format("H")),
    _row("mT", matrix_t, _PROPERTY.format("mT")),
    _row("mH", matrix_t, _PROPERTY.format("mH")),
    _row("adjoint", adjoint),
    _row("movedim", movedim),
    _row("moveaxis", movedim),
    _row_in_place("unsqueeze", unsqueeze),
    _row_in_place("squeeze", squeeze),
    _row("expand", expand),
    _row("expand_as", expand_as),
    _row("broadcast_to", broadcast_to),
    _row("select", select),
    _row("narrow", narrow),
    _row("unbind", unbind),
    _row("unfold", unfold),
    _row("diagonal", diagonal),
    _row("linalg_diagonal", linalg_diagonal, "torch.linalg.diagonal"),
    _row_in_place("as_strided", as_strided),
    _row("view_as_real", view_as_real),
    _row("view_as_complex", view_as_complex),
)
