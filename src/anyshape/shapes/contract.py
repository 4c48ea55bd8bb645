"""A spec of shapes bound to a function: every call is inside of it, or told why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Final, NamedTuple

from anyshape.errors import AnyshapeError, BadShapeSpec, ShapeContractViolation
from anyshape.guards.path import Parameters, Path, find
from anyshape.shapes.bind_spec import IsTensor, Leaf, Matcher
from anyshape.shapes.dims import DimExpr, Marker, Relation
from anyshape.shapes.shape_string import Broadcast, Word
from anyshape.shapes.spec import Items, Keyed, Shapes, SpecNode, items_of
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.support.spelling import did_you_mean
from anyshape.symbolic import Expr, Size, Symbol, evaluate, to_text
from anyshape.symbolic.evaluate import surely_holds
from anyshape.symbolic.expr import of_atom, single_atom, symbols_of


class ContractDim(NamedTuple):
    """A dimension of a tensor, or an integer, whose size the contract says."""

    leaf: Leaf
    dim: int
    #: in terms of the dims
    size: Size

    @property
    def value(self) -> int:
        return self.leaf.sizes[self.dim]

    @property
    def text(self) -> str:
        return self.leaf.text(self.dim)


@dataclass(frozen=True, slots=True, eq=False)
class CallShapes:
    """The arguments of one call, as the contract sees them."""

    places: Sequence[ContractDim]
    #: where the values of dims come from: indices of places
    homes: Sequence[Home]
    values: Mapping[Symbol, int]
    #: those whose dims all have values
    relations: Sequence[Relation]
    leaves: Sequence[Leaf]
    #: what is said without a name, by the identity of the tensor and by dimension
    tensor_marks: Mapping[int, Mapping[int, Marker]] = field(
        default_factory=dict[int, Mapping[int, Marker]]
    )
    #: the same of integers, by the text of the path
    integer_marks: Mapping[str, Marker] = field(default_factory=dict[str, Marker])
    #: what the spec speaks of and this call does not have
    absent: Sequence[Path] = ()
    #: how many items sequences must have
    lengths: Mapping[Path, int] = field(default_factory=dict[Path, int])


class Contract:
    """See the module. The first `skip` parameters are not the user's: a module itself."""

    def __init__(
        self,
        shapes: Shapes,
        signature: Signature,
        function: str,
        skip: int = 0,
        behind: Signature | None = None,
    ) -> None:
        self.shapes: Final = shapes
        self.function: Final = function
        self._parameters = list(signature.parameters.values())[skip:]
        #: as the user knows them: behind a wrapper that takes anything
        self._known = self._parameters if behind is None else list(behind.parameters.values())
        self._paths: Final = Parameters()
        self._arguments: Final = tuple(self._bind(shapes.root))
        self._check_homes()

    # -- the spec and the signature ----------------------------------------------------------------

    def _bind(self, root: SpecNode) -> Iterator[tuple[tuple[Path, ...], SpecNode]]:
        """Each node with the ways to its argument: by position and by name, if both can be."""
        if isinstance(root, Items):
            for index, node in enumerate(root.nodes):
                yield self._at(index, node), node
            return
        assert isinstance(root, Keyed), "the spec of a function is a dict, a tuple or a list"
        for key, node in root.nodes.items():
            if type(key) is int and key >= 0:
                yield self._at(key, node), node
            elif isinstance(key, str):
                yield self._named(key, node), node
            else:
                raise BadShapeSpec(
                    place=node.place, found=f"the key {key!r}", expected="a name or a position"
                )

    def _at(self, index: int, node: SpecNode) -> tuple[Path, ...]:
        positional = [each.name for each in self._known if each.kind in _BY_POSITION]
        if index < len(positional):
            return self._ways(positional[index], index)
        if _starred(self._known, Parameter.VAR_POSITIONAL) is not None:
            star = _starred(self._parameters, Parameter.VAR_POSITIONAL)
            assert star is not None, "what a wrapper hands on, it takes"
            before = len([each for each in self._parameters if each.kind in _BY_POSITION])
            return (self._paths[star].item(index - before),)
        raise BadShapeSpec(
            place=node.place,
            found=f"a spec for argument {index}",
            expected=f"one of the {len(positional)} that {self.function} takes by position:"
            f" {_listed(positional)}",
        )

    def _named(self, name: str, node: SpecNode) -> tuple[Path, ...]:
        names = [each.name for each in self._known]
        if name in names:
            known = self._known[names.index(name)]
            positional = [each.name for each in self._known if each.kind in _BY_POSITION]
            return self._ways(name, positional.index(name) if known.name in positional else None)
        star = _starred(self._parameters, Parameter.VAR_KEYWORD)
        if star is not None and _starred(self._known, Parameter.VAR_KEYWORD) is not None:
            return (self._paths[star].item(name),)
        raise BadShapeSpec(
            place=node.place,
            found=f"{self.function} has no parameter {name!r}",
            expected=f"one of its parameters: {_listed(names)}{did_you_mean(name, names)}",
        )

    def _ways(self, name: str, position: int | None) -> tuple[Path, ...]:
        if self._known is self._parameters:
            return (self._paths[name],)
        args, kwargs = (each.name for each in self._parameters)
        by_name = self._paths[kwargs].item(name)
        return (by_name,) if position is None else (by_name, self._paths[args].item(position))

    def _check_homes(self) -> None:
        """Every dim can be computed from some size."""
        sizes = [
            size for each in items_of(self.shapes.root) if (size := self._size(each)) is not None
        ]
        _, homeless = homes_of(sizes)
        for dim in sorted(homeless, key=lambda each: each.name):
            within = next(
                size for size in sizes if not isinstance(size, int) and dim in size.symbols
            )
            raise BadShapeSpec(
                place=f"the dim `{dim.name}`",
                found=f"only `{to_text(within)}` has it",
                expected=f"a size that is `{dim.name}`, or that tells it: `2*{dim.name} + 1`",
            )

    def _size(self, item: object) -> Size | None:
        if isinstance(item, Broadcast):
            item = item.size
        if isinstance(item, DimExpr | Word):
            return self.shapes.size(item)
        return item if type(item) is int else None

    # -- calls -------------------------------------------------------------------------------------

    def match(self, arguments: Mapping[str, object], is_tensor: IsTensor) -> CallShapes:
        """What the contract says of a call, given by parameter; an error if it is outside."""
        matcher, paths = Matcher(is_tensor), Parameters()
        for ways, node in self._arguments:
            for way in ways:
                given = _given(arguments, way)
                if given is not _NOT_GIVEN:
                    # Paths below those of the contract are kept for as long as it is.
                    own = way.below(paths[str(way.root.key)])
                    matcher.match(node, given, own)
        leaves = matcher.leaves
        places = [
            ContractDim(leaf, index, size)
            for leaf in leaves
            for index, item in enumerate(leaf.items)
            if (size := self._size(item)) is not None
        ]
        homes, homeless = homes_of([place.size for place in places])
        problems = matcher.problems
        values = _values(places, homes, problems)
        places, homes = _without(places, homes, homeless)
        problems += _differences(places, values, homes)
        relations = [each for each in self.shapes.relations if each.fact.symbols <= values.keys()]
        problems += [
            f"`{each}` does not hold, with {_shown(values, each.fact.symbols)}"
            for each in relations
            if not surely_holds(each.fact, values)
        ]
        if problems:
            raise ShapeContractViolation(
                function=self.function,
                problems=tuple(dict.fromkeys(problems)),
                values=tuple(f"{dim.name}={value}" for dim, value in values.items()),
            )
        marks = _marks(leaves)
        absent, lengths = matcher.absent, matcher.lengths
        return CallShapes(places, homes, values, relations, leaves, *marks, absent, lengths)


