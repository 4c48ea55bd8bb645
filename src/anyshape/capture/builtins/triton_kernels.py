"""Launches of Triton kernels, `kernel[grid](...)`, and what programs compute grids with.

A launch is a step of the graph. Tensors, sizes and floats are given to it in every call. What is
part of the kernel's code (`tl.constexpr`), and options such as `num_warps`, are for this entry
only. A grid that is a function is called here, once for each configuration of an autotuner, so that
what it gives is an expression of the sizes.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.externals.launch_objects import Launcher, LaunchResult
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt, plain
from anyshape.capture.tracer import Tracer
from anyshape.capture.value_kinds import ATOMS, CODE
from anyshape.guards.guard import Guard, Kind, ToldReason
from anyshape.ops.kernel_launch import (
    KernelLaunch,
    constexprs_of,
    function_of,
    heuristics_of,
    is_kernel,
    is_of_triton,
    tunings_of,
)
from anyshape.symbolic import le, lt

_NUMBERS: Final = (TracedInt, TracedFloat)


class LaunchArguments:
    """What a grid function is given: arguments by name. Those that heuristics compute are computed
    when they are asked for, and are for this entry only."""

    def __init__(self, hooks: Hooks, kernel: Any, known: dict[str, Any]) -> None:
        self._hooks = hooks
        self._kernel = kernel
        self._known = known

    def __getitem__(self, name: str) -> Any:
        return self._plain()[name]

    def _plain(self) -> dict[str, Any]:
        """All of them, where nobody watches any more."""
        found = {name: _bare(value) for name, value in self._known.items()}
        for name, compute in heuristics_of(self._kernel).items():
            found[name] = compute(found)
        return found

    # None of these has a model: the capture ends there.
    def __contains__(self, name: object) -> bool:
        return name in self._plain()

    def __iter__(self) -> Iterator[str]:
        return iter(self._plain())

    def __len__(self) -> int:
        return len(self._plain())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain(), name)

    def read(self, name: object) -> Any:
        if not isinstance(name, str):
            raise AbortCapture("a grid function reads an argument by what is no name")
        hooks, known = self._hooks, self._known
        for each, compute in heuristics_of(self._kernel).items():
            if name not in known or each == name:
                found = hooks.call(compute, dict(known))
                kernel = _name_of(self._kernel)
                reason = ToldReason(f"`{each}` is computed by a heuristic of the kernel `{kernel}`")
                known[each] = hooks.specialized(found, reason)
        if name not in known:
            raise AbortCapture(f"a grid function reads `{name}`, which the launch does not give")
        return known[name]


def _bare(value: Any) -> Any:
    return plain(value) if type(value) in _NUMBERS else value


def _name_of(kernel: Any) -> str:
    return function_of(kernel).__name__


# -- launches --------------------------------------------------------------------------------------


def launch(
    hooks: Hooks, launcher: Launcher, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> object:
    """`kernel[grid](*args, **kwargs)`."""
    kernel, grid = launcher.kernel, launcher.grid
    path = hooks.tracer.path_of(kernel)
    if path is not None:
        hooks.tracer.guard(Kind.IDENTITY, path, kernel, f"the kernel `{_name_of(kernel)}`")
    names: list[str] = kernel.arg_names
    if len(args) > len(names):
        raise AbortCapture(f"`{_name_of(kernel)}` is given too many arguments")
    arguments = _Arguments(hooks, kernel)
    given = [arguments.take(place, names[place], each) for place, each in enumerate(args)]
    named = {name: arguments.take(name, name, each) for name, each in kwargs.items()}
    known = dict(zip(names, given, strict=False)) | named
    tunings: list[Mapping[str, Any]] = []
    if callable(grid):
        tunings = tunings_of(kernel)
        for name, default in _defaults(hooks, kernel).items():
            known.setdefault(name, default)
        grids = tuple(_grid(hooks, kernel, grid, {**known, **each}) for each in tunings)
        grid = grids if tunings != [{}] else grids[0]
        tunings = tunings if tunings != [{}] else []
    elif hooks.outside.is_external(grid):
        grid = hooks.operand(grid)
    step = KernelLaunch(kernel, args, kwargs, arguments.fixed, tunings)
    every = [*enumerate(given), *named.items()]
    values = [each for place, each in every if place not in arguments.fixed]
    step.returned = returned = []
    hooks.recorder.run(step, (grid, *values), {})
    step.returned = None
    if returned and returned[-1] is not None:
        return LaunchResult(returned[-1])
    return None


def _no_attribute(hooks: Hooks, result: LaunchResult, name: object) -> object:
    raise AbortCapture("the program looks at what the launch of a kernel has returned")


def _grid(hooks: Hooks, kernel: Any, grid: Any, known: dict[str, Any]) -> Any:
    found = hooks.call(grid, LaunchArguments(hooks, kernel, known))
    if not hooks.tracer.active:
        raise AbortCapture(f"the grid of `{_name_of(kernel)}` cannot be traced")
    return found


def _defaults(hooks: Hooks, kernel: Any) -> dict[str, Any]:
    """Values of parameters that a launch does not give."""
    function = function_of(kernel)
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    values = function.__defaults__ or ()
    if not values:
        return {}
    where = hooks.tracer.constant(function).attribute("__defaults__")
    hooks.tracer.guard(Kind.IDENTITY, where, values)
    return dict(zip(positional[-len(values) :], values, strict=True))


class _Arguments:
    """The arguments of a launch: those that are values of a graph, and those that are fixed."""

    def __init__(self, hooks: Hooks, kernel: Any) -> None:
        self._hooks = hooks
        self._kernel = kernel
        self._constexprs = constexprs_of(kernel)
        self._parameters = frozenset(kernel.arg_names)
        #: by place or name: what no graph gives
        self.fixed: dict[int | str, object] = {}

    def take(self, place: int | str, name: str, value: Any) -> Any:
        kernel = _name_of(self._kernel)
        if name in self._constexprs:
            value = self._specialized(name, value, f"is a constexpr of the kernel `{kernel}`")
        elif name not in self._parameters:
            value = self._specialized(name, value, f"is an option of the kernel `{kernel}`")
        kind = type(value)
        if kind in ATOMS or kind in _NUMBERS or isinstance(value, torch.Tensor):
            return value
        if kind in (tuple, list, torch.Size) or (
            isinstance(value, tuple) and hasattr(kind, "_fields")
        ):
            return value
        if isinstance(value, (*CODE, enum.Enum)) or is_of_triton(value):
            self._know(kernel, name, value)
            self.fixed[place] = value
            return value
        raise AbortCapture(f"`{name}` of the kernel `{kernel}` is a {kind.__name__}")

    def _specialized(self, name: str, value: Any, what: str) -> Any:
        hooks, reason = self._hooks, ToldReason(f"`{name}` {what}")
        if type(value) in ATOMS:
            _tell(hooks.tracer, name, value, reason)
            return value
        if is_of_triton(value) or isinstance(value, enum.Enum):
            return value  # guarded by its identity
        return hooks.specialized(value, reason)

    def _know(self, kernel: str, name: str, value: Any) -> None:
        """Guard what is no value by its identity; what Triton makes of tensors is no constant."""
        kind = type(value)
        if is_of_triton(value) and not is_kernel(value) and kind.__name__ not in _CONSTANTS:
            raise AbortCapture(f"`{name}` of the kernel `{kernel}` is a {kind.__name__}")
        path = self._hooks.tracer.path_of(value)
        if path is not None:
            self._hooks.tracer.guard(Kind.IDENTITY, path, value)


def _tell(tracer: Tracer, name: str, value: object, reason: ToldReason) -> None:
    """Say of the guards on numbers and texts from outside which of them may be this one. A value
    that was compared does not tell where it came from, so it is by what it is, and by its name."""
    equal = [
        (key, guard)
        for key, guard in tracer.guards.items()
        if guard.kind is Kind.EQUALS and type(guard.value) is type(value) and guard.value == value
    ]
    named = [each for each in equal if name.lower() in str(each[1].path).lower()]
    for key, guard in named or (equal if len(equal) == 1 else []):
        if not isinstance(guard.reason, ToldReason):
            told = Guard(guard.kind, guard.path, guard.value, reason, guard.user_frame)
            tracer.guards[key] = told


#: Classes of Triton whose instances do not change.
_CONSTANTS: Final = frozenset({"dtype", "constexpr", "pointer_type", "ConstexprFunction"})


# -- what grids are computed with ------------------------------------------------------------------


def call_of_triton(
    hooks: Hooks, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A function of Triton's that code for either side may call: `cdiv`, `next_power_of_2`."""
    path = hooks.tracer.path_of(function)
    if path is not None:
        hooks.tracer.guard(Kind.IDENTITY, path, function)
    given = [_value(hooks, each) for each in args]
    named = {name: _value(hooks, each) for name, each in kwargs.items()}
    triton = sys.modules.get("triton")
    if function is getattr(triton, "next_power_of_2", None):
        return _next_power_of_2(hooks, function, *given, **named)
    return hooks.call(getattr(function, "fn", function), *given, **named)


