"""A function that cannot be compiled whole, in parts: plain Python, with what it calls compiled.

Its code runs with hooks that do what Python does, except that a call of a module, or of a Python
function with tensors among its arguments, goes to a compiled unit. All calls of one class of
modules, or of one function, share a unit.
"""

from __future__ import annotations

import functools
import inspect
import os
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

import torch

from anyshape.capture.callables import FunctionFrame, may_be_watched
from anyshape.capture.callers import called
from anyshape.capture.instrument import Refused, bind, instrumented_code, is_instrumented
from anyshape.capture.plain_hooks import PlainHooks
from anyshape.capture.tracer import CodePlace
from anyshape.targets import (
    Target,
    has_other_hooks,
    module_target,
    sees_how_it_is_called,
    target_of,
)


class Unit(Protocol):
    """A compiled function, as parts are called."""

    target: Target

    def serve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    @property
    def is_worth_it(self) -> bool:
        """Whether compiled runs do enough to pay for finding them."""
        ...


#: Units are for the functions of programs, which are far fewer than this.
_MOST_UNITS: Final = 1024
#: A code with more functions than this is that of a function made anew for every call.
_MOST_OF_ONE_CODE: Final = 4


class Units:
    """The parts of one compiled function."""

    def __init__(self, make: Callable[[Target], Unit]) -> None:
        self._make = make
        self._units: dict[Any, Unit] = {}
        #: functions known not to be compiled whole: they run in parts from the start
        self.in_parts: set[CodePlace] = set()
        self._hooks = _Routing(self)
        self._bound: dict[types.FunctionType, types.FunctionType | None] = {}
        #: functions seen of each code, by identity
        self._functions: dict[types.CodeType, set[int]] = {}

    def clear(self) -> None:
        self._units.clear()
        self.in_parts.clear()

    def __iter__(self) -> Iterator[Unit]:
        return iter(list(self._units.values()))

    # -- running a function in parts ---------------------------------------------------------------

    def in_parts_of(self, function: Any) -> Callable[..., Any] | None:
        """A function that does the same with its calls routed to units; None if its code cannot be
        watched."""
        if isinstance(function, types.MethodType):
            inner = self.in_parts_of(function.__func__)
            return None if inner is None else types.MethodType(inner, function.__self__)
        if type(function) is not types.FunctionType:
            return None
        if function not in self._bound:
            if not self._is_lasting(function):
                return None
            self._bound[function] = self._bind(function)
        return self._bound[function]

    def _is_lasting(self, function: types.FunctionType) -> bool:
        """Whether it is a function that is there for good, and not made anew for every call."""
        seen = self._functions.setdefault(function.__code__, set())
        seen.add(id(function))
        return len(seen) <= _MOST_OF_ONE_CODE

    def _bind(self, function: types.FunctionType) -> types.FunctionType | None:
        code = function.__code__
        if is_instrumented(code) or not may_be_watched(code.co_filename):
            return None
        made = instrumented_code(code, function.__globals__)
        if isinstance(made, Refused):
            return None
        frame = types.CellType(FunctionFrame(function))
        return bind(function, made, types.CellType(self._hooks), frame)

    # -- routing a call ----------------------------------------------------------------------------

    def unit_of(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Unit | None:
        """The unit that a call goes to; None to make it as it is."""
        if isinstance(function, torch.nn.Module):
            return self._of_module(function)
        if type(function) is types.FunctionType and _is_work(function.__code__):
            if not any(isinstance(x, torch.Tensor) for x in (*args, *kwargs.values())):
                return None
            if function not in self._units and not self._is_lasting(function):
                return None
            return self._found(function, functools.partial(target_of, function, None))
        return None

    def _of_module(self, module: torch.nn.Module) -> Unit | None:
        kind = type(module)
        if _is_leaf(kind) or hasattr(kind, "__anyshape_original__"):
            return None
        if "forward" in module.__dict__ or sees_how_it_is_called(module):
            return None
        if has_other_hooks(module):
            return None
        return self._found((kind, kind.forward), functools.partial(module_target, module, None))

    def _found(self, key: Any, target: Callable[[], Target]) -> Unit | None:
        found = self._units.get(key)
        if found is None:
            if len(self._units) >= _MOST_UNITS:
                return None
            found = self._units[key] = self._make(target())
        return found if found.is_worth_it else None


class _Routing(PlainHooks):
    """The hooks of code that runs in parts."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if type(function) is types.MethodType and type(function.__func__) is types.FunctionType:
            function, args = function.__func__, (function.__self__, *args)
        unit = self._units.unit_of(function, args, kwargs)
        if unit is None:
            return called(function, args, kwargs)
        return unit.serve(args if unit.target.call is not _MODULES else (function, *args), kwargs)


_MODULES: Final = module_target(torch.nn.Identity(), None).call
_TORCH: Final = os.path.dirname(torch.__file__) + os.sep
#: They lie below the standard library.
_PACKAGES: Final = tuple({sysconfig.get_paths()[name] + os.sep for name in ("purelib", "platlib")})
_LAZY: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@functools.lru_cache(maxsize=4096)
def _is_work(code: types.CodeType) -> bool:
    """Whether it is the code of a program, rather than of torch or Python."""
    if code.co_flags & _LAZY or not may_be_watched(code.co_filename) or is_instrumented(code):
        return False
    if code.co_filename.startswith(_PACKAGES):
        return not code.co_filename.startswith(_TORCH)
    return not code.co_filename.startswith(_LIBRARY)


_LIBRARY: Final = sysconfig.get_paths()["stdlib"] + os.sep


@functools.lru_cache(maxsize=4096)
def _is_leaf(kind: type) -> bool:
    """Torch's own modules are an operation or two: nothing is gained by compiling them alone."""
    return kind.__module__.startswith("torch.nn.modules.") and kind.__name__ not in _LARGE


_LARGE: Final = frozenset(
    {
        *("Sequential", "Transformer", "TransformerEncoder", "TransformerEncoderLayer"),
        *("TransformerDecoder", "TransformerDecoderLayer", "MultiheadAttention"),
    }
)
