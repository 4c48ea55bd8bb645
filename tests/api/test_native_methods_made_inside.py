"""A method of a native object is returned or kept: it is that of the object of its own call."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape


def next_of_a_list(x: Tensor) -> Any:
    return x * 2, iter([1, 2]).__next__


def next_of_a_callable(x: Tensor) -> Any:
    return x * 2, iter(iter([1, 2, 0]).__next__, 0).__next__


def next_of_a_zip(x: Tensor) -> Any:
    return x * 2, zip([1, 2], [3, 4], strict=True).__next__


def next_of_a_count(x: Tensor) -> Any:
    return x * 2, itertools.count(3).__next__


def pop_of_a_list(x: Tensor) -> Any:
    numbers = [3, 1]
    numbers.append(x.shape[0])
    return numbers, numbers.pop


def pop_of_a_dict(x: Tensor) -> Any:
    return x * 2, {"a": 1}.popitem


def kept_in_a_container(x: Tensor) -> Any:
    return x * 2, {"next": [iter([5]).__next__]}["next"][0]


def of_a_subclass(x: Tensor) -> Any:
    class Numbers(list):
        def pop(self, *args: Any) -> Any:
            return -1

    return x * 2, super(Numbers, Numbers([4])).pop


_CASES = (
    next_of_a_list,
    next_of_a_callable,
    next_of_a_zip,
    next_of_a_count,
    pop_of_a_list,
    pop_of_a_dict,
    kept_in_a_container,
    of_a_subclass,
)


@pytest.mark.parametrize("function", _CASES)
def test_each_call_has_its_own(function: Callable[[Tensor], Any]) -> None:
    compiled = anyshape.compile(function)
    for size in (2, 2, 3, 4, 2):
        x = torch.ones(size)
        expected, found = function(x), compiled(x)
        assert found[1]() == expected[1]()
        assert str(found[0]) == str(expected[0])


def test_one_from_outside_is_the_same() -> None:
    numbers: list[int] = []

    def function(x: Tensor, add: Callable[[int], None]) -> Any:
        return x * 2, add

    compiled = anyshape.compile(function)
    for size in (2, 2, 3, 4):
        compiled(torch.ones(size), numbers.append)[1](size)
    assert numbers == [2, 2, 3, 4]