def is_constexpr_function(value: object) -> bool:
    kind = type(value)
    return kind.__name__ == "ConstexprFunction" and kind.__module__ == "triton.runtime.jit"


def _value(hooks: Hooks, value: Any) -> Any:
    if type(value).__name__ == "constexpr" and is_of_triton(value):
        path = hooks.tracer.path_of(value)
        if path is not None:
            hooks.tracer.guard(Kind.IDENTITY, path, value)
        return value.value
    return value


def _next_power_of_2(hooks: Hooks, function: Any, n: Any) -> Any:
    """Of a size that may be another one, for those with the same result."""
    if type(n) is not TracedInt:
        return hooks.call(getattr(function, "fn", function), n)
    found: int = getattr(function, "fn", function)(plain(n))
    reason = f"its next power of 2 is {found}"
    tracer = hooks.tracer
    if not tracer.decide(le(n.expr, found), reason):
        tracer.specialize(n, reason)  # Triton's formula is for 64 bits.
    elif found:
        tracer.decide(lt(found // 2, n.expr), reason)
    return found


def _wrap(hooks: Hooks, triton_kernel: Any) -> Any:
    """What is watched needs no wrapper to be seen."""
    if not is_kernel(triton_kernel):
        raise AbortCapture("`wrap_triton` of what is no kernel")
    return triton_kernel


MODELS: Final[Models] = {
    LaunchArguments.__getitem__: lambda hooks, arguments, name: arguments.read(name),
    LaunchResult.__getattr__: _no_attribute,
    torch.library.wrap_triton: _wrap,
}
