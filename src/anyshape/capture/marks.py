"""What users said about inputs, and where it is kept: on the tensor, in the integer's class, beside
the module's class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakSet

import torch

from anyshape.policy.decide import Mark, MarkKind

#: The attribute of a tensor that marks are kept in, by dimension. As plain values: `torch.save`
#: writes what a tensor has, and whoever loads it may know nothing of this package.
MARKS: Final = "_anyshape_marks"

#: Classes of modules whose tensors and integers are static. Not an attribute of them: a class that
#: changes makes guards look again.
static_modules: Final[WeakSet[type]] = WeakSet()

Kept = tuple[str, int | None, int | None]


def as_kept(mark: Mark) -> Kept:
    return mark.kind.value, mark.min, mark.max


def _read(kept: Kept) -> Mark:
    kind, low, high = kept
    return Mark(MarkKind(kind), low, high)


_STATIC: Final = Mark(MarkKind.STATIC)
_DYNAMIC_INT: Final[Mapping[int, Mark]] = {0: Mark(MarkKind.INTEGER)}
_NO_MARKS: Final[Mapping[int, Mark]] = {}


def marks_of(tensor: torch.Tensor, owner: type | None) -> Mapping[int, Mark]:
    """The marks of a tensor that was found on a module of the class `owner`, or on none. Its own
    marks count more than those of the class."""
    held = tensor.__dict__
    kept: Mapping[int, Kept] | None = held.get(MARKS)
    own = _NO_MARKS if kept is None else {dim: _read(each) for dim, each in kept.items()}
    if not held.keys().isdisjoint(_KINDS_OF_TORCH):
        own = {**_of_torch(held), **own}
    if not _is_static(owner):
        return own
    return {**dict.fromkeys(range(tensor.dim()), _STATIC), **own}


#: What torch's own functions of these names set, which programs go on to call.
_KINDS_OF_TORCH: Final = {
    "_dynamo_weak_dynamic_indices": MarkKind.MAYBE_DYNAMIC,
    "_dynamo_dynamic_indices": MarkKind.DYNAMIC,
    "_dynamo_unbacked_indices": MarkKind.UNBACKED,
    "_dynamo_static_indices": MarkKind.STATIC,
}


def _of_torch(held: Mapping[str, Any]) -> dict[int, Mark]:
    ranges = {each.dim: each for each in held.get("_dynamo_dynamic_range", ())}
    found: dict[int, Mark] = {}
    for name, kind in _KINDS_OF_TORCH.items():
        for dim in held.get(name, ()):
            known = ranges.get(dim) if kind is MarkKind.DYNAMIC else None
            low, high = (None, None) if known is None else (known.min, known.max)
            found[dim] = Mark(kind, 0 if kind is MarkKind.UNBACKED else low, high)
    return found


def marks_of_int(is_dynamic: bool, owner: type | None) -> Mapping[int, Mark]:
    if is_dynamic:
        return _DYNAMIC_INT
    return {0: _STATIC} if _is_static(owner) else _NO_MARKS


def _is_static(owner: type | None) -> bool:
    return owner is not None and any(map(static_modules.__contains__, owner.__mro__))
