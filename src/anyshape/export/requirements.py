"""What the inputs of a program must be, made of the guards and the facts of its capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, cast

import torch

from anyshape.capture.contract import HasSizes
from anyshape.capture.record.inputs import ExactLayout
from anyshape.errors import CannotExport
from anyshape.export.attempt import Attempt, Subject
from anyshape.export.conditions import Condition, ConditionPath, named, type_name
from anyshape.export.inputs import Inputs, SizeSource, starred_in, way_of
from anyshape.export.suggest import is_dynamic
from anyshape.guards.guard import Guard, Kind, SymbolSource, TensorSpec
from anyshape.guards.minimise import minimise
from anyshape.guards.path import Access, Path
from anyshape.shapes.bind_spec import Leaf
from anyshape.symbolic import (
    EVERYTHING,
    Expr,
    Fact,
    Facts,
    Range,
    Symbol,
    substitute_fact,
    symbol,
    to_text,
)
from anyshape.symbolic.expr import single_atom
from anyshape.symbolic.logic import Truth
from anyshape.symbolic.ranges import intersect


def inputs_of(subject: Subject, attempt: Attempt, by_layout: bool) -> Inputs:
    """What its inputs must be. `by_layout`: the graph is right for those that lie in memory as the
    example's do, and may not be for others."""

    def is_given(path: Path) -> bool:
        return path.root.access is Access.LOCAL and path.root.key != subject.self_name

    trace = attempt.trace
    names = symbol_names(attempt)
    sources = [
        SizeSource(name, way_of(each.path), each.dim)
        for each in trace.symbols
        if is_given(each.path) and isinstance(name := names[each.symbol], str)
    ]
    sizes = {
        (each.path, each.dim): names[each.symbol] for each in trace.symbols if each.dim is not None
    }
    made = FromGuards(
        subject.name,
        is_given,
        sizes,
        frozenset(map(way_of, attempt.changed)),
        not trace.asks_for_layout and not by_layout,
    )
    conditions = list(made.conditions(trace.guards))
    conditions += _unread(_spoken_of(subject, attempt), conditions, trace.symbols, names)
    conditions += _fixed_integers(trace.symbols, names, is_given)
    conditions.sort(key=lambda each: len(each.way))
    facts = list(_facts(attempt, names))
    ranges = _ranges(attempt, names, facts)
    left = [substitute_fact(fact, _narrowed(fact, ranges)) for fact in facts]
    texts = dict.fromkeys(to_text(fact) for fact in left if not isinstance(fact, Truth))
    return Inputs(conditions, sources, ranges, tuple(texts), starred_in(subject.signature))


def _facts(attempt: Attempt, names: Mapping[Symbol, str | int]) -> Iterator[Fact]:
    """What must hold of the sizes, in the names that people know."""
    put = {
        made: name if isinstance(name, int) else symbol(name, EVERYTHING)
        for made, name in names.items()
    }
    for guard in minimise(attempt.trace.guards, attempt.trace.symbols):
        if guard.kind is Kind.SIZES:
            yield substitute_fact(cast("Fact", guard.value), put)


def _ranges(
    attempt: Attempt, names: Mapping[Symbol, str | int], facts: Sequence[Fact]
) -> dict[str, Range]:
    """The range of each size: what was known of it, and what the facts say of it alone. A fact may
    be a bound only since another size in it has one value."""
    found: dict[str, Range] = {}
    for each in attempt.trace.symbols:
        name = names[each.symbol]
        if isinstance(name, str):
            known = attempt.trace.facts.range(attempt.symbol(each))
            found[name] = intersect(found.get(name, known), known)
    for fact in facts:
        if len(fact.symbols) == 1:
            (only,) = fact.symbols
            alone = symbol(only.name, found[only.name])
            put = {only: alone}
            found[only.name] = Facts().assume(substitute_fact(fact, put), "").range(alone)
    return found


def _narrowed(fact: Fact, ranges: Mapping[str, Range]) -> dict[Symbol, Expr]:
    """Its symbols with their ranges: what these imply, nobody has to check again."""
    return {each: symbol(each.name, ranges[each.name]) for each in fact.symbols}


def _spoken_of(subject: Subject, attempt: Attempt) -> Iterator[Leaf]:
    """What the spec names, and the other arguments: they are static."""
    named = {way_of(leaf.way): leaf for leaf in attempt.contract.call.leaves}
    yield from named.values()
    for leaf in subject.arguments.leaves():
        if leaf.way.parent is None and way_of(leaf.way) not in named:
            yield leaf


def _unread(
    leaves: Iterable[Leaf],
    conditions: Sequence[Condition],
    symbols: Sequence[SymbolSource],
    names: Mapping[Symbol, str | int],
) -> Iterator[Condition]:
    """Of tensors that the program does not look at."""
    read = {each.way for each in conditions if each.kind == "tensor"}
    named = {(way_of(each.path), each.dim): names[each.symbol] for each in symbols}
    for leaf in leaves:
        way = way_of(leaf.way)
        if leaf.is_tensor and way not in read:
            sizes = tuple(
                named.get((way, dim)) if is_dynamic(item) else size
                for dim, (item, size) in enumerate(zip(leaf.items, leaf.sizes, strict=True))
            )
            yield Condition(way, "tensor", {"sizes": sizes})


