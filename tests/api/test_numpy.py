"""Numpy on numbers, and small arrays that become tensors, in compiled functions."""

# The functions below are what users write, not what we would.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import anyshape
from tests.api.programs import check, numbers
from tests.zoo.compare import difference

PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function.__name__] = function
    return function


@program
def numbers_of_numpy(x):
    width = int(np.floor(x.shape[1] / 2))
    y = x[:, :width] * float(np.sqrt(16)) + int(np.prod([2, 3])) + np.pi
    return y / np.sqrt(x.shape[1]), x * np.float32(0.5), np.ceil(2.5) - x, x + np.int64(3)


@program
def arrays_become_tensors(x):
    a = x + torch.from_numpy(np.linspace(0, 1, 4)).float()
    b = x * torch.tensor(np.arange(4), dtype=torch.float32)
    c = torch.as_tensor(np.array([[1.0, 2.0], [3.0, 4.0]])), torch.tensor(np.array([True, False]))
    d = torch.from_numpy(np.zeros(4, dtype=np.int16)), torch.tensor(np.array(2.5))
    return a, b, c, d


@program
def tensors_of_arrays_are_written_to_in_graphs(x):
    a = torch.tensor(np.ones(4))
    a += 1
    return x + a, a


@pytest.mark.parametrize("name", PROGRAMS)
def test_numpy(name: str) -> None:
    check(PROGRAMS[name])


def test_numbers_that_depend_on_sizes_are_guarded() -> None:
    def f(x):
        if np.isnan(x.shape[0]) or int(np.maximum(x.shape[0], 4)) > 4:
            return x * int(np.cumsum([1, x.shape[0]])[1])
        return x.reshape(int(np.prod(x.shape)))

    check(f, graphs=None)


@pytest.mark.parametrize("value", [np.float32, np.float64, np.int64, np.int8, np.bool_, np.float16])
def test_scalars_from_outside_are_guarded(value: Any) -> None:
    def f(x, k):
        return x * k, k * x, torch.add(x, k)

    compiled = anyshape.compile(f)
    for number in (0, 1, 1, 0, 1):
        for size in (3, 5):
            args = numbers(size), value(number)
            problem = difference(compiled(*args), f(*args))
            assert not problem, problem


def test_an_array_that_shares_memory_and_is_written_to() -> None:
    def f(x):
        array = np.ones(4)
        tensor = torch.from_numpy(array)
        array[0] = 5.0
        return x + tensor

    def g(x):
        array = np.ones(4)
        tensor = torch.from_numpy(array)
        tensor += 1
        return x + float(array[0])

    for function in (f, g):
        compiled = anyshape.compile(function)
        for size in (3, 3, 5):
            assert torch.equal(compiled(numbers(size)), function(numbers(size)))


def test_arrays_from_outside_are_read_in_every_run() -> None:
    array = np.ones(4, dtype=np.float32)

    def f(x):
        return x * torch.from_numpy(array)

    compiled = anyshape.compile(f)
    for step in range(4):
        array[:] = step
        assert torch.equal(compiled(numbers(3)), f(numbers(3)))


def test_numpy_that_warns() -> None:
    def f(x):
        with np.errstate(divide="ignore"):
            return x + float(np.log(0.0) < 0)

    compiled = anyshape.compile(f)
    for size in (3, 3, 5):
        assert torch.equal(compiled(numbers(size)), f(numbers(size)))


@pytest.mark.parametrize("given", [[1.0], 2, None, "a", (1, 2)])
def test_what_is_no_array(given: Any) -> None:
    compiled = anyshape.compile(lambda x: torch.from_numpy(given) + x)
    for _ in range(3):
        with pytest.raises(TypeError):
            compiled(numbers(3))


def test_arrays_are_new_in_every_run() -> None:
    kept: list[Any] = []

    def f(x):
        made = np.zeros(3)
        kept.append(made)
        return x + 1, np.arange(3), made

    compiled = anyshape.compile(f)
    results = [compiled(numbers(size)) for size in (3, 3, 5, 5)]
    for _, numbers_of, made in results:
        numbers_of[0] = 7
        made[0] = 7
    assert [each[1].tolist() for each in results] == [[7, 1, 2]] * 4
    assert len({id(each) for each in kept}) == 4
    assert all(each[2] is one for each, one in zip(results, kept, strict=True))
    assert compiled(numbers(3))[1].tolist() == [0, 1, 2]


def test_arrays_are_looked_at() -> None:
    def f(x):
        steps = np.linspace(0, 1, x.shape[0])
        total = 0.0
        for step in steps:
            total += float(step)
        steps[0] = 3
        return x * total, len(steps), steps.sum() > 2, (steps * 2).tolist(), steps.shape, str(steps)

    compiled = anyshape.compile(f)
    for size in (3, 3, 4, 5, 4, 3):
        one, other = compiled(numbers(size)), f(numbers(size))
        assert torch.equal(one[0], other[0])
        assert one[1:] == other[1:]
