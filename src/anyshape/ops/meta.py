"""What a shape rule sees of a tensor: sizes, layout, dtype, device, whether it requires grad. No
data.

The layout is a class rather than exact strides. Torch leaves the stride of a dimension of size 1 to
chance, and strides mean nothing where a size is 0; a class is the same for every size, so that 0
and 1 are ordinary sizes here. Two layouts are the same where they give the same strides to all
dimensions above 1 of a tensor that has elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import torch

from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Fact, Size, product


@dataclass(frozen=True, slots=True)
class Dense:
    """Each element once and no gaps. `order` names the dimensions from the outermost to the
    innermost in memory."""

    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Strided:
    """Explicit strides in elements, as they are where no size is 0: views, expanded or overlapping
    tensors."""

    strides: tuple[Size, ...]


Layout = Dense | Strided


#: Asked of nearly every tensor, so made once; hardly any has more dimensions.
_CONTIGUOUS: Final = tuple(Dense(tuple(range(rank))) for rank in range(16))


def contiguous(rank: int) -> Dense:
    """The layout of a fresh tensor: the last dimension is innermost."""
    return _CONTIGUOUS[rank] if rank < 16 else Dense(tuple(range(rank)))


@lru_cache(maxsize=8)
def channels_last(rank: int) -> Dense:
    """Dimension 1 innermost: `torch.channels_last` for rank 4, `torch.channels_last_3d` for rank
    5."""
    return Dense((0, *range(2, rank), 1))


@dataclass(slots=True, unsafe_hash=True)
class Meta:
    """A tensor without its data. Nobody writes to one; it is not declared frozen, since that would
    triple the time to make it, and each operator makes one or two.
    """

    shape: tuple[Size, ...]
    dtype: torch.dtype
    layout: Layout
    device: torch.device
    #: of the first element in its storage, where there is one
    offset: Size = 0
    requires_grad: bool = False
    #: set on a result that is a copy for some sizes and a view for others, with the same strides
    #: for all (`reshape` of a transposed tensor): it shares its operand's memory exactly where this
    #: holds. Only a write to either of the two has to decide it
    shares_if: Fact | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Size:
        return product(self.shape)

    @property
    def strides(self) -> tuple[Size, ...]:
        """Strides in elements where no size is 0."""
        if isinstance(self.layout, Strided):
            return self.layout.strides
        return dense_strides(self.shape, self.layout.order)

    @property
    def is_contiguous(self) -> bool:
        """True if contiguous for every size. A False may still be contiguous for some (ask
        `layouts.contiguity`)."""
        layout, usual = self.layout, contiguous(len(self.shape))
        return layout is usual or layout == usual

    def like(
        self,
        shape: tuple[Size, ...] | None = None,
        dtype: torch.dtype | None = None,
        layout: Layout | None = None,
    ) -> Meta:
        """A fresh tensor on the same device: this shape (or another), contiguous unless a layout is
        given."""
        shape = self.shape if shape is None else shape
        layout = contiguous(len(shape)) if layout is None else layout
        return Meta(shape, self.dtype if dtype is None else dtype, layout, self.device)

    def viewed(
        self, shape: tuple[Size, ...], strides: tuple[Size, ...], offset: Size | None = None
    ) -> Meta:
        """The same storage seen with other sizes and strides."""
        return Meta(
            shape,
            self.dtype,
            strided(shape, strides),
            self.device,
            self.offset if offset is None else offset,
            self.requires_grad,
            self.shares_if,
        )


def dense_strides(shape: tuple[Size, ...], order: tuple[int, ...]) -> tuple[Size, ...]:
    strides: list[Size] = [1] * len(shape)
    step: Size = 1
    for dim in reversed(order):
        strides[dim] = step
        step = step * shape[dim]
    return tuple(strides)


@lru_cache(maxsize=8192)
def strided(shape: tuple[Size, ...], strides: tuple[Size, ...]) -> Layout:
    """The layout of a view with these strides: dense where they are dense in some order, whatever
    the sizes.

    The stride of a dimension of size 1 counts. No element depends on it, but torch reads it when it
    looks for channels-last tensors or sorts strides, and hands the answer on to larger results.
    """
    rank = len(shape)
    for usual in (contiguous(rank), *((channels_last(rank),) if rank in (4, 5) else ())):
        if strides == dense_strides(shape, usual.order):
            return usual
    order = _order_inside_out(shape, strides, loosely=False)
    return Strided(strides) if order is None else Dense(order)


def _order_inside_out(
    shape: tuple[Size, ...], strides: tuple[Size, ...], *, loosely: bool
) -> tuple[int, ...] | None:
    """The dimensions from the outermost in, if each stride is the product of the sizes inside it;
    `loosely`, a dimension of size 1 fits anywhere.
    """
    step: Size = 1
    inner: list[int] = []
    left = list(range(len(shape)))
    while left:
        fitting = [dim for dim in reversed(left) if strides[dim] == step]
        ones = [dim for dim in reversed(left if loosely else fitting) if shape[dim] == 1]
        # A size of 1 leaves the product as it is, so it goes first.
        found = next(iter([*(dim for dim in fitting if shape[dim] == 1), *fitting, *ones]), None)
        if found is None:
            return None
        inner.append(found)
        left.remove(found)
        step = step * shape[found]
    return tuple(reversed(inner))


def of_tensor(tensor: torch.Tensor, shape: tuple[Size, ...] | None = None) -> Meta:
    """The meta of a real tensor; with `shape`, of its symbolic counterpart (same layout class,
    symbolic sizes).

    A layout that is not dense keeps its strides as numbers: they were not derived from the sizes,
    as far as we can tell.
    """
    sizes = tuple(tensor.shape) if shape is None else shape
    layout = _layout_of(tensor)
    return Meta(
        sizes,
        tensor.dtype,
        layout,
        tensor.device,
        int(tensor.storage_offset()),
        tensor.requires_grad,
    )


def _layout_of(tensor: torch.Tensor) -> Layout:
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if tensor.dim() in (4, 5) and 1 in shape and 0 not in shape:
        # Both contiguous and channels-last where sizes are 1. Torch then goes by the strides, and
        # convolutions hand the answer on to results of more channels.
        written = channels_last(tensor.dim())
        usual = dense_strides(shape, contiguous(tensor.dim()).order)
        if strides == dense_strides(shape, written.order) and strides != usual:
            return written
    if tensor.is_contiguous():  # also every tensor without elements
        return contiguous(tensor.dim())
    # Its strides are numbers, where its sizes may become symbols: dense if it can be read that way.
    order = _order_inside_out(shape, strides, loosely=True)
    if order is None:
        return Strided(strides)
    read = dense_strides(shape, order)
    alike = suggests_channels_last(shape, strides) == suggests_channels_last(shape, read)
    return Dense(order) if alike else Strided(strides)


def suggests_channels_last(shape: Sequence[Size], strides: Sequence[Size]) -> bool:
    """Whether torch takes these strides, of a tensor with elements, for those of a channels-last
    one: it reads the strides of sizes of 1, too."""
    if len(shape) not in (4, 5):
        return False
    least = 0
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        size, stride = shape[dim], strides[dim]
        assert isinstance(size, int), "asked of numbers"
        assert isinstance(stride, int), "asked of numbers"
        if stride < least or (dim == 0 and least == strides[1]):
            return False
        least = stride * size
    return True
