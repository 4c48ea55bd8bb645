"""What users call: `compile`, marks, `stats`, `reset`."""

from __future__ import annotations

import atexit
import copy
import functools
import os
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import torch
from torch.nn.modules.module import _IncompatibleKeys

from anyshape.arguments import spelled
from anyshape.boundary_markers import disable, graph_break
from anyshape.capture.source_use import source_use
from anyshape.compiler.arguments import (
    CompileOptions,
    Mode,
    backend_of,
    check_choice,
    check_tuning,
    given_tuning,
)
from anyshape.compiler.driver import FunctionCompiler
from anyshape.config import config
from anyshape.dispatch import eager_summary, never_called
from anyshape.dispatch import stance as stances
from anyshape.dispatch.call_log import emit_all
from anyshape.dispatch.callable_target import Target, module_target, target_of
from anyshape.dispatch.compiled_function import FALLBACK_ERRORS, StaleSignature, without_frames
from anyshape.dispatch.entry import Backend, Counts, Entry, Options, all_counts
from anyshape.errors import BadOption, ClassGiven, NotCallable
from anyshape.events import trace
from anyshape.events.kinds import CallCounts, ProgramEnded, RunCount
from anyshape.events.settings import set_logs, set_logs_from_environment
from anyshape.events.stream import stream
from anyshape.explain.explanation import Explanation
from anyshape.guards.dynamic_int import DynamicInt
from anyshape.marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic
from anyshape.profile.session import session
from anyshape.shapes import Dim, Shapes, shapes_of_annotations
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.support.plain_attributes import plain_attribute

__all__ = [
    "Compiled",
    "CompiledModule",
    "Dim",
    "DynamicInt",
    "Shapes",
    "Stats",
    "check",
    "compile",
    "disable",
    "graph_break",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "reset",
    "set_logs",
    "stats",
]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
#: for protocols, which only return it
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
M = TypeVar("M", bound=torch.nn.Module)
T_in = TypeVar("T_in", contravariant=True)
M_in = TypeVar("M_in", bound=torch.nn.Module, contravariant=True)

_compiled: weakref.WeakSet[FunctionCompiler] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Stats:
    """What a compiled function, or all of them, did so far.

    >>> double = anyshape.compile(lambda x: x * 2, dynamic=True)
    >>> for n in (3, 5, 8):
    ...     y = double(torch.ones(n))
    >>> double.stats().captures, double.stats().hits
    (1, 2)
    """

    #: compiled graphs, one for each segment of each entry
    graphs: int = 0
    #: calls that were watched, to compile what they do
    captures: int = 0
    #: captures after the first of a function
    recompiles: int = 0
    #: calls that a compiled entry served
    hits: int = 0
    #: places where a graph ends and another begins
    graph_breaks: int = 0
    #: conditions under which entries serve a call
    guards: int = 0
    #: calls that nothing compiled served
    eager_calls: int = 0
    #: what calls have waited for compiling
    compile_seconds: float = 0.0
    #: operations around which functions are split
    boundaries: int = 0
    #: whether the function is split
    in_parts: bool = False
    #: graphs of gradients, made when the first gradients come back
    backward_graphs: int = 0
    #: shapes that are replayed as CUDA graphs
    cuda_graphs: int = 0

    def __add__(self, other: Stats) -> Stats:
        summed = Stats(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))
        return replace(summed, in_parts=bool(summed.in_parts))


def _values(stats: Stats) -> tuple[Any, ...]:
    return tuple(getattr(stats, name) for name in stats.__slots__)


def _stats_of(counts: Counts) -> Stats:
    return Stats(
        graphs=counts.graphs,
        captures=counts.captures,
        recompiles=counts.recompiles,
        hits=sum(counter[0] for counter in counts.hits),
        graph_breaks=counts.graph_breaks,
        guards=counts.guards,
        eager_calls=counts.eager_calls,
        compile_seconds=counts.compile_seconds,
    )


