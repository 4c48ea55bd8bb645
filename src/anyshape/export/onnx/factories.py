"""Tensors made of nothing but sizes and numbers."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.export.onnx.rows import N, NotMapped, Row, W, is_node, sizes_in


def filled(value: Any) -> Row:
    """`zeros`, `ones`; `full` if the value is its last argument (None)."""

    def row(w: W, node: N, *sizes: Any, size: Any = None, fill_value: Any = None, **_: Any) -> str:
        number, wanted = value, sizes_in(sizes) if size is None else size
        if value is None:
            wanted = sizes[0] if size is None else size
            number = fill_value if fill_value is not None else sizes[-1]
        return _expanded(w, node, number, None if not len(wanted) else w.shape(wanted))

    return row


def filled_like(value: Any) -> Row:
    def row(w: W, node: N, x: Any, *args: Any, fill_value: Any = None, **kwargs: Any) -> str:
        number = value
        if value is None:
            number = args[0] if args else fill_value
        return _expanded(w, node, number, w.add("Shape", [w.name(x)]))

    return row


def filled_beside(value: Any) -> Row:
    """`x.new_zeros(sizes)`: of the kind of another tensor."""
    row = filled(value)
    return lambda w, node, x, *sizes, **named: row(w, node, *sizes, **named)


def _expanded(w: W, node: N, number: Any, shape: str | None) -> str:
    dtype = w.dtype(node)
    made = w.name(number, dtype)
    return made if shape is None else w.add("Expand", [made, shape])


def tensor(w: W, node: N, data: Any, *args: Any, **kwargs: Any) -> str:
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


def arange(w: W, node: N, *ends: Any, start: Any = 0, end: Any = None, step: Any = 1, **_: Any):
    match ends:
        case (only,):
            end = only
        case (start, end):
            pass
        case (start, end, step):
            pass
        case _:
            pass
    dtype = w.dtype(node)
    return w.add("Range", [w.name(each, dtype) for each in (start, end, step)])


def eye(w: W, node: N, rows: Any, columns: Any = None, **_: Any) -> str:
    dtype = w.dtype(node)
    sizes = w.shape([rows, rows if columns is None else columns])
    blank = w.add("Expand", [w.name(0, dtype), sizes])
    return w.add("EyeLike", [blank])


def one_hot(w: W, node: N, x: Any, num_classes: Any = -1) -> str:
    if num_classes == -1:
        raise NotMapped("one_hot with as many classes as there are in the data")
    ends = w.constant([0, 1])
    return w.add("OneHot", [w.name(x), w.name(num_classes, torch.int64), ends], axis=-1)
