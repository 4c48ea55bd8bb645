"""Matrix products of all ranks. Every result is fresh and contiguous, except where a product is
really pointwise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch

from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.loops.program import Area, Extern
from anyshape.ops.broadcast import broadcast, require_expands
from anyshape.ops.elementwise import pointwise_meta, same
from anyshape.ops.families.arithmetic import lower_mul
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term
from anyshape.ops.lowering.memory_reads import memory_read
from anyshape.ops.lowering.pointwise_builder import as_dtype, common_dtype, elementwise
from anyshape.ops.lowering.scalars import cast, constant_like, op, operation, wide
from anyshape.ops.lowering.values import Index, Lowering, Memory, NotLowered, Value
from anyshape.ops.meta import Meta
from anyshape.ops.onnx import Node, NotMapped, Writer, onnx_binary, onnx_of_two
from anyshape.ops.op import (
    FUNCTIONAL,
    Op,
    OpKind,
    Rule,
    gradient,
    in_place_names,
    lower,
    made_of,
    names_of,
    onnx,
    onnx_rows,
    row_of,
)
from anyshape.ops.promotion import Number, category, result_type
from anyshape.ops.shape_query import ShapeQuery
from anyshape.symbolic import Size, eq, gt, or_, product


def require_same(q: ShapeQuery, a: Size, b: Size, what: str) -> None:
    """Require that two sizes are equal, as torch does: not even a size of 1 is stretched."""
    if a is not b:
        q.require(eq(a, b), f"{what}: {a} and {b} must be equal")


def require_rank(q: ShapeQuery, tensor: Meta, rank: int, what: str) -> None:
    if tensor.rank != rank:
        raise q.fail(f"{what} must have {rank} dimensions, not {tensor.rank}")


def require_one_dtype(q: ShapeQuery, *tensors: Meta | None) -> torch.dtype:
    """The dtype that all of them have: products do not promote, and there are none of booleans."""
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    if len(dtypes) != 1:
        raise q.fail(f"the tensors must have the same dtype, not {sorted(map(str, dtypes))}")
    (dtype,) = dtypes
    if dtype is torch.bool:
        raise q.fail("there are no matrix products of booleans")
    return dtype


def product_of(q: ShapeQuery, a: Meta, b: Meta) -> Meta:
    """`a @ b`: a vector on the left is a row, one on the right a column; dimensions before the last
    two broadcast.
    """
    if not a.shape or not b.shape:
        raise q.fail("a matrix product needs tensors of at least one dimension")
    dtype = require_one_dtype(q, a, b)
    inner = b.shape[-2] if b.rank > 1 else b.shape[0]
    require_same(q, a.shape[-1], inner, "the inner sizes of a matrix product")
    batch = broadcast(q, [a.shape[:-2], b.shape[:-2]]) if a.rank > 2 or b.rank > 2 else ()
    return a.like((*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ())), dtype)


def _matmul(q: ShapeQuery, input: Meta, other: Meta) -> Meta:
    return product_of(q, input, other)


def _rmatmul(q: ShapeQuery, input: Meta, other: Meta) -> Meta:
    return product_of(q, other, input)


def _of_ranks(left: int, right: int, name: str) -> Rule:
    """A product that only takes these ranks; `name` is what torch calls the second factor."""

    def rule(
        q: ShapeQuery, input: Meta, out_dtype: torch.dtype | None = None, **named: Any
    ) -> Meta:
        other = named[name]
        require_rank(q, input, left, "the left factor")
        require_rank(q, other, right, "the right factor")
        if left == 3:
            require_same(q, input.shape[0], other.shape[0], "the batch sizes")
        result = product_of(q, input, other)
        return result if out_dtype is None else result.like(dtype=out_dtype)

    return rule


def _outer(q: ShapeQuery, input: Meta, vec2: Meta) -> Meta:
    require_rank(q, input, 1, "the left factor")
    require_rank(q, vec2, 1, "the right factor")
    return input.like((input.shape[0], vec2.shape[0]), result_type((input, vec2)))


def _inner(q: ShapeQuery, input: Meta, other: Meta) -> Meta:
    if not input.shape or not other.shape:
        return pointwise_meta(q, (input, other), same)
    require_same(q, input.shape[-1], other.shape[-1], "the last sizes of an inner product")
    dtype = require_one_dtype(q, input, other)
    return input.like((*input.shape[:-1], *other.shape[:-1]), dtype)


def _added(q: ShapeQuery, input: Meta, first: Meta, second: Meta, ranks: tuple[int, int]) -> Meta:
    """`beta * input + alpha * (first @ second)`: the input is expanded to the product's shape."""
    require_rank(q, first, ranks[0], "the left factor")
    require_rank(q, second, ranks[1], "the right factor")
    if ranks[0] == 3:
        require_same(q, first.shape[0], second.shape[0], "the batch sizes")
    require_one_dtype(q, input, first, second)
    return product_of(q, first, second)