def _total(function: FunctionCompiler) -> Stats:
    """Of a function and its parts; calls of the function itself that no graph served are eager."""
    own, *parts = map(_stats_of, function.total())
    return replace(_with_what_there_is(sum(parts, own), [function]), eager_calls=own.eager_calls)


def _with_what_there_is(counted: Stats, functions: Iterable[FunctionCompiler]) -> Stats:
    """Also what is not counted as it happens, and goes when a function goes."""
    functions = list(functions)
    made: Counter[str] = Counter()
    for each in (part for function in functions for part in function.with_parts()):
        for entry in list(each.entries):
            made.update(entry.made())
    boundaries = [len(b) for each in functions for b in list(each.units.boundaries.values())]
    return replace(
        counted,
        boundaries=sum(boundaries),
        in_parts=any(each.is_in_parts for each in functions),
        backward_graphs=made["backward_graphs"],
        cuda_graphs=made["cuda_graphs"],
    )


def _call_first(
    compiled: Callable[..., object],
    function: FunctionCompiler,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    verbose: bool,
) -> None:
    """A call that is to be explained, if there is one; the program may have a `verbose` too."""
    if args or kwargs:
        own = function.target.signature.parameters
        compiled(*args, **(kwargs | ({"verbose": True} if verbose and "verbose" in own else {})))


class _Nobody:
    """A type that no parameter has: what takes it by any name takes anything."""


class _AnyArguments(Protocol[R_co]):
    """`Callable[..., R]`, which would pass for a method, too."""

    def __call__(self, *args: _Nobody, **kwargs: _Nobody) -> R_co: ...


