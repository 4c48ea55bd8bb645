"""`import` inside a function: Python asks `sys.modules` each time, and so does a guard."""

from __future__ import annotations

import builtins
import importlib.util
import sys
import types
from typing import Any

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Kind


def imported(
    hooks: Hooks, value: object, module: str, name: str | None, level: int, frame: Any
) -> object:
    """What `import module` or `from module import name` has bound to a variable.

    The import itself has happened: what it loaded stays loaded as long as the guards hold.
    """
    tracer = hooks.tracer
    where = tracer.constant(vars(builtins), "builtins").item("__import__")
    tracer.guard(Kind.IDENTITY, where, builtins.__import__, "it imports")
    full = module if level == 0 else _absolute(hooks, module, level, frame.globals)
    if name is None:
        _loaded(hooks, full, value)
        return value
    source = sys.modules.get(full)
    if source is None:
        raise AbortCapture(f"module {full} is not in sys.modules after its import")
    _loaded(hooks, full, source)
    if name in vars(source):
        return hooks.attributes.get(source, name)
    if sys.modules.get(f"{full}.{name}") is value:
        return value  # A submodule is an attribute of its package, once it is loaded.
    if isinstance(value, CODE) or type(value) in ATOMS:
        tracer.guard(Kind.PREDICATE, tracer.constant(source), Gives(name, value), "it imports")
        return value
    raise AbortCapture(
        f"`{name}`, made by `__getattr__` of module {full}, is imported inside the function"
    )


class Gives:
    """A guard: whether a module that makes up an attribute still gives the same."""

    def __init__(self, name: str, value: object) -> None:
        self._name = name
        self._value = value
        self.__qualname__ = f"{name} is what it was"

    def __call__(self, module: object) -> bool:
        found = getattr(module, self._name, None)
        return found is self._value or (type(found) in ATOMS and found == self._value)


def _absolute(hooks: Hooks, module: str, level: int, globals_: dict[str, Any]) -> str:
    """The full name of a module that is named relative to the package of the program."""
    package = globals_.get("__package__")
    if not isinstance(package, str):
        raise AbortCapture("a relative import without a package")
    where = hooks.tracer.constant(globals_, "G").item("__package__")
    hooks.tracer.guard(Kind.EQUALS, where, package, "it imports")
    return importlib.util.resolve_name("." * level + module, package)


def _loaded(hooks: Hooks, name: str, module: object) -> None:
    """Guard which module has a name. `import a.b as c` gives an attribute of `a`."""
    held = sys.modules.get(name)
    held_in: object = sys.modules
    modules = hooks.tracer.constant(held_in, "sys.modules")
    if held is None or not isinstance(held, types.ModuleType):
        raise AbortCapture(f"`{name}` in sys.modules is no module")
    hooks.tracer.guard(Kind.IDENTITY, modules.item(name), held, "it imports")
    if held is module:
        return
    parent, _, last = name.rpartition(".")
    if not parent or vars(sys.modules[parent]).get(last) is not module:
        raise AbortCapture(f"`import {name}` gives something else than the module of that name")
    _loaded(hooks, parent, sys.modules[parent])
    hooks.attributes.get(sys.modules[parent], last)
