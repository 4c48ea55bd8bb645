"""`obj.name` as Python looks it up, with user code called through hooks and what was read guarded.

The class of an external object is guarded, so what remains is what the classes and the instance
hold: a class attribute is guarded on the class that has it (and on the classes before it, which do
not), an instance attribute in the instance's dictionary.
"""

from __future__ import annotations

import collections
import enum
import functools
import types
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.externals.external_objects import Externals
from anyshape.capture.externals.native_values import key_of_type
from anyshape.capture.externals.side_effects import SLOT, Change, Effect, is_kept_in_slot
from anyshape.capture.hooks.class_lookups import (
    ClassLookups,
    check_binder,
    is_set_through,
    is_trusted,
    reads_first,
)
from anyshape.capture.hooks.function_attributes import FunctionAttributes
from anyshape.capture.hooks.transparent_values import TRANSPARENT, Call, transparent_attribute
from anyshape.capture.numbers.traced_text import bare
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Kind
from anyshape.guards.path import Path
from anyshape.guards.replaced_functions import replaced

_MISSING: Final = object()
_RAISED: Final = object()
#: What reads a field of a named tuple by its name: native code, of one place in the tuple.
_TUPLE_FIELD: Final = type(vars(collections.namedtuple("_Example", "field"))["field"])