def _addmm(q: ShapeQuery, input: Meta, mat1: Meta, mat2: Meta) -> Meta:
    result = _added(q, input, mat1, mat2, (2, 2))
    require_expands(q, input.shape, result.shape)
    return result


def _baddbmm(q: ShapeQuery, input: Meta, batch1: Meta, batch2: Meta) -> Meta:
    result = _added(q, input, batch1, batch2, (3, 3))
    require_expands(q, input.shape, result.shape)
    return result


def _addbmm(q: ShapeQuery, input: Meta, batch1: Meta, batch2: Meta) -> Meta:
    result = _added(q, input, batch1, batch2, (3, 3))
    result = result.like(result.shape[1:])
    require_expands(q, input.shape, result.shape)
    return result


def _addmv(q: ShapeQuery, input: Meta, mat: Meta, vec: Meta, beta: Any) -> Meta:
    result = _added(q, input, mat, vec, (2, 1))
    require_expands(q, input.shape, result.shape)
    if beta == 0 or q.same_all(input.shape, result.shape):
        return result
    # Torch forgets to expand the input where there is nothing to add to it.
    nothing = q.decide(eq(mat.numel, 0), "what is added has no elements")
    return input.like() if nothing else result


def _addr(
    q: ShapeQuery, input: Meta, vec1: Meta, vec2: Meta, *, beta: Number = 1, alpha: Number = 1
) -> Meta:
    require_rank(q, vec1, 1, "the left factor")
    require_rank(q, vec2, 1, "the right factor")
    shape = (vec1.shape[0], vec2.shape[0])
    require_expands(q, input.shape, shape)
    dtype = result_type((input, vec1, vec2))
    if category(dtype) < 2 and any(isinstance(number, float) for number in (beta, alpha)):
        raise q.fail(f"a result of {dtype} cannot be scaled by a float")
    # Computed element by element: the input's layout is kept where it has the result's shape.
    full = input if q.same_all(input.shape, shape) else input.like(shape)
    return pointwise_meta(q, (full,), lambda _: dtype)


def _linear(q: ShapeQuery, input: Meta, weight: Meta, bias: Meta | None = None) -> Meta:
    if weight.rank > 2 or not weight.shape or not input.shape:
        raise q.fail(f"a weight of shape {weight.shape} does not apply to an input {input.shape}")
    if weight.rank == 1 and bias is not None:
        raise q.fail("a weight of one dimension takes no bias")
    require_one_dtype(q, input, weight, bias)
    require_same(q, input.shape[-1], weight.shape[-1], "the features of input and weight")
    result = input.like((*input.shape[:-1], *weight.shape[:-1]))
    if bias is not None:
        require_expands(q, bias.shape, result.shape)
    return result


