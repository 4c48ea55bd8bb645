"""What ONNX rows of operators are written with.

A row gets the writer, the node and the arguments of the node by the names of its signature, adds
nodes to the model and returns the name of the result, or a list of names where torch gives several;
or it raises `NotMapped`. What it takes by `**_` tells what the example tells as well, or how torch
is to compute the result or its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import torch
import torch.fx

Node = torch.fx.Node
#: An operand: a node, a `Named` value, or a number of Python.
Operand = Any
Row = Callable[..., Any]
Known = TypeVar("Known")

#: Beyond every size: a slice up to here is one to the end.
END: Final = 2**62


class Named(str):
    """A value of the model that no node of the graph has: rows can be given it as one."""

    __slots__ = ()


class NotMapped(Exception):
    """Something that ONNX has no operator for, or that has no row yet."""


class Writer(Protocol):
    """Writes one model. A value is a name in it, or a constant of Python."""

    @property
    def values(self) -> Mapping[Node, Any]:
        """By node of the graph."""
        ...

    def add(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """A node of the model; returns the name of its result."""
        ...

    def several(self, kind: str, inputs: list[str], count: int, **attributes: Any) -> list[str]:
        """A node with several results."""
        ...

    def constant(self, value: Any, name: str = "constant") -> str: ...

    def name(self, value: Operand, dtype: torch.dtype | None = None) -> str:
        """The name of a value, as elements of `dtype` if given."""
        ...

    def cast(self, name: str, dtype: torch.dtype | None) -> str: ...

    def example(self, value: Operand) -> Any:
        """What a value was in a run of the example: neither rank nor dtype changes with sizes."""
        ...

    def dtype(self, value: Operand) -> torch.dtype: ...

    def rank(self, value: Operand) -> int: ...

    def shape(self, sizes: Sequence[Any]) -> str:
        """A list of sizes, of which some are computed, as a vector."""
        ...


def is_node(value: Any) -> bool:
    return isinstance(value, Node)


def known(value: Known) -> Known:
    """A number, or several, that the model has as constants: the program may not compute them."""
    parts = value if isinstance(value, tuple | list) else [value]
    if any(map(is_node, parts)):
        raise NotMapped("a number that is not a constant, where it has to be known")
    return value


def onnx_binary(kind: str, w: Writer, node: Node, input: Any, other: Any) -> str:
    return onnx_of_two(w, node, kind, input, other)


def onnx_of_two(w: Writer, node: Node, kind: str, a: Any, b: Any, factor: Any = 1) -> str:
    """Of elements as the result has them. The second is multiplied first."""
    dtype = w.dtype(node)
    right = w.name(b, dtype)
    if factor != 1:
        right = w.add("Mul", [right, w.name(factor, dtype)])
    return w.add(kind, [w.name(a, dtype), right])


def onnx_unary(kind: str, **attributes: Any) -> Row:
    def row(w: Writer, node: Node, input: Any) -> str:
        return w.add(kind, [w.name(input, w.dtype(node))], **attributes)

    return row
