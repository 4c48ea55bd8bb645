"""timm and segmentation_models_pytorch without torchvision.

Their models use nothing of it that matters here, yet both import it: for pictures from files, for
one kind of normalization, for backbones that have a namesake in timm. torchvision's wheel wants
CUDA's libraries. Where it cannot be imported, modules with empty classes stand for it while the two
are being imported, and are gone afterwards.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any, Final

from torch import nn

_MODULES: Final = (
    "torchvision",
    "torchvision.datasets",
    "torchvision.models",
    "torchvision.models.densenet",
    "torchvision.models.resnet",
    "torchvision.models.vgg",
    "torchvision.ops",
    "torchvision.ops.misc",
    "torchvision.transforms",
    "torchvision.transforms.functional",
)


class _Empty(types.ModuleType):
    """A module in which every name is an empty class, or a function that does nothing."""

    __path__ = []  # noqa: RUF012 what makes it a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made: Any = _nothing
        if name[0].isupper():
            made = type(
                name, (nn.Module,), {name: name for name in _INTERPOLATIONS} | {"__doc__": ""}
            )
        setattr(self, name, made)
        return made


_INTERPOLATIONS: Final = ("NEAREST", "BILINEAR", "BICUBIC", "BOX", "HAMMING", "LANCZOS")


def _nothing(*_: Any, **__: Any) -> None:
    return None


def imported(name: str) -> Any:
    """A library that imports torchvision."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError):  # Not there, or its operators cannot be loaded.
        return _imported_without(name)
    return importlib.import_module(name)


def _imported_without(name: str) -> Any:
    _forget()
    for full in _MODULES:
        module = sys.modules[full] = _Empty(full)
        parent, _, last = full.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    try:
        return importlib.import_module(name)
    finally:
        _forget()


def _forget() -> None:
    for full in [full for full in sys.modules if full.partition(".")[0] == "torchvision"]:
        del sys.modules[full]
