"""A spec of shapes as the user writes it, read into one tree; errors say where in the spec.

    {"x": "batch seq 64", "mask": ("batch", None), "n": Dim("n"), "tree": {"a": [...], "b": None}}
    ("batch seq 64", None)          by position

What a tuple means is not known before the value is seen: the sizes of a tensor, or the items of a
list. The tree keeps what was written, and `match` asks the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Final, cast

from anyshape.errors import AnyshapeError, BadShapeSpec
from anyshape.shapes.dims import Dim, DimExpr, Marker, Relation
from anyshape.shapes.shape_string import Broadcast, Variadic, Word, names_in, words
from anyshape.support.lazy_dataclass import dataclass, fields, is_dataclass
from anyshape.support.spelling import did_you_mean
from anyshape.symbolic import (
    NATURAL,
    Expr,
    Facts,
    Range,
    Size,
    Symbol,
    as_symbol,
    parse_fact,
    substitute,
    substitute_fact,
    symbol,
)

#: What one dimension, or one integer, can be said to be. None says nothing.
Item = DimExpr | Word | Broadcast | Variadic | Marker | int | EllipsisType | None


@dataclass(frozen=True, slots=True, eq=False)
class One:
    """A leaf: of an integer, or of a whole tensor."""

    place: str
    item: Item


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The sizes of a tensor, as a short string."""

    place: str
    text: str
    items: tuple[Item, ...]
    #: names and patterns of dtypes, one of which the tensor's must be; any, if there are none
    dtypes: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """A tuple or list: sizes, or items of a container."""

    place: str
    nodes: tuple[SpecNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Keyed:
    """A dictionary: sizes by dimension, or items of a container by key, index or attribute."""

    place: str
    nodes: Mapping[object, SpecNode]


@dataclass(frozen=True, slots=True, eq=False)
class Each:
    """Every item of a container."""

    place: str
    node: SpecNode


SpecNode = One | Words | Items | Keyed | Each

_EXPECTED: Final = (
    'a short string ("batch seq 64"), an anyshape.Dim or a size computed from one, Dim.AUTO, '
    "Dim.DYNAMIC, Dim.STATIC, an int, None, or a tuple, list or dict of these"
)


def read(spec: object, place: str = "shapes") -> SpecNode:
    """The tree of a spec; what is one already stays."""
    if isinstance(spec, One | Words | Items | Keyed | Each):
        return spec
    if isinstance(spec, str):
        return Words(place, spec, words(spec, place))
    if spec is None or isinstance(spec, DimExpr | Marker | EllipsisType):
        return One(place, spec)
    if isinstance(spec, int) and not isinstance(spec, bool):
        if spec < 0 and place.count("["):
            raise BadShapeSpec(place=place, found=str(spec), expected="a size of at least 0")
        return One(place, int(spec))
    if isinstance(spec, Mapping):
        pairs = cast("Mapping[object, object]", spec).items()
        return Keyed(place, {key: read(value, f"{place}[{key!r}]") for key, value in pairs})
    if isinstance(spec, tuple | list):
        items = cast("Sequence[object]", spec)
        return Items(
            place, tuple(read(item, f"{place}[{index}]") for index, item in enumerate(items))
        )
    if is_dataclass(spec) and not isinstance(spec, type):
        said = {each.name: getattr(spec, each.name) for each in fields(spec)}
        return Keyed(
            place,
            {
                name: read(item, f"{place}.{name}")
                for name, item in said.items()
                if item is not None
            },
        )
    if isinstance(spec, Relation):
        found = f"the relation `{spec}`"
        expected = "a size; relations are given beside the spec: Shapes(spec, relation)"
        raise BadShapeSpec(place=place, found=found, expected=expected)
    raise BadShapeSpec(place=place, found=f"{spec!r} of type {_name_of(spec)}", expected=_EXPECTED)


def _name_of(value: object) -> str:
    """Of its class, with the package that it is from: torch has a `Dim` as well."""
    kind = type(value)
    package = kind.__module__.partition(".dynamic_shapes")[0]
    return kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"


def items_of(node: SpecNode) -> Iterator[Item]:
    match node:
        case One():
            yield node.item
        case Words():
            yield from node.items
        case Each():
            yield from items_of(node.node)
        case Items():
            for child in node.nodes:
                yield from items_of(child)
        case Keyed():
            for child in node.nodes.values():
                yield from items_of(child)


def _names_of(item: Item) -> Iterator[str]:
    if isinstance(item, Broadcast):
        yield from _names_of(item.size)
    elif isinstance(item, Word):
        yield from item.names
    elif isinstance(item, DimExpr):
        yield from (each.name for each in item.symbols)


def _symbol(size: Size) -> Symbol:
    assert isinstance(size, Expr), "dims are symbols"
    return as_symbol(size)


class Shapes:
    """A spec with what is known of its dims: relations, ranges.

    >>> shapes = anyshape.Shapes({"x": "batch 4"}, "1 <= batch <= 4096", "batch % 2 == 0")
    >>> @anyshape.compile(shapes=shapes)
    ... def pairs(x: torch.Tensor) -> torch.Tensor:
    ...     return x.view(-1, 2, 4)
    >>> pairs(torch.ones(6, 4)).shape
    torch.Size([3, 2, 4])
    >>> pairs(torch.ones(5, 4))
    Traceback (most recent call last):
    anyshape.errors.ShapeContractViolation: [AS112] ...
    """

    def __init__(self, spec: object, *where: Relation | Dim | str) -> None:
        self.spec: Final = spec
        self.where: Final = where
        self.root: Final = read(spec)
        if not isinstance(self.root, Keyed | Items):
            raise BadShapeSpec(
                place="shapes",
                found=f"{spec!r} for the whole function",
                expected="a dict by the names of parameters, a tuple or list by position, or the"
                f" word 'annotations'{did_you_mean(spec, ['annotations'])}",
            )
        #: the symbol of each dim, with the range that all of the spec leaves
        self.dims: Final[dict[str, Size]] = {}
        self.relations: Final[tuple[Relation, ...]] = self._settle()

    @staticmethod
    def of(spec: object) -> Shapes:
        """A spec as a user gives it: plain, or with relations."""
        return spec if isinstance(spec, Shapes) else Shapes(spec)

    def __repr__(self) -> str:
        return f"Shapes({', '.join(map(repr, (self.spec, *self.where)))})"

    def __reduce__(self) -> tuple[object, ...]:
        return Shapes, (self.spec, *self.where)

    def size(self, item: DimExpr | Word) -> Size:
        """A size of the spec in terms of the dims."""
        if isinstance(item, Word):
            # Those of a variadic word are known when a call has them.
            for name in item.names:
                self.dims.setdefault(name, symbol(name, NATURAL))
            return item.size(self.dims)
        return substitute(item.size, {each: self.dims[each.name] for each in item.symbols})

    # -- ranges and relations ----------------------------------------------------------------------

    def _settle(self) -> tuple[Relation, ...]:
        declared = self._declared()
        self.dims.update({name: symbol(name, range_) for name, range_ in declared.items()})
        relations = [
            self._relation(index, each)
            for index, each in enumerate(self.where)
            if not isinstance(each, Dim)
        ]
        facts = Facts()
        for relation in relations:
            try:
                facts = facts.assume(relation.fact, relation.text)
            except AnyshapeError:
                others = ", ".join(str(each) for each in relations if each is not relation)
                raise BadShapeSpec(
                    place=f"the relation `{relation}`",
                    found="it cannot hold" + (f" together with {others}" if others else ""),
                    expected="relations that some sizes fulfil",
                ) from None
        # A bound that is stated is a range: canonical forms know ranges, and not other facts.
        narrowed = {name: facts.range(size) for name, size in self.dims.items()}
        again = {_symbol(size): symbol(name, narrowed[name]) for name, size in self.dims.items()}
        self.dims.update({each.name: size for each, size in again.items()})
        return tuple(
            Relation(substitute_fact(relation.fact, again), relation.text) for relation in relations
        )

    def _declared(self) -> dict[str, Range]:
        """The range of each dim, as Dims say it; names in texts follow."""
        found: dict[str, Range] = {}
        names: dict[str, None] = {}
        for each in (*items_of(self.root), *self.where):
            if isinstance(each, Word | Broadcast):
                names |= dict.fromkeys(_names_of(each))
            elif isinstance(each, str):
                names |= dict.fromkeys(names_in(each))
            elif isinstance(each, DimExpr | Relation):
                symbols = each.symbols if isinstance(each, DimExpr) else each.fact.symbols
                for one in symbols:
                    if found.setdefault(one.name, one.declared) != one.declared:
                        raise BadShapeSpec(
                            place=f"the dim `{one.name}`",
                            found=f"two ranges, {found[one.name].said_of(one.name)} and"
                            f" {one.declared.said_of(one.name)}",
                            expected="one range for one name",
                        )
        spoken = {name for each in items_of(self.root) for name in _names_of(each)}
        for name in (*names, *found):
            if name not in spoken:
                raise BadShapeSpec(
                    place=f"the dim `{name}`",
                    found="a range or a relation, and no argument has this size",
                    expected=f"one of the dims of the spec: {', '.join(sorted(spoken)) or 'none'}"
                    + did_you_mean(name, spoken),
                )
        return dict.fromkeys(names, NATURAL) | found

    def _relation(self, index: int, given: Relation | str) -> Relation:
        if isinstance(given, Relation):
            return Relation(
                substitute_fact(
                    given.fact, {each: self.dims[each.name] for each in given.fact.symbols}
                ),
                given.text,
            )
        if not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance] input from outside
            raise BadShapeSpec(
                place=f"relation {index}",
                found=f"{given!r} of type {type(given).__name__}",
                expected='a relation: `batch % 8 == 0` of Dims, or as a text: "batch % 8 == 0"',
            )
        try:
            return Relation(parse_fact(given, self.dims), given)
        except AnyshapeError as error:
            first = str(error).splitlines()[0]
            raise BadShapeSpec(
                place=f"relation {index}",
                found=f"{given!r} ({first})",
                expected='a comparison of sizes: "batch % 8 == 0", "1 <= seq <= 8192"',
            ) from None
