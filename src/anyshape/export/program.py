"""The data of an exported program, whatever it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import Signature
from operator import attrgetter
from typing import Any, Final, cast

import torch
import torch.fx

from anyshape.export import results
from anyshape.export.inputs import ConditionPath, Inputs, text_of
from anyshape.support.lazy_dataclass import dataclass

#: Names of tensors that are no weights, and that the program had from elsewhere, begin so.
CONSTANTS: Final = "constants."


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A graph, how it is called, and what its inputs must be."""

    name: str
    graph_module: torch.fx.GraphModule
    signature: Signature
    inputs: Inputs
    #: a value of each symbol that all constraints allow
    examples: Mapping[str, int]
    #: arguments and weights that a call changes, by name. If there are any, the graph returns its
    #: result and, for each of them, a pair: the tensor, and its elements after the call
    changes: tuple[str, ...] = ()

    def changed_places(self) -> list[ConditionPath | str]:
        """Where the tensors are that a call changes: ways into the arguments, names of weights."""
        if not self.changes:
            return []
        output: Any = next(iter(reversed(self.graph_module.graph.nodes))).args[0]
        return [place_of(target) for target, _ in output[1]]

    def with_changes(self) -> torch.fx.GraphModule:
        """The graph as the program was: it changes what the program changed, and returns what it
        returned. Weights are shared."""
        if not self.changes:
            return self.graph_module
        graph = torch.fx.Graph()
        result, pairs = cast("Any", graph.graph_copy(self.graph_module.graph, {}))
        # Torch lets nobody write to parameters where it records.
        weights = [str(target.target) for target, _ in pairs if target.op == "get_attr"]
        recorded = any(attrgetter(name)(self.graph_module).requires_grad for name in weights)
        if recorded:
            graph.call_function(torch._C._set_grad_enabled, (False,))
        for target, value in pairs:
            graph.call_method("copy_", (target, value))
        if recorded:
            graph.call_function(torch._C._set_grad_enabled, (True,))
        graph.output(result)
        return with_weights_of(self.graph_module, graph)

    @property
    def gradients(self) -> tuple[str, ...]:
        """Arguments and weights whose `.grad` a call sets or adds to, by name."""
        found: list[str] = []
        for node in self.graph_module.graph.nodes:
            if not is_of_gradient(node) or node.target is results.expect_no_grad:
                continue
            if node.args[-1] is not None:
                found.append(place_text(place_of(node.args[0])))
        return tuple(found)

    @property
    def sets_gradients(self) -> bool:
        """Whether a call looks at `.grad` of tensors, or changes it: nobody else has that."""
        return any(map(is_of_gradient, self.graph_module.graph.nodes))

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


def is_of_gradient(node: torch.fx.Node) -> bool:
    """Whether it looks at `.grad` of a tensor, or sets it."""
    if node.target is results.set_attribute:
        return node.args[1] == "grad"
    return node.target in (results.add_grad, results.expect_no_grad)


def with_weights_of(module: torch.fx.GraphModule, graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """Another graph with the same weights: what becomes of one's becomes of the other's."""
    made = torch.fx.GraphModule(module, graph, type(module).__name__)
    share_weights(module, made)
    return made.train(module.training)


def share_weights(module: torch.nn.Module, other: torch.nn.Module) -> None:
    for held in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
        setattr(other, held, getattr(module, held))


def place_of(node: torch.fx.Node) -> ConditionPath | str:
    """Where a tensor is that a graph is given: a way into its arguments, or a weight's name."""
    if node.op == "get_attr":
        return str(node.target)
    if node.op == "placeholder":
        return (str(node.target).lstrip("*"),)
    parent, key = node.args
    place = place_of(cast("torch.fx.Node", parent))
    assert isinstance(place, tuple), "weights have no items"
    return (*place, ("attribute" if node.target is getattr else "item", key))


def place_text(place: ConditionPath | str) -> str:
    return place if isinstance(place, str) else text_of(place)


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
