"""What `dynamic_shapes` says, by leaf: every form that it can be written in, beside the arguments.

    {"x": (Dim("batch"), None)}     by name
    ((Dim("batch"), None), None)    by position
    {"x": {0: Dim.AUTO}}            by dimension
    ShapesCollection                by tensor
    example_inputs=[...]            by what is seen to differ

Out comes a `Spec`: for each tensor and integer that is spoken of, what is said of each dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any, Final

import torch

from anyshape.errors import BadShapeSpec
from anyshape.export.flatten_args import leaves_of
from anyshape.guards.path import Parameters, Path, find
from anyshape.shapes import Dim, Marker, Relation, Shapes
from anyshape.shapes.bind_spec import Leaf, Matcher
from anyshape.shapes.shape_string import Word
from anyshape.shapes.spec import Item, read
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.support.spelling import did_you_mean

PLACE: Final = "dynamic_shapes"
_BY_POSITION: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


@dataclass(frozen=True, slots=True, eq=False)
class Spec:
    """What is said of the leaves of a call, and what always holds of the dims in it."""

    leaves: Mapping[Path, Leaf]
    where: tuple[Relation | Dim | str, ...] = ()

    def shapes(self, arguments: Arguments) -> Shapes:
        """The same, in the form that a contract is made of."""
        return Shapes(self.nested(arguments), *self.where)

    def nested(self, arguments: Arguments) -> dict[Any, object]:
        """By argument, then by item of each container, then by dimension."""
        root: dict[object, Any] = {}
        for way, leaf in self.leaves.items():
            said: object = {dim: _written(x) for dim, x in enumerate(leaf.items) if x is not None}
            if not said:
                continue
            if not leaf.is_tensor:
                said = said[0]
            inner = root
            keys = arguments.keys_of(way)
            for key in keys[:-1]:
                inner = inner.setdefault(key, {})
            inner[keys[-1]] = said
        return root

    def said(self, way: Path, dim: int) -> Item:
        leaf = self.leaves.get(way)
        return None if leaf is None else leaf.items[dim]


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """The arguments of the call that is exported, by parameter, and who takes them."""

    #: without the module itself
    signature: Signature
    #: of one that takes anything and hands it on: the parameters of whom it is handed to
    behind: Signature | None
    bound: Mapping[str, Any]
    function: str
    #: those of all calls of one program
    paths: Parameters

    def leaves(self) -> list[Leaf]:
        """Every tensor and integer among them."""
        found: list[Leaf] = []
        seen: set[int] = set()
        for name, value in self.bound.items():
            found += leaves_of(value, self.paths[name], seen)
        return found

    def keys_of(self, way: Path) -> list[object]:
        """The way to an argument, and into it, as specs are written: by call name, or position."""
        keys: list[Any] = [step.key for step in way.line]
        if keys[0] == _starred(self.signature, Parameter.VAR_KEYWORD):
            return keys[1:]
        if keys[0] == _starred(self.signature, Parameter.VAR_POSITIONAL):
            before = len(
                [each for each in self.signature.parameters.values() if _by_position(each)]
            )
            return [before + keys[1], *keys[2:]]
        return keys

    def by_parameter(self, spec: object) -> Iterator[tuple[Path, object, str]]:
        """Each part of a spec with the way to its argument, and where in the spec it is."""
        known = self._known()
        if isinstance(spec, Mapping):
            for key, part in spec.items():
                place = f"{PLACE}[{key!r}]"
                if type(key) is int:
                    yield from self._at(key, part, place, known)
                elif isinstance(key, str):
                    yield from self._named(key, part, place, known)
                else:
                    raise BadShapeSpec(
                        place=place, found=f"the key {key!r}", expected="a name or a position"
                    )
        elif isinstance(spec, tuple | list):
            for index, part in enumerate(spec):
                yield from self._at(index, part, f"{PLACE}[{index}]", known)
        else:
            raise BadShapeSpec(
                place=PLACE,
                found=f"{spec!r} for the whole function",
                expected="a dict by the names of parameters, or a tuple or list by position",
            )

    def _known(self) -> list[Parameter]:
        return list((self.behind or self.signature).parameters.values())

    def _at(
        self, index: int, part: object, place: str, known: list[Parameter]
    ) -> Iterator[tuple[Path, object, str]]:
        names = [each.name for each in known if each.kind in _BY_POSITION]
        star = _starred(self.signature, Parameter.VAR_POSITIONAL)
        if 0 <= index < len(names):
            yield from self._named(names[index], part, place, known)
            return
        taken = len([each for each in self.signature.parameters.values() if _by_position(each)])
        if star is not None and 0 <= index - taken < len(self.bound[star]):
            yield self.paths[star].item(index - taken), part, place
            return
        raise BadShapeSpec(
            place=place,
            found=f"a spec for argument {index}",
            expected=f"at most the arguments of {self.function}: {self._taken(names, star)}",
        )

    def _taken(self, names: list[str], star: str | None) -> str:
        more = [] if star is None else [f"{len(self.bound[star])} of *{star}"]
        return ", ".join([*names, *more]) or "none"

    def _named(
        self, name: str, part: object, place: str, known: list[Parameter]
    ) -> Iterator[tuple[Path, object, str]]:
        if name in self.signature.parameters:
            yield self.paths[name], part, place
            return
        named = _starred(self.signature, Parameter.VAR_KEYWORD)
        if named is not None and name in self.bound[named]:
            yield self.paths[named].item(name), part, place
            return
        names = [each.name for each in known]
        if name in names:
            star = _starred(self.signature, Parameter.VAR_POSITIONAL)
            index = names.index(name)
            if star is not None and index < len(self.bound[star]) and _by_position(known[index]):
                yield self.paths[star].item(index), part, place
            return  # a parameter that is not given
        if named is not None and self.behind is None:
            given = list(self.bound[named])
            names = [*(each for each in names if each != named), *given]
        raise BadShapeSpec(
            place=place,
            found=f"{self.function} has no argument {name!r}",
            expected=f"one of its arguments: {', '.join(names) or 'none'}"
            + did_you_mean(name, names),
        )


def spec_of(dynamic_shapes: object, arguments: Arguments) -> Spec:
    """What is said, or an error that says where it is wrong."""
    if dynamic_shapes is None:
        return Spec({})
    if isinstance(dynamic_shapes, ShapesCollection):
        return dynamic_shapes.spec(arguments)
    where: tuple[Relation | Dim | str, ...] = ()
    if isinstance(dynamic_shapes, Shapes):
        dynamic_shapes, where = dynamic_shapes.spec, dynamic_shapes.where
    leaves: dict[Path, Leaf] = {}
    for way, part, place in arguments.by_parameter(dynamic_shapes):
        for leaf in _matched(way, part, place, find(way, arguments.bound, {})):
            if leaf.way in leaves:
                raise BadShapeSpec(
                    place=place,
                    found=f"{leaf.way.argument} is spoken of again",
                    expected="each argument once, by name or by position",
                )
            leaves[leaf.way] = leaf
    return Spec(leaves, where)


def _matched(way: Path, part: object, place: str, value: object) -> list[Leaf]:
    matcher = Matcher(is_tensor)
    matcher.match(read(part, place), value, way)
    if matcher.problems:
        raise BadShapeSpec(
            place=place,
            found="; ".join(matcher.problems),
            expected="a spec of the structure of the arguments, with a size for each dimension",
        )
    return matcher.leaves


def _by_position(parameter: Parameter) -> bool:
    return parameter.kind in _BY_POSITION


def _starred(signature: Signature, kind: object) -> str | None:
    return next((each.name for each in signature.parameters.values() if each.kind is kind), None)


def _written(item: Item) -> object:
    return item.text if isinstance(item, Word) else item


# -- other ways to say it -------------------------------------------------------------------------


class ShapesCollection:
    """A spec by tensor, wherever among the arguments it is.

    >>> x, y = torch.ones(3, 4), torch.ones(5)
    >>> shapes = anyshape.ShapesCollection()
    >>> shapes[x] = {0: anyshape.Dim("batch")}
    >>> ep = anyshape.export(lambda pair: pair[0] * 2, ([x, y],), dynamic_shapes=shapes)
    >>> ep([torch.ones(7, 4), y]).shape
    torch.Size([7, 4])
    """

    def __init__(self) -> None:
        self._said: dict[int, tuple[torch.Tensor, object]] = {}

    def __setitem__(self, tensor: torch.Tensor, spec: object) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise BadShapeSpec(
                place="a ShapesCollection",
                found=f"a key of type {type(tensor).__name__}",
                expected="a tensor that is among the arguments",
            )
        # The tensor is kept: an identity may be used again once it is gone.
        self._said[id(tensor)] = (tensor, spec)

    def __getitem__(self, tensor: torch.Tensor) -> object:
        return self._said[id(tensor)][1]

    def __len__(self) -> int:
        return len(self._said)

    def spec(self, arguments: Arguments) -> Spec:
        """What it says of the arguments of a call."""
        leaves: dict[Path, Leaf] = {}
        missing = dict(self._said)
        for leaf in arguments.leaves():
            said = self._said.get(id(leaf.value))
            if said is None:
                continue
            missing.pop(id(leaf.value), None)
            for found in _matched(
                leaf.way, said[1], f"the spec of {leaf.way.argument}", leaf.value
            ):
                leaves[found.way] = found
        for tensor, spec in missing.values():
            raise BadShapeSpec(
                place="a ShapesCollection",
                found=f"{spec!r} for a tensor of sizes {list(tensor.shape)} that is no argument",
                expected="a tensor that is among the arguments",
            )
        return Spec(leaves)


def inferred(spec: Spec, calls: Sequence[Arguments]) -> Spec:
    """The spec, with AUTO for every size and integer that differs between the calls and of which
    it says nothing. The first call is the one that is exported."""
    first, *others = [{leaf.way: leaf for leaf in call.leaves()} for call in calls]
    leaves = dict(spec.leaves)
    for other in others:
        for way in other.keys() - first.keys():
            raise _differ(way, "it is there in one of the calls only")
    for way, leaf in first.items():
        said = list(leaves.get(way, leaf).items)
        for other in others:
            there = other.get(way)
            if there is None or there.is_tensor != leaf.is_tensor:
                raise _differ(way, "it is there in one of the calls only")
            if len(there.sizes) != len(leaf.sizes):
                raise _differ(way, f"sizes {list(leaf.sizes)} and {list(there.sizes)}")
            for dim, (here, seen) in enumerate(zip(leaf.sizes, there.sizes, strict=True)):
                if here != seen and said[dim] is None:
                    said[dim] = Marker.AUTO
        if any(item is not None for item in said):
            leaves[way] = replace(leaf, items=tuple(said))
    return Spec(leaves, spec.where)


def _differ(way: Path, found: str) -> BadShapeSpec:
    return BadShapeSpec(
        place=f"example_inputs, at {way.argument}",
        found=found,
        expected="calls that differ in sizes and integers only",
    )


def all_auto(spec: Spec, leaves: Sequence[Leaf]) -> Spec:
    """Every size dynamic as far as the program allows, and the integers that are spoken of."""
    return Spec(
        {
            leaf.way: replace(leaf, items=(Marker.AUTO,) * len(leaf.sizes))
            for leaf in leaves
            if leaf.is_tensor or spec.said(leaf.way, 0) is not None
        }
    )


def unlike(spec: Spec, at: tuple[Path, int], item: Item) -> Spec:
    """The spec with something else said of one dimension."""
    way, dim = at
    leaf = spec.leaves[way]
    items = (*leaf.items[:dim], item, *leaf.items[dim + 1 :])
    return Spec({**spec.leaves, way: replace(leaf, items=items)}, spec.where)


def static(spec: Spec, places: Sequence[tuple[Path, int]]) -> Spec:
    for at in places:
        spec = unlike(spec, at, Marker.STATIC)
    return spec
