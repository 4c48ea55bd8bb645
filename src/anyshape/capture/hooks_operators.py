"""Hooks of operators: arithmetic, comparison, membership, truth."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture import concolic
from anyshape.capture.attributes import is_trusted
from anyshape.capture.formatting import percent
from anyshape.capture.hooks_base import BUILT_IN, ITERATORS, NUMBERS, TRACED, HooksBase, defines
from anyshape.capture.natives.methods import change_in_place
from anyshape.capture.outside import SETS, holds_traced
from anyshape.capture.stripping import stripped
from anyshape.capture.traced_text import TracedText, joined
from anyshape.capture.tracer import ATOMS, Leave
from anyshape.guards.guard import Kind

_KEYS: Final[Any] = type({}.keys())


class OperatorHooks(HooksBase):
    """What Python's operators do, with user code called through hooks."""

    def binary(self, name: str, a: Any, b: Any) -> Any:
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
        except Leave as left:
            self.tracer.leave_for(left)
        return function(a, b)

    def _tensor_binary(self, name: str, function: Callable[..., Any], a: Any, b: Any) -> Any:
        if isinstance(a, torch.Tensor):
            if not isinstance(b, torch.Tensor) and type(b) not in (*NUMBERS, complex):
                raise Leave(f"a tensor {name} a {type(b).__name__}")
            method = getattr(torch.Tensor, _FORWARD[name])
            return self.recorder.run(method, (a, b), {}, function)
        if type(a) not in NUMBERS and type(a) is not complex:
            raise Leave(f"a {type(a).__name__} {name} a tensor")
        method = getattr(torch.Tensor, _REFLECTED[name])
        return self.recorder.run(method, (b, a), {})

    def _operator(
        self, forward: str, reflected: str, function: Callable[..., Any], a: Any, b: Any
    ) -> Any:
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
                if function in _COMPARE.values():
                    return concolic.compare(function, a, b)
                return concolic.binary(function, a, b)
        own_a, own_b = getattr(kind_a, forward, None), getattr(kind_b, reflected, None)
        python_a = isinstance(own_a, types.FunctionType)
        python_b = isinstance(own_b, types.FunctionType)
        if not python_a and not python_b:
            a, b = self.operand(a), self.operand(b)
            for kind, name in ((kind_a, forward), (kind_b, reflected)):
                self.attributes.class_attribute(kind, name)
            if type(a) is str or not (_is_sequence(a) and _is_sequence(b)):
                # Formatting and repetition read the digits of a number.
                a, b = self.fixed(a, "an operand"), self.fixed(b, "an operand")
            return function(a, b)
        attempts = [(own_a, a, b, kind_a, forward)] if own_a is not None else []
        if own_b is not None and kind_a is not kind_b:
            attempt = (own_b, b, a, kind_b, reflected)
            if issubclass(kind_b, kind_a) and own_b is not getattr(kind_a, reflected, None):
                attempts.insert(0, attempt)
            else:
                attempts.append(attempt)
        for own, this, other, kind, name in attempts:
            if getattr(own, "__objclass__", None) is object:
                continue  # `object` compares by identity, which comes last
            if kind in TRACED:
                result = own(this, other)
            elif isinstance(own, types.FunctionType):
                self.attributes.class_attribute(kind, name)
                result = self.call(own, this, other)
            else:
                result = own(
                    self.fixed(self.operand(this), "an operand"),
                    self.fixed(self.operand(other), "an operand"),
                )
            if result is not NotImplemented:
                return result
        return _unsupported(function, a, b)

    def inplace(self, name: str, a: Any, b: Any) -> Any:
        function = _IN_PLACE[name]
        kind_a = type(a)
        if kind_a in ATOMS or kind_a in TRACED:
            return self.binary(name, a, b)
        try:
            if isinstance(a, torch.Tensor):
                method = getattr(torch.Tensor, f"__i{name}__", None)
                if method is None or not (isinstance(b, torch.Tensor) or type(b) in NUMBERS):
                    return self.binary(name, a, b)
                return self.recorder.run(method, (a, b), {}, function)
            own = getattr(kind_a, f"__i{name}__", None)
            if isinstance(own, types.FunctionType):
                self.attributes.class_attribute(kind_a, f"__i{name}__")
                result = self.call(own, a, b)
                return self.binary(name, a, b) if result is NotImplemented else result
            if own is None:
                return self.binary(name, a, b)
            path = self.tracer.path_of(a)
            if path is not None:
                return change_in_place(self, name, a, path, b)
            if kind_a is list:
                return function(a, self.unpack(b))
            return function(a, self.operand(b))
        except Leave as left:
            self.tracer.leave_for(left)
        return function(a, stripped(b))

    def unary(self, name: str, a: Any) -> Any:
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
        self.tracer.leave(f"`{name}` of a {kind.__name__}")
        return function(a)

    def compare(self, name: str, a: Any, b: Any) -> Any:
        function = _COMPARE[name]
        kind_a, kind_b = type(a), type(b)
        if (kind_a in ATOMS or kind_a in TRACED) and (kind_b in ATOMS or kind_b in TRACED):
            return concolic.compare(function, a, b)
        try:
            if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
                return self._tensor_compare(name, function, a, b)
            return self._operator(f"__{name}__", f"__{_MIRROR[name]}__", function, a, b)
        except Leave as left:
            self.tracer.leave_for(left)
        return function(a, b)

    def _tensor_compare(self, name: str, function: Callable[..., Any], a: Any, b: Any) -> Any:
        if isinstance(a, torch.Tensor) and (isinstance(b, torch.Tensor) or type(b) in NUMBERS):
            return self.recorder.run(getattr(torch.Tensor, f"__{name}__"), (a, b), {}, function)
        if type(a) in NUMBERS:
            mirrored = _MIRROR[name]
            return self.recorder.run(
                getattr(torch.Tensor, f"__{mirrored}__"), (b, a), {}, _COMPARE[mirrored]
            )
        if (a is None or b is None) and name in ("eq", "ne"):
            return name == "ne"
        raise Leave(f"a tensor is compared with a {type(b).__name__}")

    def same(self, a: Any, b: Any) -> bool:
        if type(a) in TRACED or type(b) in TRACED:
            if a is None or b is None or isinstance(a, bool) or isinstance(b, bool):
                return a is b
            return self.fixed(a, "it is compared by `is`") is self.fixed(b, "`is`")
        if a is None or b is None:
            return a is b
        if type(a) in _SHARED_BY_CHANCE and type(b) in _SHARED_BY_CHANCE:
            self.tracer.leave("values are compared by `is`", "compare them with `==`")
            return a is b
        path_a, path_b = self.tracer.path_of(a), self.tracer.path_of(b)
        made = path_a is None or path_b is None
        if made and isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a is not b:
            # At other sizes an operation may return its argument.
            self.tracer.leave("tensors that the program made are compared by `is`")
            return False
        if path_a is not None and path_b is not None and a is not b:
            key = (Kind.DISTINCT, path_a, path_b)
            self.tracer.distinct(key, (path_a, path_b))
        return a is b

    def contains(self, item: Any, container: Any) -> bool:
        kind: Any = type(container)
        try:
            own = getattr(kind, "__contains__", None)
            if isinstance(own, types.FunctionType) and not isinstance(container, torch.Tensor):
                self.attributes.class_attribute(kind, "__contains__")
                return self.truth(self.call(own, container, item))
            if isinstance(container, torch.Tensor):
                return self.recorder.run(torch.Tensor.__contains__, (container, item), {})
            if holds_traced(item) and isinstance(container, (dict, *SETS)):
                item = self.fixed(item, "it is looked up")
            path = self.tracer.path_of(container)
            if path is not None and isinstance(container, dict):
                return self.outside.has_key(container, path, item)
            if path is not None and kind in (set, frozenset):
                self.outside.members(container, path)
            if isinstance(container, dict) or kind in (set, frozenset) or kind is _KEYS:
                self.hashed(item)
                return item in container
            if own is None and not isinstance(container, type):
                self.attributes.class_attribute(kind, "__contains__")
            if own is None and not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
                return operator.contains(container, item)  # pyright: ignore[reportArgumentType] raises
            if own is None and kind not in ITERATORS:
                return any(self.compare("eq", item, part) for part in self.iterate(container))
            if kind in (list, tuple) and not all(
                type(part) in ATOMS or type(part) in TRACED
                for part in container  # pyright: ignore[reportGeneralTypeIssues] a sequence
            ):
                return self._in_sequence(item, container)
            return operator.contains(self.operand(container), self.operand(item))
        except Leave as left:
            self.tracer.leave_for(left)
        return item in container

    def _in_sequence(self, item: Any, container: Any) -> bool:
        for part in self.iterate(container):
            if part is item or self.truth(self.compare("eq", part, item)):
                return True
        return False

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
            if kind in BUILT_IN:
                if path is not None and not isinstance(value, str):
                    return self.outside.truth(value, path)
                return bool(value)
            for name in ("__bool__", "__len__"):
                own = getattr(kind, name, None)
                if isinstance(own, types.FunctionType):
                    self.attributes.class_attribute(kind, name)
                    return bool(self.call(own, value))
                if own is not None:
                    if path is not None and isinstance(value, (dict, list, tuple, set)):
                        return self.outside.truth(value, path)
                    if path is not None and not is_trusted(kind.__module__):
                        raise Leave(f"the truth of a {kind.__name__}")
                    return bool(value)
                self.attributes.class_attribute(kind, name)
            return True
        except Leave as left:
            self.tracer.leave_for(left)
        return bool(value)

    def asserting(self) -> bool:
        self.tracer.checking = True
        return True

    def asserted(self, value: Any) -> Any:
        self.tracer.checking = False
        return value

    def test(self, value: Any) -> Any:
        kind = type(value)
        if kind in ATOMS or kind in TRACED:
            return value
        if (
            isinstance(value, torch.Tensor)
            or isinstance(getattr(kind, "__bool__", None), types.FunctionType)
            or isinstance(getattr(kind, "__len__", None), types.FunctionType)
        ):
            # Python asks a tensor itself, which the function mode sees.
            if not isinstance(value, torch.Tensor) and self._has_own_truth(kind):
                self.tracer.leave(f"`and`/`or` on a {kind.__name__}")
            return value
        self.truth(value)
        return value

    def _has_own_truth(self, kind: type) -> bool:
        return hasattr(kind, "__bool__") or hasattr(kind, "__len__")


#: Equal values of these types may or may not be one object.
_SHARED_BY_CHANCE: Final = frozenset({str, bytes, int, float, complex, torch.device})


def _unsupported(function: Callable[..., Any], a: Any, b: Any) -> Any:
    """What Python does when neither operand knows the operator."""
    if function is operator.eq or function is operator.ne:
        return (a is b) is (function is operator.eq)
    kinds = type(a).__name__, type(b).__name__
    if function in _COMPARE.values():
        text = f"'{_SYMBOLS[function]}' not supported between instances of"
        raise TypeError(f"{text} '{kinds[0]}' and '{kinds[1]}'")
    text = f"unsupported operand type(s) for {_SYMBOLS[function]}:"
    raise TypeError(f"{text} '{kinds[0]}' and '{kinds[1]}'")


def _are_texts(a: Any, b: Any) -> bool:
    return type(a) in (str, TracedText) and type(b) in (str, TracedText)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple))


_NAMES: Final = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "lshift",
    "rshift",
    "and",
    "or",
    "xor",
]
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
_MIRROR: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
