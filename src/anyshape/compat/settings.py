"""Modules of settings as scripts know them (`torch._dynamo.config`), before `anyshape.config`.

    torch._dynamo.config.automatic_dynamic_shapes = False
    with torch._dynamo.config.patch(capture_scalar_outputs=True): ...

Settings that anyshape has are read from and written to its own. Others keep the value that they are
given, and are named as without effect.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from contextlib import ContextDecorator, ExitStack
from typing import Any, Final

from anyshape.compat.module_shim import StandIn, is_asked_by_torch
from anyshape.compat.torch_setting_names import setting_names
from anyshape.compat.unmapped import note
from anyshape.config import config
from anyshape.support.spelling import did_you_mean

#: `torch._dynamo.config`
DYNAMO: Final = {
    "automatic_dynamic_shapes": "automatic_dynamic",
    "recompile_limit": "recompile_limit",
    "cache_size_limit": "recompile_limit",
    "automatic_dynamic_local_pgo": "profile",
    **{
        name: name
        for name in (
            "assume_static_by_default",
            "force_parameter_static_shapes",
            "force_nn_module_property_static_shapes",
            "allow_unspec_int_on_nn_module",
            "specialize_int",
            "specialize_float",
            "capture_scalar_outputs",
            "capture_dynamic_output_shape_ops",
            "error_on_recompile",
            "enable_compiler_collectives",
        )
    },
}
#: `torch._inductor.config`
INDUCTOR: Final = {"max_autotune": "max_autotune"}
#: `torch.fx.experimental._config`
SHAPES: Final = {
    "backed_size_oblivious": "backed_size_oblivious",
    "use_duck_shape": "duck_shape",
}
#: `torch.compiler.config`
COMPILER: Final = {"dynamic_sources": "dynamic_sources"}

#: Anyshape does what these ask for without being asked, or has nothing that they could be about.
_SILENT: Final = frozenset(
    {
        "suppress_errors",
        "verbose",
        "inline_inbuilt_nn_modules",
        "guard_nn_modules",
        "dynamic_shapes",
    }
)


class Settings(types.ModuleType):
    """A module of settings; `real` is that of torch, if it is loaded: asked for what is not known
    here, and changed by torch itself alone."""

    def __init__(self, name: str, mapped: Mapping[str, str], real: types.ModuleType | None) -> None:
        super().__init__(name)
        held = self.__dict__
        held["_mapped"], held["_loaded"], held["_own"] = mapped, real, {}

    @property
    def is_loaded(self) -> bool:
        if self.__dict__["_loaded"] is not None:
            return True
        holder = sys.modules.get(self.__name__.rpartition(".")[0])
        return isinstance(holder, StandIn) and holder.is_loaded

    def _real(self) -> types.ModuleType:
        """The settings of torch: found in their package where they were not there before."""
        if self.__dict__["_loaded"] is not None:
            return self.__dict__["_loaded"]
        package, _, last = self.__name__.rpartition(".")
        holder = sys.modules[package]
        assert isinstance(holder, StandIn), f"{self.__name__} was not there when {package} was"
        return holder.replaced(last)

    def __getattr__(self, name: str) -> Any:
        held = self.__dict__
        if name in held["_mapped"] and not (self.is_loaded and is_asked_by_torch()):
            return getattr(config, held["_mapped"][name])
        if name in held["_own"]:
            return held["_own"][name]
        if name.startswith("__") and not (name == "__file__" and self.is_loaded):
            raise AttributeError(name)
        return getattr(self._real(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        held = self.__dict__
        if name.startswith("__"):
            held[name] = value
        elif is_asked_by_torch():
            setattr(self._real(), name, value)
        elif name in held["_mapped"]:
            setattr(config, held["_mapped"][name], value)
        else:
            _check_name(self.__name__, name)
            if name not in _SILENT:
                note(f"{self.__name__}.{name}")
            held["_own"][name] = value

    def patch(self, changes: Any = None, value: Any = None, **more: Any) -> Any:
        """As a name and a value, as a dictionary, or by keyword."""
        if is_asked_by_torch():
            return self._real().patch(changes, value, **more)
        named = {changes: value} if isinstance(changes, str) else dict(changes or {})
        return Patch(self, {**named, **more})


def _check_name(module: str, name: str) -> None:
    """Torch, too, lets nobody set what is not there."""
    known = setting_names(module)
    if known and name not in known:
        raise AttributeError(f"{module}.{name} does not exist{did_you_mean(name, known)}")


class Patch(ContextDecorator):
    """Other values for a while: a context manager, and a decorator."""

    def __init__(self, settings: Settings, changes: Mapping[str, Any]) -> None:
        self._settings = settings
        self._changes = changes
        self._entered: list[ExitStack] = []

    def __enter__(self) -> None:
        held = self._settings.__dict__
        stack = ExitStack()
        ours = {held["_mapped"][n]: v for n, v in self._changes.items() if n in held["_mapped"]}
        stack.enter_context(config.patch(**ours))
        before = dict(held["_own"])
        stack.callback(lambda: (held["_own"].clear(), held["_own"].update(before)))
        for name, value in self._changes.items():
            if name not in held["_mapped"]:
                setattr(self._settings, name, value)
        self._entered.append(stack)

    def __exit__(self, *_: object) -> None:
        self._entered.pop().close()
