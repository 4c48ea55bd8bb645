"""The parameters of an operator: their order, their names and their defaults, written once.

They are those of its shape rule, or a text of its own where the rule has no use for all of them.
Whoever else needs arguments (native code, ONNX, what is written to) gets them by these names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from anyshape.ops.op import Op

#: Names that torch takes for the same parameter.
_SYNONYMS: Final = {
    "axis": "dim",
    "keepdims": "keepdim",
    "axes": "dims",
    "x": "input",
    "x1": "input",
    "x2": "other",
    "A": "input",
}


class Unbound(Exception):
    """A call that does not fit the parameters: torch has more forms than we know."""


class Signature:
    """What a call of an operator is bound to.

    A parameter `*dims` may also be given by its name, and as one sequence. What `**options` takes
    has its own names.
    """

    __slots__ = ("_bind", "_rest", "defaults", "first", "names", "variadic")

    def __init__(self, parameters: Sequence[inspect.Parameter], bind: Callable[..., Any]) -> None:
        #: makes a dictionary of its arguments
        self._bind = bind
        self._rest = _of_kind(parameters, inspect.Parameter.VAR_KEYWORD)
        self.variadic: Final = _of_kind(parameters, inspect.Parameter.VAR_POSITIONAL)
        self.names: Final = tuple(each.name for each in parameters if each.name != self._rest)
        self.first: Final = self.names[0] if self.names else ""
        self.defaults: Final[dict[str, Any]] = {
            each.name: each.default for each in parameters if each.default is not each.empty
        }

    @property
    def takes_rest(self) -> bool:
        """Whether it takes arguments by any name."""
        return self._rest is not None

    @staticmethod
    def of_text(text: str) -> Signature:
        """`"input, beta=1.0, *, dtype=None"`."""
        bind = eval(f"lambda {text}: locals()", {"torch": torch})
        return Signature(tuple(inspect.signature(bind).parameters.values()), bind)

    @staticmethod
    def of_rule(rule: Callable[..., Any]) -> Signature:
        """Those of a function but for its first one."""
        _, *parameters = inspect.signature(rule).parameters.values()
        plain = inspect.Signature(
            [
                each.replace(annotation=each.empty, default=_default(each, number))
                for number, each in enumerate(parameters)
            ]
        )
        values = [each.default for each in parameters]
        bind = eval(f"lambda {str(plain)[1:-1]}: locals()", {"_": values})
        return Signature(parameters, bind)

    def own_name(self, name: str) -> str:
        """What a parameter is called here that torch knows by several names."""
        if name in self.names:
            return name
        return self.first if name == "self" else _SYNONYMS.get(name, name)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments by name, with what was not given. Raises `Unbound`."""
        if kwargs:
            kwargs = {self.own_name(name): value for name, value in kwargs.items()}
        variadic = self.variadic
        if variadic is not None and variadic in kwargs:
            args = (*args, kwargs.pop(variadic))  # pyright: ignore[reportAttributeAccessIssue] ours
        try:
            bound = self._bind(*args, **kwargs)
        except TypeError as error:  # of the call itself: the function has no code that could fail
            raise Unbound(str(error).partition("() ")[2]) from None
        if self._rest is not None:
            bound |= bound.pop(self._rest)
        if variadic is not None:
            given = bound[variadic]
            if len(given) == 1 and isinstance(given[0], (tuple, list)):
                bound[variadic] = tuple(given[0])
        return bound


def _of_kind(parameters: Sequence[inspect.Parameter], kind: Any) -> str | None:
    return next((each.name for each in parameters if each.kind is kind), None)


class _Default:
    """Stands in the text of a signature for a default value."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __repr__(self) -> str:
        return f"_[{self._number}]"


def _default(parameter: inspect.Parameter, number: int) -> Any:
    return parameter.empty if parameter.default is parameter.empty else _Default(number)


# -- of operators and of their rows ---------------------------------------------------------------

_SIGNATURES: Final[dict[int, tuple[Op, Signature]]] = {}


def signature_of(op: Op) -> Signature:
    known = _SIGNATURES.get(id(op))
    if known is None:
        text = op.signature
        made = Signature.of_rule(op.rule) if text is None else Signature.of_text(text)
        known = _SIGNATURES[id(op)] = (op, made)
    return known[1]


def taken_by(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those arguments that a rule or a row of an operator takes: by their names, or `**`."""
    names, takes_rest = _parameters(function)
    if takes_rest:
        return dict(arguments)
    return {name: arguments[name] for name in names if name in arguments}


def not_taken(function: Callable[..., Any], op: Op, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Arguments that were given and that a row does not take. What it does not take has to be as
    if it were not given."""
    names, takes_rest = _parameters(function)
    if takes_rest:
        return
    defaults = signature_of(op).defaults
    for name, value in arguments.items():
        if name not in names and not _is_default(value, defaults.get(name, ())):
            yield name


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and value == default)


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    signature = Signature.of_rule(function)
    return signature.names, signature.takes_rest
