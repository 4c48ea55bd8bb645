"""Sizes, and tensors of the same elements in another shape."""

from __future__ import annotations

from typing import Any

import torch

from anyshape.export.onnx.rows import END, N, NotMapped, Row, W, is_node


def size(w: W, node: N, x: Any, dim: Any = None) -> Any:
    shape = w.add("Shape", [w.name(x)])
    if dim is None:
        return [w.add("Gather", [shape, w.constant(at)], axis=0) for at in range(w.rank(x))]
    return w.add("Gather", [shape, w.constant(dim % w.rank(x))], axis=0)


def count(w: W, node: N, x: Any) -> str:
    return w.add("Size", [w.name(x)])


def view(w: W, node: N, input: Any, shape: Any, **named: Any) -> str:
    if "dtype" in named or isinstance(shape[0] if shape else 0, torch.dtype):
        raise NotMapped("a view of the bytes")
    return reshape(w, node, input, named.get("size", shape))


def reshape(w: W, node: N, input: Any, shape: Any) -> str:
    if _is_whole(w, shape):
        raise NotMapped("a shape that is computed as a whole")
    if not len(shape):
        return w.add("Reshape", [w.name(input), w.constant(torch.empty(0, dtype=torch.int64))])
    # A size of 0 would otherwise mean "as it was".
    return w.add("Reshape", [w.name(input), w.shape(shape)], allowzero=int(-1 not in list(shape)))


def _is_whole(w: W, sizes: Any) -> bool:
    """Whether the one size that is given is all of them."""
    return len(sizes) == 1 and isinstance(w.example(sizes[0]), tuple | list)


def like(kind: str) -> Row:
    """`view_as`, `expand_as`."""

    def row(w: W, node: N, input: Any, other: Any) -> str:
        return w.add(kind, [w.name(input), w.add("Shape", [w.name(other)])])

    return row


def flatten(w: W, node: N, input: Any, start_dim: int, end_dim: int) -> str:
    rank = w.rank(input)
    first, last = start_dim % max(rank, 1), end_dim % max(rank, 1)
    return _with_sizes(w, input, first, last + 1, w.constant([-1]))


def unflatten(w: W, node: N, input: Any, dim: int, sizes: Any) -> str:
    at = dim % w.rank(input)
    return _with_sizes(w, input, at, at + 1, w.shape(sizes))


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


def permute(w: W, node: N, input: Any, dims: Any) -> str:
    rank = w.rank(input)
    return w.add("Transpose", [w.name(input)], perm=[dim % rank for dim in dims])


def transpose(w: W, node: N, input: Any, dim0: int, dim1: int) -> str:
    order = list(range(w.rank(input)))
    if not order:
        return w.name(input)
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return w.add("Transpose", [w.name(input)], perm=order)


def swapaxes(w: W, node: N, input: Any, axis0: int, axis1: int) -> str:
    return transpose(w, node, input, axis0, axis1)


def transposed_matrices(w: W, node: N, input: Any) -> str:
    """The property `mT`."""
    return transpose(w, node, input, -1, -2)


def movedim(w: W, node: N, input: Any, source: Any, destination: Any) -> str:
    rank = w.rank(input)
    given = [[each] if isinstance(each, int) else each for each in (source, destination)]
    to = {new % rank: old % rank for old, new in zip(*given, strict=True)}
    others = iter(dim for dim in range(rank) if dim not in to.values())
    order = [to[dim] if dim in to else next(others) for dim in range(rank)]
    return w.add("Transpose", [w.name(input)], perm=order)


def turned(w: W, node: N, input: Any) -> str:
    """`t()`, and the property `T`."""
    return w.add("Transpose", [w.name(input)], perm=[*range(w.rank(input))][::-1])


def unsqueeze(w: W, node: N, input: Any, dim: int) -> str:
    return w.add("Unsqueeze", [w.name(input), w.constant([dim])])


def squeeze(w: W, node: N, input: Any, dim: Any) -> str:
    if len(dim) != 1 or not isinstance(dim[0], int) or w.rank(node) == w.rank(input):
        raise NotMapped("a squeeze that may do nothing")
    return w.add("Squeeze", [w.name(input), w.constant([dim[0]])])


def expand(w: W, node: N, input: Any, size: Any) -> str:
    # 1 broadcasts to whatever is there, which is what -1 means.
    wanted = [1 if isinstance(each, int) and each == -1 else each for each in size]
    if not wanted:
        return w.name(input)
    return w.add("Expand", [w.name(input), w.shape(wanted)])


