"""Models of `inspect`: signatures of functions, and how arguments are bound to them.

A signature is a value that the program made, once everything it was read from is guarded.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, Final

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.builtins.pure import is_constant
from anyshape.capture.hooks.class_lookups import is_trusted
from anyshape.guards.guard import Kind


def _signature(hooks: Hooks, function: Any, **kwargs: object) -> inspect.Signature:
    if kwargs:
        raise AbortCapture("inspect.signature with options")
    _guard(hooks, function)
    return inspect.signature(function)


def _guard(hooks: Hooks, function: object) -> None:
    """Guard all that the signature of a callable is made of."""
    if isinstance(function, types.FunctionType):
        _guard_function(hooks, function)
    elif isinstance(function, types.MethodType):
        _guard(hooks, function.__func__)
    elif isinstance(function, functools.partial):
        if hooks.outside.is_external(function):
            raise AbortCapture("inspect.signature of a partial function from outside the function")
        _guard(hooks, function.func)
    elif isinstance(function, type):
        raise AbortCapture("inspect.signature of a class")
    elif isinstance(own := type(function).__call__, types.FunctionType):
        hooks.attributes.class_attribute(type(function), "__call__")
        if hasattr(function, "__signature__") or hasattr(function, "__wrapped__"):
            raise AbortCapture("inspect.signature of an object that says what it is")
        _guard(hooks, own)
    else:
        raise AbortCapture(f"inspect.signature of a {type(function).__name__}")


def _guard_function(hooks: Hooks, function: types.FunctionType) -> None:
    if "__signature__" in function.__dict__:
        raise AbortCapture("inspect.signature of a function that says what it is")
    if "__wrapped__" in function.__dict__:
        hooks.attribute(function, "__wrapped__")
        _guard(hooks, function.__wrapped__)  # pyright: ignore[reportFunctionMemberAccess] it has it
        return
    if hooks.attributes.functions.is_own(function) or is_trusted(function.__module__):
        return
    tracer = hooks.tracer
    path = tracer.constant(function)
    for name in ("__signature__", "__wrapped__"):
        tracer.guard(Kind.NO_INSTANCE_ATTRIBUTE, path, name)
    tracer.guard(Kind.IDENTITY, path.attribute("__code__"), function.__code__)
    hooks.callables.defaults(function)
    hooks.callables.no_more_defaults(function)
    where = path.attribute("__annotations__")
    tracer.guard(Kind.KEYS, where, tuple(function.__annotations__))
    for name, annotation in function.__annotations__.items():
        tracer.guard(Kind.IDENTITY, where.item(name), annotation)


def _handed_on(function: Callable[..., object]) -> Callable[..., object]:
    """A function that hands its arguments on without a look at them."""

    def model(hooks: Hooks, bound: object, *args: object, **kwargs: object) -> object:
        if hooks.outside.is_external(bound) and not is_constant(hooks, bound):
            raise AbortCapture(f"`{function.__name__}` of a signature from outside the function")
        return function(bound, *args, **kwargs)

    return model


MODELS: Final[Models] = {
    inspect.signature: _signature,
    **{
        function: _handed_on(function)
        for function in (
            inspect.Signature.bind,
            inspect.Signature.bind_partial,
            inspect.BoundArguments.apply_defaults,
            vars(inspect.BoundArguments)["args"].fget,
            vars(inspect.BoundArguments)["kwargs"].fget,
        )
    },
}
