"""Calls that end in an error of the program are not captured for ever."""

from __future__ import annotations

import pytest
import torch

import anyshape
from anyshape.events import kinds, stream


def test_captures_of_raising_calls_become_rare() -> None:
    begun: list[object] = []

    @anyshape.compile
    def checked(x: torch.Tensor, wrong: bool) -> torch.Tensor:
        y = x * 2 + 1
        if wrong:
            raise ValueError("wrong")
        return y

    unsubscribe = stream.subscribe(begun.append, [kinds.FrameStart])
    try:
        for number in range(200):
            with pytest.raises(ValueError, match="wrong"):
                checked(torch.ones(3 + number % 5), True)
        assert 8 <= len(begun) <= 8 + 9

        # What does not raise is compiled soon.
        for number in range(6):
            assert checked(torch.ones(2 + number), False).tolist() == [3.0] * (2 + number)
    finally:
        unsubscribe()
    assert checked.stats().graphs >= 1
    hits = checked.stats().hits
    assert checked(torch.ones(9), False).tolist() == [3.0] * 9
    assert checked.stats().hits == hits + 1