def repeat(w: W, node: N, input: Any, repeats: Any) -> str:
    found, more = w.name(input), len(repeats) - w.rank(input)
    if more:
        found = w.add("Unsqueeze", [found, w.constant(list(range(more)))])
    return w.add("Tile", [found, w.shape(repeats)])


def repeat_interleave(w: W, node: N, input: Any, repeats: Any, dim: Any) -> str:
    if isinstance(w.example(repeats), torch.Tensor) or dim is None:
        raise NotMapped("repeat_interleave by a tensor, or of everything")
    at, rank = dim % w.rank(input), w.rank(input)
    apart = w.add("Unsqueeze", [w.name(input), w.constant([at + 1])])
    sizes = [repeats if each == at + 1 else 1 for each in range(rank + 1)]
    copied = w.add("Expand", [apart, w.shape(sizes)])
    shape = w.add("Shape", [w.name(input)])
    head = w.add("Slice", [shape, w.constant([0]), w.constant([at])])
    tail = w.add("Slice", [shape, w.constant([at + 1]), w.constant([rank])])
    # Not -1: that is no size of an empty tensor.
    own = w.add("Slice", [shape, w.constant([at]), w.constant([at + 1])])
    longer = w.add("Mul", [own, w.shape([repeats])])
    wanted = w.add("Concat", [head, longer, tail], axis=0)
    return w.add("Reshape", [copied, wanted], allowzero=1)


def cat(w: W, node: N, tensors: Any, dim: int) -> str:
    dtype, rank = w.dtype(node), w.rank(node)
    # torch passes over empty tensors of one dimension, whatever the others are.
    joined = [each for each in tensors if w.rank(each) == rank]
    return w.add("Concat", [w.name(each, dtype) for each in joined], axis=dim)


def stack(w: W, node: N, tensors: Any, dim: int) -> str:
    at, dtype = dim % w.rank(node), w.dtype(node)
    parts = [w.add("Unsqueeze", [w.name(each, dtype), w.constant([at])]) for each in tensors]
    return w.add("Concat", parts, axis=at)


def split(w: W, node: N, input: Any, split_size_or_sections: Any, dim: int) -> list[str]:
    size = split_size_or_sections
    if isinstance(size, int):
        # As many parts as a guard of the program fixed; the last one is what is left.
        size = [*[size] * (len(w.example(node)) - 1), END]
    if is_node(size) or any(is_node(each) for each in size):
        raise NotMapped("a split into parts whose size is computed")
    starts = [sum(size[:at]) for at in range(len(size))]
    return [
        w.add(
            "Slice",
            [w.name(input), w.constant([start]), w.constant([start + each]), w.constant([dim])],
        )
        for start, each in zip(starts, size, strict=True)
    ]


def chunk(w: W, node: N, input: Any, chunks: int, dim: int) -> list[str]:
    if w.example(input).shape[dim] % chunks:
        raise NotMapped("chunks of different sizes")
    return w.several("Split", [w.name(input)], chunks, axis=dim, num_outputs=chunks)


def unbind(w: W, node: N, input: Any, dim: int) -> list[str]:
    parts = len(w.example(node))
    return [w.add("Gather", [w.name(input), w.constant(at)], axis=dim) for at in range(parts)]


def flip(w: W, node: N, input: Any, dims: Any) -> str:
    axes = list(dims)
    ends = [w.constant([number] * len(axes)) for number in (-1, -END, -1)]
    return w.add("Slice", [w.name(input), *ends[:2], w.constant(axes), ends[2]])


def pad(w: W, node: N, input: Any, pad: Any, mode: str, value: Any) -> str:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode not in modes:
        raise NotMapped(f"padding of mode {mode}")
    before, after = list(pad[0::2]), list(pad[1::2])
    axes = [-1 - at for at in range(len(before))]
    inputs = [w.name(input), w.shape([*before, *after])]
    filler = w.name(0 if value is None else value, w.dtype(node)) if mode == "constant" else ""
    return w.add("Pad", [*inputs, filler, w.constant(axes)], mode=modes[mode])


def field(w: W, x: Any, name: str) -> str | None:
    """What is read by name of several results."""
    found = w.values.get(x)
    fields = getattr(type(w.example(x)), "_fields", None) or _FIELDS.get(type(w.example(x)), ())
    return found[fields.index(name)] if isinstance(found, list) and name in fields else None


_FIELDS: dict[type, tuple[str, ...]] = {
    getattr(torch.return_types, kind): ("values", "indices")
    for kind in ("max", "min", "topk", "sort")
}
