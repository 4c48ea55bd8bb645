"""Tensors made of nothing but sizes and numbers."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.export.onnx.rows import N, NotMapped, Row, W, is_node


def filled(number: Any) -> Row:
    """`zeros`, `ones`, and `x.new_zeros(sizes)`: of the kind of another tensor."""

    def row(w: W, node: N, args: Any, size: Any, **_: Any) -> str:
        return _of_sizes(w, node, number, args if size is None else size)

    return row


def full(w: W, node: N, size: Any, fill_value: Any, **_: Any) -> str:
    return _of_sizes(w, node, fill_value, size)


def filled_like(number: Any) -> Row:
    def row(w: W, node: N, input: Any, **_: Any) -> str:
        return full_like(w, node, input, number)

    return row


def full_like(w: W, node: N, input: Any, fill_value: Any, **_: Any) -> str:
    return _expanded(w, node, fill_value, w.add("Shape", [w.name(input)]))


def _of_sizes(w: W, node: N, number: Any, sizes: Any) -> str:
    return _expanded(w, node, number, w.shape(sizes) if len(sizes) else None)


def _expanded(w: W, node: N, number: Any, shape: str | None) -> str:
    dtype = w.dtype(node)
    made = w.name(number, dtype)
    return made if shape is None else w.add("Expand", [made, shape])


def tensor(w: W, node: N, data: Any, **_: Any) -> str:
    """`torch.tensor` of numbers, of which some are computed."""
    found, items = w.example(node), data if isinstance(data, tuple | list) else [data]
    if not any(is_node(each) for each in items):
        if any(isinstance(each, tuple | list) for each in items) and _has_nodes(items):
            raise NotMapped("a tensor of rows that are computed")
        return w.constant(found)
    parts = [w.add("Reshape", [w.name(each, found.dtype), w.constant([1])]) for each in items]
    joined = parts[0] if len(parts) == 1 else w.add("Concat", parts, axis=0)
    if found.dim():
        return joined
    return w.add("Reshape", [joined, w.constant(torch.empty(0, dtype=torch.int64))])


def _has_nodes(value: Any) -> bool:
    return is_node(value) or (isinstance(value, tuple | list) and any(map(_has_nodes, value)))


def arange(w: W, node: N, bounds: Any, **options: Any) -> str:
    """Up to three numbers, of which the last ones may have names."""
    names = ("end",) if len(bounds) == 1 and "end" not in options else ("start", "end", "step")
    given = {"start": 0, "step": 1} | dict(zip(names, bounds, strict=False)) | options
    ends = [w.name(given[each], w.dtype(node)) for each in ("start", "end", "step")]
    return w.add("Range", ends)


def eye(w: W, node: N, n: Any, m: Any, **_: Any) -> str:
    sizes = w.shape([n, n if m is None else m])
    return w.add("EyeLike", [w.add("Expand", [w.name(0, w.dtype(node)), sizes])])


def one_hot(w: W, node: N, input: Any, num_classes: Any) -> str:
    if num_classes == -1:
        raise NotMapped("one_hot with as many classes as there are in the data")
    ends = w.constant([0, 1])
    return w.add("OneHot", [w.name(input), w.name(num_classes, torch.int64), ends], axis=-1)
