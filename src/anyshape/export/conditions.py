"""What is checked of one argument, or of something inside of it: data, so that packages have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import torch

from anyshape.guards.guard import Kind
from anyshape.guards.kinds import HOLDS
from anyshape.guards.values import is_dense
from anyshape.support.lazy_dataclass import dataclass, field

#: A way into the arguments: the parameter, then items (`["item", 0]`) and attributes.
ConditionPath = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is checked of what lies at the end of a way."""

    way: ConditionPath
    kind: str
    value: Any
    #: what the caller calls it, if that is not the way to it
    called: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        return self.called or text_of(self.way)


class CheckContext(Protocol):
    """What a check may ask of the program."""

    @property
    def starred(self) -> frozenset[str]:
        """The parameters that take any named argument."""
        ...

    def size_text(self, size: str | int | None) -> str: ...


def called(way: ConditionPath, starred: frozenset[str]) -> str:
    """As a caller would write it: what is given by name to a parameter that takes any, by that."""
    first, *steps = way
    if first not in starred or not steps:
        return text_of(way)
    (_, name), *steps = steps
    return text_of((name, *steps))


def text_of(way: ConditionPath) -> str:
    """As a program would write it."""
    first, *steps = way
    return str(first) + "".join(
        f"[{key!r}]" if kind == "item" else f".{key}" for kind, key in steps
    )


def find(bound: Mapping[str, Any], way: ConditionPath) -> tuple[Any, str]:
    """What lies at the end of a way, or a sentence that says it is not there."""
    first, *steps = way
    if first not in bound:
        return None, f"{first} is missing"
    value, at = bound[first], (first,)
    for step in steps:
        kind, key = step
        at = (*at, step)
        try:
            value = value[key] if kind == "item" else getattr(value, key)
        except (LookupError, TypeError, AttributeError):
            return None, f"{text_of(at)} is missing"
    return value, ""


# -- conditions ------------------------------------------------------------------------------------


