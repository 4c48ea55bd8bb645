"""What `compile` takes beside the function: the arguments of `torch.compile`, with its meanings.

What only says how fast code is to become (`mode=`, some of `options=`) is a wish: where there is
nothing here that it could change, one warning says so. What would change what a program does, and
has another name here, is an error that gives the name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final, Literal, TypedDict, cast, get_args

from anyshape.backends import BACKENDS, MODES_OF_NATIVE, with_checks
from anyshape.config import config
from anyshape.dispatch.entry import Backend
from anyshape.errors import BadOption
from anyshape.shapes import Shapes
from anyshape.support.spelling import did_you_mean
from anyshape.support.user_warning import warn_user

Mode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
MODES: Final[tuple[str, ...]] = get_args(Mode)

#: where packages tell torch of the backends that they have
ENTRY_POINTS: Final = "torch_dynamo_backends"

#: names that torch has for backends which run graphs operator by operator
EAGER_OF_TORCH: Final = ("aot_eager", "eager_debug", "eager_noexcept", "pre_dispatch_eager", "ts")


class CompileOptions(TypedDict, total=False):
    """The keyword arguments of `compile`, for type checkers."""

    dynamic: bool | None
    fullgraph: bool
    backend: str | Backend
    mode: Mode | None
    options: Mapping[str, object] | None
    shapes: Shapes | Mapping[Any, Any] | tuple[Any, ...] | list[Any] | Literal["annotations"] | None
    name: str | None


# -- backend= -------------------------------------------------------------------------------------


def backend_of(backend: str | Backend, mode: object = None, options: object = None) -> Backend:
    """The backend that is meant; a function is one."""
    if callable(backend):
        return with_checks(backend)
    if backend in BACKENDS:
        asked = asks_for_graphs(mode, options), asks_for_tuning(mode, options)
        own = MODES_OF_NATIVE.get(asked) if backend == "native" else None
        return own or BACKENDS[backend]
    if backend in ("inductor", "anyshape"):
        if backend == "inductor":
            warn_user(
                'backend="inductor" is torch\'s; this is "native", anyshape\'s own generated code'
            )
        return backend_of("native", mode, options)
    if (found := installed_backend(backend)) is not None:
        return with_checks(found)
    accepted = '"native", "eager", a callable(graph_module, example_inputs)'
    accepted += ", or the name of a backend that an installed package has registered with torch"
    if backend in EAGER_OF_TORCH:
        accepted += f'; torch\'s "{backend}" is "eager" here'
    else:
        accepted += did_you_mean(backend, [*BACKENDS, "inductor", *_installed()])
    raise BadOption(option="backend", value=repr(backend), accepted=accepted)


def asks_for_graphs(mode: object, options: object) -> bool:
    """Whether hot shapes are to be replayed as CUDA graphs."""
    return mode in ("reduce-overhead", "max-autotune") or _is_on(_GRAPHS, options)


def asks_for_tuning(mode: object, options: object) -> bool:
    """Whether several plans of a kernel are to be tried."""
    tunes = mode in ("max-autotune", "max-autotune-no-cudagraphs")
    return tunes or any(_is_on(name, options) for name in _TUNING)


#: By whether CUDA graphs are asked for, and whether tuned kernels are.
_MODES: Final[dict[tuple[bool, bool], Mode]] = {
    (True, False): "reduce-overhead",
    (False, True): "max-autotune-no-cudagraphs",
    (True, True): "max-autotune",
}


def mode_of(mode: object, options: object) -> Mode | None:
    """The mode that a mode or options stand for; None if it is the usual one."""
    return _MODES.get((asks_for_graphs(mode, options), asks_for_tuning(mode, options)))


def _is_on(name: str, options: object) -> bool:
    return isinstance(options, Mapping) and bool(cast("Mapping[str, object]", options).get(name))


def installed_backend(name: object) -> Callable[..., Any] | None:
    """What an installed package has registered with torch under a name."""
    found = _installed().get(str(name))
    return None if found is None else found.load()


def _installed() -> dict[str, Any]:
    return {each.name: each for each in entry_points(group=ENTRY_POINTS)}


# -- mode= and options= ---------------------------------------------------------------------------


def check_choice(mode: object, options: object) -> None:
    if mode is not None and options is not None:
        accepted = "a mode stands for options: give one of the two"
        raise BadOption(option="mode", value=repr(mode), accepted=accepted)


def given_tuning(backend: Backend, mode: object, options: object) -> Backend:
    """A backend of the user's, which is given what only it can know the meaning of."""
    chosen = {"mode": mode} if mode not in (None, "default") else {}
    chosen |= {"options": options} if options else {}
    return functools.partial(backend, **chosen) if chosen else backend


