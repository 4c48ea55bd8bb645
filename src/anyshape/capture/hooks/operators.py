"""Hooks of operators: arithmetic, comparison, membership, truth."""

from __future__ import annotations

import math
import operator
import sys
import types
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.containers import change_in_place
from anyshape.capture.builtins.pure import as_length
from anyshape.capture.externals.external_objects import (
    ITEMS,
    SEQUENCES,
    SETS,
    holds_traced,
    kinds_in,
)
from anyshape.capture.externals.native_values import as_torch_takes_it, is_numpy_scalar
from anyshape.capture.externals.side_effects import base_of
from anyshape.capture.externals.untrace import is_same, untraced
from anyshape.capture.hooks.base import (
    BUILT_IN,
    NUMBERS,
    TRACED,
    HooksBase,
    defines,
    special_method,
)
from anyshape.capture.hooks.class_lookups import is_trusted
from anyshape.capture.hooks.formatting import percent
from anyshape.capture.numbers import concolic
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt
from anyshape.capture.numbers.traced_text import TracedText, joined
from anyshape.capture.value_kinds import ATOMS
from anyshape.guards.guard import Kind

_KEYS: Final[Any] = type({}.keys())
_CONTAINERS: Final = (list, tuple, deque, dict, *SETS)


_ORDERS: Final = ("lt", "le", "gt", "ge")
_PLAIN: Final = ATOMS | {*TRACED}
_FLOATS: Final = frozenset({float, TracedFloat})
#: Comparisons of these leave a traced number on the right to the number.
_LEAVES_INTS: Final = frozenset({int, str, bytes, type(None), *TRACED})
_LEAVES_FLOATS: Final = _LEAVES_INTS | {float, bool}
_PLAIN_KIND: Final[dict[type, type]] = {TracedInt: int, TracedFloat: float, TracedText: str}
#: What the operators of numbers read.
_READ_BY: Final[dict[type, tuple[type, ...]]] = {TracedInt: (int,), TracedFloat: (int, float)}


def _hold_objects(*tuples: Any) -> bool:
    return any(type(item) not in _PLAIN for each in tuples for item in each)


def _are_watched(values: object) -> bool:
    """Whether traced numbers in containers see what native code asks of them. It asks the left one
    of two, and what is on its right first if that is of a more special class: `5.0 == n` reads
    digits, `5 == n` does not."""
    kinds = kinds_in(values)
    if TracedInt in kinds:
        return kinds <= _LEAVES_INTS
    return TracedFloat not in kinds or kinds <= _LEAVES_FLOATS


def _are_sequences_of_a_kind(*values: object) -> bool:
    kinds = {type(each) for each in values}
    return kinds <= {tuple, torch.Size} or kinds in ({list}, {deque})


def _has_code(kind: type, name: str) -> bool:
    """Whether a class has a special method that is no native slot."""
    found = special_method(kind, name)
    return found is not None and not isinstance(found, types.WrapperDescriptorType)


def _plain_kind(kind: type) -> type:
    """The class that a program takes a traced value for an instance of."""
    return _PLAIN_KIND.get(kind, kind)


def _has_code_of_the_program(kind: type) -> bool:
    """Whether operators of a class may be code that has to be seen."""
    methods = (special_method(kind, name) for name in _OPERATORS)
    return any(
        method is not None
        and not isinstance(method, types.WrapperDescriptorType)
        and not is_trusted(getattr(method, "__module__", None))
        for method in methods
    )


def _goes_first(kind: type, before: type, reflected: str) -> bool:
    """Whether the reflected method of the right operand is asked first: its class derives from
    that of the left one, and has another method."""
    own, inherited = special_method(kind, reflected), special_method(before, reflected)
    return before in kind.__mro__ and own is not inherited


def _is_concatenated(kind: type, forward: str) -> bool:
    """Whether `+` or `*` of a native sequence comes after what the other operand says."""
    return (
        forward in ("__add__", "__mul__")
        and not _has_code(kind, forward)
        and issubclass(kind, (list, tuple, str, bytes, bytearray, deque))
    )


