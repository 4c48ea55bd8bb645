"""Strides as torch writes them down, where a size of 0 counts as 1, and back to a layout.

A `Meta` states its layout for tensors that have elements. Torch's own shape functions compute with
the strides of all tensors, so what goes to them and comes back from them is in this form: the
product of `max(size, 1)` over the dimensions inside.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.ops.meta import Dense, Layout, Meta, Strided, contiguous, strided
from anyshape.symbolic import Size, maximum


def actual_strides(meta: Meta) -> tuple[Size, ...]:
    """The strides of a tensor of this meta, also where a size is 0."""
    if isinstance(meta.layout, Strided):
        return meta.layout.strides
    strides: list[Size] = [1] * meta.rank
    step: Size = 1
    for dim in reversed(meta.layout.order):
        strides[dim] = step
        step = step * maximum(meta.shape[dim], 1)
    return tuple(strides)


def layout_of(shape: Sequence[Size], strides: Sequence[Size]) -> Layout:
    """The simplest layout that has these strides wherever there are elements."""
    order = dense_order(shape, strides)
    return strided(tuple(shape), tuple(strides)) if order is None else Dense(order)


def dense_order(shape: Sequence[Size], strides: Sequence[Size]) -> tuple[int, ...] | None:
    """The dimensions from the outermost in, if the strides are dense whatever the sizes; else None.

    Torch is not of one mind on whether a size of 0 counts as 1 in a stride: both are tried.
    """
    usual = contiguous(len(shape)).order
    if is_dense(shape, strides, usual):
        return usual
    inner: list[int] = []
    left = [dim for dim in range(len(shape)) if shape[dim] != 1]
    plain: Size = 1
    positive: Size = 1
    while left:
        found = next((d for d in reversed(left) if strides[d] in (plain, positive)), None)
        if found is None:
            return None
        inner.append(found)
        left.remove(found)
        plain, positive = plain * shape[found], positive * maximum(shape[found], 1)
    ones = [dim for dim in range(len(shape)) if shape[dim] == 1]
    return (*ones, *reversed(inner))


def is_dense(shape: Sequence[Size], strides: Sequence[Size], order: Sequence[int]) -> bool:
    """Whether the strides are those of a tensor without gaps in that order, whatever the sizes."""
    plain: Size = 1
    positive: Size = 1
    for dim in reversed(order):
        size, stride = shape[dim], strides[dim]
        if size != 1 and stride != plain and stride != positive:
            return False
        plain, positive = plain * size, positive * maximum(size, 1)
    return True
