"""Whether a write may meet memory that it reads, or writes twice: then it is torch's to do.

Torch raises an error where an operator writes to a part of a tensor and reads another part that
overlaps, and where elements of what is written to are one. Which of it happens depends on sizes, so
native code only does what never meets, for all sizes of the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Final

from anyshape.graph.aliasing import TensorView
from anyshape.ops.meta import Dense, Meta
from anyshape.symbolic import Answer, Expr, Facts, Size, le

#: Views whose elements may share memory without a stride that is 0.
_WINDOWS: Final = frozenset({"unfold", "as_strided"})


def meets(facts: Facts, target: TensorView, others: Iterable[TensorView]) -> bool:
    """Whether a write to the target, for some sizes, may meet what it reads of these tensors. An
    element that is read where it is written is fine."""
    return any(
        other.root is target.root
        and not _is_same(facts, target.meta, other.meta)
        and not _are_picked_alike(target, other)
        and not _is_apart(facts, target.meta, other.meta)
        for other in others
    )


def overlaps_itself(handle: TensorView) -> bool:
    """Whether two elements of it may be one."""
    each: TensorView | None = handle
    while each is not None:
        made = each.view
        if made is not None and not isinstance(each.meta.layout, Dense):
            name = made.target if isinstance(made.target, str) else made.target.__name__
            if name in _WINDOWS:
                return True
        each = each.base
    return any(
        stride == 0 and size != 1
        for size, stride in zip(handle.meta.shape, handle.meta.strides, strict=True)
    )


def _is_same(facts: Facts, one: Meta, two: Meta) -> bool:
    if one.rank != two.rank or not facts.equal(one.offset, two.offset):
        return False
    sizes = zip(one.shape, two.shape, one.strides, two.strides, strict=True)
    return all(
        facts.equal(a, b) and (a == 1 or facts.equal(own, other)) for a, b, own, other in sizes
    )


def _are_picked_alike(one: TensorView, two: TensorView) -> bool:
    """Whether they are `base[i, :]` and `base[j, :]`: the same elements, or none in common."""
    if one.base is None or one.base is not two.base or overlaps_itself(one.base):
        return False
    keys = [_key(each) for each in (one, two)]
    return keys[0] is not None and keys[0] == keys[1]


def _key(handle: TensorView) -> list[str] | None:
    """The form of a subscript of integers and whole dimensions."""
    view = handle.view
    if (
        view is None
        or view.target not in (operator.getitem, "__getitem__")
        or view.place is not None
    ):
        return None
    (key,) = view.args
    found: list[str] = []
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, Expr) or type(item) is int:
            found.append("one")
        elif item == slice(None):
            found.append("all")
        elif item is Ellipsis:
            found.append("...")
        else:
            return None
    return found


def _is_apart(facts: Facts, one: Meta, two: Meta) -> bool:
    return (
        facts.prove(le(_end(one), two.offset)) is Answer.YES
        or facts.prove(le(_end(two), one.offset)) is Answer.YES
    )


def _end(meta: Meta) -> Size:
    """Behind the last element."""
    end: Size = meta.offset + 1
    for size, stride in zip(meta.shape, meta.strides, strict=True):
        end = end + (size - 1) * stride
    return end
