"""Functions with a gradient of their own: calls that the graph makes again, as they are.

Their Python code runs in every run. So it must be a function of its arguments: it takes tensors and
numbers, reads nothing of the program but modules, functions and constants, and writes nothing.
"""

from __future__ import annotations

import dis
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from anyshape.capture.concolic import TracedFloat, TracedInt
from anyshape.capture.operation_kinds import RUNS_PYTHON
from anyshape.capture.tracer import ATOMS, Leave

Hooks = Any

_NUMBERS: Final = ATOMS | {TracedInt, TracedFloat}
_METHODS: Final = ("forward", "backward", "setup_context", "jvp", "vmap", "vjp")
_WRITES: Final = frozenset(
    {"STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF", "IMPORT_NAME"}
)


def _apply(hooks: Hooks, function: Any, *args: Any, **kwargs: Any) -> Any:
    for value in (*args, *kwargs.values()):
        if type(value) not in _NUMBERS and not isinstance(value, torch.Tensor):
            raise Leave(f"`{function.__name__}.apply` takes a {type(value).__name__}")
    for name in _METHODS:
        method = getattr(function, name, None)
        method = getattr(method, "__func__", method)
        if isinstance(method, types.FunctionType) and not _is_of_torch(method):
            hooks.attributes.class_attribute(function, name)
            _check_code(hooks, method, method.__code__, set())
    return hooks.recorder.run(_caller_of(function), args, kwargs)


_callers: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()


def _caller_of(function: Any) -> Callable[..., Any]:
    """A function that applies it: what a graph calls has a name, and `apply` is that of all."""
    found = _callers.get(function)
    if found is None:
        held = weakref.ref(function)

        def apply(*args: Any, **kwargs: Any) -> Any:
            alive = held()
            assert alive is not None, "guards hold the class"
            return alive.apply(*args, **kwargs)

        apply.__name__ = apply.__qualname__ = f"apply_{function.__name__}"
        setattr(apply, RUNS_PYTHON, True)
        found = _callers[function] = apply
    return found


def _check_code(
    hooks: Hooks, function: types.FunctionType, code: types.CodeType, seen: set[types.CodeType]
) -> None:
    """Guard what the code reads of the program; leave if it may write."""
    if code in seen:
        return
    seen.add(code)
    if function.__closure__ and code is function.__code__:
        raise Leave(f"`{function.__qualname__}` closes over variables")
    for each in dis.get_instructions(code):
        if each.opname in _WRITES:
            raise Leave(f"`{function.__qualname__}` changes what is outside of it")
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            _check_global(hooks, function, str(each.argval), seen)
    for inner in _inner(code):
        _check_code(hooks, function, inner, seen)


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    return (value for value in code.co_consts if isinstance(value, types.CodeType))


def _check_global(
    hooks: Hooks, function: types.FunctionType, name: str, seen: set[types.CodeType]
) -> None:
    globals_ = function.__globals__
    path = hooks.tracer.constant(globals_, "G").item(name)
    if name not in globals_:
        if name not in _PURE_BUILTINS:
            raise Leave(f"`{function.__qualname__}` calls `{name}`, which may have effects")
        return
    value = globals_[name]
    if type(value) in ATOMS:
        hooks.tracer.read(value, path)
    elif isinstance(value, types.ModuleType | types.BuiltinFunctionType | type):
        if not _is_of_library(value):
            raise Leave(f"`{function.__qualname__}` uses `{name}`, which may have state")
        hooks.tracer.read(value, path)
    elif isinstance(value, types.FunctionType):
        hooks.tracer.read(value, path)
        if not _is_of_torch(value):
            _check_code(hooks, value, value.__code__, seen)
    else:
        raise Leave(f"`{function.__qualname__}` uses `{name}`, which may have state")


_PURE_BUILTINS: Final = frozenset(
    {
        *("abs", "all", "any", "bool", "dict", "enumerate", "float", "frozenset", "getattr"),
        *("hasattr", "int", "isinstance", "issubclass", "len", "list", "map", "max", "min"),
        *("range", "reversed", "round", "set", "slice", "sorted", "str", "sum", "super", "tuple"),
        *("type", "zip", "NotImplementedError", "RuntimeError", "TypeError", "ValueError"),
        *("AssertionError", "AttributeError", "IndexError", "KeyError", "property"),
    }
)


def _is_of_library(value: Any) -> bool:
    name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
    return (name or "").split(".")[0] in ("torch", "math", "builtins", "operator")


def _is_of_torch(function: types.FunctionType) -> bool:
    return (function.__module__ or "").split(".")[0] == "torch"


MODELS: Final[dict[Any, Callable[..., Any]]] = {
    vars(torch.autograd.Function)["apply"].__func__: _apply,
}