class _ModuleMethod(Protocol[M_in, P, R_co]):
    """`def forward(self, x)` of a module, which type checkers want to stay a function: torch says
    that it is one. Its first parameter is called `self`, unlike that of `def loss(model, x)`."""

    def __call__(_self, self: M_in, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class _ClassMethod(Protocol[T_in, P, R_co]):
    """`def make(cls, x)`, below a `@classmethod`."""

    def __call__(_self, cls: type[T_in], *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class CompiledMethod(Protocol[P, R_co]):
    """A compiled method of an instance: `instance.method`, for type checkers."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def stats(self) -> Stats: ...
    @property
    def entries(self) -> list[Entry]: ...


_NOT_THERE: Final = object()


class Compiled(Generic[P, R]):
    """A compiled function: what `compile` gives. Calling it gives the answer of the original,
    always, and it has the signature of the original.

    >>> @anyshape.compile
    ... def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    ...     return x * by
    >>> scaled(torch.ones(3), by=4.0)
    tensor([4., 4., 4.])
    >>> scaled.stats().graphs
    1
    """

    __wrapped__: Callable[P, R]

    def __init__(self, original: Callable[P, R], target: Target, options: Options) -> None:
        self._function = FunctionCompiler(target, options)
        self._original = original
        _compiled.add(self._function)
        # As `functools.update_wrapper`, which would ask a `__getattr__` of the program.
        for name in functools.WRAPPER_ASSIGNMENTS:
            if (value := plain_attribute(original, name, _NOT_THERE)) is not _NOT_THERE:
                setattr(self, name, value)
        self.__wrapped__ = original

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        function = self._function
        try:
            return function.dispatch(*args, **kwargs)
        except FALLBACK_ERRORS as error:
            if not function.needs_fallback(error):
                raise
            reason = without_frames(error)
        try:
            return function.fallback(reason, args, kwargs)
        except StaleSignature:
            target = target_of(self._original, function.target.name)
        self._function = FunctionCompiler(target, function.options)
        self._function.counts.belongs_to(function.counts)
        _compiled.add(self._function)
        return self(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: Compiled[Concatenate[S, Q], R], instance: S, owner: type | None = None
    ) -> CompiledMethod[Q, R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...  # a static method
    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self if instance is None else types.MethodType(self, instance)

    def __anyshape_original__(self) -> Callable[P, R]:
        return self._original

    @property
    def _torchdynamo_orig_callable(self) -> Callable[P, R]:
        """Code for torch's compiled functions asks by this name."""
        return self._original

    @property
    def __self__(self) -> object:
        """Of a compiled method of an instance: that instance. Schedulers of learning rates ask."""
        return self._as_method().__self__

    @property
    def __func__(self) -> Callable[..., R]:
        """Of a compiled method of an instance: its function, compiled for that instance alone."""
        return _FunctionOfMethod(self, self._as_method())

    def _as_method(self) -> types.MethodType:
        if isinstance(self._original, types.MethodType):
            return self._original
        raise AttributeError(f"{self._function.target.name} is no method of an instance")

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled[P, R]:
        original = copy.deepcopy(self._original, memo)
        old = self._function
        return Compiled(original, target_of(original, old.target.name), old.options)

    def stats(self) -> Stats:
        """What it did so far."""
        return _total(self._function)

    def explain(self, *args: object, verbose: bool = False, **kwargs: object) -> Explanation:
        """What is dynamic and why, what is fixed and by which line; with arguments, call it with
        them first. `verbose`: with every layer and parameter, which are told once otherwise."""
        _call_first(self, self._function, args, kwargs, verbose)
        return replace(self._function.explain(), is_verbose=verbose)

    @property
    def entries(self) -> list[Entry]:
        """The compiled programs, each with its graphs, guards and symbols."""
        return list(self._function.entries)

    def __repr__(self) -> str:
        return f"<anyshape compiled {self._function.target.name}>"


class _FunctionOfMethod:
    """The function of a compiled method, with its name and its text: bound to the instance again,
    it is the compiled method."""

    def __init__(self, compiled: Compiled[..., Any], method: types.MethodType) -> None:
        self._compiled, self._method = compiled, method
        functools.update_wrapper(self, method.__func__, updated=())

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        is_own = instance is self._method.__self__
        return self._compiled if is_own else self._method.__func__.__get__(instance, owner)

    def __call__(self, instance: object, /, *args: Any, **kwargs: Any) -> Any:
        return self.__get__(instance, type(instance))(*args, **kwargs)


class _Decorator(Protocol):
    """`compile(dynamic=True)`: compiles what it is given."""

    @overload
    def __call__(self, function: M, /) -> M: ...
    @overload
    def __call__(self, function: _AnyArguments[R], /) -> Compiled[..., R]: ...
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload] a method is a callable, too
        self, function: _ModuleMethod[M, P, R], /
    ) -> Callable[Concatenate[M, P], R]: ...
    @overload
    def __call__(
        self, function: _ClassMethod[S, P, R], /
    ) -> Callable[Concatenate[type[S], P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Compiled[P, R]: ...


class _MaybeDecorator(Protocol):
    """`compile(disable=...)`: it may leave what it is given as it is."""

    @overload
    def __call__(self, function: M, /) -> M: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def compile(function: M, *, disable: bool = False, **options: Unpack[CompileOptions]) -> M: ...
@overload
def compile(
    function: _AnyArguments[R],
    *,
    disable: Literal[False] = False,
    **options: Unpack[CompileOptions],
) -> Compiled[..., R]: ...
@overload
def compile(  # pyright: ignore[reportOverlappingOverload] a method is a callable, too
    function: _ModuleMethod[M, P, R], *, disable: bool = False, **options: Unpack[CompileOptions]
) -> Callable[Concatenate[M, P], R]: ...
@overload
def compile(
    function: _ClassMethod[S, P, R], *, disable: bool = False, **options: Unpack[CompileOptions]
) -> Callable[Concatenate[type[S], P], R]: ...
@overload
def compile(
    function: Callable[P, R],
    *,
    disable: Literal[False] = False,
    **options: Unpack[CompileOptions],
) -> Compiled[P, R]: ...
@overload
def compile(
    function: Callable[P, R], *, disable: bool, **options: Unpack[CompileOptions]
) -> Callable[P, R]: ...
@overload
def compile(
    function: None = None,
    *,
    disable: Literal[False] = False,
    **options: Unpack[CompileOptions],
) -> _Decorator: ...
@overload
def compile(
    function: None = None, *, disable: bool, **options: Unpack[CompileOptions]
) -> _MaybeDecorator: ...
@spelled
def compile(
    function: Callable[..., object] | None = None,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    backend: str | Backend = "native",
    mode: Mode | None = None,
    options: Mapping[str, object] | None = None,
    disable: bool = False,
    shapes: Shapes | Mapping[Any, Any] | tuple[Any, ...] | list[Any] | str | None = None,
    name: str | None = None,
) -> Callable[..., object]:
    """Compile a function, method, callable object or module; also a decorator, bare or with
    arguments.

    A function comes back as a `Compiled` with the same signature, a module as a module of its own
    class with the same parameters and attributes. The first call runs the program for real and
    watches; later calls run what was compiled, at any size that its guards admit.

    `dynamic`    None: static first, and what is seen to change is dynamic from the next compile on.
                 True: every size and integer of the inputs is dynamic from the first call on.
                 False: always static, one program for each set of sizes.
    `fullgraph`  True: one graph, or an error that names the line and what to do.
    `backend`    "native": generated code for the device of the inputs. "eager": the captured graph,
                 operator by operator. Or a function of a `torch.fx.GraphModule` and example inputs
                 that gives a function; or the name of one that is registered with torch. torch's
                 "inductor" means "native".
    `mode`       one of torch's modes, which are wishes for speed and never change an answer:
                 "default"; "reduce-overhead": CUDA graphs for hot shapes; "max-autotune": those,
                 and kernels that are tuned where they are hot; "max-autotune-no-cudagraphs".
    `options`    torch's options, by name, in place of a mode; those that mean nothing here are
                 errors that say what to use. Settings of anyshape are in `anyshape.config`.
    `disable`    True: give the function back as it is.
    `shapes`     a contract, by parameter: `{"x": "batch seq 64"}`, or `Shapes(spec, relations)`, or
                 "annotations": what jaxtyping's annotations of the parameters say. One program
                 serves every call inside of it, and a call outside is an error.
    `name`       what it is called in logs and reports.

    >>> @anyshape.compile(dynamic=True)
    ... def centered(x: torch.Tensor) -> torch.Tensor:
    ...     return x - x.mean(dim=0)
    >>> [tuple(centered(torch.ones(n, 4)).shape) for n in (2, 5, 9)]
    [(2, 4), (5, 4), (9, 4)]
    >>> centered.stats().captures
    1

    >>> model = anyshape.compile(torch.nn.Linear(8, 2), shapes={"input": "batch 8"})
    >>> model(torch.ones(3, 8)).shape
    torch.Size([3, 2])
    """
    config.check_environment()
    for option, value in (("fullgraph", fullgraph), ("disable", disable)):
        if not isinstance(value, bool):
            raise BadOption(option=option, value=repr(value), accepted="it takes True or False")
    if not isinstance(name, str | None):
        raise BadOption(option="name", value=repr(name), accepted="it takes a text, or None")
    if dynamic not in (None, True, False):
        accepted = "it takes None, True or False"
        raise BadOption(option="dynamic", value=repr(dynamic), accepted=accepted)
    if callable(backend):
        check_choice(mode, options)
        backend = given_tuning(backend, mode, options)
    else:
        check_tuning(mode, options)
    if disable:
        return _as_it_is if function is None else function
    if shapes is not None and dynamic is False:
        why = "shapes= says which sizes change, and dynamic=False compiles for each size on its own"
        raise BadOption(option="dynamic", value=repr(dynamic), accepted=why)
    # An error in a spec points at the line that has it, not at the function below.
    said = cast("_Said", shapes if shapes in (None, "annotations") else Shapes.of(shapes))
    runs = backend_of(backend, mode, options)
    compiled = functools.partial(_compile, Options(dynamic, fullgraph, runs), said, name)
    return compiled if function is None else compiled(function)


#: a contract, which may be that of a function's annotations
_Said = Shapes | Literal["annotations"] | None


def _as_it_is(function: S) -> S:
    return function


def _compile(
    options: Options,
    shapes: _Said,
    name: str | None,
    function: Callable[..., object],
) -> Callable[..., object]:
    if isinstance(function, type) and issubclass(function, torch.nn.Module):
        raise ClassGiven(cls=function.__qualname__)
    if not callable(function):
        raise NotCallable(value=function)
    if isinstance(function, Compiled | CompiledModule):
        function = cast("Callable[..., object]", function.__anyshape_original__())
    if shapes == "annotations":
        shapes = shapes_of_annotations(function)
    options = replace(options, shapes=shapes)
    if isinstance(function, torch.nn.Module):
        return _compiled_module(function, options, name)
    return Compiled(function, target_of(function, name), options)


# -- modules ---------------------------------------------------------------------------------------


def _compiled_module(module: torch.nn.Module, options: Options, name: str | None) -> Any:
    original = type(module)
    kind = _module_class(original)
    made = object.__new__(kind)
    # One dictionary for both: whatever is set on one is seen on the other.
    object.__setattr__(made, "__dict__", module.__dict__)
    function = FunctionCompiler(module_target(module, name), options)
    _compiled.add(function)
    state = _State(module, function, "_orig_mod" in module.__dict__)
    object.__setattr__(made, "__anyshape_state__", state)  # The class may have a way of its own.
    never_called.watch(made, module)
    return made


@dataclass(slots=True)
class _State:
    """What a compiled module has apart from the dictionary that it shares with the original."""

    called: torch.nn.Module
    function: FunctionCompiler
    #: The original has an attribute `_orig_mod`.
    holds_its_own: bool
    #: what was compiled while there were hooks
    with_hooks: FunctionCompiler | None = None
    #: the module whose attributes are seen, if that is another one
    shown: torch.nn.Module | None = None

    def functions(self) -> list[FunctionCompiler]:
        return [self.function] if self.with_hooks is None else [self.function, self.with_hooks]


class CompiledModule(torch.nn.Module):
    """What is added to a module's class by compiling it: a compiled module is one of these and of
    its own class, and shares all that the original has.

    >>> model = anyshape.compile(torch.nn.Linear(4, 2), dynamic=True)
    >>> [tuple(model(torch.ones(n, 4)).shape) for n in (3, 5)]
    [(3, 2), (5, 2)]
    >>> assert isinstance(model, anyshape.CompiledModule)  # tells a type checker, too
    >>> model.stats().captures
    1
    """

    __anyshape_state__: _State

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        state = self.__anyshape_state__
        module, function = state.called, state.function
        held = module.__dict__
        if held["_forward_hooks"] or held["_forward_pre_hooks"]:
            function = _for_hooks(state)
        try:
            return function.dispatch(module, *args, **kwargs)
        except FALLBACK_ERRORS as error:
            if not function.needs_fallback(error):
                raise
            reason = without_frames(error)
        try:
            return function.fallback(reason, (module, *args), kwargs)
        except StaleSignature:
            target = module_target(module, function.target.name)
        state.function = FunctionCompiler(target, function.options)
        state.function.counts.belongs_to(function.counts)
        _compiled.add(state.function)
        return self(*args, **kwargs)

    def __anyshape_original__(self) -> torch.nn.Module:
        return self.__anyshape_state__.called

    # -- names by which code for torch's compiled modules asks ------------------------------------

    @property
    def _orig_mod(self) -> torch.nn.Module:
        """The original. Some write it into the dictionary, which is that of the original, too: it
        must not lead from there to itself. A module may have an attribute of that name itself."""
        state = self.__anyshape_state__
        if not state.holds_its_own and "_orig_mod" in self.__dict__:
            _show(self, self.__dict__.pop("_orig_mod"))
        return state.called if state.shown is None else state.shown

    @property
    def _torchdynamo_orig_callable(self) -> torch.nn.Module:
        return self._orig_mod

    @property
    def dynamo_ctx(self) -> Callable[..., Any]:
        """Compiles what it is given as the module is compiled: another method of it, say."""
        options = self.__anyshape_state__.function.options
        options = replace(options, shapes=None)  # They are those of `forward`.
        return functools.partial(_compile, options, None, None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_orig_mod":
            _show(self, value)
        else:
            super().__setattr__(name, value)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any
    ) -> _IncompatibleKeys:
        """Also of a checkpoint that torch's compiled modules have written, whose names begin with
        that of the original."""
        plain = {name.removeprefix("_orig_mod."): value for name, value in state_dict.items()}
        is_theirs = len(plain) == len(state_dict) and plain.keys() != state_dict.keys()
        return super().load_state_dict(plain if is_theirs else state_dict, *args, **kwargs)

    def stats(self) -> Stats:
        """What it did so far."""
        return sum(map(_total, self.__anyshape_state__.functions()), Stats())

    def explain(self, *args: object, verbose: bool = False, **kwargs: object) -> Explanation:
        """What is dynamic and why, what is fixed and by which line; with arguments, call it with
        them first. `verbose`: with every layer and parameter, which are told once otherwise."""
        _call_first(self, self.__anyshape_state__.function, args, kwargs, verbose)
        found, *others = (each.explain() for each in self.__anyshape_state__.functions())
        found = replace(found, is_verbose=verbose)
        return found.and_also(others[0]) if others else found

    @property
    def entries(self) -> list[Entry]:
        """The compiled programs, each with its graphs, guards and symbols."""
        return [entry for each in self.__anyshape_state__.functions() for entry in each.entries]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        options = self.__anyshape_state__.function.options
        return _compiled_module(copy.deepcopy(self._orig_mod, memo), options, None)

    def __reduce_ex__(self, protocol: Any) -> Any:
        function = self.__anyshape_state__.function
        return _compiled_module, (self._orig_mod, function.options, function.target.name)


class _WithSlot(CompiledModule):
    """Holds its state itself: where the original holds it, both can be freed."""

    __slots__ = ("__anyshape_state__",)


class _WithoutSlot(CompiledModule):
    """Of classes whose instances have slots of their own, which no class can have beside others."""

    @property
    def __anyshape_state__(self) -> _State:
        return _STATES[self]

    @__anyshape_state__.setter
    def __anyshape_state__(self, state: _State) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] as an attribute
        _STATES[self] = state


_STATES: weakref.WeakKeyDictionary[CompiledModule, _State] = weakref.WeakKeyDictionary()


def _for_hooks(state: _State) -> FunctionCompiler:
    if state.with_hooks is None:
        target = module_target(state.called, state.function.target.name)
        state.with_hooks = FunctionCompiler(target, state.function.options)
        state.with_hooks.counts.belongs_to(state.function.counts)
        _compiled.add(state.with_hooks)
    return state.with_hooks


def _show(compiled: CompiledModule, module: Any) -> None:
    """Take another `_orig_mod`. As with torch's compiled modules, attributes and parameters are of
    that one from here on, and a call calls what was compiled: a wrapper that reduces gradients
    stays in place where a library takes the module out of it to save it."""
    if isinstance(module, CompiledModule):
        module = module._orig_mod
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"_orig_mod takes a module, not {module!r}")
    state = compiled.__anyshape_state__
    state.shown = None if module is state.called else module
    object.__setattr__(compiled, "__dict__", module.__dict__)
    kind = _module_class(type(module), calls_another=state.shown is not None)
    object.__setattr__(compiled, "__class__", kind)


