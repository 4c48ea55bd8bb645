"""A spec beside the arguments of a call: which sizes it speaks of, or why it does not fit.

What is absent (None, an argument not given) is not spoken of. Everything wrong is collected, in the
user's names: `x.shape[0]`, `args[1]['ids'].shape[1]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from re import Pattern
from types import MemberDescriptorType
from typing import cast

from anyshape.guards.path import Path
from anyshape.shapes.dims import Marker
from anyshape.shapes.shape_string import Broadcast, Variadic
from anyshape.shapes.spec import Each, Item, Items, Keyed, One, SpecNode, Words
from anyshape.support.lazy_dataclass import dataclass, field, fields, is_dataclass

IsTensor = Callable[[object], bool]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A tensor with something said of each dimension, or an integer (one item)."""

    way: Path
    value: object
    is_tensor: bool
    sizes: tuple[int, ...]
    items: tuple[Item, ...]

    def text(self, index: int) -> str:
        return f"{self.way.argument}.shape[{index}]" if self.is_tensor else self.way.argument


@dataclass(slots=True)
class Matcher:
    is_tensor: IsTensor
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    #: what the spec speaks of and the call does not have
    absent: list[Path] = field(default_factory=list[Path])
    #: how many items sequences must have
    lengths: dict[Path, int] = field(default_factory=dict[Path, int])
    problems: list[str] = field(default_factory=list[str])
    #: how many dimensions a variadic word stands for, and the argument that says so
    counts: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])

    def match(self, node: SpecNode, value: object, way: Path) -> None:
        if isinstance(node, One) and node.item is None:
            return
        if value is None:
            self.absent.append(way)
            return
        if self.is_tensor(value):
            self._tensor(node, value, way)
        elif isinstance(node, Each) and _holds_others(value):
            for inside, item in _inside(value, way):
                self.match(node.node, item, inside)
        elif isinstance(value, int) and not isinstance(value, bool):
            self._integer(node, value, way)
        elif isinstance(node, One) and isinstance(node.item, Marker) and _holds_others(value):
            self._all_inside(node, value, way)
        elif isinstance(value, dict):
            self._mapping(node, cast("dict[object, object]", value), way)
        elif isinstance(value, list | tuple):
            self._sequence(node, cast("Sequence[object]", value), way)
        else:
            self._object(node, value, way)

    def _complain(self, way: Path, what: str) -> None:
        self.problems.append(f"{way.argument} {what}")

    def _wrong(self, node: SpecNode, way: Path, value: object, expected: str) -> None:
        nested = getattr(value, "is_nested", False) is True
        name = "nested tensor" if nested else type(value).__name__
        what = "a tensor" if self.is_tensor(value) else _with_article(name)
        self._complain(way, f"is {what}, where {node.place} expects {expected}")

    # -- tensors -----------------------------------------------------------------------------------

    def _tensor(self, node: SpecNode, tensor: object, way: Path) -> None:
        sizes = tuple(map(int, cast("Sequence[int]", getattr(tensor, "shape"))))  # noqa: B009
        rank = len(sizes)
        match node:
            case One(item=Marker() as marker):
                items: Sequence[Item] = (marker,) * rank
            case One():
                self._wrong(node, way, tensor, "an integer (the sizes of a tensor are a tuple)")
                return
            case Words():
                self._dtype(node, tensor, way)
                items = self._counted(node, rank, way)
            case Items() if all(_is_item(each) for each in node.nodes):
                items = [_item(each) for each in node.nodes]
            case Keyed() if all(
                type(key) is int and _is_item(each) for key, each in node.nodes.items()
            ):
                self._by_dimension(node, tensor, sizes, way)
                return
            case Items() | Keyed() | Each():
                self._wrong(node, way, tensor, "a container")
                return
        if items.count(...) == 1:
            at = items.index(...)
            missing = rank - (len(items) - 1)
            if missing >= 0:
                items = (*items[:at], *(None,) * missing, *items[at + 1 :])
        if len(items) != rank:
            shown = f"{rank} dimensions (sizes {list(sizes)})"
            expected = len([item for item in items if item is not ...])
            least = "at least " if ... in items else ""
            self._complain(way, f"has {shown}, where {node.place} expects {least}{expected}")
            return
        plain = [_broadcast(item, size) for item, size in zip(items, sizes, strict=True)]
        self.leaves.append(Leaf(way, tensor, True, sizes, tuple(plain)))

    def _dtype(self, node: Words, tensor: object, way: Path) -> None:
        dtype = str(getattr(tensor, "dtype", "")).removeprefix("torch.")
        if node.dtypes and not any(_is_named(dtype, each) for each in node.dtypes):
            self._complain(way, f"has the dtype {dtype}, which {node.place} does not allow")

    def _counted(self, node: Words, rank: int, way: Path) -> Sequence[Item]:
        """The words, with as many for a variadic one as there are dimensions left."""
        items = node.items
        at = next((i for i, item in enumerate(items) if isinstance(item, Variadic)), None)
        count = rank - (len(items) - 1)
        if at is None or count < 0:
            return [... if isinstance(item, Variadic) else item for item in items]
        word = cast("Variadic", items[at])
        if not word.is_broadcast:
            known, where = self.counts.setdefault(word.name, (count, way.argument))
            if known != count:
                self._complain(
                    way,
                    f"has {count} dimensions for `*{word.name}`, where {where} has {known}",
                )
        return (*items[:at], *word.sizes(count, node.place), *items[at + 1 :])

    def _by_dimension(self, node: Keyed, tensor: object, sizes: tuple[int, ...], way: Path) -> None:
        items: list[Item] = [None] * len(sizes)
        seen: set[int] = set()
        for key, each in node.nodes.items():
            dim = cast("int", key)
            if not -len(sizes) <= dim < len(sizes):
                self._complain(
                    way,
                    f"has {len(sizes)} dimensions, where {each.place} speaks of dimension {dim}",
                )
                return
            if dim % len(sizes) in seen:
                self.problems.append(
                    f"{each.place} speaks of dimension {dim} of {way.argument} again"
                )
                return
            seen.add(dim % len(sizes))
            items[dim] = _item(each)
        self.leaves.append(Leaf(way, tensor, True, sizes, tuple(items)))

    # -- other values ------------------------------------------------------------------------------

    def _integer(self, node: SpecNode, value: int, way: Path) -> None:
        match node:
            case One(item=item) if item is not ...:
                pass
            case Words(items=(item,)) if item is not ...:
                pass
            case _:
                self._wrong(node, way, value, "a tensor or a container")
                return
        self.leaves.append(Leaf(way, value, False, (int(value),), (item,)))

    def _all_inside(self, node: One, value: object, way: Path) -> None:
        """A word without a name, said of a container: of every tensor in it."""
        for inside, item in _inside(value, way):
            if self.is_tensor(item) or _holds_others(item):
                self.match(node, item, inside)

    def _mapping(self, node: SpecNode, value: Mapping[object, object], way: Path) -> None:
        if not isinstance(node, Keyed):
            self._wrong(node, way, value, _KIND_OF[type(node)])
            return
        for key, each in node.nodes.items():
            if key in value:
                self.match(each, value[key], way.item(key))
            else:
                keys = ", ".join(map(repr, value)) or "none"
                self._complain(way, f"has no key {key!r} ({each.place}); it has {keys}")

    def _sequence(self, node: SpecNode, value: Sequence[object], way: Path) -> None:
        if isinstance(node, Keyed):
            for key, each in node.nodes.items():
                if type(key) is int and -len(value) <= key < len(value):
                    self.match(each, value[key], way.item(key % len(value)))
                elif (index := _field(value, key)) is not None:
                    self.match(each, value[index], way.item(index))
                else:
                    self._complain(
                        way, f"has {len(value)} items and none at {key!r} ({each.place})"
                    )
        elif not isinstance(node, Items):
            self._wrong(node, way, value, _KIND_OF[type(node)])
        elif len(node.nodes) != len(value):
            self._complain(way, f"has {len(value)} items, where {node.place} has {len(node.nodes)}")
        else:
            self.lengths[way] = len(value)
            for index, each in enumerate(node.nodes):
                self.match(each, value[index], way.item(index))

    def _object(self, node: SpecNode, value: object, way: Path) -> None:
        if isinstance(node, Items) and is_dataclass(value):
            names = [each.name for each in fields(value)]
            if len(node.nodes) != len(names):
                self._complain(
                    way,
                    f"has {len(names)} fields ({', '.join(names)}), where {node.place} has"
                    f" {len(node.nodes)}",
                )
                return
            node = Keyed(node.place, dict(zip(names, node.nodes, strict=True)))
        if not isinstance(node, Keyed):
            expected = _KIND_OF[type(node)]
            kept = ", ".join(repr(name) for name in getattr(value, "__dict__", {}))
            if kept:
                expected += f" (of an object, a dict names what it keeps: {kept})"
            self._wrong(node, way, value, expected)
            return
        for key, each in node.nodes.items():
            inside = _kept_at(value, key, way)
            if inside is not None:
                self.match(each, getattr(value, cast("str", key)), inside)
            elif (held := _of_module(value, key)) is not None:
                self.match(each, vars(value)[held][key], way.instance(held).item(key))
            else:
                self._complain(
                    way,
                    f"is {_with_article(type(value).__name__)} that keeps no attribute"
                    f" {key!r} ({each.place})",
                )


