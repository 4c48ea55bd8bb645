"""Models of functions that ask about the process: its hardware, its settings, its environment.

The answer is plain, and a guard asks again before every compiled run.
"""

from __future__ import annotations

import functools
import os
import platform
import posixpath
import re
import sys
import types
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import overrides
from torch.torch_version import TorchVersion

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.builtins.pure import pure
from anyshape.capture.record.torch_state import default_device
from anyshape.capture.value_kinds import ATOMS
from anyshape.guards.guard import Kind

#: Modules of torch whose functions with such a name only say how things are.
_ASKED_MODULES: Final = re.compile(
    r"torch\.(_C$|(cuda|xpu|mps|mtia|cpu|accelerator|backends|distributed|onnx|jit)(?!.*memory))"
)
_ASKING: Final = re.compile(
    r"_?((mps|xpu|cuda)_)?(is|get|has|can)_(?!or_create)|device_count$|current_(device|accelerator)$"
)


def is_question(function: object) -> bool:
    """Whether a function without a model asks how things are, and does nothing."""
    if isinstance(function, types.BuiltinFunctionType):
        owner = getattr(function, "__self__", None)
        module = owner.__name__ if isinstance(owner, types.ModuleType) else function.__module__
    else:
        module = getattr(function, "__module__", None)
    if not isinstance(module, str):
        return False
    if function in _QUESTIONS:
        return True
    name = getattr(function, "__name__", "")
    return bool(_ASKED_MODULES.match(module)) and bool(_ASKING.match(name))


def ask(hooks: Hooks, function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """The answer of a function to plain values, with a guard that it stays the same."""
    name = getattr(function, "__name__", "a question")
    values = [hooks.specialized(value, f"`{name}` takes it") for value in (*args, *kwargs.values())]
    if not all(type(value) in ATOMS for value in values):
        raise AbortCapture(f"`{name}` of an object")
    given = tuple(values[: len(args)])
    named = tuple(zip(kwargs, values[len(args) :], strict=True))
    if function is torch.get_default_device:
        answer: object = default_device()
    else:
        with torch._C.DisableTorchFunction():
            answer = function(*given, **dict(named))
    if not _is_plain(answer):
        raise AbortCapture(f"`{name}` returns a {type(answer).__name__}")
    check = _answers(function, given, named, answer)
    hooks.tracer.guard(Kind.PREDICATE, hooks.tracer.constant(check), check, "a setting")
    return answer


def _is_plain(value: object) -> bool:
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in ATOMS


class Answers:
    """A guard: whether a function gives the answer that it gave."""

    def __init__(self, function: Any, args: tuple[Any, ...], named: Any, answer: object) -> None:
        self._function = function
        self._args = args
        self._kwargs = dict(named)
        self._answer = answer
        name = getattr(function, "__qualname__", "a question")
        self.__qualname__ = f"{name}({', '.join(map(repr, args))}) is {answer!r}"

    def __call__(self, _: object) -> bool:
        answer = self._function(*self._args, **self._kwargs)
        return type(answer) is type(self._answer) and answer == self._answer


#: One object for one question and answer, so that one guard is enough.
_answers: Final = functools.lru_cache(maxsize=4096, typed=True)(Answers)


# -- the environment -------------------------------------------------------------------------------


def _environment_item(hooks: Hooks, environ: Any, key: object) -> str:
    """`os.environ[key]`, with a guard in the dictionary behind it."""
    key = hooks.specialized(key, "the name of an environment variable")
    if environ is not os.environ or type(key) is not str:
        raise AbortCapture("an environment of the program's own")
    held: Any = environ._data
    name = environ.encodekey(key)
    path = hooks.tracer.constant(held, "os.environ")
    if name in held:
        hooks.tracer.guard(Kind.EQUALS, path.item(name), held[name])
    else:
        hooks.tracer.guard(Kind.CONTAINS, path, (name, False))
    return environ[key]


def _getenv(hooks: Hooks, key: object, default: object = None) -> object:
    try:
        return _environment_item(hooks, os.environ, key)
    except KeyError:
        return default


# -- objects ---------------------------------------------------------------------------------------


def _id(hooks: Hooks, value: object) -> int:
    """The identity of an object that is there for good."""
    path = hooks.tracer.path_of(value)
    lasting = isinstance(value, (torch.nn.Module, torch.nn.Parameter, type, types.ModuleType))
    if not lasting or (path is None and not isinstance(value, (type, types.ModuleType))):
        raise AbortCapture(f"`id` of a {type(value).__name__}", "compare objects with `is`")
    if path is not None:
        hooks.tracer.guard(Kind.IDENTITY, path, value)
    return id(value)


def _is_tensor_like(hooks: Hooks, value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    try:
        hooks.attribute(value, "__torch_function__")
    except AttributeError:
        return False
    return True


def _as_plain(function: Callable[..., object]) -> Callable[..., object]:
    """A function of plain values, or of code, that depends on nothing else."""
    return lambda hooks, *args, **kwargs: pure(hooks, function, args, kwargs)


def _constant(function: Callable[..., object]) -> Callable[..., object]:
    """What stays the same for as long as the process lives."""
    return lambda hooks, *args: function(
        *(hooks.specialized(arg, "it is asked about") for arg in args)
    )


_PLATFORM: Final = (
    *("system", "machine", "node", "release", "version", "processor", "python_version"),
    *("python_implementation", "architecture", "platform", "python_version_tuple"),
)

_PATH: Final = (
    *("join", "basename", "dirname", "split", "splitext", "normpath", "isabs", "normcase"),
    *("commonprefix",),
)

_QUESTIONS: Final[frozenset[Any]] = frozenset(
    {
        os.cpu_count,
        os.getpid,
        sys.exc_info,
        sys.exception,
        sys.getrecursionlimit,
        torch._C._are_functorch_transforms_active,
        torch.get_default_device,
        torch.get_num_threads,
        torch.get_num_interop_threads,
        torch.is_anomaly_enabled,
        torch.is_anomaly_check_nan_enabled,
        torch.is_deterministic_algorithms_warn_only_enabled,
        torch.get_deterministic_debug_mode,
        torch.is_warn_always_enabled,
    }
)

#: The class of `torch.__version__`, a string with an order of its own.
VERSION: Final = TorchVersion

MODELS: Final[Models] = {
    os._Environ.__getitem__: _environment_item,
    os.getenv: _getenv,
    id: _id,
    overrides.is_tensor_like: _is_tensor_like,
    overrides.is_tensor_method_or_property: lambda hooks, function: (
        overrides.is_tensor_method_or_property(function)
    ),
    torch.jit.annotate: lambda hooks, kind, value: value,
    **{getattr(platform, name): _constant(getattr(platform, name)) for name in _PLATFORM},
    **{
        getattr(posixpath, name): _as_plain(getattr(posixpath, name))
        for name in _PATH
        if os.path is posixpath
    },
}
