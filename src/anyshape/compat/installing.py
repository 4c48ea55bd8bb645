"""Put anyshape behind the names of PyTorch's compiler, in this process."""

from __future__ import annotations

import atexit
import os
import sys
import types
from functools import partial
from typing import Final

import torch

from anyshape import api
from anyshape.capture.builtins.table import MODELS
from anyshape.compat import compiling, exporting, settings
from anyshape.compat.environment import translate
from anyshape.compat.module_shim import StandIn, bind, find_modules_below, stand_in
from anyshape.compat.settings import Settings
from anyshape.compat.unmapped import warn

_DYNAMO: Final = "torch._dynamo"
_INDUCTOR: Final = "torch._inductor"
_EXPORT: Final = "torch.export"

_installed: Final[set[str]] = set()


def install() -> None:
    """From here on `torch.compile` and its kin are anyshape's. May be called again."""
    if _installed:
        return
    _installed.add("compat")
    translate(os.environ)
    api.tell_as_the_environment_says()
    # By name: what torch has there is a peer, never a part of ours.
    setattr(torch, "compile", compiling.compile)  # noqa: B010 see above
    stand_in("torch.compiler", compiling.COMPILER)
    setattr(sys.modules["torch._logging"], "set_logs", compiling.set_logs)  # noqa: B010 as above
    _install_settings()
    stand_in(_DYNAMO, {**compiling.DYNAMO, "config": sys.modules[f"{_DYNAMO}.config"]})
    stand_in(f"{_DYNAMO}.decorators", compiling.DYNAMO)
    stand_in(f"{_DYNAMO}.eval_frame", {"OptimizedModule": api.CompiledModule})
    stand_in(f"{_DYNAMO}.exc", compiling.ERRORS)
    stand_in(_INDUCTOR, {"config": sys.modules[f"{_INDUCTOR}.config"]})
    find_modules_below()
    MODELS[compiling.nothing] = lambda hooks, *args, **kwargs: None
    _install_export()
    atexit.register(warn)


def _install_settings() -> None:
    for name, mapped in (
        ("torch._dynamo.config", settings.DYNAMO),
        ("torch._inductor.config", {}),
        ("torch.fx.experimental._config", settings.SHAPES),
        ("torch.compiler.config", settings.COMPILER),
    ):
        there = sys.modules.get(name)
        if there is None:
            bind(name, Settings(name, mapped, partial(_loaded, name), partial(_is_loaded, name)))
        else:
            bind(name, Settings(name, mapped, partial(_itself, there), _yes))


def _itself(module: types.ModuleType) -> types.ModuleType:
    return module


def _yes() -> bool:
    return True


def _is_loaded(name: str) -> bool:
    holder = sys.modules.get(name.rpartition(".")[0])
    return isinstance(holder, StandIn) and holder.is_loaded


def _loaded(name: str) -> types.ModuleType:
    """The settings of torch: found in their package."""
    package, _, last = name.rpartition(".")
    holder = sys.modules[package]
    assert isinstance(holder, StandIn), f"{name} was not there when {package} was"
    return holder.replaced(last)


def _install_export() -> None:
    real = sys.modules[_EXPORT]
    stand_in(_EXPORT, exporting.functions(real))
