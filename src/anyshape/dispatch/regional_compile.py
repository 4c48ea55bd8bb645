"""A function that cannot be compiled whole, in parts: plain Python, with the rest compiled.

Its code is split where captures had to leave (`capture.outline`): the regions between are compiled,
each by itself; a call that leads to where a capture left goes to the parts of what it calls; other
modules, and Python functions with tensors among their arguments, are compiled whole. All calls of
one class of modules, or of one function, share a unit.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeGuard

import torch

from anyshape.boundary_markers import traceable_behind
from anyshape.capture.abort import AbortReason
from anyshape.capture.hooks.caller_frames import called
from anyshape.capture.hooks.partials import filled
from anyshape.capture.hooks.watched_code import may_be_watched
from anyshape.capture.outline.boundaries import Boundaries
from anyshape.capture.outline.sequences import stretch
from anyshape.capture.outline.sites import Site, place_of
from anyshape.capture.outline.split import RegionCode, split_code
from anyshape.capture.rewrite.instrument import CodePlace, Refused, is_instrumented
from anyshape.dispatch.callable_target import (
    Target,
    has_other_hooks,
    is_module_call,
    module_target,
    sees_how_it_is_called,
    target_of,
)
from anyshape.dispatch.split_function import BoundSplit, SplitFunction, nothing_known
from anyshape.ops.origins import LIBRARY, PACKAGES, TORCH, is_of_torch
from anyshape.support.lazy_dataclass import dataclass, replace


class Unit(Protocol):
    """A compiled function, as parts are called."""

    target: Target

    def serve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    @property
    def has_given_up(self) -> bool:
        """Whether nothing of it is compiled whole."""
        ...

    @property
    def is_worth_it(self) -> bool:
        """Whether compiled runs do enough to pay for finding them."""
        ...


#: Of a region without an operation on tensors.
NOTHING_TO_COMPILE: Final = "nothing to compile"

#: Units are for the functions of programs, which are far fewer than this.
_MOST_UNITS: Final = 1024
#: A code with more functions than this is that of a function made anew for every call.
_MOST_OF_ONE_CODE: Final = 4
#: So often a function is split anew before it stays as it is.
_MOST_SPLITS: Final = 100


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a region stands: the function that it is of, and its lines."""

    owner: CodePlace
    lines: tuple[int, int]


def call_of_object(function: Any) -> types.FunctionType | None:
    """The `__call__` in Python of an object that is no module; None of functions, classes and
    objects that native code calls."""
    kind = type(function)
    if isinstance(function, type | torch.nn.Module) or hasattr(kind, "__anyshape_original__"):
        return None
    for base in kind.__mro__:
        call = base.__dict__.get("__call__")
        if call is not None:
            return call if type(call) is types.FunctionType else None
    return None