def _bilinear(
    q: ShapeQuery, input1: Meta, input2: Meta, weight: Meta, bias: Meta | None = None
) -> Meta:
    require_rank(q, weight, 3, "the weight")
    if input1.rank != input2.rank or not input1.shape:
        raise q.fail("both inputs must have the same number of dimensions, at least one")
    require_one_dtype(q, input1, input2, weight, bias)
    for a, b in zip(input1.shape[:-1], input2.shape[:-1], strict=True):
        require_same(q, a, b, "the batch sizes")
    for tensor in (input1, input2):
        q.require(gt(tensor.shape[-1], 0), "inputs have features")
    require_same(q, input1.shape[-1], weight.shape[1], "the features of the first input")
    require_same(q, input2.shape[-1], weight.shape[2], "the features of the second input")
    if bias is not None:
        require_rank(q, bias, 1, "the bias")
        require_same(q, bias.shape[0], weight.shape[0], "the bias and the weight's outputs")
    return input1.like((*input1.shape[:-1], weight.shape[0]))


def _tensordot(q: ShapeQuery, a: Meta, b: Meta, dims: Any = 2) -> Meta:
    left, right = _contracted(q, a, b, dims)
    require_one_dtype(q, a, b)
    for i, j in zip(left, right, strict=True):
        x, y = a.shape[i], b.shape[j]
        if x is not y and x != 1 and y != 1:
            # A size of 1 is stretched, which the result does not show: the dimension is gone.
            q.require(or_(eq(x, y), eq(x, 1), eq(y, 1)), f"contracted sizes {x} and {y} must match")
    kept = [size for dim, size in enumerate(a.shape) if dim not in left]
    kept += [size for dim, size in enumerate(b.shape) if dim not in right]
    return a.like(tuple(kept))


def _contracted(
    q: ShapeQuery, a: Meta, b: Meta, dims: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(dims, Meta):
        raise q.fail("the dimensions are the values of a tensor, which shapes do not tell")
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.rank, b.rank):
            raise q.fail(f"{dims} dimensions cannot be contracted")
        return tuple(range(a.rank - dims, a.rank)), tuple(range(dims))
    left, right = (((d,) if isinstance(d, int) else tuple(d)) for d in dims)
    if len(left) != len(right):
        raise q.fail("as many dimensions of the one tensor as of the other are contracted")
    return q.dims(left, a.rank), q.dims(right, b.rank)


def _multi_dot(q: ShapeQuery, tensors: Sequence[Meta]) -> Meta:
    if len(tensors) < 2:
        raise q.fail("a chain of products needs at least two tensors")
    for position, tensor in enumerate(tensors):
        ends = position in (0, len(tensors) - 1)
        if tensor.rank != 2 and not (ends and tensor.rank == 1):
            raise q.fail("a chain is of matrices; only its ends may be vectors")
    result = tensors[0]
    for tensor in tensors[1:]:
        result = product_of(q, result, tensor)
    return result


def _chain_matmul(q: ShapeQuery, *matrices: Meta) -> Meta:
    for matrix in matrices:
        require_rank(q, matrix, 2, "a matrix of the chain")
    return matrices[0] if len(matrices) == 1 else _multi_dot(q, matrices)


def _vecdot(q: ShapeQuery, x: Meta, y: Meta, *, dim: int = -1) -> Meta:
    dtype = require_one_dtype(q, x, y)
    if category(dtype) < 2:
        raise q.fail(f"a product of vectors of {dtype}: only floats and complex numbers have one")
    if x.rank == y.rank == 1:
        require_same(q, x.shape[0], y.shape[0], "the sizes of the vectors")
        return x.like(())
    shape = broadcast(q, [x.shape, y.shape])
    dim = q.dim(dim, len(shape))
    return x.like(shape[:dim] + shape[dim + 1 :])


_row = partial(row_of, OpKind.MATMUL)


def _product_row(name: str, left: int, right: int, second: str) -> Op:
    signature = f"input, {second}, out_dtype=None"
    return _row(name, _of_ranks(left, right, second), signature=signature)


def _added_row(rule: Rule, first: str, second: str) -> Op:
    name = rule.__name__.lstrip("_")
    return Op(
        name,
        names_of(name),
        rule,
        OpKind.MATMUL,
        in_place_names(name),
        signature=f"input, {first}, {second}, out_dtype=None, *, beta=1, alpha=1",
    )


