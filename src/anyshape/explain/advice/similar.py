"""Graphs that differ in nothing but sizes and integers: one dynamic graph could be all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from anyshape.events.kinds import GuardFailure, GuardSaid
from anyshape.explain.advice.history import Compile, FunctionHistory
from anyshape.explain.guard_texts import BY_GUARD, of_guard, tensor_fields


def are_similar(a: Compile, b: Compile) -> bool:
    """The same operators in the same order, on the same tensors."""
    return (a.operators, a.inputs) == (b.operators, b.inputs)


def differ_in_sizes_only(a: Compile, b: Compile) -> bool:
    """Similar, and what they rely on beside sizes is the same."""
    return are_similar(a, b) and _signature(a) == _signature(b)


def _signature(compiled: Compile) -> object:
    if compiled.signature is None:
        guards = _non_shape_guards(compiled).items()
        compiled.signature = frozenset((key, _text_without_sizes(guard)) for key, guard in guards)
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


# -- what tells two entries apart, sizes aside -----------------------------------------------------

_SIZES: Final = re.compile(r"(?<=, )(?:size|stride)=\[[^\]]*\](?:, )?")


#: There may be several of one object: each stands for itself.
_SEVERAL: Final = frozenset({"NO_ATTRIBUTE", "NOT_HASATTR", "DICT_CONTAINS", "PREDICATE"})


def _non_shape_guards(compiled: Compile) -> dict[tuple[str, str], GuardSaid]:
    """The guards that are not about sizes and integers, by what they look at."""
    return {
        (guard.kind, guard.text if guard.kind in _SEVERAL else guard.source): guard
        for guard in compiled.guards
        if guard.kind != "SHAPE_GUARD" and guard.source not in compiled.decisions
    }


def _text_without_sizes(guard: GuardSaid) -> str:
    return _SIZES.sub("", guard.text) if guard.kind == "TENSOR_MATCH" else guard.text


def differences(entry: Compile, compiled: Compile) -> Iterator[GuardFailure]:
    """Where the guards of two entries differ, other than in sizes."""
    theirs = _non_shape_guards(compiled)
    for key, guard in _non_shape_guards(entry).items():
        other = theirs.get(key)
        if other is None or _text_without_sizes(other) == _text_without_sizes(guard):
            continue
        if guard.kind == "TENSOR_MATCH":
            yield from _tensor_differences(guard, other, entry.id)
        elif guard.kind in BY_GUARD:
            actual = other.text.partition(" == ")[2] or other.text
            yield of_guard(guard, actual, GuardFailure(entry.id, f"{guard.text}, {actual}"))


def _tensor_differences(
    guard: GuardSaid, other: GuardSaid, entry_id: str
) -> Iterator[GuardFailure]:
    theirs = tensor_fields(other.text, "order")
    for name, expected in tensor_fields(guard.text, "order").items():
        actual = theirs.get(name, "")
        if actual != expected and name not in ("size", "stride"):
            text = f"tensor {guard.source} {name} mismatch. expected {expected}, actual {actual}"
            fields = (name, guard.source, expected, actual)
            yield GuardFailure(entry_id, text, guard.user_frame, *fields)
