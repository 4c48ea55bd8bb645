"""Which tensors torch takes for channels-last, and the layouts of operators that keep it."""

from __future__ import annotations

from anyshape.ops.meta import Dense, Layout, Meta, Strided, channels_last, contiguous, dense_strides
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, and_, eq, ge, or_


def is_channels_last(q: ShapeQuery, tensor: Meta) -> bool:
    """Whether torch's `suggest_memory_format` says channels-last (of two or three spatial
    dimensions).

    For a dense channels-last tensor it says no where a size is 0, or where all sizes but the batch
    are 1. Both matter only to an operator whose result then has elements, and more channels than
    one: convolution asks for itself.
    """
    if tensor.rank not in (4, 5):
        return False
    if isinstance(tensor.layout, Dense):
        if tensor.layout == contiguous(tensor.rank):
            return False
        if tensor.layout == channels_last(tensor.rank):
            return True
    return _strides_ascend(q, tensor.shape, tensor.strides)


def _strides_ascend(q: ShapeQuery, shape: tuple[Size, ...], strides: tuple[Size, ...]) -> bool:
    """Whether the strides do not fall from channels over the spatial dimensions to the batch."""
    if q.decide(eq(strides[1], 0), "a tensor with expanded channels is not channels-last"):
        return False
    least: Size = 0
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        stride = strides[dim]
        if not q.decide(ge(stride, least), "the order of strides tells channels-last tensors"):
            return False
        if dim == 0 and q.decide(
            eq(least, strides[1]), "sizes of 1 leave open whether a tensor is channels-last"
        ):
            return False
        least = stride * shape[dim]
    return True


def kept_format(q: ShapeQuery, tensor: Meta) -> Layout:
    """The layout of a result of the same rank that is channels-last where the tensor is, else
    contiguous."""
    if is_channels_last(q, tensor):
        return channels_last(tensor.rank)
    return contiguous(tensor.rank)


def unsqueezed(tensor: Meta, dim: int) -> Meta:
    """A dimension of size 1 before `dim`, with the stride torch gives it: which format it suggests
    depends on that."""
    shape = (*tensor.shape[:dim], 1, *tensor.shape[dim:])
    if isinstance(tensor.layout, Dense):
        # Its stride is the size times the stride of what was `dim`: it lies just outside of that.
        order = [place + (place >= dim) for place in tensor.layout.order]
        order.insert(order.index(dim + 1), dim)
        return replace(tensor, shape=shape, layout=Dense(tuple(order)))
    step = tensor.shape[dim] * tensor.strides[dim]
    strides = (*tensor.strides[:dim], step, *tensor.strides[dim:])
    return replace(tensor, shape=shape, layout=Strided(strides))


def is_dense_in(q: ShapeQuery, tensor: Meta, order: tuple[int, ...]) -> bool:
    """Whether the tensor is without gaps in this order of dimensions; sizes of 1 do not count."""
    if isinstance(tensor.layout, Dense) and tensor.layout.order == order:
        return True
    wanted = dense_strides(tensor.shape, order)
    facts = (
        or_(eq(size, 1), eq(stride, other))
        for size, stride, other in zip(tensor.shape, tensor.strides, wanted, strict=True)
    )
    return q.decide(and_(*facts), "the order of strides decides the result's layout")
