"""What all hooks share: the parts of a capture, and what native code may look into."""

from __future__ import annotations

import builtins
import enum
import sys
import types
from collections import OrderedDict, deque
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.pure import is_constant
from anyshape.capture.externals.external_objects import (
    ITEMS,
    SEQUENCES,
    SETS,
    Externals,
    holds_traced,
    is_key,
)
from anyshape.capture.externals.native_values import BY_IDENTITY, has_native_state, key_of_type
from anyshape.capture.hooks.attributes import Attributes
from anyshape.capture.hooks.calls import Callables
from anyshape.capture.hooks.class_lookups import is_trusted
from anyshape.capture.hooks.identity_methods import builtins_in, told_by_identity
from anyshape.capture.hooks.reference import PlainHooks
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt
from anyshape.capture.numbers.traced_text import TracedText
from anyshape.capture.record.recorder import Recorder
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Kind
from anyshape.guards.path import Path

#: `sys.version_info`, a tuple of plain values that stays.
_VERSION: Final = type(sys.version_info)

TRACED: Final = (TracedInt, TracedFloat, TracedText)
NUMBERS: Final = frozenset({int, float, bool, TracedInt, TracedFloat})
#: Built-in containers that the program made itself, or that were checked to be inside.
BUILT_IN: Final = frozenset(
    {list, tuple, dict, set, frozenset, str, bytes, range, torch.Size, OrderedDict, deque, slice}
)
#: Views of dictionaries: what the program has looked at of one from outside is guarded.
VIEWS: Final = frozenset(
    type(getattr(kind(), name)())
    for kind in (dict, OrderedDict)
    for name in ("keys", "values", "items")
)
ITERATORS: Final = frozenset(
    {
        *VIEWS,
        types.GeneratorType,
        enumerate,
        zip,
        map,
        filter,
        reversed,
        type(iter([])),
        type(iter(())),
        type(iter({})),
        type(iter({}.values())),
        type(iter({}.items())),
        type(iter(set())),
        type(iter(range(0))),
        type(iter("")),
        type(reversed([])),
        type(iter(OrderedDict())),
        type(iter(OrderedDict().items())),
    }
)


