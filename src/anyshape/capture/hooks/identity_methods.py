"""Classes that say in Python what `object` says anyway: equal to itself, and to nothing else.

Sets and dictionaries look for their instances by identity, so that no code of theirs has to run
there: what it would say is known.
"""

from __future__ import annotations

import builtins
import inspect
import types
from typing import Final

import torch


class _Written:
    """The ways to write it. Names of arguments are not part of the code."""

    def by_id(self) -> int:
        return id(self)

    def by_object(self) -> int:
        return object.__hash__(self)

    def by_is(self, other: object) -> bool:
        return self is other

    def by_ids(self, other: object) -> bool:
        return id(self) == id(other)


def _form(function: types.FunctionType) -> tuple[object, ...]:
    """What two functions have in common that do the same, whatever they are called."""
    code = function.__code__
    constants = [each for each in code.co_consts if each is not None and type(each) is not str]
    counts = (code.co_argcount, code.co_kwonlyargcount, code.co_flags & _KINDS, code.co_freevars)
    return code.co_code, code.co_names, tuple(constants), counts


#: `*args`, `**kwargs`, generators, coroutines
_KINDS: Final = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


_FORMS: Final[dict[str, frozenset[tuple[object, ...]]]] = {
    "__hash__": frozenset(map(_form, (_Written.by_id, _Written.by_object))),
    "__eq__": frozenset(map(_form, (_Written.by_is, _Written.by_ids))),
}


def told_by_identity(kind: type) -> list[types.FunctionType] | None:
    """The functions of a class that tell its instances apart, all by identity: none if it leaves
    that to `object`. None if it has a way of its own."""
    if issubclass(kind, torch.Tensor):
        return None
    found: list[types.FunctionType] = []
    for name, forms in _FORMS.items():
        own = getattr(kind, name)
        if own is getattr(object, name):
            continue
        if type(own) is not types.FunctionType or _form(own) not in forms:
            return None
        if any(_looked_up(own, each) is not meant for each, meant in builtins_in(own)):
            return None
        found.append(own)
    return found


def builtins_in(function: types.FunctionType) -> list[tuple[str, object]]:
    """The names in such a function, and what they have to mean."""
    names = {"id": id, "object": object}
    return [(name, names[name]) for name in function.__code__.co_names if name in names]


def _looked_up(function: types.FunctionType, name: str) -> object:
    """What a name means in a function, if it means what it does everywhere."""
    return None if name in function.__globals__ else vars(builtins).get(name)
