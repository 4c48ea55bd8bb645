"""Guards without those that others imply.

    TENSOR at a path                implies TYPE there
    EQUALS, KEYS, MEMBERS           imply LENGTH and TRUTH, KEYS also CONTAINS
    s0 < 5                          implies s0 < 10
    L['n'] == 3, s0 is L['n']       implies every fact about s0 alone

Thousands of guards on paths cost a look-up each; the facts about sizes, of which there are few,
are asked of `Facts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from anyshape.errors import AnyshapeError
from anyshape.guards.guard import Guard, Kind, SymbolSource
from anyshape.guards.kinds import KINDS, with_text, writer
from anyshape.guards.path import Path
from anyshape.guards.text import names_of
from anyshape.symbolic import Fact, Facts, Symbol, eq
from anyshape.symbolic.expr import of_atom
from anyshape.symbolic.logic import Zero

_Key = tuple[object, ...]


def minimise(guards: Sequence[Guard], symbols: Sequence[SymbolSource] = ()) -> tuple[Guard, ...]:
    """The guards that are needed, in their order, with their texts. They imply the others, given
    that the values of symbols are read where `symbols` says and lie in their declared ranges."""
    distinct: dict[_Key, Guard] = {}
    for guard in guards:
        distinct.setdefault(_key(guard), guard)
    implied = {key for guard in distinct.values() for key in _implied(guard)}
    # What implies is of another kind than what is implied, so no two guards drop each other.
    left = [guard for key, guard in distinct.items() if key not in implied]
    facts = needed_facts(
        [guard.value for guard in left if guard.kind is Kind.SIZES],
        fixed_symbols(left, symbols),
    )
    write = writer(names_of(symbols))
    return tuple(
        with_text(guard, write)
        for guard in left
        if guard.kind is not Kind.SIZES or guard.value in facts
    )


def _key(guard: Guard) -> _Key:
    """Equal exactly for guards that say the same."""
    return guard.kind, guard.path, KINDS[guard.kind].key(guard.value)


def _implied(guard: Guard) -> Iterator[_Key]:
    implies = KINDS[guard.kind].implies
    for kind, value in () if implies is None else implies(guard.value):
        yield kind, guard.path, KINDS[kind].key(value)


def fixed_symbols(guards: Iterable[Guard], symbols: Sequence[SymbolSource]) -> list[Fact]:
    """What guards on paths say of symbols: an integer that is compared, a size that is static."""
    sources: dict[Path, list[SymbolSource]] = {}
    for source in symbols:
        sources.setdefault(source.path, []).append(source)
    facts: list[Fact] = []
    for guard in guards:
        for source in sources.get(guard.path, ()) if guard.path is not None else ():
            value = _value_at(guard, source.dim)
            if value is not None:
                facts.append(eq(of_atom(source.symbol), value))
    return facts


def _value_at(guard: Guard, dim: int | None) -> int | None:
    if guard.kind is Kind.EQUALS and dim is None and type(guard.value) is int:
        return guard.value
    if guard.kind is Kind.TENSOR and dim is not None:
        sizes = guard.value.sizes
        return sizes[dim] if dim < len(sizes) else None
    return None


def needed_facts(facts: Sequence[Fact], given: Sequence[Fact] = ()) -> set[Fact]:
    """A part of the facts that implies all of them, where `given` holds."""
    return {fact for own, about in _related(facts, given) for fact in _needed_together(own, about)}


def _related(
    facts: Sequence[Fact], given: Sequence[Fact]
) -> Iterator[tuple[Sequence[Fact], Sequence[Fact]]]:
    """Facts that have to do with each other, and what is given of their symbols. Of hundreds of
    tensors, most have to do with few others, and to know little is to learn fast."""
    group: dict[Symbol, list[Symbol]] = {}
    for fact in (*facts, *given):
        groups = {id(found): found for s in fact.symbols if (found := group.get(s)) is not None}
        joined = max(groups.values(), key=len, default=list[Symbol]())
        for other in groups.values():
            if other is not joined:
                joined += other
                group.update(dict.fromkeys(other, joined))
        for symbol in sorted(fact.symbols - group.keys(), key=lambda each: each.name):
            group[symbol] = joined
            joined.append(symbol)
    sorted_out: dict[int, tuple[list[Fact], list[Fact]]] = {}
    for place, several in enumerate((facts, given)):
        for fact in several:
            key = next((id(group[symbol]) for symbol in fact.symbols), 0)
            sorted_out.setdefault(key, ([], []))[place].append(fact)
    yield from sorted_out.values()


def _needed_together(facts: Sequence[Fact], given: Sequence[Fact]) -> set[Fact]:
    """Two passes: what earlier facts imply goes, then what later ones imply. Equalities come first
    in both, since they say most."""
    known = Facts()
    for fact in given:
        known = _with(known, fact)
    forwards = _not_implied(known, _equalities_first(facts))
    return set(_not_implied(known, _equalities_first(forwards[::-1])))


def _equalities_first(facts: Sequence[Fact]) -> list[Fact]:
    return sorted(facts, key=lambda fact: not isinstance(fact, Zero))


def _not_implied(known: Facts, facts: Iterable[Fact]) -> list[Fact]:
    """The facts that do not follow from what is known and the facts before them."""
    kept: list[Fact] = []
    for fact in facts:
        if not known.holds(fact):
            kept.append(fact)
            known = _with(known, fact)
    return kept


def _with(known: Facts, fact: Fact) -> Facts:
    """The facts and one more; without it where they contradict each other, or it is too large to
    use. Knowing less keeps more guards."""
    try:
        return known.assume(fact, "a guard of the same entry")
    except AnyshapeError:
        return known
