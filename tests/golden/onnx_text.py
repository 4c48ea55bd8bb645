"""An ONNX model as text, a line a node: what is in it, whatever version of `onnx` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

#: Weights are named with their sizes; constants as small as this are written out.
_SHORT = 8


def model_text(model: Any) -> str:
    opsets = ", ".join(f"{each.domain or 'onnx'} {each.version}" for each in model.opset_import)
    return "\n".join([f"opset: {opsets}", *_graph(model.graph, "")])


def _graph(graph: Any, indent: str) -> Iterator[str]:
    for each in graph.input:
        yield f"{indent}input {each.name}: {_type(each.type)}"
    for each in graph.initializer:
        yield f"{indent}weight {each.name}: {_tensor(each)}"
    for node in graph.node:
        inputs, outputs = ", ".join(node.input), ", ".join(node.output)
        plain = sorted(
            each.name for each in node.attribute if each.type != onnx.AttributeProto.GRAPH
        )
        named = {each.name: each for each in node.attribute}
        given = "".join(f" {name}={_value(named[name])}" for name in plain)
        yield f"{indent}{outputs} = {node.op_type}({inputs}){given}"
        for name in sorted(named.keys() - set(plain)):
            yield f"{indent}  {name}:"
            yield from _graph(named[name].g, indent + "    ")
    for each in graph.output:
        yield f"{indent}output {each.name}: {_type(each.type)}"


def _type(type: Any) -> str:
    tensor = type.tensor_type
    dims = (each.dim_param or str(each.dim_value) for each in tensor.shape.dim)
    return f"{_element(tensor.elem_type)}[{', '.join(dims)}]"


def _element(number: int) -> str:
    return onnx.TensorProto.DataType.Name(number).lower()


def _value(attribute: Any) -> str:
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.type == onnx.AttributeProto.TENSOR:
        return _tensor(value)
    if attribute.type == onnx.AttributeProto.FLOAT:
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return repr(value.decode())
    return str(list(value)) if not isinstance(value, int | float) else repr(value)


def _tensor(tensor: Any) -> str:
    array = onnx.numpy_helper.to_array(tensor)
    text = f"{_element(tensor.data_type)}{list(array.shape)}"
    if array.size > _SHORT or (array.dtype.kind == "f" and array.ndim):
        return text
    values = (f"{v:.6g}" if array.dtype.kind == "f" else str(v) for v in array.ravel().tolist())
    return f"{text} = {' '.join(values)}"