_T = "torch.Tensor."

ROWS: tuple[Op, ...] = (
    _row("matmul", _matmul, _T + "__matmul__", "torch.linalg.matmul"),
    Op("rmatmul", (_T + "__rmatmul__",), _rmatmul, OpKind.MATMUL),
    _product_row("mm", 2, 2, "mat2"),
    _product_row("bmm", 3, 3, "mat2"),
    _product_row("mv", 2, 1, "vec"),
    _product_row("dot", 1, 1, "tensor"),
    _product_row("vdot", 1, 1, "other"),
    Op("outer", (*names_of("outer"), *names_of("ger")), _outer, OpKind.POINTWISE),
    _row("inner", _inner),
    _added_row(_addmm, "mat1", "mat2"),
    _added_row(_addbmm, "batch1", "batch2"),
    _added_row(_baddbmm, "batch1", "batch2"),
    _added_row(_addmv, "mat", "vec"),
    Op("addr", names_of("addr"), _addr, OpKind.POINTWISE, in_place_names("addr")),
    Op("linear", (FUNCTIONAL + "linear", "torch._C._nn.linear"), _linear, OpKind.MATMUL),
    Op("bilinear", ("torch.bilinear", FUNCTIONAL + "bilinear"), _bilinear, OpKind.CALL_OUT),
    Op("tensordot", ("torch.tensordot", "torch.functional.tensordot"), _tensordot, OpKind.MATMUL),
    Op("multi_dot", ("torch.linalg.multi_dot",), _multi_dot, OpKind.CALL_OUT),
    Op(
        "chain_matmul",
        ("torch.chain_matmul", "torch.functional.chain_matmul"),
        _chain_matmul,
        OpKind.CALL_OUT,
    ),
    Op("vecdot", ("torch.linalg.vecdot",), _vecdot, OpKind.REDUCTION),
)


# -- native code ----------------------------------------------------------------------------------


_NO_FLOATS: Final = "products of integers"


def materialized(c: Lowering, value: Value) -> Memory:
    """Where the library can read a value: a copy of rows is read where these are."""
    memory = memory_read(c, value)
    is_in_rows = memory is not None and (memory is value.memory or memory.strides[-1:] == (1,))
    return memory if memory is not None and is_in_rows else c.materialize(value)


def contiguous(c: Lowering, value: Value) -> Memory:
    """Where the value is with nothing between its elements; a copy if need be."""
    memory = materialized(c, value)
    step: Size = 1
    for size, stride in zip(reversed(value.sizes), reversed(memory.strides), strict=True):
        if size != 1 and not c.same(stride, step):
            copy = elementwise(c, lambda x: x, value, takes=value.dtype)
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


@lower("linear")
def lower_linear(c: Lowering, input: Value, weight: Value, bias: Value | None) -> Value:
    c.needs_library("mm_out", "addmm_out")
    if len(weight.sizes) != 2 or len(input.sizes) < 2:
        raise NotLowered("a product with a vector")
    _floats(input, weight, *([] if bias is None else [bias]))
    sizes = (*input.sizes[:-1], weight.sizes[0])
    if is_small(weight.sizes, c.few_rows):
        return _of_few_rows(c, input, weight, bias)
    if bias is not None and (input.dtype in HALVES or c.on_gpu):
        return _with_bias(c, sizes, as_rows(c, input), transposed(as_rows(c, weight)), bias)
    made = multiplied(c, "mm_out", sizes, as_rows(c, input), transposed(as_rows(c, weight)), input)
    return made if bias is None else elementwise(c, operation("add"), made, bias)


def is_small(sizes: Sequence[Size], most: int) -> bool:
    elements = product(list(sizes))
    return isinstance(elements, int) and elements <= most


