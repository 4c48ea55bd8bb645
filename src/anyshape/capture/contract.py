"""A shape contract at the start of a capture: its dims are symbols, its relations are facts.

Every place that the contract speaks of is a source of a symbol, whether the program looks at it or
not: the guards of an entry imply the contract, so that only a call that no entry serves has to be
compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import torch

from anyshape.capture.tracer import Tracer
from anyshape.guards.guard import Kind
from anyshape.guards.path import Path
from anyshape.policy.decide import By, Choice, Decision, Mark, MarkKind
from anyshape.shapes import CallShapes, ContractDim, Marker
from anyshape.shapes.bind_spec import Leaf
from anyshape.shapes.contract import Home
from anyshape.shapes.spec import Item
from anyshape.symbolic import (
    NATURAL,
    Expr,
    Fact,
    Facts,
    Range,
    Size,
    Symbol,
    as_symbol,
    eq,
    substitute,
    substitute_fact,
)
from anyshape.symbolic.expr import single_atom
from anyshape.symbolic.logic import within
from anyshape.symbolic.ranges import intersect

REASON: Final = "the shape contract"

#: What a marker of a spec means, in the words of the policy.
MARK_OF: Final[Mapping[Marker, Mark]] = {
    Marker.AUTO: Mark(MarkKind.MAYBE_DYNAMIC, by=By.CONTRACT),
    Marker.DYNAMIC: Mark(MarkKind.DYNAMIC, by=By.CONTRACT),
    Marker.STATIC: Mark(MarkKind.STATIC, by=By.CONTRACT),
}


class AssumedContract:
    """The contract of one call, and what a capture made of it."""

    def __init__(self, call: CallShapes) -> None:
        self.call: Final = call
        #: what holds by the contract alone
        self.facts = Facts()
        #: what the symbols of the capture are, in terms of the contract's dims
        self.meanings: dict[Symbol, Size] = {}
        #: dims of the contract, in terms of the capture's symbols
        self._dims: dict[Symbol, Size] = {}
        self._derived: dict[Size, Expr] = {}

    # -- what the policy asks ----------------------------------------------------------------------

    def marks(self, tensor: torch.Tensor) -> dict[int, Mark]:
        """What the contract says of the dimensions of a tensor, as marks."""
        found = self.call.tensor_marks.get(id(tensor), {})
        named = [dim for dim, each in self.spoken(tensor).items() if each.choice is Choice.DYNAMIC]
        return {dim: MARK_OF[each] for dim, each in found.items()} | dict.fromkeys(
            named, MARK_OF[Marker.AUTO]
        )

    def spoken(self, tensor: torch.Tensor) -> dict[int, Decision]:
        """The sizes of a tensor that the contract names, or gives as a number."""
        return {
            place.dim: _decision(place)
            for place in self.call.places
            if place.leaf.value is tensor and place.leaf.is_tensor
        }

    def decisions(self) -> Iterator[tuple[str, int, Decision]]:
        """Every source that the contract names, or gives as a number: what it is in this call, and
        what it is taken for."""
        for place in self.call.places:
            yield _source(place.leaf, place.dim), place.value, _decision(place)

    def said(self) -> dict[str, Item]:
        """What the contract says, by source."""
        return {
            _source(leaf, index): item
            for leaf in self.call.leaves
            for index, item in enumerate(leaf.items)
            if item is not None
        }

    def reasons(self) -> dict[str, str]:
        """Why sources are dynamic."""
        return {
            source: f"the shape contract has it as {item!r}" for source, item in self.said().items()
        }

    def integer_marks(self, source: str) -> dict[int, Mark]:
        """The same of an integer."""
        found = self.call.integer_marks.get(source)
        said = self.spoken_integer(source)
        if said is not None and said.choice is Choice.DYNAMIC:
            found = Marker.AUTO
        return {} if found is None else {0: MARK_OF[found]}

    def spoken_integer(self, source: str) -> Decision | None:
        """What an integer is that the contract names, or gives as a number."""
        return next(
            (
                _decision(place)
                for place in self.call.places
                if not place.leaf.is_tensor and place.leaf.way.text == source
            ),
            None,
        )

    # -- at the start ------------------------------------------------------------------------------

    def assume(self, tracer: Tracer) -> None:
        """Declare the symbols of the contract and assume what it says of them."""
        places = self.call.places
        homes = {home.place: home for home in self.call.homes}
        for home in self.call.homes:
            self._at_home(tracer, places[home.place], home)
        for index, place in enumerate(places):
            if index not in homes:
                self._elsewhere(tracer, place)
        for relation in self.call.relations:
            _assume(tracer, substitute_fact(relation.fact, self._dims))
        self.facts = tracer.facts

    def _at_home(self, tracer: Tracer, place: ContractDim, home: Home) -> None:
        path = _path(tracer, place.leaf.way)
        declared = home.dim.declared if home.is_itself else Facts().range(place.size)
        made = self._symbol(tracer, place, path, declared)
        dim: Size = made
        if not home.is_itself:
            scaled = made - substitute(home.rest, self._dims)
            dim = scaled // home.factor
            _assume(tracer, eq(scaled % home.factor, 0))
            for fact in within(dim, home.dim.declared):
                _assume(tracer, fact)
        self._dims[home.dim] = dim
        self._give(tracer, place, path, made)

    def _elsewhere(self, tracer: Tracer, place: ContractDim) -> None:
        """A place whose size follows from others."""
        path = _path(tracer, place.leaf.way)
        size = substitute(place.size, self._dims)
        if isinstance(size, Expr):
            if isinstance(single_atom(size), Symbol):
                tracer.has_source(size, path, _dim(place))
            elif size in self._derived:
                tracer.has_source(self._derived[size], path, _dim(place))
            else:
                made = self._symbol(tracer, place, path, tracer.facts.range(size))
                self._derived[size] = made
                _assume(tracer, eq(made, size))
        self._give(tracer, place, path, size)

    def _symbol(self, tracer: Tracer, place: ContractDim, path: Path, declared: Range) -> Expr:
        if place.leaf.is_tensor:
            declared = intersect(declared, NATURAL)
        made = tracer.own_symbol(path, _dim(place), place.value, declared)
        self.meanings[as_symbol(made)] = place.size
        return made

    def _give(self, tracer: Tracer, place: ContractDim, path: Path, size: Size) -> None:
        if not place.leaf.is_tensor:
            tracer.given_integers[path] = size
            return
        given = tracer.given_sizes.setdefault(id(place.leaf.value), {})
        known = given.setdefault(place.dim, size)
        if known is not size:
            # One tensor at two places: what is said at either holds.
            _assume(tracer, eq(known, size))

    # -- at the end --------------------------------------------------------------------------------

    def guard_unread(self, tracer: Tracer) -> None:
        """Guard what no symbol tells of arguments that the program did not look at."""
        for way in self.call.absent:
            tracer.guard(Kind.EQUALS, _path(tracer, way), None, REASON)
        for way, length in self.call.lengths.items():
            tracer.guard(Kind.LENGTH, _path(tracer, way), length, REASON)
        for leaf in self.call.leaves:
            path = _path(tracer, leaf.way)
            fixed = {
                place.dim: place.value
                for place in self.call.places
                if place.leaf is leaf and isinstance(place.size, int)
            }
            if leaf.is_tensor and (Kind.TENSOR, path) not in tracer.guards:
                tracer.guard(Kind.PREDICATE, path, HasSizes(leaf, fixed), REASON)
            elif not leaf.is_tensor and fixed:
                tracer.guard(Kind.EQUALS, path, leaf.sizes[0], REASON)


class HasSizes:
    """Whether a tensor has a number of dimensions, and these sizes."""

    def __init__(self, leaf: Leaf, fixed: Mapping[int, int]) -> None:
        self._rank = len(leaf.sizes)
        self._fixed = tuple(fixed.items())

    def __call__(self, value: object) -> bool:
        if not isinstance(value, torch.Tensor) or value.dim() != self._rank:
            return False
        return all(value.shape[dim] == size for dim, size in self._fixed)


def _assume(tracer: Tracer, fact: Fact) -> None:
    before = tracer.facts
    tracer.facts = before.assume(fact, REASON)
    if tracer.facts is not before:
        tracer.note_assumed(fact, REASON)


def _dim(place: ContractDim) -> int | None:
    return place.dim if place.leaf.is_tensor else None


def _decision(place: ContractDim) -> Decision:
    reason = f"the shape contract has it as {place.leaf.items[place.dim]!r}"
    if isinstance(place.size, int):
        return Decision(Choice.STATIC, reason, by=By.CONTRACT)
    return Decision(Choice.DYNAMIC, reason, Facts().range(place.size), by=By.CONTRACT)


def _source(leaf: Leaf, index: int) -> str:
    return f"{leaf.way.text}.size()[{index}]" if leaf.is_tensor else leaf.way.text


def _path(tracer: Tracer, way: Path) -> Path:
    return way.below(tracer.roots.local(str(way.root.key)))
