"""Writes one model: inputs with the names of their sizes, a row for each node, outputs."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import torch
import torch.fx

from anyshape.errors import CannotExport
from anyshape.export import results
from anyshape.export.conditions import ConditionPath
from anyshape.export.examples import example_call
from anyshape.export.onnx.outputs import outputs_in, sizes_in_text
from anyshape.export.onnx.table import has_row, text_of_target, written
from anyshape.export.program import Program
from anyshape.export.show import SHAPE
from anyshape.export.tensors_file import bytes_of
from anyshape.ops.onnx import Named, NotMapped, known

_WORDS: Final = re.compile(r"\W+")


def to_onnx(program: Program, path: str | os.PathLike[str], opset: int = 18) -> None:
    """Write the model; an error names the operator that does not map."""
    if program.sets_gradients:
        raise CannotExport(
            function=program.name,
            reason="it calls `backward()`, and an ONNX model has no `.grad` to set",
            hints=["return the gradients: `torch.autograd.grad(loss, parameters)`"],
        )
    try:
        onnx = import_module("onnx")
    except ImportError:
        raise CannotExport(
            function=program.name,
            reason="the package `onnx` is not installed",
            hints=["pip install anyshape[onnx]"],
        ) from None
    try:
        model = Writer(onnx, program, opset).model()
    except NotMapped as error:
        raise CannotExport(
            function=program.name,
            reason=f"ONNX has no operator here for {error}",
            hints=["use the package itself: `ep.save(path)`"],
        ) from None
    onnx.checker.check_model(model)
    onnx.save(model, os.fspath(path))


class _Given:
    """A container among the arguments: its items are inputs of the model."""

    def __init__(self, way: ConditionPath) -> None:
        self.way = way


class Writer:
    """Writes one model. A value is a name in it, or a constant of Python."""

    def __init__(self, onnx: Any, program: Program, opset: int) -> None:
        self.onnx = onnx
        self._program = program
        self._opset = opset
        self._nodes: list[object] = []
        self._weights: list[object] = []
        self._inputs: list[object] = []
        self._outputs: list[object] = []
        self._names: set[str] = set()
        #: by node of the graph
        self.values: dict[torch.fx.Node, Any] = {}
        self.examples: dict[torch.fx.Node, object] = {}
        self._by_way: dict[ConditionPath, str] = {}

    def model(self) -> Any:
        self._refuse_unknown()
        self._run_example()
        self._declare_inputs()
        for node in self._program.graph_module.graph.nodes:
            self._write(node)
        helper = self.onnx.helper
        graph = helper.make_graph(
            self._nodes, self._program.name, self._inputs, self._outputs, self._weights
        )
        opsets = [helper.make_opsetid("", self._opset)]
        # Versions of the format go on faster than those who read it.
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=8, producer_name="anyshape"
        )

    def _run_example(self) -> None:
        args, kwargs = example_call(self._program)
        bound = self._program.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        recording = _Recording(self._program.graph_module, self.examples, bound.arguments)
        try:
            with torch.no_grad():
                recording.run()
        except Exception as error:
            raise NotMapped(f"a program that fails for zeros ({error})") from None

    def _declare_inputs(self) -> None:
        for condition in self._program.inputs.conditions:
            if condition.kind == "tensor" and condition.value.get("dtype") is not None:
                name = self.fresh(condition.name)
                kind = self.element_type(condition.value["dtype"])
                sizes = [
                    self._program.inputs.size_text(each) if isinstance(each, str) else each
                    for each in condition.value["sizes"]
                ]
                self._inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, sizes))
                self._by_way[condition.way] = name
        for source in self._program.inputs.sources:
            if source.dim is None and source.way not in self._by_way:
                name = self.fresh(source.name)
                kind = self.element_type(torch.int64)
                self._inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, []))
                self._by_way[source.way] = name

    def _write(self, node: torch.fx.Node) -> None:
        match node.op:
            case "placeholder":
                self.values[node] = self._given((str(node.target).lstrip("*"),), node)
            case "get_attr":
                tensor = self.examples[node]
                self.values[node] = self.constant(tensor, str(node.target))
            case "output":
                for name, each in outputs_in(node.args[0]).items():
                    self._output(name, each)
            case "call_method":
                self.values[node] = written(self, node)
            case _:
                self._call(node)

    def _call(self, node: torch.fx.Node) -> None:
        if node.target in results.OPERATORS.values():
            self.values[node] = (
                None  # a part of the result; or a check: a model has no place for it
            )
            return
        argument = node.args[0] if node.args else None
        first = self.values.get(argument) if isinstance(argument, torch.fx.Node) else None
        if isinstance(first, _Given):
            kind = "item" if node.target is not getattr else "attribute"
            self.values[node] = self._given((*first.way, (kind, node.args[1])), node)
            return
        self.values[node] = written(self, node)

    def _refuse_unknown(self) -> None:
        """Everything that has no row, at once."""
        if self._program.changes:
            raise NotMapped(f"changing {', '.join(self._program.changes)} in place")
        unknown = [
            f"`{text_of_target(node)}`"
            for node in self._program.graph_module.graph.nodes
            if node.op in ("call_function", "call_method")
            and node.target not in results.OPERATORS.values()
            and not has_row(node)
        ]
        if unknown:
            raise NotMapped(", ".join(dict.fromkeys(unknown)))

    def _given(self, way: ConditionPath, node: torch.fx.Node) -> object:
        name = self._by_way.get(way)
        if name is not None:
            return name
        value = self.examples[node]
        return _Given(way) if isinstance(value, list | tuple | dict) else value

    def _output(self, wanted: str, value: torch.fx.Node) -> None:
        name = self.fresh(wanted)
        self.add("Identity", [self.name(value)], output=name)
        kind = self.element_type(self.dtype(value))
        sizes = self._sizes_of_output(value, name)
        self._outputs.append(self.onnx.helper.make_tensor_value_info(name, kind, sizes))

    def _sizes_of_output(self, value: torch.fx.Node, name: str) -> list[str | int]:
        """In the names of the inputs' sizes, where the capture has said what they are."""
        rank = self.rank(value)
        said = sizes_in_text(value.meta.get(SHAPE, ""))
        if len(said) != rank:
            return [f"{name}_{dim}" for dim in range(rank)]
        return [int(each) if each.isdecimal() else each for each in said]

    # -- for the rows ------------------------------------------------------------------------------

    def fresh(self, wanted: str) -> str:
        name, count = _WORDS.sub("_", wanted).strip("_"), 0
        found = name
        while found in self._names:
            count += 1
            found = f"{name}_{count}"
        self._names.add(found)
        return found

    def add(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """A node of the model; returns the name of its result."""
        output = output or self.fresh(kind.lower())
        attributes = {name: known(value) for name, value in attributes.items()}
        made = self.onnx.helper.make_node(kind, inputs, [output], **attributes)
        self._nodes.append(made)
        return output

    def several(self, kind: str, inputs: list[str], count: int, **attributes: Any) -> list[str]:
        """A node with several results."""
        outputs = [self.fresh(kind.lower()) for _ in range(known(count))]
        attributes = {name: known(value) for name, value in attributes.items()}
        self._nodes.append(self.onnx.helper.make_node(kind, inputs, outputs, **attributes))
        return outputs

    def constant(self, value: Any, name: str = "constant") -> str:
        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(known(value))
        kind = self.element_type(tensor.dtype)
        found = self.fresh(name)
        data = bytes_of(tensor)
        self._weights.append(
            self.onnx.helper.make_tensor(found, kind, list(tensor.shape), data, raw=True)
        )
        return found

    def element_type(self, dtype: torch.dtype) -> int:
        name = _ELEMENTS.get(dtype)
        if name is None:
            raise NotMapped(f"elements of {dtype}")
        return getattr(self.onnx.TensorProto, name)

    def name(self, value: object, dtype: torch.dtype | None = None) -> str:
        """The name of a value, as elements of `dtype` if given."""
        if isinstance(value, Named):
            return str(value)
        if isinstance(value, torch.fx.Node):
            found = self.values[value]
            if isinstance(found, str):
                return found if dtype in (None, self.dtype(value)) else self.cast(found, dtype)
            value = found
        if value is None or isinstance(value, str | _Given):
            raise NotMapped(f"the value {value!r}")
        tensor = torch.tensor(known(value))
        return self.constant(tensor if dtype is None else tensor.to(dtype))

    def cast(self, name: str, dtype: torch.dtype | None) -> str:
        assert dtype is not None, "asked before"
        return self.add("Cast", [name], to=self.element_type(dtype))

    def example(self, value: object) -> object:
        return self.examples[value] if isinstance(value, torch.fx.Node) else value

    def dtype(self, value: object) -> torch.dtype:
        found = self.example(value)
        return found.dtype if isinstance(found, torch.Tensor) else torch.tensor(found).dtype

    def rank(self, value: object) -> int:
        found = self.example(value)
        return found.dim() if isinstance(found, torch.Tensor) else 0

    def shape(self, sizes: Any) -> str:
        """A list of sizes, of which some are computed, as a vector."""
        parts = [
            self.add("Reshape", [self.name(each, torch.int64), self.constant([1])])
            if isinstance(each, torch.fx.Node)
            else self.constant([int(each)])
            for each in sizes
        ]
        return parts[0] if len(parts) == 1 else self.add("Concat", parts, axis=0)


class _Recording(torch.fx.Interpreter):
    """Runs the graph and keeps what each node gave."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        kept: dict[torch.fx.Node, Any],
        arguments: Mapping[str, object],
    ) -> None:
        # A copy: the program may change its buffers.
        copied = copy.deepcopy(module)
        super().__init__(copied, garbage_collect_values=False, graph=module.graph)
        self._kept = kept
        self._arguments = arguments

    def placeholder(self, target: object, args: object, kwargs: object) -> Any:
        return self._arguments[str(target).lstrip("*")]

    def run_node(self, n: torch.fx.Node) -> object:
        found = self._kept[n] = super().run_node(n)
        return found


_ELEMENTS: Final[dict[torch.dtype, str]] = {
    torch.float64: "DOUBLE",
    torch.float32: "FLOAT",
    torch.float16: "FLOAT16",
    torch.bfloat16: "BFLOAT16",
    torch.int64: "INT64",
    torch.int32: "INT32",
    torch.int16: "INT16",
    torch.int8: "INT8",
    torch.uint8: "UINT8",
    torch.bool: "BOOL",
}