def _of_few_rows(c: Lowering, input: Value, weight: Value, bias: Value | None) -> Value:
    """Each element as a sum of its own: where there are few rows, all that takes time is to read
    the weight once. As the library does, the bias is added before the sum is rounded."""
    dtype = wide(input.dtype)
    materialized(c, input)

    def at(index: Index) -> Scalar:
        *rows, column, place = index
        factors = input.at((*rows, place)), weight.at((column, place))
        return op("mul", *(cast(each, dtype) for each in factors))

    sizes = (*input.sizes[:-1], *weight.sizes)
    products = c.values.new(sizes, dtype, at, (input, weight))
    made = c.values.reduction("sum", products, [len(sizes) - 1], dtype, keep=False)
    if bias is not None:
        made = elementwise(c, operation("add"), made, as_dtype(c, bias, dtype))
    made = as_dtype(c, made, input.dtype)
    # Not part of what reads it: another kernel would compute it with fewer threads.
    c.materialize(made)
    return made


def _with_bias(c: Lowering, sizes: tuple[Size, ...], a: Area, b: Area, bias: Value) -> Value:
    """The bias is added before the sum is rounded, and by the product itself on GPUs."""
    made, memory = c.fresh(sizes, bias.dtype)
    kept = materialized(c, bias)
    if len(bias.sizes) != 1:
        raise NotLowered("a bias that is no vector")
    rows, columns = a.sizes[0], b.sizes[1]
    shown = Area(memory.buffer, (rows, columns), (columns, 1))
    added = Area(kept.buffer, bias.sizes, kept.strides, kept.offset)
    buffers = [a.buffer, b.buffer, kept.buffer]
    c.extern(Extern("addmm_out", (shown, added, a, b, 1.0, 1.0)), buffers, [memory.buffer])
    return made


@lower("mm", "bmm")
def lower_of_matrices(c: Lowering, input: Value, mat2: Value) -> Value:
    return lower_matmul(c, input, mat2)


@lower("matmul")
def lower_matmul(c: Lowering, input: Value, other: Value) -> Value:
    c.needs_library("mm_out", "bmm_out")
    _floats(input, other)
    left, right = len(input.sizes), len(other.sizes)
    if left >= 2 and right == 2:
        sizes = (*input.sizes[:-1], other.sizes[1])
        return multiplied(c, "mm_out", sizes, as_rows(c, input), as_rows(c, other), input)
    if left == right and left >= 3 and c.same_sizes(input.sizes[:-2], other.sizes[:-2]):
        sizes = (*input.sizes[:-1], other.sizes[-1])
        return multiplied(c, "bmm_out", sizes, as_matrices(c, input), as_matrices(c, other), input)
    raise NotLowered("a product of vectors or of broadcast batches")


@lower("addmm")
def lower_addmm(
    c: Lowering, input: Value, mat1: Value, mat2: Value, *, beta: Any, alpha: Any
) -> Value:
    if beta != 1 or alpha != 1 or len(mat1.sizes) != 2 or len(mat2.sizes) != 2:
        raise NotLowered("a product with factors")
    _floats(input, mat1, mat2)
    sizes = (mat1.sizes[0], mat2.sizes[1])
    if input.dtype in HALVES or (c.on_gpu and len(input.sizes) == 1):
        return _with_bias(c, sizes, as_rows(c, mat1), as_rows(c, mat2), input)
    made = multiplied(c, "mm_out", sizes, as_rows(c, mat1), as_rows(c, mat2), mat1)
    return elementwise(c, operation("add"), made, input)


# -- each with each -------------------------------------------------------------------------------


def each_with_each(c: Lowering, first: Value, second: Value) -> tuple[Value, Value]:
    """Two vectors as a column and a row."""
    column = c.values.new(
        (first.sizes[0], 1), first.dtype, lambda index: first.at((index[0],)), (first,)
    )
    line = c.values.new(
        (1, second.sizes[0]), second.dtype, lambda index: second.at((index[1],)), (second,)
    )
    return column, line


@lower("outer")
def lower_outer(c: Lowering, input: Value, vec2: Value) -> Value:
    return lower_mul(c, *each_with_each(c, input, vec2))


