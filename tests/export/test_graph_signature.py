"""What an exported program says of its graph, in the words of torch's programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.export.graph_signature import InputKind, OutputKind


class Net(nn.Module):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros(()))
        self.scale = torch.full((2,), 3.0)

    def forward(self, x: Tensor, tree: dict[str, Any], k: int = 3) -> dict[str, Any]:
        self.calls.add_(1)
        y = self.linear(x) * self.scale + tree["a"][0]
        tree["b"].mul_(2)
        return {"y": y, "rest": [y.sum(), k, None], "rows": x.shape[0]}


def arguments(rows: int) -> tuple[Any, ...]:
    return torch.ones(rows, 4), {"a": (torch.ones(rows, 2),), "b": torch.ones(5)}


@pytest.fixture(params=["exported", "loaded"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> anyshape.Exported:
    spec = {"x": "batch 4", "tree": {"a": ("batch 2",), "b": None}}
    made = anyshape.export(Net(), arguments(3), dynamic_shapes=spec)
    if request.param == "exported":
        return made
    made.save(tmp_path / "net.zip")
    return anyshape.load(tmp_path / "net.zip")


def test_inputs(program: anyshape.Exported):
    signature = program.graph_signature
    assert signature.user_inputs == ("x", "tree['b']", "tree['a'][0]")
    assert signature.parameters == ("linear.weight", "linear.bias")
    assert signature.buffers == ("calls",)
    assert len(signature.lifted_tensor_constants) == 1
    nodes = {node.name for node in program.graph.nodes}
    for each in signature.input_specs:
        assert each.arg in nodes
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    targets = {node.name: node.target for node in program.graph.nodes if node.op == "get_attr"}
    assert weights.items() <= targets.items()


def test_outputs(program: anyshape.Exported):
    signature = program.graph_signature
    first, total, *rest = signature.user_outputs
    nodes = {node.name for node in program.graph.nodes}
    assert {first, total, rest[-1]} <= nodes
    assert rest[:2] == [3, None]
    kinds = [each.kind for each in signature.output_specs]
    assert kinds == [OutputKind.USER_OUTPUT] * 5 + [
        OutputKind.BUFFER_MUTATION,
        OutputKind.USER_INPUT_MUTATION,
    ]
    assert list(signature.buffers_to_mutate.values()) == ["calls"]
    assert list(signature.user_inputs_to_mutate.values()) == ["tree['b']"]
    assert not signature.parameters_to_mutate
    assert {*signature.buffers_to_mutate, *signature.user_inputs_to_mutate} <= nodes


def test_values_of_the_graph_are_what_it_says(program: anyshape.Exported):
    """Run the graph and look at the nodes that are named as mutations."""
    args = arguments(7)
    result, pairs = program.graph_module(*args)
    signature = program.graph_signature
    changed = [*signature.buffers_to_mutate, *signature.user_inputs_to_mutate]
    assert len(pairs) == len(changed)
    torch.testing.assert_close(pairs[1][1], args[1]["b"] * 2)
    assert result["rows"] == 7


def test_integers_are_inputs_where_they_are_dynamic():
    def f(x: Tensor, n: int) -> Tensor:
        return x * n

    spec = {"x": "size", "n": anyshape.Dim("n")}
    program = anyshape.export(f, (torch.ones(2), 3), dynamic_shapes=spec)
    assert program.graph_signature.user_inputs == ("x", "n")
    assert program.range_constraints.keys() == {"size", "n"}


def test_weights(program: anyshape.Exported):
    named = dict(program.named_parameters())
    assert named.keys() == {"linear.weight", "linear.bias"}
    assert [each.shape for each in program.parameters()] == [each.shape for each in named.values()]
    assert "calls" in dict(program.named_buffers())
    assert len(list(program.buffers())) == 2
    assert program.state_dict.keys() == program.state_dict().keys()
    assert program.state_dict["linear.weight"].shape == (2, 4)
    assert set(named) <= set(program.state_dict)


def test_a_call_of_examples(program: anyshape.Exported):
    args, kwargs = program.example_inputs
    assert program(*args, **kwargs)["y"].shape[1] == 2


def test_kinds_are_described():
    assert all(each.value for each in (*InputKind, *OutputKind))
