"""Functions behind `functools.lru_cache`: what they return is constant while their cache has it.

A cached function runs as native code, once: what it warns about or reads is its own affair, as long
as the next call gets its answer from the cache. A guard looks whether it would, because
`cache_clear` is how such a function is told that something has changed.

The cache is a dictionary that only the garbage collector shows. Where it cannot be found, or a key
is none that we know how to make, the capture ends.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import types
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks
from anyshape.capture.builtins.pure import is_data
from anyshape.capture.externals.external_objects import holds_traced, is_key
from anyshape.capture.externals.side_effects import Change, Effect
from anyshape.capture.externals.untrace import concretized
from anyshape.capture.numbers.concolic import TracedInt
from anyshape.capture.numbers.traced_text import TRACED_VALUES, bare
from anyshape.capture.record.torch_state import unseen
from anyshape.capture.rewrite.source import all_code
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Kind

_MISSING: Final = object()


class Caches:
    """Calls of cached functions in one capture."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._tracer = hooks.tracer
        #: by function and key: the answer, and what the program gets for it
        self._known: dict[tuple[int, object], tuple[object, object]] = {}
        #: of functions that were followed, by function and arguments: what they gave
        self._followed: dict[object, tuple[object, object]] = {}

    def forget(self) -> None:
        """Let go of the answers: to be called when nobody watches any more."""
        self._known.clear()
        self._followed.clear()

    def call(
        self, function: Any, trusted: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call it, and guard that every later run would get the same from the cache."""
        path = self._tracer.path_of(function)
        if path is not None:
            self._tracer.guard(Kind.IDENTITY, path, function)
        given = (*args, *kwargs.values())
        keys = [concretized(arg) for arg in given] if any(map(holds_traced, given)) else []
        if keys and all(map(self._is_value, keys)) and _reads_code_only(function):
            named = dict(zip(kwargs, keys[len(args) :], strict=True))
            result = self._answer(function, tuple(keys[: len(args)]), named)
            if is_data(result):
                return self._inlined(function, trusted, args, kwargs, result)
            args, kwargs = self._arguments(args, kwargs)
        else:
            args, kwargs = self._arguments(args, kwargs)
            result = self._answer(function, args, kwargs)
        key = _key_of(function, args, kwargs)
        if type(result) not in ATOMS and not isinstance(result, CODE):
            self._tracer.cannot_replay("an object comes out of a cache")
        if not trusted:
            # Every call is counted: `cache_info` tells, and the oldest answer is dropped first.
            self._hooks.journal.add(Effect(Change.CALL, None, function, (args, kwargs)))
        known = self._known.get((id(function), key))
        if known is not None:
            if known[0] is not result:
                raise AbortCapture(
                    f"the cached function `{function.__name__}` gives another result for the same"
                    " arguments"
                )
            return known[1]
        if not trusted:
            check = StillCached(function, key, args, kwargs, result)
            self._tracer.guard(Kind.PREDICATE, self._tracer.constant(check), check)
        seen = result
        if type(result) not in ATOMS and not isinstance(result, CODE):
            seen = self._tracer.read(result, self._tracer.constant(result))
        self._known[id(function), key] = (result, seen)
        return seen

    def _is_value(self, arg: object) -> bool:
        """Whether all that a cached function can read of an argument is in its key; of what another
        cached function made, nothing but data, for all who share it."""
        if _is_key(arg):
            return True
        held = any(arg is made for made, _ in self._known.values())
        return held and _is_record(arg)

    def _answer(self, function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        try:
            # It runs once for all runs: what it does is no part of the graph.
            with unseen():
                return function(*args, **kwargs)
        except Exception as error:
            self._tracer.abort(
                f"the cached function `{function.__name__}` raises {error!r}", is_error=True
            )
            raise

    def _inlined(
        self,
        function: Any,
        trusted: bool,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        answer: object,
    ) -> object:
        """What a function of numbers gives for dynamic ones: each run has its own key."""
        effects = self._hooks.journal.effects
        if not trusted:
            self._hooks.journal.add(Effect(Change.CALL, None, function, (args, kwargs)))
        key = (id(function), _symbolic(args), _symbolic(tuple(kwargs.items())))
        if key in self._followed:
            return self._followed[key][1]
        before = len(effects)
        result = self._hooks.call(function.__wrapped__, *args, **kwargs)
        if len(effects) > before:
            self._tracer.abort(f"the cached function `{function.__name__}` does more than compute")
        elif not _is_same_data(result, answer):
            self._tracer.abort(f"what `{function.__name__}` has in its cache was changed")
        if not self._tracer.active:
            return answer
        self._tracer.shared.add(result, answer)
        self._followed[key] = ((function, args, kwargs), result)
        return result

    def _arguments(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        named = {name: self._argument(arg) for name, arg in kwargs.items()}
        return tuple(map(self._argument, args)), named

    def _argument(self, value: object) -> object:
        hooks = self._hooks
        path = self._tracer.path_of(value)
        kind = type(value)
        by_identity = kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__
        if path is None or not by_identity:
            value = hooks.specialized(
                hooks.operand(value), "it is an argument of a cached function"
            )
        if _is_key(value):
            return value
        if path is None or not by_identity:
            raise AbortCapture(f"a {kind.__name__} is an argument of a cached function")
        self._tracer.guard(Kind.IDENTITY, path, value)
        return value


def _is_key(value: object) -> bool:
    return is_key(value) or type(value) is torch.Size


def _reads_code_only(function: Any) -> bool:
    """Whether a cached function reads no variable from outside but functions, classes and modules:
    then another run of it gives the same, and nobody can tell."""
    inner = function.__wrapped__
    if not isinstance(inner, types.FunctionType) or inner.__closure__:
        return False
    names = {name for code in all_code(inner.__code__) for name in code.co_names}
    held = (inner.__globals__[name] for name in names if name in inner.__globals__)
    return all(isinstance(value, CODE) for value in held)


def _symbolic(value: Any) -> object:
    """A key that is equal for arguments that are the same in every run."""
    if type(value) is TracedInt:
        return TracedInt, value.expr
    if type(value) in (tuple, torch.Size):
        return type(value), tuple(map(_symbolic, value))
    return type(value), value if type(value) in ATOMS else id(value)


def _is_same_data(left: object, right: Any) -> bool:
    """Whether data that may hold traced numbers is the same as plain data now."""
    if type(left) in TRACED_VALUES:
        left = bare(left)
    if type(left) is not type(right):
        return False
    if type(left) is dict:
        left, right = list(left.items()), list(right.items())
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(_is_same_data, left, right))
    if isinstance(left, set | frozenset):
        left = set(map(bare, left))
    return left == right or (left != left and right != right)


def _is_record(value: object) -> bool:
    """Whether an object is compared by identity and has nothing but attributes that are data."""
    kind = type(value)
    plain = all(
        getattr(kind, name) is getattr(object, name)
        for name in ("__eq__", "__hash__", "__getattribute__", "__setattr__")
    )
    return plain and type(getattr(value, "__dict__", None)) is dict and is_data(value.__dict__)


class StillCached:
    """Whether a cached function would answer as it did, without being run for it."""

    def __init__(
        self,
        function: Any,
        key: object,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: object,
    ) -> None:
        self._function = function
        self._cache = _cache_of(function, key)
        self._key = key
        self._args = args
        self._kwargs = kwargs
        self._result = result
        self.__qualname__ = f"{getattr(function, '__qualname__', 'a function')} is cached"

    def __call__(self, _: object) -> bool:
        held = self._cache.get(self._key, _MISSING)
        if held is _MISSING:
            return False
        if type(held) is _LINK:
            if _OFFSET is not None:
                held = ctypes.py_object.from_address(id(held) + _OFFSET).value
            else:  # To ask is counted as a call.
                held = self._function(*self._args, **self._kwargs)
        return held is self._result


def _key_of(function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """The key of a call, as the cache makes it."""
    typed = function.cache_parameters()["typed"]
    if not kwargs and not typed:
        return args[0] if len(args) == 1 and type(args[0]) in (int, str) else args
    named = (_MARK, *(part for item in kwargs.items() for part in item)) if kwargs else ()
    kinds = tuple(map(type, (*args, *kwargs.values()))) if typed else ()
    return (*args, *named, *kinds)


def _cache_of(function: Any, key: object) -> dict[object, object]:
    """The dictionary that has the key; what was cached there may be dictionaries as well."""
    size = function.cache_info().currsize
    found = [
        held
        for held in gc.get_referents(function)
        if type(held) is dict
        and held is not function.__dict__
        and len(held) == size
        and key in held
    ]
    if len(found) != 1:
        raise AbortCapture(f"the cache of `{function.__name__}` cannot be looked at")
    return found[0]


def _mark() -> object:
    """What separates names from positions in a key."""
    probe = functools.lru_cache(maxsize=None)(lambda **_: None)
    probe(name=0)
    keys = [key for held in gc.get_referents(probe) if type(held) is dict for key in held]
    return next((key[0] for key in keys if type(key) is tuple and key[1:] == ("name", 0)), _MISSING)


_MARK: Final = _mark()


def _link() -> tuple[type | None, int | None]:
    """The class of the links in a bounded cache, which only it can follow, and where the answer is
    in one; None where that cannot be found."""
    answer = object()
    probe = functools.lru_cache(maxsize=2)(lambda _: answer)
    probe(1)
    links = [
        link
        for held in gc.get_referents(probe)
        if type(held) is dict and 1 in held
        for link in held.values()
    ]
    if len(links) != 1:
        return None, None
    kind = type(links[0])
    word = ctypes.sizeof(ctypes.c_void_p)
    for offset in range(object.__basicsize__, kind.__basicsize__, word):
        if ctypes.c_void_p.from_address(id(links[0]) + offset).value == id(answer):
            return kind, offset
    return kind, None


_LINK, _OFFSET = _link()
