"""The functions of PyTorch's compiler that scripts call, by what anyshape does for them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ContextDecorator
from typing import Any, Final

import torch

from anyshape import api, errors
from anyshape.boundary_markers import dynamo_graph_break
from anyshape.compat.environment import ALL_LOGS, LOGS
from anyshape.compat.module_shim import is_asked_by_torch, replaced
from anyshape.compat.torch_setting_names import check_options
from anyshape.compat.unmapped import note
from anyshape.compiler.arguments import (
    EAGER_OF_TORCH,
    check_choice,
    check_mode,
    given_tuning,
    installed_backend,
    mode_of,
)
from anyshape.dispatch.stance import Stance
from anyshape.support.spelling import did_you_mean

#: Those that only run the captured graph.
_EAGER: Final = frozenset({"eager", *EAGER_OF_TORCH})
_NATIVE: Final = frozenset({"inductor", "native", "anyshape"})
#: Others that torch knows, or that packages bring under these names: generated code takes their
#: place where they are not installed.
_OTHERS: Final = frozenset(
    {
        *("aot_eager_decomp_partition", "aot_eager_default_partitioner", "aot_ts", "cudagraphs"),
        *("hpu_backend", "invoke_subgraph", "ipex", "neuron", "npu", "onnxrt", "openvino"),
        *("openxla", "openxla_eval", "tensorrt", "torch_tensorrt", "torchxla_trace_once", "tvm"),
    }
)

#: What torch had there.
_THEIRS: Final[Any] = getattr(torch, "compile")  # noqa: B009 a peer: by name, and never for us

#: by the name that the script has given
_own: Final[dict[str, Any]] = {}

#: for those who do not choose one
_default: Final[list[Any]] = ["native"]


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: Any = None,
    name: str | None = None,
    disable: bool = False,
    **more: Any,
) -> Any:
    """`torch.compile`. What torch compiles for itself (in its higher-order operators, say) is left
    to torch; a module's `.compile()` is the script's."""
    if is_asked_by_torch("torch.nn.modules.module", "torch.compiler"):
        return _THEIRS(
            model,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
            **more,
        )
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            name=name,
            disable=disable,
            **more,
        )
    _check_names(more)
    check_choice(mode, options)
    runs: Any = _backend(backend)
    if not isinstance(runs, str):
        runs, mode, options = given_tuning(runs, mode, options), None, None
    else:
        if mode is not None:
            check_mode(mode)
        if options is not None:
            check_options(options)
    if disable or os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        return model
    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        return model  # torch compiles the call that makes an instance: there is nothing in it
    own = mode_of(mode, options) if runs == "native" else None
    chosen = {"mode": mode not in (None, "default"), "options": bool(options)}
    chosen = {option: is_chosen and own is None for option, is_chosen in chosen.items()}
    chosen |= {option: value not in (None, False) for option, value in more.items()}
    for option, is_chosen in chosen.items():
        if is_chosen:
            note(f"torch.compile({option}=...)")
    return api.compile(
        model,
        dynamic=dynamic,
        fullgraph=bool(fullgraph),
        backend=runs,
        mode=own,
        name=name,
    )


def _check_names(given: Mapping[str, object]) -> None:
    """Arguments that torch's has, and we do not know, are named; others are mistakes."""
    theirs = inspect.signature(_THEIRS).parameters
    for name in given:
        if name not in theirs:
            raise errors.UnknownArgument(
                function="torch.compile", argument=name, known=tuple(theirs)
            )


def _backend(backend: Any) -> Any:
    backend = _default[0] if backend is None else backend
    if callable(backend):
        return backend
    if backend in _EAGER:
        return "eager"
    if backend in _NATIVE:
        return "native"
    if (registered := _registered(backend)) is not None:
        return registered
    if (installed := installed_backend(backend)) is not None:
        return installed
    if backend not in _OTHERS:
        known = (*list_backends(), *_EAGER, *_OTHERS)
        accepted = f"it takes a function, or one of {', '.join(list_backends())}"
        accepted += did_you_mean(backend, known)
        raise errors.BadOption(option="backend", value=repr(backend), accepted=accepted)
    note(f"torch.compile(backend={backend!r})")
    return "native"


