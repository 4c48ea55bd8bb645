"""Functions with a gradient of their own.

Where no gradients are taken, `apply` is `forward`, which is captured as any other code. Elsewhere
the graph makes the call again, as it is: its Python code runs in every run. So it must be a
function of its arguments: it takes tensors and numbers, reads nothing of the program but modules,
functions and constants, and writes nothing.
"""

from __future__ import annotations

import dis
import inspect
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import torch
from torch._library.custom_ops import CustomOpDef
from torch.autograd.function import FunctionCtx

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.builtins.triton_kernels import is_constexpr_function
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt
from anyshape.capture.rewrite.instrument import is_instrumented
from anyshape.capture.rewrite.source import all_code
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Kind
from anyshape.guards.path import Path
from anyshape.ops.effects import APPLY, RUNS_PYTHON
from anyshape.ops.kernel_launch import is_kernel

_NUMBERS: Final = ATOMS | {TracedInt, TracedFloat}
_METHODS: Final = ("forward", "backward", "setup_context", "jvp", "vmap", "vjp")
_WRITES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME"})
_CELL_WRITES: Final = frozenset({"STORE_DEREF", "DELETE_DEREF"})


def _apply(hooks: Hooks, function: Any, *args: object, **kwargs: object) -> object:
    if kwargs:
        raise AbortCapture(f"`{function.__name__}.apply` takes {', '.join(kwargs)} by name")
    if _is_forward_alone(function):
        return _forward(hooks, function, args)
    given = [_argument(hooks, function, value) for value in args]
    if _has_changing_float(given) and not hooks.tracer.whole:
        # Its code may choose sizes by it: a graph would hold for this value alone.
        raise AbortCapture(
            f"`{function.__name__}.apply` takes a float that changes",
            "a tensor in its place: what is around the call is then one graph with it",
        )
    shapes = tuple(place for place, value in enumerate(given) if type(value) is torch.Size)
    code = tuple((place, value) for place, value in enumerate(given) if isinstance(value, CODE))
    for place, _ in code:
        given[place] = None
    seen: set[object] = set()
    for name in _METHODS:
        method = getattr(function, name, None)
        method = getattr(method, "__func__", method)
        if isinstance(method, types.FunctionType) and not _is_of_torch(method):
            hooks.attributes.class_attribute(function, name)
            _check_code(hooks, method, seen)
            if any(type(value) in (list, dict) for value in given):
                _check_containers(method)
    result = hooks.recorder.run(_caller_of(function, shapes, code), tuple(given), {})
    if _LAUNCHES in seen:
        # A kernel writes without telling autograd.
        with torch._C.DisableTorchFunction():
            hooks.recorder.changes.wrote(_tensors_in(given))
    return result


def _is_forward_alone(function: Any) -> bool:
    """Whether a call does no more than `forward` does: nobody asks for gradients, and nothing is
    written to arguments, of which autograd would have to know."""
    forward = getattr(function, "forward", None)
    if torch.is_grad_enabled() or not isinstance(forward, types.FunctionType):
        return False
    if _is_of_torch(forward) or torch._C._are_functorch_transforms_active():
        return False
    if isinstance(inspect.getattr_static(function, "forward"), classmethod):
        return False
    plain = inspect.unwrap(forward)
    return not any("mark_dirty" in code.co_names for code in all_code(plain.__code__))


def _forward(hooks: Hooks, function: Any, args: tuple[object, ...]) -> object:
    """A call without gradients. What is kept for the backward is kept by nobody."""
    context: Any = hooks.call(FunctionCtx)
    wanted = (isinstance(value, torch.Tensor) and value.requires_grad for value in args)
    hooks.set_attribute(context, "needs_input_grad", tuple(wanted))
    separate = hooks.attribute(function, "setup_context")
    forward = hooks.attribute(function, "forward")
    if separate is torch.autograd.Function.setup_context:
        result = hooks.call(forward, context, *args)
    else:
        result = hooks.call(forward, *args)
        hooks.call(separate, context, args, result)
    dirty = getattr(context, "dirty_tensors", None) or ()
    given = {id(value): value for value in args if isinstance(value, torch.Tensor)}
    for value in dirty:
        given.pop(id(value), None)
    if type(result) is tuple:
        return tuple(_handed_back(hooks, value, given) for value in result)
    return _handed_back(hooks, result, given)


