"""Models of functions on numbers: integers stay symbols, floats become nodes of the graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.concolic import TracedFloat, TracedInt, maximum, minimum, plain
from anyshape.capture.natives.pure import no_own_code, pure
from anyshape.capture.traced_numbers import is_of_data
from anyshape.capture.tracer import Leave

Hooks = Any

_TRACED: Final = (TracedInt, TracedFloat)


def _int(hooks: Hooks, *args: Any) -> Any:
    if len(args) == 1:
        (value,) = args
        if type(value) is TracedInt:
            return value
        if isinstance(value, torch.Tensor):
            return hooks.recorder.run(torch.Tensor.__int__, (value,), {})
        if is_of_data(value):
            return hooks.recorder.number(int, (value,))
        no_own_code(value, "__int__", "__index__", "__trunc__")
    return int(*(hooks.fixed(arg, "it becomes an integer") for arg in args))


def _float(hooks: Hooks, *args: Any) -> Any:
    if len(args) == 1:
        (value,) = args
        if type(value) is TracedFloat:
            return value
        if type(value) is TracedInt:
            return hooks.recorder.number(float, (value,))
        if isinstance(value, torch.Tensor):
            return hooks.recorder.run(torch.Tensor.__float__, (value,), {})
        no_own_code(value, "__float__", "__index__")
    return float(*(hooks.fixed(arg, "it becomes a float") for arg in args))


def _bool(hooks: Hooks, *args: Any) -> bool:
    return hooks.truth(args[0]) if args else False


def _str(hooks: Hooks, *args: Any) -> str:
    if len(args) == 1:
        return hooks.format(args[0], "s", "")
    return str(*args)


def _repr(hooks: Hooks, value: Any) -> str:
    return hooks.format(value, "r", "")


def _abs(hooks: Hooks, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return hooks.recorder.run(torch.Tensor.__abs__, (value,), {}, abs)
    no_own_code(value, "__abs__")
    return abs(value)


def _round(hooks: Hooks, value: Any, *digits: Any) -> Any:
    if isinstance(value, torch.Tensor):
        raise Leave("round() of a tensor")
    no_own_code(value, "__round__")
    return round(value, *digits)


def _divmod(hooks: Hooks, a: Any, b: Any) -> Any:
    no_own_code(a, "__divmod__")
    no_own_code(b, "__rdivmod__")
    return hooks.binary("floordiv", a, b), hooks.binary("mod", a, b)


def _pow(hooks: Hooks, a: Any, b: Any, *modulus: Any) -> Any:
    if modulus:
        return pow(*(hooks.fixed(x, "a power with a modulus") for x in (a, b, *modulus)))
    return hooks.binary("pow", a, b)


def _float_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers that gives a float: kept as a node of the graph."""

    def model(hooks: Hooks, *args: Any) -> Any:
        if any(type(arg) in _TRACED for arg in args):
            return hooks.recorder.number(function, args)
        return pure(hooks, function, args, {})

    return model


def _to_integer(function: Callable[..., Any]) -> Callable[..., Any]:
    def model(hooks: Hooks, value: Any) -> Any:
        if type(value) is TracedInt:
            return value
        if is_of_data(value):
            return hooks.recorder.number(function, (value,))
        return pure(hooks, function, (value,), {})

    return model


def _of_data(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers: of those that depend on data, the graph computes it."""

    def model(hooks: Hooks, *args: Any) -> Any:
        if any(map(is_of_data, args)):
            return hooks.recorder.number(function, args)
        return pure(hooks, function, args, {})

    return model


def prod(hooks: Hooks, iterable: Any, *, start: Any = 1) -> Any:
    result = start
    for item in hooks.iterate(iterable):
        result = hooks.binary("mul", result, item)
    return result


def _index(hooks: Hooks, value: Any) -> Any:
    if type(value) is TracedInt:
        return value
    if isinstance(value, torch.Tensor):
        return hooks.recorder.run(torch.Tensor.__index__, (value,), {})
    no_own_code(value, "__index__")
    return operator.index(value)


def _broadcast_shapes(hooks: Hooks, *shapes: Any) -> torch.Size:
    """`torch.broadcast_shapes`: a size of 1 gives way to the others, which must be equal."""
    shapes = tuple(
        (shape,) if isinstance(shape, int) else tuple(hooks.iterate(shape)) for shape in shapes
    )
    result: list[Any] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for position in range(-1, -1 - len(shape), -1):
            size, before = shape[position], result[position]
            if hooks.truth(hooks.compare("eq", size, 1)):
                continue
            if type(before) is not int or before != 1:
                if not hooks.truth(hooks.compare("eq", size, before)):
                    return torch.broadcast_shapes(*map(_plain_shape, shapes))  # raises
            else:
                result[position] = size
    return torch.Size(result)


def _plain_shape(shape: Any) -> tuple[int, ...]:
    return tuple(map(plain, shape))


def _size(hooks: Hooks, *args: Any) -> torch.Size:
    return torch.Size(list(hooks.iterate(args[0]))) if args else torch.Size()


MODELS: Final[dict[Any, Callable[..., Any]]] = {
    int: _int,
    float: _float,
    bool: _bool,
    str: _str,
    repr: _repr,
    abs: _abs,
    round: _round,
    divmod: _divmod,
    pow: _pow,
    math.floor: _to_integer(math.floor),
    math.ceil: _to_integer(math.ceil),
    math.trunc: _to_integer(math.trunc),
    math.prod: prod,
    operator.index: _index,
    torch.sym_max: lambda hooks, a, b: maximum(a, b),
    torch.sym_min: lambda hooks, a, b: minimum(a, b),
    torch.sym_int: _int,
    torch.sym_float: _float,
    torch.sym_not: lambda hooks, a: not hooks.truth(a),
    torch.Size: _size,
    torch.broadcast_shapes: _broadcast_shapes,
    **{
        getattr(math, name): _of_data(getattr(math, name))
        for name in (
            *("isnan", "isinf", "isfinite", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin"),
            *("acos", "atan", "atan2", "log1p", "expm1", "erf", "erfc", "gamma", "lgamma", "fabs"),
            *("copysign", "fmod", "hypot", "degrees", "radians", "isclose"),
        )
    },
    **{
        function: _float_function(function)
        for function in (math.sqrt, math.log, math.log2, math.log10, math.exp, math.pow)
    },
}
