"""The hooks that instrumented code calls: each does what Python does, and lets the tracer see it.

The plain case comes first in every hook, because most values in a program are plain. What cannot be
followed raises `AbortCapture`; the hook then stops the capture and does the operation as plain
Python.
"""

from __future__ import annotations

import builtins
import types
from typing import Any, Final, cast

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins import table as natives
from anyshape.capture.builtins.backward import Grads
from anyshape.capture.builtins.torch_state import CHECK_NAMES
from anyshape.capture.externals.external_objects import Externals
from anyshape.capture.externals.side_effects import Change, Effect
from anyshape.capture.externals.untrace import untraced
from anyshape.capture.hooks import imports
from anyshape.capture.hooks.attributes import Attributes, is_trusted
from anyshape.capture.hooks.calls import Callables
from anyshape.capture.hooks.contexts import entered
from anyshape.capture.hooks.formatting import text_of
from anyshape.capture.hooks.items import ItemHooks
from anyshape.capture.hooks.operators import OperatorHooks
from anyshape.capture.numbers.concolic import TracedInt
from anyshape.capture.numbers.traced_text import joined
from anyshape.capture.record.data_dependent_shapes import has_own_method
from anyshape.capture.record.recorder import Recorder
from anyshape.capture.record.tensor_metadata_reads import CONSTANT_ATTRIBUTES, shape
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Kind
from anyshape.guards.path import Path
from anyshape.guards.replaced_functions import replaced


