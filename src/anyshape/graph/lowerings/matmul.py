"""Matrix products: the tensor library computes them into buffers of the plan, native code adds the
bias and goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anyshape.graph.lowerings.table import row
from anyshape.graph.pointwise_builder import elementwise, operation
from anyshape.graph.values import Memory, NotLowered, Value
from anyshape.loops.expr import FLOATS, HALVES
from anyshape.loops.program import Area, Extern
from anyshape.symbolic import Size, product

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

_NO_FLOATS: Final = "products of integers"


def materialized(c: Lowering, value: Value) -> Memory:
    return c.materialize(value) if value.memory is None else value.memory


def contiguous(c: Lowering, value: Value) -> Memory:
    """Where the value is with nothing between its elements; a copy if need be."""
    memory = materialized(c, value)
    step: Size = 1
    for size, stride in zip(reversed(value.sizes), reversed(memory.strides), strict=True):
        if size != 1 and not c.same(stride, step):
            copy = elementwise(c, lambda x: x, value, takes=value.dtype, gives=value.dtype)
            return c.materialize(copy)
        step = step * size
    return memory


def as_rows(c: Lowering, value: Value) -> Area:
    """A tensor as a matrix: all dimensions but the last one are rows."""
    if len(value.sizes) == 2:
        memory = materialized(c, value)
        return Area(memory.buffer, value.sizes, memory.strides, memory.offset)
    memory = contiguous(c, value)
    columns = value.sizes[-1]
    rows = product(list(value.sizes[:-1]))
    return Area(memory.buffer, (rows, columns), (columns, 1), memory.offset)


def as_matrices(c: Lowering, value: Value) -> Area:
    """A tensor as a batch of matrices."""
    if len(value.sizes) == 3:
        memory = materialized(c, value)
        return Area(memory.buffer, value.sizes, memory.strides, memory.offset)
    memory = contiguous(c, value)
    rows, columns = value.sizes[-2:]
    batch = product(list(value.sizes[:-2]))
    return Area(memory.buffer, (batch, rows, columns), (rows * columns, columns, 1), memory.offset)


def transposed(area: Area) -> Area:
    *sizes, a, b = area.sizes
    *strides, x, y = area.strides
    return Area(area.buffer, (*sizes, b, a), (*strides, y, x), area.offset)


def multiplied(c: Lowering, function: str, sizes: tuple[Size, ...], a: Area, b: Area, like: Value):
    """The product of two areas, as a value of these sizes."""
    made, memory = c.fresh(sizes, like.dtype)
    if function == "mm_out":
        shown = Area(memory.buffer, (a.sizes[0], b.sizes[1]), (b.sizes[1], 1))
    else:
        rows, columns = a.sizes[1], b.sizes[2]
        shown = Area(memory.buffer, (a.sizes[0], rows, columns), (rows * columns, columns, 1))
    c.extern(Extern(function, (shown, a, b)), [a.buffer, b.buffer], [memory.buffer])
    return made


def _floats(*values: Value) -> None:
    dtypes = {value.dtype for value in values}
    if len(dtypes) != 1 or not dtypes <= FLOATS:
        raise NotLowered(_NO_FLOATS)


@row("linear")
def linear(c: Lowering, input: Value, weight: Value, bias: Value | None) -> Value:
    if len(weight.sizes) != 2 or len(input.sizes) < 2:
        raise NotLowered("a product with a vector")
    _floats(input, weight, *([] if bias is None else [bias]))
    sizes = (*input.sizes[:-1], weight.sizes[0])
    if input.dtype in HALVES and bias is not None:
        return _with_bias(c, sizes, as_rows(c, input), transposed(as_rows(c, weight)), bias)
    made = multiplied(c, "mm_out", sizes, as_rows(c, input), transposed(as_rows(c, weight)), input)
    return made if bias is None else elementwise(c, operation("add"), made, bias)


def _with_bias(c: Lowering, sizes: tuple[Size, ...], a: Area, b: Area, bias: Value) -> Value:
    """The bias is added before the sum is rounded."""
    made, memory = c.fresh(sizes, bias.dtype)
    kept = materialized(c, bias)
    if len(bias.sizes) != 1:
        raise NotLowered("a bias that is no vector")
    rows, columns = a.sizes[0], b.sizes[1]
    shown = Area(memory.buffer, (rows, columns), (columns, 1))
    added = Area(kept.buffer, (rows, columns), (0, kept.strides[0]), kept.offset)
    buffers = [a.buffer, b.buffer, kept.buffer]
    c.extern(Extern("addmm_out", (shown, added, a, b, 1.0, 1.0)), buffers, [memory.buffer])
    return made


@row("mm", "bmm")
def of_matrices(c: Lowering, input: Value, mat2: Value) -> Value:
    return matmul(c, input, mat2)


@row("matmul")
def matmul(c: Lowering, input: Value, other: Value) -> Value:
    _floats(input, other)
    left, right = len(input.sizes), len(other.sizes)
    if left >= 2 and right == 2:
        sizes = (*input.sizes[:-1], other.sizes[1])
        return multiplied(c, "mm_out", sizes, as_rows(c, input), as_rows(c, other), input)
    if left == right and left >= 3 and c.same_sizes(input.sizes[:-2], other.sizes[:-2]):
        sizes = (*input.sizes[:-1], other.sizes[-1])
        return multiplied(c, "bmm_out", sizes, as_matrices(c, input), as_matrices(c, other), input)
    raise NotLowered("a product of vectors or of broadcast batches")


@row("addmm")
def addmm(c: Lowering, input: Value, mat1: Value, mat2: Value, *, beta: Any, alpha: Any) -> Value:
    if beta != 1 or alpha != 1 or len(mat1.sizes) != 2 or len(mat2.sizes) != 2:
        raise NotLowered("a product with factors")
    _floats(input, mat1, mat2)
    sizes = (mat1.sizes[0], mat2.sizes[1])
    if input.dtype in HALVES:
        return _with_bias(c, sizes, as_rows(c, mat1), as_rows(c, mat2), input)
    made = multiplied(c, "mm_out", sizes, as_rows(c, mat1), as_rows(c, mat2), mat1)
    return elementwise(c, operation("add"), made, input)
