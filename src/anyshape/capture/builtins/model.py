"""What models of native functions are given: the hooks of a capture, as far as they need them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from anyshape.capture.abort import AbortCapture
from anyshape.capture.externals.external_objects import Externals
from anyshape.capture.externals.side_effects import Journal
from anyshape.capture.hooks.attributes import Attributes
from anyshape.capture.record.recorder import Recorder
from anyshape.capture.tracer import Tracer


class Hooks(Protocol):
    """The hooks that instrumented code calls, and the parts of the capture."""

    tracer: Tracer
    recorder: Recorder
    outside: Externals
    journal: Journal
    attributes: Attributes
    callables: Any
    entered: list[tuple[object, Any]]
    #: `.grad` of tensors, if the backward is to be captured too (`builtins/backward.py`)
    grads: Any

    # What instrumented code calls.
    def call(self, function: object, /, *args: object, **kwargs: object) -> Any: ...
    def attribute(self, obj: object, name: str) -> object: ...
    def set_attribute(self, obj: object, name: str, value: object) -> None: ...
    def delete_attribute(self, obj: object, name: str) -> None: ...
    def item(self, obj: object, key: object) -> Any: ...
    def set_item(self, obj: object, key: object, value: object) -> None: ...
    def binary(self, name: str, a: object, b: object) -> object: ...
    def unary(self, name: str, a: object) -> object: ...
    def compare(self, name: str, a: object, b: object) -> object: ...
    def contains(self, item: object, container: object) -> bool: ...
    def equals(self, a: object, b: object) -> bool: ...
    def same(self, a: object, b: object) -> bool: ...
    def caught(self, error: BaseException | None = None) -> None: ...
    def truth(self, value: object) -> bool: ...
    def iterate(self, value: object) -> Any: ...
    def unpack(self, value: object) -> Any: ...
    def members(self, value: object) -> object: ...
    def mapping(self, value: object) -> Any: ...
    def key(self, key: object) -> Any: ...
    def format(self, value: object, conversion: str | None, spec: str) -> str: ...

    # What native code may look at.
    def observe(self, value: object, protocol: str) -> Any: ...
    def operand(self, value: object) -> Any: ...
    def hashed(self, key: object) -> None: ...
    def specialized(self, value: object, reason: str, protocol: str = "anything") -> Any: ...
    def with_plain_numbers(self, value: object, reason: str) -> object: ...
    def natively(self, function: Callable[..., object], *args: object) -> object: ...
    def one_object(self, value: object) -> object: ...
    def in_this_order(self, members: object) -> None: ...
    def iterate_over(self, iterator: object) -> Iterable[object]: ...


#: Models of native functions by the function.
Models = dict[Any, Callable[..., Any]]


def answered(
    hooks: Hooks,
    model: Callable[..., Any],
    function: object,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """What a model answers for a function. For what it takes by position it has its own names."""
    if kwargs and not _takes(model, len(args), frozenset(kwargs)):
        named = _by_position(function, args, kwargs)
        if named is None or not _takes(model, len(named), frozenset()):
            raise AbortCapture(f"`{getattr(function, '__name__', function)}` with names")
        return model(hooks, *named)
    return model(hooks, *args, **kwargs)


@functools.cache
def _takes(model: Callable[..., Any], count: int, names: frozenset[str]) -> bool:
    """Whether a model takes so many arguments behind the hooks, and others by these names."""
    try:
        inspect.signature(model).bind(None, *[None] * count, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def _by_position(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...] | None:
    """All arguments in their order; None if some have no place in it, or it is not known."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    return None if bound.kwargs else bound.args
