"""Models of numpy on plain numbers, and of small arrays that the program makes of them.

Numbers are fixed by guards, so what numpy makes of them is constant. An array becomes a tensor as
the numbers in it. Numpy is known by name: it may not be there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture.tracer import ATOMS, Leave
from anyshape.guards.guard import Kind

Hooks = Any

#: An array of more numbers than this is no handful of constants.
_MOST: Final = 1024

#: They look at nothing but their arguments, and change none.
_FUNCTIONS: Final = frozenset(
    {
        *("sqrt", "cbrt", "square", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
        *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh"),
        *("floor", "ceil", "rint", "round", "around", "trunc", "abs", "absolute", "sign", "fabs"),
        *("add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "mod", "power"),
        *("remainder", "fmod", "maximum", "minimum", "fmax", "fmin", "clip", "gcd", "lcm"),
        *("isnan", "isinf", "isfinite", "isclose", "allclose", "isscalar", "deg2rad", "rad2deg"),
        *("prod", "sum", "mean", "std", "var", "max", "min", "amax", "amin", "median", "ptp"),
        *("argmax", "argmin", "any", "all", "cumsum", "cumprod", "diff", "dot", "outer"),
        *("array", "asarray", "arange", "linspace", "logspace", "geomspace", "zeros", "ones"),
        *("full", "eye", "identity", "sort", "argsort", "concatenate", "stack", "reshape"),
        *("tile", "repeat", "flip", "roll", "interp", "broadcast_to", "hanning", "hamming"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "hypot"),
    }
)


def _numpy() -> Any:
    return sys.modules.get("numpy")


def is_scalar(value: object) -> bool:
    """Whether it is a scalar of numpy that is a number."""
    numpy = _numpy()
    return numpy is not None and isinstance(value, (numpy.number, numpy.bool_))


def is_array(value: object) -> bool:
    numpy = _numpy()
    return numpy is not None and type(value) is numpy.ndarray


def is_pure(function: Any) -> bool:
    """Whether it is a function of numpy's, or a type of its scalars, that is called as it is."""
    numpy = _numpy()
    if numpy is None:
        return False
    if isinstance(function, type):
        return issubclass(function, (numpy.number, numpy.bool_)) or function is numpy.dtype
    name = getattr(function, "__name__", "")
    return name in _FUNCTIONS and getattr(numpy, name, None) is function


def number_of(hooks: Hooks, value: Any) -> Any:
    """The number of Python's that torch takes for a scalar of numpy; anything else as it is."""
    if not is_scalar(value):
        return value
    path = hooks.tracer.path_of(value)
    if path is not None:
        hooks.tracer.guard(Kind.PREDICATE, path, _SameScalar(value), "a number of numpy")
    return value.item()


class _SameScalar:
    """Whether an object is a scalar of numpy with this value."""

    def __init__(self, value: Any) -> None:
        self._kind = type(value)
        self._bytes = value.tobytes()
        self.__qualname__ = f"is {value!r}"

    def __call__(self, value: Any) -> bool:
        return type(value) is self._kind and value.tobytes() == self._bytes


def call(hooks: Hooks, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of numpy with plain values."""
    name = getattr(function, "__name__", "a function of numpy")
    if "out" in kwargs:
        raise Leave(f"`numpy.{name}` writes into an array")
    given = [_ready(hooks, name, value) for value in args]
    named = {key: _ready(hooks, name, value) for key, value in kwargs.items()}
    numpy = _numpy()
    try:
        with numpy.errstate(all="raise"):
            return function(*given, **named)
    except FloatingPointError:
        # As its settings say, it would warn.
        raise Leave(f"`numpy.{name}` warns of a number") from None


def _ready(hooks: Hooks, name: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        raise Leave(f"`numpy.{name}` of a tensor")
    if is_scalar(value):
        number_of(hooks, value)
        return value
    if is_array(value) or type(value).__module__ == "numpy" or is_pure(value):
        if hooks.tracer.path_of(value) is not None:
            raise Leave(f"`numpy.{name}` of an array from outside")
        return value
    if type(value) in (list, tuple) and not hooks.outside.is_outside(value):
        return type(value)(_ready(hooks, name, item) for item in value)
    value = hooks.fixed(hooks.operand(value), f"`numpy.{name}` takes it")
    if not _is_plain(value):
        raise Leave(f"`numpy.{name}` of a {type(value).__name__}")
    return value


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple, torch.Size):
        return all(map(_is_plain, value))
    return type(value) in ATOMS or isinstance(value, type)


# -- from arrays to tensors ------------------------------------------------------------------------


def _tensor(hooks: Hooks, data: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.tensor(array)`, which copies."""
    if not is_array(data):
        return hooks.recorder.run(torch.tensor, (data, *args), kwargs)
    if args or hooks.tracer.path_of(data) is not None or data.size > _MOST:
        raise Leave("a tensor is made of an array")
    with torch._C.DisableTorchFunction():
        dtype = torch.from_numpy(data.copy()).dtype
    if kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": dtype}
    if 0 in data.shape and data.ndim > 1:
        raise Leave("a tensor is made of an array without numbers")
    return hooks.recorder.run(torch.tensor, (data.tolist(),), kwargs)


def _from_numpy(hooks: Hooks, data: Any, **kwargs: Any) -> Any:
    """`torch.from_numpy(array)`: a tensor with the memory of the array."""
    if not is_array(data) or kwargs:
        raise Leave(f"`torch.from_numpy` of a {type(data).__name__}")
    made = _tensor(hooks, data)
    if hooks.tracer.active:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            made.set_(torch.from_numpy(data))
            hooks.recorder.shared.append(Shared(data, made))
    return made


def _as_tensor(hooks: Hooks, data: Any, *args: Any, **kwargs: Any) -> Any:
    if not is_array(data):
        return hooks.recorder.run(torch.as_tensor, (data, *args), kwargs)
    if args or kwargs:
        raise Leave("`torch.as_tensor` of an array, with options")
    return _from_numpy(hooks, data)


class Shared:
    """A tensor that has the memory of an array. The graph makes a tensor of the numbers instead, so
    neither may have been written to when the capture ends."""

    def __init__(self, array: Any, tensor: torch.Tensor) -> None:
        self._array = array
        self._bytes = array.tobytes()
        self._tensor = tensor
        self._version = tensor._version

    def check(self) -> None:
        with torch._C.DisableTorchFunction():
            if self._tensor._version != self._version or self._array.tobytes() != self._bytes:
                raise Leave("an array of numpy is written to that a tensor shares")


MODELS: Final[dict[Any, Callable[..., Any]]] = {
    torch.tensor: _tensor,
    torch.from_numpy: _from_numpy,
    torch.as_tensor: _as_tensor,
}
