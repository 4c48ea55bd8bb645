"""Models of functions on numbers: integers stay symbols, floats become nodes of the graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.builtins.pure import pure
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt, maximum, minimum, plain
from anyshape.capture.numbers.rules import asked, recorded
from anyshape.capture.numbers.traced import is_of_data

_TRACED: Final = (TracedInt, TracedFloat)
_NUMBERS: Final = frozenset({int, float, bool, TracedInt, TracedFloat})


def _int(hooks: Hooks, *args: object) -> Any:
    if len(args) == 1:
        (value,) = args
        if type(value) is TracedInt:
            return value
        if isinstance(value, torch.Tensor):
            return hooks.recorder.run(torch.Tensor.__int__, (value,), {})
        if is_of_data(value):
            return hooks.recorder.number(int, (value,))
        if type(value) is TracedFloat:
            return math.trunc(value)
        return int(hooks.specialized(value, "it becomes an integer", "int"))
    return int(*(hooks.specialized(arg, "it becomes an integer") for arg in args))


def _float(hooks: Hooks, *args: Any) -> object:
    if len(args) == 1:
        (value,) = args
        if type(value) is TracedFloat:
            return value
        if type(value) is TracedInt:
            return recorded(hooks.tracer, float, value)
        if isinstance(value, torch.Tensor):
            return hooks.recorder.run(torch.Tensor.__float__, (value,), {})
        return float(hooks.specialized(value, "it becomes a float", "float"))
    return float(*args)


def _bool(hooks: Hooks, *args: object) -> bool:
    return hooks.truth(args[0]) if len(args) == 1 else bool(*args)  # raises


def _str(hooks: Hooks, *args: object) -> str:
    if len(args) == 1:
        return hooks.format(args[0], "s", "")
    return str(*(hooks.specialized(arg, "it becomes text") for arg in args))


def _abs(hooks: Hooks, value: Any) -> object:
    if isinstance(value, torch.Tensor):
        return hooks.recorder.run(torch.Tensor.__abs__, (value,), {}, abs)
    if type(value) in _TRACED:
        return abs(value)
    return hooks.natively(abs, hooks.specialized(value, "abs() of it", "abs"))


def _round(hooks: Hooks, value: Any, *digits: Any) -> object:
    if isinstance(value, torch.Tensor):
        raise AbortCapture("round() of a tensor")
    digits = tuple(
        hooks.specialized(each, "it is rounded to that many", "index") for each in digits
    )
    if type(value) in _TRACED:
        return round(value, *digits)
    return hooks.natively(round, hooks.specialized(value, "round() of it", "round"), *digits)


def _divmod(hooks: Hooks, a: object, b: object) -> object:
    if type(a) not in _NUMBERS or type(b) not in _NUMBERS:
        a, b = (hooks.specialized(each, "divmod() of it", "divmod") for each in (a, b))
        return hooks.natively(divmod, a, b)
    return hooks.binary("floordiv", a, b), hooks.binary("mod", a, b)


def _pow(hooks: Hooks, a: object, b: object, *modulus: object) -> Any:
    if modulus:
        return pow(
            *(hooks.specialized(x, "a power with a modulus", "pow") for x in (a, b, *modulus))
        )
    return hooks.binary("pow", a, b)


def _to_integer(function: Callable[..., object]) -> Callable[..., object]:
    def model(hooks: Hooks, value: object) -> object:
        if type(value) is TracedInt:
            return value
        if is_of_data(value):
            return hooks.recorder.number(function, (value,))
        if type(value) is TracedFloat:
            return function(value)
        return pure(hooks, function, (value,), {})

    return model


def _isqrt(hooks: Hooks, value: object) -> object:
    if type(value) is TracedInt:
        return asked(hooks.tracer, math.isqrt, (value,), "its square root was taken")
    return pure(hooks, math.isqrt, (value,), {})


def _of_numbers(function: Callable[..., object]) -> Callable[..., object]:
    """A function of numbers: of those that depend on data, the graph computes it; of others as well
    where it gives a float, which need not be the same in every run."""
    gives_floats = function not in _QUESTIONS

    def model(hooks: Hooks, *args: object, **named: object) -> object:
        if named and any(map(is_of_data, (*args, *named.values()))):
            raise AbortCapture(f"`{function.__name__}` with names, of a number read from a tensor")
        if gives_floats and not named and any(type(arg) in _TRACED for arg in args):
            return recorded(hooks.tracer, function, *args)
        if any(map(is_of_data, args)):
            return hooks.recorder.number(function, args)
        return pure(hooks, function, args, named)

    return model


_QUESTIONS: Final = frozenset({math.isnan, math.isinf, math.isfinite, math.isclose})


def prod(hooks: Hooks, iterable: object, *, start: object = 1) -> object:
    result = start
    for item in hooks.iterate(iterable):
        result = hooks.binary("mul", result, item)
    return result


def _index(hooks: Hooks, value: object) -> object:
    if type(value) is TracedInt:
        return value
    if isinstance(value, torch.Tensor):
        return hooks.recorder.run(torch.Tensor.__index__, (value,), {})
    return operator.index(hooks.specialized(value, "it is an index", "index"))


def _broadcast_shapes(hooks: Hooks, *shapes: object) -> torch.Size:
    """`torch.broadcast_shapes`: a size of 1 gives way to the others, which must be equal."""
    if not all(isinstance(shape, (int, list, tuple)) for shape in shapes):
        raise AbortCapture("torch.broadcast_shapes of what is no shape")
    shapes = tuple(
        (shape,) if isinstance(shape, int) else tuple(hooks.iterate(shape)) for shape in shapes
    )
    if not all(type(size) in (int, TracedInt) for shape in shapes for size in shape):
        raise AbortCapture("torch.broadcast_shapes of what is no shape")
    result: list[Any] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for position in range(-1, -1 - len(shape), -1):
            size, before = shape[position], result[position]
            if hooks.truth(hooks.compare("eq", size, 1)):
                continue
            if type(before) is not int or before != 1:
                if not hooks.truth(hooks.compare("eq", size, before)):
                    return torch.broadcast_shapes(*(tuple(map(plain, x)) for x in shapes))  # raises
            else:
                result[position] = size
    return torch.Size(result)


def _size(hooks: Hooks, *args: object) -> torch.Size:
    sizes = list(hooks.iterate(args[0])) if args else []
    return torch.Size(
        [
            size if type(size) in _TRACED else hooks.specialized(size, "a size", "index")
            for size in sizes
        ]
    )


MODELS: Final[Models] = {
    int: _int,
    float: _float,
    bool: _bool,
    str: _str,
    repr: lambda hooks, value: hooks.format(value, "r", ""),
    abs: _abs,
    round: _round,
    divmod: _divmod,
    pow: _pow,
    **{function: _to_integer(function) for function in (math.floor, math.ceil, math.trunc)},
    math.isqrt: _isqrt,
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
        getattr(math, name): _of_numbers(getattr(math, name))
        for name in (
            *("isnan", "isinf", "isfinite", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin"),
            *("acos", "atan", "atan2", "log1p", "expm1", "erf", "erfc", "gamma", "lgamma", "fabs"),
            *("copysign", "fmod", "hypot", "degrees", "radians", "asinh", "acosh", "atanh"),
            *("cbrt", "exp2", "remainder"),
            *("sqrt", "log", "log2", "log10", "exp", "pow"),
            *(function.__name__ for function in _QUESTIONS),
        )
    },
}
