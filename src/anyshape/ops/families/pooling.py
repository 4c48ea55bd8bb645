"""Pooling over one to three spatial dimensions: windows, adaptive, fractional, and its inverse.

Torch adds up the elements of a window one after the other, those in the padding left out; so do we,
with a zero in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product as points
from typing import Any, Final

import torch

from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.ops.elementwise import pointwise_meta
from anyshape.ops.families.backward_kernels import by_kernel
from anyshape.ops.families.convolution import batched, per_dimension, several, unbatched
from anyshape.ops.families.matmul import require_same
from anyshape.ops.families.reductions import mean_of
from anyshape.ops.float_scale import scaled
from anyshape.ops.gradient import Gradients, NoGradient, Records, Term
from anyshape.ops.lowering.masked_load import guardable, guarded
from anyshape.ops.lowering.pointwise_builder import as_dtype
from anyshape.ops.lowering.scalars import all_of, cast, constant_like, op, test, where, wide
from anyshape.ops.lowering.values import Index, Lowering, NotLowered, Value
from anyshape.ops.memory_format import is_channels_last, is_dense_in, kept_format, unsqueezed
from anyshape.ops.meta import Dense, Layout, Meta, channels_last, contiguous
from anyshape.ops.onnx import Node, NotMapped, Writer
from anyshape.ops.op import (
    FUNCTIONAL,
    TOTAL,
    Effects,
    Op,
    OpKind,
    Rule,
    gradient,
    lower,
    made_of,
    onnx_rows,
)
from anyshape.ops.promotion import category, floating
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import (
    Answer,
    Size,
    and_,
    ceildiv,
    eq,
    ge,
    gt,
    le,
    lt,
    maximum,
    minimum,
    or_,
    product,
)


def _require_rank(q: ShapeQuery, input: Meta, dims: int) -> None:
    if input.rank not in (dims + 1, dims + 2):
        raise q.fail(f"pooling over {dims} dimensions takes {dims + 1} or {dims + 2}")


def _require_elements(q: ShapeQuery, input: Meta, dims: int) -> None:
    """All sizes but the batch's must be positive, the channels' included."""
    for size in input.shape[-dims - 1 :]:
        q.require(gt(size, 0), f"only the batch may be empty, in {input.shape}")


def _window(
    q: ShapeQuery, size: Size, kernel: Size, stride: Size, padding: Size, dilation: Size, ceil: bool
) -> Size:
    """How many windows there are along a dimension."""
    for value in (kernel, stride, dilation):
        if value != 1:
            q.require(gt(value, 0), "kernel size, stride and dilation must be positive")
    if padding != 0:
        half = and_(ge(padding, 0), le(padding, kernel // 2))
        q.require(half, f"padding {padding} must be at most half of the kernel size {kernel}")
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    q.require(gt(room + (stride if ceil else 1), 0), "a window fits at least once")
    if stride == 1:
        return room + 1
    if not ceil:
        return room // stride + 1
    # The last window may reach over the end, but has to start inside or in the padding before.
    return minimum(ceildiv(room, stride), (size + padding - 1) // stride) + 1


def _windows(
    q: ShapeQuery,
    input: Meta,
    dims: int,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
) -> tuple[Size, ...]:
    """The shape after sliding a window over the last dimensions."""
    _require_rank(q, input, dims)
    kernels = per_dimension(q, kernel, dims, "kernel_size")
    if stride is None or (isinstance(stride, Sequence) and not stride):
        stride = kernels
    steps = per_dimension(q, stride, dims, "stride")
    pads = per_dimension(q, padding, dims, "padding")
    dilations = per_dimension(q, dilation, dims, "dilation")
    spatial = [
        _window(q, size, kernel, step, pad, dilation, ceil)
        for size, kernel, step, pad, dilation in zip(
            input.shape[-dims:], kernels, steps, pads, dilations, strict=True
        )
    ]
    _require_elements(q, input, dims)  # mostly implied by now
    return (*input.shape[:-dims], *spatial)


def _format(q: ShapeQuery, input: Meta, dims: int) -> Layout:
    """The layout of a result: channels-last images stay so, and signals, which torch sees as images
    of height 1.
    """
    if input.is_contiguous or input.rank == dims + 1:
        return contiguous(input.rank)
    if dims == 1:
        return channels_last(3) if is_channels_last(q, unsqueezed(input, 2)) else contiguous(3)
    return kept_format(q, input)


def _format_of_max(q: ShapeQuery, input: Meta, dims: int) -> Layout:
    """As `_format`, but volumes without a batch are looked at as well."""
    if dims < 3 or input.rank == 5 or input.is_contiguous:
        return _format(q, input, dims)
    last = (1, 2, 3, 0)
    if is_dense_in(q, input, last) and not is_dense_in(q, input, (0, 1, 2, 3)):
        return Dense(last)
    return contiguous(4)


def _require_dtype(q: ShapeQuery, dtype: torch.dtype, integers: tuple[torch.dtype, ...]) -> None:
    if dtype is torch.bool or dtype.is_complex or (category(dtype) == 1 and dtype not in integers):
        raise q.fail(f"there is no pooling of {dtype}")


def _require_floats(q: ShapeQuery, input: Meta, dims: int) -> None:
    """What adaptive, fractional and reverse pooling ask of an input."""
    _require_rank(q, input, dims)
    _require_elements(q, input, dims)
    _require_dtype(q, input.dtype, ())


def _with_indices(result: Meta) -> tuple[Meta, Meta]:
    return result, result.like(dtype=torch.int64, layout=result.layout)


_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _max_pool(dims: int, indices: bool) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Meta | tuple[Meta, Meta]:
        shape = _windows(q, input, dims, kernel_size, stride, padding, dilation, ceil_mode)
        places = indices or return_indices
        own = dims == 1 and not places and input.device.type == "cpu"
        own = own and not (input.requires_grad and torch.is_grad_enabled())
        _require_dtype(q, input.dtype, () if own else _INTEGERS)
        # Without gradients and indices torch has a kernel of its own for signals, which forgets
        # their layout.
        layout = contiguous(input.rank) if own else _format_of_max(q, input, dims)
        result = input.like(shape, layout=layout)
        return _with_indices(result) if places else result

    return rule


def _avg_pool(dims: int) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Meta:
        shape = _windows(q, input, dims, kernel_size, stride, padding, 1, ceil_mode)
        if dims == 3:
            kernels = per_dimension(q, kernel_size, dims, "kernel_size")
            for size, kernel in zip(input.shape[-dims:], kernels, strict=True):
                q.require(ge(size, kernel), "a window fits without padding")
        if divisor_override is not None:
            q.require(or_(gt(divisor_override, 0), lt(divisor_override, 0)), "a divisor is not 0")
        _require_dtype(q, input.dtype, (torch.int64,))
        layout = contiguous(input.rank) if dims == 3 else _format(q, input, dims)
        return input.like(shape, layout=layout)

    return rule


def _lp_pool(dims: int) -> Rule:
    average = _avg_pool(dims)

    def rule(
        q: ShapeQuery,
        input: Meta,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        ceil_mode: bool = False,
    ) -> Meta:
        powers = pointwise_meta(q, (input,), floating)
        return average(q, powers, kernel_size, stride, 0, ceil_mode)

    return rule


def _targets(q: ShapeQuery, input: Meta, dims: int, output_size: Any) -> tuple[Size, ...]:
    """The wanted sizes; None stands for the size that is there."""
    if not isinstance(output_size, Sequence):
        output_size = (output_size,) * dims
    if len(output_size) != dims:
        raise q.fail(f"output_size must have {dims} entries, not {len(output_size)}")
    found: list[Size] = []
    for size, wanted in zip(input.shape[-dims:], output_size, strict=True):
        if wanted is not None:
            q.require(ge(wanted, 0), f"output_size must not be negative: {wanted}")
        found.append(size if wanted is None else wanted)
    return tuple(found)


def adaptive_avg(dims: int) -> Rule:
    def rule(q: ShapeQuery, input: Meta, output_size: Any) -> Meta:
        _require_rank(q, input, dims)
        targets = _targets(q, input, dims, output_size)
        if category(input.dtype) < 2:
            raise q.fail(f"there is no mean of {input.dtype}")
        # A single window is a mean, which does not mind an empty dimension.
        single = and_(*(eq(target, 1) for target in targets))
        for size in input.shape[-dims - (dims == 3) :]:
            q.require(or_(gt(size, 0), single), "an empty dimension has no windows")
        if input.dtype.is_complex:
            q.require(single, "there are no windows of complex numbers")
        layout = contiguous(input.rank) if dims == 3 else _format(q, input, dims)
        return input.like((*input.shape[:-dims], *targets), layout=layout)

    return rule


def _adaptive_max(dims: int, indices: bool) -> Rule:
    def rule(
        q: ShapeQuery, input: Meta, output_size: Any, return_indices: bool = False
    ) -> Meta | tuple[Meta, Meta]:
        _require_floats(q, input, dims)
        shape = (*input.shape[:-dims], *_targets(q, input, dims, output_size))
        layout = contiguous(input.rank) if dims == 3 else _format(q, input, dims)
        result = input.like(shape, layout=layout)
        return _with_indices(result) if indices or return_indices else result

    return rule


def _fractional(dims: int, indices: bool) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Meta | None = None,
    ) -> Meta | tuple[Meta, Meta]:
        _require_floats(q, input, dims)
        image = input.shape[-dims:]
        kernels = per_dimension(q, kernel_size, dims, "kernel_size")
        if isinstance(output_size, Meta):  # torch's own form: the samples come third
            output_size, _random_samples = output_ratio, output_size
        if output_size is not None:
            targets = per_dimension(q, output_size, dims, "output_size")
        elif output_ratio is not None:
            ratios: tuple[Any, ...] = per_dimension(q, output_ratio, dims, "output_ratio")
            targets = tuple(
                scaled(q, size, ratio) for size, ratio in zip(image, ratios, strict=True)
            )
        else:
            raise q.fail("fractional pooling takes an output_size or an output_ratio")
        for size, kernel, target in zip(image, kernels, targets, strict=True):
            last = target + kernel - 1 + int(dims == 3)  # torch wants room to spare in volumes
            fits = and_(ge(target, 0), le(last, size))
            q.require(fits, f"windows of {kernel} do not fit {target} times into {size}")
        if _random_samples is not None:
            _require_samples(q, input, _random_samples, dims)
        result = input.like((*input.shape[:-dims], *targets))
        return _with_indices(result) if indices else result

    return rule


def _require_samples(q: ShapeQuery, input: Meta, samples: Meta, dims: int) -> None:
    if samples.rank != 3:
        raise q.fail("the random samples have three dimensions")
    batch = input.shape[0] if input.rank == dims + 2 else 1
    q.require(ge(samples.shape[0], batch), "there are samples for the whole batch")
    require_same(q, samples.shape[1], input.shape[-dims - 1], "the channels of samples and input")
    require_same(q, samples.shape[2], dims, "the samples of each channel")


def _unpool(dims: int) -> Rule:
    def rule(
        q: ShapeQuery,
        input: Meta,
        indices: Meta,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Meta:
        _require_floats(q, input, dims)
        if indices.dtype is not torch.int64 or indices.rank != input.rank:
            raise q.fail("the indices are int64, one for each element of the input")
        for size, other in zip(input.shape, indices.shape, strict=True):
            require_same(q, size, other, "the sizes of input and indices")
        kernels = per_dimension(q, kernel_size, dims, "kernel_size")
        steps = per_dimension(q, stride, dims, "stride") if stride else kernels
        pads = per_dimension(q, padding, dims, "padding")
        targets = [
            (size - 1) * step + kernel - 2 * pad
            for size, kernel, step, pad in zip(
                input.shape[-dims:], kernels, steps, pads, strict=True
            )
        ]
        if output_size is not None:
            targets = _chosen(q, targets, steps, tuple(output_size), dims)
        layout = _format(q, input, dims) if dims == 2 else contiguous(input.rank)
        return input.like((*input.shape[:-dims], *targets), layout=layout)

    return rule


def _chosen(
    q: ShapeQuery, usual: list[Size], steps: tuple[Size, ...], wanted: tuple[Size, ...], dims: int
) -> list[Size]:
    """The sizes that the caller wants, each less than a stride off the usual one."""
    if len(wanted) not in (dims, dims + 2):
        raise q.fail(f"output_size has {dims} entries, or {dims + 2} with batch and channels")
    chosen = list(wanted[-dims:])
    for size, target, step in zip(usual, chosen, steps, strict=True):
        near = and_(gt(target, size - step), lt(target, size + step))
        q.require(near, f"output size {target} must lie within {step} of {size}")
    return chosen


_NN = "torch._C._nn."


def _row(name: str, rule: Rule, *also: str) -> Op:
    return Op(name, (FUNCTIONAL + name, *also), rule, OpKind.CALL_OUT, effects=TOTAL)


def _of_dims(dims: int) -> tuple[Op, ...]:
    d = f"{dims}d"
    # Torch's own functions of two and three dimensions live in a module apart, and some always
    # return indices.
    own = "torch." if dims == 1 else _NN
    return (
        _row(f"max_pool{d}", _max_pool(dims, False), f"torch.max_pool{d}"),
        _row(f"max_pool{d}_with_indices", _max_pool(dims, True), f"{own}max_pool{d}_with_indices"),
        _row(f"avg_pool{d}", _avg_pool(dims), f"{own}avg_pool{d}"),
        _row(f"lp_pool{d}", _lp_pool(dims)),
        _row(f"adaptive_avg_pool{d}", adaptive_avg(dims), f"{own}adaptive_avg_pool{d}"),
        _row(f"adaptive_max_pool{d}", _adaptive_max(dims, False)),
        _row(
            f"adaptive_max_pool{d}_with_indices",
            _adaptive_max(dims, True),
            f"{own}adaptive_max_pool{d}",
        ),
        replace(_row(f"max_unpool{d}", _unpool(dims)), effects=Effects(total=True, indexes=True)),
    )


def _fractional_of(dims: int) -> tuple[Op, ...]:
    name = f"fractional_max_pool{dims}d"
    with_indices = _fractional(dims, True)
    return tuple(
        # It draws where windows begin, unless that is given.
        replace(row, effects=Effects(draws=True, total=True))
        for row in (
            _row(name, _fractional(dims, False)),
            _row(f"{name}_with_indices", with_indices, _NN + name),
        )
    )


ROWS: tuple[Op, ...] = (
    *(row for dims in (1, 2, 3) for row in _of_dims(dims)),
    *(row for dims in (2, 3) for row in _fractional_of(dims)),
)


# -- native code ----------------------------------------------------------------------------------


#: Elements of a window; more of them are better off in torch.
_MOST: Final = 25


def each_dim(value: Any, dims: int, what: str) -> tuple[int, ...]:
    """A number for each dimension."""
    found = tuple(value) if isinstance(value, tuple | list) else (value,) * dims
    if len(found) == 1:
        found *= dims
    if len(found) != dims or any(type(each) is not int for each in found):
        raise NotLowered(f"{what} that is not known")
    return found


class Windows:
    """Where the elements of a window lie."""

    def __init__(
        self,
        c: Lowering,
        input: Value,
        dims: int,
        kernel: Any,
        stride: Any,
        padding: Any,
        dilation: Any = 1,
        ceil: Any = False,
    ) -> None:
        self.c, self.input, self.dims = c, input, dims
        self.kernel = each_dim(kernel, dims, "a window")
        given = kernel if stride is None or stride in ((), []) else stride
        self.stride = each_dim(given, dims, "a stride")
        self.padding = each_dim(padding, dims, "a padding")
        self.dilation = each_dim(dilation, dims, "a dilation")
        self.ceil = bool(ceil)
        if input.dtype not in FLOATS:
            raise NotLowered("windows of integers")
        count = 1
        for size in self.kernel:
            count *= size
        if count > _MOST:
            raise NotLowered("large windows")
        if input.memory is None and input.cost > 1:
            # Windows overlap: what is in them is computed once.
            c.materialize(input)
        guardable(c, input)

    def start(self, index: Index, dim: int) -> Size:
        """Of the window along a dimension, in the input; it may be in the padding."""
        return index[dim - self.dims] * self.stride[dim] - self.padding[dim]

    def elements(self, index: Index, other: float) -> list[Scalar]:
        """In their order; `other` for those outside."""
        return [
            self._element(index, offsets, other) for offsets in points(*map(range, self.kernel))
        ]

    def _element(self, index: Index, offsets: Sequence[int], other: float) -> Scalar:
        there = list(index)
        inside: list[Scalar] = []
        for dim, offset in enumerate(offsets):
            ahead = offset * self.dilation[dim]
            here = there[dim - self.dims] = self.start(index, dim) + ahead
            if ahead < self.padding[dim]:
                inside.append(test("ge", expr.index(here), expr.constant(0, "i64")))
            if self.padding[dim] or self.ceil:
                extent = expr.index(self.input.sizes[dim - self.dims])
                inside.append(test("lt", expr.index(here), extent))
        dtype = wide(self.input.dtype)
        if not inside:
            return cast(self.input.at(tuple(there)), dtype)
        condition = all_of(inside)
        found = cast(guarded(self.input, tuple(there), condition), dtype)
        return where(condition, found, constant_like(other, found))

    def made(self, at: Any) -> Value:
        c, input = self.c, self.input
        cost = 3 * len(list(points(*map(range, self.kernel))))
        return c.values.new(c.result.shape, input.dtype, at, (input,), cost=cost)


def lower_average(
    dims: int,
    c: Lowering,
    input: Value,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: Any,
    count_include_pad: Any,
    divisor_override: Any,
) -> Value:
    windows = Windows(c, input, dims, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override is not None and type(divisor_override) is not int:
        raise NotLowered("a divisor that is not known")
    if input.dtype in HALVES:
        raise NotLowered("means of 16-bit floats")

    def at(index: Index) -> Scalar:
        total: Scalar | None = None
        for each in windows.elements(index, 0.0):
            total = each if total is None else op("add", total, each)
        assert total is not None
        # A sum begins with 0, which makes -0.0 a 0.0.
        total = op("add", constant_like(0, total), total)
        if divisor_override is not None:
            return op("div", total, constant_like(divisor_override, total))
        whole: Size = 1
        for dim, size in enumerate(windows.kernel):
            whole = whole * _length(windows, index, dim, size, bool(count_include_pad))
        count = expr.index(whole)
        if count.op == "constant":
            return op("div", total, constant_like(count.data, total))
        return op("div", total, cast(count, total.dtype))

    return windows.made(at)


def _length(windows: Windows, index: Index, dim: int, size: int, with_padding: bool) -> Size:
    """How many elements of a window count along a dimension."""
    padding = windows.padding[dim]
    if not windows.ceil and (padding == 0 or with_padding):
        return size
    start = windows.start(index, dim)
    extent = windows.input.sizes[dim - windows.dims]
    if with_padding:
        return minimum(start + size, extent + padding) - start
    return minimum(start + size, extent) - maximum(start, 0)


def lower_maximum(
    dims: int,
    c: Lowering,
    input: Value,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: Any,
    return_indices: Any,
) -> Value:
    if return_indices:
        raise NotLowered("positions within windows")
    windows = Windows(c, input, dims, kernel_size, stride, padding, dilation, ceil_mode)

    def at(index: Index) -> Scalar:
        found: Scalar | None = None
        for each in windows.elements(index, float("-inf")):
            found = each if found is None else op("maximum", found, each)
        assert found is not None
        return cast(found, input.dtype)

    return windows.made(at)


def lower_adaptive(dims: int, c: Lowering, input: Value, output_size: Any) -> Value:
    """Means over everything, or over windows of equal size."""
    if input.dtype not in FLOATS or input.dtype in HALVES:
        raise NotLowered("means of integers, or of 16-bit floats")
    wanted = output_size if isinstance(output_size, tuple | list) else (output_size,) * dims
    own = input.sizes[-dims:]
    if all(size == 1 for size in wanted):
        places = list(range(len(input.sizes) - dims, len(input.sizes)))
        return as_dtype(c, mean_of(c, input, places, True), input.dtype)
    kernel: list[int] = []
    for size, count in zip(own, wanted, strict=True):
        count = size if count is None else count
        if c.facts.prove(eq(size, count)) is Answer.YES:
            kernel.append(1)
        elif type(size) is int and type(count) is int and count and size % count == 0:
            kernel.append(size // count)
        else:
            raise NotLowered("windows of unlike sizes")
    windows = Windows(c, input, dims, kernel, None, 0)

    def at(index: Index) -> Scalar:
        total: Scalar | None = None
        for each in windows.elements(index, 0.0):
            total = each if total is None else op("add", total, each)
        assert total is not None
        total = op("add", constant_like(0, total), total)
        for size in windows.kernel:
            total = op("div", total, constant_like(size, total))
        return total

    return windows.made(at)


for _dims in (1, 2, 3):
    lower(f"avg_pool{_dims}d")(partial(lower_average, _dims))
    lower(f"max_pool{_dims}d")(partial(lower_maximum, _dims))
    lower(f"adaptive_avg_pool{_dims}d")(partial(lower_adaptive, _dims))


# -- gradients ------------------------------------------------------------------------------------


def _all(value: Any, dims: int) -> tuple[int, ...]:
    """A number for each dimension of torch's kernel, which sees signals as images of height 1."""
    try:
        return each_dim(value, dims, "a size")
    except NotLowered as why:
        raise NoGradient(str(why)) from None


