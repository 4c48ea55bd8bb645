"""Members of enumerations that are texts or numbers: methods of these give what they give of the
member, also where they look at more than its value."""

from __future__ import annotations

import enum
from typing import Any

import pytest
import torch

import anyshape
from tests.graph_breaks.random_programs import of_source


class Flag(enum.IntFlag):
    A, B = 1, 2


class Number(int, enum.Enum):
    A, B = 3, -4


class Share(float, enum.Enum):
    A, B = 1.5, -0.0


class Text(str, enum.Enum):  # noqa: UP042 another class than StrEnum, with other methods
    A, B = "x{}y", "q"


class Name(enum.StrEnum):
    A, B = "x{}y", "q"


KINDS: dict[type, type] = {Flag: int, Number: int, Share: float, Text: str, Name: str}
#: What every object has, what looks at the type, and some that look at the value alone.
METHODS = {
    *(name for name in dir(object) if name not in ("__class__", "__dir__", "__init_subclass__")),
    *("__getnewargs__", "bit_length", "conjugate", "is_integer", "format", "upper", "strip"),
}
METHODS -= {"__subclasshook__", "__delattr__", "__setattr__", "__getattribute__", "__new__"}


def _outcome(function: Any, member: Any) -> tuple[object, ...]:
    try:
        found = function(torch.ones(2), member)[1]
    except Exception as error:
        return (type(error),)
    return type(found), repr(found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_methods_of_what_they_are(kind: Any) -> None:
    plain = KINDS[kind]
    for name in sorted(METHODS & set(dir(plain))):
        arguments = {"__format__": "''", "__reduce_ex__": "2"}.get(name, "")
        if name in ("__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__"):
            arguments = "v"
        rest = f", {arguments}" if arguments else ""
        for text in (f"v.{name}({arguments})", f"{plain.__name__}.{name}(v{rest})"):
            source = f"def f(x, v):\n    return x + 1, {text}\n"
            function = of_source(source, f"{kind.__name__} {text}").build().function
            compiled = anyshape.compile(function)
            for member in (kind.A, kind.B, kind.A):
                assert _outcome(compiled, member) == _outcome(function, member), (text, member)
