"""Calls: what kind of callee it is, and whether its code is watched, modelled or native.

The rule at the native boundary: a callee without Python code that we can watch has a model
(`natives`), or is a torch operation, or the capture ends there. Nothing that it may have read is
baked in.
"""

from __future__ import annotations

import enum
import functools
import sys
import types
from collections.abc import Callable
from typing import Any, Final, TypeGuard

import torch
from torch._ops import OpOverload, OpOverloadPacket

from anyshape.boundary_markers import traceable_behind
from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins import backward
from anyshape.capture.builtins import table as natives
from anyshape.capture.builtins.model import Hooks, answered
from anyshape.capture.builtins.scripted import python_of
from anyshape.capture.builtins.tensor_construction import METHODS, TENSOR_TYPE, make
from anyshape.capture.builtins.triton_kernels import call_of_triton, is_constexpr_function, launch
from anyshape.capture.externals.as_written import given_to
from anyshape.capture.externals.launch_objects import Launcher
from anyshape.capture.externals.native_values import BOUND
from anyshape.capture.externals.untrace import untraced
from anyshape.capture.hooks import classes
from anyshape.capture.hooks.caller_frames import called
from anyshape.capture.hooks.class_lookups import is_trusted
from anyshape.capture.hooks.contexts import CONTEXT_CLASSES, takes_elements_by_tensors
from anyshape.capture.hooks.effects_of_calls import check_call
from anyshape.capture.hooks.lru_caches import Caches
from anyshape.capture.hooks.partials import filled
from anyshape.capture.hooks.watched_code import is_operation, may_be_watched
from anyshape.capture.numbers.traced_text import TRACED_VALUES
from anyshape.capture.replay.layers import Layers
from anyshape.capture.rewrite.instrument import Refused, bind, instrumented_code, is_instrumented
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Kind
from anyshape.guards.path import Path
from anyshape.guards.replaced_functions import replaced


class FunctionFrame:
    """What the hooks know of the function object whose code is running."""

    __slots__ = ("cells", "function", "globals")

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.globals = function.__globals__
        self.cells = dict(
            zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )


class Callables:
    """Calls in one capture."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._tracer = hooks.tracer
        #: what watched code finds its hooks in
        self.cell = types.CellType(hooks)
        self._bound: dict[types.FunctionType, types.FunctionType | None] = {}
        self._caches = Caches(hooks)
        self._layers = Layers(hooks)

    def forget(self) -> None:
        """Let go of what is known of calls: to be called when nobody watches any more."""
        self._caches.forget()
        self._layers.forget()

    def call(self, function: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracer = self._tracer
        if tracer.active:
            try:
                if tracer.is_trial:
                    check_call(tracer, function, args)
                handler = _BY_TYPE.get(type(function))
                if handler is not None:
                    return handler(self, function, args, kwargs)
                return self._object(function, args, kwargs)
            except AbortCapture as left:
                tracer.leave_for(left)
        # One of the arguments may have left: those before it may hold traced numbers.
        # Not in the handler: what the callee raises would have `AbortCapture` as its context.
        args = tuple(map(untraced, args))
        kwargs = {name: untraced(value) for name, value in kwargs.items()}
        args, kwargs = given_to(function, args, kwargs, tracer.watched)
        return called(untraced(function), args, kwargs)

    # -- Python functions ------------------------------------------------------------------------

    def _function(
        self, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        bound = self._bound.get(function)
        if bound is None:
            if is_instrumented(function.__code__):
                return function(*args, **kwargs)
            if function is torch.nn.Module.__init__ and not self._hooks.outside.is_external(
                args[0]
            ):
                return function(*args, **kwargs)  # the bare state of a fresh module
            if classes.makes_named_tuple(function) and function.__name__ == "__new__":
                return function(*args, **kwargs)  # as a class calls it that has its own
            model = natives.MODELS.get(function)
            if model is None and self._hooks.grads is not None:
                model = backward.model_of(function, args)
            if model is not None:
                if function not in natives.CALLERS:
                    self._pin(args, kwargs)
                return answered(self._hooks, model, function, args, kwargs)
            if is_operation(function):
                self._pin(args, kwargs)
                return self._hooks.recorder.run(function, args, kwargs)
            bound = self.watched(function)
            if bound is None:
                behind = traceable_behind(function)
                if behind is not None:
                    return self._compiled(function, behind, args, kwargs)
                return natives.call(self._hooks, function, args, kwargs)
            self._bound[function] = bound
        running = self._tracer.user_frames.calls
        running.append(None)
        try:
            return bound(*args, **kwargs)
        except TypeError:
            # An argument may be missing that is not, once the function has default values.
            self.no_more_defaults(function)
            raise
        finally:
            running.pop()

    def _pin(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Native code may tell functions apart that it is given."""
        if self._tracer.by_code:
            self._tracer.pin((*args, *kwargs.values()))

    def watched(self, function: types.FunctionType) -> types.FunctionType | None:
        """The function with its code instrumented; None if it runs as native code."""
        code = function.__code__
        if not may_be_watched(code.co_filename):
            return None
        made = instrumented_code(code, function.__globals__)
        if isinstance(made, Refused):
            reason = f"`{function.__qualname__}` cannot be traced: {made.reason}"
            self._tracer.abort(reason, *filter(None, [made.hint]))
            return None
        if not is_trusted(function.__module__):
            path = self._tracer.constant(function).attribute("__code__")
            self._tracer.guard(Kind.IDENTITY, path, code)
        self._tracer.watched.append((made, function))
        bound = bind(function, made, self.cell, types.CellType(FunctionFrame(function)))
        if id(function) in self._tracer.by_code:
            bound.__defaults__, bound.__kwdefaults__ = self._defaults_made_anew(function)
        else:
            self.defaults(function)
        return bound

    def defaults(self, function: types.FunctionType) -> None:
        """Default values come from outside: guarded like everything else there."""
        tracer = self._tracer
        path = tracer.constant(function)
        if function.__defaults__:
            where = path.attribute("__defaults__")
            tracer.guard(Kind.IDENTITY, where, function.__defaults__)
            for index, value in enumerate(function.__defaults__):
                # The tuple is known, and so is what never changes in it.
                if not _is_constant(value):
                    self._default(value, where.item(index))
        if function.__kwdefaults__:
            where = path.attribute("__kwdefaults__")
            for name, value in function.__kwdefaults__.items():
                if type(value) in ATOMS or (type(value) is slice and _is_constant(value)):
                    tracer.guard(Kind.EQUALS, where.item(name), value)
                else:
                    self._default(value, where.item(name))

    def _defaults_made_anew(self, function: types.FunctionType) -> Any:
        """Default values of a function of which only the code is known."""
        read, path = self._tracer.read, self._tracer.constant(function)
        given: Any = function.__defaults__
        where = path.attribute("__defaults__")
        if given is None:
            self._tracer.guard(Kind.EQUALS, where, None)
        else:
            self._tracer.guard(Kind.TYPE, where, tuple)
            self._tracer.guard(Kind.LENGTH, where, len(given))
            given = tuple(read(value, where.item(index)) for index, value in enumerate(given))
        named: Any = function.__kwdefaults__
        where = path.attribute("__kwdefaults__")
        if named is None:
            self._tracer.guard(Kind.EQUALS, where, None)
        else:
            self._tracer.guard(Kind.TYPE, where, dict)
            self._tracer.guard(Kind.KEYS, where, tuple(named))
            named = {name: read(value, where.item(name)) for name, value in named.items()}
        return given, named

    def _default(self, value: object, path: Path) -> None:
        self._tracer.read(value, path)
        if self._tracer.path_of(value) not in (None, path):
            # It is the default of later calls as well, and the log does not tell.
            self._tracer.log = None

    def no_more_defaults(self, function: types.FunctionType) -> None:
        if is_trusted(function.__module__):
            return
        tracer = self._tracer
        path = tracer.constant(function)
        if function.__defaults__ is None:
            tracer.guard(Kind.EQUALS, path.attribute("__defaults__"), None)
        where = path.attribute("__kwdefaults__")
        if function.__kwdefaults__ is None:
            tracer.guard(Kind.EQUALS, where, None)
        else:
            tracer.guard(Kind.TYPE, where, dict)
            tracer.guard(Kind.KEYS, where, tuple(function.__kwdefaults__))

    def _method(
        self, method: types.MethodType, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        path = self._tracer.path_of(method)
        function, instance = method.__func__, method.__self__
        if type(instance) in TRACED_VALUES:
            return method(*args, **kwargs)  # they watch themselves
        if path is not None:
            self._tracer.read(function, path.attribute("__func__"))
            self._tracer.read(instance, path.attribute("__self__"))
        return self.call(function, (instance, *args), kwargs)

    # -- native functions ------------------------------------------------------------------------

    def _native(self, function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        self._pin(args, kwargs)
        owner = getattr(function, "__self__", None)
        # By its type: a class may have code of its own for `__class__`.
        kind = type(owner)
        if kind in natives.OWNERS:
            return natives.call(self._hooks, function, args, kwargs)
        if issubclass(kind, torch.Tensor):
            descriptor = getattr(torch.Tensor, function.__name__, None)
            if descriptor is None:
                raise AbortCapture(f"`{function.__name__}` of a tensor")
            return self._tensor_method(descriptor, (owner, *args), kwargs)
        model = natives.MODELS.get(function)
        if model is not None:
            return answered(self._hooks, model, function, args, kwargs)
        if is_operation(function):
            return self._hooks.recorder.run(function, args, kwargs)
        if _calls_itself(owner) and function == type.__call__.__get__(owner):
            return self.instance(owner, args, kwargs)
        return natives.call(self._hooks, function, args, kwargs)

    def _descriptor(
        self, function: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        self._pin(args, kwargs)
        if function is type.__call__ and args and _calls_itself(args[0]):
            return self.instance(args[0], args[1:], kwargs)
        if args and isinstance(args[0], torch.Tensor):
            return self._tensor_method(function, args, kwargs)
        return natives.call(self._hooks, function, args, kwargs)

    def _tensor_method(
        self, method: Any, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        model = METHODS.get(method)
        if model is not None:
            return answered(self._hooks, model, method, args, kwargs)
        return self._hooks.recorder.run(method, args, kwargs)

    # -- other callables -------------------------------------------------------------------------

    def _partial(
        self,
        function: functools.partial[object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        path = self._tracer.path_of(function)
        given: object = function.args
        named: object = function.keywords
        if path is not None:
            self._tracer.read(function.func, path.attribute("func"))
            where = path.attribute("args")
            self._tracer.guard(Kind.LENGTH, where, len(given))
            given = [self._tracer.read(x, where.item(i)) for i, x in enumerate(given)]
            where = path.attribute("keywords")
            self._tracer.guard(Kind.KEYS, where, tuple(named))
            if path.text == _TARGET:
                # The dispatcher of a compiled partial gives them as the defaults that they were.
                for name in named.keys() & kwargs.keys():
                    self._tracer.guard(Kind.IDENTITY, where.item(name), named[name])
            named = {name: self._tracer.read(x, where.item(name)) for name, x in named.items()}
        return self.call(function.func, filled(given, args), {**named, **kwargs})

    def _cached(self, function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """A function behind `lru_cache` promises to be a function of its arguments."""
        self._pin(args, kwargs)
        model = natives.MODELS.get(function)
        if model is not None:
            return answered(self._hooks, model, function, args, kwargs)
        if function.cache_parameters()["maxsize"] == 0:
            return self.call(function.__wrapped__, args, kwargs)
        return self._caches.call(function, is_trusted(function.__module__), args, kwargs)

    def _module(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        kind = type(module)
        path = self._tracer.path_of(module)
        behind = traceable_behind(module)
        if behind is not None and not _has_hooks(module):
            if path is not None:
                self._without_hooks(module, path)
                where = path.instance("_modules").item("_orig_mod")
                behind = self._tracer.read(behind, where)
            return self.call(behind, args, kwargs)
        if getattr(kind, "__anyshape_calls_another__", False):
            raise AbortCapture("a compiled module whose `_orig_mod` was replaced")
        own = kind.__call__
        self._hooks.attributes.class_attribute(kind, "__call__")
        replaced.note_class(torch.nn.Module, _WAY_TO_FORWARD)
        if not hasattr(kind, "__anyshape_original__") and not _is_called_as_usual(kind):
            return self.call(own, (module, *args), kwargs)
        plain = torch.nn.Module.__dict__.get(_COMPILED) is None
        if plain and not _has_hooks(module) and not _global_hooks():
            if path is not None:
                self._without_hooks(module, path)
            kind_path = self._tracer.constant(torch.nn.Module).instance(_COMPILED)
            self._tracer.guard(Kind.EQUALS, kind_path, None)
            held = self._tracer.constant(vars(_MODULES), "G['torch.nn.modules.module']")
            for name in _GLOBAL_HOOKS:
                self._tracer.guard(Kind.TRUTH, held.item(name), False, "no hooks of all modules")
            forward = self._hooks.attributes.plain(module, "forward")
            return self.call(forward, args, kwargs)
        return self.call(torch.nn.Module._wrapped_call_impl, (module, *args), kwargs)

    def _without_hooks(self, module: torch.nn.Module, path: Path) -> None:
        for name in _HOOKS:
            where = path.instance(name)
            self._tracer.guard(Kind.TYPE, where, type(module.__dict__[name]))
            self._tracer.guard(Kind.TRUTH, where, False, "a module without hooks")
        self._tracer.guard(Kind.NO_INSTANCE_ATTRIBUTE, path, _COMPILED)

    def _object(
        self, function: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        if isinstance(function, torch.nn.Module):
            return self._layers.call(self._module, function, args, kwargs)
        if isinstance(function, OpOverload):  # a class of its own, if it takes packed weights
            return self._hooks.recorder.run(function, args, kwargs)
        if is_constexpr_function(function):
            return call_of_triton(self._hooks, function, args, kwargs)
        wrapped = getattr(type(function), "__anyshape_original__", None)
        if wrapped is not None:
            return self._compiled(function, wrapped(function), args, kwargs)
        if isinstance(function, TENSOR_TYPE):
            return make(self._hooks, function, args, kwargs)
        if isinstance(function, type):
            return self._class(function, args, kwargs)
        own = type(function).__call__ if callable(function) else None
        if isinstance(own, types.FunctionType):
            self._hooks.attributes.class_attribute(type(function), "__call__")
            return self.call(own, (function, *args), kwargs)
        return natives.call(self._hooks, function, args, kwargs)

    def _compiled(
        self,
        compiled: object,
        original: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        """A compiled function inside another one: as if it were not compiled."""
        path = self._tracer.path_of(compiled)
        if path is not None:
            self._tracer.guard(Kind.IDENTITY, path, compiled)
        if not isinstance(original, CODE) and self._tracer.path_of(original) is None:
            self._tracer.register(original, self._tracer.constant(original))
        return self.call(original, args, kwargs)

    def _scripted(
        self, function: Any, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        return self._compiled(function, python_of(function, args, kwargs), args, kwargs)

    # -- classes ---------------------------------------------------------------------------------

    def _class(self, kind: type, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        model = natives.MODELS.get(kind)
        if model is not None:
            self._pin(args, kwargs)
            return answered(self._hooks, model, kind, args, kwargs)
        if issubclass(kind, enum.Enum):
            return classes.member(self._hooks, kind, args, kwargs)
        if classes.is_named_tuple(kind):
            return kind(*args, **kwargs)
        if takes_elements_by_tensors(kind):
            return kind(*args, **kwargs)
        if kind in CONTEXT_CLASSES:
            return kind(
                *(self._hooks.specialized(arg, "a mode is set to it") for arg in args),
                **{
                    k: self._hooks.specialized(arg, "a mode is set to it")
                    for k, arg in kwargs.items()
                },
            )
        if kind is torch.Tensor:
            return make(self._hooks, kind, args, kwargs)
        if issubclass(kind, torch.Tensor):
            raise AbortCapture(f"{kind.__name__}(…) inside a compiled function")
        if kind.__module__ == "itertools":
            return natives.call(self._hooks, kind, args, kwargs)
        metaclass = type(kind)
        meta = metaclass.__call__
        if metaclass is not type:
            self._hooks.attributes.class_attribute(metaclass, "__call__")
        if meta is not type.__call__:
            if isinstance(meta, types.FunctionType):
                return self.call(meta, (kind, *args), kwargs)
            raise AbortCapture(f"a class with a native metaclass: {kind.__name__}")
        return self.instance(kind, args, kwargs)

    def instance(self, kind: type, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """`type.__call__`: make, then initialise."""
        new: object = kind.__new__
        init: object = kind.__init__
        hooks = self._hooks
        hooks.attributes.class_attribute(kind, "__new__")
        found = hooks.attributes.class_attribute(kind, "__init__")
        if hooks.attributes.class_attribute(kind, "__del__") is not None:
            raise AbortCapture(
                f"a {kind.__name__} is made, whose `__del__` runs when it is dropped"
            )
        if isinstance(new, types.FunctionType):
            made = self.call(new, (kind, *args), kwargs)
            if not isinstance(made, kind):
                return made
        elif new is object.__new__:
            if init is object.__init__ and (args or kwargs):
                return kind(*args, **kwargs)  # raises
            made = object.__new__(kind)
        elif classes.is_data(kind):
            made = classes.value(hooks, kind, args, kwargs)
        elif (handler := natives.handler_of(kind)) is not None:
            return handler(hooks, kind, args, kwargs)
        else:
            raise AbortCapture(f"{kind.__name__}(…) is made by native code")
        if isinstance(init, types.FunctionType):
            if found is not None and classes.is_generated(found[0], init):
                classes.dataclass_init(hooks, found[0], init, made, args, kwargs)
            else:
                self.call(init, (made, *args), kwargs)
        elif init is not object.__init__ and not classes.is_immutable(kind):
            natives.call(hooks, init, (made, *args), kwargs)
        return made


#: A compiled object, as guards know it.
_TARGET: Final = "L['self']"


def _is_constant(value: object) -> bool:
    """Whether it is the same in every call as long as it is the same object."""
    if type(value) is slice:
        return all(type(part) in ATOMS for part in (value.start, value.stop, value.step))
    return type(value) in ATOMS or (isinstance(value, CODE) and not isinstance(value, BOUND))


def _calls_itself(value: object) -> TypeGuard[type]:
    """Whether it is a class that the program's own metaclass makes instances of."""
    return isinstance(value, type) and isinstance(type(value).__call__, types.FunctionType)


# -- modules ---------------------------------------------------------------------------------------

#: Set by `module.compile()`, and then called instead of `forward`.
_COMPILED: Final = "_compiled_call_impl"

_HOOKS: Final = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


#: What torch runs between a call of a module and its `forward`.
_WAY_TO_FORWARD: Final = frozenset(("__call__", "_wrapped_call_impl", "_call_impl"))


def _is_called_as_usual(kind: type) -> bool:
    """Whether all of that is torch's own code."""
    codes = (getattr(getattr(kind, name), "__code__", None) for name in _WAY_TO_FORWARD)
    return all(code is not None and code.co_filename == _MODULES.__file__ for code in codes)


def _has_hooks(module: torch.nn.Module) -> bool:
    held = module.__dict__
    return any(held.get(name) for name in _HOOKS) or _COMPILED in held


#: The module that holds the hooks which run for every module.
_MODULES: Final = sys.modules["torch.nn.modules.module"]
_GLOBAL_HOOKS: Final = tuple(f"_global{name}" for name in _HOOKS)


def _global_hooks() -> bool:
    return any(getattr(_MODULES, name) for name in _GLOBAL_HOOKS)


_BY_TYPE: Final[dict[type, Callable[..., Any]]] = {
    types.FunctionType: Callables._function,
    types.MethodType: Callables._method,
    types.BuiltinFunctionType: Callables._native,
    types.MethodWrapperType: Callables._native,
    types.MethodDescriptorType: Callables._descriptor,
    types.WrapperDescriptorType: Callables._descriptor,
    types.ClassMethodDescriptorType: Callables._descriptor,
    functools.partial: Callables._partial,
    functools._lru_cache_wrapper: Callables._cached,
    type: Callables._class,
    torch.jit.ScriptFunction: Callables._scripted,
    Launcher: lambda self, f, a, k: launch(self._hooks, f, a, k),
    OpOverload: lambda self, f, a, k: self._hooks.recorder.run(f, a, k),
    OpOverloadPacket: lambda self, f, a, k: self._hooks.recorder.run(f, a, k),
}
