"""Hooks of items and iteration: reading, storing, deleting, walking containers."""

from __future__ import annotations

import contextlib
import operator
import types
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.externals.external_objects import SEQUENCES, SETS, holds_traced
from anyshape.capture.externals.launch_objects import Launcher
from anyshape.capture.externals.untrace import untraced
from anyshape.capture.hooks.attributes import is_trusted
from anyshape.capture.hooks.base import BUILT_IN, ITERATORS, TRACED, HooksBase, defines
from anyshape.capture.hooks.identity_methods import told_by_identity
from anyshape.capture.hooks.walked import Walked, WalkedIterator, has_length_hint
from anyshape.capture.numbers.traced_text import bare
from anyshape.capture.value_kinds import ATOMS
from anyshape.guards.guard import Kind
from anyshape.ops.kernel_launch import is_kernel


class ItemHooks(HooksBase):
    """What subscripts, loops and unpacking do."""

    def item(self, obj: Any, key: object) -> Any:
        try:
            kind = type(obj)
            if isinstance(obj, torch.Tensor):
                return self.recorder.run(
                    torch.Tensor.__getitem__, (obj, self.index(key)), {}, operator.getitem
                )
            if is_kernel(obj):
                return Launcher(obj, key)
            if type(key) in TRACED or holds_traced(key):
                key = self.specialized(key, "a container is indexed by it")
            path = self.tracer.path_of(obj)
            if path is None and kind in BUILT_IN:
                return obj[self._position(obj, key)]
            if path is None and isinstance(obj, dict) and hasattr(kind, "__missing__"):
                return self._item_or_missing(obj, key)
            own = getattr(kind, "__getitem__", None)
            if isinstance(own, types.FunctionType):
                self.attributes.class_attribute(kind, "__getitem__")
                return self.call(own, obj, key)
            if isinstance(obj, type):
                own = obj.__dict__.get("__class_getitem__")
                if isinstance(own, types.ClassMethodDescriptorType):
                    return operator.getitem(obj, self._type_arguments(key))  # pyright: ignore[reportCallIssue, reportArgumentType] it has one
                if own is not None and not isinstance(own, classmethod):
                    raise AbortCapture("a class that is indexed")
                if isinstance(own, classmethod) and isinstance(own.__func__, types.FunctionType):
                    return self.call(self.attribute(obj, "__class_getitem__"), key)
                return operator.getitem(obj, key)  # pyright: ignore[reportCallIssue, reportArgumentType] of the metaclass
            if path is not None:
                if isinstance(obj, (list, tuple, dict, deque)):
                    return self.outside.item(obj, path, self._position(obj, key))
                self.observe(obj, "item")
                return obj[self._position(obj, key)]
            if isinstance(obj, (list, tuple, dict, deque, str, bytes)) or is_trusted(
                kind.__module__
            ):
                return obj[self._position(obj, key)]
            raise AbortCapture(f"an item of a {kind.__name__}")
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return operator.getitem(obj, key)  # pyright: ignore[reportCallIssue, reportArgumentType] as Python does

    def _type_arguments(self, key: object) -> object:
        """What a built-in class is subscripted with: classes and what `typing` has."""
        for part in key if type(key) is tuple else (key,):
            path = self.tracer.path_of(part)
            if path is not None and type(part).__module__ not in ("typing", "types"):
                raise AbortCapture(f"a class is indexed by a {type(part).__name__}")
            if path is not None:
                self.tracer.guard(Kind.IDENTITY, path, part)
        return key

    def _item_or_missing(self, obj: Any, key: object) -> object:
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

    def _position(self, obj: object, key: object) -> Any:
        """A key as native code may use it: it hashes one, and asks an index for its number."""
        if type(key) in ATOMS:
            if type(key) is float and key != key:
                self.hashed(key)
            return key
        if isinstance(obj, dict):
            self.hashed(key)
            return key
        if type(key) is slice:
            for part in (key.start, key.stop, key.step):
                self.observe(part, "index")
            return key
        if isinstance(key, torch.Tensor):
            return key  # Python asks it for its number, which the function mode sees.
        return self.observe(key, "index")

    def index(self, key: object) -> Any:
        """A key into a tensor, with what comes from outside read."""
        path = self.tracer.path_of(key)
        if path is not None and isinstance(key, (list, tuple)):
            # A named tuple is an index like any other tuple.
            kind = list if isinstance(key, list) else tuple
            return kind(self.outside.contents(key, path))
        return key

    def set_item(self, obj: Any, key: object, value: object) -> None:
        try:
            self.tracer.check_active()
            self.tracer.has_effect("an item is set")
            if isinstance(obj, torch.Tensor):
                self.recorder.run(
                    torch.Tensor.__setitem__, (obj, self.index(key), value), {}, operator.setitem
                )
                return
            if type(key) in TRACED or holds_traced(key):
                key = self.specialized(key, "a container is indexed by it")
            own = getattr(type(obj), "__setitem__", None)
            if isinstance(own, types.FunctionType):
                self.attributes.class_attribute(type(obj), "__setitem__")
                self.call(own, obj, key, value)
                return
            path = self.tracer.path_of(obj)
            if path is not None:
                if isinstance(obj, (list, dict, deque)):
                    self.outside.set_item(obj, path, key, value)
                    return
                raise AbortCapture(
                    f"an item of a {type(obj).__name__} from outside the function is set"
                )
            if type(key) is slice:
                value = self.iterate(value)
            obj[self._position(obj, key)] = value
            return
        except AbortCapture as left:
            self.tracer.leave_for(left)
        obj[untraced(key)] = untraced(value)

    def delete_item(self, obj: Any, key: Any) -> None:
        try:
            self.tracer.has_effect("an item is deleted")
            own = getattr(type(obj), "__delitem__", None)
            if isinstance(own, types.FunctionType):
                self.call(own, obj, key)
                return
            path = self.tracer.path_of(obj)
            if holds_traced(key):
                key = self.specialized(key, "a container is indexed by it")
            if path is not None:
                if isinstance(obj, (list, dict, deque)):
                    self.outside.delete_item(obj, path, key)
                    return
                raise AbortCapture(
                    f"an item of a {type(obj).__name__} from outside the function is deleted"
                )
            del obj[self._position(obj, key)]
            return
        except AbortCapture as left:
            self.tracer.leave_for(left)
        del obj[key]

    def key(self, key: object) -> Any:
        try:
            if type(key) in ATOMS:
                return key
            if holds_traced(key):
                return self.specialized(key, "it is a key")
            self.hashed(key)
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return key

    # -- iteration ---------------------------------------------------------------------------------

    def iterate(self, value: object) -> Any:
        steps = self._iterate(value)
        return Walked(self, value, steps) if has_length_hint(type(value)) else steps

    def length_hint(self, value: Any) -> Any:
        """What an object says of its length to who makes a list of it."""
        kind: Any = type(value)
        if isinstance(getattr(kind, "__len__", None), types.FunctionType):
            with contextlib.suppress(TypeError):
                return bare(self.call(len, value))
        if not isinstance(getattr(kind, "__length_hint__", None), types.FunctionType):
            return NotImplemented
        self.attributes.class_attribute(kind, "__length_hint__")
        return bare(self.call(kind.__length_hint__, value))

    def _iterate(self, value: object) -> Any:
        kind = type(value)
        try:
            if isinstance(value, Iterator):
                self.tracer.has_effect("an iterator is advanced")
            path = self.tracer.path_of(value)
            if path is None:
                if isinstance(value, SETS):
                    self.in_this_order(value)
                if kind in BUILT_IN or kind in ITERATORS:
                    return value
            elif isinstance(value, (*SEQUENCES, dict, *SETS)) and not defines(kind, "__iter__"):
                return self.outside.each(value, path)
            elif isinstance(value, (str, bytes)):
                return value
            if isinstance(value, torch.Tensor):
                if torch.Tensor.dim(value) == 0:
                    raise TypeError("iteration over a 0-d tensor")
                return self.recorder.run(torch.Tensor.unbind, (value, 0), {})
            own = getattr(kind, "__iter__", None)
            if isinstance(own, types.FunctionType):
                self.attributes.class_attribute(kind, "__iter__")
                return self.iterate_over(self.call(own, value))
            if path is not None:
                raise AbortCapture(f"iteration over a {kind.__name__} from outside the function")
            if isinstance(value, (list, tuple, dict, set, frozenset, deque)):
                return value
            if is_trusted(kind.__module__) or kind.__module__ == "itertools":
                return value
            if isinstance(value, type):
                return value
            if own is None and isinstance(getattr(kind, "__getitem__", None), types.FunctionType):
                steps = self.by_index(value)
                return WalkedIterator(self, value, steps) if hasattr(kind, "__len__") else steps
            raise AbortCapture(f"iteration over a {kind.__name__}")
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return value

    def in_this_order(self, members: Any) -> None:
        """Guard what the order of a set depends on: where the objects lie that are hashed by their
        identity. Those that the program has made lie elsewhere in each call, eagerly too."""
        if len(members) < 2:
            return
        for member in members:
            if isinstance(member, (tuple, frozenset)):
                self.in_this_order((*member, *member))
            elif isinstance(member, torch.Tensor):
                raise AbortCapture(
                    "iteration over a set of tensors, whose order is that of their addresses"
                )
            elif type(member) not in ATOMS and told_by_identity(type(member)) is not None:
                path = self.tracer.path_of(member)
                if path is not None:
                    reason = "the order of a set is that of its members' addresses"
                    self.tracer.guard(Kind.IDENTITY, path, member, reason)

    def iterate_over(self, iterator: Any) -> Iterable[object]:
        """An iterator whose steps may be user code."""
        own = getattr(type(iterator), "__next__", None)
        if isinstance(own, types.FunctionType):
            steps = self._steps(iterator, own)
            has_hint = has_length_hint(type(iterator))
            return WalkedIterator(self, iterator, steps) if has_hint else steps
        return self.iterate(iterator) if type(iterator) not in ITERATORS else iterator

    def _steps(self, iterator: object, own: Callable[..., object]) -> Iterator[object]:
        while True:
            try:
                item = self.call(own, iterator)
            except StopIteration:
                return
            yield item

    def by_index(self, value: object) -> Iterator[object]:
        index = 0
        while True:
            try:
                item = self.item(value, index)
            except IndexError:
                return
            yield item
            index += 1

    def unpack(self, value: object) -> object:
        return self.iterate(value)

    def members(self, value: object) -> object:
        """What becomes members of a set: hashed, and compared with each other."""
        return map(self.key, self.iterate(value))

    def mapping(self, value: object) -> object:
        try:
            path = self.tracer.path_of(value)
            if path is not None:
                if isinstance(value, dict) and not defines(type(value), "keys", "__getitem__"):
                    return self.outside.contents(value, path)
                raise AbortCapture(f"`**` of a {type(value).__name__} from outside the function")
            if isinstance(value, dict) and not defines(type(value), "keys", "__getitem__"):
                return value
            if isinstance(value, torch.Tensor):
                return value
            own = getattr(type(value), "keys", None)
            if isinstance(own, types.FunctionType):
                keys = deque(self.iterate(self.call(self.attribute(value, "keys"))))
                return {key: self.item(value, key) for key in keys}
            raise AbortCapture(f"`**` of a {type(value).__name__}")
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return value