def _fixed_integers(
    symbols: Sequence[SymbolSource],
    names: Mapping[Symbol, str | int],
    is_given: Callable[[Path], bool],
) -> Iterator[Condition]:
    for each in symbols:
        value = names[each.symbol]
        if each.dim is None and isinstance(value, int) and is_given(each.path):
            yield Condition(way_of(each.path), "equals", value)


def symbol_names(attempt: Attempt) -> dict[Symbol, str | int]:
    """What each symbol is called: by the user's name for it, or for one that is always equal; by a
    name that no dim has; or by the only value that it has."""
    facts = attempt.trace.facts
    meant: dict[str, Expr] = {}
    for made, meaning in attempt.contract.meanings.items():
        dim = single_atom(meaning)
        if isinstance(dim, Symbol):
            meant.setdefault(dim.name, facts.symbols[made.name])
    names: dict[Symbol, str | int] = {}
    for source in attempt.trace.symbols:
        made = attempt.symbol(source)
        if source.symbol in names:
            continue
        value = facts.value(made)
        if value is not None:
            names[source.symbol] = value
            continue
        name = next((name for name, known in meant.items() if facts.equal(known, made)), None)
        if name is None:
            name = next(each for each in map("s{}".format, count()) if each not in meant)
            meant[name] = made
        names[source.symbol] = name
    return names


# -- from guards -----------------------------------------------------------------------------------


class FromGuards:
    """Makes conditions of guards. `sizes` says what each dynamic dimension is called.
    `any_layout`: the program does the same with tensors that lie otherwise, or raises itself."""

    def __init__(
        self,
        function: str,
        is_given: Callable[[Path], bool],
        sizes: Mapping[tuple[Path, int], str | int],
        changed: frozenset[ConditionPath],
        any_layout: bool,
    ) -> None:
        self._any_layout = any_layout
        self._function = function
        self._is_given = is_given
        self._sizes = sizes
        self._changed = changed

    def conditions(self, guards: Iterable[Guard]) -> Iterator[Condition]:
        for guard in guards:
            if guard.kind is Kind.DISTINCT:
                yield from self._distinct(guard)
            elif guard.path is not None and self._is_given(guard.path):
                made = self._condition(guard, guard.path)
                if made is not None:
                    yield made

    def _condition(self, guard: Guard, path: Path) -> Condition | None:
        value: Any = guard.value
        way = way_of(path)
        match guard.kind:
            case Kind.TENSOR:
                return Condition(way, "tensor", self._tensor(path, value))
            case Kind.TYPE:
                if issubclass(value, torch.Tensor) or value is int:
                    return None  # said by the condition of the tensor, or by the symbol
                return Condition(way, "type", type_name(value))
            case Kind.IDENTITY:
                return Condition(way, "identity", named(value))
            case Kind.SAME_OBJECT:
                if self._is_given(value):
                    return Condition(way, "same", way_of(value))
            case Kind.PREDICATE if isinstance(value, HasSizes):
                return None  # said of the leaf
            case Kind.PREDICATE if isinstance(value, ExactLayout):
                strides, *_ = value.layout
                return Condition(
                    way, "tensor", {"sizes": (None,) * len(strides), "strides": strides}
                )
            case kind if kind in _SIMPLE:
                if isinstance(value, frozenset):
                    value = tuple(sorted(value, key=repr))
                return Condition(way, _SIMPLE[kind], value)
            case _:
                pass
        raise CannotExport(
            function=self._function,
            reason=f"`{path.text}` has to be as it was in a way that no package can say"
            f" ({guard.kind.value})",
        )

    def _tensor(self, path: Path, spec: TensorSpec) -> dict[str, object]:
        made: dict[str, object] = {
            "dtype": spec.dtype,
            "device": spec.device,
            "sizes": tuple(
                self._sizes.get((path, dim)) if size is None else size
                for dim, size in enumerate(spec.sizes)
            ),
        }
        if spec.order is not None:
            made["order"] = spec.order
            made["any_order"] = self._any_layout
        if spec.strides is not None:
            made["strides"] = spec.strides
        if way_of(path) in self._changed:
            made["changed"] = True
        return made

    def _distinct(self, guard: Guard) -> Iterator[Condition]:
        paths: Any = guard.value
        given = [way_of(path) for path in paths if self._is_given(path)]
        if len(given) > 1:
            yield Condition(given[0], "distinct", tuple(given))


_SIMPLE: Final[dict[Kind, str]] = {
    Kind.EQUALS: "equals",
    Kind.LENGTH: "length",
    Kind.KEYS: "keys",
    Kind.MEMBERS: "members",
    Kind.CONTAINS: "contains",
    Kind.NO_INSTANCE_ATTRIBUTE: "without",
    Kind.NO_ATTRIBUTE: "without",
    Kind.TRUTH: "truth",
}
