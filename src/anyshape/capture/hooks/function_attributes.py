"""Attributes of functions: what a function says of itself, and what a decorator writes on it."""

from __future__ import annotations

import types
from typing import Any, Final

from anyshape.capture.abort import AbortCapture
from anyshape.capture.externals.external_objects import Externals
from anyshape.capture.hooks.class_lookups import is_trusted
from anyshape.capture.rewrite.instrument import is_instrumented, original_closure
from anyshape.capture.rewrite.nodes import HOOKS
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS
from anyshape.guards.guard import Kind

#: What a function says of itself: texts, and what follows from its being a function.
_FACTS: Final = frozenset(
    {"__name__", "__qualname__", "__module__", "__doc__", "__call__", "__get__"}
)
#: What it holds for its callers, and others may replace.
_HELD: Final = frozenset({"__defaults__", "__kwdefaults__", "__annotations__", "__type_params__"})
#: What a decorator may set on a function that the program made.
_SET: Final = frozenset(
    {
        *("__name__", "__qualname__", "__module__", "__doc__"),
        *("__annotations__", "__type_params__", "__annotate__"),
    }
)


class FunctionAttributes:
    """Attributes of Python functions in one capture."""

    def __init__(self, tracer: Tracer, outside: Externals) -> None:
        self._tracer = tracer
        self._outside = outside

    def get(self, function: types.FunctionType, name: str) -> Any:
        journal = self._outside.journal
        if journal.is_set(function.__dict__, name):
            place = self._tracer.constant(function).attribute("__dict__")
            return journal.written(function.__dict__, name, place)
        if self.is_own(function):
            return self._of_own(function, name)
        path = self._tracer.constant(function)
        if name in function.__dict__:
            return self._tracer.read(function.__dict__[name], path.instance(name))
        if name in _FACTS:
            return self.fact(function, function.__module__, name)
        if name == "__class__":
            return types.FunctionType
        if name == "__code__":
            self._tracer.guard(Kind.IDENTITY, path.attribute(name), function.__code__)
            return function.__code__
        if name == "__dict__":
            return self._dictionary(function)
        if name in _HELD and hasattr(function, name):
            return self._tracer.read(getattr(function, name), path.attribute(name))
        if hasattr(function, name):
            raise AbortCapture(f"`{name}` of a function")
        self._tracer.guard(Kind.NO_INSTANCE_ATTRIBUTE, path, name)
        return getattr(function, name)  # raises

    def is_own(self, function: types.FunctionType) -> bool:
        """Whether the program made the function while it was watched: in this capture, since what
        an earlier one made is outside by now."""
        if not is_instrumented(function.__code__):
            return False
        names = function.__code__.co_freevars
        if HOOKS not in names or function.__closure__ is None:
            raise AbortCapture("an attribute of a function that nothing says the maker of")
        hooks = function.__closure__[names.index(HOOKS)].cell_contents
        return getattr(hooks, "tracer", None) is self._tracer

    def _of_own(self, function: types.FunctionType, name: str) -> object:
        if name == "__closure__":
            return original_closure(function)
        if name in ("__code__", "__globals__"):
            raise AbortCapture(f"`{name}` of a function that the program made")
        return getattr(function, name)

    def _dictionary(self, function: types.FunctionType) -> dict[str, object]:
        self._outside.own_dictionary(function.__dict__, self._tracer.constant(function))
        return function.__dict__

    def fact(self, thing: object, module: object, name: str) -> Any:
        """What a class or a function says of itself: mostly its names."""
        value = getattr(thing, name)
        if not is_trusted(module) and type(value) in ATOMS:
            self._tracer.guard(Kind.EQUALS, self._tracer.constant(thing).attribute(name), value)
        return value

    def set(self, function: types.FunctionType, name: str, value: object) -> bool:
        """Set an attribute of a function that the program made; False if it is none of those that
        a descriptor of the class keeps."""
        if name not in _SET:
            return False
        setattr(function, name, value)
        return True