class Hooks(OperatorHooks, ItemHooks):
    """The hooks of one capture. After `abort` watched code has plain ones instead."""

    def __init__(self, tracer: Tracer, recorder: Recorder, outside: Externals) -> None:
        self.tracer = tracer
        self.recorder = recorder
        self.outside = outside
        self.journal = outside.journal
        self.attributes = Attributes(tracer, outside, self.call)
        self.callables = Callables(self)
        #: context managers that were entered by name, with what stands for them, the innermost last
        self.entered: list[tuple[object, object]] = []
        #: `.grad` of tensors, if the backward is to be captured too
        self.grads: Grads | None = None
        self.identities = {}
        self.by_identity = {}
        self._globals_read: dict[tuple[int, str], object] = {}

    def forget(self) -> None:
        """Let go of the program's objects: to be called when nobody watches any more."""
        self.entered.clear()
        if self.grads is not None:
            self.grads.forget()
        self._globals_read.clear()
        self.callables.forget()

    # -- names -------------------------------------------------------------------------------------

    def _may_check(self, function: object) -> None:
        """What is asked between the loading of a check and its call is asked by it."""
        if natives.is_check(function):
            self.tracer.checking = True

    def load_global(self, frame: Any, name: str, value: object) -> object:
        if name in CHECK_NAMES:
            self._may_check(value)
        known = self._globals_read.get((id(frame.globals), name), _UNREAD)
        if known is not _UNREAD and not self.journal.changed_container(frame.globals):
            return known
        try:
            read = self._read_global(frame.globals, name, value)
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return value
        if type(read) in ATOMS or isinstance(read, CODE):
            # Any other object may also be found elsewhere: the log has to tell how it was reached.
            self._globals_read[id(frame.globals), name] = read
        return read

    def _read_global(self, globals_: dict[str, Any], name: str, value: object) -> object:
        self.journal.check_only_by_name(globals_)
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
            if str(module).startswith("torch"):
                replaced.note(cast("dict[object, object]", globals_), {name})
            return value
        return self.tracer.read(value, self.tracer.constant(globals_, "G").item(name))

    def load_free(self, frame: Any, name: str, value: object) -> object:
        cell = frame.cells[name]
        if self.journal.is_written(cell, "cell_contents"):
            self.tracer.pin(frame.function)
            return self.journal.written(cell, "cell_contents")
        try:
            return self.tracer.read(value, self._cell_path(frame, name, cell))
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return value

    def _cell_path(self, frame: Any, name: str, cell: object) -> Path:
        known = self.tracer.by_code.get(id(frame.function))
        if known is not None:
            place = frame.function.__code__.co_freevars.index(name)
            return known.attribute("__closure__").item(place).cell()
        return self.tracer.constant(cell, f"L[{name!r}]").cell()

    def store_global(self, frame: Any, name: str, value: object) -> object:
        globals_ = frame.globals
        try:
            self.tracer.has_effect("a global variable is set")
            self.journal.check_only_by_name(globals_)
            path = self.tracer.constant(globals_, "G")
            stored = self.outside.storable(value)
            self.journal.write(globals_, name, value)
            self.journal.add(Effect(Change.SET_ITEM, path, name, (value,)))
            self._globals_read[id(globals_), name] = value
            self.tracer.log = None  # It would not tell who reads this.
            return stored
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return untraced(value)

    def store_free(self, frame: Any, name: str, value: object) -> object:
        cell = frame.cells[name]
        try:
            self.tracer.has_effect("a variable of another function is set")
            stored = self.outside.storable(value)
            self.tracer.pin(frame.function)
            self.journal.write(cell, "cell_contents", value)
            path = self.tracer.constant(cell, f"L[{name!r}]")
            self.journal.add(Effect(Change.SET_CELL, path, name, (value,)))
            return stored
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return untraced(value)

    def delete_global(self, frame: object, name: str) -> None:
        self.tracer.abort(f"the global `{name}` is deleted")

    def imported(
        self, value: object, module: str, name: str | None, level: int = 0, frame: object = None
    ) -> object:
        try:
            return imports.imported(self, value, module, name, level, frame)
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return value

    # -- attributes --------------------------------------------------------------------------------

    def attribute(self, obj: object, name: str) -> object:
        if name in CHECK_NAMES:
            self._may_check(getattr(obj, name, None))
        try:
            if isinstance(obj, torch.Tensor):
                return self._tensor_attribute(obj, name)
            return self.attributes.get(obj, name)
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return getattr(obj, name)

    def _tensor_attribute(self, tensor: torch.Tensor, name: str) -> object:
        if name in ("shape", "ndim"):
            self.recorder.reads_shape(tensor)
        if name == "shape":
            return shape(self.recorder, tensor)
        if name in _OF_HISTORY and self.tracer.path_of(tensor) is not None:
            with torch._C.DisableTorchFunction():
                if self.recorder.changes.gave_history(but=tensor):
                    # In another call it may be a view of that one.
                    raise AbortCapture(f"`{name}` is read after another tensor was given a history")
        if name in CONSTANT_ATTRIBUTES:
            self.recorder.known(tensor)
            with torch._C.DisableTorchFunction():
                return getattr(tensor, name)
        if has_own_method(tensor, name):
            return types.MethodType(vars(type(tensor))[name], tensor)
        found = getattr(torch.Tensor, name, None)
        if found is None or name in tensor.__dict__:
            return self._instance_attribute_of_tensor(tensor, name)
        if isinstance(found, property | types.GetSetDescriptorType):
            if name in ("grad", "is_leaf"):
                return self._tensor_state(tensor, name)
            return self.recorder.run(found.__get__, (tensor,), {})
        if not callable(found):
            raise AbortCapture(f"`{name}` of a tensor")
        with torch._C.DisableTorchFunction():
            return getattr(tensor, name)

    def _instance_attribute_of_tensor(self, tensor: torch.Tensor, name: str) -> object:
        path = self.tracer.path_of(tensor)
        if path is None:
            self.attributes.class_attribute(type(tensor), name)
            return getattr(tensor, name)
        if self.journal.is_set(tensor.__dict__, name):
            return self.journal.written(tensor.__dict__, name, path.attribute("__dict__"))
        if name not in tensor.__dict__:
            self.tracer.guard(Kind.NO_INSTANCE_ATTRIBUTE, path, name)
            self.attributes.class_attribute(type(tensor), name)
            return getattr(tensor, name)  # raises
        return self.tracer.read(tensor.__dict__[name], path.instance(name))

    def _tensor_state(self, tensor: torch.Tensor, name: str) -> object:
        path = self.tracer.path_of(tensor)
        if name == "grad" and self.grads is not None:
            return self.grads.get(tensor)
        with torch._C.DisableTorchFunction():
            value = getattr(tensor, name)
            if name == "is_leaf" and self.recorder.changes.has_new_history(tensor):
                return value  # By what the program did: of how it came this says nothing.
        if path is None:
            if name == "grad" and value is not None:
                raise AbortCapture("the gradient of a tensor that the program made")
            return value
        return self.tracer.read(value, path.attribute(name))

    def set_attribute(self, obj: object, name: str, value: object) -> None:
        try:
            self.tracer.check_active()
            self.tracer.has_effect("an attribute is set")
            if isinstance(obj, torch.Tensor):
                if name == "grad" and self.grads is not None:
                    self.grads.set(obj, value)
                    return
                if name == "data" and self.grads is not None and _is_in_place(obj, value):
                    return  # `p.data -= …` has changed the elements, and sets what is there.
                raise AbortCapture(f"the attribute `{name}` of a tensor is set")
            self.attributes.set(obj, name, value)
            return
        except AbortCapture as left:
            self.tracer.leave_for(left)
        setattr(obj, name, untraced(value))

    def delete_attribute(self, obj: object, name: str) -> None:
        try:
            self.tracer.has_effect("an attribute is deleted")
            self.attributes.delete(obj, name)
            return
        except AbortCapture as left:
            self.tracer.leave_for(left)
        delattr(obj, name)

    def super(self, owner: object, instance: object) -> object:
        return super_of(owner, instance)

    # -- calls -------------------------------------------------------------------------------------

    def call(self, function: object, /, *args: object, **kwargs: object) -> Any:
        return self.callables.call(function, args, kwargs)

    # -- the rest ----------------------------------------------------------------------------------

    def format(self, value: object, conversion: str | None, spec: str) -> str:
        try:
            return text_of(self, value, conversion, spec)
        except AbortCapture as left:
            self.tracer.leave_for(left)
        return super().format(untraced(value), conversion, untraced(spec))

    def text(self, *parts: str) -> str:
        return joined(parts)

    def context(self, manager: object) -> object:
        try:
            return entered(self, manager)
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return manager

    def raising(self, error: object) -> object:
        if isinstance(error, type) and issubclass(error, BaseException):
            return self.call(error)
        return error

    def match(self, subject: object) -> object:
        try:
            subject = self.operand(subject)
            if _is_matched_by_parts(subject):
                return subject
            subject = self.with_plain_numbers(subject, "it is matched")
            if not self.prints_itself(subject):
                # Patterns look at attributes, which may be user code.
                raise AbortCapture(f"a {type(subject).__name__} is matched")
            return subject
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return subject

    def plain(self, value: object) -> object:
        try:
            return self.specialized(self.operand(value), "it is compared")
        except AbortCapture as left:
            self.tracer.leave_for(left)
            return value

    def slice(self, start: object, stop: object, step: object) -> slice:
        return slice_of(start, stop, step)

    def making_class(self, name: str) -> None:
        self.tracer.abort(f"the class `{name}` is defined inside the function")


#: What a tensor may have from the one that it is a view of.
_OF_HISTORY: Final = frozenset({"requires_grad", "is_leaf"})


def _is_in_place(tensor: torch.Tensor, value: object) -> bool:
    """Whether a value lies where a tensor does, as a whole."""
    if not isinstance(value, torch.Tensor):
        return False
    with torch._C.DisableTorchFunction():
        one, other = tensor.untyped_storage(), value.untyped_storage()
        places = [(each.storage_offset(), each.shape, each.stride()) for each in (tensor, value)]
        same_kind = tensor.dtype is value.dtype and not value.requires_grad
        return one._cdata == other._cdata and places[0] == places[1] and same_kind


def _is_matched_by_parts(subject: Any) -> bool:
    """Whether patterns compare an integer, or those in a tuple: each comparison is seen."""
    if type(subject) in (tuple, torch.Size):
        return all(type(part) in ATOMS or type(part) is TracedInt for part in subject)
    return type(subject) is TracedInt


_UNREAD: Final = object()
super_of = super
slice_of = slice
