"""What all hooks share: the parts of a capture, and what native code may look into."""

from __future__ import annotations

import functools
import sys
import types
from collections import OrderedDict, deque
from typing import Any, Final

import torch

from anyshape.capture.concolic import TracedFloat, TracedInt
from anyshape.capture.outside import SEQUENCES, SETS, Outside, holds_traced, is_key
from anyshape.capture.plain_hooks import PlainHooks
from anyshape.capture.traced_text import TracedText
from anyshape.capture.tracer import ATOMS, CODE, Leave, Tracer

#: `sys.version_info`, a tuple of plain values that stays.
_VERSION: Final = type(sys.version_info)

TRACED: Final = (TracedInt, TracedFloat, TracedText)
NUMBERS: Final = frozenset({int, float, bool, TracedInt, TracedFloat})
#: Built-in containers that the program made itself, or that were checked to be inside.
BUILT_IN: Final = frozenset(
    {list, tuple, dict, set, frozenset, str, bytes, range, torch.Size, OrderedDict, deque, slice}
)
ITERATORS: Final = frozenset(
    {
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
        type({}.keys()),
        type({}.values()),
        type({}.items()),
        type(OrderedDict().keys()),
        type(OrderedDict().values()),
        type(OrderedDict().items()),
        type(iter(OrderedDict())),
        type(iter(OrderedDict().items())),
    }
)


class HooksBase(PlainHooks):
    """The state that hooks work on."""

    tracer: Tracer
    recorder: Any
    outside: Outside
    attributes: Any
    callables: Any

    def operand(self, value: Any) -> Any:
        """A value that native code may look into: known through and through."""
        kind = type(value)
        if kind in ATOMS or kind in TRACED or isinstance(value, CODE):
            return value
        path = self.tracer.path_of(value)
        if path is not None and isinstance(value, (*SEQUENCES, *SETS, dict)) and kind in BUILT_IN:
            made = self.outside.contents(value, path)
            made = made if isinstance(value, (dict, *SETS)) else kind(made)
            return self._checked(made)
        return self._checked(value)

    def _checked(self, value: Any) -> Any:
        kind = type(value)
        if kind in ATOMS or kind in TRACED or isinstance(value, CODE):
            return value
        if isinstance(value, torch.Tensor):
            return value
        if kind in (list, tuple, set, frozenset, torch.Size, deque):
            for item in value:
                self.operand(item)
            return value
        if kind is dict or kind is OrderedDict:
            for key, item in value.items():
                self.operand(key)
                self.operand(item)
            return value
        if kind in (slice, types.GenericAlias, types.UnionType, _VERSION) or is_key(value):
            return value
        by_identity = kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__
        if by_identity and not _has_python_operators(kind):
            self.attributes.class_attribute(kind, "__eq__")
            return value
        raise Leave(f"native code looks into a {kind.__name__}")

    def hashed(self, key: Any) -> None:
        if is_key(key):
            return
        if isinstance(key, torch.Tensor):
            return  # by identity
        own = type(key)
        if own.__hash__ is object.__hash__ and own.__eq__ is object.__eq__:
            return
        if isinstance(key, torch.Size):
            return
        if own in (tuple, frozenset):
            for part in key:
                self.hashed(part)
            return
        raise Leave(f"a {own.__name__} is a key: its own code hashes and compares it")

    def fixed(self, value: Any, reason: str) -> Any:
        """A value with every traced number in it made plain, and guarded."""
        kind = type(value)
        if kind in TRACED:
            return self.tracer.fix(value, reason)
        if not holds_traced(value):
            return value
        if kind is slice:
            return slice(
                *(self.fixed(part, reason) for part in (value.start, value.stop, value.step))
            )
        if isinstance(value, dict):
            return kind(
                (self.fixed(key, reason), self.fixed(item, reason)) for key, item in value.items()
            )
        items = [self.fixed(item, reason) for item in value]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)

    def prints_itself(self, value: Any) -> bool:
        kind = type(value)
        if kind in ATOMS or isinstance(value, CODE):
            return not isinstance(value, types.FunctionType)
        if kind in (list, tuple, set, frozenset, torch.Size):
            return all(map(self.prints_itself, value))
        if kind is dict:
            return all(
                self.prints_itself(key) and self.prints_itself(item) for key, item in value.items()
            )
        return False


def defines(kind: type, *names: str) -> bool:
    """Whether a class defines one of these in Python."""
    return any(isinstance(getattr(kind, name, None), types.FunctionType) for name in names)


@functools.lru_cache(maxsize=1024)
def _has_python_operators(kind: type) -> bool:
    return defines(kind, *_OPERATOR_NAMES)


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
