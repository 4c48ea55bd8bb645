"""A call that an exported program takes, made of its conditions: for those who capture it again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import Parameter
from typing import Any

import torch

from anyshape.errors import CannotExport
from anyshape.export.conditions import Condition
from anyshape.export.program import Program
from anyshape.support.lazy_dataclass import dataclass, field


@dataclass(slots=True)
class _Place:
    """Something among the arguments, and what is known of it."""

    kind: str = ""
    value: Any = None
    known: bool = False
    inside: dict[Any, _Place] = field(default_factory=dict[object, "_Place"])


class _StandIn:
    """In the place of an object of the caller's: it has the attributes and items that the graph
    reads."""

    def __init__(self, inside: dict[Any, object]) -> None:
        vars(self).update({key: each for key, each in inside.items() if isinstance(key, str)})
        self._items = inside

    def __getitem__(self, key: object) -> object:
        return self._items[key]


def example_call(
    program: Program, *, for_graph: bool = False
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Arguments with the sizes of the example; all numbers are 0 in them. `for_graph`: for a call
    of the graph alone, which does not ask of what class they are."""
    values = program.examples
    root = _Place()
    for condition in program.inputs.conditions:
        _note(program, _at(root, condition), condition, values)
    for source in program.inputs.sources:
        if source.dim is None:
            place = _at(root, Condition(source.way, "", None))
            place.value, place.known = values[source.symbol], True
    made = partial(_made, program.name, for_graph)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in program.signature.parameters.items():
        place = root.inside.get(name, _Place())
        match parameter.kind:
            case Parameter.VAR_POSITIONAL:
                args += made(name, place, ())
            case Parameter.VAR_KEYWORD:
                kwargs |= {key: made(key, each) for key, each in place.inside.items()}
            case Parameter.KEYWORD_ONLY:
                kwargs[name] = made(name, place, parameter.default)
            case _:
                args.append(made(name, place, parameter.default))
    return _without_defaults(program, args), kwargs


def _without_defaults(program: Program, args: list[object]) -> tuple[object, ...]:
    """As a call would be written: the last arguments are left out where they have defaults."""
    parameters = list(program.signature.parameters.values())
    while args and len(args) <= len(parameters):
        default, value = parameters[len(args) - 1].default, args[-1]
        if isinstance(value, torch.Tensor) or type(value) is not type(default) or value != default:
            break
        args = args[:-1]
    return tuple(args)


def _at(root: _Place, condition: Condition) -> _Place:
    place = root
    first, *steps = condition.way
    for key in (first, *(step[1] for step in steps)):
        place = place.inside.setdefault(key, _Place())
    return place


def _note(program: Program, place: _Place, condition: Condition, values: Mapping[str, int]) -> None:
    value = condition.value
    match condition.kind:
        case "type":
            place.kind = value
        case "equals":
            place.value, place.known = value, True
        case "tensor" if value.get("dtype") is not None:
            sizes = [_size(size, values) for size in value["sizes"]]
            order = value.get("order") or range(len(sizes))
            back = sorted(range(len(sizes)), key=list(order).__getitem__)
            laid_out = torch.zeros(
                [sizes[dim] for dim in order], dtype=value["dtype"], device=value["device"]
            )
            place.value, place.known = laid_out.permute(*back), True
        case "tensor":
            place.value, place.known = torch.zeros([_size(s, values) for s in value["sizes"]]), True
        case _:
            pass


def _size(size: Any, values: Mapping[str, int]) -> int:
    return values[size] if isinstance(size, str) else 1 if size is None else size


def _made(
    function: str, for_graph: bool, name: object, place: _Place, default: object = None
) -> Any:
    if place.known:
        return place.value
    inside = place.inside
    if not inside:
        return None if default is Parameter.empty else default
    made = partial(_made, function, for_graph)
    if place.kind == "dict":
        return {key: made(key, each) for key, each in inside.items()}
    if place.kind in ("list", "tuple", ""):
        items = [made(key, inside.get(key, _Place())) for key in range(max(inside) + 1)]
        return items if place.kind == "list" else tuple(items)
    if for_graph:
        return _StandIn({key: made(key, each) for key, each in inside.items()})
    raise CannotExport(
        function=function,
        reason=f"its argument {name!r} is a {place.kind}, of which no example can be made",
        hints=["take the tensors in it as arguments, in tuples, lists and dicts"],
    )