_BY_POSITION: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def _starred(parameters: Sequence[Parameter], kind: object) -> str | None:
    return next((each.name for each in parameters if each.kind is kind), None)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _given(arguments: Mapping[str, object], way: Path) -> object:
    """The argument, if there is one: a star parameter may have fewer than the spec speaks of."""
    try:
        return find(way, arguments, {})
    except LookupError:
        return _NOT_GIVEN


_NOT_GIVEN: Final = object()


def _values(
    places: Sequence[ContractDim], homes: Sequence[Home], problems: list[str]
) -> dict[Symbol, int]:
    values: dict[Symbol, int] = {}
    for home in homes:
        place, dim = places[home.place], home.dim
        if any(symbol not in values for symbol in symbols_of(home.rest)):
            continue
        value, left = divmod(place.value - evaluate(home.rest, values), home.factor)
        if left:
            problems.append(
                f"{place.text} is {place.value}, where the contract has {to_text(place.size)}"
            )
            continue
        values[dim] = value
        if not dim.declared.contains(value):
            problems.append(
                f"{place.text} is {place.value}, where {dim.declared.said_of(dim.name, value)} is"
                " declared" + ("" if home.is_itself else f" and this is {to_text(place.size)}")
            )
    return values


def _without(
    places: Sequence[ContractDim], homes: Sequence[Home], homeless: frozenset[Symbol]
) -> tuple[list[ContractDim], list[Home]]:
    """Without the places that speak of dims which nothing in this call tells: their argument is
    absent."""
    if not homeless:
        return list(places), list(homes)
    kept = [place for place in places if not symbols_of(place.size) & homeless]
    return kept, homes_of([place.size for place in kept])[0]


