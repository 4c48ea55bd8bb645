"""What is known of a mask in a whole tile of queries and keys, without looking at each pair.

    (q >= k) & (document[q] == document[k])

Of numbers, the least and the largest in the tile are told; of conditions, whether they may hold
for some pair, and whether they do for all. What depends on queries alone is looked at in all lanes,
what depends on keys alone in a loop over the keys: exact, and little beside the tile itself. What
depends on both is followed through its operations; of those that are not known here, nothing is.
Numbers that a mask is given may be any: what is told is true of small ones, and if one is not,
nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from anyshape.codegen.ir_builder import REGISTER, UNSIGNED, literal, register_bits
from anyshape.codegen.llvm.emitter import Emitter, States
from anyshape.codegen.llvm.reductions import neutral
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.loops.expr import FLOAT8, FLOATS, Axis, Scalar
from anyshape.loops.linear import coefficient
from anyshape.loops.value_range import MOST_ELEMENTS, Magnitudes
from anyshape.symbolic import Size, Symbol
from anyshape.symbolic.expr import terms_of

#: (the least, the largest)
Bounds = tuple[str, str]
#: (whether it may hold, whether it holds for all)
Truth = tuple[str, str]

_UNKNOWN: Final[Truth] = ("true", "false")


class MaskBounds:
    def __init__(
        self,
        e: Emitter,
        queries: Axis,
        keys: Axis,
        first: str,
        end: str,
        level: int,
        open_axis: Callable[[Axis, str], None],
    ) -> None:
        """Of the vector of queries at hand and keys from `first` to `end`. `level`: that of the
        queries. `open_axis`: says that an axis has a variable from here on."""
        self.e = e
        self.queries = queries
        self.keys = keys
        self.first = first
        self.end = end
        self.level = level
        self.open_axis = open_axis
        #: sizes that have to be small for what is told
        self._given: dict[Symbol, None] = {}
        self._magnitudes = Magnitudes(self._magnitude)
        self._truths: dict[Scalar, Truth] = {}
        self._bounds: dict[Scalar, Bounds | None] = {}

    def may_hold(self, scalar: Scalar) -> str:
        """Whether a condition may hold somewhere in the tile."""
        may, _ = self.truth(scalar)
        for is_large in self._are_large():
            may = _join(self.e, "or", may, is_large)
        return may

    def must_hold(self, scalar: Scalar) -> str:
        """Whether it holds for all of the tile, as far as is known."""
        _, must = self.truth(scalar)
        if must != "false":
            for is_large in self._are_large():
                must = _join(self.e, "and", must, _not(self.e, is_large))
        return must

    def _are_large(self) -> Iterator[str]:
        e = self.e
        for symbol in self._given:
            # From zero, both ways.
            moved = e.let(f"add i64 {e.symbol(symbol)}, {MOST_ELEMENTS}")
            yield e.let(f"icmp ugt i64 {moved}, {2 * MOST_ELEMENTS}")

    # -- conditions ----------------------------------------------------------------------------

    def truth(self, scalar: Scalar) -> Truth:
        found = self._truths.get(scalar)
        if found is None:
            found = self._truths[scalar] = self._truth(scalar)
        return found

    def _truth(self, scalar: Scalar) -> Truth:
        e, name, args = self.e, scalar.op, scalar.args
        if scalar.dtype != "b1":
            return _UNKNOWN
        if self._is_of_one(scalar) and name not in ("and", "or", "not"):
            low, high = self._exact(scalar)
            return high, low
        if name in ("and", "or"):
            (a, all_a), (b, all_b) = map(self.truth, args)
            return _join(e, name, a, b), _join(e, name, all_a, all_b)
        if name == "not":
            may, must = self.truth(args[0])
            return _not(e, must), _not(e, may)
        if name in ("lt", "le", "gt", "ge", "eq", "ne"):
            left, right = map(self.bounds, args)
            return _UNKNOWN if left is None or right is None else self._compared(name, left, right)
        return _UNKNOWN

    def _compared(self, name: str, left: Bounds, right: Bounds) -> Truth:
        if name in ("gt", "ge"):
            return self._compared({"gt": "lt", "ge": "le"}[name], right, left)
        if name in ("lt", "le"):
            sign = f"icmp s{name} i64"
            return (
                self.e.let(f"{sign} {left[0]}, {right[1]}"),
                self.e.let(f"{sign} {left[1]}, {right[0]}"),
            )
        e = self.e
        meets = [e.let(f"icmp sle i64 {a[0]}, {b[1]}") for a, b in ((left, right), (right, left))]
        same = [
            e.let(f"icmp eq i64 {a}, {b}") for a, b in ((left[0], right[1]), (left[1], right[0]))
        ]
        may, must = (_join(e, "and", *pair) for pair in (meets, same))
        return (may, must) if name == "eq" else (_not(e, must), _not(e, may))

    # -- numbers -------------------------------------------------------------------------------

    def bounds(self, scalar: Scalar) -> Bounds | None:
        """As i64; None if they are not known."""
        if scalar not in self._bounds:
            self._bounds[scalar] = self._bounds_of(scalar)
        return self._bounds[scalar]

    def _bounds_of(self, scalar: Scalar) -> Bounds | None:
        e, name, args = self.e, scalar.op, scalar.args
        if scalar.dtype in FLOATS or scalar.dtype in FLOAT8:
            return None
        if name == "index" and self._magnitudes.of(scalar) < 1 << 63:
            found = self._linear(scalar.data)
            if found is not None:
                return found
        if self._is_of_one(scalar):
            low, high = self._exact(scalar)
            return self._extended(low, scalar), self._extended(high, scalar)
        if scalar.dtype == "b1":
            may, must = self.truth(scalar)
            return e.let(f"zext i1 {must} to i64"), e.let(f"zext i1 {may} to i64")
        largest = 1 << (register_bits(scalar.dtype) - 1)
        if scalar.dtype in UNSIGNED or self._magnitudes.of(scalar) >= largest:
            return None  # it may begin anew behind the largest number, or below zero
        if name == "cast":
            return self.bounds(args[0])
        inner = [self.bounds(arg) for arg in args] if name in _OPERATIONS else [None]
        known = [each for each in inner if each is not None]
        return _OPERATIONS[name](e, *known) if len(known) == len(inner) else None

    def _linear(self, size: Size) -> Bounds | None:
        """Of a size that grows or falls by fixed steps along both axes."""
        e = self.e
        by_query = coefficient(size, self.queries.symbol)
        by_key = None if by_query is None else coefficient(by_query[1], self.keys.symbol)
        if by_query is None or by_key is None:
            return None
        steps, rest = (by_query[0], by_key[0]), by_key[1]
        if not all(isinstance(step, int) for step in steps) or _has(rest, self.queries, self.keys):
            return None
        if not e.positions.keys().isdisjoint(getattr(rest, "symbols", ())):
            return None
        low = high = narrow_size(e, rest)
        for step, (least, most) in zip(steps, self.ends(), strict=True):
            if step == 0:
                continue
            assert isinstance(step, int)
            a, b = (least, most) if step > 0 else (most, least)
            low, high = (
                e.let(f"add i64 {bound}, {e.let(f'mul i64 {each}, {step}')}")
                for bound, each in ((low, a), (high, b))
            )
        return low, high

    def ends(self) -> tuple[Bounds, Bounds]:
        """The first and the last one of queries and of keys."""
        e = self.e
        start = e.symbol(self.queries.symbol)
        last = e.let(f"add i64 {start}, {e.let(f'add i64 {e.counts[0]}, -1')}")
        return (start, last), (self.first, e.let(f"add i64 {self.end}, -1"))

    def _magnitude(self, size: Size) -> float:
        """Of a size whose symbols are small, which is looked at."""
        symbols: frozenset[Symbol] = getattr(size, "symbols", frozenset())
        if not self.e.positions.keys().isdisjoint(symbols):
            return math.inf
        axes = {self.keys.symbol, *self.e.loops}
        self._given |= dict.fromkeys(each for each in sorted(symbols, key=str) if each not in axes)
        products = ((len(factors), abs(count)) for factors, count in terms_of(size))
        return sum(count * MOST_ELEMENTS**factors for factors, count in products)

    # -- what depends on one axis --------------------------------------------------------------

    def _is_of_one(self, scalar: Scalar) -> bool:
        return not {self.queries.symbol, self.keys.symbol} <= scalar.free

    def _exact(self, scalar: Scalar) -> Bounds:
        """The least and the largest, of the scalar's own dtype."""
        e = self.e
        if self.keys.symbol in scalar.free:
            return self.over_keys(scalar)
        if self.queries.symbol in scalar.free:
            return e.once(self.level, ("bounds", scalar), lambda: self.over_lanes(scalar))
        text = e.value(scalar).text
        return text, text

    def over_lanes(self, scalar: Scalar) -> Bounds:
        e = self.e
        value = e.value(scalar)
        if not value.wide:
            return value.text, value.text
        type_ = e.type_of(scalar.dtype, True)
        one = REGISTER[scalar.dtype]
        text = value.text
        if e.mask is not None:
            # The first lane exists.
            first = e.splat(one, e.let(f"extractelement {type_} {text}, i64 0"))
            text = e.let(f"select <{e.lanes} x i1> {e.mask}, {type_} {text}, {type_} {first}")
        suffix = f"v{e.lanes}{one}"
        low, high = (
            e.let(f"call {one} @llvm.vector.reduce.{name}.{suffix}({type_} {text})")
            for name in extremes(scalar)
        )
        return low, high

    def over_keys(self, scalar: Scalar) -> Bounds:
        e = self.e
        one = REGISTER[scalar.dtype]
        names = extremes(scalar)
        ends = [literal(neutral(fold, scalar.dtype), scalar.dtype) for fold in ("min", "max")]

        def body(variable: str, states: States) -> States:
            self.open_axis(self.keys, variable)
            text = e.value(scalar).text
            return [
                e.let(f"{name} i1 {own}, {text}")
                if one == "i1"
                else e.let(f"call {one} @llvm.{name}.{one}({one} {own}, {one} {text})")
                for name, own in zip(names, states, strict=True)
            ]

        low, high = e.loop((self.first, self.end, "1"), ends, [one] * 2, body)
        return low, high

    def _extended(self, text: str, scalar: Scalar) -> str:
        one = REGISTER[scalar.dtype]
        if one == "i64":
            return text
        return self.e.let(f"{'zext' if scalar.dtype in UNSIGNED else 'sext'} {one} {text} to i64")


