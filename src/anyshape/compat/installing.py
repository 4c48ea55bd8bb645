"""Put anyshape behind the names of PyTorch's compiler, in this process."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch

import anyshape
from anyshape import api
from anyshape.compat import compiling, settings, unmapped
from anyshape.compat.environment import translate
from anyshape.compat.settings import Settings
from anyshape.compat.stand_in import StandIn, replace, stand_in
from anyshape.events.settings import set_logs_from_environment

_DYNAMO: Final = "torch._dynamo"
_EXPORT: Final = "torch.export"

_installed: Final[set[str]] = set()


def install() -> None:
    """From here on `torch.compile` and its kin are anyshape's. May be called again."""
    if _installed:
        return
    _installed.add("compat")
    translate(os.environ)
    set_logs_from_environment()
    # By name: what torch has there is a peer, never a part of ours.
    setattr(torch, "compile", compiling.compile)  # noqa: B010 see above
    torch.compiler.reset = api.reset
    setattr(sys.modules["torch._logging"], "set_logs", compiling.set_logs)  # noqa: B010 as above
    _install_settings()
    stand_in(_DYNAMO, {**compiling.DYNAMO, "config": sys.modules["torch._dynamo.config"]})
    stand_in(f"{_DYNAMO}.decorators", compiling.DYNAMO)
    sys.modules[_DYNAMO].decorators = sys.modules[f"{_DYNAMO}.decorators"]
    _install_export()
    atexit.register(unmapped.warn)


def _install_settings() -> None:
    for name, mapped in (
        ("torch._dynamo.config", settings.DYNAMO),
        ("torch.fx.experimental._config", settings.SHAPES),
        ("torch.compiler.config", settings.COMPILER),
    ):
        there = sys.modules.get(name)
        real: Callable[[], types.ModuleType]
        real = partial(_loaded, name) if there is None else partial(_itself, there)
        replace(name, Settings(name, mapped, real))


def _itself(module: types.ModuleType) -> types.ModuleType:
    return module


def _loaded(name: str) -> types.ModuleType:
    """The settings of torch: found in their package, which is loaded without ours in its place."""
    package, _, last = name.rpartition(".")
    holder = sys.modules[package]
    real = holder.real() if isinstance(holder, StandIn) else importlib.import_module(package)
    return sys.modules[real.__name__].__dict__[last]


def _install_export() -> None:
    export: Any = getattr(anyshape, "export", None)
    if export is not None:
        stand_in(_EXPORT, {"export": export, "Dim": api.Dim})
