"""A stretch of an `nn.Sequential`, as a function: what stands between modules that run in parts."""

from __future__ import annotations

from typing import Any


def stretch(sequence: Any, first: int, last: int, given: object) -> object:
    """Call the modules of a sequence from number `first` to before number `last`."""
    # By number, as the sequence is now: one of them may replace another.
    for number in range(first, last):
        given = sequence[number](given)
    return given
