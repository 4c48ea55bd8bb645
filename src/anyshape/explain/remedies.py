"""What would have spared a recompile, in a line: by what failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anyshape.events.kinds import GuardFailure
from anyshape.explain.source_names import holds
from anyshape.guards.guard import Guard, Kind

_BRANCH: Final = (
    "one formula for both sides of the branch (torch.where, a mask), or anyshape.check(...) if it"
    " always holds; if the sides differ, a graph for each is right"
)

#: By kind of failure.
_REMEDIES: Final = {
    Kind.SIZES.value: _BRANCH,
    "range": "a wider range of the mark, or of the contract",
    "one_symbol": "config.duck_shape = False: equal sizes are told apart then",
    Kind.STATE.value: "calling it under one such state, if one would do",
    Kind.EQUALS.value: "nothing, if it chooses what is computed: a graph for each value is right",
    "dtype": "one dtype, if one would do: convert it before the call",
    "device": "one device, if one would do: move it before the call",
    "requires_grad": "calling it with gradients or without, if one would do",
}
_NUMBER: Final = f"a tensor in its place, if it is computed with; {_REMEDIES[Kind.EQUALS.value]}"
_TRAINING: Final = (
    "nothing, if it both trains and evaluates: a graph for each is right; else model.eval() or"
    " model.train() before the first call"
)


def remedy_of(failure: GuardFailure, spare: str, made: Sequence[Guard]) -> str:
    """`spare` is what would have made the size or integer dynamic, if it was static; `made` are the
    conditions of the entry that was compiled then. Nothing, if there is nothing to say."""
    if spare:
        return _BRANCH if _are_told_apart(failure, made) else spare
    if failure.kind == Kind.EQUALS.value:
        if failure.source.endswith(".training"):
            return _TRAINING
        if failure.expected.lstrip("-")[:1].isdecimal():
            return _NUMBER
    return _REMEDIES.get(failure.kind, "")


def _are_told_apart(failure: GuardFailure, made: Sequence[Guard]) -> bool:
    """Whether the new entry, for which it is dynamic, is not for what it was before."""
    if not failure.expected.lstrip("-").isdecimal():
        return False
    before = {failure.source: int(failure.expected)}
    return any(holds(guard.text, before) is False for guard in made)
