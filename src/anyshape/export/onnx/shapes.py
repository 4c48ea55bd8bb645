"""Sizes, and tensors of the same elements in another shape."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.export.onnx.rows import END, N, NotMapped, Row, W, is_node, sizes_in


def size(w: W, node: N, x: Any, dim: Any = None) -> Any:
    shape = w.add("Shape", [w.name(x)])
    if dim is None:
        return [w.add("Gather", [shape, w.constant(at)], axis=0) for at in range(w.rank(x))]
    return w.add("Gather", [shape, w.constant(dim % w.rank(x))], axis=0)


def count(w: W, node: N, x: Any) -> str:
    return w.add("Size", [w.name(x)])


def reshape(w: W, node: N, x: Any, *sizes: Any, shape: Any = None, size: Any = None) -> str:
    given = shape if shape is not None else size
    wanted = sizes_in(sizes) if given is None else given
    if is_node(wanted):
        raise NotMapped("a shape that is computed as a whole")
    if isinstance(wanted[0] if wanted else 0, torch.dtype):
        raise NotMapped("a view of the bytes")
    if not len(wanted):
        return w.add("Reshape", [w.name(x), w.constant(torch.empty(0, dtype=torch.int64))])
    # A size of 0 would otherwise mean "as it was".
    return w.add("Reshape", [w.name(x), w.shape(wanted)], allowzero=int(-1 not in list(wanted)))


def like(row: Row) -> Row:
    """`view_as`, `expand_as`."""
    kinds = {"reshape": "Reshape", "expand": "Expand"}
    kind = kinds[row.__name__]
    return lambda w, node, x, other: w.add(kind, [w.name(x), w.add("Shape", [w.name(other)])])


def flatten(w: W, node: N, x: Any, start_dim: int = 0, end_dim: int = -1) -> str:
    rank = w.rank(x)
    first, last = start_dim % max(rank, 1), end_dim % max(rank, 1)
    return _with_sizes(w, x, first, last + 1, w.constant([-1]))


def unflatten(w: W, node: N, x: Any, dim: int, sizes: Any) -> str:
    at = dim % w.rank(x)
    return _with_sizes(w, x, at, at + 1, w.shape(sizes))


def _with_sizes(w: W, x: Any, first: int, after: int, between: str) -> str:
    """Other sizes in the place of those from `first` to before `after`."""
    rank, shape = w.rank(x), w.add("Shape", [w.name(x)])
    head = [w.add("Slice", [shape, w.constant([0]), w.constant([first])])] if first else []
    tail = (
        [w.add("Slice", [shape, w.constant([after]), w.constant([rank])])] if after < rank else []
    )
    parts = [*head, between, *tail]
    wanted = between if len(parts) == 1 else w.add("Concat", parts, axis=0)
    return w.add("Reshape", [w.name(x), wanted])


def permute(w: W, node: N, x: Any, *dims: Any, **named: Any) -> str:
    rank = w.rank(x)
    order = sizes_in(dims) or named["dims"]
    return w.add("Transpose", [w.name(x)], perm=[dim % rank for dim in order])


def transpose(w: W, node: N, x: Any, dim0: int, dim1: int) -> str:
    order = list(range(w.rank(x)))
    if not order:
        return w.name(x)
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return w.add("Transpose", [w.name(x)], perm=order)


def movedim(w: W, node: N, x: Any, source: Any, destination: Any) -> str:
    rank = w.rank(x)
    given = [[each] if isinstance(each, int) else each for each in (source, destination)]
    to = {new % rank: old % rank for old, new in zip(*given, strict=True)}
    others = iter(dim for dim in range(rank) if dim not in to.values())
    order = [to[dim] if dim in to else next(others) for dim in range(rank)]
    return w.add("Transpose", [w.name(x)], perm=order)


def turned(w: W, node: N, x: Any) -> str:
    """`t()`, and the property `T`."""
    return w.add("Transpose", [w.name(x)], perm=[*range(w.rank(x))][::-1])


def unsqueeze(w: W, node: N, x: Any, dim: int) -> str:
    return w.add("Unsqueeze", [w.name(x), w.constant([dim])])


def squeeze(w: W, node: N, x: Any, dim: Any = None) -> str:
    if not isinstance(dim, int) or w.example(node).dim() == w.rank(x):
        raise NotMapped("a squeeze that may do nothing")
    return w.add("Squeeze", [w.name(x), w.constant([dim])])


def expand(w: W, node: N, x: Any, *sizes: Any, size: Any = None) -> str:
    # 1 broadcasts to whatever is there, which is what -1 means.
    given = sizes_in(sizes) if size is None else size
    wanted = [1 if isinstance(each, int) and each == -1 else each for each in given]
    if not wanted:
        return w.name(x)
    return w.add("Expand", [w.name(x), w.shape(wanted)])


def repeat(w: W, node: N, x: Any, *times: Any, repeats: Any = None) -> str:
    wanted = sizes_in(times) if repeats is None else repeats
    found, more = w.name(x), len(wanted) - w.rank(x)
    if more:
        found = w.add("Unsqueeze", [found, w.constant(list(range(more)))])
    return w.add("Tile", [found, w.shape(wanted)])


def repeat_interleave(w: W, node: N, x: Any, repeats: Any, dim: Any = None, **named: Any) -> str:
    if isinstance(w.example(repeats), torch.Tensor) or dim is None:
        raise NotMapped("repeat_interleave by a tensor, or of everything")
    at, rank = dim % w.rank(x), w.rank(x)
    apart = w.add("Unsqueeze", [w.name(x), w.constant([at + 1])])
    sizes = [repeats if each == at + 1 else 1 for each in range(rank + 1)]
    copied = w.add("Expand", [apart, w.shape(sizes)])
    shape = w.add("Shape", [w.name(x)])
    head = w.add("Slice", [shape, w.constant([0]), w.constant([at])])
    tail = w.add("Slice", [shape, w.constant([at + 1]), w.constant([rank])])
    # Not -1: that is no size of an empty tensor.
    own = w.add("Slice", [shape, w.constant([at]), w.constant([at + 1])])
    longer = w.add("Mul", [own, w.shape([repeats])])
    wanted = w.add("Concat", [head, longer, tail], axis=0)
    return w.add("Reshape", [copied, wanted], allowzero=1)


def cat(w: W, node: N, tensors: Any, dim: int = 0) -> str:
    dtype, rank = w.dtype(node), w.rank(node)
    # torch passes over empty tensors of one dimension, whatever the others are.
    joined = [each for each in tensors if w.rank(each) == rank]
    return w.add("Concat", [w.name(each, dtype) for each in joined], axis=dim)


def stack(w: W, node: N, tensors: Any, dim: int = 0) -> str:
    at, dtype = dim % w.rank(node), w.dtype(node)
    parts = [w.add("Unsqueeze", [w.name(each, dtype), w.constant([at])]) for each in tensors]
    return w.add("Concat", parts, axis=at)


def split(w: W, node: N, x: Any, size: Any, dim: int = 0) -> list[str]:
    if isinstance(size, int):
        # As many parts as a guard of the program fixed; the last one is what is left.
        size = [*[size] * (len(w.example(node)) - 1), END]
    if is_node(size) or any(is_node(each) for each in size):
        raise NotMapped("a split into parts whose size is computed")
    starts = [sum(size[:at]) for at in range(len(size))]
    return [
        w.add(
            "Slice", [w.name(x), w.constant([start]), w.constant([start + each]), w.constant([dim])]
        )
        for start, each in zip(starts, size, strict=True)
    ]


def chunk(w: W, node: N, x: Any, chunks: int, dim: int = 0) -> list[str]:
    if w.example(x).shape[dim] % chunks:
        raise NotMapped("chunks of different sizes")
    return w.several("Split", [w.name(x)], chunks, axis=dim, num_outputs=chunks)


def unbind(w: W, node: N, x: Any, dim: int = 0) -> list[str]:
    parts = len(w.example(node))
    return [w.add("Gather", [w.name(x), w.constant(at)], axis=dim) for at in range(parts)]


def flip(w: W, node: N, x: Any, *dims: Any) -> str:
    axes = list(sizes_in(dims))
    ends = [w.constant([number] * len(axes)) for number in (-1, -END, -1)]
    return w.add("Slice", [w.name(x), *ends[:2], w.constant(axes), ends[2]])


def pad(w: W, node: N, x: Any, pad: Any, mode: str = "constant", value: Any = None) -> str:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode not in modes:
        raise NotMapped(f"padding of mode {mode}")
    before, after = list(pad[0::2]), list(pad[1::2])
    axes = [-1 - at for at in range(len(before))]
    inputs = [w.name(x), w.shape([*before, *after])]
    filler = w.name(0 if value is None else value, w.dtype(node)) if mode == "constant" else ""
    return w.add("Pad", [*inputs, filler, w.constant(axes)], mode=modes[mode])


def attribute(w: W, node: N, x: Any, name: str) -> Any:
    """What is read of a tensor, or by name of several results."""
    found = w.values.get(x)
    fields = getattr(type(w.example(x)), "_fields", None) or _FIELDS.get(type(w.example(x)), ())
    if isinstance(found, list) and name in fields:
        return found[fields.index(name)]
    row = {"T": turned, "mT": lambda w, node, x: transpose(w, node, x, -1, -2)}.get(name)
    if row is None:
        raise NotMapped(f"the attribute `{name}`")
    return row(w, node, x)


_FIELDS: dict[type, tuple[str, ...]] = {
    getattr(torch.return_types, kind): ("values", "indices")
    for kind in ("max", "min", "topk", "sort")
}
