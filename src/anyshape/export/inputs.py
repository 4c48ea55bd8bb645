"""What the inputs of an exported program must be: one condition a line, and the facts of its sizes.

Made of the guards of the trace, as far as they look at what the caller gives. All of it is data, so
that a package has it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Final, NamedTuple

from anyshape.errors import AnyshapeError, ExportInputError
from anyshape.export.conditions import CHECKS, Condition, ConditionPath, called, find, text_of
from anyshape.guards.path import Access, Path
from anyshape.support.lazy_dataclass import dataclass, field, replace
from anyshape.symbolic import (
    Expr,
    Fact,
    Facts,
    Range,
    Symbol,
    as_symbol,
    evaluate,
    parse_fact,
    symbol,
    to_text,
)
from anyshape.symbolic.evaluate import surely_holds
from anyshape.symbolic.expr import of_atom, symbols_of
from anyshape.symbolic.logic import Zero
from anyshape.symbolic.ranges import intersect


@dataclass(frozen=True, slots=True)
class SizeSource:
    """Where the value of a symbol is found: a dimension, or (None) an integer."""

    symbol: str
    way: ConditionPath
    dim: int | None
    #: what the caller calls what it is read of, if that is not the way to it
    called: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        whole = self.called or text_of(self.way)
        return whole if self.dim is None else f"{whole}.shape[{self.dim}]"


def starred_in(signature: Signature) -> list[str]:
    """The parameters that take any named argument."""
    every = signature.parameters.values()
    return [each.name for each in every if each.kind is Parameter.VAR_KEYWORD]


def way_of(path: Path) -> ConditionPath:
    """The path as packages have it."""
    first, *steps = path.line
    return (
        first.key,
        *(("item" if each.access is Access.ITEM else "attribute", each.key) for each in steps),
    )


class Inputs:
    """The conditions of a program."""

    def __init__(
        self,
        conditions: Sequence[Condition],
        sources: Sequence[SizeSource],
        ranges: Mapping[str, Range],
        facts: Sequence[str],
        starred: Iterable[str] = (),
    ) -> None:
        #: the parameters that take any named argument
        self.starred: Final = frozenset(starred)
        self.conditions: Final = tuple(
            replace(each, called=called(each.way, self.starred)) for each in conditions
        )
        self.sources: Final = tuple(
            replace(each, called=called(each.way, self.starred)) for each in sources
        )
        self.ranges: Final = dict(ranges)
        #: what holds of the symbols, as text
        self.facts: Final = tuple(facts)
        symbols = {name: symbol(name, range_) for name, range_ in ranges.items()}
        self._symbols = {name: as_symbol(made) for name, made in symbols.items()}
        self._facts = [(text, parse_fact(text, symbols)) for text in facts]
        #: the sizes that are said by others
        self.derived: Final = derived_sizes([fact for _, fact in self._facts], ranges)
        self._homes: dict[str, SizeSource] = {}
        for source in self.sources:
            self._homes.setdefault(source.symbol, source)

    @property
    def homes(self) -> Mapping[str, SizeSource]:
        """The first source of each symbol."""
        return self._homes

    def check(self, function: str, bound: dict[str, object]) -> None:
        """An error that lists everything wrong with a call. A tensor that lies in memory in another
        order than the program was captured with is replaced by a copy that does not."""
        problems = self.problems(bound)
        if problems:
            raise ExportInputError(function=function, problems=problems)

    def problems(self, bound: dict[str, object]) -> tuple[str, ...]:
        """Everything wrong with a call, one sentence each."""
        return tuple(dict.fromkeys(self._problems(bound)))

    def _problems(self, bound: dict[str, object]) -> Iterator[str]:
        broken: set[ConditionPath] = set()
        for condition in self.conditions:
            if any(condition.way[: len(way)] == way for way in broken):
                continue  # what lies inside of something wrong
            value, missing = find(bound, condition.way)
            problem = missing or CHECKS[condition.kind](self, condition, value, bound)
            if problem:
                broken.add(condition.way)
                yield problem
        if not broken:
            yield from self._sizes(bound)

    def _sizes(self, bound: Mapping[str, object]) -> Iterator[str]:
        values: dict[Symbol, int] = {}
        for source in self.sources:
            found, missing = find(bound, source.way)
            if missing or (source.dim is None and type(found) is not int):
                yield missing or f"{source.name} is {found!r}, where an integer is expected"
                return
            value: int = found if source.dim is None else found.shape[source.dim]  # pyright: ignore[reportAttributeAccessIssue] a tensor
            known = values.setdefault(self._symbols[source.symbol], int(value))
            home = self._homes[source.symbol]
            if known != value:
                meant = self.size_text(source.symbol)
                yield f"{source.name} is {value}, where {meant} is {known} ({home.name})"
        for name, allowed in self.ranges.items():
            made = self._symbols[name]
            if made in values and name not in self.derived and not allowed.contains(values[made]):
                where, value = self._homes[name].name, values[made]
                yield f"{where} is {value}, where {allowed.said_of(name, value)} is expected"
        said = {each.fact: name for name, each in self.derived.items()}
        for text, fact in self._facts:
            if surely_holds(fact, values):
                continue
            if fact in said:
                yield self._underived(said[fact], values)
            else:
                yield f"`{text}` does not hold, with {self._values(fact.symbols, values)}"

    def _underived(self, name: str, values: Mapping[Symbol, int]) -> str:
        size, source = self.derived[name].size, self._homes[name]
        try:
            expected = f"is {evaluate(size, values)}"
        except AnyshapeError:
            expected = "has no value"
        found = values[self._symbols[name]]
        told = self._values(size.symbols, values)
        return f"{source.name} is {found}, where {to_text(size)} {expected}, with {told}"

    def _values(self, symbols: Iterable[Symbol], values: Mapping[Symbol, int]) -> str:
        return ", ".join(
            f"{each.name}={values[each]} ({self._homes[each.name].name})"
            for each in sorted(symbols, key=lambda each: each.name)
        )

    def size_text(self, size: str | int | None) -> str:
        """A size of a tensor, as people would say it."""
        if size is None:
            return "?"
        found = self.derived.get(size) if isinstance(size, str) else None
        return str(size) if found is None else to_text(found.size)

    def constraints(self) -> Iterator[str]:
        """What must hold of the sizes, one sentence each."""
        for name, home in self._homes.items():
            places = [each.name for each in self.sources if each.symbol == name]
            if name in self.derived:
                yield f"{' = '.join(places)} = {self.size_text(name)}"
            else:
                yield f"{' = '.join([name, *places])}, {range_text(self.ranges[name], home.dim)}"
        said = {each.fact for each in self.derived.values()}
        yield from (text for text, fact in self._facts if fact not in said)


def range_text(allowed: Range, dim: int | None) -> str:
    low, high = allowed
    if low is not None and low == high:
        return f"always {low}"
    least = low if low is not None and (low > 0 or dim is None) else None
    match least, high:
        case None, None:
            return "any"
        case _, None:
            return f"at least {least}"
        case None, _:
            return f"at most {high}"
        case _:
            return f"from {least} to {high}"


# -- sizes that follow from others -----------------------------------------------------------------


#: Names that are ours: a size that the user named is shown by that name.
_OURS: Final = re.compile(r"s\d+")


class Derived(NamedTuple):
    """What a size is, and the fact that says so."""

    size: Expr
    fact: Fact


def derived_sizes(facts: Sequence[Fact], ranges: Mapping[str, Range]) -> dict[str, Derived]:
    """By the names of the sizes that need not be named: `s0`, if `2*dx + 1 == s0`."""
    found: dict[str, Derived] = {}
    used: set[str] = set()
    for fact in facts:
        if not isinstance(fact, Zero) or any(each.name in found for each in fact.symbols):
            continue
        for each in sorted(fact.symbols, key=lambda each: each.name):
            size = None if each.name in used else _solved(fact, each, ranges)
            if size is not None:
                found[each.name] = Derived(size, fact)
                used |= {other.name for other in size.symbols}
                break
    return found


def _solved(fact: Zero, each: Symbol, ranges: Mapping[str, Range]) -> Expr | None:
    factor = dict(fact.size.terms).get((each.index,), 0)
    if not _OURS.fullmatch(each.name) or factor not in (1, -1):
        return None
    size = (fact.size - factor * of_atom(each)) * -factor
    if not isinstance(size, Expr) or each in symbols_of(size):
        return None
    # What is shown has to say it all: the range of the size follows from those of the others.
    allowed = ranges[each.name]
    return size if intersect(Facts().range(size), allowed) == Facts().range(size) else None