class OperatorHooks(HooksBase):
    """What Python's operators do, with user code called through hooks."""

    def binary(self, name: str, a: object, b: object) -> object:
        function = _BINARY[name]
        kind_a, kind_b = type(a), type(b)
        if kind_a in ATOMS and kind_b in ATOMS:
            return function(a, b)
        if kind_a in NUMBERS and kind_b in NUMBERS:
            return concolic.binary(function, a, b)
        try:
            if isinstance(a, torch.Tensor) or (isinstance(b, torch.Tensor) and kind_a is not str):
                return self._tensor_binary(name, function, a, b)
            return self._operator(_FORWARD[name], _REFLECTED[name], function, a, b)
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return function(a, b)

    def _tensor_binary(
        self, name: str, function: Callable[..., object], a: object, b: object
    ) -> object:
        a, b = as_torch_takes_it(a), as_torch_takes_it(b)
        if isinstance(a, torch.Tensor):
            if not isinstance(b, torch.Tensor) and type(b) not in (*NUMBERS, complex):
                raise AbortCapture(f"a tensor {name} a {type(b).__name__}")
            method = getattr(torch.Tensor, _FORWARD[name])
            result = self.recorder.run(method, (a, b), {}, function)
            return function(a, b) if result is NotImplemented else result  # raises
        if type(a) not in NUMBERS and type(a) is not complex:
            raise AbortCapture(f"a {type(a).__name__} {name} a tensor")
        method = getattr(torch.Tensor, _REFLECTED[name])
        return self.recorder.run(method, (b, a), {})

    def _operator(
        self, forward: str, reflected: str, function: Callable[..., object], a: Any, b: Any
    ) -> object:
        """A binary operator on objects, which may define it themselves."""
        kind_a, kind_b = type(a), type(b)
        if function is operator.mod and kind_a is str:
            return percent(self, a, b)
        if function is operator.add and TracedText in (kind_a, kind_b) and _are_texts(a, b):
            return joined((a, b))
        if kind_a in TRACED or kind_b in TRACED:
            other = kind_b if kind_a in TRACED else kind_a
            if not defines(other, forward, reflected):
                a, b = self.operand(a), self.operand(b)
                return concolic.binary(function, a, b)
        if not _has_code(kind_a, forward) and not _has_code(kind_b, reflected):
            return self._native_operator(forward, reflected, function, a, b)
        kind_a, kind_b = _plain_kind(kind_a), _plain_kind(kind_b)
        attempts = [(a, b, forward)] if special_method(kind_a, forward) is not None else []
        if special_method(kind_b, reflected) is not None and kind_a is not kind_b:
            attempt = (b, a, reflected)
            if _goes_first(kind_b, kind_a, reflected) or _is_concatenated(kind_a, forward):
                attempts.insert(0, attempt)
            else:
                attempts.append(attempt)
        result = self._answer(attempts)
        return _unsupported(function, a, b) if result is NotImplemented else result

    def _answer(self, attempts: list[tuple[object, object, str]]) -> Any:
        """What the first operand says that knows an answer."""
        result = NotImplemented
        for number, (this, other, name) in enumerate(attempts):
            try:
                result = self._asked(this, other, name)
            except AbortCapture as left:
                if number == 0:
                    raise
                # Code of the program has run, and must not run again.
                self.tracer.leave_for(left)
                result = getattr(type(this), name).__get__(this)(other)
            if result is not NotImplemented:
                break
        return result

    def _native_operator(
        self, forward: str, reflected: str, function: Callable[..., object], a: object, b: object
    ) -> object:
        """A binary operator on values that native code reads."""
        kinds = ((type(a), forward), (type(b), reflected))
        a, b = self.operand(a), self.operand(b)
        for kind, name in kinds:
            self.attributes.class_attribute(kind, name)
        if type(a) is str or not (_is_sequence(a) and _is_sequence(b)):
            # Formatting and repetition read the digits of a number.
            a, b = self.specialized(a, "an operand"), self.specialized(b, "an operand")
        return self.natively(function, a, b)

    def natively(self, function: Callable[..., object], *args: object) -> object:
        """Let native code compute: numpy may warn or raise, as its settings say, and is not let."""
        if not any(is_numpy_scalar(type(arg)) for arg in args):
            return function(*args)
        try:
            with sys.modules["numpy"].errstate(all="raise"):
                return function(*args)
        except FloatingPointError:
            raise AbortCapture("numpy warns of a number, or raises, as its settings say") from None

    def _asked(self, this: object, other: object, name: str) -> object:
        """What the special method of an operand says, as Python finds and binds it."""
        kind = type(this)
        if kind in TRACED:
            return self._traced_asked(this, other, name)
        found = self.attributes.class_attribute(kind, name)
        if found is None:
            return NotImplemented
        holder, own = found
        if isinstance(own, types.FunctionType):
            return self.call(own, this, other)
        if holder is object:
            return self._as_any_object(this, other, name)
        if kind in ATOMS and name in _COMPARISONS and not isinstance(other, _COMPARED_WITH_ATOMS):
            return NotImplemented  # It looks at the type alone.
        if not isinstance(own, types.WrapperDescriptorType):
            return self.call(self.attributes.bound(this, holder, name, own), other)
        this, other = self.specialized(this, "an operand"), self.specialized(other, "an operand")
        return self.natively(own, this, other)

    def _traced_asked(self, this: Any, other: object, name: str) -> object:
        """What a traced number says of an operand: as the plain one, nothing of what is no number.
        Its own methods are asked of others, whose code they may call."""
        kind, kind_b = type(this), type(other)
        if kind is TracedText or kind_b in NUMBERS or not _has_code_of_the_program(kind_b):
            return getattr(kind, name)(this, other)
        if not isinstance(other, _READ_BY[kind]):
            return NotImplemented
        this, other = self.specialized(this, "an operand"), self.specialized(other, "an operand")
        return self.natively(getattr(_plain_kind(kind), name), this, other)

    def _as_any_object(self, this: object, other: object, name: str) -> object:
        """Comparisons of `object`: by identity, and `!=` is what `==` is not."""
        if name == "__eq__":
            return True if self.same(this, other) else NotImplemented
        if name != "__ne__":
            return NotImplemented
        result = self._asked(this, other, "__eq__")
        return NotImplemented if result is NotImplemented else not self.truth(result)

    def inplace(self, name: str, a: object, b: object) -> object:
        function = _IN_PLACE[name]
        kind_a = type(a)
        if kind_a in ATOMS or kind_a in TRACED:
            return self.binary(name, a, b)
        try:
            self.tracer.has_effect("an object is changed in place")
            if isinstance(a, torch.Tensor):
                method = getattr(torch.Tensor, f"__i{name}__", None)
                if method is None:
                    return self.binary(name, a, b)
                b = as_torch_takes_it(b)
                if not isinstance(b, torch.Tensor) and type(b) not in NUMBERS:
                    raise AbortCapture(f"a tensor {name} a {type(b).__name__}, in place")
                return self.recorder.run(method, (a, b), {}, function)
            own = special_method(kind_a, f"__i{name}__")
            if isinstance(own, types.FunctionType):
                self.attributes.class_attribute(kind_a, f"__i{name}__")
                result = self.call(own, a, b)
                return self.binary(name, a, b) if result is NotImplemented else result
            is_asked = _has_code(type(b), _REFLECTED[name]) and _is_concatenated(
                kind_a, f"__{name}__"
            )
            if own is None or is_asked:
                return self.binary(name, a, b)
            is_number = type(b) in ATOMS or type(b) in TRACED
            asked = not is_number and special_method(type(b), _REFLECTED[name]) is not None
            if isinstance(a, list) and asked:
                # Python asks the other operand first, and extends the list only then.
                raise AbortCapture(f"a list {name} a {type(b).__name__}, in place")
            path = self.tracer.path_of(a)
            if path is not None:
                return change_in_place(self, name, a, path, b)
            if kind_a is list:
                return function(a, self.unpack(b))
            return function(a, self.operand(b))
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return function(a, untraced(b))

    def unary(self, name: str, a: object) -> object:
        function = _UNARY[name]
        kind = type(a)
        if kind in ATOMS or kind in TRACED:
            return function(a)
        if isinstance(a, torch.Tensor):
            return self.recorder.run(getattr(torch.Tensor, f"__{name}__"), (a,), {}, function)
        own = getattr(kind, f"__{name}__", None)
        if isinstance(own, types.FunctionType):
            self.attributes.class_attribute(kind, f"__{name}__")
            return self.call(own, a)
        try:
            return self.natively(function, self.specialized(a, f"`{name}` of it", name))
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return function(a)

    def compare(self, name: str, a: object, b: object) -> object:
        function = _COMPARE[name]
        kind_a, kind_b = type(a), type(b)
        if (kind_a in ATOMS or kind_a in TRACED) and (kind_b in ATOMS or kind_b in TRACED):
            return concolic.compare(function, a, b)
        try:
            if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
                return self._tensor_compare(name, function, a, b)
            return self._rich_compare(name, function, a, b)
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return function(a, b)

    def _rich_compare(
        self, name: str, function: Callable[..., object], a: object, b: object
    ) -> object:
        """A comparison of objects: both are asked, the one of the more special class first."""
        kind_a, kind_b = type(a), type(b)
        forward, mirrored = f"__{name}__", f"__{_MIRROR[name]}__"
        if kind_a in TRACED or kind_b in TRACED:
            other = kind_b if kind_a in TRACED else kind_a
            if not defines(other, forward, mirrored, "__eq__"):
                return concolic.compare(function, self.operand(a), self.operand(b))
        if kind_a is tuple and kind_b is tuple and name in _ORDERS and _hold_objects(a, b):
            return self._by_items(name, function, a, b)
        if self._is_compared_natively(a) and self._is_compared_natively(b):
            a, b = self._as_compared(a), self._as_compared(b)
            if not _are_watched((a, b)):
                if _are_sequences_of_a_kind(a, b):
                    return self._by_items(name, function, a, b)
                a, b = self.specialized(a, "it is compared"), self.specialized(b, "it is compared")
            return self.natively(function, self.one_object(a), self.one_object(b))
        special = kind_a is not kind_b and _plain_kind(kind_a) in kind_b.__mro__
        attempts = [(a, b, forward), (b, a, mirrored)]
        result = self._answer(attempts[::-1] if special else attempts)
        if result is not NotImplemented:
            return result
        if function is operator.eq or function is operator.ne:
            return self.same(a, b) is (function is operator.eq)
        return _unsupported(function, a, b)

    def _by_items(self, name: str, function: Callable[..., object], a: object, b: object) -> object:
        """By the first items that differ: those behind them, objects that nothing compares, are not
        looked at."""
        mine, others = deque(self.iterate(a)), deque(self.iterate(b))
        for x, y in zip(mine, others, strict=False):
            if type(x) is float and math.isnan(x):
                raise AbortCapture("a tuple with a NaN is compared")  # It is equal to itself there.
            is_plain = type(x) in _PLAIN and type(y) in _PLAIN
            if not ((not is_plain and self.same(x, y)) or self.truth(self.compare("eq", x, y))):
                return self.compare(name, x, y) if name in _ORDERS else name == "ne"
        return function(len(mine), len(others))

    def _as_compared(self, value: object) -> object:
        """A value for native code to compare. Traced numbers in a sequence are compared one by one,
        and watch themselves: `x.shape == (n, 3)` is no reason to fix a size."""
        if type(value) in (*SEQUENCES, torch.Size, *ITEMS):
            return self.operand(value)
        return self.specialized(value, "it is compared")

    def _is_compared_natively(self, value: object) -> bool:
        """Whether native code compares it by more than its identity."""
        kind = type(value)
        if any(_has_code(kind, f"__{name}__") for name in _MIRROR):
            return False
        return kind.__eq__ is not object.__eq__

    def one_object(self, value: object) -> object:
        """What native code is about to compare. It takes objects for equal to themselves: those
        in a container that are known by nothing else have to be the same in every call."""
        parts: object = ()
        if isinstance(value, (list, tuple, deque, set, frozenset)):
            parts = value
        elif isinstance(value, dict):
            parts = (*value.keys(), *value.values())
        for part in parts:
            path = self.tracer.path_of(part)
            if path is None or isinstance(part, _CONTAINERS):
                self.one_object(part)
            elif not isinstance(part, torch.Tensor):
                self.tracer.guard(Kind.IDENTITY, path, part, "it is compared by identity")
        return value

    def _tensor_compare(
        self, name: str, function: Callable[..., object], a: object, b: object
    ) -> object:
        a, b = as_torch_takes_it(a), as_torch_takes_it(b)
        if isinstance(a, torch.Tensor) and (isinstance(b, torch.Tensor) or type(b) in NUMBERS):
            return self.recorder.run(getattr(torch.Tensor, f"__{name}__"), (a, b), {}, function)
        if type(a) in NUMBERS:
            mirrored = _MIRROR[name]
            return self.recorder.run(
                getattr(torch.Tensor, f"__{mirrored}__"), (b, a), {}, _COMPARE[mirrored]
            )
        if (a is None or b is None) and name in ("eq", "ne"):
            return name == "ne"
        raise AbortCapture(f"a tensor is compared with a {type(b).__name__}")

    def same(self, a: object, b: object) -> bool:
        try:
            return self._same(a, b)
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return is_same(a, b)

    def _same(self, a: object, b: object) -> bool:
        if type(a) in TRACED or type(b) in TRACED:
            if TracedText in (type(a), type(b)) and isinstance(a, str) and isinstance(b, str):
                self.tracer.abort("values are compared by `is`", "compare them with `==`")
                return a is b
            if type(a) not in NUMBERS or type(b) not in NUMBERS or bool in (type(a), type(b)):
                return False
            return a is b or self._is_same_number(a, b)
        if a is None or b is None:
            return a is b
        if type(a) in _SHARED_BY_CHANCE and type(b) in _SHARED_BY_CHANCE:
            self.tracer.abort("values are compared by `is`", "compare them with `==`")
            return a is b
        path_a, path_b = self.tracer.path_of(a), self.tracer.path_of(b)
        made = path_a is None or path_b is None
        if made and isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a is not b:
            if not (self.recorder.is_always_new(a) and self.recorder.is_always_new(b)):
                # At other sizes an operation may return its argument.
                self.tracer.abort("tensors that the program made are compared by `is`")
            return False
        if path_a is not None and path_b is not None and a is not b:
            key = (Kind.DISTINCT, path_a, path_b)
            self.tracer.distinct(key, (path_a, path_b))
        return a is b

    def _is_same_number(self, a: object, b: object) -> bool:
        """Equal ones may be one object or two, as the caller has made them."""
        x, y = (self.tracer.specialize(each, "it is compared by `is`") for each in (a, b))
        if x is y or type(x) is not type(y) or repr(x) != repr(y):
            return x is y
        self.tracer.abort("numbers are compared by `is`", "compare them with `==`")
        return is_same(a, b)

    def contains(self, item: Any, container: object) -> bool:
        kind: object = type(container)
        try:
            own = getattr(kind, "__contains__", None)
            if isinstance(own, types.FunctionType) and not isinstance(container, torch.Tensor):
                self.attributes.class_attribute(kind, "__contains__")
                return self.truth(self.call(own, container, item))
            if isinstance(container, torch.Tensor):
                return self.recorder.run(torch.Tensor.__contains__, (container, item), {})
            if holds_traced(item) and isinstance(container, (dict, *SETS)):
                item = self.specialized(item, "it is looked up")
            path = self.tracer.path_of(container)
            if path is not None and isinstance(container, dict):
                return self.outside.has_key(container, path, item)
            if path is not None and kind in (set, frozenset):
                self.hashed(item)
                return self.outside.has_member(container, path, item)
            if isinstance(container, dict) or kind in (set, frozenset) or kind is _KEYS:
                self.observe(container, "contains")
                self.hashed(item)
                return item in container
            if own is None and not isinstance(container, type):
                self.attributes.class_attribute(kind, "__contains__")
            if own is None and not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
                return operator.contains(container, item)  # pyright: ignore[reportArgumentType] raises
            if own is None:
                return self._in_sequence(item, container)
            if isinstance(container, (list, tuple, deque)) and not all(
                type(part) in ATOMS for part in (item, *base_of(container).__iter__(container))
            ):
                return self._in_sequence(item, container)
            if not _are_watched((container, item)):
                item = self.specialized(item, "it is looked for")
                container = self.specialized(container, "it is looked into")
            return operator.contains(self.operand(container), self.operand(item))
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return item in container

    def _in_sequence(self, item: object, container: object) -> bool:
        return any(self.equals(part, item) for part in self.iterate(container))

    def equals(self, a: object, b: object) -> bool:
        """Whether containers take two objects for equal: they are one, or `==` says so."""
        both = (a, b)
        is_nan = any(type(x) is float and math.isnan(x) for x in both)
        if is_nan and a is not b and _FLOATS.issuperset(map(type, both)):
            self.tracer.abort("NaN is looked for by its identity")
        return a is b or self.truth(self.compare("eq", a, b))

    # -- truth -------------------------------------------------------------------------------------

    def truth(self, value: Any) -> bool:
        kind = type(value)
        if kind is bool:
            return value
        if kind in ATOMS or kind in TRACED:
            return bool(value)
        try:
            if isinstance(value, torch.Tensor):
                return self.recorder.run(torch.Tensor.__bool__, (value,), {})
            path = self.tracer.path_of(value)
            if path is not None and isinstance(value, _CONTAINERS):
                if not defines(kind, "__bool__", "__len__"):
                    return self.outside.truth(value, path)
            elif kind in BUILT_IN:
                return bool(value)
            for name in ("__bool__", "__len__"):
                found = self.attributes.class_attribute(kind, name)
                if found is not None and not isinstance(found[1], types.WrapperDescriptorType):
                    return self._own_truth(value, name, *found)
                if found is not None:
                    return bool(self.specialized(value, "its truth", "truth"))
            return True
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return bool(value)

    def _own_truth(self, value: object, name: str, holder: type, own: object) -> bool:
        """What the program's own method says of a value, as Python takes it."""
        result = self.call(self.attributes.bound(value, holder, name, own))
        if name == "__bool__":
            if type(result) is not bool:
                kind = type(result).__name__
                raise TypeError(f"__bool__ should return bool, returned {kind}")
            return result
        return self.truth(as_length(result))

    def caught(self, error: BaseException | None = None) -> None:
        """Leave if a name was not found by Python itself: that it stays so is not guarded."""
        error = error or sys.exc_info()[1]
        if isinstance(error, NameError | ImportError) and not isinstance(error, UnboundLocalError):
            self.tracer.abort(f"a {type(error).__name__} is caught", "look the name up beforehand")

    def asserting(self) -> bool:
        self.tracer.checking = True
        return True

    def asserted(self, value: object) -> object:
        self.tracer.checking = False
        return value

    def test(self, value: object) -> object:
        kind = type(value)
        if kind in ATOMS or kind in TRACED:
            return value
        if isinstance(value, torch.Tensor):
            return value  # Python asks a tensor itself, which the function mode sees.
        if _has_code(kind, "__bool__") or _has_code(kind, "__len__"):
            self.tracer.abort(f"`and`/`or` on a {kind.__name__}")
            return value
        self.truth(value)
        return value


