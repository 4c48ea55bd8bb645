"""Runs of equal parts in a graph, such as the layers of a network.

Part after part, the same operators are called with tensors of the same shapes in symbols: made by
the same place of the same part or of the one before, or the very same tensor for all parts, or, of
inputs of the graph, one for each part (its weights). Nothing else that lowering asks of a node may
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch.fx

from anyshape.ops.meta import Meta
from anyshape.ops.node_notes import CALL, NUMBER, RESULT, SYMBOL
from anyshape.symbolic import Expr

#: Fewer are not worth the search.
LEAST: Final = 6

#: Candidates for the length of a part that are looked at closely.
_MOST_TRIED: Final = 3


class Run(NamedTuple):
    """`parts` equal parts of `length` nodes each; the first node of the first is number `start`."""

    start: int
    length: int
    parts: int


def repeated_run(
    nodes: Sequence[torch.fx.Node], matters: Callable[[torch.fx.Node], bool]
) -> Run | None:
    """The longest run of equal parts around the middle of the graph. `matters`: what else lowering
    asks of a node."""
    first = next((n for n, node in enumerate(nodes) if node.op != "placeholder"), len(nodes))
    if len(nodes) - first < 2 * LEAST:
        return None
    numbers: dict[tuple[str, Any], int] = {}
    try:
        kinds = [numbers.setdefault((node.op, node.target), len(numbers)) for node in nodes]
    except TypeError:  # a target that is no key
        return None
    middle = (first + len(nodes)) // 2
    alike = _Alike(nodes, matters)
    tried = 0
    for length in range(1, (len(nodes) - first) // LEAST + 1):
        if kinds[middle] != kinds[middle + length]:
            continue
        low, high = middle, middle
        while low > first and kinds[low - 1] == kinds[low - 1 + length]:
            low -= 1
        while high + length < len(nodes) and kinds[high] == kinds[high + length]:
            high += 1
        if high - low < (LEAST - 1) * length:
            continue
        found = _closely(alike, low, high, length)
        if found is not None:
            return found
        tried += 1
        if tried == _MOST_TRIED:
            return None
    return None


def _closely(alike: _Alike, low: int, high: int, length: int) -> Run | None:
    best = start = low
    longest = 0
    for number in range(low, high):
        if alike(number, number + length):
            if number + 1 - start > longest:
                best, longest = start, number + 1 - start
        else:
            start = number + 1
            if high - start < longest:
                break
    shift = alike.first_cut(best, length)
    count = (longest - shift) // length + 1
    return Run(best + shift, length, count) if count >= LEAST else None


class _Alike:
    """Whether two nodes of a graph are lowered in the same way."""

    def __init__(
        self, nodes: Sequence[torch.fx.Node], matters: Callable[[torch.fx.Node], bool]
    ) -> None:
        self._nodes = nodes
        self._matters = matters
        self._number = {node: number for number, node in enumerate(nodes)}

    def __call__(self, one: int, other: int) -> bool:
        a, b = self._nodes[one], self._nodes[other]
        if a.op != b.op or a.target != b.target or len(a.users) != len(b.users):
            return False
        mine, its = a.meta, b.meta
        if SYMBOL in mine or SYMBOL in its or (NUMBER in mine) != (NUMBER in its):
            return False
        if not same(mine.get(RESULT, _NONE), its.get(RESULT, _NONE)):
            return False
        if not same(mine.get(CALL), its.get(CALL)):
            return False
        # Which input of the graph stands for which.
        given: dict[torch.fx.Node, torch.fx.Node] = {}

        def alike(x: torch.fx.Node, y: torch.fx.Node) -> bool:
            if x.op == y.op == "placeholder":
                return given.setdefault(x, y) is y and _same_input(x, y)
            return x is y or self._number[y] - self._number[x] == other - one

        if not (_same_tree(a.args, b.args, alike) and _same_tree(a.kwargs, b.kwargs, alike)):
            return False
        return len(set(given.values())) == len(given) and self._matters(a) == self._matters(b)

    def first_cut(self, start: int, length: int) -> int:
        """How far behind `start` parts can begin such that the inputs of a part are its own."""
        crossed: set[int] = set()
        middle = start + length * (LEAST // 2)
        inputs = {
            each: None
            for node in self._nodes[middle : middle + length]
            for each in node.all_input_nodes
            if each.op == "placeholder"
        }
        for node in inputs:
            users = [self._number[user] for user in node.users]
            first, last = min(users), max(users)
            if last - first < length:  # others are used by all parts
                crossed.update((cut - start) % length for cut in range(first + 1, last + 1))
        return next((cut for cut in range(length) if cut not in crossed), 0)


_NONE: Final = object()


def _same_input(x: torch.fx.Node, y: torch.fx.Node) -> bool:
    if x is y:
        return True
    if SYMBOL in x.meta or SYMBOL in y.meta:
        return False
    return RESULT in x.meta and RESULT in y.meta and same(x.meta[RESULT], y.meta[RESULT])


def same(x: Any, y: Any) -> bool:
    """Whether nobody can tell two constants, metas or trees of them apart: 1 and True are two, and
    so are 0.0 and -0.0."""
    return _same_tree(x, y, _never)


def _never(x: torch.fx.Node, y: torch.fx.Node) -> bool:
    return x is y


def _same_tree(x: Any, y: Any, alike: Callable[[torch.fx.Node, torch.fx.Node], bool]) -> bool:
    kind = type(x)
    if kind is not type(y):
        return False
    if kind is torch.fx.Node:
        return alike(x, y)
    if x is y and kind in _PLAIN:
        return True
    if kind is Meta or kind is Expr:
        return x == y
    if isinstance(x, tuple | list):
        return len(x) == len(y) and all(_same_tree(a, b, alike) for a, b in zip(x, y, strict=True))
    if isinstance(x, dict):
        return list(x) == list(y) and all(_same_tree(x[key], y[key], alike) for key in x)
    if kind is slice:
        ours, theirs = (x.start, x.stop, x.step), (y.start, y.stop, y.step)
        return _same_tree(ours, theirs, alike)
    if kind is float:
        return repr(x) == repr(y)
    if kind in _PLAIN:
        return x == y
    # Functions, and what we know nothing about.
    return x is y


#: Of these, equal ones are the same.
_PLAIN: Final = frozenset({int, bool, str, type(None), torch.dtype, torch.device, Meta, Expr})
