"""What a row is: it gets the writer, the node and the arguments of the node by the names that they
have in `ops/`, adds nodes to the model and returns the name of the result, or a list of names where
torch gives several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx

#: The writer. Rows are below it.
W = Any
N = torch.fx.Node
Row = Callable[..., Any]

#: Beyond every size: a slice up to here is one to the end.
END = 2**62


class Named(str):
    """A value of the model that no node of the graph has: rows can be given it as one."""

    __slots__ = ()


class NotMapped(Exception):
    """Something that ONNX has no operator for, or that has no row yet."""


def is_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)
