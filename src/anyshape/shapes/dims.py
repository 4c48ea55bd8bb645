"""Sizes with names: `Dim("batch", max=4096)`, what is computed of them, what is said of them.

    batch, seq = Dim("batch", max=4096), Dim("seq", min=1)
    2 * seq + 1             a DimExpr: a size that follows from another
    batch % 8 == 0          a Relation: to be assumed, not a truth value

A dim is its name: two of one name in a spec are the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from keyword import iskeyword
from typing import ClassVar, Final

from anyshape.arguments import spelled
from anyshape.errors import BadShapeSpec
from anyshape.symbolic import (
    Fact,
    Range,
    Size,
    Symbol,
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
    parse_fact,
    parse_size,
    symbol,
    to_text,
)
from anyshape.symbolic.expr import symbols_of

#: Names in texts of expressions that are no dims.
FUNCTIONS: Final = frozenset(
    {"min", "max", "abs", "ceildiv", "and", "or", "not", "Eq", "Ne", "Le", "Lt", "Ge", "Gt"}
)


class Marker(Enum):
    """What can be said of a dimension without a name."""

    #: dynamic as far as the program allows; never an error
    AUTO = "Dim.AUTO"
    #: dynamic, or an error
    DYNAMIC = "Dim.DYNAMIC"
    #: the size that it has when it is compiled
    STATIC = "Dim.STATIC"

    def __repr__(self) -> str:
        return self.value


class DimExpr:
    """A size computed from dims. Comparisons give relations; only `==` of the very same sizes is
    true as it stands, so that specs can be compared and looked through."""

    __slots__ = ("size",)

    def __init__(self, size: Size) -> None:
        self.size: Final = size

    @property
    def symbols(self) -> frozenset[Symbol]:
        return symbols_of(self.size)

    def __repr__(self) -> str:
        return to_text(self.size)

    def __reduce__(self) -> tuple[object, ...]:
        return _size_again, (to_text(self.size), _ranges(self.symbols))

    def __add__(self, other: DimExpr | int) -> DimExpr:
        return DimExpr(self.size + _size(other))

    __radd__ = __add__

    def __sub__(self, other: DimExpr | int) -> DimExpr:
        return DimExpr(self.size - _size(other))

    def __rsub__(self, other: int) -> DimExpr:
        return DimExpr(_size(other) - self.size)

    def __mul__(self, other: DimExpr | int) -> DimExpr:
        return DimExpr(self.size * _size(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: DimExpr | int) -> DimExpr:
        return DimExpr(self.size // _size(other))

    def __mod__(self, other: DimExpr | int) -> DimExpr:
        return DimExpr(self.size % _size(other))

    def __eq__(self, other: object) -> Relation:  # pyright: ignore[reportIncompatibleMethodOverride] it states, rather than asks
        return self._related(eq, "==", other, identical=True)

    def __ne__(self, other: object) -> Relation:  # pyright: ignore[reportIncompatibleMethodOverride] it states, rather than asks
        return self._related(ne, "!=", other, identical=False)

    def __le__(self, other: DimExpr | int) -> Relation:
        return self._related(le, "<=", other)

    def __lt__(self, other: DimExpr | int) -> Relation:
        return self._related(lt, "<", other)

    def __ge__(self, other: DimExpr | int) -> Relation:
        return self._related(ge, ">=", other)

    def __gt__(self, other: DimExpr | int) -> Relation:
        return self._related(gt, ">", other)

    def __hash__(self) -> int:
        return hash(self.size)

    def _related(
        self,
        make: Callable[[Size, Size], Fact],
        sign: str,
        other: object,
        identical: bool | None = None,
    ) -> Relation:
        if not isinstance(other, DimExpr | int):
            return NotImplemented
        size = _size(other)
        truth = None if identical is None else (self.size is size) is identical
        return Relation(make(self.size, size), f"{self!r} {sign} {other!r}", truth)


class Dim(DimExpr):
    """A size with a name, from `min` to `max`, both included.

    >>> batch = anyshape.Dim("batch", min=1, max=4096)
    >>> 2 * batch + 1
    2*batch + 1
    >>> pair = anyshape.compile(torch.add, shapes={"input": (batch, 4), "other": (batch, 4)})
    >>> pair(torch.ones(3, 4), torch.ones(3, 4)).shape
    torch.Size([3, 4])
    """

    __slots__ = ("max", "min", "name")

    AUTO: ClassVar = Marker.AUTO
    DYNAMIC: ClassVar = Marker.DYNAMIC
    STATIC: ClassVar = Marker.STATIC

    @spelled
    def __init__(self, name: str, min: int | None = None, max: int | None = None) -> None:
        lowest = 0 if min is None else min
        where = f"Dim({name!r})"
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):  # pyright: ignore[reportUnnecessaryIsInstance] input from outside
            raise BadShapeSpec(place=where, found=repr(name), expected="a name: an identifier")
        if name in FUNCTIONS or name == "_":
            raise BadShapeSpec(place=where, found=repr(name), expected="a name without a meaning")
        for end in (lowest, max):
            if end is not None and type(end) is not int:
                raise BadShapeSpec(
                    place=where, found=f"the bound {end!r}", expected="integers for min and max"
                )
        if max is not None and lowest > max:
            raise BadShapeSpec(
                place=where, found=f"min={lowest}, max={max}", expected="min to be at most max"
            )
        super().__init__(symbol(name, Range(lowest, max)))
        self.name: Final = name
        self.min: Final = lowest
        self.max: Final = max

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return Dim, (self.name, self.min, self.max)


class Relation:
    """Something that always holds of dims."""

    __slots__ = ("_truth", "fact", "text")

    def __init__(self, fact: Fact, text: str, truth: bool | None = None) -> None:
        self.fact: Final = fact
        #: as it was written
        self.text: Final = text
        #: what Python gets that looks for a dim in a list
        self._truth = truth

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[object, ...]:
        facts = to_text(self.fact), _ranges(self.fact.symbols)
        return _relation_again, (*facts, self.text, self._truth)

    def __bool__(self) -> bool:
        if self._truth is None:
            raise BadShapeSpec(
                place=self.text,
                found="the truth of a relation was asked",
                expected="one relation at a time: `a <= b <= c` is two (or one, as a text)",
            )
        return self._truth


_Ranges = tuple[tuple[str, int | None, int | None], ...]


def _ranges(symbols: frozenset[Symbol]) -> _Ranges:
    return tuple(sorted((each.name, each.declared.lower, each.declared.upper) for each in symbols))


def _names(ranges: _Ranges) -> Mapping[str, Size]:
    return {name: symbol(name, Range(low, high)) for name, low, high in ranges}


def _size_again(text: str, ranges: _Ranges) -> DimExpr:
    return DimExpr(parse_size(text, _names(ranges)))


def _relation_again(text: str, ranges: _Ranges, written: str, truth: bool | None) -> Relation:
    return Relation(parse_fact(text, _names(ranges)), written, truth)


def _size(value: DimExpr | int) -> Size:
    if isinstance(value, DimExpr):
        return value.size
    if isinstance(value, int) and not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance] input from outside
        return value
    raise BadShapeSpec(
        place="arithmetic with a Dim", found=repr(value), expected="an integer or another Dim"
    )
