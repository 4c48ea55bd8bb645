"""What classes hold: looked up in their order, and guarded once for each class and name.

A class attribute is guarded on the class that has it, and on the classes before it, which do not;
so is the order of the classes itself.
"""

from __future__ import annotations

import abc
import functools
import types
from typing import Final

from anyshape.capture.abort import AbortCapture
from anyshape.capture.externals.side_effects import Journal
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import CODE
from anyshape.guards.guard import Kind
from anyshape.guards.replaced_functions import replaced

_MISSING: Final = object()
#: `Py_TPFLAGS_HEAPTYPE`
_MADE_BY_CLASS: Final = 1 << 9

#: Modules and classes whose own attributes are taken for constant: replacing a function of Python's
#: library while a program runs is not something that guards look for. What is found in those of
#: torch is noted once for the process (`guards/replaced_functions.py`).
_TRUSTED_ROOTS: Final = frozenset(
    {
        "torch",
        "math",
        "operator",
        "functools",
        "itertools",
        "collections",
        "typing",
        "types",
        "builtins",
        "abc",
        "enum",
        "dataclasses",
        "contextlib",
        "warnings",
        "copy",
        "inspect",
        "numpy",
        "logging",
    }
)


def is_trusted(name: object) -> bool:
    return isinstance(name, str) and _trusted_root(name) is not None


@functools.lru_cache(maxsize=4096)
def _trusted_root(name: str) -> str | None:
    root = name.partition(".")[0]
    return root if root in _TRUSTED_ROOTS else None


class ClassLookups:
    """Look-ups in one capture."""

    def __init__(self, tracer: Tracer, journal: Journal) -> None:
        self._tracer = tracer
        self._journal = journal
        self._found: dict[tuple[type, str], tuple[type, object] | None] = {}
        #: classes whose order of bases is guarded
        self._ordered: set[type] = set()
        #: pairs of a class and an abstract one
        self._compared: set[tuple[type, type]] = set()

    def attribute(self, owner: type, name: str) -> tuple[type, object] | None:
        """The class in the resolution order that holds the name, and what it holds; guarded."""
        key = (owner, name)
        found = self._found.get(key, _MISSING)
        if found is _MISSING:
            self.order(owner)
            found = self._found[key] = self.look_up(owner.__mro__, name)
        return found  # pyright: ignore[reportReturnType] not the mark

    def order(self, owner: type) -> None:
        """Guard the order in which the class and its bases are asked."""
        if owner not in self._ordered and not is_trusted(owner.__module__):
            self._ordered.add(owner)
            if type(owner).__getattribute__ is not type.__getattribute__:
                raise AbortCapture(
                    f"a class whose metaclass {type(owner).__name__} looks up attributes"
                )
            if type(owner) is not type:
                self.attribute(type(owner), "__getattribute__")
            path = self._tracer.constant(owner).attribute("__mro__")
            self._tracer.guard(Kind.IDENTITY, path, owner.__mro__)

    def look_up(self, order: tuple[type, ...], name: str) -> tuple[type, object] | None:
        tracer = self._tracer
        for holder in order:
            module = holder.__module__
            root = _trusted_root(module) if type(module) is str else None
            trusted = root is not None
            if root == "torch" and not replaced.knows(holder, name) and _can_change(holder):
                replaced.note_class(holder, {name})
            if name in holder.__dict__:
                value = holder.__dict__[name]
                if not trusted and not self._journal.is_written(holder, name):
                    path = tracer.constant(holder).instance(name)
                    if isinstance(value, CODE) or _is_descriptor(value):
                        tracer.guard(Kind.IDENTITY, path, value)
                    else:
                        # It may be hidden by the instance, as no descriptor would be.
                        tracer.guard(Kind.TYPE, path, type(value))
                return holder, value
            if not trusted:
                tracer.guard(Kind.NO_INSTANCE_ATTRIBUTE, tracer.constant(holder), name)
        return None

    def subclass(self, kind: type, base: object) -> None:
        """Guard whether a class is a subclass of another, as it is now."""
        if is_trusted(kind.__module__):
            return  # Its bases stay, and nobody registers it anew.
        self.order(kind)
        if not isinstance(base, abc.ABCMeta) or base in kind.__mro__:
            return
        if (kind, base) not in self._compared:
            self._compared.add((kind, base))
            check = StillSubclass(kind, base)
            self._tracer.guard(Kind.PREDICATE, self._tracer.constant(check), check)


def _can_change(owner: type) -> bool:
    """Whether attributes of a class can be set: not of those that are written in C."""
    return bool(owner.__flags__ & _MADE_BY_CLASS)


class StillSubclass:
    """Whether an abstract class says of another one what it said before."""

    def __init__(self, kind: type, base: type) -> None:
        self._kind = kind
        self._base = base
        self._expected = issubclass(kind, base)
        self.__qualname__ = f"issubclass({kind.__qualname__}, {base.__qualname__})"

    def __call__(self, _: object) -> bool:
        return issubclass(self._kind, self._base) is self._expected


def _is_descriptor(value: object) -> bool:
    return hasattr(type(value), "__get__") or is_set_through(value)


def is_set_through(value: object) -> bool:
    """Whether setting or deleting an attribute of that name asks this object."""
    kind = type(value)
    if kind is types.FunctionType:
        return False
    return hasattr(kind, "__set__") or hasattr(kind, "__delete__")


def reads_first(value: object) -> bool:
    """Whether it is asked before the instance's own dictionary is looked into."""
    return is_set_through(value) and hasattr(type(value), "__get__")


_PLAINLY_BOUND: Final = (
    types.FunctionType,
    types.BuiltinFunctionType,
    functools._lru_cache_wrapper,
)


def check_binder(value: object) -> None:
    """Native code is about to bind a class attribute: not if that runs user code."""
    if isinstance(value, classmethod) and not isinstance(value.__func__, _PLAINLY_BOUND):
        raise AbortCapture(f"a class method that is a {type(value.__func__).__name__}")
    if not isinstance(value, (*CODE, *_PLAINLY_BOUND)):
        raise AbortCapture(f"a native descriptor: {type(value).__name__}")