def _registered(name: Any) -> Any:
    """What a script has registered, here or with torch, under a name of its own."""
    if name in _own:
        return _own[name]
    registry = sys.modules.get("torch._dynamo.backends.registry")
    is_own = name not in _NATIVE and name in getattr(registry, "_COMPILER_FNS", {})
    return getattr(registry, "lookup_backend")(name) if is_own else None  # noqa: B009 a peer


def optimize(
    backend: Any = None, *, nopython: bool = False, dynamic: bool | None = None, **more: Any
) -> Any:
    """`torch._dynamo.optimize`, the older name."""
    if is_asked_by_torch():
        real = replaced("torch._dynamo", "optimize")
        return real(backend, nopython=nopython, dynamic=dynamic, **more)
    return functools.partial(compile, backend=backend, fullgraph=nopython, dynamic=dynamic)


def explain(function: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch._dynamo.explain(function)(*args)`: what anyshape says of it."""
    compiled: Any = api.compile(function)

    def explained(*args: Any, **kwargs: Any) -> Explained:
        return Explained(compiled.explain(*args, **kwargs), compiled)

    return explained(*args, **kwargs) if args or kwargs else explained


class Explained:
    """An explanation, with the names by which scripts ask torch's for numbers."""

    def __init__(self, explanation: Any, compiled: Any) -> None:
        self._explanation = explanation
        self.graphs: list[torch.fx.GraphModule] = [
            graph for entry in compiled.entries for graph in entry.graphs
        ]
        self.graph_count = len(self.graphs)
        self.graph_break_count: int = compiled.stats().graph_breaks
        self.break_reasons: list[str] = [explanation.eager] if explanation.eager else []
        self.ops_per_graph = [
            [node.target for node in graph.graph.nodes if node.op.startswith("call")]
            for graph in self.graphs
        ]
        self.op_count = sum(map(len, self.ops_per_graph))
        self.out_guards = [guard for entry in compiled.entries for guard in entry.guards]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._explanation, name)

    def __str__(self) -> str:
        return str(self._explanation)


# -- marks ----------------------------------------------------------------------------------------


def mark_dynamic(
    t: Any,
    index: Any,
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: Any = None,
) -> None:
    _only_wishes("mark_dynamic", hint_override=hint_override, specialize_on=specialize_on)
    api.mark_dynamic(t, index, min=min, max=max)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    api.maybe_mark_dynamic(t, index)


def mark_unbacked(
    t: Any,
    index: Any,
    hint_override: int | None = None,
    strict: bool = False,
    specialize_on: Any = None,
    shape_id: Any = None,
    min: int | None = None,
    max: int | None = None,
) -> None:
    _only_wishes("mark_unbacked", specialize_on=specialize_on, shape_id=shape_id)
    api.mark_unbacked(t, index, min=min or 0, max=max, hint=hint_override)


def mark_static(t: Any, index: Any = None) -> None:
    api.mark_static(t, index)


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Where a tensor lies is nothing to us."""


def _only_wishes(function: str, **wishes: Any) -> None:
    for name, value in wishes.items():
        if value is not None:
            note(f"torch._dynamo.{function}({name}=...)")


# -- what says how code is to be compiled: the code itself is right without it --------------------


def as_it_is(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A decorator, bare or with arguments, that changes nothing."""
    return function if callable(function) else as_it_is


def disable(
    function: Any = None,
    recursive: bool = True,
    *,
    reason: str | None = None,
    wrapping: bool = True,
) -> Any:
    """`torch.compiler.disable`. torch asks for its own functions without a wrapper: they are no
    boundaries of the program's."""
    if not wrapping:
        return as_it_is(function)
    return api.disable(function, recursive, reason=reason)


def nothing(*args: Any, **kwargs: Any) -> None:
    """A call without effect: there is no step of CUDA graphs to mark."""


def as_the_original(original: Any, **options: Any) -> Any:
    """`torch.compiler.substitute_in_graph`: the original runs for real, in compiled code too."""
    return as_it_is


def without_effect(name: str) -> Callable[..., None]:
    def called(*args: Any, **kwargs: Any) -> None:
        note(name)

    return called


# -- backends -------------------------------------------------------------------------------------


def list_backends(exclude_tags: Any = ()) -> list[str]:
    return sorted(_NATIVE | {"eager"} | _own.keys())


def register_backend(backend: Any = None, name: str | None = None, tags: Any = ()) -> Any:
    if backend is None:
        return functools.partial(register_backend, name=name, tags=tags)
    _own[name or backend.__name__] = backend
    return backend


def set_default_backend(backend: Any) -> None:
    _default[0] = "native" if backend is None else backend


def get_default_backend() -> Any:
    return _default[0]


# -- logs -----------------------------------------------------------------------------------------


def set_logs(*, all: Any = None, **logs: Any) -> None:
    """`torch._logging.set_logs`."""
    chosen: dict[str, Any] = dict.fromkeys(ALL_LOGS, all) if all is not None else {}
    for name, value in logs.items():
        if name in LOGS:
            chosen[LOGS[name]] = value
        elif value not in (None, False):
            note(f"torch._logging.set_logs({name}=...)")
    api.set_logs(**chosen)


# -- stances ---------------------------------------------------------------------------------------


_STANCES: Final = {
    "default": Stance.COMPILE,
    "force_eager": Stance.EAGER,
    "eager_on_recompile": Stance.EAGER_ON_MISS,
    "fail_on_recompile": Stance.FAIL_ON_MISS,
    "eager_then_compile": Stance.EAGER_FIRST,
    "aot_eager_then_compile": Stance.EAGER_FIRST,
}


class set_stance(ContextDecorator):
    """Holds from here on; as a context manager or decorator, only there."""

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:
        if stance not in _STANCES:
            known = f"{', '.join(_STANCES)}{did_you_mean(stance, _STANCES)}"
            raise RuntimeError(f"invalid torch.compile stance {stance!r}: {known}")
        wishes = {
            "skip_guard_eval_unsafe": skip_guard_eval_unsafe,
            "force_backend": force_backend is not None,
        }
        for name, is_wished in wishes.items():
            if is_wished:
                note(f"torch.compiler.set_stance({name}=...)")
        self._stance = _STANCES[stance]
        self._before = [api.set_stance(self._stance)]
        self._is_entered = False

    def __enter__(self) -> None:
        # The first time it holds already.
        if self._is_entered:
            self._before.append(api.set_stance(self._stance))
        self._is_entered = True

    def __exit__(self, *_: object) -> None:
        api.set_stance(self._before.pop())

    def __call__(self, func: Any) -> Any:
        api.set_stance(self._before.pop())
        self._is_entered = True
        return super().__call__(func)


#: Under the same names in `torch._dynamo` and `torch.compiler`
_BOTH: Final[Mapping[str, Callable[..., Any]]] = {
    "reset": api.reset,
    "allow_in_graph": as_it_is,
    "assume_constant_result": as_it_is,
    "disable": disable,
    "substitute_in_graph": as_the_original,
    "set_stance": set_stance,
    "list_backends": list_backends,
}

#: `torch._dynamo` and `torch._dynamo.decorators`
DYNAMO: Final[Mapping[str, Any]] = {
    **_BOTH,
    "optimize": optimize,
    "explain": explain,
    "mark_dynamic": mark_dynamic,
    "maybe_mark_dynamic": maybe_mark_dynamic,
    "mark_unbacked": mark_unbacked,
    "mark_static": mark_static,
    "mark_static_address": mark_static_address,
    "disallow_in_graph": as_it_is,
    "forbid_in_graph": as_it_is,
    "nonstrict_trace": as_it_is,
    "graph_break": dynamo_graph_break,
    "is_compiling": torch.compiler.is_compiling,
    "is_dynamo_supported": lambda: True,
    "register_backend": register_backend,
    "OptimizedModule": api.CompiledModule,
}

#: `torch._dynamo.exc`: what a script catches is raised by us
ERRORS: Final[Mapping[str, type[errors.AnyshapeError]]] = {
    "TorchDynamoException": errors.AnyshapeError,
    "BackendCompilerFailed": errors.BackendFailed,
    "InternalTorchDynamoError": errors.InternalError,
    "RecompileError": errors.RecompileError,
    "Unsupported": errors.GraphBreakError,
    "UserError": errors.CompileError,
}

#: `torch.compiler`; what is not here is torch's, and asks for some of the above.
COMPILER: Final[Mapping[str, Callable[..., Any]]] = {
    **_BOTH,
    "nested_compile_region": as_it_is,
    "set_default_backend": set_default_backend,
    "get_default_backend": get_default_backend,
    "cudagraph_mark_step_begin": nothing,
    **{
        name: without_effect(f"torch.compiler.{name}")
        for name in (
            "set_enable_guard_collectives",
            "save_cache_artifacts",
            "load_cache_artifacts",
        )
    },
}