class Attributes:
    """Attribute access in one capture. `call` is how user code found on the way is run."""

    def __init__(self, tracer: Tracer, outside: Externals, call: Call) -> None:
        self._tracer = tracer
        self._outside = outside
        self._journal = outside.journal
        self._call = call
        self.classes = ClassLookups(tracer, outside.journal)
        self.class_attribute = self.classes.attribute
        self.functions = FunctionAttributes(tracer, outside)

    # -- reading ---------------------------------------------------------------------------------

    def get(self, obj: object, name: str) -> Any:
        if isinstance(obj, types.ModuleType):
            return self._of_module(obj, name)
        if isinstance(obj, type):
            return self._of_class(obj, name)
        if type(obj) is super:
            return self._of_super(obj, name)
        if type(obj) is types.FunctionType:
            return self.functions.get(obj, name)
        if type(obj) is types.MethodType and name not in _OF_METHODS and self._path_of(obj) is None:
            return self.get(obj.__func__, name)
        if type(obj) in TRANSPARENT:
            return transparent_attribute(self._tracer, self._call, obj, name)
        return self._of_instance(obj, name)

    def _of_module(self, module: types.ModuleType, name: str) -> object:
        own_name = module.__dict__.get("__name__")
        try:
            value = getattr(module, name)
        except AttributeError:
            self._not_in_module(module, name)
            raise
        if name == "__dict__":
            self._tracer.read(value, self._tracer.constant(value, f"G[{own_name!r}]"))
            return value
        if name.startswith("__") and name not in module.__dict__:
            return value
        if self._journal.is_set(module.__dict__, name):
            return self._journal.written(module.__dict__, name)
        if name not in module.__dict__:
            if is_trusted(own_name) and isinstance(value, (*CODE, types.MethodType)):
                return value
            if is_trusted(own_name) and type(value) in ATOMS:
                path = self._tracer.constant(module, str(own_name)).attribute(name)
                self._tracer.guard(Kind.EQUALS, path, value, "a setting")
                return value
        if module.__dict__.get(name, _MISSING) is not value:
            # Code of the module has answered, and must not run again: we leave with the answer.
            self._tracer.abort(f"the attribute `{name}` made by `__getattr__` of module {own_name}")
            return value
        if not is_trusted(own_name) and own_name != "anyshape":
            # One of another class may answer otherwise.
            self._tracer.guard(Kind.TYPE, self._tracer.constant(module), type(module))
        path = self._tracer.constant(module.__dict__, f"G[{own_name!r}]")
        return self._tracer.read(value, path.item(name))

    def _not_in_module(self, module: types.ModuleType, name: str) -> None:
        """Guard that a module has no such name, and nothing that makes it up."""
        held: Any = module.__dict__
        own_name = held.get("__name__")
        if type(module) is not types.ModuleType or self._journal.wrote_any(held):
            raise AbortCapture(f"module {own_name} has no `{name}`")
        if str(own_name).partition(".")[0] == "torch":
            replaced.note(held, {name, "__getattr__"})
            return
        if "__getattr__" in held:
            raise AbortCapture(f"module {own_name} has a `__getattr__`")
        path = self._tracer.constant(held, f"G[{own_name!r}]")
        for missing in (name, "__getattr__"):
            self._tracer.guard(Kind.CONTAINS, path, (missing, False))

    def _of_class(self, owner: type, name: str) -> object:
        metaclass = type(owner)
        if is_trusted(owner.__module__):
            self.class_attribute(owner, name)  # Those of torch are noted, also if they are missing.
            return getattr(owner, name)
        if metaclass.__getattribute__ is not type.__getattribute__:
            raise AbortCapture(f"a class whose metaclass {metaclass.__name__} looks up attributes")
        of_metaclass = None
        has_own_metaclass = metaclass is not type and not is_trusted(metaclass.__module__)
        if has_own_metaclass:
            of_metaclass = self.class_attribute(metaclass, name)
            if of_metaclass is not None and of_metaclass[0] in (type, object):
                of_metaclass, has_own_metaclass = None, False
            elif of_metaclass is not None and reads_first(of_metaclass[1]):
                return self.bound(owner, of_metaclass[0], name, of_metaclass[1])
        if name in _BASES:
            self.classes.order(owner)
            return getattr(owner, name)
        if name in _CLASS_FACTS:
            return self.functions.fact(owner, owner.__module__, name)
        if name in _CLASS_SECRETS:
            raise AbortCapture(f"`{name}` of a class")
        found = self.class_attribute(owner, name)
        if found is not None:
            return self._through_class(owner, owner, *found, name)
        if of_metaclass is not None:
            return self.bound(owner, of_metaclass[0], name, of_metaclass[1])
        if has_own_metaclass:
            fallback = self.class_attribute(metaclass, "__getattr__")
            if fallback is not None:
                return self._made_up(owner, None, fallback[1], name)
        return getattr(owner, name)  # of `type`, or missing

    def _through_class(
        self, source: object, owner: type, holder: type, value: object, name: str
    ) -> object:
        """A class attribute as seen through a class, or through `super` of one: the source."""
        if self._journal.is_written(holder, name):
            return self._journal.written(holder, name)
        get = getattr(type(value), "__get__", None)
        if isinstance(get, types.FunctionType):
            return self._call(get, self._descriptor(holder, name, value), None, owner)
        if get is None and not isinstance(value, CODE):
            return self._read_class_value(holder, name, value)
        check_binder(value)
        return getattr(source, name)

    def _descriptor(self, holder: type, name: str, value: object) -> Any:
        """A descriptor whose code is about to run: it is an object with a state of its own."""
        for method in ("__get__", "__set__", "__delete__"):
            self.class_attribute(type(value), method)
        return (
            value if is_trusted(holder.__module__) else self._read_class_value(holder, name, value)
        )

    def _read_class_value(self, holder: type, name: str, value: object) -> object:
        return self._tracer.read(value, self._tracer.constant(holder).instance(name))

    def _of_super(self, obj: Any, name: str) -> object:
        this, instance, kind = obj.__thisclass__, obj.__self__, obj.__self_class__
        if instance is None or name == "__class__":
            return getattr(obj, name)
        self.classes.order(kind)
        order = kind.__mro__
        found = self.classes.look_up(order[order.index(this) + 1 :], name)
        if found is None:
            return getattr(obj, name)  # raises
        if kind is instance:
            return self._through_class(obj, kind, *found, name)
        return self.bound(instance, found[0], name, found[1])

    def _of_instance(self, obj: object, name: str) -> object:
        kind = type(obj)
        look_up = kind.__getattribute__
        self.class_attribute(kind, "__getattribute__")
        if look_up is object.__getattribute__ or not isinstance(look_up, types.FunctionType):
            if not _looks_up_plainly(look_up):
                raise AbortCapture(f"native code looks up the attributes of a {kind.__name__}")
            return self.plain(obj, name)
        try:
            return self._call(look_up, obj, name)
        except AttributeError:
            fallback = self.class_attribute(kind, "__getattr__")
            if fallback is None:
                raise
        return self._instead(obj, fallback[1], name)

    def plain(self, obj: object, name: str, fall_back: bool = True) -> Any:
        """`object.__getattribute__(obj, name)`, then `__getattr__` if there is one."""
        kind = type(obj)
        try:
            found = self._found(obj, kind, name)
        except AttributeError:
            fallback = self.class_attribute(kind, "__getattr__") if fall_back else None
            if fallback is None:
                raise
            found = _RAISED
        if found is not _MISSING and found is not _RAISED:
            return found
        fallback = self.class_attribute(kind, "__getattr__") if fall_back else None
        if fallback is None:
            return object.__getattribute__(obj, name)  # raises
        if found is _RAISED:
            return self._instead(obj, fallback[1], name)
        return self._made_up(obj, self._path_of(obj), fallback[1], name)

    def _found(self, obj: object, kind: type, name: str) -> object:
        """What the class or the instance has of that name."""
        found = self.class_attribute(kind, name)
        if found is not None and reads_first(found[1]):
            return self.bound(obj, found[0], name, found[1])
        path = self._path_of(obj)
        held = _instance_dictionary(obj)
        if held is not None and name in held:
            return self._held(path, held, name)
        if path is not None and held is not None and not self._journal.is_set(held, name):
            self._tracer.guard(Kind.NO_INSTANCE_ATTRIBUTE, path, name)
        if found is not None:
            return self.bound(obj, found[0], name, found[1])
        return _MISSING

    def _path_of(self, obj: object) -> Path | None:
        path = self._tracer.path_of(obj)
        if path is None and isinstance(obj, enum.Enum):
            return self._tracer.constant(obj)
        return path

    def _instead(self, obj: Any, fallback: object, name: str) -> object:
        """`__getattr__` after user code has raised AttributeError, and must not run again."""
        if self._tracer.active:
            try:
                return self._made_up(obj, self._path_of(obj), fallback, name)
            except AbortCapture as left:
                self._tracer.leave_for(left)
        return type(obj).__getattr__(obj, name)

    def _held(self, path: Path | None, held: dict[str, object], name: str) -> object:
        # By the dictionary, which objects may share.
        if self._journal.is_set(held, name):
            place = None if path is None else path.attribute("__dict__")
            return self._journal.written(held, name, place)
        if path is None:
            return held[name]
        return self._tracer.read(held[name], path.instance(name))

    def held(self, obj: object, path: Path) -> dict[str, Any]:
        """All instance attributes of an object from outside, guarded."""
        held = _instance_dictionary(obj)
        if held is None or self._journal.wrote_any(held):
            raise AbortCapture(f"all attributes of a {type(obj).__name__}")
        self._tracer.guard(Kind.KEYS, path.attribute("__dict__"), tuple(held))
        return {name: self._tracer.read(item, path.instance(name)) for name, item in held.items()}

    def _made_up(self, obj: object, path: Path | None, fallback: Any, name: str) -> object:
        if fallback is torch.nn.Module.__getattr__:
            for group in ("_parameters", "_buffers", "_modules"):
                held = obj.__dict__.get(group)
                if held is not None and name in held:
                    container = self.plain(obj, group)
                    where = self._tracer.path_of(container)
                    if where is not None:
                        return self._outside.item(container, where, name)
                    return container[name]
            if path is not None:
                for group in ("_parameters", "_buffers", "_modules"):
                    container = self.plain(obj, group)
                    where = self._tracer.path_of(container)
                    if where is not None:
                        self._outside.has_key(container, where, name)
            return fallback(obj, name)  # raises
        if isinstance(fallback, types.FunctionType):
            return self._call(fallback, obj, name)
        raise AbortCapture(f"`__getattr__` of {type(obj).__name__} is native code")

    def bound(self, obj: object, holder: type, name: str, value: Any) -> Any:
        """A class attribute as seen through an instance."""
        kind = type(value)
        if kind is types.FunctionType:
            return types.MethodType(value, obj)
        get: Any = getattr(kind, "__get__", None)
        if get is property.__get__ or kind is types.DynamicClassAttribute:
            if value.fget is None:
                return value.__get__(obj)  # raises
            return self._call(value.fget, obj)
        if kind is enum.property and value.fget is not None:
            return self._of_member(obj, holder, name, value)
        if kind is functools.cached_property:
            made = self._call(value.func, obj)
            self.set_plain(obj, value.attrname or name, made)
            return made
        if kind is functools.partialmethod and type(value.func) is types.FunctionType:
            return self._partial_method(obj, holder, name, value)
        if kind is types.MemberDescriptorType and name != "__dict__":
            return self._slot(obj, name, value)
        if kind in (types.MemberDescriptorType, types.GetSetDescriptorType):
            return self._native_property(obj, name, value)
        if kind is _TUPLE_FIELD:
            return self._field(obj, value)
        if hasattr(kind, "__anyshape_original__"):  # a method that is compiled by itself
            return types.MethodType(self._descriptor(holder, name, value), obj)
        if isinstance(get, types.FunctionType):
            return self._call(get, self._descriptor(holder, name, value), obj, type(obj))
        if get is None:
            return self._read_class_value(holder, name, value)
        check_binder(value)
        return get(value, obj, type(obj))

    def _of_member(self, member: object, holder: type, name: str, descriptor: Any) -> object:
        """`name` and `value` of a member of an enumeration, or a property that one defines."""
        if holder is not enum.Enum:
            return self._call(descriptor.fget, member)
        value = getattr(member, name)
        if type(value) in ATOMS or isinstance(value, CODE):
            return value
        return self._tracer.read(value, self._tracer.constant(member).instance(f"_{name}_"))

    def _partial_method(self, obj: object, holder: type, name: str, descriptor: Any) -> object:
        self._descriptor(holder, name, descriptor)
        function = types.MethodType(descriptor.func, obj)
        args, keywords = descriptor.args, descriptor.keywords
        path = self._tracer.path_of(descriptor)
        if path is not None:
            where = path.instance("args")
            self._tracer.guard(Kind.LENGTH, where, len(args))
            args = [self._tracer.read(arg, where.item(i)) for i, arg in enumerate(args)]
            where = path.instance("keywords")
            self._tracer.guard(Kind.KEYS, where, tuple(keywords))
            keywords = {k: self._tracer.read(arg, where.item(k)) for k, arg in keywords.items()}
        return functools.partial(function, *args, **keywords)

    def _slot(self, obj: object, name: str, member: Any) -> object:
        path = self._tracer.path_of(obj)
        slot = SLOT, name
        if self._journal.is_written(obj, slot):
            return self._journal.written(obj, slot)
        try:
            value = member.__get__(obj, type(obj))
        except AttributeError:
            if path is not None:
                self._tracer.guard(Kind.NO_ATTRIBUTE, path, name)
            raise
        return value if path is None else self._tracer.read(value, path.attribute(name))

    def _field(self, obj: Any, descriptor: Any) -> object:
        """A field of a named tuple: the item at its place."""
        (place, _doc) = descriptor.__reduce__()[1]
        path = self._tracer.path_of(obj)
        if path is None:
            return tuple.__getitem__(obj, place)
        return self._outside.item(obj, path, place)

    def _native_property(self, obj: object, name: str, getter: Any) -> object:
        if name == "__dict__":
            held = obj.__dict__
            path = self._tracer.path_of(obj)
            if path is not None:
                self._outside.own_dictionary(held, path)
            return held
        if name in _HARMLESS_PROPERTIES:
            return getter.__get__(obj, type(obj))
        path = self._tracer.path_of(obj)
        value = getter.__get__(obj, type(obj))
        if path is None:
            return value
        if type(value) in ATOMS:
            self._tracer.guard(Kind.EQUALS, path.attribute(name), value)
            return value
        if key_of_type(type(obj)) is not None and key_of_type(type(value)) is not None:
            return value  # It follows from the value that has it.
        raise AbortCapture(f"the native property `{name}` of a {type(obj).__name__}")

    # -- changing --------------------------------------------------------------------------------

    def set(self, obj: object, name: str, value: object) -> None:
        obj = bare(obj)
        if isinstance(obj, types.ModuleType):
            raise AbortCapture("an attribute of a module is set")
        if isinstance(obj, type):
            raise AbortCapture("an attribute of a class is set")
        kind = type(obj)
        own = kind.__setattr__
        self.class_attribute(kind, "__setattr__")
        if own is not object.__setattr__:
            if isinstance(own, types.FunctionType):
                self._call(own, obj, name, value)
                return
            raise AbortCapture(f"`__setattr__` of {kind.__name__} is native code")
        self.set_plain(obj, name, value)

    def set_plain(self, obj: object, name: str, value: object) -> None:
        """`object.__setattr__(obj, name, value)`."""
        obj = bare(obj)
        if type(obj) is types.FunctionType and self.functions.is_own(obj):
            if not self.functions.set(obj, name, value):
                if self.class_attribute(types.FunctionType, name) is not None:
                    raise AbortCapture(f"`{name}` of a function is set")
                object.__setattr__(obj, name, value)
            return
        if self._through_descriptor("fset", "__set__", name, (obj, value)):
            return
        path = self._path_of(obj)
        if isinstance(obj, types.FunctionType):
            path = self._tracer.constant(obj)
        if path is None:
            object.__setattr__(obj, name, value)
            return
        held = _instance_dictionary(obj)
        if held is not None and name not in held and not self._journal.is_set(held, name):
            self._tracer.guard(Kind.NO_INSTANCE_ATTRIBUTE, path, name)
        is_slot = held is None or is_kept_in_slot(obj, name)
        if not is_slot:
            self._journal.check_only_by_name(held)
        object.__setattr__(obj, name, self._outside.storable(value))
        if is_slot:
            self._journal.write(obj, (SLOT, name), value)
        else:
            self._journal.write(held, name, value)
        self._journal.add(Effect(Change.SET_ATTRIBUTE, path, name, (value,)))

    def _through_descriptor(
        self, function: str, method: str, name: str, args: tuple[object, ...]
    ) -> bool:
        """Let a data descriptor of the class set or delete, if it has one that is no slot."""
        found = self.class_attribute(type(args[0]), name)
        if found is None or not is_set_through(found[1]):
            return False
        holder, descriptor = found
        kind = type(descriptor)
        if kind is types.MemberDescriptorType:
            return False
        own = getattr(kind, method, None)
        is_property = own is getattr(property, method)
        if is_property:
            own = getattr(descriptor, function)
        if not isinstance(own, types.FunctionType):
            raise AbortCapture(f"a native descriptor is set: {name}")
        if not is_property:
            args = (self._descriptor(holder, name, descriptor), *args)
        self._call(own, *args)
        return True

    def delete(self, obj: object, name: str) -> None:
        obj = bare(obj)
        if isinstance(obj, type | types.ModuleType):
            raise AbortCapture("an attribute of a class or module is deleted")
        own = type(obj).__delattr__
        self.class_attribute(type(obj), "__delattr__")
        if own is not object.__delattr__:
            if isinstance(own, types.FunctionType):
                self._call(own, obj, name)
                return
            raise AbortCapture("a native __delattr__")
        if self._through_descriptor("fdel", "__delete__", name, (obj,)):
            return
        path = self._tracer.path_of(obj)
        if path is not None:
            raise AbortCapture("an attribute of an object from outside the function is deleted")
        object.__delattr__(obj, name)


#: What a class says of itself without looking anything up.
_CLASS_FACTS: Final = frozenset(
    {"__name__", "__qualname__", "__module__", "__doc__", "__members__"}
)

_BASES: Final = frozenset({"__mro__", "__bases__", "__base__", "mro"})

#: What no guard looks at.
_CLASS_SECRETS: Final = frozenset({"__dict__", "__subclasses__"})

#: What a bound method says of itself; the rest it says of its function.
_OF_METHODS: Final = frozenset(
    {*("__func__", "__self__", "__call__", "__get__", "__class__"), *dir(object)} - {"__doc__"}
)

_HARMLESS_PROPERTIES: Final = frozenset({"__class__", "__doc__", "__weakref__"})


def _looks_up_plainly(look_up: object) -> bool:
    """Whether a native `__getattribute__` is the one of `object`, which built-in types repeat."""
    owner = getattr(look_up, "__objclass__", None)
    plain = ("builtins", "collections", "functools", "types")
    return owner is not None and owner.__module__ in plain


def _instance_dictionary(obj: object) -> dict[str, object] | None:
    try:
        held = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return None
    return held if isinstance(held, dict) else None
