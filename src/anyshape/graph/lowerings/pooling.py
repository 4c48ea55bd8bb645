"""Pooling by windows of known size: what a window holds is written out, term by term.

Torch adds up the elements of a window one after the other, those in the padding left out; so do we,
with a zero in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as points
from typing import TYPE_CHECKING, Any, Final

from anyshape.graph.lowerings.padding import all_of
from anyshape.graph.lowerings.pointwise import constant_like, op, test, where
from anyshape.graph.lowerings.reductions import mean_of, rounded
from anyshape.graph.lowerings.table import row
from anyshape.graph.masked_load import guardable, guarded
from anyshape.graph.pointwise_builder import cast, wide
from anyshape.graph.values import Index, NotLowered, Value
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, HALVES, Scalar
from anyshape.symbolic import Answer, Size, eq, maximum, minimum

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering

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


def average_row(name: str, dims: int) -> None:
    @row(name)
    def lowered(
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
            raise NotLowered("means of two bytes")

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


def maximum_row(name: str, dims: int) -> None:
    @row(name)
    def lowered(
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


def adaptive_row(name: str, dims: int) -> None:
    """Means over everything, or over windows of equal size."""

    @row(name)
    def lowered(c: Lowering, input: Value, output_size: Any) -> Value:
        if input.dtype not in FLOATS or input.dtype in HALVES:
            raise NotLowered("means of integers, or of two bytes")
        wanted = output_size if isinstance(output_size, tuple | list) else (output_size,) * dims
        own = input.sizes[-dims:]
        if all(size == 1 for size in wanted):
            places = list(range(len(input.sizes) - dims, len(input.sizes)))
            return rounded(c, mean_of(c, input, places, True), input.dtype)
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
    average_row(f"avg_pool{_dims}d", _dims)
    maximum_row(f"max_pool{_dims}d", _dims)
    adaptive_row(f"adaptive_avg_pool{_dims}d", _dims)
