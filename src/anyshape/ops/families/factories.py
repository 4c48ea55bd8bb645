"""Tensors from nothing: factories and their `*_like` and `new_*` forms.

Sizes, dtype and layout are those that the capture has. What is empty comes from torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from anyshape.loops import expr
from anyshape.loops.expr import Dtype, Scalar
from anyshape.ops.families.casts import cast_meta, device_named, filled, layout_in
from anyshape.ops.lowering.pointwise_builder import Operand
from anyshape.ops.lowering.scalar_range_check import INTEGERS
from anyshape.ops.lowering.scalars import cast, short, test, where, wide
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, NumberRef, Value
from anyshape.ops.meta import Dense, Layout, Meta, contiguous, strided
from anyshape.ops.onnx import Node, NotMapped, Writer, is_node
from anyshape.ops.op import Op, OpKind, Rule, lower, moving, onnx, onnx_rows
from anyshape.ops.promotion import category, dtype_of_number, join
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Size, ge, gt, maximum


def made(
    q: ShapeQuery,
    shape: Sequence[Size],
    dtype: torch.dtype | None,
    *,
    device: Any = None,
    requires_grad: bool = False,
    layout: Layout | None = None,
    default: torch.dtype | None = None,
    **_: Any,
) -> Meta:
    """A fresh tensor with the options of a factory; sizes have to be natural numbers."""
    sizes = tuple(shape)
    for size in sizes:
        require_natural(q, size, "a size")
    return Meta(
        sizes,
        dtype or default or torch.get_default_dtype(),
        layout if isinstance(layout, Dense) else contiguous(len(sizes)),
        device_named(device, torch.get_default_device()),
        requires_grad=requires_grad,
    )


def require_natural(q: ShapeQuery, size: Any, what: str) -> None:
    if isinstance(size, int):
        if size < 0:
            raise q.fail(f"{what} must not be negative, but is {size}")
    elif isinstance(size, Expr):
        q.require(ge(size, 0), f"{what} must not be negative")
    else:
        raise q.fail(f"{what} must be an integer, not {size!r}")


def size_in(args: tuple[Any, ...], size: Any) -> tuple[Size, ...]:
    """The shape among a factory's arguments: integers, one sequence, or `size=`."""
    if size is not None:
        return tuple(size)
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], tuple | list) else args


def _filled(
    q: ShapeQuery, *args: Any, size: Any = None, dtype: torch.dtype | None = None, **options: Any
) -> Meta:
    return made(q, size_in(args, size), dtype, **_laid_out(q, size_in(args, size), options))