#: Equal values of these types may or may not be one object.
_SHARED_BY_CHANCE: Final = frozenset({str, bytes, int, float, complex, torch.device})


def _unsupported(function: Callable[..., object], a: object, b: object) -> object:
    """What Python does when neither operand knows the operator."""
    if function is operator.eq or function is operator.ne:
        return (a is b) is (function is operator.eq)
    kinds = type(a).__name__, type(b).__name__
    if function in _COMPARE.values():
        text = f"'{_SYMBOLS[function]}' not supported between instances of"
        raise TypeError(f"{text} '{kinds[0]}' and '{kinds[1]}'")
    text = f"unsupported operand type(s) for {_SYMBOLS[function]}:"
    raise TypeError(f"{text} '{kinds[0]}' and '{kinds[1]}'")


def _are_texts(a: object, b: object) -> bool:
    return type(a) in (str, TracedText) and type(b) in (str, TracedText)


def _is_sequence(value: object) -> bool:
    return isinstance(value, (list, tuple))


_NAMES: Final = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("lshift", "rshift", "and", "or", "xor"),
)
_BINARY: Final = {
    name: getattr(operator, f"{name}_" if name in ("and", "or") else name) for name in _NAMES
}
_IN_PLACE: Final = {name: getattr(operator, f"i{name}") for name in _NAMES}
_FORWARD: Final = {name: f"__{name}__" for name in _NAMES}
_REFLECTED: Final = {name: f"__r{name}__" for name in _NAMES}
_UNARY: Final = {"neg": operator.neg, "pos": operator.pos, "invert": operator.invert}
_COMPARE: Final = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
_SYMBOLS: Final = {
    **dict(zip(_COMPARE.values(), ("<", "<=", ">", ">=", "==", "!="), strict=True)),
    **dict(
        zip(
            _BINARY.values(),
            ("+", "-", "*", "/", "//", "%", "** or pow()", "@", "<<", ">>", "&", "|", "^"),
            strict=True,
        )
    ),
}
_COMPARISONS: Final = frozenset(f"__{name}__" for name in _COMPARE)
#: Special methods of binary operators.
_OPERATORS: Final = (*_FORWARD.values(), *_REFLECTED.values(), *sorted(_COMPARISONS))
#: What the comparison of an atom reads of the other operand.
_COMPARED_WITH_ATOMS: Final = (int, float, complex, str, bytes, bytearray, range)
_MIRROR: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