def _handed_back(hooks: Hooks, value: object, given: Mapping[int, object]) -> object:
    """A result as autograd hands it back: no longer with a gradient, and another tensor than an
    argument that was not written to."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.requires_grad and id(value) in given:
        return hooks.call(torch.Tensor.detach, value)
    if value.requires_grad and not value._is_view():
        return hooks.call(torch.Tensor.detach_, value)
    return hooks.call(torch.Tensor.view_as, value, value) if id(value) in given else value


#: Among what was seen of code: it launches a kernel.
_LAUNCHES: Final = object()


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(item)


def _argument(hooks: Hooks, function: Any, value: object) -> object:
    """An argument as the graph gives it: tensors, numbers, code, and containers of these."""
    kind = type(value)
    if kind in _NUMBERS or isinstance(value, torch.Tensor) or kind is torch.Size:
        return value
    if kind in (list, tuple, dict) and not _holds_other(value):
        # Of a container from outside, what is in it now, with guards.
        return hooks.operand(value) if hooks.outside.is_external(value) else value
    if isinstance(value, types.FunctionType):
        if is_instrumented(value.__code__):
            raise AbortCapture(f"`{function.__name__}.apply` takes a function made by the program")
        if not _is_of_torch(value):
            _check_code(hooks, value, set())
        return value
    if isinstance(value, types.BuiltinFunctionType | type) and _is_of_library(value):
        return value
    raise AbortCapture(f"`{function.__name__}.apply` takes a {kind.__name__}")


def _has_changing_float(value: Any) -> bool:
    if isinstance(value, list | tuple | dict):
        return any(map(_has_changing_float, value.values() if isinstance(value, dict) else value))
    return type(value) is TracedFloat


def _holds_other(value: Any) -> bool:
    """Whether there is anything in it but tensors and numbers."""
    items = (*value.keys(), *value.values()) if type(value) is dict else value
    return any(
        _holds_other(item)
        if type(item) in (list, tuple, dict)
        else type(item) not in _NUMBERS and not isinstance(item, torch.Tensor)
        for item in items
    )


#: By class: what calls it, by where shapes and code are among its arguments.
_callers: weakref.WeakKeyDictionary[Any, dict[Any, Callable[..., Any]]] = (
    weakref.WeakKeyDictionary()
)


def _caller_of(
    function: Any, shapes: tuple[int, ...], code: tuple[tuple[int, object], ...]
) -> Callable[..., object]:
    """A function that applies it: what a graph calls has a name, and `apply` is that of all. A
    graph gives shapes as tuples, and no code."""
    found = _callers.setdefault(function, {}).get((shapes, code))
    if found is None:
        held = weakref.ref(function)

        def apply(*args: Any) -> Any:
            alive = held()
            assert alive is not None, "guards hold the class"
            if not shapes and not code:
                return alive.apply(*args)
            given = list(args)
            for place in shapes:
                given[place] = torch.Size(given[place])
            for place, value in code:
                given[place] = value
            return alive.apply(*given)

        apply.__name__ = apply.__qualname__ = APPLY + function.__name__
        setattr(apply, RUNS_PYTHON, True)
        found = _callers[function][shapes, code] = apply
    return found


def _instructions(function: types.FunctionType) -> Iterator[dis.Instruction]:
    """Those of a function, and of the functions in it."""
    return (each for code in all_code(function.__code__) for each in dis.get_instructions(code))


def _check_code(hooks: Hooks, function: types.FunctionType, seen: set[object]) -> None:
    """Guard what the code reads of the program; leave if it may write."""
    if function in seen:
        return
    seen.add(function)
    _check_closure(hooks, function, seen)
    outside = function.__code__.co_freevars
    for each in _instructions(function):
        if each.opname in _WRITES or (each.opname in _CELL_WRITES and each.argval in outside):
            raise AbortCapture(f"`{function.__qualname__}` changes what is outside of it")
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            _check_global(hooks, function, str(each.argval), seen)
    _check_classes(function)


def _check_containers(function: types.FunctionType) -> None:
    """Leave if the code may change a list that it is given, which is the program's own."""
    for each in _instructions(function):
        changes = each.opname in ("STORE_SUBSCR", "DELETE_SUBSCR")
        if changes or (each.opname in _LOADS and each.argval in _CHANGING):
            raise AbortCapture(f"`{function.__qualname__}` may change a list that it is given")
        if each.opname == "LOAD_GLOBAL" and each.argval in function.__globals__:
            value = function.__globals__[each.argval]
            if isinstance(value, types.FunctionType) and not _is_of_torch(value):
                raise AbortCapture(f"`{function.__qualname__}` may hand on a list that it is given")


_LOADS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_CHANGING: Final = frozenset(
    {
        *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"),
        *("update", "setdefault", "popitem"),
    }
)


def _check_global(hooks: Hooks, function: types.FunctionType, name: str, seen: set[object]) -> None:
    globals_ = function.__globals__
    path = hooks.tracer.constant(globals_, "G").item(name)
    if name not in globals_:
        if name not in _PURE_BUILTINS:
            raise AbortCapture(f"`{function.__qualname__}` calls `{name}`, which may have effects")
        return
    if hooks.journal.is_written(globals_, name):
        raise AbortCapture(f"`{function.__qualname__}` uses `{name}`, which the program has set")
    _check_value(hooks, function, name, globals_[name], path, seen)


