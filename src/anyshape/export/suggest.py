"""A spec that the program honours, made of what it did when every size was free.

Sizes that the user named keep their names. What the program ties to them is named too: the same dim
where it is the same size, an expression where it follows, a relation where it is less than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, cast

from anyshape.errors import AnyshapeError, BadShapeSpec
from anyshape.export.attempt import Attempt
from anyshape.export.spec import Arguments, Spec
from anyshape.guards.path import Path
from anyshape.shapes import Dim, DimExpr, Marker, Shapes
from anyshape.shapes.bind_spec import Leaf
from anyshape.shapes.contract import homes_of
from anyshape.shapes.shape_string import Word
from anyshape.shapes.spec import Item
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import (
    Expr,
    Fact,
    Facts,
    Range,
    Size,
    Symbol,
    as_symbol,
    eq,
    holds,
    substitute,
    substitute_fact,
    to_text,
)
from anyshape.symbolic.expr import single_atom, symbols_of
from anyshape.symbolic.ranges import intersect


class Suggestion(Shapes):
    """A spec to give instead: an object, whose text is code to paste."""

    @property
    def code(self) -> str:
        """Python that makes the spec."""
        return "\n".join(_code(self))

    def __str__(self) -> str:
        return self.code

    def __reduce__(self) -> tuple[object, ...]:
        return Suggestion, (self.spec, *self.where)


def suggestion_of(spec: Spec, arguments: Arguments) -> Suggestion:
    return Suggestion(spec.nested(arguments), *spec.where)


class _At(NamedTuple):
    """A dimension of a leaf."""

    way: Path
    dim: int


class Free:
    """What the program did with every size free."""

    def __init__(self, attempt: Attempt, leaves: list[Leaf]) -> None:
        self.facts: Facts = attempt.trace.facts
        self.leaves = {leaf.way: leaf for leaf in leaves}
        self.symbols: dict[_At, Expr] = {}
        by_text = {leaf.way.text: leaf.way for leaf in leaves}
        for source in attempt.trace.symbols:
            way = by_text.get(source.path.text)
            if way is not None:
                self.symbols[_At(way, source.dim or 0)] = attempt.symbol(source)

    def tied_to(self, chosen: set[_At]) -> set[_At]:
        """Other sizes that a fact of the program ties to these, or to what is tied to them."""
        symbols = {as_symbol(self.symbols[at]) for at in chosen if at in self.symbols}
        facts = [each.fact.symbols for each in self.facts.assumptions]
        while True:
            more = {s for each in facts if each & symbols for s in each} - symbols
            # A size that has one value only ties nothing to anything.
            more = {s for s in more if self.facts.value(self.facts.symbols[s.name]) is None}
            if not more:
                break
            symbols |= more
        return {at for at, made in self.symbols.items() if as_symbol(made) in symbols} - chosen


def is_strict(item: Item) -> bool:
    return isinstance(item, DimExpr | Word) or item is Marker.DYNAMIC


def is_dynamic(item: Item) -> bool:
    return is_strict(item) or item is Marker.AUTO


def promoted(spec: Spec, free: Free) -> Spec:
    """The spec with AUTO for what is static by default and tied to something that is AUTO."""
    leaves = dict(spec.leaves)
    auto = {at for at in _places(spec) if spec.said(*at) is Marker.AUTO}
    for way, dim in free.tied_to(auto):
        leaf = leaves.get(way, free.leaves[way])
        if leaf.items[dim] is None:
            items = (*leaf.items[:dim], Marker.AUTO, *leaf.items[dim + 1 :])
            leaves[way] = replace(leaf, items=items)
    return Spec(leaves, spec.where)


def relaxed(spec: Spec) -> Spec:
    """The spec with AUTO for everything that is strict, or not so in the example: never an
    error."""
    return Spec({way: replace(leaf, items=_relaxed(leaf)) for way, leaf in spec.leaves.items()})


def _relaxed(leaf: Leaf) -> tuple[Item, ...]:
    return tuple(
        Marker.AUTO if is_strict(item) or (type(item) is int and item != size) else item
        for item, size in zip(leaf.items, leaf.sizes, strict=True)
    )


def narrowed(spec: Spec, arguments: Arguments) -> Iterator[Spec]:
    """The spec without the smallest sizes, where it has dims that no size is by itself (`8*n`):
    such a dim is no size of the program, so that nothing else is known of it."""
    shapes = spec.shapes(arguments)
    items = [spec.said(*at) for at in _places(spec)]
    sizes = [shapes.size(item) for item in items if isinstance(item, DimExpr | Word)]
    alone = {as_symbol(size).name for size in sizes if isinstance(single_atom(size), Symbol)}
    derived = [name for name in shapes.dims if name not in alone]
    if not derived:
        return
    where = tuple(str(each) for each in spec.where if not isinstance(each, Dim))
    for names in (derived, shapes.dims):
        for least in (1, 2):
            with suppress(BadShapeSpec):  # a range may end before
                bounds = [f"{name} >= {least}" for name in names]
                less = Shapes(spec.nested(arguments), *spec.where, *bounds)
                yield Spec(
                    {way: _in_dims_of(less, leaf) for way, leaf in spec.leaves.items()}, where
                )


def _in_dims_of(shapes: Shapes, leaf: Leaf) -> Leaf:
    """With its names as dims, which have ranges."""
    return replace(
        leaf,
        items=tuple(
            DimExpr(shapes.size(item)) if isinstance(item, DimExpr | Word) else item
            for item in leaf.items
        ),
    )


def corrected(spec: Spec, free: Free, arguments: Arguments) -> Spec:
    """The spec with what the program needs beyond it."""
    return _Correction(spec, free, arguments).spec()


def _places(spec: Spec) -> Iterator[_At]:
    for way, leaf in spec.leaves.items():
        for dim, item in enumerate(leaf.items):
            if item is not None:
                yield _At(way, dim)


class _Correction:
    def __init__(self, spec: Spec, free: Free, arguments: Arguments) -> None:
        self._spec = spec
        self._free = free
        self._shapes = spec.shapes(arguments)
        #: what holds: of the program, and by the user's own names
        self._facts = free.facts
        #: the user's dims as symbols of the program
        self._dims: dict[Symbol, Size] = {}
        #: a name for each symbol of the program that has one
        self._names: dict[Symbol, str] = {}
        self._read_spec()

    def _read_spec(self) -> None:
        places = [at for at in _places(self._spec) if at in self._free.symbols]
        sizes = [self._size(self._spec.said(*at)) for at in places]
        named = [(at, size) for at, size in zip(places, sizes, strict=True) if size is not None]
        homes, _ = homes_of([size for _, size in named])
        for home in homes:
            if home.is_itself:
                made = self._free.symbols[named[home.place][0]]
                self._dims[home.dim] = made
                self._names.setdefault(as_symbol(made), home.dim.name)
        for at, size in named:
            if symbols_of(size) <= self._dims.keys():
                self._try(eq(self._free.symbols[at], substitute(size, self._dims)))
        for relation in self._shapes.relations:
            if relation.fact.symbols <= self._dims.keys():
                self._try(substitute_fact(relation.fact, self._dims))
        taken = set(self._names.values()) | set(self._shapes.dims)
        for at in places:
            made = as_symbol(self._free.symbols[at])
            if self._spec.said(*at) is Marker.DYNAMIC and made not in self._names:
                self._names[made] = _unused(f"{at.way.root.key}_{at.dim}", taken)

    def _size(self, item: Item) -> Size | None:
        return self._shapes.size(item) if isinstance(item, DimExpr | Word) else None

    def _try(self, fact: Fact) -> None:
        """Assume what the user says, unless the program, or the example, does not allow it."""
        with suppress(AnyshapeError):
            if holds(fact, self._facts.hints):
                self._facts = self._facts.assume(fact, "the spec says so")

    def spec(self) -> Spec:
        strict = {at for at in _places(self._spec) if is_strict(self._spec.said(*at))}
        strict &= self._free.symbols.keys()
        chosen = strict | {at for at in self._free.tied_to(strict) if not self._is_said(at)}
        dims: dict[Symbol, Dim] = {}
        items: dict[_At, Item] = {}
        for at in sorted(chosen, key=self._order):
            items[at] = self._item(at, dims)
        leaves = {way: _as_in_the_example(leaf) for way, leaf in self._spec.leaves.items()}
        for (way, dim), item in items.items():
            leaf = leaves.get(way, self._free.leaves[way])
            leaves[way] = replace(leaf, items=(*leaf.items[:dim], item, *leaf.items[dim + 1 :]))
        return Spec(leaves, tuple(self._relations(dims)))

    def _is_said(self, at: _At) -> bool:
        return self._spec.said(*at) is not None

    def _order(self, at: _At) -> tuple[bool, int]:
        """Those that are named, first: they name what is equal to them."""
        places = list(self._free.symbols)
        return as_symbol(self._free.symbols[at]) not in self._names, places.index(at)

    def _item(self, at: _At, dims: dict[Symbol, Dim]) -> Item:
        made = self._free.symbols[at]
        value = self._facts.value(made)
        if value is not None:
            return value
        for other, dim in dims.items():
            if self._facts.equal(made, self._facts.symbols[other.name]):
                return dim
        simple = self._facts.simplify(made)
        if isinstance(simple, Expr) and simple.symbols <= dims.keys():
            return DimExpr(substitute(simple, {each: dims[each].size for each in simple.symbols}))
        itself = as_symbol(made)
        taken = {dim.name for dim in dims.values()} | set(self._names.values())
        name = self._names.get(itself) or _unused(f"{at.way.root.key}_{at.dim}", taken)
        low, high = self._range(made)
        dims[itself] = Dim(name, low, high)
        return dims[itself]

    def _range(self, made: Expr) -> Range:
        """What the program leaves, within what the user declared for this size; the example is
        always inside."""
        found = self._facts.range(made)
        example = self._facts.hint(made)
        assert example is not None, "sizes of arguments have values"
        for dim, size in self._dims.items():
            if isinstance(size, Expr) and self._facts.equal(size, made):
                found = intersect(found, _widened(dim.declared, example))
        return found

    def _relations(self, dims: Mapping[Symbol, Dim]) -> Iterator[str]:
        """What the program needs of the dims that their ranges do not say. As texts: the object and
        the code to paste are read alike, so that what is tried is what is shown."""
        known = Facts()
        for made, dim in dims.items():
            known = known.declare(_expr(dim), self._free.facts.hints[made])
        put = {made: dim.size for made, dim in dims.items()}
        for assumption in self._facts.assumptions:
            fact = self._in_dims(assumption.fact, put)
            if fact is None or known.holds(fact):
                continue
            try:
                known = known.assume(fact, assumption.reason)
            except AnyshapeError:
                continue
            yield to_text(fact)

    def _in_dims(self, fact: Fact, put: Mapping[Symbol, Size]) -> Fact | None:
        found = {each: self._in_dim(each, put) for each in fact.symbols}
        if None in found.values():
            return None
        return substitute_fact(fact, cast("dict[Symbol, Size]", found))

    def _in_dim(self, each: Symbol, put: Mapping[Symbol, Size]) -> Size | None:
        """A size of the program in terms of the dims, if they say what it is."""
        facts = self._facts
        made = facts.symbols[each.name]
        value = facts.value(made)
        if value is not None:
            return value
        for other, dim in put.items():
            if other is each or facts.equal(made, facts.symbols[other.name]):
                return dim
        simple = facts.simplify(made)
        if isinstance(simple, Expr) and simple.symbols <= put.keys():
            return substitute(simple, put)
        return None


def _as_in_the_example(leaf: Leaf) -> Leaf:
    """With the sizes that it has, where a number is said."""
    pairs = zip(leaf.items, leaf.sizes, strict=True)
    return replace(leaf, items=tuple(size if type(item) is int else item for item, size in pairs))


def _widened(declared: Range, value: int) -> Range:
    low, high = declared
    return Range(
        None if low is None else min(low, value), None if high is None else max(high, value)
    )


def _expr(dim: Dim) -> Expr:
    assert isinstance(dim.size, Expr), "a dim is a symbol"
    return dim.size


def _unused(name: str, taken: set[str]) -> str:
    found, count = name, 0
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    taken.add(found)
    return found


# -- code ------------------------------------------------------------------------------------------


def _code(shapes: Shapes) -> Iterator[str]:
    ranges = {name: _declared(size) for name, size in shapes.dims.items()}
    for name, declared in ranges.items():
        low, high = declared
        bounds = [repr(name)]
        bounds += [f"min={low}"] if low else []
        bounds += [f"max={high}"] if high is not None else []
        yield f"{name} = Dim({', '.join(bounds)})"
    spec = _spec_text(shapes.spec)
    relations = [repr(str(each)) for each in shapes.where if not isinstance(each, Dim)]
    if relations:
        spec = f"Shapes({', '.join([spec, *relations])})"
    yield f"dynamic_shapes = {spec}"


def _declared(size: Size) -> Range:
    assert isinstance(size, Expr), "a dim is a symbol"
    return as_symbol(size).declared


def _spec_text(spec: object) -> str:
    if isinstance(spec, dict):
        return f"{{{', '.join(f'{key!r}: {_spec_text(item)}' for key, item in spec.items())}}}"
    if isinstance(spec, tuple | list):
        inner = ", ".join(map(_spec_text, spec))
        return f"({inner},)" if len(spec) == 1 else f"({inner})"
    return str(spec) if isinstance(spec, DimExpr) else repr(spec)