def _shown(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of sizes {list(value.shape)}"
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"


def _tensor(
    call: CheckContext, condition: Condition, value: object, bound: dict[str, object]
) -> str:
    name, wanted = condition.name, condition.value
    if not isinstance(value, torch.Tensor):
        return f"{name} is {_shown(value)}, where a tensor is expected"
    if value.is_nested or value.layout is not torch.strided:
        # First of all: a nested tensor has no sizes.
        kind = "nested" if value.is_nested else value.layout
        return f"{name} is a {kind} tensor, where a dense one is expected"
    if value.dim() != len(wanted["sizes"]):
        sizes = ", ".join(map(call.size_text, wanted["sizes"]))
        return f"{name} has the sizes {list(value.shape)}, where [{sizes}] are expected"
    if wanted.get("dtype") is not None and value.dtype is not wanted["dtype"]:
        return f"{name} is of {value.dtype}, where {wanted['dtype']} is expected"
    if wanted.get("device") is not None and value.device != wanted["device"]:
        return f"{name} is on {value.device}, where {wanted['device']} is expected"
    for dim, size in enumerate(wanted["sizes"]):
        if type(size) is int and value.shape[dim] != size:
            return f"{name}.shape[{dim}] is {value.shape[dim]}, where it is static: {size}"
    order = wanted.get("order")
    if order is not None and not is_dense(value.shape, value.stride(), order):
        return _laid_out(call, condition, value, bound)
    strides = wanted.get("strides")
    if strides is not None and tuple(value.stride()) != tuple(strides):
        return f"{name} has the strides {value.stride()}, where {tuple(strides)} are expected"
    return ""


def _laid_out(
    call: CheckContext, condition: Condition, value: torch.Tensor, bound: dict[str, Any]
) -> str:
    """Whether a tensor is fine that does not lie in the order of the example's. Most programs are
    the same for it, and raise what they would. Packages of earlier versions do not say so: they get
    a copy instead of an argument; what lies in the caller's objects is not replaced."""
    order, (first, *steps) = condition.value["order"], condition.way
    by_name = first in call.starred and len(steps) == 1
    fine = condition.value.get("any_order")
    changed = condition.value.get("changed")
    if fine and not changed:
        return ""
    if fine is False or (steps and not by_name) or changed:
        natural = list(order) == sorted(order)
        meant = "is not contiguous" if natural else f"has not its dimensions in the order {order}"
        remedy = f"; give {condition.name}.contiguous()" if natural and not changed else ""
        return f"{condition.name} {meant}, as it lies in memory, and the example was so{remedy}"
    back = sorted(range(len(order)), key=list(order).__getitem__)
    made = value.permute(*order).contiguous().permute(*back)
    # The dictionary of named arguments is that of this call.
    bound[first] = {**bound[first], steps[0][1]: made} if by_name else made
    return ""


def _type(call: CheckContext, condition: Condition, value: object, bound: object) -> str:
    if type_name(type(value)) == condition.value:
        return ""
    return f"{condition.name} is a {type_name(type(value))}, where a {condition.value} is expected"


def type_name(kind: Any) -> str:
    if getattr(kind, "__module__", "") == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _identity(call: CheckContext, condition: Condition, value: object, bound: object) -> str:
    if named(value) == condition.value:
        return ""
    return f"{condition.name} is {_shown(value)}, where {condition.value} is expected"


def named(value: object) -> str:
    """What an object that is compared by identity is called in a package."""
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else f"{type_name(type(value))}.{value}"


def _keys(call: CheckContext, condition: Condition, value: Any, bound: dict[str, object]) -> str:
    expected = list(condition.value)
    if list(value) == expected:
        return ""
    first, *inside = condition.way
    if not inside and first in call.starred:
        problems = [f"{key} is missing" for key in expected if key not in value]
        problems += [f"{key} is not expected" for key in value if key not in expected]
        if problems:
            return f"{', '.join(problems)}: the named arguments are {', '.join(expected) or 'none'}"
        # Named arguments in another order than in the example: put back into that one.
        bound[first] = {key: value[key] for key in expected}
        return ""
    # The program may look at the order, as a result that is a dictionary does.
    order = " in this order" if sorted(map(repr, value)) == sorted(map(repr, expected)) else ""
    return f"{condition.name} has the keys {list(value)}, where {expected} are expected{order}"


Check = Callable[[CheckContext, Condition, Any, dict[str, object]], str]


def _as_guard(kind: Kind, sentence: Callable[[Any, Any], str]) -> Check:
    """What a guard of that kind says; the sentence is of what is there, and of what was wanted."""
    holds = HOLDS[kind]

    def check(call: CheckContext, condition: Condition, value: object, bound: object) -> str:
        if holds(value, condition.value):
            return ""
        return f"{condition.name} {sentence(value, condition.value)}"

    return check


def _same(call: CheckContext, condition: Condition, value: object, bound: dict[str, object]) -> str:
    other, missing = find(bound, condition.value)
    if missing or other is value:
        return missing
    return f"{condition.name} and {text_of(condition.value)} are different objects"


def _distinct(
    call: CheckContext, condition: Condition, value: object, bound: dict[str, object]
) -> str:
    found = [find(bound, way)[0] for way in condition.value]
    if len({id(each) for each in found}) == len(found):
        return ""
    names = ", ".join(map(text_of, condition.value))
    return f"two of {names} are the same object, and the program changes one"


CHECKS: Final[dict[str, Check]] = {
    "tensor": _tensor,
    "type": _type,
    "identity": _identity,
    "keys": _keys,
    "same": _same,
    "distinct": _distinct,
    "equals": _as_guard(
        Kind.EQUALS, lambda value, wanted: f"is {_shown(value)}, where it is static: {wanted!r}"
    ),
    "length": _as_guard(
        Kind.LENGTH, lambda value, wanted: f"is of length {len(value)}, where {wanted} is expected"
    ),
    "members": _as_guard(
        Kind.MEMBERS, lambda value, wanted: f"is {_shown(value)}, where {set(wanted)} is expected"
    ),
    "contains": _as_guard(
        Kind.CONTAINS,
        lambda _, wanted: f"has {'no' if wanted[1] else 'a'} key {wanted[0]!r}, unlike the example",
    ),
    "without": _as_guard(
        Kind.NO_INSTANCE_ATTRIBUTE,
        lambda _, name: f"has an attribute {name!r}, unlike the example",
    ),
    "truth": _as_guard(
        Kind.TRUTH,
        lambda _, wanted: f"is {'empty' if wanted else 'not empty'}, unlike the example",
    ),
}
