"""What the nodes of an exported graph are to a caller: which are weights, inputs, results, changes.

The names are those of `torch.export`, for those who take programs ahead of time. Weights are
attributes of the graph's module here, and not inputs: `arg` is the node that reads one, if any.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import torch
import torch.fx

from anyshape.export.inputs import ConditionPath, text_of
from anyshape.export.program import CONSTANTS, Program, place_of, place_text
from anyshape.support.lazy_dataclass import dataclass


class InputKind(Enum):
    USER_INPUT = "an argument, or something inside of one"
    PARAMETER = "a parameter"
    BUFFER = "a buffer"
    CONSTANT_TENSOR = "a tensor that the program had from elsewhere"


class OutputKind(Enum):
    USER_OUTPUT = "a part of the result"
    USER_INPUT_MUTATION = "what an argument is after the call"
    PARAMETER_MUTATION = "what a parameter is after the call"
    BUFFER_MUTATION = "what a buffer is after the call"


@dataclass(frozen=True, slots=True)
class InputSpec:
    """Something that the graph reads."""

    kind: InputKind
    #: the node that has it; None if the program does not use it
    arg: str | None
    #: as the caller knows it: `x`, `batch['ids']`, `layers.0.weight`
    target: str


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """Something that the graph gives."""

    kind: OutputKind
    #: the node that has it; None for a constant
    arg: str | None
    #: what is changed; None for a part of the result
    target: str | None = None
    #: of a part of the result that no node has
    value: object = None


@dataclass(frozen=True, slots=True)
class GraphSignature:
    """What the graph reads and gives, in order: weights before arguments, results before changes.

    signature = ep.graph_signature
    signature.user_inputs, signature.parameters, signature.buffers_to_mutate
    """

    input_specs: tuple[InputSpec, ...]
    output_specs: tuple[OutputSpec, ...]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(each.target for each in self.input_specs if each.kind is kind)

    def _mutated(self, kind: OutputKind) -> dict[str, str]:
        found = [each for each in self.output_specs if each.kind is kind]
        return {str(each.arg): str(each.target) for each in found}

    @property
    def user_inputs(self) -> tuple[str, ...]:
        """The tensors and dynamic integers among the arguments, as the caller writes them."""
        return self._targets(InputKind.USER_INPUT)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of tensors that the program had from elsewhere."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_outputs(self) -> tuple[object, ...]:
        """The parts of the result: nodes by name, constants as they are."""
        found = [each for each in self.output_specs if each.kind is OutputKind.USER_OUTPUT]
        return tuple(each.value if each.arg is None else each.arg for each in found)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """The nodes that read parameters, by name."""
        return self._read(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """The nodes that read buffers, by name."""
        return self._read(InputKind.BUFFER)

    def _read(self, kind: InputKind) -> dict[str, str]:
        specs = [each for each in self.input_specs if each.kind is kind]
        return {each.arg: each.target for each in specs if each.arg is not None}

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """The nodes that are buffers after the call, with the names of these."""
        return self._mutated(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """The nodes that are parameters after the call, with the names of these."""
        return self._mutated(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """The nodes that are arguments after the call, with what the caller calls these."""
        return self._mutated(OutputKind.USER_INPUT_MUTATION)


def signature_of(program: Program) -> GraphSignature:
    nodes = dict(_places(program.graph_module.graph))
    inputs = (*_weights(program, nodes), *_arguments(program, nodes))
    kinds = {each.target: each.kind for each in inputs}
    return GraphSignature(inputs, tuple(_outputs(program, kinds)))


def _places(graph: torch.fx.Graph) -> Iterator[tuple[ConditionPath | str, str]]:
    """Where nodes find what the graph is given, with their names."""
    reading: set[torch.fx.Node] = set()
    for node in graph.nodes:
        inside = node.target in (operator.getitem, getattr) and node.args[0] in reading
        if node.op == "placeholder" or inside:
            reading.add(node)
        elif node.op != "get_attr":
            continue
        yield place_of(node), node.name


def _weights(program: Program, nodes: Mapping[ConditionPath | str, str]) -> Iterator[InputSpec]:
    module = program.graph_module
    for name, _ in module.named_parameters(remove_duplicate=False):
        yield InputSpec(InputKind.PARAMETER, nodes.get(name), name)
    for name, _ in module.named_buffers(remove_duplicate=False):
        is_constant = name.startswith(CONSTANTS)
        kind = InputKind.CONSTANT_TENSOR if is_constant else InputKind.BUFFER
        yield InputSpec(kind, nodes.get(name), name)


def _arguments(program: Program, nodes: Mapping[ConditionPath | str, str]) -> Iterator[InputSpec]:
    inputs = program.inputs
    ways = [each.way for each in inputs.conditions if each.kind == "tensor"]
    ways += [each.way for each in inputs.sources if each.dim is None]
    order = {name: index for index, name in enumerate(program.signature.parameters)}
    for way in sorted(dict.fromkeys(ways), key=lambda way: order.get(way[0], len(order))):
        yield InputSpec(InputKind.USER_INPUT, nodes.get(way), text_of(way))


_MUTATIONS = {
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.CONSTANT_TENSOR: OutputKind.BUFFER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}


def _outputs(program: Program, kinds: Mapping[str, InputKind]) -> Iterator[OutputSpec]:
    result: Any = next(iter(reversed(program.graph_module.graph.nodes))).args[0]
    pairs: Any = ()
    if program.changes:
        result, pairs = result
    for leaf in _leaves(result):
        is_node = isinstance(leaf, torch.fx.Node)
        name = leaf.name if is_node else None
        yield OutputSpec(OutputKind.USER_OUTPUT, name, None, None if is_node else leaf)
    for changed, value in pairs:
        name = place_text(place_of(changed))
        yield OutputSpec(_MUTATIONS[kinds.get(name, InputKind.USER_INPUT)], value.name, name)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    else:
        yield value
