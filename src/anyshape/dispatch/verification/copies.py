"""Deep copies of Python values with tensors in them: what is one object, or one memory, in the
original is one in the copy."""

from __future__ import annotations

import contextvars
import copyreg
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.dispatch.verification.tensor_copies import CannotCopy, TensorCopies

#: Values that cannot be changed, and code: the copy is the value itself, as `copy.deepcopy` has it.
_SHARED_TYPES: Final = {
    *(types.NoneType, bool, int, float, complex, str, bytes, range, slice, type(...)),
    *(type(NotImplemented), property, weakref.ref, types.CodeType),
    *(
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        types.MethodWrapperType,
        types.ClassMethodDescriptorType,
    ),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.GenericAlias),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
    contextvars.ContextVar,  # eager runs in a context of its own
    *(torch._ops.OpOverload, torch._ops.OpOverloadPacket),
}


class Copies:
    """The copies made for one call."""

    def __init__(self, share_parameters: bool) -> None:
        #: by identity of the original: what `__deepcopy__` methods are given too
        self.memo: dict[int, Any] = {}
        #: originals, so that no identity is used again meanwhile
        self._originals: list[object] = []
        #: copied by a method of their own, which may leave things out: not to be compared
        self.by_themselves: set[int] = set()
        self.tensors: Final = TensorCopies(self, share_parameters)

    def of(self, value: Any) -> Any:
        """The copy of a value; `CannotCopy` if there can be none."""
        if type(value) in _SHARED_TYPES or isinstance(value, _CODE):
            return value
        if id(value) in self.memo:
            return self.memo[id(value)]
        if isinstance(value, torch.Tensor):
            return self.tensors.of(value)
        special = _SPECIAL.get(type(value))
        return self._by_protocol(value) if special is None else special(self, value)

    def remember(self, value: object, made: Any) -> Any:
        self.memo[id(value)] = made
        self._originals.append(value)
        return made

    def _by_protocol(self, value: Any) -> Any:
        """As the class says that its instances are copied."""
        kind = type(value)
        own = getattr(kind, "__deepcopy__", None)
        try:
            if own is not None:
                self.by_themselves.add(id(value))
                return self.remember(value, own(value, self.memo))
            if _is_plain(kind):
                return self._by_attributes(value)
            reduce: Any = copyreg.dispatch_table.get(kind)
            parts: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except CannotCopy:
            raise
        except Exception as error:
            raise CannotCopy(f"a {kind.__name__} cannot be copied ({error})") from error
        return value if isinstance(parts, str) else self._rebuilt(value, *parts)

    def _by_attributes(self, value: Any) -> Any:
        """All of an object: what `__getstate__` leaves out for a file is there for a program."""
        made = self.remember(value, object.__new__(type(value)))
        for name, part in value.__dict__.items():
            made.__dict__[name] = self.of(part)
        return made

    def _rebuilt(
        self,
        value: Any,
        make: Callable[..., Any],
        args: tuple[Any, ...],
        state: Any = None,
        items: Any = None,
        pairs: Any = None,
        set_state: Any = None,
    ) -> Any:
        try:
            made = self.remember(value, make(*map(self.of, args)))
            if state is not None:
                _set_state(made, self.of(state), set_state)
            for item in items or ():
                made.append(self.of(item))
            for key, item in pairs or ():
                made[self.of(key)] = self.of(item)
        except CannotCopy:
            raise
        except Exception as error:
            raise CannotCopy(f"a {type(value).__name__} cannot be copied ({error})") from error
        return made


@functools.lru_cache(maxsize=4096)
def _is_plain(kind: type) -> bool:
    """Whether its instances are a class and a dictionary, and nothing more."""
    return (
        kind.__new__ is object.__new__
        and kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and kind not in copyreg.dispatch_table
        and kind.__dictoffset__ != 0
        and all("__slots__" not in base.__dict__ for base in kind.__mro__[:-1])
        and all(base.__flags__ & _HEAP_TYPE for base in kind.__mro__[:-1])
    )


#: Of a class that Python code has made: it has no state in C.
_HEAP_TYPE: Final = 1 << 9


def _set_state(made: Any, state: Any, set_state: Any) -> None:
    if set_state is not None:
        set_state(made, state)
    elif hasattr(made, "__setstate__"):
        made.__setstate__(state)
    else:
        held, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if held:
            made.__dict__.update(held)
        for name, part in (slots or {}).items():
            setattr(made, name, part)


# -- built-in containers, one function each ----------------------------------------------------


def _list(copies: Copies, value: list[Any]) -> list[Any]:
    made: list[Any] = copies.remember(value, [])
    made.extend(map(copies.of, value))
    return made


def _dict(copies: Copies, value: dict[Any, Any]) -> dict[Any, Any]:
    made: dict[Any, Any] = copies.remember(value, {})
    for key, item in value.items():
        made[copies.of(key)] = copies.of(item)
    return made


def _tuple(copies: Copies, value: tuple[Any, ...]) -> tuple[Any, ...]:
    made = tuple(map(copies.of, value))
    if all(new is old for new, old in zip(made, value, strict=True)):
        return value
    # A tuple that holds itself has been copied on the way.
    return copies.memo[id(value)] if id(value) in copies.memo else copies.remember(value, made)


def _set(copies: Copies, value: Any) -> Any:
    return copies.remember(value, type(value)(map(copies.of, value)))


def _method(copies: Copies, value: types.MethodType) -> types.MethodType:
    made = types.MethodType(value.__func__, copies.of(value.__self__))
    return copies.remember(value, made)


def _partial(copies: Copies, value: functools.partial[Any]) -> functools.partial[Any]:
    parts = (copies.of(value.func), *copies.of(value.args))
    return copies.remember(value, functools.partial(*parts, **copies.of(value.keywords)))


def _generator(copies: Copies, value: torch.Generator) -> torch.Generator:
    defaults = (torch.default_generator, *torch.cuda.default_generators)
    if any(value is each for each in defaults):
        return value  # the process has one, which is put back as a whole
    return copies.remember(value, value.clone_state())


_SPECIAL: Final[dict[type, Callable[[Copies, Any], Any]]] = {
    list: _list,
    dict: _dict,
    tuple: _tuple,
    set: _set,
    frozenset: _set,
    types.MethodType: _method,
    functools.partial: _partial,
    torch.Generator: _generator,
}
_CODE: Final = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