def _as_image(dims: int, *terms: Term) -> list[Term]:
    return [each.unsqueeze(-2) if dims == 1 else each for each in terms]


def _by_kernel(kernel: str, dims: int, grad: Term, input: Term, *rest: Any) -> Term:
    grad, input = _as_image(dims, grad, input)
    made = by_kernel(kernel.format(max(dims, 2)), grad, input, *rest)
    return made.squeeze(-2) if dims == 1 else made


def _dims_of(function: str) -> int:
    return int(function.partition("d_with")[0].removesuffix("d")[-1])


@gradient("avg_pool1d", "avg_pool2d", "avg_pool3d")
def gradient_avg_pool(
    grad: Term,
    input: Term,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: Any,
    count_include_pad: Any,
    divisor_override: Any,
    function: str,
) -> Gradients:
    dims = _dims_of(function)
    kernel = _all(kernel_size, dims)
    step = kernel if stride is None or stride in ((), []) else _all(stride, dims)
    sizes = [kernel, step, _all(padding, dims)]
    if dims == 1:
        sizes = [(high, *each) for high, each in zip((1, 1, 0), sizes, strict=True)]
    rest = (*sizes, ceil_mode, count_include_pad, divisor_override)
    return {"input": _by_kernel("avg_pool{}d_backward", dims, grad, input, *rest)}


