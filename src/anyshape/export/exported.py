"""An exported program: a graph with its weights, and what its inputs must be."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import Signature
from typing import Any

import torch
import torch.fx

from anyshape.errors import ExportInputError
from anyshape.export import onnx, package, torch_bridge
from anyshape.export.inputs import Inputs
from anyshape.export.program import Program
from anyshape.export.show import readable
from anyshape.export.suggest import Suggestion
from anyshape.ops.modes import back_to, modes_now
from anyshape.symbolic import Range


@dataclass(frozen=True, slots=True)
class DynamicSize:
    """A size or an integer that is not fixed."""

    #: where it is read: `x.shape[0]`
    source: str
    range: Range
    #: every place that has it
    places: tuple[str, ...]


class Exported:
    """Callable like the program it was made of, for the inputs that its constraints describe."""

    def __init__(
        self,
        program: Program,
        suggested: Suggestion | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._program = program
        #: a spec of which no size is fixed that could be dynamic; None if there is nothing to say
        self.suggested = suggested
        #: what was asked for and is not so, in words
        self.notes: tuple[str, ...] = tuple(notes)

    @property
    def name(self) -> str:
        return self._program.name

    @property
    def graph_module(self) -> torch.fx.GraphModule:
        """The graph with its weights: it runs by itself, and does not look at its inputs first."""
        return self._program.graph_module

    @property
    def graph(self) -> torch.fx.Graph:
        return self.graph_module.graph

    @property
    def signature(self) -> Signature:
        return self._program.signature

    @property
    def inputs(self) -> Inputs:
        return self._program.inputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            call = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ExportInputError(function=self.name, problems=(str(error),)) from None
        call.apply_defaults()
        self.inputs.check(self.name, call.arguments)
        state = modes_now()
        try:
            return self.graph_module.forward(*call.args, **call.kwargs)
        except BaseException:
            back_to(state)
            raise

    def module(self) -> torch.nn.Module:
        """For further training, or to be compiled: a plain module with the same parameters."""
        graph_module = self.graph_module
        # A GraphModule has a way of its own to be called, in native code.
        kind = type(self.name.replace(".", "_"), (torch.nn.Module,), {})
        setattr(kind, "forward", type(graph_module).forward)  # noqa: B010 the stub has no setter
        made = kind()
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            setattr(made, name, getattr(graph_module, name))
        return made.train(graph_module.training)

    def state_dict(self) -> Mapping[str, torch.Tensor]:
        return self.graph_module.state_dict()

    @property
    def symbols(self) -> dict[str, DynamicSize]:
        """What is dynamic, by name."""
        inputs = self.inputs
        return {
            name: DynamicSize(
                home.name,
                inputs.ranges[name],
                tuple(each.name for each in inputs.sources if each.symbol == name),
            )
            for name, home in inputs.homes.items()
        }

    @property
    def constraints(self) -> tuple[str, ...]:
        """What must hold of the sizes, one sentence each."""
        return tuple(self._program.constraints())

    def print_readable(self, print_output: bool = True) -> str:
        """The program as text: inputs, constraints, operators with the lines they come from."""
        text = readable(self._program)
        if print_output:
            print(text)  # noqa: T201 it is what it is called for
        return text

    def __repr__(self) -> str:
        lines = [f"Exported {self.name}{self._program.inputs_text()}"]
        lines += [f"    {each}" for each in self.constraints]
        lines += [f"    note: {each}" for each in self.notes]
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a package: a zip of JSON and safetensors."""
        package.save(self._program, path)

    def to_torch(self) -> Any:
        """A `torch.export.ExportedProgram`, made by torch of this graph and these sizes."""
        return torch_bridge.to_torch(self._program)

    def to_onnx(self, path: str | os.PathLike[str], opset: int = 18) -> None:
        """Write an ONNX model with named dynamic sizes."""
        onnx.to_onnx(self._program, path, opset)


def load(
    path: str | os.PathLike[str],
    *,
    classes: Sequence[type] = (),
    native_code: str | None = None,
) -> Exported:
    """The program of a package. Results of classes that are not among `classes` are `Record`s:
    nothing is imported because a package says so."""
    return Exported(package.load(path, classes, native_code))
