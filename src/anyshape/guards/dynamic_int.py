"""An integer that its user wants dynamic: `DynamicInt(8)`.

As a tensor carries its marks, an integer carries this class. A program never gets to see it: a
compiled function hands on the plain number. So an entry made for one serves plain integers as well,
and the other way round.
"""

from __future__ import annotations

from typing import Self, SupportsIndex

from anyshape.errors import BadOption


class DynamicInt(int):
    """An argument that is dynamic from the first compile; an error if the program fixes it.

    >>> @anyshape.compile
    ... def ones(n: int) -> torch.Tensor:
    ...     return torch.ones(n)
    >>> ones(anyshape.DynamicInt(3)), ones(2), ones.stats().captures
    (tensor([1., 1., 1.]), tensor([1., 1.]), 1)
    """

    __slots__ = ()

    def __new__(cls, value: SupportsIndex) -> Self:
        # Truths choose programs, and what has to be rounded or read is no integer.
        if isinstance(value, bool) or not hasattr(type(value), "__index__"):
            raise BadOption(option="DynamicInt", value=value, accepted="it takes an integer")
        return super().__new__(cls, value)


def plain_int(value: object) -> int:
    """The number itself. Anything but an integer is refused, subclasses and truths among it: they
    are other programs."""
    if type(value) is DynamicInt:
        return int.__pos__(value)
    if type(value) is int:
        return value
    raise TypeError(f"no integer: {type(value).__name__}")
