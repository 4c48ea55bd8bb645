"""What a program asks of a float from outside that changes: `if momentum != 0`.

The float is an input of the graph. What is guarded is the answer, and not the value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from anyshape.support.lazy_dataclass import dataclass

#: stands for the float among operands
THE_FLOAT: Final = object()

_SYMBOLS: Final = {
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "pow": "**",
}


@dataclass(frozen=True, slots=True)
class Applied:
    """A function of the float and of constants."""

    function: Callable[..., object]
    args: tuple[Any, ...]

    def at(self, value: float) -> object:
        return self.function(*(_value(arg, value) for arg in self.args))

    def text(self, name: str) -> str:
        args = [_text(arg, name) for arg in self.args]
        called = getattr(self.function, "__name__", "function")
        if called in _SYMBOLS and self.function is getattr(operator, called):
            return f"{args[0]} {_SYMBOLS[called]} {args[1]}"
        return f"{called}({', '.join(args)})"

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for what is the same function."""
        return (self.function, *map(_key, self.args))


@dataclass(frozen=True, slots=True, eq=False)
class FloatAnswer:
    """Whether the answer for a float is the one that it was. To be called with the float."""

    asked: Applied
    answer: bool

    def __call__(self, value: object) -> bool:
        if type(value) is not float:
            return False
        try:
            return self.asked.at(value) is self.answer
        except Exception:
            return False  # The program itself will say.

    def text(self, name: str) -> str:
        asked = self.asked.text(name)
        return asked if self.answer else f"not ({asked})"


def _value(arg: Any, value: float) -> object:
    if arg is THE_FLOAT:
        return value
    return arg.at(value) if type(arg) is Applied else arg


def _text(arg: Any, name: str) -> str:
    if arg is THE_FLOAT:
        return name
    return f"({arg.text(name)})" if type(arg) is Applied else repr(arg)


def _key(arg: object) -> object:
    if arg is THE_FLOAT:
        return arg
    # 1, 1.0 and True are not the same, nor are zeros of both signs.
    return arg.key if isinstance(arg, Applied) else (arg.__class__, repr(arg))
