"""Launches of the program's own Triton kernels, as steps of a graph.

The step calls the kernel as the program does: what it is specialized for, tuned for and compiled to
stays Triton's business. Which tensors a kernel writes to is not known, so all of them count.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import torch
import torch.fx
import torch.library
from torch._library.custom_ops import OPDEFS
from torch._library.triton import triton_ops_to_kernels
from torch._ops import OpOverload
from torch.fx.node import has_side_effect

#: Stands for an argument that the graph gives.
_GIVEN: Final = object()

#: Classes of kernels, by module and name: Triton is not imported for them.
_KERNELS: Final = frozenset(
    {
        ("triton.runtime.jit", "JITFunction"),
        ("triton.runtime.interpreter", "InterpretedFunction"),
        ("triton.experimental.gluon._runtime", "GluonJITFunction"),
    }
)
_AUTOTUNER: Final = ("triton.runtime.autotuner", "Autotuner")
_HEURISTICS: Final = ("triton.runtime.autotuner", "Heuristics")


def _class_of(value: object) -> tuple[str, str]:
    kind = type(value)
    return kind.__module__, kind.__name__


def wrappers_of(kernel: Any) -> Iterator[Any]:
    """A kernel with what `autotune` and `heuristics` have put around it, the outermost first."""
    while _class_of(kernel) in (_AUTOTUNER, _HEURISTICS):
        yield kernel
        kernel = kernel.fn
    yield kernel


def is_kernel(value: object) -> bool:
    """Whether it is launched by `value[grid](...)`."""
    if "triton" not in sys.modules or not is_of_triton(value):
        return False
    *_, innermost = wrappers_of(value)
    return _class_of(innermost) in _KERNELS


def is_of_triton(value: object) -> bool:
    """Whether it is an object of Triton's own: a dtype, a constant, a kernel."""
    return str(type(value).__module__).partition(".")[0] == "triton"


def function_of(kernel: Any) -> Callable[..., Any]:
    """The Python function that a kernel was made of."""
    *_, innermost = wrappers_of(kernel)
    return inspect.unwrap(innermost.fn)


def constexprs_of(kernel: Any) -> frozenset[str]:
    """The parameters whose values are part of the code."""
    found = function_of(kernel).__annotations__.items()
    return frozenset(
        name
        for name, kind in found
        if "constexpr" in (getattr(kind, "__name__", None) or str(kind))
    )


def tunings_of(kernel: Any) -> list[Mapping[str, Any]]:
    """What each configuration of an autotuner gives to parameters; one that gives nothing where
    there is none."""
    found: list[Mapping[str, Any]] = [{}]
    for each in wrappers_of(kernel):
        if _class_of(each) == _AUTOTUNER:
            found = [{**known, **config.kwargs} for known in found for config in each.configs]
    return found


def heuristics_of(kernel: Any) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
    """Parameters that are computed of the others, in order."""
    return {
        name: compute
        for each in wrappers_of(kernel)
        if _class_of(each) == _HEURISTICS
        for name, compute in each.values.items()
    }


@has_side_effect
def _ANY_LAUNCH() -> None: ...


class KernelLaunch:
    """One launch in a program: called with a grid, and with those arguments that a graph gives."""

    def __init__(
        self,
        kernel: Any,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        fixed: Mapping[int | str, object],
        tunings: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`fixed` has arguments that are no values of a graph, by place or name. With `tunings` the
        step gets a grid for each of these configurations."""
        self.kernel = kernel
        #: what the launch returned, if anybody wants it: the kernel as it was compiled
        self.returned: list[Any] | None = None
        self.tunings = tuple(map(dict, tunings))
        self._args = tuple(fixed.get(place, _GIVEN) for place in range(len(args)))
        self._kwargs = {name: fixed.get(name, _GIVEN) for name in kwargs}
        self.kernel_name = function_of(kernel).__name__
        # Not the kernel's own name, which may be that of an operator of torch.
        self.__name__ = self.__qualname__ = f"launch_{self.kernel_name}"

    def __repr__(self) -> str:
        return self.__name__

    # torch.fx keeps what has effects in a set, for ever: one of them stands there for all.
    def __eq__(self, other: object) -> bool:
        return self is other or other is _ANY_LAUNCH

    def __hash__(self) -> int:
        return hash(_ANY_LAUNCH)

    def __call__(self, grid: Any, *values: Any) -> None:
        given = iter(values)
        args = [next(given) if each is _GIVEN else each for each in self._args]
        kwargs = {k: next(given) if each is _GIVEN else each for k, each in self._kwargs.items()}
        found = self.kernel[self._chosen_of(grid) if self.tunings else grid](*args, **kwargs)
        if self.returned is not None:
            self.returned.append(found)

    def _chosen_of(self, grids: Sequence[Any]) -> Callable[[Mapping[str, Any]], Any]:
        def grid(meta: Mapping[str, Any]) -> Any:
            for tuning, found in zip(self.tunings, grids, strict=True):
                if all(meta[name] == value for name, value in tuning.items()):
                    return found
            raise RuntimeError(
                f"`{self.kernel_name}` has another configuration than when it was compiled"
            )

        return grid


# -- operators that are made of launches -----------------------------------------------------------


class _NoKernel:
    """Stands for a kernel where there is no data."""

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *args, **kwargs: None


def without_launches(operator: OpOverload) -> Callable[..., Any] | None:
    """Of a `triton_op`, the function that it is made of, which is its shape function as well,
    without the launches in it: what a kernel is given has no memory there."""
    name = operator._schema.name
    definition = OPDEFS.get(name) if name in triton_ops_to_kernels else None
    function = None if definition is None else definition._abstract_fn
    return _Apart().function(function) if isinstance(function, types.FunctionType) else None


class _Apart:
    """Copies of functions that find something else where kernels are, and where functions of the
    program are that they call."""

    def __init__(self) -> None:
        self._functions: dict[types.FunctionType, types.FunctionType] = {}

    def function(self, function: types.FunctionType) -> types.FunctionType:
        found = self._functions.get(function)
        if found is None:
            cells = tuple(types.CellType() for _ in function.__closure__ or ())
            found = self._functions[function] = types.FunctionType(
                function.__code__,
                dict(function.__globals__),
                function.__name__,
                function.__defaults__,
                cells if function.__closure__ else None,
            )
            found.__kwdefaults__ = function.__kwdefaults__
            for name in _names_in(function.__code__) & function.__globals__.keys():
                found.__globals__[name] = self._value(function.__globals__[name])
            for own, cell in zip(cells, function.__closure__ or (), strict=True):
                with suppress(ValueError):  # an empty cell
                    own.cell_contents = self._value(cell.cell_contents)
        return found

    def _value(self, value: Any) -> Any:
        if is_kernel(value):
            return _NoKernel()
        if value is torch.library.wrap_triton:
            return lambda kernel: kernel
        is_own = isinstance(value, types.FunctionType) and not _is_of_library(value.__module__)
        return self.function(value) if is_own else value


def _names_in(code: types.CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return {*code.co_names, *(name for each in inner for name in _names_in(each))}


def _is_of_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in ("torch", "triton", "builtins", "typing")


def launch_lines(graph: torch.fx.GraphModule) -> list[str]:
    """What is told of the launches in a graph."""
    steps = (node.target for node in graph.graph.nodes)
    found = Counter(each.kernel_name for each in steps if isinstance(each, KernelLaunch))
    names = ", ".join(f"`{name}`" + (f" {n} times" if n > 1 else "") for name, n in found.items())
    return [f"launches of Triton kernels: {names}"] if found else []
