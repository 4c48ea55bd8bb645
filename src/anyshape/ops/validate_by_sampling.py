"""Is a result in symbols what torch does at other sizes? A guard where it is not.

Torch's shape functions take sizes to be neither 0 nor 1 where they cannot know (`symint.py`), leave
out some of what the operator checks, and now and then state another layout than the operator's. So
what they said in symbols is compared with what they say in numbers: at the sizes of this run, with
each symbol 0 and 1, with all of them 1, and at other sizes. A size of 0 or 1 that disagrees is
excluded by a guard; if another does, the result is not to be trusted.

What the operator did in this run counts too, if the caller has seen it. Kernels are never run for
this: some do not check what they are given, and end the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from anyshape.ops.actual_strides import layout_of
from anyshape.ops.concrete import ConcreteCall, at_numbers, first_sentence
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.meta_tensors import leaves, rebuilt
from anyshape.ops.shape_query import ShapeQuery
from anyshape.support.lazy_dataclass import dataclass, field, replace
from anyshape.symbolic import Expr, Size, Symbol, eq, evaluate, holds, not_, or_
from anyshape.symbolic.expr import of_atom

Values = Mapping[Symbol, int]


class Untrue(Exception):
    """The result in symbols differs from torch's in a way that no guard mends."""


def probed(q: ShapeQuery, call: ConcreteCall, value: Any) -> Any:
    """The value with the operator's own layouts; a guard against each size at which it is wrong."""
    return _Probe(q, call, value).run()


@dataclass
class _Probe:
    q: ShapeQuery
    call: ConcreteCall
    value: Any
    #: whether the operator has another layout than its shape function states
    misstated: bool = field(default=False, init=False)

    def run(self) -> Any:
        symbols = sorted(_symbols((self.call.args, self.call.kwargs)), key=lambda s: s.index)
        hints = self.q.facts.hints
        # A size that depends on data has no value. Any will do that is like no other.
        now = {symbol: hints.get(symbol, 23 + 6 * at) for at, symbol in enumerate(symbols)}
        if self.call.seen is not None and all(symbol.backed for symbol in symbols):
            self._believe(self.call.seen, {**hints, **now})
        for change in self._changes(now):
            values = {**hints, **now, **change}
            if not self._possible(values):
                continue
            problem = self._problem(values)
            if problem is not None:
                self._exclude(now, change, problem)
        return self.value

    def _changes(self, now: Values) -> Iterator[dict[Symbol, int]]:
        yield {}
        yield {symbol: size + 2 + at for at, (symbol, size) in enumerate(now.items())}
        yield {symbol: size * 2 for symbol, size in now.items()}
        for small in (1, 0):
            for alike in self._alike(now):
                if now[alike[0]] != small:
                    yield dict.fromkeys(alike, small)
        if any(size != 1 for size in now.values()):
            yield {symbol: 1 for symbol, size in now.items() if size != 1}

    def _alike(self, symbols: Iterable[Symbol]) -> list[list[Symbol]]:
        """The symbols, those that are known to be equal together."""
        groups: list[list[Symbol]] = []
        for symbol in symbols:
            same = (g for g in groups if self.q.same(of_atom(g[0]), of_atom(symbol)))
            group = next(same, None)
            if group is None:
                groups.append([symbol])
            else:
                group.append(symbol)
        return groups

    def _possible(self, values: Values) -> bool:
        """Whether what is known, and what the result needs, leaves room for these sizes."""
        if any(not symbol.declared.contains(value) for symbol, value in values.items()):
            return False
        facts = [assumption.fact for assumption in self.q.facts.assumptions]
        return all(holds(fact, values) for fact in facts if fact.symbols <= values.keys())

    def _exclude(self, now: Values, change: Values, problem: str) -> None:
        apart = [symbol for symbol, size in change.items() if size < 2]
        if not apart or len(apart) < len(change) or not all(symbol.backed for symbol in apart):
            told = ", ".join(f"{symbol} = {size}" for symbol, size in {**now, **change}.items())
            raise Untrue(f"at {told}: {problem}")
        other = or_(*(not_(eq(of_atom(symbol), change[symbol])) for symbol in apart))
        self.q.decide(other, f"torch's shape function is right for other sizes only: {problem}")

    def _problem(self, values: Values) -> str | None:
        """What is not as said where the symbols have these values; None if all is."""

        def number(size: Size) -> int:
            return evaluate(size, values)

        try:
            found = at_numbers(self.call, number)
        except Exception as error:
            return first_sentence(error)
        return _difference(self.value, found, values, strides=not self.misstated)

    def _believe(self, actual: Any, values: Values) -> None:
        """Compare with what the operator did in this run, and believe its layouts."""
        if _difference(self.value, actual, values, strides=False) is None:
            self._take_layouts(actual, values)
        problem = _difference(self.value, actual, values)
        if problem is not None:
            raise Untrue(f"the operator itself disagrees: {problem}")
        self.misstated = self._problem(values) is not None

    def _take_layouts(self, actual: Any, values: Values) -> None:
        """Believe the operator, not its shape function, in what is innermost in memory."""
        found = iter([leaf for leaf in leaves(actual) if isinstance(leaf, Meta)])
        mended = True

        def take(item: Any) -> Any:
            nonlocal mended
            if not isinstance(item, Meta):
                return rebuilt(item, take)
            real = next(found)
            if _same_strides(item, real, values):
                return item
            layout = layout_of(real.shape, real.strides)
            # A size that happens to be 1 here does not show its place.
            shown = all(
                said == 1 or size > 1
                for said, size in zip(item.shape, _shape(real, values), strict=True)
            )
            mended = mended and isinstance(layout, Dense) and shown
            return replace(item, layout=layout)

        value = take(self.value)
        if mended:
            self.value = value


def _difference(said: Any, found: Any, values: Values, *, strides: bool = True) -> str | None:
    symbolic, concrete = list(leaves(said)), list(leaves(found))
    if len(symbolic) != len(concrete):
        return f"{len(concrete)} results, not {len(symbolic)}"
    for meta, actual in zip(symbolic, concrete, strict=True):
        if not _agrees(meta, actual, values, strides):
            return f"the result is {actual}, not {meta}"
    return None


def _agrees(said: Any, actual: Any, values: Values, strides: bool) -> bool:
    if not isinstance(said, Meta) or not isinstance(actual, Meta):
        return (evaluate(said, values) if isinstance(said, Expr) else said) == actual
    try:
        shape = _shape(actual, values)
        if _shape(said, values) != shape or said.dtype != actual.dtype:
            return False
        if 0 not in shape and evaluate(said.offset, values) != evaluate(actual.offset, values):
            return False  # a view in one of the two, a copy in the other
        return not strides or _same_strides(said, actual, values)
    except ArithmeticError:
        return False


def _same_strides(said: Meta, actual: Meta, values: Values) -> bool:
    shape = _shape(actual, values)
    pairs = zip(shape, said.strides, actual.strides, strict=True)
    return 0 in shape or all(
        size == 1 or evaluate(a, values) == evaluate(b, values) for size, a, b in pairs
    )


def _shape(meta: Meta, values: Values) -> tuple[int, ...]:
    # In numbers too an argument that is returned is itself, in symbols.
    return tuple(evaluate(size, values) for size in meta.shape)


def _symbols(value: Any) -> set[Symbol]:
    found: set[Symbol] = set()
    for leaf in leaves(value):
        sizes: Sequence[Any] = (*leaf.shape, *leaf.strides) if isinstance(leaf, Meta) else (leaf,)
        for size in sizes:
            if isinstance(size, Expr):
                found |= size.symbols
    return found
