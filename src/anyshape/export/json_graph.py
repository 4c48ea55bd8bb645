"""A graph as JSON, and back.

    {"name": "add", "op": "call_function", "target": "operator.add", "args": [{"node": "x"}, 1]}

Arguments are JSON where JSON has them; what it has not is an object with one key: `{"node": …}`,
`{"tuple": […]}`, `{"dtype": "float32"}`. The text comes from outside: whatever reaches generated
code is checked to be a plain name first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
import torch.fx

from anyshape.export import operators
from anyshape.export.copy_on_write import method_on_copies, on_copies, operator_on_copies
from anyshape.export.operators import UnknownName, is_attribute, is_word
from anyshape.ops.higher_order_ops import is_region, region, region_of
from anyshape.ops.kernel_launch import KernelLaunch


class NotReadable(Exception):
    """Something in the text that is not what a package has."""


class NotWritable(Exception):
    """Something in a graph that JSON cannot have."""


# -- values ---------------------------------------------------------------------------------------


def write_value(value: object) -> object:
    """The value as JSON."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    writer = _WRITERS.get(kind)
    if writer is not None:
        return writer(value)
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, tuple):  # torch.Size, and fx's own kinds of containers
        return {"tuple": [write_value(item) for item in value]}
    if isinstance(value, list):
        return [write_value(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[write_value(k), write_value(v)] for k, v in value.items()]}
    raise NotWritable(f"a {kind.__name__}")


def _float(value: float) -> object:
    # JSON has no word for these.
    return value if math.isfinite(value) else {"float": repr(value)}


_WRITERS: Final[dict[type, Callable[[Any], Any]]] = {
    float: _float,
    complex: lambda value: {"complex": [_float(value.real), _float(value.imag)]},
    slice: lambda value: {
        "slice": [write_value(part) for part in (value.start, value.stop, value.step)]
    },
    range: lambda value: {"range": [value.start, value.stop, value.step]},
    torch.dtype: lambda value: {"dtype": str(value).removeprefix("torch.")},
    torch.device: lambda value: {"device": str(value)},
    torch.layout: lambda value: {"layout": str(value).removeprefix("torch.")},
    torch.memory_format: lambda value: {"memory_format": str(value).removeprefix("torch.")},
    type(...): lambda value: {"ellipsis": True},
    bytes: lambda value: {"bytes": value.hex()},
}