class HooksBase(PlainHooks):
    """The state that hooks work on."""

    tracer: Tracer
    recorder: Recorder
    outside: Externals
    attributes: Attributes
    callables: Callables
    #: paths of objects from outside that are found by their identity in sets and dictionaries
    identities: dict[Path, None]
    #: classes of this capture, and whether their instances are told apart by identity; guarded
    by_identity: dict[type, bool]

    # -- the gate: what native code may read ------------------------------------------------------

    def observe(self, value: object, protocol: str) -> object:
        """The value, if native code may read it in this way: `protocol` is a row of `PROTOCOLS`.

        It may if the value is known in full, or if its class has nothing for native code to call:
        Python then raises an error, or goes by identity. Whatever else comes from outside ends the
        capture, and so does Python code that nobody would watch.
        """
        kind = type(value)
        if kind in ATOMS or kind in TRACED or isinstance(value, torch.Tensor):
            return value
        for name in PROTOCOLS[protocol]:
            if not hasattr(kind, name):
                self.attributes.class_attribute(kind, name)
                continue
            found = self.attributes.class_attribute(kind, name)
            if found is None or found[0] is object:
                continue  # of the metaclass, or what every object has
            holder, own = found
            if not isinstance(own, _NATIVE_CODE) and not self._is_member_code(value, holder):
                raise AbortCapture(f"`{name}` of a {kind.__name__}")
            if self._is_opaque(value):
                raise AbortCapture(f"`{name}` of a {kind.__name__} from outside the function")
            return self._known_contents(value, protocol)
        if self._is_opaque(value) and has_native_state(kind):
            # It may have a buffer, which no method tells of.
            raise AbortCapture(
                f"native code looks into a {kind.__name__} from outside the function"
            )
        return value

    def _is_member_code(self, value: object, holder: type) -> bool:
        """Whether it is code of Python's own enumerations, which reads the member and no more."""
        return isinstance(value, enum.Enum) and holder.__module__ == "enum"

    def _is_opaque(self, value: object) -> bool:
        """Whether it came from outside, and what native code would read of it is not guarded."""
        if isinstance(value, _KNOWN_IN_FULL) or key_of_type(type(value)) is not None:
            return False
        return self.tracer.path_of(value) is not None and not self._has_contents(value)

    def _has_contents(self, value: object) -> bool:
        return type(value) in BUILT_IN and isinstance(value, (*SEQUENCES, *SETS, dict, slice))

    def _known_contents(self, value: Any, protocol: str) -> object:
        is_own = self.tracer.path_of(value) is None
        if type(value) not in BUILT_IN or (is_own and protocol in _OF_THE_CONTAINER):
            return value
        if is_own and protocol == "contains":
            # Of a dictionary, the keys: what they are for is not looked at.
            if not all(map(_are_told_by_identity, set(map(type, value)))):
                for item in value:
                    self._checked_item(item)
            return value
        return self.operand(value)

    def operand(self, value: object) -> Any:
        """A value that native code may look into: known through and through."""
        kind = type(value)
        if kind in ATOMS or kind in TRACED or isinstance(value, CODE):
            return value
        path = self.tracer.path_of(value)
        if path is not None and isinstance(value, (*SEQUENCES, *SETS, dict)) and kind in BUILT_IN:
            return self._checked(self._copy(value, path))
        return self._checked(value)

    def _copy(self, value: Any, path: Path) -> Any:
        """A container from outside with everything in it guarded, of the same class."""
        made = self.outside.contents(value, path)
        if isinstance(value, deque):
            return deque(made, self.outside.bound(value, path))
        return made if isinstance(value, SETS) else type(value)(made)

    def _checked(self, value: Any) -> object:
        kind = type(value)
        if kind in ATOMS or kind in TRACED or isinstance(value, CODE):
            return value
        if isinstance(value, torch.Tensor):
            return value
        if kind in (list, tuple, set, frozenset, torch.Size, deque):
            for item in value:
                self._checked_item(item)
            return value
        inside = self.tracer.path_of(value) is None
        if kind is dict or kind is OrderedDict or (kind is types.MappingProxyType and inside):
            for key, item in value.items():
                self._checked_item(key)
                self._checked_item(item)
            return value
        if kind is slice:
            for part in (value.start, value.stop, value.step):
                self.operand(part)
            return value
        if kind in VIEWS and inside:
            for item in value:
                self._checked_item(item)
            return value
        if isinstance(value, BY_IDENTITY) or kind is _VERSION or is_constant(self, value):
            return value
        if key_of_type(kind) is not None and is_trusted(kind.__module__):
            return value  # Its code, if it has any, is a function of the value.
        if _has_python_operators(kind) and not isinstance(value, enum.Enum):
            raise AbortCapture(f"native code looks into a {kind.__name__}")
        if isinstance(value, _KNOWN_IN_FULL) and not _is_enum_with_code(kind):
            return value
        if key_of_type(kind) is not None:
            return value
        known = self.tracer.path_of(value) is None or not reads_natively(kind)
        if known and self.is_told_by_identity(value):
            return value
        raise AbortCapture(f"native code looks into a {kind.__name__}")

    def _checked_item(self, item: object) -> None:
        if type(item) is float and item != item and self.tracer.active:
            # Containers take an object for equal to itself, and this one is not.
            raise AbortCapture("native code compares a container with NaN in it")
        self.operand(item)

    def is_told_by_identity(self, value: object) -> bool:
        """Whether an object is equal to itself and to nothing else, by the code of its class, which
        is guarded."""
        kind = type(value)
        found = self.by_identity.get(kind)
        if found is None:
            found = self.by_identity[kind] = self._is_told_by_identity(kind)
        return found

    def _is_told_by_identity(self, kind: type) -> bool:
        own = told_by_identity(kind)
        if own is None:
            return False
        self.attributes.class_attribute(kind, "__eq__")
        self.attributes.class_attribute(kind, "__hash__")
        for function in own:
            path = self.tracer.constant(function).attribute("__code__")
            self.tracer.guard(Kind.IDENTITY, path, function.__code__)
            for name, meant in builtins_in(function):
                path = self.tracer.constant(function.__globals__, "G")
                self.tracer.guard(Kind.CONTAINS, path, (name, False))
                path = self.tracer.constant(vars(builtins), "builtins")
                self.tracer.guard(Kind.IDENTITY, path.item(name), meant)
        return True

    def hashed(self, key: object) -> None:
        if is_key(key) and not _is_enum_with_code(type(key)):
            if type(key) is float and key != key:
                raise AbortCapture("NaN is a key: it is hashed by its identity")
            return
        own = type(key)
        if isinstance(key, torch.Tensor) or self.is_told_by_identity(key):
            self._told_apart(key)
            return
        if isinstance(key, torch.Size):
            self.operand(key)
            return
        if own in (tuple, frozenset):
            for part in self.operand(key):
                self.hashed(part)
            return
        if own.__hash__ is None or (key_of_type(own) is not None and not _hashes_itself(own)):
            return
        raise AbortCapture(f"a {own.__name__} is a key: its own code hashes and compares it")

    def _told_apart(self, key: object) -> None:
        """An object is found by its identity among others: those from outside stay different."""
        path = self.tracer.path_of(key)
        if path is not None and path not in self.identities:
            self.identities[path] = None
            if len(self.identities) > 1:
                self.tracer.distinct(_HASHED, tuple(self.identities))

    def specialized(self, value: object, reason: str, protocol: str = "anything") -> Any:
        """A value as native code may take it: one that may be observed in this way, with every
        traced number in it made plain, and guarded."""
        kind = type(value)
        if kind in TRACED:
            return self.tracer.specialize(value, reason)
        if kind in ATOMS:
            return value
        value = self.operand(value) if protocol == "anything" else self.observe(value, protocol)
        return self.with_plain_numbers(value, reason)

    def with_plain_numbers(self, value: Any, reason: str) -> Any:
        """A value with every traced number in it made plain, and guarded."""
        kind = type(value)
        if kind in TRACED:
            return self.tracer.specialize(value, reason)
        if not holds_traced(value):
            return value
        if kind is slice:
            return slice(
                *(
                    self.with_plain_numbers(part, reason)
                    for part in (value.start, value.stop, value.step)
                )
            )
        if kind in ITEMS:
            return self.with_plain_numbers(ITEMS[kind](value), reason).items()
        if isinstance(value, dict):
            return kind(
                (self.with_plain_numbers(key, reason), self.with_plain_numbers(item, reason))
                for key, item in value.items()
            )
        items = [self.with_plain_numbers(item, reason) for item in value]
        if kind is deque:
            return deque(items, value.maxlen)
        return kind(*items) if hasattr(kind, "_fields") else kind(items)

    def prints_itself(self, value: Any) -> bool:
        kind = type(value)
        if kind in ATOMS or isinstance(value, CODE):
            return not isinstance(value, types.FunctionType)
        if kind in (list, tuple, set, frozenset, torch.Size, slice):
            parts = (value.start, value.stop, value.step) if kind is slice else value
            return all(map(self.prints_itself, parts))
        if kind is dict or kind is OrderedDict:
            return all(
                self.prints_itself(key) and self.prints_itself(item) for key, item in value.items()
            )
        return False


