"""What the inputs of an exported program must be: one condition a line, and the facts of its sizes.

Made of the guards of the trace, as far as they look at what the caller gives. All of it is data, so
that a package has it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, Final

import torch

from anyshape.errors import AnyshapeError, ExportInputError
from anyshape.guards.path import Access, Path
from anyshape.symbolic import Fact, Range, Symbol, as_symbol, holds, parse_fact, symbol

#: A way into the arguments: the parameter, then items (`["item", 0]`) and attributes.
Way = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is checked of what lies at the end of a way."""

    way: Way
    kind: str
    value: Any

    @property
    def name(self) -> str:
        return text_of(self.way)


@dataclass(frozen=True, slots=True)
class SizeSource:
    """Where the value of a symbol is found: a dimension, or (None) an integer."""

    symbol: str
    way: Way
    dim: int | None

    @property
    def name(self) -> str:
        return text_of(self.way) if self.dim is None else f"{text_of(self.way)}.shape[{self.dim}]"


def text_of(way: Way) -> str:
    """As a program would write it."""
    first, *steps = way
    return str(first) + "".join(
        f"[{key!r}]" if kind == "item" else f".{key}" for kind, key in steps
    )


def starred_in(signature: Signature) -> list[str]:
    """The parameters that take any named argument."""
    every = signature.parameters.values()
    return [each.name for each in every if each.kind is Parameter.VAR_KEYWORD]


def way_of(path: Path) -> Way:
    steps: list[tuple[str, Any]] = []
    at: Path = path
    while at.parent is not None:
        steps.append(("item" if at.access is Access.ITEM else "attribute", at.key))
        at = at.parent
    return (at.key, *reversed(steps))


class Inputs:
    """The conditions of a program."""

    def __init__(
        self,
        conditions: Sequence[Condition],
        sources: Sequence[SizeSource],
        ranges: Mapping[str, Range],
        facts: Sequence[str],
        starred: Iterable[str] = (),
    ) -> None:
        #: the parameters that take any named argument
        self.starred: Final = frozenset(starred)
        self.conditions: Final = tuple(conditions)
        self.sources: Final = tuple(sources)
        self.ranges: Final = dict(ranges)
        #: what holds of the symbols, as text
        self.facts: Final = tuple(facts)
        symbols = {name: symbol(name, range_) for name, range_ in ranges.items()}
        self._symbols = {name: as_symbol(made) for name, made in symbols.items()}
        self._facts = [(text, parse_fact(text, symbols)) for text in facts]
        self._homes: dict[str, SizeSource] = {}
        for source in sources:
            self._homes.setdefault(source.symbol, source)

    @property
    def homes(self) -> Mapping[str, SizeSource]:
        """The first source of each symbol."""
        return self._homes

    def check(self, function: str, bound: dict[str, Any]) -> None:
        """An error that lists everything wrong with a call. A tensor that lies in memory in another
        order than the program was captured with is replaced by a copy that does not."""
        problems = list(self._problems(bound))
        if problems:
            raise ExportInputError(function=function, problems=tuple(dict.fromkeys(problems)))

    def _problems(self, bound: dict[str, Any]) -> Iterator[str]:
        broken: set[Way] = set()
        for condition in self.conditions:
            if any(condition.way[: len(way)] == way for way in broken):
                continue  # what lies inside of something wrong
            value, missing = find(bound, condition.way)
            problem = missing or _CHECKS[condition.kind](self, condition, value, bound)
            if problem:
                broken.add(condition.way)
                yield problem
        if not broken:
            yield from self._sizes(bound)

    def _sizes(self, bound: Mapping[str, Any]) -> Iterator[str]:
        values: dict[Symbol, int] = {}
        for source in self.sources:
            found, missing = find(bound, source.way)
            if missing or (source.dim is None and type(found) is not int):
                yield missing or f"{source.name} is {found!r}, where an integer is expected"
                return
            value: int = found if source.dim is None else found.shape[source.dim]  # pyright: ignore[reportAttributeAccessIssue] a tensor
            known = values.setdefault(self._symbols[source.symbol], int(value))
            home = self._homes[source.symbol]
            if known != value:
                yield f"{source.name} is {value}, where {source.symbol} is {known} ({home.name})"
        for name, allowed in self.ranges.items():
            made = self._symbols[name]
            if made in values and not allowed.contains(values[made]):
                where = self._homes[name].name
                named = "" if name == where else f"{name} "
                yield f"{where} is {values[made]}, where {named}is in {allowed}".replace("  ", " ")
        for text, fact in self._facts:
            if not _holds(fact, values):
                shown = ", ".join(
                    f"{each.name}={values[each]} ({self._homes[each.name].name})"
                    for each in sorted(fact.symbols, key=lambda each: each.name)
                )
                yield f"`{text}` does not hold, with {shown}"


def _holds(fact: Fact, values: Mapping[Symbol, int]) -> bool:
    try:
        return holds(fact, values)
    except AnyshapeError:
        return False  # a division by a size that is 0


def find(bound: Mapping[str, Any], way: Way) -> tuple[Any, str]:
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


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of sizes {list(value.shape)}"
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"


