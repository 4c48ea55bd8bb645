"""A captured graph as people read it: its code, with what each value is and where it comes from.

def forward(self, s0: "Sym(s0)", L_x: "f32[s0, 4]"):
    l_x = L_x

    # model.py:5 in forward: return x * 2
    mul: "f32[s0, 4]" = l_x * 2;  l_x = None

torch's own printer loads half of its compiler for this, which takes longer than the compile.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch.fx

from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import RESULT, SYMBOL

#: Names of types as torch's logs shorten them.
_SHORT: Final = {
    "float": "f",
    "bfloat": "bf",
    "int": "i",
    "uint": "u",
    "complex": "c",
}
_DTYPE: Final = re.compile(r"torch\.([a-z]+)(\d+)(.*)")
_ASSIGNMENT: Final = re.compile(r"^    (\w+) = ")


@functools.lru_cache(maxsize=64)
def dtype_text(dtype: Any) -> str:
    found = _DTYPE.fullmatch(str(dtype))
    if found is None:
        return {"torch.bool": "b8"}.get(str(dtype), str(dtype))
    kind, bits, rest = found.groups()
    return f"{_SHORT.get(kind, kind)}{bits}{rest}"


def value_text(node: torch.fx.Node) -> str:
    """What a node computes: `f32[s0, 4]`, `Sym(s0)`; empty where it is not known."""
    symbol = node.meta.get(SYMBOL)
    if symbol is not None:
        return f"Sym({symbol.name})"
    return _meta_text(node.meta.get(RESULT))


def _meta_text(meta: Any) -> str:
    if isinstance(meta, Meta):
        return f"{dtype_text(meta.dtype)}[{', '.join(map(str, meta.shape))}]"
    if isinstance(meta, tuple | list) and meta:
        return f"({', '.join(_meta_text(each) or 'None' for each in meta)})"
    return ""


def sizes_of(graph: torch.fx.GraphModule) -> dict[str, Sequence[int | str]]:
    """The shape of each tensor by the name of its node: numbers, and expressions as text."""
    return {
        node.name: [size if type(size) is int else str(size) for size in meta.shape]
        for node in graph.graph.nodes
        if isinstance(meta := node.meta.get(RESULT), Meta)
    }


def inputs_of(graph: torch.fx.GraphModule) -> dict[str, str]:
    return {
        str(node.target): value_text(node) for node in graph.graph.nodes if node.op == "placeholder"
    }


def operators_of(graph: torch.fx.GraphModule) -> list[str]:
    """What is called, in order; numbers that are computed of sizes are not counted."""
    return [
        node.target if isinstance(node.target, str) else _name(node.target)
        for node in graph.graph.nodes
        if node.op in _CALLS and RESULT in node.meta
    ]


_CALLS: Final = {"call_function", "call_method", "call_module"}


def _name(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def graph_text(graph: torch.fx.GraphModule) -> str:
    """The code of the graph with comments."""
    nodes = {node.name: node for node in graph.graph.nodes}
    lines = list(_lines(graph.code.strip("\n").splitlines(), nodes, inputs_of(graph)))
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    return f"class GraphModule(torch.nn.Module):\n{body}\n"


def _lines(
    code: Sequence[str], nodes: Mapping[str, torch.fx.Node], inputs: Mapping[str, str]
) -> Iterator[str]:
    place = ""
    for line in code:
        if line.startswith("def forward("):
            yield _signature(line, inputs)
            continue
        found = _ASSIGNMENT.match(line)
        node = nodes.get(found[1]) if found else None
        if found is None or node is None:
            yield line.rstrip()
            continue
        where = _place(node)
        if where and where != place:
            yield ""
            yield f"    # {where}"
        place = where or place
        what = "" if node.op == "placeholder" else value_text(node)
        yield f'    {found[1]}: "{what}" = {line[found.end() :]}' if what else line


def _signature(line: str, inputs: Mapping[str, str]) -> str:
    given = {part.partition(":")[0].strip() for part in line[len("def forward(") :].split(",")}
    if not all(name in given or f"{name})" in given for name in inputs):
        return line  # with defaults, or names that had to be changed
    named = [f'{name}: "{what}"' if what else name for name, what in inputs.items()]
    return f"def forward({', '.join(['self', *named])}):"


def _place(node: torch.fx.Node) -> str:
    return _place_in(node.meta.get("stack_trace", ""))


@functools.lru_cache(maxsize=4096)
def _place_in(trace: str) -> str:
    """`File: model.py:5 in forward, code: return x * 2`."""
    head, _, code = trace.partition("\n")
    found = re.fullmatch(r'File "(.*)", line (\d+), in (.*)', head)
    if found is None:
        return ""
    return f"File: {found[1]}:{found[2]} in {found[3]}, code: {code.strip()}"
