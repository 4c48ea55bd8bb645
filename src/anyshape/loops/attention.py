"""A kernel that is attention: its one stage has parts by their names, which only code for it knows.

    out[q, e] = sum over k of softmax over k of (score of (query[q] . key[k])) * value[k, e]

The last axis of the kernel is that of queries, the stage's are those of keys, of what is multiplied
and of values. Parts are written as folds, so that whatever renames and rewrites kernels takes them
along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from anyshape.loops import expr
from anyshape.loops.expr import Axis, Dtype, Scalar
from anyshape.loops.kernels import Fold, Kernel, Stage, Store
from anyshape.loops.stages import finished
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Size

#: Columns of queries, keys and values, at most, that a GPU's registers hold sums of: of halves by
#: tensor cores, which take so many at a time, and of others.
MOST_COLUMNS_ON_GPUS: Final = 256
MOST_PLAIN_COLUMNS_ON_GPUS: Final = 128
CHUNK: Final = 8
#: Keys of a tile, on the processor.
TILE: Final = 96
#: Rows that stand for what a stage computes itself.
PRODUCT: Final = "%product"
MEAN: Final = "%mean"
LOGSUMEXP: Final = "%logsumexp"
LARGEST: Final = "%largest"
#: Private memory of a vector of queries: itself, the scores of a tile, weighted values.
KEPT_QUERY: Final = "queries"
KEPT_SCORES: Final = "scores"
KEPT_SUMS: Final = "sums"
#: the fold of parts, and of those where rows without a key are zeros, not NaN
_FOLD: Final = "attention"
_FOLD_OF_ZEROS: Final = "attention or zero"


@dataclass(frozen=True, slots=True)
class AttentionParts:
    query: Scalar
    key: Scalar
    value: Scalar
    #: of `product`
    score: Scalar
    #: the row that stands for the product of a query and a key
    product: Scalar
    #: where scores count
    seen: Scalar | None
    #: whether all values of a batch are finite, which is the same for all queries and keys: then
    #: tiles that are not seen may be left out
    finite: Scalar | None
    is_zero_if_empty: bool


def attention_kernel(
    axes: Sequence[Axis],
    inner: tuple[Axis, Axis, Axis],
    parts: AttentionParts,
    results: Mapping[str, tuple[str, Size, Dtype]],
) -> Kernel:
    """`inner`: the axes of keys, depth and width. `results`: by the row that is stored, a buffer,
    an address and a dtype."""
    fold = _FOLD_OF_ZEROS if parts.is_zero_if_empty else _FOLD
    named = {
        name: scalar
        for name in ("query", "key", "value", "score", "product", "seen", "finite")
        if (scalar := getattr(parts, name)) is not None
    }
    folds = tuple(Fold(name, fold, scalar, scalar.dtype) for name, scalar in named.items())
    free = frozenset(axis.symbol for axis in axes)
    stores = tuple(
        Store(buffer, address, expr.row(row, dtype, free))
        for row, (buffer, address, dtype) in results.items()
    )
    _, depth, width = inner
    dtype = parts.product.dtype
    private: dict[str, tuple[Dtype, Size]] = {
        KEPT_QUERY: (dtype, depth.extent),
        KEPT_SCORES: (dtype, TILE),
        KEPT_SUMS: (dtype, width.extent),
    }
    kernel = finished(tuple(axes), [Stage(inner, stores, folds)], private=private)
    return replace(kernel, attends=True)


def parts_of(kernel: Kernel) -> AttentionParts:
    (stage,) = kernel.stages
    named = {fold.name: fold.value for fold in stage.folds}
    return AttentionParts(
        query=named["query"],
        key=named["key"],
        value=named["value"],
        score=named["score"],
        product=named["product"],
        seen=named.get("seen"),
        finite=named.get("finite"),
        is_zero_if_empty=stage.folds[0].fold == _FOLD_OF_ZEROS,
    )
