"""Reductions, and what runs along a dimension."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.export.onnx.rows import END, N, NotMapped, Row, W, is_node


def _axes(w: W, dim: Any) -> list[str]:
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return [w.constant(dims)] if dims else []


def reduce(kind: str) -> Row:
    def row(
        w: W, node: N, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> str:
        return w.add(kind, [w.name(x, w.dtype(node)), *_axes(w, dim)], keepdims=int(bool(keepdim)))

    return row


def truth(kind: str) -> Row:
    """`all` and `any`: the least and the most of zeros and ones."""

    def row(w: W, node: N, x: Any, dim: Any = None, keepdim: bool = False) -> str:
        numbers = w.cast(w.name(x, torch.bool), torch.int32)
        found = w.add(kind, [numbers, *_axes(w, dim)], keepdims=int(bool(keepdim)))
        return w.cast(found, torch.bool)

    return row


def extreme(kind: str) -> Row:
    """`max` and `min`: of everything, along a dimension (with places), or of two tensors."""

    def row(w: W, node: N, x: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        if is_node(dim) and isinstance(w.example(dim), torch.Tensor):
            return w.add(kind, [w.name(x, w.dtype(node)), w.name(dim, w.dtype(node))])
        if named:
            raise NotMapped(f"`{kind}` with {', '.join(named)}")
        if dim is None:
            return w.add(f"Reduce{kind}", [w.name(x)], keepdims=0)
        keep = int(keepdim)
        values = w.add(f"Reduce{kind}", [w.name(x), w.constant([dim])], keepdims=keep)
        return [values, w.add(f"Arg{kind}", [w.name(x)], axis=dim, keepdims=keep)]

    return row


def place_of_extreme(kind: str) -> Row:
    def row(w: W, node: N, x: Any, dim: Any = None, keepdim: bool = False) -> str:
        if dim is None:
            if keepdim:
                raise NotMapped(f"{kind} over all dimensions that keeps them")
            flat = w.add("Reshape", [w.name(x), w.constant([-1])])
            return w.add(kind, [flat], axis=0, keepdims=0)
        return w.add(kind, [w.name(x)], axis=dim, keepdims=int(keepdim))

    return row


def variance(root: bool) -> Row:
    """`var` and `std`."""

    def row(
        w: W,
        node: N,
        x: Any,
        dim: Any = None,
        unbiased: Any = None,
        keepdim: bool = False,
        *,
        correction: Any = 1,
    ) -> str:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        less = correction if unbiased is None else int(unbiased)
        dtype, axes = w.dtype(node), _axes(w, dim)
        apart = w.add("Sub", [w.name(x), w.add("ReduceMean", [w.name(x), *axes], keepdims=1)])
        total = w.add(
            "ReduceSum", [w.add("Mul", [apart, apart]), *axes], keepdims=int(bool(keepdim))
        )
        ones = w.add("Expand", [w.name(1, dtype), w.add("Shape", [w.name(x)])])
        count = w.add("ReduceSum", [ones, *axes], keepdims=int(bool(keepdim)))
        # torch divides by 0 at least.
        divisor = w.add("Max", [w.add("Sub", [count, w.name(less, dtype)]), w.name(0, dtype)])
        found = w.add("Div", [total, divisor])
        return w.add("Sqrt", [found]) if root else found

    return row


def cumulated(w: W, node: N, x: Any, dim: Any, *args: Any, **kwargs: Any) -> str:
    return w.add("CumSum", [w.name(x, w.dtype(node)), w.constant(dim)])


def differences(
    w: W, node: N, x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None
) -> str:
    if n != 1:
        raise NotMapped("differences of differences")
    dtype = w.dtype(node)
    parts = [w.name(each, dtype) for each in (prepend, x, append) if each is not None]
    whole = parts[0] if len(parts) == 1 else w.add("Concat", parts, axis=dim)
    axis = w.constant([dim])
    later = w.add("Slice", [whole, w.constant([1]), w.constant([END]), axis])
    earlier = w.add("Slice", [whole, w.constant([0]), w.constant([-1]), axis])
    return w.add("Xor" if dtype is torch.bool else "Sub", [later, earlier])


def top(w: W, node: N, x: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True):
    return w.several(
        "TopK", [w.name(x), w.shape([k])], 2, axis=dim, largest=int(largest), sorted=int(sorted)
    )


def sort(w: W, node: N, x: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    axis = w.constant([dim % max(w.rank(x), 1)])
    size = w.add("Gather", [w.add("Shape", [w.name(x)]), axis], axis=0)
    return w.several("TopK", [w.name(x), size], 2, axis=dim, largest=int(descending), sorted=1)


def argsort(w: W, node: N, x: Any, dim: int = -1, descending: bool = False) -> str:
    return sort(w, node, x, dim, descending)[1]


def triangle(upper: bool) -> Row:
    def row(w: W, node: N, x: Any, diagonal: Any = 0) -> str:
        return w.add("Trilu", [w.name(x), w.name(diagonal, torch.int64)], upper=int(upper))

    return row


def norm(w: W, node: N, x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, **named: Any):
    kinds = {1: "ReduceL1", 2: "ReduceL2", "fro": "ReduceL2"}
    if p not in kinds or any(each is not None for each in named.values()):
        raise NotMapped(f"a norm of order {p}")
    return w.add(kinds[p], [w.name(x), *_axes(w, dim)], keepdims=int(bool(keepdim)))