def _broadcast(item: Item, size: int) -> Item:
    """What a word says of a dimension of this size."""
    if isinstance(item, Broadcast):
        return 1 if size == 1 else item.size
    return item


def _is_named(dtype: str, allowed: object) -> bool:
    """By a name, or by a pattern of names."""
    if isinstance(allowed, Pattern):
        return cast("Pattern[str]", allowed).match(dtype) is not None
    return dtype == allowed


def _holds_others(value: object) -> bool:
    return isinstance(value, dict | list | tuple) or (
        is_dataclass(value) and not isinstance(value, type)
    )


def _inside(value: object, way: Path) -> Iterator[tuple[Path, object]]:
    if isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            yield way.item(key), item
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("Sequence[object]", value)):
            yield way.item(index), item
    elif is_dataclass(value):
        for each in fields(value):
            inside = _kept_at(value, each.name, way)
            if inside is not None:
                yield inside, getattr(value, each.name)


def _field(value: Sequence[object], key: object) -> int | None:
    """The position of a field of a named tuple."""
    names = cast("tuple[object, ...]", getattr(type(value), "_fields", ()))
    return names.index(key) if key in names else None


def _kept_at(value: object, key: object, way: Path) -> Path | None:
    """Where the object at `way` keeps an attribute: its own dictionary, or a slot. None for one
    that is computed, or is not there."""
    if not isinstance(key, str):
        return None
    if key in cast("dict[str, object]", getattr(value, "__dict__", {})):
        return way.instance(key)
    slot = isinstance(getattr(type(value), key, None), MemberDescriptorType)
    return way.attribute(key) if slot and hasattr(value, key) else None


def _of_module(value: object, key: object) -> str | None:
    """Where an `nn.Module` keeps what it answers to by a name: a parameter, a buffer, a module."""
    kept = cast("dict[str, dict[object, object]]", getattr(value, "__dict__", {}))
    return next((name for name in _HELD_BY_MODULES if key in kept.get(name, ())), None)


_HELD_BY_MODULES = ("_parameters", "_buffers", "_modules")


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


def _is_item(node: SpecNode) -> bool:
    return isinstance(node, One) or (isinstance(node, Words) and len(node.items) == 1)


def _item(node: SpecNode) -> Item:
    match node:
        case One():
            return node.item
        case Words():
            return node.items[0]
        case _:
            raise AssertionError("asked before")


_KIND_OF: dict[type, str] = {
    One: "an integer or a tensor",
    Words: "a tensor",
    Items: "a tensor, a tuple or a list",
    Keyed: "a container",
    Each: "a container",
}
