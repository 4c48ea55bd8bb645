"""A module that stands where one of torch's compiler would: it knows the names that scripts use.

Whoever asks for another name, or for a module below it, gets that of torch, which is loaded then;
the names that are known here stay ours.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch

from anyshape.compat.unmapped import note

_TORCH: Final = str(Path(torch.__file__).parent)
_IMPORTING: Final = "<frozen importlib"


class StandIn(types.ModuleType):
    """See the module."""

    def __init__(self, name: str, known: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__dict__["_known"] = dict(known)
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        # Python asks modules for these in passing.
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if name != "__path__" and not _asked_by_torch():
            note(f"{self.__name__}.{name}")
        return getattr(self.real(), name)

    def real(self) -> types.ModuleType:
        """The module of torch, with our names in it."""
        held = self.__dict__
        if "_real" not in held:
            name = self.__name__
            # What stands in for modules below it would be taken for them.
            aside = {n: m for n, m in sys.modules.items() if _is_within(n, name) and _is_ours(m)}
            for each in aside:
                del sys.modules[each]
            try:
                held["_real"] = importlib.import_module(name)
            finally:
                sys.modules.update(aside)
                _bind(name, self)
            for known, value in held["_known"].items():
                setattr(held["_real"], known, value)
        return held["_real"]


def _is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _is_ours(module: object) -> bool:
    return type(module).__module__.startswith("anyshape.")


def _bind(name: str, module: types.ModuleType) -> None:
    """Let `import name` and the attribute of its package be this module."""
    sys.modules[name] = module
    package, _, last = name.rpartition(".")
    parent = sys.modules.get(package)
    if parent is not None:
        setattr(parent, last, module)


def _asked_by_torch() -> bool:
    """Whether torch itself asks, which is none of the script's business."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_IMPORTING):
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(_TORCH)


def stand_in(name: str, known: Mapping[str, Any]) -> None:
    """Put a stand-in where the module would be; where the module is there already, put our names
    into it."""
    there = sys.modules.get(name)
    if there is None:
        _bind(name, StandIn(name, known))
    elif not isinstance(there, StandIn):
        for each, value in known.items():
            setattr(there, each, value)


def replace(name: str, module: types.ModuleType) -> None:
    _bind(name, module)
