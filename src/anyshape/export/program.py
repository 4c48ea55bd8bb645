"""The data of an exported program, whatever it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import Signature
from typing import Any

import torch
import torch.fx

from anyshape.export.inputs import Inputs


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A graph, how it is called, and what its inputs must be."""

    name: str
    graph_module: torch.fx.GraphModule
    signature: Signature
    inputs: Inputs
    #: a value of each symbol that all constraints allow
    examples: Mapping[str, int]

    def constraints(self) -> Iterator[str]:
        """What must hold of the sizes, one sentence each."""
        return self.inputs.constraints()

    def sizes_of(self, name: str) -> str:
        """The type of an input, if it is a tensor: `float32[batch, 4]`."""
        for condition in self.inputs.conditions:
            if condition.name == name and condition.kind == "tensor":
                return self.tensor_text(condition.value)
        return ""

    def inputs_text(self) -> str:
        """The parameters, with the sizes of tensors."""
        parts: list[str] = []
        for name in self._callers_names():
            sizes = self.sizes_of(name)
            parts.append(f"{name}: {sizes}" if sizes else name)
        return f"({', '.join(parts)})"

    def _callers_names(self) -> Iterator[str]:
        """The parameters; for one that takes any named argument, those of the example."""
        for name in self.signature.parameters:
            if name not in self.inputs.starred:
                yield name
                continue
            ways = [each.way for each in self.inputs.conditions if each.way[0] == name]
            yield from dict.fromkeys(str(way[1][1]) for way in ways if len(way) > 1)

    def tensor_text(self, value: dict[str, Any]) -> str:
        sizes = ", ".join(map(self.inputs.size_text, value["sizes"]))
        dtype = value.get("dtype")
        return f"{'tensor' if dtype is None else str(dtype).removeprefix('torch.')}[{sizes}]"


def put_tensor(root: torch.nn.Module, name: str, value: torch.Tensor, is_parameter: bool) -> None:
    """Have a tensor at a dotted name."""
    *folders, last = name.split(".")
    for folder in folders:
        if folder not in root._modules:
            root.add_module(folder, torch.nn.Module())
        root = root._modules[folder]  # pyright: ignore[reportAssignmentType] just put there
    if is_parameter:
        root.register_parameter(last, value)  # pyright: ignore[reportArgumentType] it is one
    else:
        root.register_buffer(last, value)