def special_method(kind: type, name: str) -> object:
    """What Python calls for an operator on an instance: its class has it, not the metaclass."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def defines(kind: type, *names: str) -> bool:
    """Whether a class defines one of these in Python."""
    return any(isinstance(getattr(kind, name, None), types.FunctionType) for name in names)


def _has_python_operators(kind: type) -> bool:
    return defines(kind, *_OPERATOR_NAMES)


def _are_told_by_identity(kind: type) -> bool:
    """Whether instances are equal to themselves and to nothing else, whatever other methods they
    have."""
    plain = kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__
    return plain and not issubclass(kind, torch.Tensor)


def reads_natively(kind: type) -> bool:
    """Whether native code of the class reads its instances: what they hold, or what it computes."""
    return has_native_state(kind) or any(
        getattr(kind, name, None) is not getattr(object, name, None) for name in _OPERATOR_NAMES
    )


def _hashes_itself(kind: type) -> bool:
    return defines(kind, "__hash__", "__eq__")


def _is_enum_with_code(kind: type) -> bool:
    """Whether members of an enumeration are compared, hashed or printed by the program's code."""
    if not issubclass(kind, enum.Enum):
        return False
    holders = (
        next((base for base in kind.__mro__ if name in vars(base)), object)
        for name in ("__eq__", "__hash__", *_OPERATOR_NAMES)
    )
    return any(base.__module__ not in ("enum", "builtins") for base in holders)


_BINARY_NAMES: Final = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("lshift", "rshift", "and", "or", "xor"),
)
_OPERATOR_NAMES: Final = (
    *(f"__{name}__" for name in _BINARY_NAMES),
    *(f"__r{name}__" for name in _BINARY_NAMES),
    *("__lt__", "__le__", "__gt__", "__ge__"),
    *("__str__", "__repr__", "__format__", "__index__", "__int__", "__float__", "__bool__"),
    *("__len__", "__iter__", "__next__", "__contains__", "__getitem__"),
)

#: How native code reads a value: the special methods that it calls, the first that is there.
PROTOCOLS: Final[dict[str, tuple[str, ...]]] = {
    "truth": ("__bool__", "__len__"),
    "int": ("__int__", "__index__", "__trunc__"),
    "float": ("__float__", "__index__"),
    "index": ("__index__",),
    "round": ("__round__",),
    "abs": ("__abs__",),
    "neg": ("__neg__",),
    "pos": ("__pos__",),
    "invert": ("__invert__",),
    "length": ("__len__",),
    "item": ("__getitem__",),
    "contains": ("__contains__", "__iter__", "__getitem__"),
    "reversed": ("__reversed__", "__len__", "__getitem__"),
    "divmod": ("__divmod__", "__rdivmod__"),
    "pow": ("__pow__", "__rpow__"),
    "hash": ("__hash__", "__eq__"),
}

#: Those that look at a container and at none of its elements.
_OF_THE_CONTAINER: Final = frozenset({"truth", "length", "item", "reversed"})

_NATIVE_CODE: Final = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.BuiltinFunctionType,
    type(None),
)

#: The guard that what is hashed by its identity is not the same object twice.
_HASHED: Final = "hashed by identity"

#: Known by identity, and never another.
_KNOWN_IN_FULL: Final = (*CODE, *BY_IDENTITY, enum.Enum)