class Units:
    """The parts of one compiled function."""

    def __init__(self, make: Callable[[Target, Slot | None], Unit]) -> None:
        self._make = make
        self._units: dict[Any, Unit] = {}
        #: where captures had to leave, by function. These functions run in parts
        self.boundaries: dict[CodePlace, Boundaries] = {}
        self._splits: dict[types.CodeType, tuple[int, SplitFunction | None]] = {}
        #: by code, which compares by content: a function that is split anew keeps its regions
        self._regions: dict[tuple[types.CodeType, int], Callable[..., Any]] = {}
        self._bound: dict[types.FunctionType, BoundSplit] = {}
        #: classes of modules that are called as they are, for the boundaries there are
        self._plain: set[type] = set()
        #: of sequences, by identity: for which boundaries and modules, where their stretches end.
        #: One that is not of the object that has the identity now is no worse than another.
        self._ends: dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]] = {}
        #: functions seen of each code, by identity
        self._functions: dict[types.CodeType, set[int]] = {}

    def clear(self) -> None:
        self._units.clear()
        self.boundaries.clear()
        for kept in (self._splits, self._regions, self._bound, self._ends, self._plain):
            kept.clear()

    def __iter__(self) -> Iterator[Unit]:
        return iter(list(self._units.values()))

    # -- boundaries --------------------------------------------------------------------------------

    def add_boundaries(self, sites: tuple[Site, ...], *, seen_only: bool = False) -> None:
        """Split functions where operations could not be followed, the innermost first."""
        self._plain.clear()
        for depth, site in enumerate(sites):
            found = self.boundaries.setdefault(site.place, Boundaries())
            if found.version < _MOST_SPLITS:
                found.add(site, leads_inside=depth > 0, seen_only=seen_only)

    def add_later(self, left: AbortReason) -> None:
        """Split functions, too, at calls that were seen after the capture had left."""
        for sites in left.later:
            self.add_boundaries(sites, seen_only=True)

    def refine(self, slot: Slot, left: AbortReason, line: int | None = None) -> None:
        """Split a function once more, since one of its regions could not be compiled: where the
        capture left, at a line, or else with all of the region as plain Python."""
        if left.reason == NOTHING_TO_COMPILE:
            return
        if line is not None:
            self.boundaries[slot.owner].add_span(line, line, whole=True)
            return
        if any(site.place == slot.owner for site in left.sites):
            self.add_boundaries(left.sites)
            self.add_later(left)
        elif self.boundaries[slot.owner].version < _MOST_SPLITS:
            self.boundaries[slot.owner].add_span(*slot.lines)

    # -- running a function in parts ---------------------------------------------------------------

    def parts_of(self, target: Target, args: tuple[Any, ...]) -> Callable[..., Any] | None:
        """What to call in place of a target; None if it cannot be split."""
        if is_module_call(target):
            return self._module_in_parts(args[0]) or self.in_parts_of(target.body(args))
        return self.in_parts_of(target.body(args))

    def in_parts_of(self, function: Any) -> Callable[..., Any] | None:
        """A function that does the same in parts; None if its code cannot be split."""
        if type(function) is types.MethodType:
            inner = self.in_parts_of(function.__func__)
            return None if inner is None else types.MethodType(inner, function.__self__)
        if type(function) is not types.FunctionType:
            return self._object_in_parts(function)
        code = function.__code__
        boundaries = self.boundaries.get(place_of(code))
        version = 0 if boundaries is None else boundaries.version
        known = self._bound.get(function)
        defaults, named = function.__defaults__, function.__kwdefaults__
        if (
            known is not None
            and known.version == version
            # By identity: values may have an `==` of their own.
            and known.code is code
            and known.defaults is defaults
            and known.named_defaults is named
        ):
            return known.bound
        split = self._split(function, version, boundaries)
        bound = None if split is None else split.bind(function)
        if self._is_lasting(function):
            self._bound[function] = BoundSplit(code, version, defaults, named, bound)
        return bound

    def _object_in_parts(self, function: Any) -> Callable[..., Any] | None:
        """Of a partial or an object with a `__call__` in Python; None of all else."""
        if type(function) is functools.partial:
            inner = self.in_parts_of(function.func)
            if inner is None:
                return None
            # Its state can be replaced: it is read when it is called.
            return lambda *args, **kwargs: functools.partial(
                inner, *function.args, **function.keywords
            )(*args, **kwargs)
        call = call_of_object(function)
        return None if call is None else self.in_parts_of(types.MethodType(call, function))

    def _is_lasting(self, function: types.FunctionType) -> bool:
        """Whether it is a function that is there for good, and not made anew for every call."""
        seen = self._functions.setdefault(function.__code__, set())
        seen.add(id(function))
        return len(seen) <= _MOST_OF_ONE_CODE

    def _split(
        self, function: types.FunctionType, version: int, boundaries: Boundaries | None
    ) -> SplitFunction | None:
        code = function.__code__
        known = self._splits.get(code)
        if known is None or known[0] != version or (known[1] and not known[1].is_for(function)):
            if boundaries is None:
                boundaries = nothing_known(code)
            made = self._make_split(function, boundaries)
            known = self._splits[code] = (version, made)
        return known[1]

    def _make_split(
        self, function: types.FunctionType, boundaries: Boundaries
    ) -> SplitFunction | None:
        code = function.__code__
        if is_instrumented(code) or not may_be_watched(code.co_filename):
            return None
        made = split_code(code, function.__globals__, boundaries)
        if isinstance(made, Refused):
            return None
        regions: list[Callable[..., Any]] = []
        for region in made.regions:
            regions.append(self._region(region, function, regions))
        return SplitFunction(made, function.__globals__, regions, self.route)

    def _region(
        self, region: RegionCode, function: types.FunctionType, regions: list[Callable[..., Any]]
    ) -> Callable[..., Any]:
        key = (region.code, id(function.__globals__))
        known = self._regions.get(key)
        if known is None:
            # Whose code names `super` has a cell for `__class__`, which nothing reads: where it is
            # read, it is a parameter.
            cells = tuple(types.CellType() for _ in region.code.co_freevars)
            plain = types.FunctionType(
                region.code, function.__globals__, function.__name__, None, cells
            )
            slot = Slot(place_of(function.__code__), (region.first_line, region.last_line))
            name = f"{function.__qualname__} (lines {region.first_line}-{region.last_line})"
            unit = self._make(target_of(plain, name), slot)
            self._units[key] = unit
            is_of_torch = function.__code__.co_filename.startswith(TORCH)
            known = self._regions[key] = _called_if_worth_it(unit) if is_of_torch else _called(unit)
        return known

    # -- routing a call ----------------------------------------------------------------------------

    def route(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what leads to where a capture left, or what may be compiled by itself."""
        kind = type(function)
        if kind in self._plain:
            return function(*args, **kwargs)
        if kind is functools.partial:
            args = filled(function.args, args)
            return self.route(function.func, *args, **{**function.keywords, **kwargs})
        if kind is types.MethodType and type(function.__func__) is types.FunctionType:
            function, args = function.__func__, (function.__self__, *args)
            kind = types.FunctionType
        elif (call := call_of_object(function)) is not None:
            in_parts = self.in_parts_of(call) if self._is_split(call, (function, *args)) else None
            if in_parts is not None:
                return in_parts(function, *args, **kwargs)
        if kind is types.FunctionType:
            if function.__dict__:
                function = traceable_behind(function) or function
            if self._is_split(function, args):
                in_parts = self.in_parts_of(function)
                if in_parts is not None:
                    return in_parts(*args, **kwargs)
        elif isinstance(function, torch.nn.Module):
            in_parts = self._module_in_parts(function)
            if in_parts is not None:
                return in_parts(function, *args, **kwargs)
            if self._stays_plain(type(function)):
                self._plain.add(kind)
        unit = self.unit_of(function, args, kwargs)
        if unit is None:
            return called(function, args, kwargs)
        return unit.serve(args if unit.target.call is not _MODULES else (function, *args), kwargs)

    def _stays_plain(self, kind: type[torch.nn.Module]) -> bool:
        """Whether nothing of a class of modules is compiled, as far as is known."""
        unit = self._units.get((kind, kind.forward))
        return _is_leaf(kind) or (unit is not None and not unit.is_worth_it)

    def _is_split(self, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
        """Whether a function runs in parts. One that is made anew for every call does, even if it
        is a single part: its regions are those of its code."""
        place = place_of(function.__code__)
        if place in self.boundaries:
            return True
        if function.__closure__ is None or not _is_work(function.__code__):
            return False
        if self._is_lasting(function) or not any(isinstance(x, torch.Tensor) for x in args):
            return False
        self.boundaries[place] = Boundaries()
        return True

    def _module_in_parts(self, module: torch.nn.Module) -> Callable[..., Any] | None:
        called: Any = type(module).forward
        if sees_how_it_is_called(module) or has_other_hooks(module) or "forward" in vars(module):
            called = type(module).__call__
        code = getattr(called, "__code__", None)
        if code is None or place_of(code) not in self.boundaries:
            return None
        return self._in_stretches if _is_sequence(module) else self.in_parts_of(called)

    def _in_stretches(self, sequence: torch.nn.Sequential, *args: Any, **kwargs: Any) -> Any:
        """Call the modules of a sequence: those that lead to where a capture left by themselves,
        the stretches between them compiled. All sequences share one code, so that most of them
        lead nowhere."""
        if kwargs or len(args) != 1:
            return self._call_as_others(sequence, args, kwargs)
        (given,) = args
        first = 0
        for last in self._stretches(sequence):
            if first < last:
                given = self._stretch(sequence, first, last, given)
            if last < len(sequence):
                given = self.route(sequence[last], given)
            first = last + 1
        return given

    def _stretches(self, sequence: torch.nn.Sequential) -> Sequence[int]:
        """Where the stretches of a sequence end, the last with the sequence."""
        modules = tuple(map(id, sequence))
        version = sum(found.version for found in self.boundaries.values())
        known = self._ends.get(id(sequence))
        if known is None or known[:2] != (version, modules):
            if len(self._ends) >= _MOST_UNITS:
                self._ends.clear()
            ends = [number for number, each in enumerate(sequence) if self._stands_alone(each)]
            known = self._ends[id(sequence)] = (version, modules, (*ends, len(modules)))
        return known[2]

    def _call_as_others(
        self, sequence: torch.nn.Sequential, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        forward = torch.nn.Sequential.forward
        return (self.in_parts_of(forward) or forward)(sequence, *args, **kwargs)

    def _stretch(self, sequence: torch.nn.Sequential, first: int, last: int, given: Any) -> Any:
        modules = list(sequence)[first:last]
        key = (stretch, first, *map(type, modules))
        unit = self._found(key, functools.partial(_stretch_target, modules))
        if unit is None or unit.has_given_up:
            return stretch(sequence, first, last, given)
        return unit.serve((sequence, first, last, given), {})

    def _stands_alone(self, module: torch.nn.Module) -> bool:
        if _is_sequence(module):
            return any(map(self._stands_alone, module))
        if hasattr(type(module), "__anyshape_original__") or "forward" in vars(module):
            return True
        if sees_how_it_is_called(module) or has_other_hooks(module):
            return True
        code = getattr(type(module).forward, "__code__", None)
        return code is None or place_of(code) in self.boundaries

    def unit_of(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Unit | None:
        """The unit that a call goes to; None to make it as it is."""
        if isinstance(function, torch.nn.Module):
            return self._of_module(function)
        if type(function) is types.FunctionType and (
            _is_work(function.__code__) or _is_forward(function, args)
        ):
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
            found = self._units[key] = self._make(target(), None)
        return found if found.is_worth_it else None


def _is_sequence(module: torch.nn.Module) -> TypeGuard[torch.nn.Sequential]:
    """Whether its call does nothing but call its modules, one after the other."""
    kind = type(module)
    if not isinstance(module, torch.nn.Sequential) or "forward" in vars(module):
        return False
    if any(getattr(kind, name) is not method for name, method in _OF_SEQUENCES.items()):
        return False
    if not all(map(is_of_torch, _OF_SEQUENCES.values())):
        return False  # replaced before they were looked at
    return not sees_how_it_is_called(module) and not has_other_hooks(module)


_OF_SEQUENCES: Final = {
    name: getattr(torch.nn.Sequential, name)
    for name in ("forward", "__iter__", "__len__", "__getitem__")
}


def _stretch_target(modules: Sequence[torch.nn.Module]) -> Target:
    name = f"Sequential ({', '.join(type(module).__name__ for module in modules)})"
    # Where it cannot be compiled, one of its modules will stand alone from then on.
    return replace(target_of(stretch, name), body=lambda args: None, identity=lambda: None)


def _called(unit: Unit) -> Callable[..., Any]:
    """A unit as the code of a split function calls it."""

    serve = unit.serve

    def region_call(*args: Any) -> Any:  # `callers` knows it by name
        return serve(args, {})

    return region_call


def _called_if_worth_it(unit: Unit) -> Callable[..., Any]:
    """The same of torch's own code, most of which sets modes and calls hooks: a graph of an
    operation or two costs more than it saves."""
    serve, plain = unit.serve, unit.target.call
    is_plain = False

    def region_call(*args: Any) -> Any:
        nonlocal is_plain
        if is_plain:
            return plain(*args)
        if unit.is_worth_it:
            return serve(args, {})
        is_plain = unit.has_given_up  # for good: a loop may come here once for each parameter
        return plain(*args)

    return region_call


_MODULES: Final = module_target(torch.nn.Identity(), None).call
_LAZY: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@functools.lru_cache(maxsize=4096)
def _is_work(code: types.CodeType) -> bool:
    """Whether it is the code of a program, rather than of torch or Python."""
    if code.co_flags & _LAZY or not may_be_watched(code.co_filename) or is_instrumented(code):
        return False
    if code.co_filename.startswith(PACKAGES):
        return not code.co_filename.startswith(TORCH)
    return not code.co_filename.startswith(LIBRARY)


def _is_forward(function: types.FunctionType, args: tuple[Any, ...]) -> bool:
    """Whether it is called as the `forward` of a module that is more than an operation or two: what
    runs around it, such as hooks, is called on its own."""
    kind: Any = type(args[0]) if args else None
    if not isinstance(kind, type) or not issubclass(kind, torch.nn.Module) or _is_leaf(kind):
        return False
    return kind.forward is function and not function.__code__.co_flags & _LAZY


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