def read_value(value: object, nodes: Mapping[str, torch.fx.Node] | None = None) -> Any:
    """The value that JSON stands for."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return [read_value(item, nodes) for item in value]
    if not isinstance(value, dict) or len(value) != 1:
        raise NotReadable(f"the value {str(value)[:80]}")
    ((kind, inner),) = value.items()
    if kind == "node":
        if nodes is None or inner not in nodes:
            raise NotReadable(f"the node {inner!r} is used before it is made")
        return nodes[inner]
    reader = _READERS.get(kind)
    if reader is None:
        raise NotReadable(f"a value of the kind {kind!r}")
    try:
        return reader(inner, nodes)
    except NotReadable:
        raise
    except Exception as error:
        raise NotReadable(f"the value {str(value)[:80]} ({error})") from None


def _items(inner: Any, nodes: Any) -> tuple[Any, ...]:
    return tuple(read_value(item, nodes) for item in inner)


def _of_torch(kind: type) -> Callable[[Any, Any], object]:
    def read(name: Any, nodes: object) -> object:
        found = getattr(torch, name, None) if is_word(name) else None
        if not isinstance(found, kind):
            raise NotReadable(f"torch has no {kind.__name__} {name!r}")
        return found

    return read


_READERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "float": lambda inner, nodes: float(inner),
    "complex": lambda inner, nodes: complex(*_items(inner, nodes)),
    "tuple": _items,
    "dict": lambda inner, nodes: {
        read_value(key, nodes): read_value(item, nodes) for key, item in inner
    },
    "slice": lambda inner, nodes: slice(*_items(inner, nodes)),
    "range": lambda inner, nodes: range(*inner),
    "dtype": _of_torch(torch.dtype),
    "device": lambda inner, nodes: torch.device(inner),
    "layout": _of_torch(torch.layout),
    "memory_format": _of_torch(torch.memory_format),
    "ellipsis": lambda inner, nodes: ...,
    "bytes": lambda inner, nodes: bytes.fromhex(inner),
}


# -- graphs ---------------------------------------------------------------------------------------


def write_graph(graph: torch.fx.Graph) -> list[object]:
    """The nodes of a graph as JSON, in order."""
    return [_written(node) for node in graph.nodes]


def _written(node: torch.fx.Node) -> dict[str, object]:
    target = node.target
    held, copying = region_of(target), operator_on_copies(target)
    if held is not None:
        target = f"anyshape.{held[0]}"
    elif copying is not None:
        target = _ON_COPIES
    elif isinstance(target, KernelLaunch):
        raise NotWritable(
            f"a launch of the Triton kernel `{target.kernel_name}`: make it an operator"
            " (torch.library.triton_op), which a package calls by its name"
        )
    elif node.op == "call_function":
        try:
            target = operators.name_of(target)
        except UnknownName as error:
            raise NotWritable(f"a call of `{error}`, which is code of the program") from None
        if node.target is getattr and node.args[1] in ("_modules", "_parameters", "_buffers"):
            raise NotWritable(
                "a module that is given as an argument: export a module that has it, or a function"
                " that finds it outside"
            )
        if node.target is getattr and not is_attribute(node.args[1]):
            raise NotWritable(f"the private attribute {node.args[1]!r}")
    made: dict[str, Any] = {"name": node.name, "op": node.op, "target": target}
    if node.args:
        made["args"] = [write_value(arg) for arg in node.args]
    if node.kwargs:
        made["kwargs"] = {key: write_value(arg) for key, arg in node.kwargs.items()}
    if held is not None:
        made["graphs"] = [write_graph(graph.graph) for graph in held[1]]
    if copying is not None:
        made["function"] = copying
    for key, text in (("line", line_of(node)), ("shape", node.meta.get("shape"))):
        if text:
            made[key] = text
    return made


def line_of(node: torch.fx.Node) -> str:
    """The line of the program that a node comes from, without the folders of whoever exported."""
    lines = str(node.meta.get("stack_trace", "")).splitlines()
    return lines[-1].strip() if len(lines) > 1 else str(node.meta.get("line", ""))


def read_graph(nodes: object, attributes: frozenset[str]) -> torch.fx.Graph:
    """The graph of some nodes; `attributes` are the weights that it may use."""
    graph = torch.fx.Graph()
    made: dict[str, torch.fx.Node] = {}
    if not isinstance(nodes, list):
        raise NotReadable("the graph is no list of nodes")
    for each in nodes:
        node = _read(graph, each, made, attributes)
        if node.name != each["name"]:
            made[node.name] = node
        made[each["name"]] = node
        for key in ("line", "shape"):
            if isinstance(each.get(key), str):
                node.meta[key] = each[key]
    if not nodes or nodes[-1].get("op") != "output":
        raise NotReadable("the graph has no output")
    graph.lint()
    return graph


def _read(
    graph: torch.fx.Graph,
    each: object,
    made: Mapping[str, torch.fx.Node],
    attributes: frozenset[str],
) -> torch.fx.Node:
    if not isinstance(each, dict) or not is_word(each.get("name")):
        raise NotReadable(f"the node {str(each)[:80]}")
    op, target = each.get("op"), each.get("target")
    args = tuple(read_value(arg, made) for arg in each.get("args", []))
    kwargs = {key: read_value(arg, made) for key, arg in each.get("kwargs", {}).items()}
    if not all(map(is_word, kwargs)):
        raise NotReadable(f"the arguments of {each['name']}")
    check = _TARGETS.get(str(op))
    if check is None:
        raise NotReadable(f"the kind of node {op!r}")
    if op == "call_function" and "graphs" in each:
        found = _region(str(target), each["graphs"])
    elif op == "call_function" and target == _ON_COPIES:
        found = _on_copies(str(each.get("function")))
    else:
        found = check(target, args, attributes)
    node = graph.create_node(str(op), found, args, kwargs, name=each["name"])
    if node.name != each["name"]:
        raise NotReadable(f"two nodes are named {each['name']!r}")
    return node


def _region(target: str, graphs: object) -> Any:
    """Control flow: an operator with graphs of its own, which have no weights."""
    name = target.removeprefix("anyshape.")
    if not isinstance(graphs, list) or not is_region(name, len(graphs)):
        raise NotReadable(f"the operator {target!r} with graphs")
    empty = torch.nn.Module()
    made = [torch.fx.GraphModule(empty, read_graph(each, frozenset())) for each in graphs]
    return region(name, made)


#: What an operator is called that works on copies of its arguments; the node names it apart.
_ON_COPIES: Final = "anyshape.on_copies"
_METHODS: Final = "torch.Tensor."


def _on_copies(name: str) -> Any:
    if name.startswith(_METHODS):
        return method_on_copies(_method(name.removeprefix(_METHODS), (), ()))
    return on_copies(name, _function(name, (), ()))


def _placeholder(target: object, args: object, attributes: object) -> object:
    if not is_word(str(target).lstrip("*")) or str(target).count("*") > 2:
        raise NotReadable(f"the parameter {target!r}")
    return target


def _function(target: object, args: Any, attributes: object) -> Any:
    try:
        found = operators.function_of(str(target))
    except UnknownName:
        where = "this version does not have"
        if str(target).startswith("torch.ops."):
            where = "no library that this process has loaded has"
        raise NotReadable(f"the operator {target!r}, which {where}") from None
    if found is getattr and not (len(args) == 2 and is_attribute(args[1])):
        raise NotReadable(f"the attribute {args[1:]!r}")
    return found


def _method(target: Any, args: object, attributes: object) -> Any:
    if not operators.is_method(target):
        raise NotReadable(f"the method {target!r}, which tensors do not have")
    return target


def _weight(target: object, args: object, attributes: frozenset[str]) -> object:
    if target not in attributes:
        raise NotReadable(f"the weight {target!r} is missing")
    return target


_TARGETS: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {
    "placeholder": _placeholder,
    "call_function": _function,
    "call_method": _method,
    "get_attr": _weight,
    "output": lambda target, args, attributes: "output",
}
