"""A module that stands where one of torch's compiler would: it knows the names that scripts use.

Whoever asks for another name, or for a module below it, gets that of torch, which is loaded then;
the names that are known here stay ours.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, Final

import torch

from anyshape.compat.unmapped import note

_TORCH: Final = Path(torch.__file__).parent
#: Ours, and on torch's side: it asks for what torch itself has.
_BRIDGE: Final = str(Path(__file__).parents[1] / "export" / "torch_bridge.py")
#: Those who pass a question on.
_BETWEEN: Final = ("<frozen importlib", str(Path(__file__).parent), contextlib.__file__)


class StandIn(types.ModuleType):
    """See the module."""

    def __init__(self, name: str, known: Mapping[str, Any]) -> None:
        super().__init__(name)
        held = self.__dict__
        held["_known"] = dict(known)
        held.update(known)
        # A package, so that modules below it can be asked for: `_Below` finds them.
        held["__path__"] = [str(_TORCH.joinpath(*name.split(".")[1:]))]

    def __getattr__(self, name: str) -> Any:
        # Python asks modules for these in passing.
        if name.startswith("__"):
            raise AttributeError(name)
        if not is_asked_by_torch():
            note(f"{self.__name__}.{name}")
        return getattr(self.real(), name)

    def real(self) -> types.ModuleType:
        """The module of torch. Nothing in it is changed: its own functions use each other."""
        if not self.is_loaded:
            _load(self.__name__)
        return self.__dict__["_real"]

    @property
    def is_loaded(self) -> bool:
        return "_real" in self.__dict__

    def stands_for(self, real: types.ModuleType) -> None:
        """The module is loaded. What it has in its place under our names is kept: modules below it
        may be bound to others."""
        held = self.__dict__
        held["_replaced"] = {name: getattr(real, name, None) for name in held["_known"]}
        held["_real"] = real
        held["__file__"] = real.__file__
        self.__class__ = LoadedStandIn  # pyright: ignore[reportAttributeAccessIssue] it is one

    def replaced(self, name: str) -> Any:
        """What torch has under a name that is known here."""
        self.real()
        return self.__dict__["_replaced"][name]


class LoadedStandIn(StandIn):
    """Beside the module itself, which is loaded: to torch, it is that module."""

    def __getattribute__(self, name: str) -> Any:
        held = types.ModuleType.__getattribute__(self, "__dict__")
        if name in held["_replaced"] and is_asked_by_torch():
            return held["_replaced"][name]
        return types.ModuleType.__getattribute__(self, name)


def replaced(module: str, name: str) -> Any:
    """What torch has under a name of a module in which it is ours."""
    there = sys.modules[module]
    return there.replaced(name) if isinstance(there, StandIn) else getattr(_PUT_AWAY[module], name)


#: Of modules that were there already: what they had under the names that are ours now.
_PUT_AWAY: Final[dict[str, types.SimpleNamespace]] = {}


def _load(name: str) -> None:
    """Import a module of torch with nothing of ours in its place, nor in that of modules above and
    below: those that come with it are loaded too."""
    package = ".".join(name.split(".")[:2])
    aside = {
        each: module
        for each, module in sys.modules.items()
        if (each == package or each.startswith(package + ".")) and _is_waiting(module)
    }
    for each in aside:
        del sys.modules[each]
        above, _, last = each.rpartition(".")
        parent = aside.get(above) or sys.modules.get(above)
        if parent is not None and last in parent.__dict__:
            delattr(parent, last)
    try:
        importlib.import_module(name)
        for each, module in aside.items():
            real = sys.modules.get(each)
            if isinstance(module, StandIn) and real is not None:
                module.stands_for(real)
    finally:
        for each, module in sorted(aside.items()):  # packages first
            bind(each, module)


def _is_waiting(module: object) -> bool:
    """Whether it is ours, and torch's own is not loaded."""
    is_ours = type(module).__module__.startswith("anyshape.")
    return is_ours and not getattr(module, "is_loaded", False)


def bind(name: str, module: types.ModuleType) -> None:
    """Let `import name` and the attribute of its package be this module."""
    sys.modules[name] = module
    package, _, last = name.rpartition(".")
    parent = sys.modules.get(package)
    if parent is not None:
        # Past the module's own way to set names, which is for settings.
        parent.__dict__[last] = module


def is_asked_by_torch(*on_behalf: str) -> bool:
    """Whether torch itself asks for what is ours: that is none of the script's business. These
    modules of it ask on behalf of a script."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    if frame.f_globals.get("__name__") in on_behalf:
        return False
    return frame.f_code.co_filename.startswith((str(_TORCH), _BRIDGE))


def stand_in(name: str, known: Mapping[str, Any]) -> None:
    """Put a stand-in where the module would be; where the module is there already, put our names
    into it."""
    there = sys.modules.get(name)
    if there is None:
        bind(name, StandIn(name, known))
    elif not isinstance(there, StandIn):
        away = _PUT_AWAY.setdefault(name, types.SimpleNamespace())
        for each, value in known.items():
            setattr(away, each, getattr(there, each, None))
            setattr(there, each, value)


# -- modules below a stand-in ---------------------------------------------------------------------


class _Below(MetaPathFinder):
    """Loads the package of torch before a module of it: they need each other."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        above = [sys.modules.get(name) for name in _packages(fullname)]
        waiting = [each for each in above if isinstance(each, StandIn) and not each.is_loaded]
        if not waiting:
            return None
        waiting[0].real()
        there = sys.modules.get(fullname)
        if there is not None:
            return ModuleSpec(fullname, _There(there))
        return PathFinder.find_spec(fullname, path)


class _There(Loader):
    """Of a module that was loaded while it was looked for."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None: ...


def _packages(name: str) -> Iterable[str]:
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def find_modules_below() -> None:
    sys.meta_path.insert(0, _Below())
