"""Where a value from outside may stand: how a program reads it, and how it is put there."""

from __future__ import annotations

import contextvars
import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent
from typing import Any, NamedTuple

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Place:
    """`text` is the function around a `{body}`; `put` makes a value stand there for the next call,
    and gives the further arguments of the call."""

    name: str
    text: str
    put: Callable[[dict[str, Any], Any], Arguments]

    def source(self, body: str) -> str:
        text = self.text
        depth = next(line for line in text.splitlines() if "{body}" in line).index("{")
        return text.replace(" " * depth + "{body}", indent(body, " " * depth))


class Box:
    """An object with attributes."""

    v: Any = None
    held: Any = None

    @property
    def through_property(self) -> Any:
        return self.held


class SlottedBox:
    __slots__ = ("v",)


@dataclasses.dataclass
class Record:
    v: Any


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenRecord:
    v: Any


class Named(NamedTuple):
    v: Any


class Owner:
    """A class whose attribute it is."""

    v: Any = None


class Inherits(Owner):
    pass


VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("boundary")


def _global(names: dict[str, Any], value: Any) -> Arguments:
    names["V"] = value
    return (), {}


def _cell(names: dict[str, Any], value: Any) -> Arguments:
    names["f"].__closure__[0].cell_contents = value
    return (), {}


def _default(names: dict[str, Any], value: Any) -> Arguments:
    names["f"].__defaults__ = (value,)
    return (), {}


def _keyword_default(names: dict[str, Any], value: Any) -> Arguments:
    names["f"].__kwdefaults__ = {"v": value}
    return (), {}


def _inner_default(names: dict[str, Any], value: Any) -> Arguments:
    names["inner"].__defaults__ = (value,)
    return (), {}


def _class_attribute(names: dict[str, Any], value: Any) -> Arguments:
    names.setdefault("Owner", type("Owner", (), {})).v = _unbound(value)
    return (), {}


def _inherited(names: dict[str, Any], value: Any) -> Arguments:
    owner = names.setdefault("Owner", type("Owner", (), {}))
    inherits = names.setdefault("Inherits", type("Inherits", (owner,), {}))
    owner.v = _unbound(value)
    return (inherits(),), {}


def _unbound(value: Any) -> Any:
    """A function would become a method of the class that holds it."""
    return staticmethod(value) if isinstance(value, types.FunctionType) else value


def _context_variable(names: dict[str, Any], value: Any) -> Arguments:
    VARIABLE.set(value)
    names["VARIABLE"] = VARIABLE
    return (), {}


def _module(names: dict[str, Any], value: Any) -> Arguments:
    module = names.setdefault("module", types.ModuleType("a_module"))
    module.v = value
    return (), {}


def _box(value: Any, **names: Any) -> Any:
    box = Box()
    box.__dict__.update({"v": value, **names})
    return box


def _slotted(value: Any) -> Any:
    box = SlottedBox()
    box.v = value
    return box


def _method_box(names: dict[str, Any], value: Any) -> Arguments:
    return (_box(value, held=value),), {}


def _argument(make: Callable[[Any], Any]) -> Callable[[dict[str, Any], Any], Arguments]:
    return lambda names, value: ((make(value),), {})


def _of(read: str) -> str:
    return f"def f(x, box):\n    v = {read}\n    {{body}}\n"


ARGUMENT = Place("argument", "def f(x, v):\n    {body}\n", _argument(lambda value: value))
PLACES: list[Place] = [
    ARGUMENT,
    Place("keyword", "def f(x, *, v):\n    {body}\n", lambda names, value: ((), {"v": value})),
    Place(
        "star",
        "def f(x, *args):\n    v = args[0]\n    {body}\n",
        _argument(lambda value: value),
    ),
    Place(
        "two stars",
        "def f(x, **kwargs):\n    v = kwargs['v']\n    {body}\n",
        lambda names, value: ((), {"v": value}),
    ),
    Place("element of a list", _of("box[0]"), _argument(lambda value: [value])),
    Place("element of a tuple", _of("box[0]"), _argument(lambda value: (value,))),
    Place("value of a dict", _of("box['v']"), _argument(lambda value: {"v": value})),
    Place("unpacked", _of("[*box][0]"), _argument(lambda value: [value])),
    Place("deeper", _of("box['a'][0].v"), _argument(lambda value: {"a": [_box(value)]})),
    Place("attribute", _of("box.v"), _argument(_box)),
    Place("attribute by name", _of("getattr(box, 'v')"), _argument(_box)),
    Place("slot", _of("box.v"), _argument(_slotted)),
    Place("instance dictionary", _of("box.__dict__['v']"), _argument(_box)),
    Place("property", _of("box.through_property"), _method_box),
    Place("dataclass field", _of("box.v"), _argument(Record)),
    Place("field of a frozen dataclass", _of("box.v"), _argument(FrozenRecord)),
    Place("field of a named tuple", _of("box.v"), _argument(Named)),
    Place("global", "def f(x):\n    v = V\n    {body}\n", _global),
    Place("module attribute", "def f(x):\n    v = module.v\n    {body}\n", _module),
    Place(
        "closure",
        "def outer(c):\n    def f(x):\n        v = c\n        {body}\n    return f\n"
        "f = outer(None)\n",
        _cell,
    ),
    Place("default", "def f(x, v=None):\n    {body}\n", _default),
    Place("keyword default", "def f(x, *, v=None):\n    {body}\n", _keyword_default),
    Place(
        "default of a callee",
        "def inner(x, v=None):\n    {body}\ndef f(x):\n    return inner(x)\n",
        _inner_default,
    ),
    Place("class attribute", "def f(x):\n    v = Owner.v\n    {body}\n", _class_attribute),
    Place("inherited class attribute", _of("box.v"), _inherited),
    Place("context variable", "def f(x):\n    v = VARIABLE.get()\n    {body}\n", _context_variable),
    Place(
        "argument of a callee",
        "def inner(x, v):\n    {body}\ndef f(x, v):\n    return inner(x, v)\n",
        _argument(lambda value: value),
    ),
    Place(
        "variable of a closure made inside",
        "def f(x, v):\n    def inner():\n        {body}\n    return inner()\n",
        _argument(lambda value: value),
    ),
    Place("in a new list", "def f(x, w):\n    v = [w][0]\n    {body}\n", _argument(lambda v: v)),
]
