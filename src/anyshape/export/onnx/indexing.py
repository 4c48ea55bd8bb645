"""Indexing: by numbers and slices, by tensors of places, by masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.export.onnx.rows import END, N, NotMapped, W, is_node


def getitem(w: W, node: N, x: Any, index: Any) -> Any:
    if isinstance(w.example(x), tuple | list):
        found = w.values[x]
        if not isinstance(index, int) or not isinstance(found, list):
            raise NotMapped("a part of several results")
        return found[index]
    items = list(index) if isinstance(index, tuple) else [index]
    if items.count(...) > 1:
        raise NotMapped("an index with two ellipses")
    places: dict[int, Any] = {}
    found, dim = w.name(x), 0
    for item in items:
        if item is ...:
            dim += w.rank(x) - sum(_taken(w, each) for each in items if each is not ...)
        elif isinstance(w.example(item), torch.Tensor):
            places[dim] = item
            dim += _taken(w, item)
        else:
            found, dim = _item(w, found, dim, item)
    return _gathered(w, found, places, _rank_before(w, node, places)) if places else found


def _taken(w: W, item: Any) -> int:
    """How many dimensions of the tensor an item speaks of."""
    example = w.example(item)
    if isinstance(example, torch.Tensor) and example.dtype is torch.bool:
        return example.dim()
    return 0 if item is None else 1


def _item(w: W, found: str, dim: int, item: Any) -> tuple[str, int]:
    if item is None:
        return w.add("Unsqueeze", [found, w.constant([dim])]), dim + 1
    if isinstance(item, bool):
        raise NotMapped("an index that is True or False")
    if isinstance(item, int) or is_node(item):
        return w.add("Gather", [found, w.name(item, torch.int64)], axis=dim), dim
    if not isinstance(item, slice):
        raise NotMapped(f"an index of type {type(item).__name__}")
    if item == slice(None):
        return found, dim + 1
    ends = (
        0 if item.start is None else item.start,
        END if item.stop is None else item.stop,
        1 if item.step is None else item.step,
    )
    parts = [w.shape([each]) for each in ends]
    inputs = [found, parts[0], parts[1], w.constant([dim]), parts[2]]
    return w.add("Slice", inputs), dim + 1


def _rank_before(w: W, node: N, places: dict[int, Any]) -> int:
    """Of the tensor that is indexed: the result has the dimensions of the places instead."""
    taken = sum(_taken(w, each) for each in places.values())
    return w.rank(node) - _rank_of_places(w, places) + taken


def _rank_of_places(w: W, places: dict[int, Any]) -> int:
    return max(1 if w.dtype(each) is torch.bool else w.rank(each) for each in places.values())


def _gathered(w: W, found: str, places: dict[int, Any], rank: int) -> str:
    (first, item), *others = places.items()
    is_mask = w.dtype(item) is torch.bool
    if not others and not is_mask:
        return w.add("Gather", [found, w.name(item)], axis=first)
    if is_mask:
        if others:
            raise NotMapped("indexing by a mask and something else")
        taken = list(range(first, first + w.rank(item)))
        rows = w.add("Transpose", [w.add("NonZero", [w.name(item)])], perm=[1, 0])
    else:
        if any(w.dtype(each) is torch.bool for each in places.values()):
            raise NotMapped("indexing by a mask and something else")
        taken = list(places)
        rows = _rows(w, list(places.values()))
    left = [dim for dim in range(rank) if dim not in taken]
    if taken != list(range(len(taken))):
        found = w.add("Transpose", [found], perm=[*taken, *left])
    made = w.add("GatherND", [found, rows])
    if taken[0] == 0 or taken != list(range(taken[0], taken[0] + len(taken))):
        return made  # places that are not side by side come first, as the first ones do
    count, before = _rank_of_places(w, places), taken[0]
    tail = range(count + before, count + len(left))
    order = [*range(count, count + before), *range(count), *tail]
    return w.add("Transpose", [made], perm=order)


def _rows(w: W, places: Sequence[Any]) -> str:
    """The places, one list for each element of the result."""
    names = [w.name(each, torch.int64) for each in places]
    shape = w.add("Shape", [w.add("Sum", [w.cast(each, torch.float32) for each in names])])
    spread = [w.add("Expand", [each, shape]) for each in names]
    rank = max(w.rank(each) for each in places)
    return w.add("Concat", [w.add("Unsqueeze", [n, w.constant([rank])]) for n in spread], axis=rank)


def select(w: W, node: N, input: Any, dim: int, index: Any) -> str:
    return w.add("Gather", [w.name(input), w.name(index, torch.int64)], axis=dim)


def index_select(w: W, node: N, input: Any, dim: int, index: Any) -> str:
    return w.add("Gather", [w.name(input), w.name(index)], axis=dim)


def gather(w: W, node: N, input: Any, dim: int, index: Any) -> str:
    return w.add("GatherElements", [w.name(input), w.name(index)], axis=dim)


def narrow(w: W, node: N, input: Any, dim: int, start: Any, length: Any) -> str:
    first = w.shape([start])
    last = w.add("Add", [first, w.shape([length])])
    return w.add("Slice", [w.name(input), first, last, w.constant([dim])])


def nonzero(w: W, node: N, input: Any, as_tuple: bool) -> str:
    if as_tuple:
        raise NotMapped("nonzero as a tuple")
    return w.add("Transpose", [w.add("NonZero", [w.name(input)])], perm=[1, 0])


def item(w: W, node: N, input: Any) -> str:
    return w.add("Reshape", [w.name(input), w.constant(torch.empty(0, dtype=torch.int64))])
