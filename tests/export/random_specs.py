"""Random specs for random programs, many of which the program disagrees with.

Every place (a dimension of an argument) is said to be something: a dim, one that its neighbours do
not have, a size that follows from another, AUTO, DYNAMIC, STATIC, an int, a word, nothing. And for
any spec, the sizes that it declares.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from anyshape import Dim, Shapes
from anyshape.errors import AnyshapeError
from anyshape.shapes import DimExpr
from anyshape.symbolic import Range, Symbol, as_symbol, evaluate, holds

Sizes = Sequence[Sequence[int]]


class Sample(NamedTuple):
    """Sizes of the arguments, and whether a program exported for the spec has to take them."""

    sizes: list[list[int]]
    must: bool


def random_spec(chance: random.Random, names: Sequence[str], example: Sizes) -> Any:
    """A spec that the example fulfils, nearly always; what the program makes of it is another
    matter."""
    writer = _Writer(chance)
    wrong = chance.random() < 0.07
    said = [
        [writer.item(size + (wrong and chance.random() < 0.3)) for size in sizes]
        for sizes in example
    ]
    match chance.randrange(5):
        case 0:
            return tuple(map(tuple, said))
        case 1:
            return [list(items) for items in said]
        case 2:
            by_dimension = {
                name: {dim: item for dim, item in enumerate(items) if item is not None}
                for name, items in zip(names, said, strict=True)
            }
            return {name: items for name, items in by_dimension.items() if items}
        case 3:
            return {name: items or None for name, items in zip(names, said, strict=True)}
        case _:
            return {name: tuple(items) for name, items in zip(names, said, strict=True)}


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        #: dims so far, and their values in the example
        self._dims: dict[str, tuple[Dim, int]] = {}
        self._kinds = chance.choice(
            (
                ("dim",),
                ("dim", "same"),
                ("dim", "same", "derived"),
                ("dim", "same", "derived", "half", "auto", "none", "static", "int", "word"),
                ("dim", "dynamic", "auto"),
                ("same", "auto", "none"),
            )
        )

    def item(self, size: int) -> Any:
        return getattr(self, self._chance.choice(self._kinds))(size)

    def dim(self, size: int) -> Dim:
        made = _dim(self._chance, f"d{len(self._dims)}", size)
        self._dims[made.name] = made, size
        return made

    def same(self, size: int) -> Dim:
        known = [dim for dim, value in self._dims.values() if value == size]
        return self._chance.choice(known) if known else self.dim(size)

    def derived(self, size: int) -> DimExpr | Dim:
        """`factor * dim + rest`, of a dim that something else has or not."""
        if not self._dims:
            return self.dim(size)
        dim, value = self._chance.choice(list(self._dims.values()))
        factor = self._chance.choice((1, 2, 3))
        rest = size - factor * value
        if factor * dim.min + rest < 0:
            return self.dim(size)
        return factor * dim + rest

    def half(self, size: int) -> DimExpr | Dim:
        known = [dim for dim, value in self._dims.values() if value // 2 == size]
        return self._chance.choice(known) // 2 if known else self.dim(size)

    def auto(self, size: int) -> object:
        return Dim.AUTO

    def dynamic(self, size: int) -> object:
        return Dim.DYNAMIC

    def static(self, size: int) -> object:
        return Dim.STATIC

    def none(self, size: int) -> None:
        return None

    def int(self, size: int) -> int:
        return size

    def word(self, size: int) -> str:
        name = f"w{size}"
        return self._chance.choice((name, f"{name}_{self._chance.randrange(9)}"))


def _dim(chance: random.Random, name: str, value: int) -> Dim:
    low = chance.choice((0, 1, max(value - 2, 0), value))
    return Dim(name, min=min(low, value), max=chance.choice((None, value, value + 3, 20)))


# -- what a spec declares --------------------------------------------------------------------------


def declared(
    spec: Any, names: Sequence[str], example: Sizes, chance: random.Random, count: int
) -> Iterator[Sample]:
    """Sizes that a spec declares, the ends of its ranges among them."""
    shapes = spec if isinstance(spec, Shapes) else Shapes(spec)
    items = _items(shapes.spec, names, example)
    dims = {as_symbol(size): _range(as_symbol(size).declared) for size in shapes.dims.values()}
    for _ in range(count):
        values = {dim: _value(chance, low, high) for dim, (low, high) in dims.items()}
        if not all(_holds(relation.fact, values) for relation in shapes.relations):
            continue
        free = chance.random() < 0.5
        sizes = _sizes(shapes, items, example, values, chance if free else None)
        if sizes is not None:
            yield Sample(sizes, not _asks(items))


def _asks(items: Sequence[Sequence[Any]]) -> bool:
    """Whether something is left to the program: any size may be tied to one without a name."""
    return any(item in (Dim.AUTO, Dim.DYNAMIC) for each in items for item in each)


def _items(spec: Any, names: Sequence[str], example: Sizes) -> list[list[Any]]:
    if not isinstance(spec, Mapping):
        spec = dict(enumerate(spec))
    made: list[list[Any]] = []
    for index, (name, sizes) in enumerate(zip(names, example, strict=True)):
        said = spec.get(name, spec.get(index))
        if isinstance(said, Mapping):
            made.append([said.get(dim) for dim in range(len(sizes))])
        else:
            made.append([None] * len(sizes) if said is None else list(said))
    return made


def _range(declared: Range) -> tuple[int, int]:
    low = declared.lower or 0
    return low, low + 15 if declared.upper is None else declared.upper


def _value(chance: random.Random, low: int, high: int) -> int:
    return chance.choice((low, high, min(low + 1, high), chance.randint(low, high)))


def _sizes(
    shapes: Shapes,
    items: Sequence[Sequence[Any]],
    example: Sizes,
    values: Mapping[Symbol, int],
    chance: random.Random | None,
) -> list[list[int]] | None:
    """None where an expression has no value, or a negative one."""
    made: list[list[int]] = []
    for said, sizes in zip(items, example, strict=True):
        made.append([])
        for item, size in zip(said, sizes, strict=True):
            value = size
            if isinstance(item, str):
                value = values[as_symbol(shapes.dims[item])]
            elif isinstance(item, DimExpr):
                found = _evaluated(shapes, item, values)
                if found is None or found < 0:
                    return None
                value = found
            elif item in (Dim.AUTO, Dim.DYNAMIC) and chance is not None:
                value = chance.choice((0, 1, 2, size, size + 1, 9))
            made[-1].append(value)
    return made


def _evaluated(shapes: Shapes, item: DimExpr, values: Mapping[Symbol, int]) -> int | None:
    try:
        return evaluate(shapes.size(item), values)
    except AnyshapeError:
        return None


def _holds(fact: Any, values: Mapping[Symbol, int]) -> bool:
    try:
        return holds(fact, values)
    except AnyshapeError:
        return False