def check_tuning(mode: object, options: object) -> None:
    """An error for what means nothing, a note for wishes that nothing here can fulfil."""
    check_choice(mode, options)
    if mode is not None:
        check_mode(mode)
    if options is not None:
        _check_options(options)


def check_mode(mode: object) -> None:
    if mode not in MODES:
        known = ", ".join(f'"{each}"' for each in MODES)
        accepted = f"the modes are {known}{did_you_mean(mode, MODES)}"
        raise BadOption(option="mode", value=repr(mode), accepted=accepted)


#: The option of torch that asks for CUDA graphs.
_GRAPHS: Final = "triton.cudagraphs"

#: Options of torch that ask for kernels that are tuned.
_TUNING: Final = frozenset({"max_autotune", "max_autotune_pointwise"})

#: Options of torch that name what is always so here: True is what they would be.
_ALWAYS: Final = frozenset({"epilogue_fusion", "fallback_random"})

#: Options of torch that only say how fast code is to become, by why nothing comes of them.
_WITHOUT_EFFECT: Final = {
    "max_autotune_gemm": "products are torch's own kernels",
    "coordinate_descent_tuning": "max_autotune tries one parameter after the other by itself",
    "shape_padding": "sizes are never padded",
}

#: Options of torch by what they are called here.
_INSTEAD: Final = {
    "trace.enabled": "set ANYSHAPE_TRACE=folder, then `anyshape report folder`",
    "trace.graph_diagram": "set ANYSHAPE_TRACE=folder, then `anyshape report folder`",
    "guard_filter_fn": "guards keep answers right, and none can be left out: say which sizes there"
    " are with shapes=, or what is static with anyshape.mark_static",
}


def _check_options(options: object) -> None:
    if not isinstance(options, Mapping):
        raise BadOption(
            option="options", value=repr(options), accepted="it takes a dict by name, or None"
        )
    for name, value in cast("Mapping[object, object]", options).items():
        if name in _WITHOUT_EFFECT:
            if value:
                warn_user(f"options[{name!r}] changes nothing: {_WITHOUT_EFFECT[str(name)]}")
        elif name == _GRAPHS or name in _TUNING:
            continue
        elif name not in _ALWAYS:
            raise BadOption(
                option=f"options[{name!r}]", value=repr(value), accepted=_why_no_option(name)
            )
        elif not value:
            accepted = "it is always so, and cannot be turned off"
            raise BadOption(option=f"options[{name!r}]", value=repr(value), accepted=accepted)


def _why_no_option(name: object) -> str:
    if name in _INSTEAD:
        return f"anyshape has no such option: {_INSTEAD[str(name)]}"
    if name in dir(config):
        return (
            f"it is a setting of the process: anyshape.config.{name} = ..., or for a while `with"
            f" anyshape.config.patch({name}=...)`"
        )
    known = (_GRAPHS, *_TUNING, *_ALWAYS, *_WITHOUT_EFFECT, *_INSTEAD, *dir(config))
    return f"there is no such option; settings are in anyshape.config{did_you_mean(name, known)}"