@functools.cache
def _module_class(original: type[torch.nn.Module], *, calls_another: bool = False) -> type:
    """A class of its own where a call is not one of the module that is shown: guards on types tell
    them apart."""
    namespace = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__anyshape_calls_another__": calls_another,
    }
    try:
        return type(original.__name__, (_WithSlot, original), namespace)
    except TypeError:
        return type(original.__name__, (_WithoutSlot, original), namespace)


# -- the process -----------------------------------------------------------------------------------


def _rank() -> int | None:
    """Among the processes of the program, as far as there are others."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    told = os.environ.get("RANK", "")
    return int(told) if told.isdecimal() else None


def emit_run_counts() -> None:
    """Tell those who listen how often each entry was taken, and for which sizes."""
    emit_all()
    for function in list(_compiled):
        for entry in function.entries:
            stream.emit(RunCount(function.target.name, entry.hits, compile_id=entry.id))
    for event in call_counts():
        stream.emit(event)
    stream.emit(ProgramEnded())


#: by the number of the function: hits and eager calls as they were told last
_told_counts: dict[int, tuple[int, int]] = {}


def call_counts() -> list[CallCounts]:
    """Of functions that were called since this was asked last. Any thread may ask."""
    found: list[CallCounts] = []
    try:
        functions = [each for outermost in list(_compiled) for each in outermost.with_parts()]
    except RuntimeError:  # one is being added: next time
        return found
    for function in functions:
        counts, target = function.counts, function.target
        now = sum(counter[0] for counter in list(counts.hits)), counts.eager_calls
        if now != _told_counts.get(function.frame_id, (0, 0)):
            _told_counts[function.frame_id] = now
            place = target.name, target.file, target.line
            found.append(CallCounts(*place, *now, compile_id=str(function.frame_id)))
    return found


_told_of: set[str] = set()


def tell_as_the_environment_says() -> None:
    """Show the logs, and write the trace, that environment variables ask for. Called again, it
    takes up what has changed."""
    set_logs_from_environment()
    folder = os.environ.get(trace.VARIABLE)
    if folder and not _told_of:
        versions = {"torch": torch.__version__}
        trace.start_trace(folder, _rank, versions, now_and_then=call_counts)
        _told_of.add("trace")
        # Before the trace is closed: what is registered last runs first.
        atexit.register(emit_run_counts)


tell_as_the_environment_says()


def stats() -> Stats:
    """The sum over all compiled functions of the process.

    >>> before = anyshape.stats().captures
    >>> double = anyshape.compile(lambda x: x * 2)
    >>> y = double(torch.ones(3))
    >>> anyshape.stats().captures - before
    1
    """
    return _with_what_there_is(sum(map(_stats_of, list(all_counts)), Stats()), _compiled)


def reset() -> None:
    """Forget every compiled entry of the process. What is on disk stays: the next compile knows
    what a new process would.

    >>> double = anyshape.compile(lambda x: x * 2)
    >>> y = double(torch.ones(3))
    >>> anyshape.reset()
    >>> double.stats().graphs
    0
    """
    session.start_again()
    all_counts.clear()
    source_use.forget()
    eager_summary.summary.forget()
    never_called.forget()
    # In the order in which they were compiled, by which `metrics` tells those of one name apart.
    for function in sorted(_compiled, key=lambda each: each.frame_id):
        function.reset()
        all_counts.append(function.counts)


def set_stance(stance: stances.Stance) -> stances.Stance:
    """What all compiled functions do in place of compiling, from here on; what they did before."""
    before = stances.set_stance(stance)
    if stances.Stance.EAGER in (before, stance) and before is not stance:
        for function in list(_compiled):
            function.rebuild()
    return before


def _rebuild_all() -> None:
    for function in list(_compiled):
        function.rebuild_all()


config.watch("verify_calls", _rebuild_all)


# -- checks ---------------------------------------------------------------------------------------


def check(
    condition: bool | torch.SymBool | torch.Tensor,
    message: str | Callable[[], str] | None = None,
) -> None:
    """Raise unless the condition holds; in compiled code, it also teaches what sizes can be.

    >>> @anyshape.compile(fullgraph=True)
    ... def first(x: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    ...     n = length.item()
    ...     anyshape.check(n >= 2, "too short")
    ...     return x[: n // 2]
    >>> first(torch.arange(6), torch.tensor(4)), first(torch.arange(6), torch.tensor(6))
    (tensor([0, 1]), tensor([0, 1, 2]))
    """
    if message is not None and not callable(message):
        text = str(message)
        torch._check(condition, lambda: text)
    else:
        torch._check(condition, message)
