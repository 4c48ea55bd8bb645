"""All models, and the rule for a native function that has none."""

from __future__ import annotations

import itertools
import operator
import types
import weakref
from collections.abc import Callable
from typing import Any, Final

from anyshape.capture.natives import (
    autograd_functions,
    control_flow,
    effects,
    iteration,
    numbers,
    objects,
    scans,
    torch_state,
)
from anyshape.capture.natives.methods import method, unbound
from anyshape.capture.natives.objects import follow_reference
from anyshape.capture.natives.pure import (
    PLAIN_LIBRARY,
    PURE,
    PURE_MODULES,
    no_own_code,
    pure,
    pure_python,
)
from anyshape.capture.tracer import Leave
from anyshape.ops.regions import region_of

Hooks = Any


def _binary(name: str) -> Callable[..., Any]:
    return lambda hooks, a, b: hooks.binary(name, a, b)


def _compare(name: str) -> Callable[..., Any]:
    return lambda hooks, a, b: hooks.compare(name, a, b)


#: Operators as functions: the hook of the operator.
_OPERATORS: Final[dict[Any, Callable[..., Any]]] = {
    **{
        getattr(operator, name): _binary(name)
        for name in (
            *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
            *("lshift", "rshift", "xor"),
        )
    },
    operator.and_: _binary("and"),
    operator.or_: _binary("or"),
    **{getattr(operator, name): _compare(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    operator.neg: lambda hooks, a: hooks.unary("neg", a),
    operator.getitem: lambda hooks, a, b: hooks.item(a, b),
    operator.setitem: lambda hooks, a, b, c: hooks.set_item(a, b, c),
    operator.contains: lambda hooks, a, b: hooks.contains(b, a),
    operator.not_: lambda hooks, a: not hooks.truth(a),
    operator.truth: lambda hooks, a: hooks.truth(a),
    operator.is_: lambda hooks, a, b: hooks.same(a, b),
    operator.is_not: lambda hooks, a, b: not hooks.same(a, b),
    operator.call: lambda hooks, function, /, *args, **kwargs: hooks.call(
        function, *args, **kwargs
    ),
}

#: A model answers as the function does, through hooks, so that what it looks at is seen.
MODELS: Final[dict[Any, Callable[..., Any]]] = {
    **objects.MODELS,
    **iteration.MODELS,
    **numbers.MODELS,
    **effects.MODELS,
    **torch_state.MODELS,
    **autograd_functions.MODELS,
    **control_flow.MODELS,
    **scans.MODELS,
    **_OPERATORS,
}


#: Of operators with graphs, as exported programs have them.
_AGAIN: Final = {**control_flow.AGAIN, **scans.AGAIN}


def call(hooks: Hooks, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a native function that is not a torch operation."""
    if not _has_hash(function):
        raise Leave(f"`{_full_name(function)}` is native code without a model")
    held = region_of(function)
    if held is not None:
        return _AGAIN[held[0]](hooks, held[1], *args)
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return method(hooks, function, owner, function.__name__, args, kwargs)
    home = getattr(function, "__objclass__", None)
    if home is not None and args:
        return unbound(hooks, function, home, args, kwargs)
    if isinstance(function, weakref.ref) and not args and not kwargs:
        return follow_reference(hooks, function)
    if isinstance(function, type) and function.__module__ == "itertools":
        return _itertool(hooks, function, args, kwargs)
    if isinstance(function, types.FunctionType) and function.__module__ in PLAIN_LIBRARY:
        if any(hooks.outside.is_outside(arg) for arg in (*args, *kwargs.values())):
            raise Leave(f"`{_full_name(function)}` of an object from outside")
        return pure_python(hooks, function, args, kwargs)
    if getattr(function, "__module__", None) == _ASKING and len(args) == 1:
        # The question has been asked, and the answer is at hand.
        hooks.tracer.checking = False
        return hooks.truth(args[0])
    if function in PURE or getattr(function, "__module__", None) in PURE_MODULES:
        return pure(hooks, function, args, kwargs)
    if isinstance(function, type) and issubclass(function, BaseException):
        return function(*args, **kwargs)
    raise Leave(
        f"`{_full_name(function)}` is native code without a model",
        "call it outside the compiled function",
    )


#: Functions of torch that ask about sizes, known by name because we do not import their module.
_ASKING: Final = "torch.fx.experimental.symbolic_shapes"


def _has_hash(function: Any) -> bool:
    """Functions of ctypes have none."""
    try:
        hash(function)
    except TypeError:
        return False
    return True


def is_check(function: Any) -> bool:
    if not _has_hash(function):
        return False
    module = getattr(function, "__module__", None)
    return function in torch_state.CHECKS or module in (_ASKING, "anyshape.api")


def _full_name(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or repr(type(function))
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if isinstance(module, str) else name


def _itertool(hooks: Hooks, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    walked = _WALKED.get(kind)
    if walked is None:
        raise Leave(f"itertools.{kind.__name__}")

    def number(value: Any) -> Any:
        no_own_code(value, "__index__")
        return hooks.fixed(value, f"itertools.{kind.__name__} counts by it")

    count = len(args) if walked == _ALL else walked
    given = [hooks.iterate(arg) for arg in args[:count]]
    if kind is itertools.repeat:
        given, count = [args[0]], 1
    if kind in (itertools.zip_longest, itertools.product):
        return kind(*given, **kwargs)
    return kind(
        *given, *map(number, args[count:]), **{name: number(x) for name, x in kwargs.items()}
    )


#: How many of the first arguments are walked; the rest are numbers.
_ALL: Final = -1
_WALKED: Final[dict[Any, int]] = {
    itertools.chain: _ALL,
    itertools.zip_longest: _ALL,
    itertools.product: _ALL,
    itertools.islice: 1,
    itertools.pairwise: 1,
    itertools.permutations: 1,
    itertools.combinations: 1,
    itertools.cycle: 1,
    itertools.repeat: 0,
    itertools.count: 0,
}
