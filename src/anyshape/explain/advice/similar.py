"""Graphs that differ in nothing but sizes and integers: one dynamic graph could be all of them."""

from __future__ import annotations

from anyshape.explain.advice.failures import non_shape_guards, text_without_sizes
from anyshape.explain.advice.history import Compile, FunctionHistory


def are_similar(a: Compile, b: Compile) -> bool:
    """The same operators in the same order, on the same tensors."""
    return (a.operators, a.inputs) == (b.operators, b.inputs)


def differ_in_sizes_only(a: Compile, b: Compile) -> bool:
    """Similar, and what they rely on beside sizes is the same."""
    return are_similar(a, b) and _signature(a) == _signature(b)


def _signature(compiled: Compile) -> object:
    if compiled.signature is None:
        said = {key: text_without_sizes(guard) for key, guard in non_shape_guards(compiled).items()}
        compiled.signature = frozenset(said.items())
    return compiled.signature


def nearest(function: FunctionHistory, compiled: Compile) -> tuple[Compile, bool] | None:
    """The earlier entry that comes closest to having served the call, and whether only sizes are
    between them; the latest of those that are equally close."""
    earlier: list[Compile] = []
    for each in function.compiles:
        if each is compiled:
            break
        if each.id in compiled.reasons:
            earlier.append(each)
    for entry in reversed(earlier):
        if differ_in_sizes_only(entry, compiled):
            return entry, True
    for entry in reversed(earlier):
        if are_similar(entry, compiled):
            return entry, False
    return (earlier[-1], False) if earlier else None
