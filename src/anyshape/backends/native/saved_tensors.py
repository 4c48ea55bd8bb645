"""What a forward function saves for its backward, and whether it is still what it was."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

storage_of: Callable[[torch.Tensor], int] = vars(torch._C)["_storage_id"]


def not_of(outputs: Sequence[Any], values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same memory and versions, but no outputs: torch gives those back all at once only."""
    own = {id(each) for each in outputs}
    return [each.detach() if id(each) in own else each for each in values]


def unpacked(ctx: Any, reads: Collection[int]) -> tuple[Sequence[torch.Tensor], frozenset[int]]:
    """What torch has saved, and the places of what was changed meanwhile. It raises what torch does
    if that is to be read; before torch 2.12 also if it is not."""
    found: list[torch.Tensor] = []
    changed: set[int] = set()
    saved = ctx._raw_saved_tensors
    if saved and not hasattr(saved[0], "unpack"):
        return ctx.saved_tensors, frozenset()
    for place, each in enumerate(saved):
        try:
            found.append(each.unpack())
        except RuntimeError:
            if place in reads:
                raise
            found.append(each.data)
            changed.add(place)
    return found, frozenset(changed)


def versions_of(inputs: Sequence[Any], watched: Sequence[int]) -> list[int | None]:
    try:
        return [inputs[number]._version for number in watched]
    except RuntimeError:
        return [_version(inputs[number]) for number in watched]


def _version(value: torch.Tensor) -> int | None:
    return None if value.is_inference() else value._version


def check_versions(
    inputs: Sequence[Any], watched: Sequence[int], versions: Sequence[int | None]
) -> None:
    if versions_of(inputs, watched) != versions:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            "operation: gradients of gradients run the compiled graph again, on its inputs as they "
            "were"
        )


def memory_of(inputs: Sequence[Any], needed: Sequence[int]) -> list[int] | None:
    """Whose it is; None if some tensor has none."""
    try:
        return [storage_of(inputs[number]) for number in needed]
    except (RuntimeError, NotImplementedError):
        return None


def check_memory(
    inputs: Sequence[Any], needed: Sequence[int], saved: Sequence[Any], before: list[int] | None
) -> None:
    """Torch does not see what is given to `.data`. What a hook has kept is what it was."""
    for number, each, place in zip(needed, saved, before or (), strict=False):
        if each is inputs[number] and storage_of(each) != place:
            raise RuntimeError(
                "one of the variables needed for gradient computation has other memory than in the "
                "forward pass: something was assigned to its `.data`"
            )