@gradient("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def gradient_adaptive_avg_pool(grad: Term, input: Term, function: str) -> Gradients:
    dims = _dims_of(function)
    if all(size == 1 for size in grad.shape[-dims:]):
        return {"input": (grad / product(input.shape[-dims:])).expand(input.shape)}
    return {"input": _by_kernel("_adaptive_avg_pool{}d_backward", dims, grad, input)}


def _giving(function: str) -> Callable[..., Any]:
    """The operator that gives places, too."""
    return getattr(torch.nn.functional, f"{function.removesuffix('_with_indices')}_with_indices")


@made_of("max_pool1d", "max_pool2d", "max_pool3d")
def parts_of_max_pool(
    records: Records,
    input: Term,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: Any,
    return_indices: Any,
    function: str,
) -> Any:
    """With the places of what is greatest, which its gradient needs."""
    made = input.call(_giving(function), kernel_size, stride, padding, dilation, ceil_mode)
    return made if return_indices else made[0]


@made_of("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def parts_of_adaptive_max_pool(
    records: Records, input: Term, output_size: Any, return_indices: Any, function: str
) -> Any:
    made = input.call(_giving(function), output_size)
    return made if return_indices else made[0]


def _with_and_without(name: str) -> Iterator[str]:
    """Operators that give places by their name, or where that is asked for."""
    for dims in (1, 2, 3):
        yield from (f"{name}{dims}d", f"{name}{dims}d_with_indices")


def _with_places(
    grad: Any, parts: dict[int, Term], dims: int, again: Callable[[], Any]
) -> tuple[Term, Term]:
    """The gradient of the greatest, and their places: kept, or found again."""
    if not isinstance(grad, dict):
        raise NoGradient("places that the graph does not have")
    places = parts[1] if 1 in parts else again()[1]
    return grad[0], _as_image(dims, places)[0]


@gradient(*_with_and_without("max_pool"))
def gradient_max_pool(
    grad: dict[int, Term],
    parts: dict[int, Term],
    input: Term,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: Any,
    function: str,
) -> Gradients:
    dims = _dims_of(function)
    given = (kernel_size, stride, padding, dilation, ceil_mode)
    own, places = _with_places(grad, parts, dims, lambda: input.call(_giving(function), *given))
    kernel = _all(kernel_size, dims)
    step = kernel if stride is None or stride in ((), []) else _all(stride, dims)
    sizes = [kernel, step, _all(padding, dims), _all(dilation, dims)]
    if dims == 1:
        sizes = [(high, *each) for high, each in zip((1, 1, 0, 1), sizes, strict=True)]
    kernel_name = "max_pool{}d_with_indices_backward"
    return {"input": _by_kernel(kernel_name, dims, own, input, *sizes, ceil_mode, places)}


@gradient(*_with_and_without("adaptive_max_pool"))
def gradient_adaptive_max_pool(
    grad: dict[int, Term], parts: dict[int, Term], input: Term, output_size: Any, function: str
) -> Gradients:
    dims = _dims_of(function)
    again = lambda: input.call(_giving(function), output_size)  # noqa: E731
    own, places = _with_places(grad, parts, dims, again)
    return {"input": _by_kernel("adaptive_max_pool{}d_backward", dims, own, input, places)}


# -- ONNX -----------------------------------------------------------------------------------------


def onnx_max_pool(
    dims: int,
    w: Writer,
    node: Node,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> str:
    if ceil_mode or return_indices:
        raise NotMapped("pooling with indices, or beyond the edge (ceil_mode)")
    window = several(kernel_size, dims)
    found = w.add(
        "MaxPool",
        [batched(w, input, dims)],
        kernel_shape=window,
        strides=several(stride, dims) if stride else window,
        pads=several(padding, dims) * 2,
        dilations=several(dilation, dims),
    )
    return unbatched(w, input, found, dims)


def onnx_average_pool(
    dims: int,
    w: Writer,
    node: Node,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> str:
    if ceil_mode or divisor_override is not None:
        raise NotMapped("pooling with another divisor, or beyond the edge (ceil_mode)")
    window = several(kernel_size, dims)
    found = w.add(
        "AveragePool",
        [batched(w, input, dims)],
        kernel_shape=window,
        strides=several(stride, dims) if stride else window,
        pads=several(padding, dims) * 2,
        count_include_pad=int(count_include_pad),
    )
    return unbatched(w, input, found, dims)


def onnx_adaptive_pool(
    kind: str, dims: int, w: Writer, node: Node, input: Any, output_size: Any
) -> str:
    sizes = [output_size] if isinstance(output_size, int) else output_size
    if any(each != 1 for each in sizes):
        raise NotMapped("adaptive pooling to more than one element")
    return unbatched(w, input, w.add(kind, [batched(w, input, dims)]), dims)


onnx_rows(
    {
        "max_pool1d": partial(onnx_max_pool, 1),
        "max_pool2d": partial(onnx_max_pool, 2),
        "max_pool3d": partial(onnx_max_pool, 3),
        "avg_pool1d": partial(onnx_average_pool, 1),
        "avg_pool2d": partial(onnx_average_pool, 2),
        "avg_pool3d": partial(onnx_average_pool, 3),
        "adaptive_avg_pool1d": partial(onnx_adaptive_pool, "GlobalAveragePool", 1),
        "adaptive_avg_pool2d": partial(onnx_adaptive_pool, "GlobalAveragePool", 2),
        "adaptive_avg_pool3d": partial(onnx_adaptive_pool, "GlobalAveragePool", 3),
    }
)
