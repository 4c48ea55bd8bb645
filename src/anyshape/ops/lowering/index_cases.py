"""What elements are that are made of indices alone, at all of them.

    torch.arange(n)[None] <= torch.arange(n)[:, None]       # true where column <= row

Masks and positions are often computed of nothing but sizes. Where a comparison of indices may be
true or not, both are followed, each with what it says of the indices.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any, Final

from anyshape.errors import Contradiction
from anyshape.loops import expr
from anyshape.loops.expr import FLOATS, Scalar
from anyshape.loops.value_range import MOST_ELEMENTS, Magnitudes
from anyshape.ops.lowering.values import Index, Value
from anyshape.symbolic import (
    Answer,
    Expr,
    Fact,
    Facts,
    Size,
    Symbol,
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
    not_,
    symbol,
)

#: Floats are constants, and what is computed of them without rounding.
Number = Size | float
Case = tuple[Facts, Number]

_MOST_CASES: Final = 64
#: Scalars that an element is made of, each counted wherever it is used.
_MOST_SCALARS: Final = 2000
_COMPARISONS: Final[dict[str, Callable[[Size, Size], Fact]]] = {
    "lt": lt,
    "le": le,
    "gt": gt,
    "ge": ge,
    "eq": eq,
    "ne": ne,
}
_ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
}


class _Unknown(Exception):
    pass


def is_of_indices(value: Value) -> bool:
    """Whether nothing is read to compute it."""
    return value.memory is None and not value.axes and not value.buffers()


def outcomes(
    facts: Facts,
    value: Value,
    where: Callable[[Index], Sequence[Fact]] = lambda index: (),
    unbounded: Set[Symbol] = frozenset(),
) -> frozenset[float] | None:
    """The numbers that there are among the elements whose indices are as `where` says; None if
    that is not known. There may be none. `unbounded`: symbols that are no sizes, whatever they were
    declared with."""
    if not is_of_indices(value):
        return None
    index = [symbol(f"at{place}", backed=False) for place in range(len(value.sizes))]
    inside = [lt(each, size) for each, size in zip(index, value.sizes, strict=True)]
    try:
        for each in index:
            facts = facts.declare(each)
        for fact in (*inside, *where(tuple(index))):
            facts = facts.assume(fact, "an element")
    except Contradiction:
        return frozenset()
    found: set[float] = set()
    element = value.at(tuple(index))
    if not _are_few(element, unbounded):
        return None
    try:
        for count, (known, number) in enumerate(_cases(facts, element)):
            exact = number if isinstance(number, float) else known.value(number)
            if exact is None or count >= _MOST_CASES:
                return None
            found.add(exact)
    except _Unknown:
        return None
    return frozenset(found)


def _cases(facts: Facts, scalar: Scalar) -> Iterator[Case]:
    name, args = scalar.op, scalar.args
    if name == "constant":
        yield facts, _constant(scalar)
    elif name == "index" and not _has_positions(scalar):
        yield facts, scalar.data
    elif name == "cast":
        yield from _cast(facts, scalar)
    elif name == "where":
        for known, chosen in _truths(facts, args[0]):
            yield from _cases(known, args[1] if chosen else args[2])
    elif name in _COMPARISONS and args[0].dtype in FLOATS:
        for known, numbers in _all_cases(facts, args):
            yield known, int(getattr(operator, name)(*numbers))
    elif name in _COMPARISONS:
        for known, (left, right) in _all_cases(facts, args):
            yield from _decided(known, _COMPARISONS[name](left, right))
    elif name in ("and", "or") and scalar.dtype == "b1":
        for known, first in _truths(facts, args[0]):
            is_decided = first is (name == "or")
            yield from [(known, int(first))] if is_decided else _cases(known, args[1])
    elif name == "not" and scalar.dtype == "b1":
        yield from ((known, int(not truth)) for known, truth in _truths(facts, args[0]))
    elif name in _ARITHMETIC and scalar.dtype == "i64":
        for known, numbers in _all_cases(facts, args):
            yield known, _ARITHMETIC[name](*numbers)
    elif name in _ARITHMETIC and scalar.dtype in FLOATS:
        for known, numbers in _all_cases(facts, args):
            yield known, _not_rounded(name, numbers)
    else:
        raise _Unknown


def _are_few(scalar: Scalar, unbounded: Set[Symbol]) -> bool:
    """Whether it can be followed: it is not long, and no number of it is beyond 64 bits, where they
    begin anew behind the largest. `unbounded`: symbols that may be any integers."""

    def of_size(size: Size) -> float:
        if isinstance(size, int):
            return abs(size)
        return math.inf if any(map(is_unbounded, size.symbols)) else MOST_ELEMENTS

    def is_unbounded(symbol: Symbol) -> bool:
        lower = symbol.declared.lower
        return symbol in unbounded or lower is None or lower < 0

    magnitudes = Magnitudes(of_size)
    lengths: dict[Scalar, float] = {}

    def length(each: Scalar) -> float:
        found = lengths.get(each)
        if found is None:
            found = 1 + sum(map(length, each.args))
            if each.op in _ARITHMETIC and each.dtype == "i64" and magnitudes.of(each) >= 1 << 63:
                found = math.inf
            lengths[each] = found
        return found

    return length(scalar) <= _MOST_SCALARS


#: How floats are packed. (Half of a float32 is a bfloat16.)
_FORMATS: Final = {"f64": "<d", "f32": "<f", "f16": "<e", "bf16": "<f"}


def _constant(scalar: Scalar) -> Number:
    """A float that its dtype has: others are rounded where they are computed with."""
    number, dtype = scalar.data, scalar.dtype
    if dtype not in FLOATS or not math.isfinite(number):
        return number
    try:
        data = struct.pack(_FORMATS[dtype], number)
    except OverflowError:
        raise _Unknown from None
    (kept,) = struct.unpack(_FORMATS[dtype], data)
    if kept != number or (dtype == "bf16" and any(data[:2])):
        raise _Unknown
    return number


#: Whole numbers up to this one are in all kinds of floats.
_MOST_WHOLE: Final = 8.0


def _not_rounded(name: str, numbers: list[float]) -> float:
    """Of floats, what is computed exactly, however many bits they have."""
    made = _ARITHMETIC[name](*numbers)
    if name == "neg" or all(_is_small(each) for each in (made, *numbers)):
        return made
    alike = (0.0, 1.0, -1.0) if name == "mul" else (0.0,)
    if all(map(math.isfinite, numbers)) and any(each in alike for each in numbers):
        return made
    raise _Unknown


def _is_small(number: float) -> bool:
    return abs(number) <= _MOST_WHOLE and number == int(number)


def _truths(facts: Facts, scalar: Scalar) -> Iterator[tuple[Facts, bool]]:
    for known, number in _cases(facts, scalar):
        assert isinstance(number, int)
        yield known, bool(number)


def _all_cases(facts: Facts, scalars: Sequence[Scalar]) -> Iterator[tuple[Facts, list[Any]]]:
    if not scalars:
        yield facts, []
        return
    for known, first in _cases(facts, scalars[0]):
        for more, rest in _all_cases(known, scalars[1:]):
            yield more, [first, *rest]


def _cast(facts: Facts, scalar: Scalar) -> Iterator[Case]:
    given, dtype = scalar.args[0], scalar.dtype
    is_whole = dtype not in FLOATS and given.dtype not in FLOATS
    is_kept = given.dtype == dtype or (is_whole and (dtype == "i64" or given.dtype == "b1"))
    for known, number in _cases(facts, given):
        if is_kept:
            yield known, number
        elif dtype == "b1":
            if isinstance(number, float):
                yield known, int(number != 0)
            else:
                yield from _decided(known, ne(number, 0))
        elif dtype in FLOATS:
            exact = number if isinstance(number, float) else known.value(number)
            if exact is None or not _is_small(exact):
                raise _Unknown  # it may be rounded
            yield known, float(exact)
        else:
            raise _Unknown  # it may be too large


def _decided(facts: Facts, fact: Fact) -> Iterator[Case]:
    answer = facts.prove(fact)
    if answer is not Answer.UNKNOWN:
        yield facts, int(answer is Answer.YES)
        return
    for number, each in ((1, fact), (0, not_(fact))):
        try:
            known = facts.assume(each, "an element")
        except Contradiction:
            continue
        yield known, number


def _has_positions(scalar: Scalar) -> bool:
    size = scalar.data
    symbols = size.symbols if isinstance(size, Expr) else ()
    return any(expr.position_scalar(each) is not None for each in symbols)