def extremes(scalar: Scalar) -> tuple[str, str]:
    """What the least and the largest of two are called."""
    if scalar.dtype == "b1":
        return "and", "or"
    return ("umin", "umax") if scalar.dtype in UNSIGNED else ("smin", "smax")


def _has(size: Size, *axes: Axis) -> bool:
    symbols = getattr(size, "symbols", frozenset())
    return any(axis.symbol in symbols for axis in axes)


def _join(e: Emitter, name: str, a: str, b: str) -> str:
    constants = {"and": ("true", "false"), "or": ("false", "true")}
    neutral, strong = constants[name]
    if strong in (a, b):
        return strong
    if neutral in (a, b):
        return b if a == neutral else a
    return e.let(f"{name} i1 {a}, {b}")


def _not(e: Emitter, text: str) -> str:
    known = {"true": "false", "false": "true"}.get(text)
    return known or e.let(f"xor i1 {text}, true")


def _add(e: Emitter, a: Bounds, b: Bounds) -> Bounds:
    return e.let(f"add i64 {a[0]}, {b[0]}"), e.let(f"add i64 {a[1]}, {b[1]}")


def _sub(e: Emitter, a: Bounds, b: Bounds) -> Bounds:
    return e.let(f"sub i64 {a[0]}, {b[1]}"), e.let(f"sub i64 {a[1]}, {b[0]}")


def _negated(e: Emitter, a: Bounds) -> Bounds:
    return e.let(f"sub i64 0, {a[1]}"), e.let(f"sub i64 0, {a[0]}")


def _extreme(name: str) -> Callable[[Emitter, Bounds, Bounds], Bounds]:
    def row(e: Emitter, a: Bounds, b: Bounds) -> Bounds:
        low, high = (
            e.let(f"call i64 @llvm.{name}.i64(i64 {x}, i64 {y})") for x, y in zip(a, b, strict=True)
        )
        return low, high

    return row


def _absolute(e: Emitter, a: Bounds) -> Bounds:
    other = _negated(e, a)
    low = _extreme("smax")(e, a, (other[0], other[1]))
    zero = e.let(f"call i64 @llvm.smax.i64(i64 {low[0]}, i64 0)")
    return zero, low[1]


_OPERATIONS: Final[dict[str, Callable[..., Bounds]]] = {
    "add": _add,
    "sub": _sub,
    "neg": _negated,
    "abs": _absolute,
    "minimum": _extreme("smin"),
    "maximum": _extreme("smax"),
}