def _tensor(inputs: Inputs, condition: Condition, value: Any, bound: dict[str, Any]) -> str:
    name, wanted = condition.name, condition.value
    if not isinstance(value, torch.Tensor):
        return f"{name} is {_shown(value)}, where a tensor is expected"
    if value.dim() != len(wanted["sizes"]):
        sizes = ", ".join(map(str, wanted["sizes"]))
        return f"{name} has the sizes {list(value.shape)}, where [{sizes}] are expected"
    if wanted.get("dtype") is not None and value.dtype is not wanted["dtype"]:
        return f"{name} is of {value.dtype}, where {wanted['dtype']} is expected"
    if wanted.get("device") is not None and value.device != wanted["device"]:
        return f"{name} is on {value.device}, where {wanted['device']} is expected"
    if value.layout is not torch.strided:
        return f"{name} is a {value.layout} tensor, where a dense one is expected"
    for dim, size in enumerate(wanted["sizes"]):
        if type(size) is int and value.shape[dim] != size:
            return f"{name}.shape[{dim}] is {value.shape[dim]}, where it is static: {size}"
    order = wanted.get("order")
    if order is not None and not _lies_in(value, order):
        return _laid_out(condition, value, bound)
    strides = wanted.get("strides")
    if strides is not None and tuple(value.stride()) != tuple(strides):
        return f"{name} has the strides {value.stride()}, where {tuple(strides)} are expected"
    return ""


def _lies_in(value: torch.Tensor, order: Sequence[int]) -> bool:
    if not value.numel():
        return True
    expected = 1
    for dim in reversed(order):
        if value.shape[dim] != 1 and value.stride(dim) != expected:
            return False
        expected *= value.shape[dim]
    return True


def _laid_out(condition: Condition, value: torch.Tensor, bound: dict[str, Any]) -> str:
    order = condition.value["order"]
    if len(condition.way) > 1 or condition.value.get("changed"):
        return f"{condition.name} does not lie in memory in the order {list(order)} of dimensions"
    back = sorted(range(len(order)), key=list(order).__getitem__)
    parameter = next(iter(condition.way))
    bound[parameter] = value.permute(*order).contiguous().permute(*back)
    return ""


def _equals(inputs: Inputs, condition: Condition, value: Any, bound: Any) -> str:
    wanted = condition.value
    same = type(value) is type(wanted) and (
        value == wanted or (value != value and wanted != wanted)
    )
    if same:
        return ""
    return f"{condition.name} is {_shown(value)}, where it is static: {wanted!r}"


def _type(inputs: Inputs, condition: Condition, value: Any, bound: Any) -> str:
    if type_name(type(value)) == condition.value:
        return ""
    return f"{condition.name} is a {type_name(type(value))}, where a {condition.value} is expected"


def type_name(kind: Any) -> str:
    if getattr(kind, "__module__", "") == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _identity(inputs: Inputs, condition: Condition, value: Any, bound: Any) -> str:
    if named(value) == condition.value:
        return ""
    return f"{condition.name} is {_shown(value)}, where {condition.value} is expected"


def named(value: Any) -> str:
    """What an object that is compared by identity is called in a package."""
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else f"{type_name(type(value))}.{value}"


def _length(inputs: Inputs, condition: Condition, value: Any, bound: Any) -> str:
    if len(value) == condition.value:
        return ""
    return f"{condition.name} has {len(value)} items, where {condition.value} are expected"


def _keys(inputs: Inputs, condition: Condition, value: Any, bound: dict[str, Any]) -> str:
    expected = list(condition.value)
    if list(value) == expected:
        return ""
    first, *inside = condition.way
    if not inside and first in inputs.starred and set(value) == set(expected):
        # Named arguments in another order than in the example: put back into that one.
        bound[first] = {key: value[key] for key in expected}
        return ""
    return f"{condition.name} has the keys {list(value)}, where {expected} are expected"


def _members(inputs: Inputs, condition: Condition, value: Any, bound: Any) -> str:
    if set(value) == set(condition.value):
        return ""
    return f"{condition.name} is {_shown(value)}, where {set(condition.value)} is expected"


def _contains(inputs: Inputs, condition: Condition, value: Any, bound: Any) -> str:
    key, present = condition.value
    if (key in value) is present:
        return ""
    return f"{condition.name} has {'no' if present else 'a'} key {key!r}, unlike the example"


def _without(inputs: Inputs, condition: Condition, value: Any, bound: Any) -> str:
    if condition.value not in getattr(value, "__dict__", {}):
        return ""
    return f"{condition.name} has an attribute {condition.value!r}, unlike the example"


def _truth(inputs: Inputs, condition: Condition, value: Any, bound: Any) -> str:
    if bool(value) is condition.value:
        return ""
    return f"{condition.name} is {'empty' if condition.value else 'not empty'}, unlike the example"


def _same(inputs: Inputs, condition: Condition, value: Any, bound: Any) -> str:
    other, missing = find(bound, condition.value)
    if missing or other is value:
        return missing
    return f"{condition.name} and {text_of(condition.value)} are different objects"


def _distinct(inputs: Inputs, condition: Condition, value: Any, bound: Any) -> str:
    found = [find(bound, way)[0] for way in condition.value]
    if len({id(each) for each in found}) == len(found):
        return ""
    names = ", ".join(map(text_of, condition.value))
    return f"two of {names} are the same object, and the program changes one"


_CHECKS: Final[dict[str, Callable[[Inputs, Condition, Any, dict[str, Any]], str]]] = {
    "tensor": _tensor,
    "equals": _equals,
    "type": _type,
    "identity": _identity,
    "length": _length,
    "keys": _keys,
    "members": _members,
    "contains": _contains,
    "without": _without,
    "truth": _truth,
    "same": _same,
    "distinct": _distinct,
}
KINDS: Final = frozenset(_CHECKS)
