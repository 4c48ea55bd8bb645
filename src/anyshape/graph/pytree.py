"""Arguments as trees: the tensors in them, and what only Python handles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.graph.aliasing import TensorView
from anyshape.ops.lowering.values import Value
from anyshape.symbolic import (
    Expr,
)


class Foreign:
    """A tensor that only Python code handles: sparse, complex, quantised."""

    def __init__(self, name: str) -> None:
        self.name = name


class Several(tuple[Any, ...]):
    """The tensors of a result of Python code, and the name of the result itself: it may have more
    of them than the run at hand had."""

    name: str


def several(name: str, items: Sequence[Any]) -> Several:
    found = Several(items)
    found.name = name
    return found


def handles_in(tree: Any) -> list[TensorView]:
    if isinstance(tree, TensorView):
        return [tree]
    if isinstance(tree, dict):
        return [handle for item in tree.values() for handle in handles_in(item)]
    if isinstance(tree, tuple | list):
        return [handle for item in tree for handle in handles_in(item)]
    if isinstance(tree, slice):
        return handles_in((tree.start, tree.stop, tree.step))
    return []


def values_in(tree: Any) -> list[Value]:
    if isinstance(tree, Value):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [each for item in tree for each in values_in(item)] if is_tree(tree) else []


def is_tree(tree: Any) -> bool:
    return isinstance(tree, tuple | list)


def has_tensors(tree: Any) -> bool:
    return bool(handles_in(tree)) or any(isinstance(each, Foreign) for each in tree)


def is_size(value: Any) -> bool:
    return type(value) is int or isinstance(value, Expr)