def _check_closure(hooks: Hooks, function: types.FunctionType, seen: set[object]) -> None:
    """What a decorator has given to the function that it made, such as the function behind it."""
    closure = hooks.tracer.constant(function).attribute("__closure__")
    cells = function.__closure__ or ()
    for place, (name, cell) in enumerate(zip(function.__code__.co_freevars, cells, strict=True)):
        try:
            value = cell.cell_contents
        except ValueError:
            raise AbortCapture(f"`{function.__qualname__}` closes over an empty cell") from None
        if hooks.journal.is_written(cell, "cell_contents"):
            raise AbortCapture(f"`{function.__qualname__}` uses `{name}`, which was set")
        _check_value(hooks, function, name, value, closure.item(place).cell(), seen)


def _check_value(
    hooks: Hooks,
    function: types.FunctionType,
    name: str,
    value: Any,
    path: Path,
    seen: set[object],
) -> None:
    """What code reads outside of it: a constant, or code."""
    if type(value) in ATOMS:
        hooks.tracer.read(value, path)
    elif isinstance(value, types.ModuleType | types.BuiltinFunctionType | type):
        hooks.tracer.read(value, path)
        if not _is_of_library(value):
            if not isinstance(value, type) or not issubclass(value, torch.autograd.Function):
                raise AbortCapture(f"`{function.__qualname__}` uses `{name}`, which may have state")
            _check_class(hooks, value, seen)
    elif isinstance(value, types.FunctionType):
        hooks.tracer.read(value, path)
        if not _is_of_library(value):
            _check_code(hooks, value, seen)
    elif is_kernel(value) or is_constexpr_function(value):
        # A kernel is code, too: it computes of its arguments, and writes to nothing else.
        hooks.tracer.guard(Kind.IDENTITY, path, value)
        seen.add(_LAUNCHES)
    else:
        raise AbortCapture(f"`{function.__qualname__}` uses `{name}`, which may have state")


def _check_class(hooks: Hooks, kind: type, seen: set[object]) -> None:
    """A function with a gradient that code names, often its own: what can be read of it."""
    for owner in kind.__mro__[: kind.__mro__.index(torch.autograd.Function)]:
        if owner in seen or _is_of_library(owner):
            continue
        seen.add(owner)
        for name, held in vars(owner).items():
            if name in _OF_EVERY_CLASS:
                continue
            hooks.attributes.class_attribute(kind, name)
            value = getattr(held, "__func__", held)
            if isinstance(value, types.FunctionType):
                _check_code(hooks, value, seen)
            elif type(value) in ATOMS:
                hooks.tracer.read(value, hooks.tracer.constant(owner).instance(name))
            else:
                raise AbortCapture(f"`{owner.__qualname__}.{name}` may have state")


def _check_classes(function: types.FunctionType) -> None:
    """Leave if code does anything with a class of the program but to read an attribute."""
    for code in all_code(function.__code__):
        for each, after in pairwise(dis.get_instructions(code)):
            if each.opname not in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
                continue
            value = _read_by(function, str(each.argval))
            if isinstance(value, type) and not _is_of_library(value) and after.opname not in _LOADS:
                raise AbortCapture(f"`{function.__qualname__}` hands on `{each.argval}`")


def _read_by(function: types.FunctionType, name: str) -> object:
    names = function.__code__.co_freevars
    if name in names and function.__closure__:
        return function.__closure__[names.index(name)].cell_contents
    return function.__globals__.get(name)


#: What the code of a function with a gradient does not read of its class.
_OF_EVERY_CLASS: Final = frozenset(
    (*vars(type("_Plain", (torch.autograd.Function,), {})), "__annotations__")
)

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
    return (name or "").split(".")[0] in ("torch", "math", "builtins", "operator", "triton")


def _is_of_torch(function: types.FunctionType) -> bool:
    return (function.__module__ or "").split(".")[0] == "torch"


def _custom_op(hooks: Hooks, definition: Any, *args: object, **kwargs: object) -> object:
    """What `torch.library.custom_op` returns, called: the operator that it has defined."""
    path = hooks.tracer.path_of(definition)
    if path is not None:
        hooks.tracer.guard(Kind.IDENTITY, path, definition)
    return hooks.recorder.run(definition._opoverload, args, kwargs)


MODELS: Final[Models] = {
    vars(torch.autograd.Function)["apply"].__func__: _apply,
    CustomOpDef.__call__: _custom_op,
}
