"""Whether a write may meet what it reads, for some sizes.

Torch refuses some of these writes and does others in an order of its own, so that they are its to
do. An element that is read where it is written is fine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from anyshape.ops.meta import Meta
from anyshape.symbolic import Answer, Expr, Facts, Size, le

#: why such a write is not native
MEETING: Final = "what is written to may overlap with what is read"


class Part(NamedTuple):
    """A tensor, or a view of one."""

    meta: Meta
    #: what it was taken from by a subscript, and the form of that
    base: object = None
    form: Sequence[str] | None = None


def may_meet(facts: Facts, written: Part, read: Part) -> bool:
    """Of two that share memory."""
    picked_alike = written.form is not None and written.form == read.form
    if picked_alike and written.base is read.base:
        # `base[i, :]` and `base[j, :]`: the same elements, or none in common.
        return False
    one, two = written.meta, read.meta
    return not (_is_same(facts, one, two) or _is_apart(facts, one, two))


def form_of(key: Any) -> list[str] | None:
    """The form of a subscript of integers and whole dimensions."""
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


def _is_same(facts: Facts, one: Meta, two: Meta) -> bool:
    if one.rank != two.rank or not facts.equal(one.offset, two.offset):
        return False
    sizes = zip(one.shape, two.shape, one.strides, two.strides, strict=True)
    return all(
        facts.equal(a, b) and (a == 1 or facts.equal(own, other)) for a, b, own, other in sizes
    )


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