@lower("addr")
def lower_addr(
    c: Lowering, input: Value, vec1: Value, vec2: Value, *, beta: Any, alpha: Any
) -> Value:
    dtype = common_dtype((input, vec1, vec2))
    if dtype not in FLOATS or dtype in HALVES or not isinstance(beta, int | float):
        # Torch rounds 16-bit floats on the way.
        raise NotLowered("of integers, of 16-bit floats, or a factor that is not a constant")
    if not isinstance(alpha, int | float):
        raise NotLowered("a factor that is not a constant")

    def product(a: Scalar, b: Scalar) -> Scalar:
        return op("mul", op("mul", constant_like(alpha, a), a), b)

    def compute(x: Scalar, a: Scalar, b: Scalar) -> Scalar:
        return op("add", op("mul", constant_like(beta, x), x), product(a, b))

    column, line = each_with_each(c, vec1, vec2)
    if beta == 0:
        return elementwise(c, product, column, line, takes=dtype, cost=2)
    return elementwise(c, compute, input, column, line, takes=dtype, cost=4)


# -- gradients ------------------------------------------------------------------------------------


def _rows(term: Term) -> Term:
    """A tensor as a matrix: all dimensions but the last one are rows."""
    if term.rank == 2:
        return term
    return term.reshape((product(list(term.shape[:-1])), term.shape[-1]))


@gradient("linear")
def gradient_linear(grad: Term, input: Term, weight: Term, bias: Any) -> Gradients:
    if input.rank < 2 or weight.rank != 2:
        found = gradient_matmul(grad, input, weight.t() if weight.rank == 2 else weight)
        own = found["other"]
        return {
            "input": found["input"],
            "weight": own.t() if weight.rank == 2 else own,
            "bias": None if bias is None else grad,
        }
    flat = _rows(grad)
    found: Gradients = {"input": grad @ weight, "weight": flat.t() @ _rows(input)}
    if bias is not None:
        found["bias"] = flat.sum(0)
    return found


@gradient("matmul")
def gradient_matmul(grad: Term, input: Term, other: Term) -> Gradients:
    if input.rank < 2 or other.rank < 2:
        return _of_vectors(grad, input, other)
    if other.rank == 2:
        return {"input": grad @ other.t(), "other": _rows(input).t() @ _rows(grad)}
    return {
        "input": grad @ other.transpose(-2, -1),
        "other": input.transpose(-2, -1) @ grad,
    }


def _of_vectors(grad: Term, input: Term, other: Term) -> Gradients:
    """A vector is a matrix of one row in front, and of one column behind."""
    if input.rank == other.rank == 1:
        return {"input": grad * other, "other": grad * input}
    if other.rank == 1:
        found = gradient_matmul(grad.unsqueeze(-1), input, other.unsqueeze(-1))
        return {"input": found["input"], "other": found["other"].squeeze(-1)}
    found = gradient_matmul(grad.unsqueeze(-2), input.unsqueeze(0), other)
    return {"input": found["input"].squeeze(-2), "other": found["other"]}


@gradient("rmatmul")
def gradient_reflected_matmul(grad: Term, input: Term, other: Term) -> Gradients:
    found = gradient_matmul(grad, other, input)
    return {"input": found["other"], "other": found["input"]}


@gradient("mv")
def gradient_mv(grad: Term, input: Term, vec: Term) -> Gradients:
    found = gradient_matmul(grad, input, vec)
    return {"input": found["input"], "vec": found["other"]}


@gradient("dot", "vdot")
def gradient_dot(
    grad: Term, input: Term, function: str, tensor: Any = None, other: Any = None
) -> Gradients:
    beside, name = (tensor, "tensor") if function == "dot" else (other, "other")
    return {"input": grad * beside, name: grad * input}


@gradient("outer")
def gradient_outer(grad: Term, input: Term, vec2: Term) -> Gradients:
    return {"input": grad @ vec2, "vec2": grad.t() @ input}


