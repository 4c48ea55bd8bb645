"""An exported program as text that people read."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch.fx

from anyshape.export.copy_on_write import operator_on_copies
from anyshape.export.json_graph import line_of
from anyshape.export.operators import UnknownName, name_of
from anyshape.export.program import Program
from anyshape.ops.higher_order_ops import region_of
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import RESULT
from anyshape.symbolic import Symbol, to_text

#: Where a node says the symbolic shape of its result, as text.
SHAPE: Final = "shape"


_NO_WORDS: Final = re.compile(r"\W+")


def say_shapes(graph: torch.fx.Graph, names: Mapping[Symbol, str | int]) -> None:
    """Say of each node what the shape of its result is, where the capture has left that."""

    def text(value: object) -> str:
        if isinstance(value, tuple | list):
            return f"({', '.join(map(text, value))})"
        if not isinstance(value, Meta):
            return "?"
        sizes = ", ".join(
            to_text(size, lambda s: str(names.get(s, s.name))) for size in value.shape
        )
        return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"

    for node in graph.nodes:
        found = _result(node)
        if found is not None:
            node.meta[SHAPE] = text(found)
        for inside in (region_of(node.target) or ("", ()))[1]:
            say_shapes(inside.graph, names)


def _result(node: torch.fx.Node) -> Any:
    found = node.meta.get(RESULT)
    if found is None and node.target is operator.getitem:
        whole, place = node.args
        several = whole.meta.get(RESULT) if isinstance(whole, torch.fx.Node) else None
        if isinstance(several, tuple) and isinstance(place, int):
            return several[place]
    return found


def readable(program: Program) -> str:
    return "\n".join(_lines(program))


def _lines(program: Program) -> Iterator[str]:
    yield f"def {_NO_WORDS.sub('_', program.name).strip('_')}{program.inputs_text()}:"
    for condition in program.inputs.conditions:
        if condition.kind == "tensor" and len(condition.way) > 1:
            yield f"    # {condition.name}: {program.tensor_text(condition.value)}"
    for constraint in program.inputs.constraints():
        yield f"    # {constraint}"
    if program.changes:
        yield f"    # changes {', '.join(program.changes)}: their new values are returned last"
    last = ""
    for node in program.graph_module.graph.nodes:
        if node.op == "placeholder":
            continue
        line = line_of(node)
        if line and line != last:
            yield f"    # {line}"
            last = line
        yield f"    {_node(node)}{_shape(node)}"
        yield from _regions(node)


def _regions(node: torch.fx.Node) -> Iterator[str]:
    """The graphs of a branch or a loop, below the line that has them."""
    for index, graph in enumerate((region_of(node.target) or ("", ()))[1]):
        names = [each.name for each in graph.graph.nodes if each.op == "placeholder"]
        yield f"        graph {index} ({', '.join(names)}):"
        for each in graph.graph.nodes:
            if each.op != "placeholder":
                yield f"            {_node(each)}{_shape(each)}"


def _shape(node: torch.fx.Node) -> str:
    said = node.meta.get(SHAPE)
    return f"  # {said}" if said else ""


def _node(node: torch.fx.Node) -> str:
    args = ", ".join(
        [*map(_value, node.args), *(f"{k}={_value(v)}" for k, v in node.kwargs.items())]
    )
    match node.op:
        case "output":
            return f"return {_value(node.args[0])}"
        case "get_attr":
            return f"{node.name} = self.{node.target}"
        case "call_method":
            first, *rest = node.args
            more = [*map(_value, rest), *(f"{k}={_value(v)}" for k, v in node.kwargs.items())]
            return f"{node.name} = {_value(first)}.{node.target}({', '.join(more)})"
        case _:
            return f"{node.name} = {_called(node.target)}({args})"


def _called(target: object) -> str:
    held, copying = region_of(target), operator_on_copies(target)
    if held is not None:
        return f"anyshape.{held[0]}"
    if copying is not None:
        return f"anyshape.on_copies[{copying}]"
    try:
        return name_of(target)
    except UnknownName as error:
        return str(error)


def _value(value: object) -> str:
    if isinstance(value, torch.fx.Node):
        return value.name
    if isinstance(value, tuple):
        inner = ", ".join(map(_value, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k!r}: {_value(v)}' for k, v in value.items())}}}"
    if isinstance(value, slice):
        return f"slice({_value(value.start)}, {_value(value.stop)}, {_value(value.step)})"
    return repr(value)
