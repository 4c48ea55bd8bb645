"""Reductions, and what runs along a dimension."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.export.onnx.rows import END, N, NotMapped, Row, W, is_node


def _axes(w: W, dim: Any) -> list[str]:
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return [w.constant(dims)] if dims else []


def reduce(kind: str) -> Row:
    def row(w: W, node: N, input: Any, dim: Any, keepdim: bool) -> str:
        return w.add(
            kind, [w.name(input, w.dtype(node)), *_axes(w, dim)], keepdims=int(bool(keepdim))
        )

    return row


def truth(kind: str) -> Row:
    """`all` and `any`: the least and the most of zeros and ones."""

    def row(w: W, node: N, input: Any, dim: Any, keepdim: bool) -> str:
        numbers = w.cast(w.name(input, torch.bool), torch.int32)
        found = w.add(kind, [numbers, *_axes(w, dim)], keepdims=int(bool(keepdim)))
        return w.cast(found, torch.bool)

    return row


def extreme(kind: str) -> Row:
    """`max` and `min`: of everything, along a dimension (with places), or of two tensors."""

    def row(w: W, node: N, input: Any, dim: Any, keepdim: bool, other: Any) -> Any:
        if is_node(dim) and isinstance(w.example(dim), torch.Tensor):
            other = dim
        if other is not None:
            return w.add(kind, [w.name(input, w.dtype(node)), w.name(other, w.dtype(node))])
        if dim is None:
            return w.add(f"Reduce{kind}", [w.name(input)], keepdims=0)
        keep = int(keepdim)
        values = w.add(f"Reduce{kind}", [w.name(input), w.constant([dim])], keepdims=keep)
        return [values, w.add(f"Arg{kind}", [w.name(input)], axis=dim, keepdims=keep)]

    return row


def place_of_extreme(kind: str) -> Row:
    def row(w: W, node: N, input: Any, dim: Any, keepdim: bool) -> str:
        if dim is None:
            if keepdim:
                raise NotMapped(f"{kind} over all dimensions that keeps them")
            flat = w.add("Reshape", [w.name(input), w.constant([-1])])
            return w.add(kind, [flat], axis=0, keepdims=0)
        return w.add(kind, [w.name(input)], axis=dim, keepdims=int(keepdim))

    return row


def variance(root: bool) -> Row:
    """`var` and `std`."""

    def row(
        w: W, node: N, input: Any, dim: Any, unbiased: bool, keepdim: bool, correction: Any
    ) -> str:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        less = int(unbiased) if correction is None else correction
        dtype, axes, keep = w.dtype(node), _axes(w, dim), int(bool(keepdim))
        mean = w.add("ReduceMean", [w.name(input), *axes], keepdims=1)
        apart = w.add("Sub", [w.name(input), mean])
        total = w.add("ReduceSum", [w.add("Mul", [apart, apart]), *axes], keepdims=keep)
        ones = w.add("Expand", [w.name(1, dtype), w.add("Shape", [w.name(input)])])
        count = w.add("ReduceSum", [ones, *axes], keepdims=keep)
        # torch divides by 0 at least.
        divisor = w.add("Max", [w.add("Sub", [count, w.name(less, dtype)]), w.name(0, dtype)])
        found = w.add("Div", [total, divisor])
        return w.add("Sqrt", [found]) if root else found

    return row


def cumulated(w: W, node: N, input: Any, dim: Any) -> str:
    return w.add("CumSum", [w.name(input, w.dtype(node)), w.constant(dim)])


def differences(w: W, node: N, input: Any, n: int, dim: int, prepend: Any, append: Any) -> str:
    if n != 1:
        raise NotMapped("differences of differences")
    dtype = w.dtype(node)
    parts = [w.name(each, dtype) for each in (prepend, input, append) if each is not None]
    whole = parts[0] if len(parts) == 1 else w.add("Concat", parts, axis=dim)
    axis = w.constant([dim])
    later = w.add("Slice", [whole, w.constant([1]), w.constant([END]), axis])
    earlier = w.add("Slice", [whole, w.constant([0]), w.constant([-1]), axis])
    return w.add("Xor" if dtype is torch.bool else "Sub", [later, earlier])


def top(w: W, node: N, input: Any, k: Any, dim: int, largest: bool, sorted: bool) -> list[str]:
    return w.several(
        "TopK",
        [w.name(input), w.shape([k])],
        2,
        axis=dim,
        largest=int(largest),
        sorted=int(sorted),
    )


def sort(w: W, node: N, input: Any, dim: int, descending: bool, stable: Any) -> list[str]:
    axis = w.constant([dim % max(w.rank(input), 1)])
    size = w.add("Gather", [w.add("Shape", [w.name(input)]), axis], axis=0)
    return w.several("TopK", [w.name(input), size], 2, axis=dim, largest=int(descending), sorted=1)


def argsort(w: W, node: N, input: Any, dim: int, descending: bool) -> str:
    return sort(w, node, input, dim, descending, None)[1]


def triangle(upper: bool) -> Row:
    def row(w: W, node: N, input: Any, diagonal: Any) -> str:
        return w.add("Trilu", [w.name(input), w.name(diagonal, torch.int64)], upper=int(upper))

    return row


def norm(w: W, node: N, input: Any, p: Any, dim: Any, keepdim: bool) -> str:
    kinds = {1: "ReduceL1", 2: "ReduceL2", "fro": "ReduceL2"}
    if p not in kinds:
        raise NotMapped(f"a norm of order {p}")
    inputs = [w.name(input, w.dtype(node)), *_axes(w, dim)]
    return w.add(kinds[p], inputs, keepdims=int(bool(keepdim)))


def linalg_norm(w: W, node: N, input: Any, ord: Any, dim: Any, keepdim: bool) -> str:
    """Of a vector, or of all elements: numbers mean something else for matrices."""
    count = w.rank(input) if dim is None else 1 if isinstance(dim, int) else len(dim)
    if ord is not None and ord != "fro" and count != 1:
        raise NotMapped(f"a norm of order {ord}")
    return norm(w, node, input, 2 if ord is None else ord, dim, keepdim)
