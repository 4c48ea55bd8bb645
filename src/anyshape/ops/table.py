"""All rows, and which row a torch callable belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from anyshape.ops.op import Op
from anyshape.ops.rules import (
    activations,
    attention,
    casts,
    classification_losses,
    comparison,
    complex_numbers,
    convolution,
    copied_views,
    cumulative,
    data_dependent,
    distances,
    dropout,
    einsum,
    embedding,
    factories,
    fourier,
    grids,
    index_operators,
    indexing,
    joining,
    linear_algebra,
    losses,
    matmul,
    normalization,
    padding,
    pointwise,
    pooling,
    random_numbers,
    rearranging,
    recurrent,
    reductions,
    resampling,
    reshaping,
    scattering,
    sequences,
    short_time_fourier,
    sorting,
    splitting,
    statistics,
    views,
)

#: One module a family of operators.
FAMILIES = (
    activations,
    attention,
    casts,
    classification_losses,
    comparison,
    complex_numbers,
    convolution,
    copied_views,
    cumulative,
    data_dependent,
    distances,
    dropout,
    einsum,
    embedding,
    factories,
    fourier,
    grids,
    index_operators,
    indexing,
    joining,
    linear_algebra,
    losses,
    matmul,
    normalization,
    padding,
    pointwise,
    pooling,
    random_numbers,
    rearranging,
    recurrent,
    reductions,
    resampling,
    reshaping,
    scattering,
    sequences,
    short_time_fourier,
    sorting,
    splitting,
    statistics,
    views,
)

ROWS: tuple[Op, ...] = tuple(row for family in FAMILIES for row in family.ROWS)


@dataclass(frozen=True, slots=True)
class Entry:
    """The row behind a callable, and whether the callable is its in-place form."""

    op: Op
    in_place: bool


def resolve(name: str) -> Callable[..., Any] | None:
    """The callable of that dotted name in this torch; None if it has none (names come and go
    between versions)."""
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


@lru_cache(maxsize=1)
def entries() -> dict[Callable[..., Any], Entry]:
    """Callable -> row, for every name of every row that this torch has."""
    found: dict[Callable[..., Any], Entry] = {}
    for op in ROWS:
        for names, in_place in ((op.answers_to, False), (op.in_place, True)):
            for name in names:
                function = resolve(name)
                if function is not None:
                    found.setdefault(function, Entry(op, in_place))
    return found


def lookup(function: Callable[..., Any]) -> Entry | None:
    """The row of a torch callable, or None."""
    return entries().get(function)