def _laid_out(q: ShapeQuery, shape: tuple[Size, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The options with `memory_format` (of `empty`) turned into a layout."""
    chosen = options.pop("memory_format", None)
    if chosen is not None:
        rank = len(shape)
        empty = Meta(shape, torch.float32, contiguous(rank), torch.device("cpu"))
        options["layout"] = layout_in(q, empty, chosen)
    return options


def dtype_of_value(value: Any) -> torch.dtype:
    """The dtype that `full` gives to a number, or to a tensor that stands for one."""
    if not isinstance(value, Meta):
        return dtype_of_number(value)
    return dtype_of_number((False, 0, 0.0, 0j)[category(value.dtype)])


def _full(
    q: ShapeQuery, size: Any, fill_value: Any, *, dtype: torch.dtype | None = None, **options: Any
) -> Meta:
    return made(q, tuple(size), dtype or dtype_of_value(fill_value), **options)


def _scalar(q: ShapeQuery, s: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Meta:
    return made(q, (), dtype, **options)


def _empty_strided(
    q: ShapeQuery, size: Any, stride: Any, *, dtype: torch.dtype | None = None, **options: Any
) -> Meta:
    shape, strides = tuple(size), tuple(stride)
    if len(shape) != len(strides):
        raise q.fail(f"{len(shape)} sizes, but {len(strides)} strides")
    for step in strides:
        require_natural(q, step, "a stride")
    return replace(made(q, shape, dtype, **options), layout=strided(shape, strides))


def _empty_permuted(
    q: ShapeQuery, size: Any, physical_layout: Any, *, dtype: Any = None, **options: Any
) -> Meta:
    named = tuple(q.count(dim, "the order of the dimensions") for dim in physical_layout)
    order = q.dims(named, len(size))
    if len(order) != len(size):
        raise q.fail(f"{len(size)} sizes, but {len(order)} dimensions in the order")
    return replace(made(q, tuple(size), dtype, **options), layout=Dense(order))


def _eye(
    q: ShapeQuery,
    n: Size,
    m: Size | None = None,
    *,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Meta:
    return made(q, (n, n if m is None else m), dtype, **options)


def _triangle(rows: Size, columns: Size, offset: Size) -> Size:
    """How many elements lie on and below a diagonal.

    Row i has i + offset + 1 of them, but not fewer than 0 and not more than there are columns.
    """

    def up_to(last: Size) -> Size:
        """1 + 2 + … + last, nothing for a negative one."""
        last = maximum(last, 0)
        return last * (last + 1) // 2

    every = up_to(rows + offset) - up_to(offset)
    beyond = up_to(rows + offset - columns) - up_to(offset - columns)
    return every - beyond


def _triangle_indices(upper: bool) -> Rule:
    def rule(
        q: ShapeQuery,
        row: Size,
        col: Size,
        offset: Size = 0,
        *,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> Meta:
        require_natural(q, row, "the number of rows")
        require_natural(q, col, "the number of columns")
        count = (
            row * col - _triangle(row, col, offset - 1) if upper else _triangle(row, col, offset)
        )
        # The count is never negative, which nobody needs to prove.
        empty = made(q, (2, 0), dtype, default=torch.int64, **options)
        return replace(empty, shape=(2, count))

    return rule


def _window(
    q: ShapeQuery, window_length: Size, *_: Any, dtype: torch.dtype | None = None, **options: Any
) -> Meta:
    for parameter in ("periodic", "alpha", "beta"):
        options.pop(parameter, None)
    if dtype is not None and category(dtype) != 2:
        raise q.fail(f"a window is of a float dtype, not {dtype}")
    return made(q, (window_length,), dtype, **options)


def _vander(q: ShapeQuery, x: Meta, N: Size | None = None, increasing: bool = False) -> Meta:
    if x.rank != 1:
        raise q.fail(f"`x` must have one dimension, not {x.rank}")
    columns = x.shape[0] if N is None else N
    require_natural(q, columns, "N")
    found = x.like((x.shape[0], columns), x.dtype if category(x.dtype) > 1 else torch.int64)
    # The first column is all ones: only from the second on does the result depend on `x`.
    tracked = x.requires_grad and torch.is_grad_enabled()
    return replace(
        found, requires_grad=tracked and q.decide(gt(columns, 1), "powers of x are taken")
    )


def like(
    q: ShapeQuery,
    input: Meta,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    memory_format: torch.memory_format | None = None,
    requires_grad: bool = False,
    **_: Any,
) -> Meta:
    """A fresh tensor as another is, so far as the options do not say otherwise."""
    return Meta(
        input.shape,
        dtype or input.dtype,
        layout_in(q, input, memory_format),
        device_named(device, input.device),
        requires_grad=requires_grad,
    )


def _full_like(q: ShapeQuery, input: Meta, fill_value: Any, **options: Any) -> Meta:
    return like(q, input, **options)


def _new(q: ShapeQuery, input: Meta, *args: Any, size: Any = None, **options: Any) -> Meta:
    return _new_of(q, input, size_in(args, size), **options)


def _new_of(q: ShapeQuery, input: Meta, size: Any, **options: Any) -> Meta:
    options.setdefault("device", None)
    options["device"] = options["device"] or input.device
    return made(q, tuple(size), options.pop("dtype", None), default=input.dtype, **options)


def _new_full(q: ShapeQuery, input: Meta, size: Any, fill_value: Any, **options: Any) -> Meta:
    return _new_of(q, input, size, **options)


def _new_empty_strided(q: ShapeQuery, input: Meta, size: Any, stride: Any, **options: Any) -> Meta:
    found = _empty_strided(q, size, stride)
    return replace(_new_of(q, input, size, **options), layout=found.layout)


def _tensor(
    q: ShapeQuery,
    data: Any,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **_: Any,
) -> Meta:
    """A copy of the data: a tensor, or nested lists of numbers and of single elements."""
    if isinstance(data, Meta):
        found = cast_meta(q, data, dtype, device, copy=True)
    else:
        found = made(q, _shape_of(q, data), dtype or _dtype_of(data), device=device)
    return replace(found, requires_grad=requires_grad)


def _as_tensor(
    q: ShapeQuery, data: Any, dtype: torch.dtype | None = None, device: Any = None
) -> Meta:
    if isinstance(data, Meta):
        return cast_meta(q, data, dtype, device)
    return _tensor(q, data, dtype=dtype, device=device)


def _as_array(
    q: ShapeQuery,
    obj: Any,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Meta:
    if isinstance(obj, Meta):
        return cast_meta(q, obj, dtype, device, copy is True)
    return _tensor(q, obj, dtype=dtype, device=device)


def _new_tensor(q: ShapeQuery, input: Meta, data: Any, **options: Any) -> Meta:
    options["device"] = options.get("device") or input.device
    if not isinstance(data, Meta):
        options["dtype"] = options.get("dtype") or input.dtype
    return _tensor(q, data, **options)


def _shape_of(q: ShapeQuery, data: Any) -> tuple[Size, ...]:
    if isinstance(data, Meta):
        return data.shape
    if not isinstance(data, tuple | list):
        return ()
    inner = _shape_of(q, data[0]) if data else ()
    return (len(data), *inner)


def _dtype_of(data: Any) -> torch.dtype:
    if isinstance(data, Meta):
        return data.dtype
    if not isinstance(data, tuple | list):
        return dtype_of_number(data)
    found: torch.dtype | None = None
    for item in data:
        dtype = _dtype_of(item)
        found = dtype if found is None else join(found, dtype)
    return found or torch.get_default_dtype()


def factory_row(name: str, rule: Rule, *names: str) -> Op:
    """A row of tensors from nothing, whose results never require grad unless they are told to."""
    return Op(name, names or (f"torch.{name}",), rule, OpKind.FACTORY, differentiable=False)


_WINDOWS = ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window")

ROWS = (
    *(factory_row(name, _filled) for name in ("zeros", "ones", "empty")),
    factory_row("full", _full),
    factory_row("scalar_tensor", _scalar),
    factory_row("empty_strided", _empty_strided),
    factory_row("empty_permuted", _empty_permuted),
    factory_row("eye", _eye),
    factory_row("tril_indices", _triangle_indices(upper=False)),
    factory_row("triu_indices", _triangle_indices(upper=True)),
    *(factory_row(name, _window) for name in _WINDOWS),
    factory_row("vander", _vander),
    *(factory_row(name, like) for name in ("zeros_like", "ones_like", "empty_like")),
    factory_row("full_like", _full_like),
    *(
        factory_row(name, _new, f"torch.Tensor.{name}")
        for name in ("new_zeros", "new_ones", "new_empty")
    ),
    factory_row("new_full", _new_full, "torch.Tensor.new_full"),
    factory_row("new_empty_strided", _new_empty_strided, "torch.Tensor.new_empty_strided"),
    factory_row("tensor", _tensor),
    factory_row("new_tensor", _new_tensor, "torch.Tensor.new_tensor"),
    Op("as_tensor", ("torch.as_tensor",), _as_tensor, OpKind.NOTHING),
    Op("asarray", ("torch.asarray",), _as_array, OpKind.NOTHING),
)


# -- native code ----------------------------------------------------------------------------------


Number = int | float | Expr | NumberRef


def _everywhere(c: Lowering, value: Operand, options: dict[str, Any]) -> Value:
    """The same number everywhere."""
    if options.get("pin_memory"):
        raise NotLowered("pinned memory")
    return filled(c, c.result.shape, c.result.dtype, value)


@lower(*moving("zeros", "zeros_like", "new_zeros"))
def lower_zeros(c: Lowering, **options: Any) -> Value:
    return _everywhere(c, 0, options)


@lower(*moving("ones", "ones_like", "new_ones"))
def lower_ones(c: Lowering, **options: Any) -> Value:
    return _everywhere(c, 1, options)


@lower(*moving("full", "full_like", "new_full"))
def lower_full(c: Lowering, fill_value: Any, **options: Any) -> Value:
    return _everywhere(c, fill_value, options)


@lower("scalar_tensor")
def lower_scalar_tensor(c: Lowering, s: Any, **options: Any) -> Value:
    return _everywhere(c, s, options)


@lower("tensor")
def lower_tensor(c: Lowering, data: Any, **options: Any) -> Value:
    if isinstance(data, Value):
        # A copy, as another dtype maybe.
        gives = short(c.result.dtype)
        return c.values.new(data.sizes, gives, lambda i: cast(data.at(i), gives), (data,))
    if isinstance(data, tuple | list):
        return _written_out(c, data, options)
    if not isinstance(data, int | float | Expr | NumberRef):
        raise NotLowered("a tensor of what are no numbers")
    if isinstance(data, NumberRef) and c.result.dtype == torch.float32:
        # Where others refuse a number that is too large for the dtype, it becomes infinite.
        data = c.values.new((), "f64", lambda _, name=data.name: expr.number(name))
    return _everywhere(c, data, options)


#: Numbers of a tensor that are chosen from one by one; more of them are better off in memory.
_FEW = 8


def _written_out(c: Lowering, data: Any, options: dict[str, Any]) -> Value:
    """A few numbers, each where its place in the row is."""
    if options.get("pin_memory") or not all(type(each) in (int, float, bool) for each in data):
        raise NotLowered("a tensor of several numbers that are not all plain, or of more rows")
    if not data:
        return _everywhere(c, 0, options)
    if len(data) > _FEW:
        raise NotLowered("a tensor of many numbers")
    gives = short(c.result.dtype)
    if gives in INTEGERS and not all(_fits(each, gives) for each in data):
        raise NotLowered("numbers that the dtype does not have")
    numbers = [cast(expr.constant(each, wide(gives)), gives) for each in data]

    def at(index: Index) -> Scalar:
        if type(index[0]) is int:
            return numbers[index[0]]
        found = numbers[-1]
        for place, number in reversed(list(enumerate(numbers[:-1]))):
            here = test("eq", expr.index(index[0]), expr.constant(place, "i64"))
            found = where(here, number, found)
        return found

    return c.values.new(c.result.shape, gives, at, cost=len(numbers))


def _fits(number: float, dtype: Dtype) -> bool:
    low, high = INTEGERS[dtype]
    return isinstance(number, int) and low <= number <= high


@lower("eye")
def lower_eye(c: Lowering, **options: Any) -> Value:
    if options.get("pin_memory"):
        raise NotLowered("pinned memory")
    gives = short(c.result.dtype)

    def at(index: Index) -> Scalar:
        on_diagonal = test("eq", expr.index(index[0]), expr.index(index[1]))
        return on_diagonal if gives == "b1" else cast(on_diagonal, gives)

    return c.values.new(c.result.shape, gives, at, cost=1)


# -- ONNX -----------------------------------------------------------------------------------------


def onnx_filled(number: Any, w: Writer, node: Node, args: Any, size: Any, **_: Any) -> str:
    """`zeros`, `ones`, and `x.new_zeros(sizes)`: of the kind of another tensor."""
    return _of_sizes(w, node, number, args if size is None else size)


@onnx("full", "new_full")
def onnx_full(w: Writer, node: Node, size: Any, fill_value: Any, **_: Any) -> str:
    return _of_sizes(w, node, fill_value, size)


def onnx_filled_like(number: Any, w: Writer, node: Node, input: Any, **_: Any) -> str:
    return onnx_full_like(w, node, input, number)


@onnx("full_like")
def onnx_full_like(w: Writer, node: Node, input: Any, fill_value: Any, **_: Any) -> str:
    return _expanded(w, node, fill_value, w.add("Shape", [w.name(input)]))


def _of_sizes(w: Writer, node: Node, number: Any, sizes: Any) -> str:
    return _expanded(w, node, number, w.shape(sizes) if len(sizes) else None)


def _expanded(w: Writer, node: Node, number: Any, shape: str | None) -> str:
    dtype = w.dtype(node)
    made = w.name(number, dtype)
    return made if shape is None else w.add("Expand", [made, shape])


@onnx("tensor")
def onnx_tensor(w: Writer, node: Node, data: Any, **_: Any) -> str:
    """`torch.tensor` of numbers, of which some are computed."""
    found, items = w.example(node), data if isinstance(data, tuple | list) else [data]
    if not any(is_node(each) for each in items):
        if any(isinstance(each, tuple | list) for each in items) and _has_nodes(items):
            raise NotMapped("a tensor of rows that are not constants")
        return w.constant(found)
    parts = [w.add("Reshape", [w.name(each, found.dtype), w.constant([1])]) for each in items]
    joined = parts[0] if len(parts) == 1 else w.add("Concat", parts, axis=0)
    if found.dim():
        return joined
    return w.add("Reshape", [joined, w.constant(torch.empty(0, dtype=torch.int64))])


def _has_nodes(value: Any) -> bool:
    return is_node(value) or (isinstance(value, tuple | list) and any(map(_has_nodes, value)))


@onnx("eye")
def onnx_eye(w: Writer, node: Node, n: Any, m: Any, **_: Any) -> str:
    sizes = w.shape([n, n if m is None else m])
    return w.add("EyeLike", [w.add("Expand", [w.name(0, w.dtype(node)), sizes])])


onnx_rows(
    {
        "zeros": partial(onnx_filled, 0),
        "ones": partial(onnx_filled, 1),
        "zeros_like": partial(onnx_filled_like, 0),
        "ones_like": partial(onnx_filled_like, 1),
        "new_zeros": partial(onnx_filled, 0),
        "new_ones": partial(onnx_filled, 1),
    }
)
