"""Processes that a program starts, be it by spawn or by torchrun: anyshape is behind
`torch.compile` there too.

A folder with a `sitecustomize` is put before the module path that they inherit. In such a process
nothing is loaded until it loads torch itself.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import MutableMapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

_FOLDER: Final = str(Path(__file__).parent / "in_children")
_PATH: Final = "PYTHONPATH"


def reach(environment: MutableMapping[str, str]) -> None:
    """Let processes with this environment know."""
    before = [part for part in environment.get(_PATH, "").split(os.pathsep) if part]
    if _FOLDER not in before:
        environment[_PATH] = os.pathsep.join((_FOLDER, *before))


def install_after_torch() -> None:
    """Put anyshape behind `torch.compile` once this process has loaded torch."""
    sys.meta_path.insert(0, _Watch())


class _Watch(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is not None and found.loader is not None:
            found.loader = _ThenInstall(found.loader)
        return found


class _ThenInstall(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None, "a module that is being loaded has a spec"
        # Torch looks at its own: the real one from here on.
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        from anyshape.compat import install

        install()