@made_of("inner")
def parts_of_inner(records: Records, input: Term, other: Term) -> Term:
    if input.rank != other.rank or input.rank not in (1, 2):
        raise NoGradient("a product with a number, or of more dimensions")
    return input @ (other.t() if other.rank == 2 else other)


@made_of("vecdot")
def parts_of_vecdot(records: Records, x: Term, y: Term, dim: Any) -> Term:
    return (x * y).sum(dim)


@gradient("addmv")
def gradient_addmv(grad: Term, mat: Term, vec: Term, beta: Any, alpha: Any) -> Gradients:
    found = gradient_matmul(_scaled(grad, alpha), mat, vec)
    return {"input": _scaled(grad, beta), "mat": found["input"], "vec": found["other"]}


@gradient("addr")
def gradient_addr(grad: Term, vec1: Term, vec2: Term, beta: Any, alpha: Any) -> Gradients:
    found = gradient_outer(_scaled(grad, alpha), vec1, vec2)
    return {"input": _scaled(grad, beta), "vec1": found["input"], "vec2": found["vec2"]}


@gradient("baddbmm", "addbmm")
def gradient_baddbmm(grad: Term, batch1: Term, batch2: Term, beta: Any, alpha: Any) -> Gradients:
    scaled = _scaled(grad, alpha)
    return {
        "input": _scaled(grad, beta),
        "batch1": scaled @ batch2.transpose(-2, -1),
        "batch2": batch1.transpose(-2, -1) @ scaled,
    }


def _scaled(grad: Term, factor: Any) -> Term:
    if not isinstance(factor, int | float):
        raise NoGradient("a factor that is not a constant")
    return grad if factor == 1 else grad * factor


@gradient("mm", "bmm")
def gradient_mm(grad: Term, input: Term, mat2: Term) -> Gradients:
    found = gradient_matmul(grad, input, mat2)
    return {"input": found["input"], "mat2": found["other"]}


@gradient("addmm")
def gradient_addmm(grad: Term, mat1: Term, mat2: Term, beta: Any, alpha: Any) -> Gradients:
    scaled = _scaled(grad, alpha)
    return {
        "input": _scaled(grad, beta),
        "mat1": scaled @ mat2.t(),
        "mat2": mat1.t() @ scaled,
    }


# -- ONNX -----------------------------------------------------------------------------------------


@onnx("linear")
def onnx_linear(w: Writer, node: Node, input: Any, weight: Any, bias: Any) -> str:
    if w.rank(weight) != 2:
        raise NotMapped("linear with a weight of one dimension")
    turned = w.add("Transpose", [w.name(weight)], perm=[1, 0])
    found = w.add("MatMul", [w.name(input), turned])
    return found if bias is None else w.add("Add", [found, w.name(bias)])


@onnx("addmm")
def onnx_addmm(
    w: Writer, node: Node, input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any
) -> str:
    dtype = w.dtype(node)
    found, more = w.add("MatMul", [w.name(mat1), w.name(mat2)]), w.name(input)
    if alpha != 1:
        found = w.add("Mul", [found, w.name(alpha, dtype)])
    if beta == 0:
        return found
    if beta != 1:
        more = w.add("Mul", [more, w.name(beta, dtype)])
    return w.add("Add", [found, more])


@onnx("baddbmm")
def onnx_baddbmm(
    w: Writer, node: Node, input: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any
) -> str:
    return onnx_addmm(w, node, input, batch1, batch2, beta, alpha)


@onnx("outer")
def onnx_outer(w: Writer, node: Node, input: Any, vec2: Any) -> str:
    names = [w.name(each, w.dtype(node)) for each in (input, vec2)]
    return w.add("Einsum", names, equation="i,j->ij")


@onnx("mm", "bmm")
def onnx_product(w: Writer, node: Node, input: Any, mat2: Any) -> str:
    """`mm` and `bmm`."""
    return onnx_of_two(w, node, "MatMul", input, mat2)


onnx_rows(
    {
        "matmul": partial(onnx_binary, "MatMul"),
    }
)
