"""Graphs whose code calls the functions that were captured.

The code of a graph names torch's functions (`torch.relu(x)`), and so would call whatever a library
or a program has put in their place since.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.fx
from torch.fx.graph import PythonCode, _is_from_torch
from torch.fx.node import _get_qualified_name

from anyshape.ops.origins import is_of_torch


class BoundGraph(torch.fx.Graph):
    """A graph that is called by its nodes' targets, whatever has their names by then."""

    def python_code(self, root_module: str, **settings: Any) -> PythonCode:
        with self._with_names():
            code = super().python_code(root_module, **settings)
            if "torch" in code.globals:
                code.globals["torch"] = self._targets()
        return code

    @contextmanager
    def _with_names(self) -> Iterator[None]:
        """What has no name of its own by which it could be called has one while code is written:
        methods of tensors that have been replaced, and what replaces others under their names."""
        nameless = [node for node in self.nodes if _is_nameless(node.target)]
        targets = [node.target for node in nameless]
        try:
            for node, target in zip(nameless, targets, strict=True):
                node.target = _named(target)
            yield
        finally:
            for node, target in zip(nameless, targets, strict=True):
                node.target = target

    def _targets(self) -> types.ModuleType:
        """torch, with the targets of this graph under their names."""
        modules = {(): _standing_for(torch)}
        for node in self.nodes:
            # By name are called those that torch's code generator takes for torch's own.
            if node.op == "call_function" and _is_from_torch(node.target):
                root, *path, last = _get_qualified_name(node.target).split(".")
                if root == "torch":
                    vars(_module_at(modules, tuple(path)))[last] = node.target
        return modules[()]


def _is_nameless(target: object) -> bool:
    if isinstance(target, types.FunctionType):
        # One that has its name from a function of torch that it wraps.
        return _is_from_torch(target) and not is_of_torch(target)
    if not isinstance(target, types.MethodDescriptorType | types.WrapperDescriptorType):
        return False
    return getattr(torch.Tensor, target.__name__, None) is not target


def _named(method: Any) -> object:
    def call(*args: object, **kwargs: object) -> Any:
        return method(*args, **kwargs)

    call.__name__ = method.__name__
    return call


def _module_at(
    modules: dict[tuple[str, ...], types.ModuleType], path: tuple[str, ...]
) -> types.ModuleType:
    found = modules.get(path)
    if found is None:
        *before, name = path
        holder = _module_at(modules, tuple(before))
        found = modules[path] = vars(holder)[name] = _standing_for(getattr(holder, name))
    return found


def _standing_for(holder: Any) -> types.ModuleType:
    """A module that has the names of another one, or of a class, and room for targets.

    The interpreter has a quick way for what plain modules hold, and that is what the graph calls;
    the rest, as dtypes, is asked of the other one.
    """
    made = types.ModuleType(holder.__name__)
    vars(made)["__getattr__"] = functools.partial(getattr, holder)
    return made
