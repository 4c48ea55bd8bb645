"""The hooks that instrumented code calls: each does what Python does, and lets the tracer see it.

The plain case comes first in every hook, because most values in a program are plain. What cannot be
followed raises `Leave`; the hook then stops the capture and does the operation as plain Python.
"""

from __future__ import annotations

import builtins
import functools
import operator
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

from anyshape.capture import concolic
from anyshape.capture.attributes import Attributes, is_trusted
from anyshape.capture.callables import Callables
from anyshape.capture.concolic import TracedFloat, TracedInt
from anyshape.capture.contexts import entered
from anyshape.capture.journal import Change, Effect
from anyshape.capture.outside import SEQUENCES, SETS, Outside, holds_traced, is_key
from anyshape.capture.plain_hooks import PlainHooks
from anyshape.capture.recorder import Recorder
from anyshape.capture.stripping import stripped
from anyshape.capture.tensor_reads import CONSTANT_ATTRIBUTES, shape
from anyshape.capture.tracer import ATOMS, CODE, Leave, Tracer
from anyshape.guards.guard import Kind

_TRACED: Final = (TracedInt, TracedFloat)
_NUMBERS: Final = frozenset({int, float, bool, TracedInt, TracedFloat})
#: Built-in containers that the program made itself, or that were checked to be inside.
_BUILT_IN: Final = frozenset(
    {list, tuple, dict, set, frozenset, str, bytes, range, torch.Size, OrderedDict, deque, slice}
)
_ITERATORS: Final = frozenset(
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


class Hooks(PlainHooks):
    """The hooks of one capture. After `leave` watched code has plain ones instead."""

    def __init__(
        self, tracer: Tracer, recorder: Recorder, outside: Outside, tables: Any = None
    ) -> None:
        self.tracer = tracer
        self.recorder = recorder
        self.outside = outside
        self.journal = outside.journal
        self.attributes = Attributes(tracer, outside, self.call)
        self.callables = Callables(self)
        self._globals_read: dict[tuple[int, str], Any] = {}

    # -- names -----------------------------------------------------------------------------------

    def load_global(self, frame: Any, name: str, value: Any) -> Any:
        known = self._globals_read.get((id(frame.globals), name), _UNREAD)
        if known is not _UNREAD:
            return known
        try:
            read = self._read_global(frame.globals, name, value)
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return value
        self._globals_read[id(frame.globals), name] = read
        return read

    def _read_global(self, globals_: dict[str, Any], name: str, value: Any) -> Any:
        module = globals_.get("__name__")
        if name not in globals_:
            if not is_trusted(module):
                path = self.tracer.constant(globals_, "G")
                self.tracer.guard(Kind.CONTAINS, path, (name, False))
            if name in vars(builtins):
                path = self.tracer.constant(vars(builtins), "builtins")
                self.tracer.guard(Kind.IDENTITY, path.item(name), value)
            return value
        if is_trusted(module) and (isinstance(value, CODE) or callable(value)):
            return value
        return self.tracer.read(value, self.tracer.constant(globals_, "G").item(name))

    def load_free(self, frame: Any, name: str, value: Any) -> Any:
        cell = frame.cells[name]
        if self.journal.is_written(cell, "cell_contents"):
            return self.journal.written(cell, "cell_contents")
        try:
            return self.tracer.read(value, self._cell_path(frame, name, cell))
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return value

    def _cell_path(self, frame: Any, name: str, cell: Any) -> Any:
        return self.tracer.constant(cell, f"L[{name!r}]").cell()

    def store_global(self, frame: Any, name: str, value: Any) -> Any:
        globals_ = frame.globals
        try:
            path = self.tracer.constant(globals_, "G")
            stored = self.outside.storable(value)
            self.journal.write(globals_, name, value)
            self.journal.add(Effect(Change.SET_ITEM, path, name, (value,)))
            self._globals_read[id(globals_), name] = value
            return stored
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return stripped(value)

    def store_free(self, frame: Any, name: str, value: Any) -> Any:
        cell = frame.cells[name]
        try:
            stored = self.outside.storable(value)
            self.journal.write(cell, "cell_contents", value)
            path = self.tracer.constant(cell, f"L[{name!r}]")
            self.journal.add(Effect(Change.SET_CELL, path, name, (value,)))
            return stored
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return stripped(value)

    def delete_global(self, frame: Any, name: str) -> None:
        self.tracer.leave(f"the global `{name}` is deleted")

    def imported(self, value: Any, module: str, name: str | None, *rest: Any) -> Any:
        if not isinstance(value, CODE):
            self.tracer.leave(f"`{name}` is imported inside the function")
        return value

    # -- attributes ------------------------------------------------------------------------------

    def attribute(self, obj: Any, name: str) -> Any:
        try:
            if isinstance(obj, torch.Tensor):
                return self._tensor_attribute(obj, name)
            return self.attributes.get(obj, name)
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return getattr(obj, name)

    def _tensor_attribute(self, tensor: torch.Tensor, name: str) -> Any:
        if name == "shape":
            return shape(self.recorder, tensor)
        if name in CONSTANT_ATTRIBUTES:
            self.recorder.known(tensor)
            with torch._C.DisableTorchFunction():
                return getattr(tensor, name)
        found = getattr(torch.Tensor, name, None)
        if found is None or name in tensor.__dict__:
            return self._instance_attribute_of_tensor(tensor, name)
        if isinstance(found, property | types.GetSetDescriptorType):
            if name in ("grad", "is_leaf"):
                return self._tensor_state(tensor, name)
            return self.recorder.run(found.__get__, (tensor,), {})
        with torch._C.DisableTorchFunction():
            return getattr(tensor, name)

    def _instance_attribute_of_tensor(self, tensor: torch.Tensor, name: str) -> Any:
        path = self.tracer.path_of(tensor)
        if path is None:
            return getattr(tensor, name)
        if self.journal.is_written(tensor, name):
            return self.journal.written(tensor, name)
        if name not in tensor.__dict__:
            self.tracer.guard(Kind.NO_INSTANCE_ATTRIBUTE, path, name)
            return getattr(tensor, name)  # raises
        return self.tracer.read(tensor.__dict__[name], path.instance(name))

    def _tensor_state(self, tensor: torch.Tensor, name: str) -> Any:
        path = self.tracer.path_of(tensor)
        with torch._C.DisableTorchFunction():
            value = getattr(tensor, name)
        if path is None:
            if name == "grad" and value is not None:
                raise Leave("the gradient of a tensor that the program made")
            return value
        return self.tracer.read(value, path.attribute(name))

    def set_attribute(self, obj: Any, name: str, value: Any) -> None:
        try:
            if isinstance(obj, torch.Tensor):
                raise Leave(f"the attribute `{name}` of a tensor is set")
            self.attributes.set(obj, name, value)
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            setattr(obj, name, stripped(value))

    def delete_attribute(self, obj: Any, name: str) -> None:
        try:
            self.attributes.delete(obj, name)
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            delattr(obj, name)

    def super(self, owner: Any, instance: Any) -> Any:
        return super_of(owner, instance)

    # -- items -----------------------------------------------------------------------------------

    def item(self, obj: Any, key: Any) -> Any:
        try:
            kind = type(obj)
            if isinstance(obj, torch.Tensor):
                return self.recorder.run(
                    torch.Tensor.__getitem__, (obj, self.index(key)), {}, operator.getitem
                )
            if type(key) in _TRACED or holds_traced(key):
                key = self.fixed(key, "a container is indexed by it")
            if type(key) not in ATOMS:
                self._no_own_index(key)
            path = self.tracer.path_of(obj)
            if path is None and kind in _BUILT_IN:
                return obj[key]
            if path is None and isinstance(obj, dict) and hasattr(kind, "__missing__"):
                return self._item_or_missing(obj, key)
            own = getattr(kind, "__getitem__", None)
            if isinstance(own, types.FunctionType):
                self.attributes.class_attribute(kind, "__getitem__")
                return self.call(own, obj, key)
            if isinstance(obj, type):
                own = obj.__dict__.get("__class_getitem__")
                if own is not None and not isinstance(own, classmethod):
                    raise Leave("a class that is indexed")
                if isinstance(own, classmethod) and isinstance(own.__func__, types.FunctionType):
                    return self.call(self.attribute(obj, "__class_getitem__"), key)
                return operator.getitem(obj, key)  # pyright: ignore[reportCallIssue, reportArgumentType] of the metaclass
            if path is not None:
                if isinstance(obj, (list, tuple, dict, deque)):
                    return self.outside.item(obj, path, key)
                raise Leave(f"an item of a {kind.__name__} from outside")
            if isinstance(obj, (list, tuple, dict, deque, str, bytes)) or is_trusted(
                kind.__module__
            ):
                return obj[key]
            raise Leave(f"an item of a {kind.__name__}")
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return operator.getitem(obj, key)  # pyright: ignore[reportCallIssue, reportArgumentType] as Python does

    def _item_or_missing(self, obj: Any, key: Any) -> Any:
        """An item of a dictionary that makes up missing ones by user code."""
        own = type(obj).__getitem__
        if isinstance(own, types.FunctionType):
            self.attributes.class_attribute(type(obj), "__getitem__")
            return self.call(own, obj, key)
        if dict.__contains__(obj, self.key(key)):
            return dict.__getitem__(obj, key)
        missing = type(obj).__missing__
        if isinstance(missing, types.FunctionType):
            self.attributes.class_attribute(type(obj), "__missing__")
            return self.call(missing, obj, key)
        if isinstance(obj, defaultdict) and obj.default_factory is not None:
            made = self.call(obj.default_factory)
            self.set_item(obj, key, made)
            return made
        return obj[key]  # raises

    def _no_own_index(self, key: Any) -> None:
        """Native code asks an index for its number: not if that is user code."""
        parts = (key.start, key.stop, key.step) if type(key) is slice else (key,)
        for part in parts:
            if _own(type(part), "__index__"):
                raise Leave(f"a {type(part).__name__} is used as an index")

    def index(self, key: Any) -> Any:
        """A key into a tensor, with what comes from outside read."""
        path = self.tracer.path_of(key)
        if path is not None and isinstance(key, (list, tuple)):
            return type(key)(self.outside.contents(key, path))
        return key

    def set_item(self, obj: Any, key: Any, value: Any) -> None:
        try:
            if isinstance(obj, torch.Tensor):
                self.recorder.run(
                    torch.Tensor.__setitem__, (obj, self.index(key), value), {}, operator.setitem
                )
                return
            if type(key) in _TRACED or holds_traced(key):
                key = self.fixed(key, "a container is indexed by it")
            own = getattr(type(obj), "__setitem__", None)
            if isinstance(own, types.FunctionType):
                self.attributes.class_attribute(type(obj), "__setitem__")
                self.call(own, obj, key, value)
                return
            path = self.tracer.path_of(obj)
            if path is not None:
                if isinstance(obj, (list, dict)):
                    self.outside.set_item(obj, path, key, value)
                    return
                raise Leave(f"an item of a {type(obj).__name__} from outside is set")
            if isinstance(obj, dict) and not is_key(key):
                self._hashed(key)
            obj[key] = value
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            obj[stripped(key)] = stripped(value)

    def delete_item(self, obj: Any, key: Any) -> None:
        try:
            own = getattr(type(obj), "__delitem__", None)
            if isinstance(own, types.FunctionType):
                self.call(own, obj, key)
                return
            path = self.tracer.path_of(obj)
            if holds_traced(key):
                key = self.fixed(key, "a container is indexed by it")
            if path is not None:
                if isinstance(obj, (list, dict)):
                    self.outside.delete_item(obj, path, key)
                    return
                raise Leave(f"an item of a {type(obj).__name__} from outside is deleted")
            del obj[key]
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            del obj[key]

    def key(self, key: Any) -> Any:
        try:
            if type(key) in ATOMS:
                return key
            if holds_traced(key):
                return self.fixed(key, "it is a key")
            self._hashed(key)
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
        return key

    def _hashed(self, key: Any) -> None:
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
                self._hashed(part)
            return
        raise Leave(f"a {own.__name__} is a key: its own code hashes and compares it")

    def fixed(self, value: Any, reason: str) -> Any:
        """A value with every traced number in it made plain, and guarded."""
        kind = type(value)
        if kind in _TRACED:
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

    # -- operators -------------------------------------------------------------------------------

    def binary(self, name: str, a: Any, b: Any) -> Any:
        function = _BINARY[name]
        kind_a, kind_b = type(a), type(b)
        if kind_a in ATOMS and kind_b in ATOMS:
            return function(a, b)
        if kind_a in _NUMBERS and kind_b in _NUMBERS:
            return concolic.binary(function, a, b)
        try:
            if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
                return self._tensor_binary(name, function, a, b)
            return self._operator(_FORWARD[name], _REFLECTED[name], function, a, b)
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return function(a, b)

    def _tensor_binary(self, name: str, function: Callable[..., Any], a: Any, b: Any) -> Any:
        if isinstance(a, torch.Tensor):
            if not isinstance(b, torch.Tensor) and type(b) not in (*_NUMBERS, complex):
                raise Leave(f"a tensor {name} a {type(b).__name__}")
            method = getattr(torch.Tensor, _FORWARD[name])
            return self.recorder.run(method, (a, b), {}, function)
        if type(a) not in _NUMBERS and type(a) is not complex:
            raise Leave(f"a {type(a).__name__} {name} a tensor")
        method = getattr(torch.Tensor, _REFLECTED[name])
        return self.recorder.run(method, (b, a), {})

    def _operator(
        self, forward: str, reflected: str, function: Callable[..., Any], a: Any, b: Any
    ) -> Any:
        """A binary operator on objects, which may define it themselves."""
        kind_a, kind_b = type(a), type(b)
        if kind_a in _TRACED or kind_b in _TRACED:
            other = kind_b if kind_a in _TRACED else kind_a
            if not _own(other, forward, reflected):
                a, b = self.operand(a), self.operand(b)
                if function in _COMPARE.values():
                    return concolic.compare(function, a, b)
                return concolic.binary(function, a, b)
        own_a, own_b = getattr(kind_a, forward, None), getattr(kind_b, reflected, None)
        python_a = isinstance(own_a, types.FunctionType)
        python_b = isinstance(own_b, types.FunctionType)
        if not python_a and not python_b:
            a, b = self.operand(a), self.operand(b)
            if type(a) is str and function is operator.mod and not self._prints_itself(b):
                raise Leave("an object is formatted")
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
            if kind in _TRACED:
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

    def operand(self, value: Any) -> Any:
        """A value that native code may look into: known through and through."""
        kind = type(value)
        if kind in ATOMS or kind in _TRACED or isinstance(value, CODE):
            return value
        path = self.tracer.path_of(value)
        if path is not None and isinstance(value, (*SEQUENCES, *SETS, dict)) and kind in _BUILT_IN:
            made = self.outside.contents(value, path)
            made = made if isinstance(value, (dict, *SETS)) else kind(made)
            return self._checked(made)
        return self._checked(value)

    def _checked(self, value: Any) -> Any:
        kind = type(value)
        if kind in ATOMS or kind in _TRACED or isinstance(value, CODE):
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
        if kind in (slice, types.GenericAlias, types.UnionType) or is_key(value):
            return value
        by_identity = kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__
        if by_identity and not _has_python_operators(kind):
            self.attributes.class_attribute(kind, "__eq__")
            return value
        raise Leave(f"native code looks into a {kind.__name__}")

    def inplace(self, name: str, a: Any, b: Any) -> Any:
        function = _IN_PLACE[name]
        kind_a = type(a)
        if kind_a in ATOMS or kind_a in _TRACED:
            return self.binary(name, a, b)
        try:
            if isinstance(a, torch.Tensor):
                method = getattr(torch.Tensor, f"__i{name}__", None)
                if method is None or not (isinstance(b, torch.Tensor) or type(b) in _NUMBERS):
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
                if kind_a is list and name == "add":
                    self.outside.method(a, path, list.extend, (b,))
                    return a
                raise Leave(f"a {kind_a.__name__} from outside is changed in place")
            if kind_a is list:
                return function(a, self.unpack(b))
            return function(a, self.operand(b))
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return function(a, b)

    def unary(self, name: str, a: Any) -> Any:
        function = _UNARY[name]
        kind = type(a)
        if kind in ATOMS or kind in _TRACED:
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
        if (kind_a in ATOMS or kind_a in _TRACED) and (kind_b in ATOMS or kind_b in _TRACED):
            return concolic.compare(function, a, b)
        try:
            if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
                return self._tensor_compare(name, function, a, b)
            return self._operator(f"__{name}__", f"__{_MIRROR[name]}__", function, a, b)
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return function(a, b)

    def _tensor_compare(self, name: str, function: Callable[..., Any], a: Any, b: Any) -> Any:
        if isinstance(a, torch.Tensor) and (isinstance(b, torch.Tensor) or type(b) in _NUMBERS):
            return self.recorder.run(getattr(torch.Tensor, f"__{name}__"), (a, b), {}, function)
        if type(a) in _NUMBERS:
            mirrored = _MIRROR[name]
            return self.recorder.run(
                getattr(torch.Tensor, f"__{mirrored}__"), (b, a), {}, _COMPARE[mirrored]
            )
        if (a is None or b is None) and name in ("eq", "ne"):
            return name == "ne"
        raise Leave(f"a tensor is compared with a {type(b).__name__}")

    def same(self, a: Any, b: Any) -> bool:
        if type(a) in _TRACED or type(b) in _TRACED:
            if a is None or b is None or isinstance(a, bool) or isinstance(b, bool):
                return a is b
            return self.fixed(a, "it is compared by `is`") is self.fixed(b, "`is`")
        if a is None or b is None:
            return a is b
        if type(a) in _SHARED_BY_CHANCE and type(b) in _SHARED_BY_CHANCE:
            self.tracer.leave("values are compared by `is`", "compare them with `==`")
            return a is b
        path_a, path_b = self.tracer.path_of(a), self.tracer.path_of(b)
        if path_a is not None and path_b is not None and a is not b:
            key = (Kind.DISTINCT, path_a, path_b)
            self.tracer.distinct(key, (path_a, path_b))
        return a is b

    def contains(self, item: Any, container: Any) -> bool:
        kind = type(container)
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
            if isinstance(container, dict) or kind in (set, frozenset):
                self._hashed(item)
                return item in container
            if own is None and not isinstance(container, type):
                self.attributes.class_attribute(kind, "__contains__")
            if own is None and not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
                return operator.contains(container, item)  # raises
            if own is None and kind not in _ITERATORS:
                return any(self.compare("eq", item, part) for part in self.iterate(container))
            if kind in (list, tuple) and not all(
                type(part) in ATOMS or type(part) in _TRACED for part in container
            ):
                return self._in_sequence(item, container)
            return self.operand(item) in self.operand(container)
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return item in container

    def _in_sequence(self, item: Any, container: Any) -> bool:
        for part in self.iterate(container):
            if part is item or self.truth(self.compare("eq", part, item)):
                return True
        return False

    # -- truth -----------------------------------------------------------------------------------

    def truth(self, value: Any) -> bool:
        kind = type(value)
        if kind is bool:
            return value
        if kind in ATOMS or kind in _TRACED:
            return bool(value)
        try:
            if isinstance(value, torch.Tensor):
                return self.recorder.run(torch.Tensor.__bool__, (value,), {})
            path = self.tracer.path_of(value)
            if kind in _BUILT_IN:
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
            self.tracer.leave(left.reason, *left.hints)
            return bool(value)

    def test(self, value: Any) -> Any:
        kind = type(value)
        if kind in ATOMS or kind in _TRACED:
            return value
        if (
            isinstance(value, torch.Tensor)
            or isinstance(getattr(kind, "__bool__", None), types.FunctionType)
            or isinstance(getattr(kind, "__len__", None), types.FunctionType)
        ):
            if isinstance(value, torch.Tensor):
                self.tracer.leave("the truth of a tensor", "use torch.where or logical operators")
            elif self._has_own_truth(kind):
                self.tracer.leave(f"`and`/`or` on a {kind.__name__}")
            return value
        self.truth(value)
        return value

    def _has_own_truth(self, kind: type) -> bool:
        return hasattr(kind, "__bool__") or hasattr(kind, "__len__")

    # -- iteration -------------------------------------------------------------------------------

    def iterate(self, value: Any) -> Any:
        kind = type(value)
        try:
            path = self.tracer.path_of(value)
            if path is None:
                if kind in _BUILT_IN or kind in _ITERATORS:
                    return value
            elif isinstance(value, SEQUENCES) and not _own(kind, "__iter__"):
                return self.outside.each(value, path)
            elif isinstance(value, (dict, *SETS)) and not _own(kind, "__iter__"):
                contents = self.outside.contents(value, path)
                return contents if isinstance(value, dict) else value
            elif isinstance(value, (str, bytes)):
                return value
            if isinstance(value, torch.Tensor):
                return self.recorder.run(torch.Tensor.unbind, (value, 0), {})
            own = getattr(kind, "__iter__", None)
            if isinstance(own, types.FunctionType):
                self.attributes.class_attribute(kind, "__iter__")
                return self.iterate_over(self.call(own, value))
            if path is not None:
                raise Leave(f"iteration over a {kind.__name__} from outside")
            if isinstance(value, (list, tuple, dict, set, frozenset, deque)):
                return value
            if is_trusted(kind.__module__) or kind.__module__ == "itertools":
                return value
            if isinstance(value, type):
                return value
            if own is None and isinstance(getattr(kind, "__getitem__", None), types.FunctionType):
                return self.by_index(value)
            raise Leave(f"iteration over a {kind.__name__}")
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return value

    def iterate_over(self, iterator: Any) -> Iterable[Any]:
        """An iterator whose steps may be user code."""
        own = getattr(type(iterator), "__next__", None)
        if isinstance(own, types.FunctionType):
            return self._steps(iterator, own)
        return self.iterate(iterator) if type(iterator) not in _ITERATORS else iterator

    def _steps(self, iterator: Any, own: Callable[..., Any]) -> Iterator[Any]:
        while True:
            try:
                item = self.call(own, iterator)
            except StopIteration:
                return
            yield item

    def by_index(self, value: Any) -> Iterator[Any]:
        index = 0
        while True:
            try:
                item = self.item(value, index)
            except IndexError:
                return
            yield item
            index += 1

    def unpack(self, value: Any) -> Any:
        return self.iterate(value)

    def mapping(self, value: Any) -> Any:
        try:
            path = self.tracer.path_of(value)
            if path is not None:
                if isinstance(value, dict) and not _own(type(value), "keys", "__getitem__"):
                    return self.outside.contents(value, path)
                raise Leave(f"`**` of a {type(value).__name__} from outside")
            if isinstance(value, dict) and not _own(type(value), "keys", "__getitem__"):
                return value
            if isinstance(value, torch.Tensor):
                return value
            own = getattr(type(value), "keys", None)
            if isinstance(own, types.FunctionType):
                keys = list(self.iterate(self.call(self.attribute(value, "keys"))))
                return {key: self.item(value, key) for key in keys}
            raise Leave(f"`**` of a {type(value).__name__}")
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return value

    # -- calls -----------------------------------------------------------------------------------

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.callables.call(function, args, kwargs)

    # -- the rest --------------------------------------------------------------------------------

    def format(self, value: Any, conversion: str | None, spec: str) -> str:
        try:
            if type(value) not in ATOMS:
                if isinstance(value, torch.Tensor):
                    raise Leave("a tensor is formatted")
                value = self.fixed(self.operand(value), "it is formatted")
                if not self._prints_itself(value):
                    raise Leave(f"a {type(value).__name__} is formatted")
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
        return super().format(value, conversion, spec)

    def _prints_itself(self, value: Any) -> bool:
        kind = type(value)
        if kind in ATOMS or isinstance(value, CODE):
            return not isinstance(value, types.FunctionType)
        if kind in (list, tuple, set, frozenset, torch.Size):
            return all(map(self._prints_itself, value))
        if kind is dict:
            return all(
                self._prints_itself(key) and self._prints_itself(item)
                for key, item in value.items()
            )
        return False

    def context(self, manager: Any) -> Any:
        try:
            return entered(self, manager)
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return manager

    def raising(self, error: Any) -> Any:
        if isinstance(error, type) and issubclass(error, BaseException):
            return self.call(error)
        return error

    def match(self, subject: Any) -> Any:
        try:
            subject = self.fixed(self.operand(subject), "it is matched")
            if not self._prints_itself(subject):
                # Patterns look at attributes, which may be user code.
                raise Leave(f"a {type(subject).__name__} is matched")
            return subject
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return subject

    def plain(self, value: Any) -> Any:
        try:
            return self.fixed(self.operand(value), "it is compared")
        except Leave as left:
            self.tracer.leave(left.reason, *left.hints)
            return value

    def slice(self, start: Any, stop: Any, step: Any) -> slice:
        return slice_of(start, stop, step)

    def making_class(self, name: str) -> None:
        self.tracer.leave(f"the class `{name}` is defined inside the function")


_UNREAD: Final = object()
super_of = super
slice_of = slice


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


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _own(kind: type, *names: str) -> bool:
    """Whether a class defines one of these in Python."""
    return any(isinstance(getattr(kind, name, None), types.FunctionType) for name in names)


@functools.lru_cache(maxsize=1024)
def _has_python_operators(kind: type) -> bool:
    return _own(kind, *_OPERATOR_NAMES)


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
_OPERATOR_NAMES: Final = (
    *_FORWARD.values(),
    *_REFLECTED.values(),
    *(f"__{name}__" for name in _COMPARE if name not in ("eq", "ne")),
    "__str__",
    "__repr__",
    "__format__",
    "__index__",
    "__int__",
    "__float__",
    "__bool__",
    "__len__",
    "__iter__",
    "__next__",
    "__contains__",
    "__getitem__",
)
