"""Guards without those that others imply.

    TENSOR at a path                implies TYPE there
    EQUALS, KEYS, MEMBERS           imply LENGTH and TRUTH, KEYS also CONTAINS
    s0 < 5                          implies s0 < 10
    L['n'] == 3, s0 is L['n']       implies every fact about s0 alone

Thousands of guards on paths cost a look-up each; the facts about sizes, of which there are few,
are asked of `Facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Final, cast

from anyshape.errors import AnyshapeError
from anyshape.guards.guard import Guard, Kind, SymbolSource, TensorSpec
from anyshape.guards.path import Path
from anyshape.guards.text import names_of, with_text, writer
from anyshape.guards.values import strict_key
from anyshape.symbolic import Fact, Facts, eq
from anyshape.symbolic.expr import of_atom
from anyshape.symbolic.logic import Zero

_Key = tuple[object, ...]


def minimise(guards: Sequence[Guard], symbols: Sequence[SymbolSource] = ()) -> tuple[Guard, ...]:
    """The guards that are needed, in their order, with their texts. They imply the others, given
    that the values of symbols are read where `symbols` says and lie in their declared ranges."""
    distinct: dict[_Key, Guard] = {}
    for guard in guards:
        distinct.setdefault(_key(guard), guard)
    implied = {
        _path_key(kind, guard.path, value)
        for guard in distinct.values()
        for kind, value in _IMPLIES.get(guard.kind, _nothing)(guard.value)
    }
    # What implies is of another kind than what is implied, so no two guards drop each other.
    left = [guard for key, guard in distinct.items() if key not in implied]
    facts = needed_facts(
        [cast("Fact", guard.value) for guard in left if guard.kind is Kind.SIZES],
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
    if guard.kind in _BY_VALUE:
        return _path_key(guard.kind, guard.path, guard.value)
    if guard.kind is Kind.TENSOR or guard.kind is Kind.DISTINCT:
        return guard.kind, guard.path, guard.value
    return guard.kind, guard.path, object, id(guard.value)


_BY_VALUE: Final = frozenset(
    (
        *(Kind.EQUALS, Kind.LENGTH, Kind.KEYS, Kind.MEMBERS, Kind.CONTAINS, Kind.TRUTH),
        *(Kind.NO_INSTANCE_ATTRIBUTE, Kind.NO_ATTRIBUTE, Kind.STATE, Kind.TYPE),
    )
)


def _path_key(kind: Kind, path: Path | None, value: object) -> _Key:
    return kind, path, strict_key(value)


_Implied = Iterable[tuple[Kind, object]]


def _nothing(value: object) -> _Implied:
    return ()


def _by_tensor(value: object) -> _Implied:
    return ((Kind.TYPE, cast("TensorSpec", value).type),)


def _by_equals(value: object) -> _Implied:
    yield Kind.TYPE, type(value)
    if type(value) in (tuple, str, bytes, frozenset):
        yield from _by_length(len(cast("tuple[object, ...]", value)))
        yield Kind.LENGTH, len(cast("tuple[object, ...]", value))


def _by_length(value: object) -> _Implied:
    return ((Kind.TRUTH, value != 0),)


def _by_keys(value: object) -> _Implied:
    keys = cast("tuple[object, ...]", value)
    yield from _by_members(keys)
    for key in keys:
        yield Kind.CONTAINS, (key, True)


def _by_members(value: object) -> _Implied:
    length = len(cast("tuple[object, ...]", value))
    yield Kind.LENGTH, length
    yield Kind.TRUTH, length != 0


#: Classes of objects whose type never changes: `is` one of these tells the type.
_FIXED_TYPES: Final = frozenset((type, FunctionType, BuiltinFunctionType, type(None), bool))


def _by_identity(value: object) -> _Implied:
    return ((Kind.TYPE, type(value)),) if type(value) in _FIXED_TYPES else ()


_IMPLIES: Final[dict[Kind, Callable[[object], _Implied]]] = {
    Kind.TENSOR: _by_tensor,
    Kind.EQUALS: _by_equals,
    Kind.LENGTH: _by_length,
    Kind.KEYS: _by_keys,
    Kind.MEMBERS: _by_members,
    Kind.IDENTITY: _by_identity,
}


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
        sizes = cast("TensorSpec", guard.value).sizes
        return sizes[dim] if dim < len(sizes) else None
    return None


def needed_facts(facts: Sequence[Fact], given: Sequence[Fact] = ()) -> set[Fact]:
    """A part of the facts that implies all of them, where `given` holds.

    Two passes: what earlier facts imply goes, then what later ones imply. Equalities come first in
    both, since they say most.
    """
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
