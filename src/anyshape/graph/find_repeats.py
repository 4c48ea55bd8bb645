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
from anyshape.ops.node_meta import CALL, NUMBER, RESULT, SYMBOL
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

    @property
    def size(self) -> int:
        return self.length * self.parts


def repeated_run(
    nodes: Sequence[torch.fx.Node],
    matters: Callable[[torch.fx.Node], bool],
    settled: Callable[[object], object] = lambda meta: meta,
) -> Run | None:
    """The longest run of equal parts around the middle of the graph, or of one of its halves if
    that is not most of it. `matters`: what else lowering asks of a node. `settled`: what it knows
    of a meta."""
    first = next((n for n, node in enumerate(nodes) if node.op != "placeholder"), len(nodes))
    if len(nodes) - first < 2 * LEAST:
        return None
    numbers: dict[tuple[str, Any], int] = {}
    try:
        kinds = [numbers.setdefault((node.op, node.target), len(numbers)) for node in nodes]
    except TypeError:  # a target that is no key
        return None
    alike = _Alike(nodes, matters, settled)
    best: Run | None = None
    for quarter in (2, 3, 1):
        found = _around(first + quarter * (len(nodes) - first) // 4, first, kinds, alike)
        if found is not None and (best is None or found.size > best.size):
            best = found
        if best is not None and 2 * best.size >= len(nodes) - first:
            break
    return best


def _around(middle: int, first: int, kinds: Sequence[int], alike: _Alike) -> Run | None:
    tried, count = 0, len(kinds)
    for length in range(1, (count - first) // LEAST + 1):
        if middle + length >= count or kinds[middle] != kinds[middle + length]:
            continue
        low, high = middle, middle
        while low > first and kinds[low - 1] == kinds[low - 1 + length]:
            low -= 1
        while high + length < count and kinds[high] == kinds[high + length]:
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
        self,
        nodes: Sequence[torch.fx.Node],
        matters: Callable[[torch.fx.Node], bool],
        settled: Callable[[object], object],
    ) -> None:
        self._nodes = nodes
        self._matters = matters
        self._settled = settled
        self._number = {node: number for number, node in enumerate(nodes)}
        self._flat: dict[torch.fx.Node, Flat] = {}

    def __call__(self, one: int, other: int) -> bool:
        mine, its = self._of(self._nodes[one]), self._of(self._nodes[other])
        if mine.kinds != its.kinds or mine.leaves != its.leaves:
            return False
        number, gap = self._number, other - one
        # Which input of the graph stands for which.
        given: dict[torch.fx.Node, torch.fx.Node] = {}
        for x, y in zip(mine.nodes, its.nodes, strict=True):
            if x.op == y.op == "placeholder":
                if given.setdefault(x, y) is not y or not self._same_input(x, y):
                    return False
            elif x is not y and number[y] - number[x] != gap:
                return False
        return len(set(given.values())) == len(given)

    def _of(self, node: torch.fx.Node) -> Flat:
        found = self._flat.get(node)
        if found is None:
            found = self._flat[node] = Flat()
            meta = node.meta
            call = meta.get(CALL)
            found.add((node.op, node.target, len(node.users), node.args, node.kwargs))
            result = self._settled(meta.get(RESULT))
            found.add((SYMBOL in meta, NUMBER in meta, RESULT in meta, result))
            if SYMBOL in meta:
                found.add(object())  # like no other
            if call is not None:
                found.add(call.function)
                # The metas of arguments are those of the nodes.
                found.add((call.args, call.kwargs), metas=False)
            if node.op != "placeholder":
                found.add(self._matters(node))
        return found

    def _same_input(self, x: torch.fx.Node, y: torch.fx.Node) -> bool:
        if x is y:
            return True
        if SYMBOL in x.meta or SYMBOL in y.meta or RESULT not in x.meta or RESULT not in y.meta:
            return False
        one, other = Flat(), Flat()
        one.add(self._settled(x.meta[RESULT]))
        other.add(self._settled(y.meta[RESULT]))
        return one.kinds == other.kinds and one.leaves == other.leaves

    def first_cut(self, start: int, length: int) -> int:
        """How far behind `start` parts can begin such that the inputs of a part are its own and the
        fewest tensors live on from one part to the next."""
        alive = [0] * length
        middle = start + length * (LEAST // 2)
        own = self._nodes[middle : middle + length]
        for node in dict.fromkeys(each for user in own for each in (user, *user.all_input_nodes)):
            users = [self._number[user] for user in node.users]
            is_input = node.op == "placeholder"
            first = min(users, default=0) if is_input else self._number[node]
            last = max(users, default=0)
            if last - first <= length:  # others are used by all parts
                for cut in range(first + 1, last + 1):
                    alive[(cut - start) % length] += length if is_input else 1
        return alive.index(min(alive))


class Flat:
    """A tree as lists that can be compared: the types of all that is in it, what equals by value,
    and the nodes. 1 and True are two, and so are 0.0 and -0.0; what we know nothing about is equal
    to itself."""

    __slots__ = ("kinds", "leaves", "nodes")

    def __init__(self) -> None:
        self.kinds: list[object] = []
        self.leaves: list[object] = []
        self.nodes: list[torch.fx.Node] = []

    def add(self, tree: Any, *, metas: bool = True) -> None:
        kind = type(tree)
        self.kinds.append(kind)
        if kind is torch.fx.Node:
            self.nodes.append(tree)
        elif kind in _PLAIN:
            if metas or kind is not Meta:
                self.leaves.append(tree)
        elif isinstance(tree, tuple | list):
            self.kinds.append(len(tree))
            for item in tree:
                self.add(item, metas=metas)
        elif isinstance(tree, dict):
            self.kinds.append(tuple(tree))
            for item in tree.values():
                self.add(item, metas=metas)
        elif kind is slice:
            for item in (tree.start, tree.stop, tree.step):
                self.add(item, metas=metas)
        elif kind is float:
            self.leaves.append(repr(tree))
        else:
            self.leaves.append(_Identity(tree))


class _Identity:
    __slots__ = ("_item",)

    def __init__(self, item: object) -> None:
        self._item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._item is other._item

    __hash__ = None  # pyright: ignore[reportAssignmentType] nobody needs one


#: Of these, equal ones are the same.
_PLAIN: Final = frozenset({int, bool, str, type(None), torch.dtype, torch.device, Meta, Expr})