def _differences(
    places: Sequence[ContractDim], values: Mapping[Symbol, int], homes: Sequence[Home]
) -> Iterator[str]:
    found_at = {home.dim: places[home.place].text for home in homes}
    for place in places:
        if not symbols_of(place.size) <= values.keys():
            continue
        try:
            expected: int | None = evaluate(place.size, values)
        except AnyshapeError:
            expected = None
        if expected == place.value:
            continue
        if isinstance(place.size, int):
            yield f"{place.text} is {place.value}, where the contract has {place.size}"
            continue
        told = ", ".join(
            f"{dim.name} is {values[dim]} ({found_at[dim]})" for dim in _sorted(place.size.symbols)
        )
        if isinstance(single_atom(place.size), Symbol):
            yield f"{place.text} is {place.value}, where {told}"
        else:
            made = "has no value" if expected is None else f"is {expected}"
            yield f"{place.text} is {place.value}, where {to_text(place.size)} {made}: {told}"


def _sorted(dims: frozenset[Symbol]) -> list[Symbol]:
    return sorted(dims, key=lambda dim: dim.name)


def _shown(values: Mapping[Symbol, int], dims: frozenset[Symbol]) -> str:
    return ", ".join(f"{dim.name}={values[dim]}" for dim in _sorted(dims))


def _marks(
    leaves: Sequence[Leaf],
) -> tuple[dict[int, Mapping[int, Marker]], dict[str, Marker]]:
    tensors: dict[int, Mapping[int, Marker]] = {}
    integers: dict[str, Marker] = {}
    for leaf in leaves:
        marks = {dim: item for dim, item in enumerate(leaf.items) if isinstance(item, Marker)}
        if marks and leaf.is_tensor:
            tensors[id(leaf.value)] = marks
        elif marks:
            integers[leaf.way.text] = marks[0]
    return tensors, integers


# -- where the value of each dim is found ----------------------------------------------------------


class Home(NamedTuple):
    """`sizes[place]` is `factor * dim + rest`, and what `rest` is made of has a home before."""

    place: int
    dim: Symbol
    factor: int = 1
    rest: Size = 0

    @property
    def is_itself(self) -> bool:
        return self.factor == 1 and self.rest == 0


def homes_of(sizes: Sequence[Size]) -> tuple[list[Home], frozenset[Symbol]]:
    """The first size that each dim can be computed from, in an order in which they can be, and the
    dims that have none.

    batch               itself
    2*seq + 1           (size - 1) / 2, if nothing has the size `seq`
    seq // 2            not enough: two values of `seq` give the same size
    """
    homes: dict[Symbol, Home] = {}
    for index, size in enumerate(sizes):
        dim = single_atom(size)
        if isinstance(dim, Symbol):
            homes.setdefault(dim, Home(index, dim))
    while True:
        found = next(_solvable(sizes, frozenset(homes)), None)
        if found is None:
            break
        homes[found.dim] = found
    every = frozenset[Symbol]().union(*map(symbols_of, sizes))
    return list(homes.values()), every - homes.keys()


def _solvable(sizes: Sequence[Size], known: frozenset[Symbol]) -> Iterator[Home]:
    for index, size in enumerate(sizes):
        missing = symbols_of(size) - known
        if isinstance(size, Expr) and len(missing) == 1:
            (dim,) = missing
            factor = _factor(size, dim)
            rest = size - factor * of_atom(dim)
            if factor and dim not in symbols_of(rest):
                yield Home(index, dim, factor, rest)


def _factor(size: Expr, dim: Symbol) -> int:
    return dict(size.terms).get((dim.index,), 0)
